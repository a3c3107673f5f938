"""The executions that run in this process, and other processes' requests to stop them or to mark where they stand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.core.ids import short_id
from go_ent.engine.executions.owned import OwnedExecution

log = logging.getLogger("go_ent.engine")
LOOK_S = 0.1  # what runs for longer is on disk


@dataclass(frozen=True, slots=True)
class Running:
    """One execution under way: how to ask it to stop, and when it has."""

    held: OwnedExecution
    stop: Callable[[], None]
    task: asyncio.Future[Any]


class Watch:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._next: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def get(self, execution_id: str) -> Running | None:
        return self._running.get(execution_id)

    def named(self, text: str) -> str | None:
        """The one under way that has this id, or this short id and no other has."""
        found = [text] if text in self._running else [one for one in self._running if short_id(one) == text]
        return found[0] if len(found) == 1 else None

    @property
    def ids(self) -> list[str]:
        """The executions under way."""
        return list(self._running)

    def add(self, held: OwnedExecution, stop: Callable[[], None], task: asyncio.Future[Any]) -> None:
        self._running[held.id] = Running(held, stop, task)
        if self._next is None and (self._looking is None or self._looking.done()):
            self._next = asyncio.get_running_loop().call_later(LOOK_S, self._begin_to_look)

    def _begin_to_look(self) -> None:
        self._next = None
        if self._running:
            self._looking = asyncio.create_task(self._look())

    def remove(self, execution_id: str) -> None:
        self._running.pop(execution_id, None)

    def stop_all(self) -> int:
        """Ask everything to stop, and say how much that is."""
        for running in list(self._running.values()):
            running.stop()
        return len(self._running)

    async def close(self) -> None:
        """Stop everything, and wait for it."""
        if self.stop_all():
            await asyncio.wait([running.task for running in self._running.values()])
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look(self) -> None:
        while self._running:
            running = list(self._running.values())
            for asked in await asyncio.to_thread(_asked, running):
                asked.stop()
            await asyncio.sleep(LOOK_S)


def _asked(running: list[Running]) -> list[Running]:
    found = []
    for one in running:
        try:
            one.held.place_if_due(LOOK_S)
            if one.held.interrupt_requested():
                found.append(one)
            one.held.mark_requested()
        except Exception as error:  # of one execution: the others' requests are still heard
            log.warning("execution %s could not be put on disk, or do what it was asked: %s", one.held.id, error)
    return found
