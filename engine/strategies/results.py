"""A step becomes a result, whatever happens to it: run, run again, failed before it ran, or never run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from go_ent.engine.core.errors import BadTask, BudgetExceeded, NeedsApproval, NoCap, NoRuntime, Untrusted
from go_ent.engine.core.models import FailureKind, RunResult
from go_ent.engine.core.step import RunStep, Step
from go_ent.engine.strategies.pool import backoff, cancelled_from_outside

MOST_ERROR = 2000
# What another try would not change.
FINAL: frozenset[FailureKind] = frozenset({"not_found", "auth", "permission", "budget", "interrupted"})
WORDS = {
    "failed": "failed",
    "timeout": "took too long",
    "paused": "is paused",
    "interrupted": "was interrupted",
    "skipped": "was not run",
}


async def run_once(step: Step, run_step: RunStep, execution_id: str) -> RunResult:
    """The step's result, under its id. A `run_step` that raises is a failed step."""
    try:
        result = await run_step(step)
    except (Exception, asyncio.CancelledError) as error:
        if cancelled_from_outside(error):
            raise
        return failed(execution_id, step.id, error)
    return result if result.task_id == step.id else result.model_copy(update={"task_id": step.id})


async def run_retried(
    step: Step, run_step: RunStep, execution_id: str, *, retries: int, backoff_s: float, stop: asyncio.Event | None
) -> RunResult:
    """The step, run again under the same id while that may help. What all its tries cost is for *run_step* to tell."""
    result = await run_once(step, run_step, execution_id)
    for attempt in range(retries):
        if not _worth_another(result) or await _stopped_within(backoff(backoff_s, attempt), stop):
            break
        result = await run_once(step, run_step, execution_id)
    return result


def failed(execution_id: str, task_id: str, error: BaseException) -> RunResult:
    kind: FailureKind = "crash"
    if isinstance(error, BudgetExceeded):
        kind = "budget"
    elif isinstance(error, NoRuntime):
        kind = "not_found"
    elif isinstance(error, NeedsApproval | Untrusted):
        kind = "permission"
    elif isinstance(error, BadTask):
        kind = "task"
    text = f"{type(error).__name__}: {error}" if kind == "crash" else str(error)
    if kind == "budget" and not isinstance(error, NoCap):
        text += "; give the task a budget that fits, or raise the limit"
    return RunResult(
        execution_id=execution_id,
        task_id=task_id,
        status="failed",
        failure=kind,
        error=text[:MOST_ERROR],
        replan=kind == "task",
        cost_usd=0.0 if kind == "budget" else None,  # refused before it began
    )


def not_run(execution_id: str, task_id: str, cause: RunResult | None) -> RunResult:
    """The result of a step that was never started: because of another's result, or because all was stopped."""
    if cause is None or cause.status == "interrupted":
        text = "not run: the execution was stopped" if cause is None else f"not run: {cause.task_id} was interrupted"
        return RunResult(
            execution_id=execution_id, task_id=task_id, status="interrupted", failure="interrupted", error=text
        )
    error = f"not run: {cause.task_id} {WORDS[cause.status]}"
    return RunResult(execution_id=execution_id, task_id=task_id, status="skipped", error=error)


def has_run(result: RunResult) -> bool:
    """Whether something was started for it. A runtime that is not there was asked for, but not started."""
    if result.attempts:
        return any(attempt.failure != "not_found" for attempt in result.attempts)
    return bool(result.ok or result.runtime or result.tokens or result.cost_usd is not None)


def total_cost(costs: Iterable[float | None]) -> float | None:
    """The sum of what is known; None if nothing is."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def _worth_another(result: RunResult) -> bool:
    return result.status in {"failed", "timeout"} and result.failure not in FINAL and not result.replan


async def _stopped_within(seconds: float, stop: asyncio.Event | None) -> bool:
    if stop is None:
        await asyncio.sleep(seconds)
        return False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
