"""What a runner is: the contract that claude-code, open-code, cli and third parties fulfil."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, Protocol, runtime_checkable

from go_ent.dataclass import dataclass
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
        """Both, for a reader who meets it by itself."""
        return f"{self.reason}: {self.fix}" if self.fix else self.reason


@dataclass(frozen=True, slots=True)
class Progress:
    """What a runner reports while it works: the agent's text, a tool it uses, a warning, the session it opened."""

    kind: Literal["text", "tool", "warning", "session"]
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)


Emit = Callable[[Progress], None]


@runtime_checkable
class Runner(Protocol):
    """Runs requests on one kind of agent program. The engine calls it from its event loop, also concurrently.

    Failures are results, not exceptions. The engine owns a runner that it is given, and closes it.
    """

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str: ...

    async def available(self) -> Availability:
        """Whether it can be used here and now; if not, why, and what to do."""
        ...

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        """Run a request and return its result, with partial output if it fails. Cancelling this ends everything it
        started, then raises.
        """
        ...

    async def interrupt(self, run_id: str) -> bool:
        """Ask a run to stop gracefully; its `execute` then returns `interrupted`. False if there is no such run."""
        ...

    async def close(self) -> None:
        """End everything it started."""
        ...
