"""What a runner is: the contract that claude-code, open-code, cli and third parties fulfil."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from go_ent.engine.core.models import FailureKind, RunRequest, RunResult

# A failure that another runtime of the family could survive. A task's own error is not one.
SURVIVABLE: frozenset[FailureKind] = frozenset({"not_found", "auth", "rate_limit", "unavailable", "crash", "silence"})


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a runtime can be used here. `reason` says why not, `fix` what to do about it."""

    ok: bool
    version: str | None = None
    reason: str = ""
    fix: str = ""

    @property
    def whole(self) -> str:
        """Both, for whoever meets it by itself."""
        return f"{self.reason}: {self.fix}" if self.fix else self.reason


@dataclass(frozen=True, slots=True)
class Progress:
    """What a runner says while it works: text of the agent, a tool it uses, a warning, the session it opened."""

    kind: Literal["text", "tool", "warning", "session"]
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)


Emit = Callable[[Progress], None]


@runtime_checkable
class Runner(Protocol):
    """Runs requests on one kind of agent program.

    `execute` answers with a result whatever happens: failures are data, with partial output kept. Cancelling it ends
    all it started, then raises. `interrupt` asks one run, by its `run_id`, to stop gracefully; `execute` then answers
    with
    `interrupted`. It is False if there is no such run.
    """

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str: ...

    async def available(self) -> Availability: ...

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult: ...

    async def interrupt(self, run_id: str) -> bool: ...

    async def close(self) -> None: ...
