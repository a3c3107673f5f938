"""One table of outcomes: what a run's status means for an execution, a task, an MCP client and a shell."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from engine.executions.state import ExecutionStatus
from engine.models import FailureKind, RunStatus, TaskStatus
from sandbox.run import Status


@dataclass(frozen=True, slots=True)
class Outcome:
    """`produced` is the task's status if the run left something usable, `task` if not."""

    execution: ExecutionStatus
    task: TaskStatus
    produced: TaskStatus
    is_error: bool
    exit_code: int
    run: RunStatus = "failed"
    failure: FailureKind | None = "task"


OUTCOMES: MappingProxyType[Status, Outcome] = MappingProxyType(
    {
        "completed": Outcome("completed", "COMPLETE", "COMPLETE", False, 0, "completed", None),
        "error": Outcome("failed", "BLOCKED", "BLOCKED", True, 1),
        "refused": Outcome("failed", "NEEDS_REPLAN", "NEEDS_REPLAN", True, 3),
        "timeout": Outcome("failed", "BLOCKED", "PARTIAL", True, 4, "timeout", "timeout"),
        "cpu_limit": Outcome("failed", "BLOCKED", "PARTIAL", True, 5),
        "fuel_limit": Outcome("failed", "BLOCKED", "PARTIAL", True, 6),
        "memory_limit": Outcome("failed", "BLOCKED", "PARTIAL", True, 7),
        "call_limit": Outcome("failed", "BLOCKED", "PARTIAL", True, 8),
        "result_limit": Outcome("failed", "BLOCKED", "PARTIAL", True, 9),
        "paused": Outcome("paused", "PARTIAL", "PARTIAL", False, 10, "paused", None),
        "crashed": Outcome("failed", "BLOCKED", "BLOCKED", True, 11, "failed", "crash"),
        "interrupted": Outcome("interrupted", "PARTIAL", "PARTIAL", True, 130, "interrupted", "interrupted"),
    }
)
EXIT_CODES: MappingProxyType[Status, int] = MappingProxyType({status: outcome.exit_code for status, outcome in OUTCOMES.items()})

# Of whole tasks: `go-ent run` and what is built on it.
TASK_EXIT_CODES: MappingProxyType[TaskStatus, int] = MappingProxyType({"COMPLETE": 0, "BLOCKED": 1, "NEEDS_REPLAN": 3, "PARTIAL": 13})
