"""What a run may use. Safe by default; only an explicit `None` removes a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from go_ent.sandbox.errors import LimitError
from go_ent.sandbox.messages.near_names import did_you_mean, near
from go_ent.sandbox.messages.validation import problems

MIB = 1 << 20
MIN_MEMORY_MB = 48
MAX_MEMORY_MB = 4096
BYTES_PER_VALUE = 200  # of max_call_bytes, for each value that a call's arguments may hold
MIN_CALL_VALUES = 10_000


class Limits(BaseModel):
    """The limits of a run. Frozen, so one object can be shared between threads and sandboxes.

    `None` removes a limit; leaving it out keeps the default. A value out of range raises `LimitError`, and so does a
    run that asks for more than its sandbox allows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, defer_build=True)

    memory_mb: int | None = Field(
        128, ge=MIN_MEMORY_MB, le=MAX_MEMORY_MB, description="memory in MB, including the image's own"
    )
    cpu_s: float | None = Field(
        30.0, gt=0, allow_inf_nan=False, description="CPU seconds of the guest, and of the host reading its messages"
    )
    timeout_s: float | None = Field(
        60.0, gt=0, allow_inf_nan=False, description="wall seconds, including time spent waiting for tools"
    )
    fuel: int | None = Field(
        None, gt=0, lt=1 << 62, description="instructions; the same code uses the same number on any machine"
    )
    max_tool_calls: int | None = Field(1000, ge=0, description="tool calls in one run")
    max_call_bytes: int | None = Field(
        4 * MIB, gt=0, description="bytes of arguments, or of the result, of one tool call"
    )
    max_result_bytes: int | None = Field(MIB, gt=0, description="bytes of the result as JSON")
    max_stdout_bytes: int | None = Field(256 * 1024, ge=0, description="bytes of captured output; the rest is cut")
    max_file_bytes: int | None = Field(16 * MIB, ge=0, description="bytes of all the run's files together")

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            if isinstance(value, bool):
                raise LimitError(f"{name}: a number is needed, not {value!r}")
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise LimitError(_explain(error)) from None

    @classmethod
    def of(cls, limits: Limits | Mapping[str, Any] | None) -> Limits:
        """*limits* as they are, made of a mapping, or the defaults. `LimitError` says what else it takes."""
        if limits is None or isinstance(limits, cls):
            return limits or cls()
        if isinstance(limits, Mapping) and all(isinstance(name, str) for name in limits):
            return cls(**limits)
        raise LimitError(
            f"limits: Limits(cpu_s=5), or a mapping of names like {{'cpu_s': 5}}, is needed, not {limits!r:.80}"
        )

    @property
    def max_call_values(self) -> int | None:
        """How many values the arguments of a call may hold: the host builds and checks each of them."""
        return None if self.max_call_bytes is None else max(MIN_CALL_VALUES, self.max_call_bytes // BYTES_PER_VALUE)

    def narrowed(self, narrower: Limits | Mapping[str, Any] | None) -> Limits:
        """These limits with those that *narrower* sets; it may not widen any."""
        if narrower is None:
            return self
        narrower = Limits.of(narrower)
        changes = {name: getattr(narrower, name) for name in narrower.model_fields_set}
        for name, value in changes.items():
            mine = getattr(self, name)
            if mine is not None and (value is None or value > mine):
                raise LimitError(f"{name}={value} is wider than the sandbox's {name}={mine}; a run can only narrow it")
        return self.model_copy(update=changes)

    def tightened(self, wanted: Mapping[str, Any] | Limits) -> Limits:
        """These limits, each replaced by the one *wanted* where that is tighter."""
        asked = Limits.of(wanted)
        changes = {}
        for name in asked.model_fields_set:
            mine, other = getattr(self, name), getattr(asked, name)
            if other is not None and (mine is None or other < mine):
                changes[name] = other
        return self.model_copy(update=changes) if changes else self


def _explain(error: ValidationError) -> str:
    parts = []
    for problem, given in zip(problems(error), error.errors(include_url=False), strict=True):
        name, value = ".".join(map(str, problem.place)), given["input"]
        if problem.unknown:
            meant = did_you_mean(near(name, Limits.model_fields))
            there = f"; there are {', '.join(Limits.model_fields)}"
            parts.append(f"{name}: there is no such limit{meant or there}")
        elif name == "memory_mb" and problem.kind == "greater_than_equal":
            parts.append(f"memory_mb={value}: the image itself needs more; at least {MIN_MEMORY_MB} is needed")
        else:
            parts.append(f"{name}={value!r}: {problem.words}")
    return "; ".join(parts)
