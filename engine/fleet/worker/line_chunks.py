"""A chunk of lines, run by a worker: its calls are on record at once, and what each line came to soon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from go_ent.engine.core.errors import BadTask, ExecutionConflict
from go_ent.engine.engine import Engine
from go_ent.engine.executions.lifecycle import Live
from go_ent.engine.fleet.worker.orders import LinesOrder
from go_ent.engine.guest_runs.lines import LineRuns, lines_in
from go_ent.engine.guest_runs.runs import GuestRun, guest_order

AT_ONCE = 2  # of one chunk, if nobody says: while one ends, the next one runs
Numbered = tuple[int, str, dict[str, Any]]


async def run_chunk(engine: Engine, order: LinesOrder, live: Live, ends: Callable[[], None]) -> None:
    """Run the lines that are not on record yet. A call of which nobody knows whether it was made keeps its line from
    going on: people are asked, once the whole execution rests. *ends* is called when the last line has begun.
    """
    held, state = live.held, order.state
    guest = guest_order(state)
    if guest is None or guest.tool is None:
        raise BadTask("the order of lines has no tool")
    composer = await asyncio.to_thread(engine.open_composer)
    tool = await composer.version(guest.tool, digest=state.source)
    if tool is None:
        raise ExecutionConflict(f"{guest.tool} is other code here than where execution {state.id} was begun")
    grants = engine.dispatcher.grants_of(state.client)
    if grants is not None:
        guest = guest.model_copy(update={"grants": grants})
    box = await asyncio.to_thread(composer.box_of, state.environment.image, guest.limits)
    known = await asyncio.to_thread(lambda: lines_in(held.standing(), held.id))
    unknown = {path.partition("/")[0] for path, _ in live.tapes.undecided()}
    runs = LineRuns(live, GuestRun(composer, guest, live.tapes, box, tool), tool)
    left = iter([one for one in order.lines if one[0] not in known and str(one[0]) not in unknown])
    async with asyncio.TaskGroup() as group:
        for _ in range(min(len(order.lines), guest.jobs or AT_ONCE)):
            group.create_task(_some(runs, left, ends))


async def _some(runs: LineRuns, left: Iterator[Numbered], ends: Callable[[], None]) -> None:
    for number, digest, inputs in left:
        if runs.stop.is_set():
            return
        await runs.run(number, digest, inputs, None)
    ends()
