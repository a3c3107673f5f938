"""`single`: one task, or a list of tasks in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from go_ent.engine.core.models import RunResult, Task
from go_ent.engine.core.step import RunStep, Step
from go_ent.engine.strategies.results import not_run, run_once


async def run(
    tasks: Sequence[Task], run_step: RunStep, *, execution_id: str, stop: asyncio.Event | None = None
) -> tuple[RunResult, ...]:
    """Run the tasks one after the other, up to the first that does not complete; the rest is marked as not run.

    The only step of one task is `task`, those of several are `1`, `2` and so on.
    """
    steps = (
        [Step(str(number), task) for number, task in enumerate(tasks, 1)]
        if len(tasks) > 1
        else [Step("task", task) for task in tasks]
    )
    results: list[RunResult] = []
    for step in steps:
        cause = next((result for result in results if not result.ok), None)
        if cause is not None or (stop is not None and stop.is_set()):
            results.append(not_run(execution_id, step.id, cause))
        else:
            results.append(await run_once(step, run_step, execution_id))
    return tuple(results)
