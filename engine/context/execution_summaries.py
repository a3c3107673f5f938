"""Summaries of an execution as a whole: of what they are made, and what they add to its cost."""

from __future__ import annotations

from collections.abc import Iterable

from go_ent.engine.context.material import outputs_of
from go_ent.engine.context.models import Message, SummaryLink
from go_ent.engine.core.models import TaskResult
from go_ent.engine.core.step import Output
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.strategies import Plan
from go_ent.engine.strategies.work import unpack


def with_summaries(result: TaskResult, links: Iterable[SummaryLink]) -> TaskResult:
    """A result whose cost is also that of the summaries that were made for it."""
    paid = sum(link.cost_usd for link in links if link.cost_usd is not None)
    if not paid or result.metrics is None:
        return result
    return result.model_copy(
        update={"metrics": result.metrics.model_copy(update={"cost_usd": (result.metrics.cost_usd or 0.0) + paid})}
    )


def told_later(state: ExecutionState) -> list[list[Message]]:
    """What steps to come would be told of what there is; if there are none, all that there is."""
    if state.strategy == "multi":  # there it is the role's word that is handed on
        outputs = [
            Output(result.role or step, result.output, result.structured)
            for step, result in state.results.items()
            if result.output
        ]
        return [outputs_of("previous", outputs)]
    finished = {
        step: Output(step, result.output, result.structured) for step, result in state.results.items() if result.output
    }
    groups: dict[tuple[str, ...], None] = {}
    if "plan" in state.work:
        plan, _ = unpack(state.work)
        assert isinstance(plan, Plan)
        for task in plan.task:
            known = tuple(one for one in dict.fromkeys(task.depends_on) if one in finished)
            if known and not (task.id in state.results and state.results[task.id].ok):
                groups[known] = None
    return [
        outputs_of("dependencies", [finished[step] for step in group]) for group in groups or {tuple(finished): None}
    ]
