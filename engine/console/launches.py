"""Runs that pages begin: they go on when the page is gone, and end with the console."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from go_ent.engine.console.visit import Refused
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.server.calls.callers import Caller
from go_ent.waiting import first_of

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine
    from go_ent.sandbox import Run

log = logging.getLogger("go_ent.engine.console")
MOST_AT_ONCE = 16
QUICK_S = 0.4  # so long a page waits for a run to end before it is shown while it runs


class Launches:
    """The runs of one console. Belongs to one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._running: set[asyncio.Task[Run]] = set()

    async def launch(self, order: GuestOrder, caller: Caller) -> str:
        """Begin an order of *caller*'s: the execution's id. It has ended by then, if that did not take long.

        What needs approval waits for it. Raises what is to be said against the order before it runs.
        """
        if len(self._running) >= MOST_AT_ONCE:
            raise Refused(429, f"{MOST_AT_ONCE} runs of the console are under way", "wait for one of them to end")
        if caller.allow is not None:
            order = order.model_copy(update={"grants": caller.allow})
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(
            self._engine.guests.run(order, begun=begun.set_result, client=caller.name), name="console run"
        )
        self._running.add(task)
        task.add_done_callback(self._ended)
        await first_of(begun, task)
        if not begun.done():
            begun.cancel()
            task.result()  # raises why it did not begin
        await asyncio.wait({task}, timeout=QUICK_S)
        return begun.result()

    def _ended(self, task: asyncio.Task[Run]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a run of the console failed: %s: %s", type(error).__name__, str(error)[:500])

    async def close(self) -> None:
        """Interrupt what runs: it can be resumed."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
