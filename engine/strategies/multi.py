"""`multi`: a handoff from role to role, each of which gets all that was said before it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import RunResult, Task, TaskType
from go_ent.engine.core.step import Output, RunStep, Step
from go_ent.engine.strategies.auto import Complexity, complexity
from go_ent.engine.strategies.results import not_run, run_once

ROLES = ("architect", "developer", "reviewer", "tester", "writer")
DEFAULT = ("architect", "developer", "reviewer")
SHORT = ("developer", "reviewer")
TESTED = ("architect", "developer", "tester", "reviewer")

CHAINS: dict[TaskType, dict[Complexity, tuple[str, ...]]] = {
    "feature": {"low": SHORT, "medium": DEFAULT, "high": TESTED},
    "bugfix": {"low": SHORT, "medium": SHORT, "high": TESTED},
    "refactor": {"low": SHORT, "medium": DEFAULT, "high": TESTED},
    "architecture": {"low": ("architect", "reviewer"), "medium": ("architect", "reviewer"), "high": DEFAULT},
    "test": {
        "low": ("tester", "reviewer"),
        "medium": ("tester", "reviewer"),
        "high": ("architect", "tester", "reviewer"),
    },
    "docs": {
        "low": ("writer", "reviewer"),
        "medium": ("writer", "reviewer"),
        "high": ("architect", "writer", "reviewer"),
    },
    "review": {"low": ("reviewer",), "medium": ("reviewer",), "high": ("architect", "reviewer")},
    "other": {"low": SHORT, "medium": DEFAULT, "high": DEFAULT},
}


def chain_for(task: Task, level: Complexity | None = None) -> tuple[str, ...]:
    """The roles that take the task from hand to hand, by its type and how complex it is."""
    return CHAINS[task.type][complexity(task) if level is None else level]


async def run(
    task: Task,
    run_step: RunStep,
    *,
    execution_id: str,
    chain: Sequence[str] = (),
    stop: asyncio.Event | None = None,
) -> tuple[RunResult, ...]:
    """Hand the task along the chain (*chain*, or the one for it), up to the first role that does not complete.

    The steps are `1-architect`, `2-developer` and so on. The roles of the chain take the place of the task's own. The
    task's budget is that of the whole chain, which the runner of the steps holds: each of them has none of its
    own.
    """
    if not task.needs_model:
        raise BadTask("multi hands a description from role to role: a command, a tool or code has none; use single")
    results: list[RunResult] = []
    previous: list[Output] = []
    for number, role in enumerate(chain or chain_for(task), 1):
        step = Step(
            f"{number}-{role}",
            task.model_copy(update={"role": role, "strategy": "single", "budget": None}),
            previous=tuple(previous),
        )
        cause = next((result for result in results if not result.ok), None)
        if cause is not None or (stop is not None and stop.is_set()):
            results.append(not_run(execution_id, step.id, cause))
            continue
        result = await run_once(step, run_step, execution_id)
        results.append(result)
        previous.append(Output(role, result.output, result.structured))
    return tuple(results)
