"""Steps become the answer: one place for every strategy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from go_ent.engine.core.models import Metrics, RunResult, StrategyName, TaskResult, TaskStatus
from go_ent.engine.strategies.results import WORDS, has_run, total_cost

MOST_NAMED = 5
MOST_ERROR = 500


def aggregate(
    execution_id: str,
    strategy: StrategyName,
    reason: str,
    results: Sequence[RunResult],
    *,
    leaves: Collection[str] = (),
    duration_ms: int | None = None,
) -> TaskResult:
    """The answer of an execution.

    *leaves* are the ids whose outputs are a graph's (`parallel.leaves`). *duration_ms* is how long all of it took;
    without it, the sum of the steps.

    - COMPLETE: every step completed.
    - NEEDS_REPLAN: a step failed so that no further try can help (`replan`).
    - PARTIAL: something was produced, and something was not.
    - BLOCKED: nothing was produced.
    """
    started = [result for result in results if has_run(result)]
    cost = total_cost(result.cost_usd for result in started)
    observations = [text for result in results for text in result.observations]
    unknown = sum(result.cost_usd is None and not result.needed_no_model for result in started)
    if unknown and not cost:  # what the budget refused cost nothing, which says nothing of the others
        cost = None
    if cost is not None and unknown:
        observations.append(
            f"the cost of {unknown} of {len(started)} steps is unknown: cost_usd is the sum of the others"
        )
    metrics = Metrics(
        tokens_used=sum(result.tokens.total for result in started if result.tokens is not None),
        duration_ms=sum(result.duration_ms for result in started) if duration_ms is None else duration_ms,
        cost_usd=cost,
    )
    return TaskResult(
        execution_id=execution_id,
        status=_status(results),
        strategy=strategy,
        strategy_reason=reason,
        output=_output(strategy, results, leaves),
        error=_error(results),
        metrics=metrics if started else None,
        files_modified=[*_distinct(name for result in results for name in result.files_modified)],
        observations=[*_distinct(observations)],
        adjustments=_distinct(text for result in results for text in result.adjustments),
        steps=tuple(results),
    )


def _status(results: Sequence[RunResult]) -> TaskStatus:
    if results and all(result.ok for result in results):
        return "COMPLETE"
    if any(not result.ok and result.replan for result in results):
        return "NEEDS_REPLAN"
    return "PARTIAL" if any(result.ok or result.output or result.files_modified for result in results) else "BLOCKED"


def _output(strategy: StrategyName, results: Sequence[RunResult], leaves: Collection[str]) -> str:
    given = [result for result in results if result.output]
    if strategy == "multi":
        return given[-1].output if given else ""
    if strategy == "parallel":
        wanted = set(leaves)
        given = [result for result in given if result.task_id in wanted]
        several = len(wanted) > 1
    else:
        several = len(results) > 1
    if not several:
        return given[0].output if given else ""
    return "\n\n".join(f"## {result.task_id}\n\n{result.output}" for result in given)


def _error(results: Sequence[RunResult]) -> str | None:
    """What kept it from being complete. What was merely not run because of that is counted."""
    if not results:
        return "there was nothing to run"
    causes = [
        result
        for result in results
        if not result.ok and (has_run(result) or result.status not in {"skipped", "interrupted"})
    ]
    others = sum(not result.ok for result in results) - len(causes)
    if not causes and not others:
        return None
    said = [_cause(result) for result in causes[:MOST_NAMED]]
    if len(causes) > MOST_NAMED:
        said.append(f"and {len(causes) - MOST_NAMED} more")
    if others:
        said.append(f"{others} not run" if causes else f"{others} not run: the execution was stopped")
    return "; ".join(said)


def _cause(result: RunResult) -> str:
    text = f"{result.task_id} {WORDS[result.status]}"
    return f"{text}: {result.error[:MOST_ERROR]}" if result.error else text


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
