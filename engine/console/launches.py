"""Runs that pages begin: they go on when the page is gone, and end with the console."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from go_ent.engine.console.sessions import Session
from go_ent.engine.console.visit import Refused
from go_ent.engine.console.words import line
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.server.calls.callers import Caller
from go_ent.waiting import first_of

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine
    from go_ent.sandbox import Run

log = logging.getLogger("go_ent.engine.console")
MOST_AT_ONCE = 16
PATIENCE_S = 1.0  # that a form waits for what it began: refusals come at once
QUICK_S = 0.4  # so long a page waits for a run to end before it is shown while it runs


class Launches:
    """The runs of one console. Belongs to one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._running: set[asyncio.Task[Any]] = set()

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

    async def go_on(self, work: Coroutine[Any, Any, object], session: Session, what: str) -> bool:
        """Have *work*, a resume, go on when its page is answered; whether it has ended already. What is said against it
        at once is raised; what goes wrong later is said on the session's next page, after *what*.
        """
        task = asyncio.create_task(work, name="console resume")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.wait({task}, timeout=PATIENCE_S)
        if task.done():
            task.result()
            return True

        def tell(done: asyncio.Task[object]) -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                session.notice(f"{what}: {line(str(error), 1000)}", bad=True)

        task.add_done_callback(tell)
        return False

    def _ended(self, task: asyncio.Task[Run]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a run of the console failed: %s: %s", type(error).__name__, str(error)[:500])

    async def close(self) -> None:
        """Interrupt what runs: it can be resumed."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
