"""One table of outcomes: what a run's status means for a task, an MCP client and a shell."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from engine.models import FailureKind, RunStatus, TaskStatus
from sandbox.run import Status


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a status means to a task, an MCP client, a shell and a runner."""

    task: TaskStatus
    is_error: bool
    exit_code: int
    run: RunStatus = "failed"
    failure: FailureKind | None = "task"


OUTCOMES: MappingProxyType[Status, Outcome] = MappingProxyType(
    {
        "completed": Outcome("COMPLETE", False, 0, "completed", None),
        "error": Outcome("BLOCKED", True, 1),
        "refused": Outcome("NEEDS_REPLAN", True, 3),
        "timeout": Outcome("BLOCKED", True, 4, "timeout", "timeout"),
        "cpu_limit": Outcome("BLOCKED", True, 5),
        "fuel_limit": Outcome("BLOCKED", True, 6),
        "memory_limit": Outcome("BLOCKED", True, 7),
        "call_limit": Outcome("BLOCKED", True, 8),
        "result_limit": Outcome("BLOCKED", True, 9),
        "paused": Outcome("PARTIAL", False, 10, "paused", None),
        "crashed": Outcome("BLOCKED", True, 11, "failed", "crash"),
        "interrupted": Outcome("PARTIAL", True, 130, "interrupted", "interrupted"),
    }
)
EXIT_CODES: MappingProxyType[Status, int] = MappingProxyType({status: outcome.exit_code for status, outcome in OUTCOMES.items()})

# Of whole tasks: `go-ent run` and what is built on it.
TASK_EXIT_CODES: MappingProxyType[TaskStatus, int] = MappingProxyType({"COMPLETE": 0, "BLOCKED": 1, "NEEDS_REPLAN": 3, "PARTIAL": 13})
