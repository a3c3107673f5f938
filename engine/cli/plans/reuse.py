"""Part of a plan, or a plan that has changed: what was finished before is not run again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.terminal.output import say
from go_ent.engine.core.ids import short_id
from go_ent.engine.core.models import RunResult
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.strategies import Plan, read_plan
from go_ent.engine.strategies.replanning import ChangedPlan, changed_file, choose_steps, part, still_finished
from go_ent.engine.strategies.work import unpack

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine

MOST_LOOKED_AT = 20  # executions of plans


async def part_of(
    engine: Engine, plan: Plan, *, first: str | None, only: Iterable[str]
) -> tuple[Plan, dict[str, RunResult]]:
    """The tasks to run, with what they need; and what of that is finished, in the newest run that has it all."""
    chosen = choose_steps(plan, first=first, only=only)
    made = part(plan, chosen)
    needed = [task.id for task in made.task if task.id not in chosen]
    if not needed:
        return made, {}
    missing = needed
    for row in await engine.executions(limit=MOST_LOOKED_AT, kind="graph"):
        state = await engine.status(row.id)
        before = unpack(state.work)[0]
        if not isinstance(before, Plan):
            continue
        kept = still_finished(before, made, state.results)
        lacking = [name for name in needed if name not in kept]
        if not lacking:
            say(f"{', '.join(needed)}: as in {short_id(state.id)}", err=True)
            return made, {name: kept[name] for name in needed}
        missing = min(missing, lacking, key=len)
    raise UsageError(
        f"{', '.join(missing)} must have run before, as the plan has it now, and no run of it has: run the plan first"
    )


def changed_plan(state: ExecutionState, file: Path | None) -> ChangedPlan | None:
    """The plan of an execution and the one in its file now, if they differ; with a *file* that one, whether it differs
    or not.
    """
    if file is None:
        return changed_file(state.work)
    before = unpack(state.work)[0] if "guest" not in state.work else None
    if not isinstance(before, Plan):
        raise UsageError(f"--plan: {short_id(state.id)} is no execution of a plan: it is a {state.kind}")
    return ChangedPlan(before, read_plan(file), file)


async def resume_with(engine: Engine, state: ExecutionState, changed: ChangedPlan) -> dict[str, RunResult]:
    """What stays finished of an execution that a changed plan takes the place of. It must not be running."""
    if await asyncio.to_thread(engine.store.is_held, state.id):
        raise UsageError(f"{short_id(state.id)} is running: interrupt it first")
    return still_finished(changed.before, changed.now, state.results)
