"""What comes back from a run. Outcomes are data: whatever guest code does, it is a `Run` with a status."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr

from go_ent.sandbox.media.kinds import Media, media_of
from go_ent.sandbox.messages.advice import Advice, Words, joined

Status = Literal[
    "completed",
    "error",
    "refused",
    "timeout",
    "cpu_limit",
    "fuel_limit",
    "memory_limit",
    "call_limit",
    "result_limit",
    "paused",
    "interrupted",
    "crashed",
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64", defer_build=True)


class RunError(_Model):
    """Why a run did not complete, for the one who wrote the code."""

    kind: str
    message: str
    line: int | None = None
    column: int | None = None
    source_line: str | None = None
    traceback: str | None = None
    hint: str | None = None
    values: dict[str, str] | None = None  # of the names in that line, as short texts; of Python
    _advised: tuple[str, Advice] | None = PrivateAttr(None)

    @property
    def advice(self) -> Advice | None:
        """What the caller can do about it. It is not recorded: the words of `hint` are."""
        return self._advised[1] if self._advised is not None else None

    def advise(self, advice: Advice, hint: str = "") -> RunError:
        """Say what to do: *hint*, then the advice. `hint` has it in the words of the library."""
        self._advised = hint, advice
        self.hint = joined(hint, advice)
        return self

    def hint_in(self, words: Words) -> str | None:
        """The hint, with the advice in the words of a front end."""
        return self.hint if self._advised is None else joined(*self._advised, words)

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line is not None else ""
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"{self.kind}: {self.message}{where}{hint}"


class Usage(_Model):
    """What a run used."""

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    fuel: int | None = None
    memory_peak_bytes: int = 0
    tool_calls: int = 0
    stdout_bytes: int = 0
    result_bytes: int = 0


class ToolCall(_Model):
    """The audit of one tool call."""

    name: str
    ms: float
    ok: bool
    argument_bytes: int
    result_bytes: int
    error: str | None = None


class Pending(_Model):
    """A call that waits for approval."""

    tool: str
    arguments: dict[str, Any]
    reason: str
    call: str = ""  # its name in the record of the execution, if there is one


class Run(_Model):
    """One run: what it returned, printed, used and called."""

    id: str
    status: Status
    result: JsonValue = None
    result_truncated: bool = False
    stdout: str = ""
    stdout_truncated: bool = False
    error: RunError | None = None
    usage: Usage = Field(default_factory=Usage)
    calls: list[ToolCall] = Field(default_factory=list)
    files: dict[str, bytes] = Field(default_factory=dict)
    pending: list[Pending] = Field(default_factory=list)
    image: str = ""
    warning: str | None = None  # what the caller should know beside the result

    @property
    def ok(self) -> bool:
        return self.status == "completed"

    def _repr_html_(self) -> str:
        """The run as a notebook shows it."""
        from go_ent.sandbox.messages import html

        calls = f", {self.usage.tool_calls} call{'' if self.usage.tool_calls == 1 else 's'}" * bool(self.calls)
        parts = [f"<p><b>{html.plain(self.status)}</b> in {self.usage.wall_ms:,.0f} ms{calls}</p>"]
        if self.stdout:
            parts.append(html.preformatted(self.stdout))
        if self.result is not None:
            parts.append(html.value(self.result))
        if self.error is not None:
            parts.append(html.preformatted(str(self.error)))
        if self.files:
            parts.append(html.table(["file", "bytes"], [[name, len(data)] for name, data in self.files.items()]))
        return "".join(parts)

    @property
    def media(self) -> list[Media]:
        """The run's files with what they are: by their content, not by what anybody says."""
        return media_of(self.files)
