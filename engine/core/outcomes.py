"""One table of outcomes: what a run's status means for a task, an MCP client and a shell."""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType

from pydantic_core import to_json

from go_ent.dataclass import dataclass
from go_ent.engine.core.models import FailureKind, RunResult, RunStatus, TaskStatus
from go_ent.sandbox.host.run import Run, Status

MAX_OUTPUT = 4 << 20
MOST_FILES = 100  # that a result names


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
EXIT_CODES: MappingProxyType[Status, int] = MappingProxyType(
    {status: outcome.exit_code for status, outcome in OUTCOMES.items()}
)

# Of whole tasks: `go-ent run` and what is built on it.
TASK_EXIT_CODES: MappingProxyType[TaskStatus, int] = MappingProxyType(
    {"COMPLETE": 0, "BLOCKED": 1, "NEEDS_REPLAN": 3, "PARTIAL": 13}
)


def run_result(run: Run, execution_id: str, task_id: str, duration_ms: int) -> RunResult:
    """What a run in a guest came to, as the result of a step."""
    outcome = OUTCOMES[run.status]
    value = run.stdout if run.result is None else run.result
    output = value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()
    said = None if run.error is None else str(run.error)
    if run.pending:
        said = f"{run.pending[0].tool} needs approval: {run.pending[0].reason}"
    return RunResult(
        execution_id=execution_id,
        task_id=task_id,
        runtime="cli",
        duration_ms=duration_ms,
        status=outcome.run,
        failure=outcome.failure,
        error=said,
        cost_usd=0.0,  # of its own: what it has an agent do is on that execution's account
        output=output[:MAX_OUTPUT],
        structured=run.result,
        replan=outcome.task == "NEEDS_REPLAN",
        files=tuple(islice(run.files, MOST_FILES)),
        observations=(f"{run.usage.tool_calls} tool calls",) if run.usage.tool_calls else (),
    )
