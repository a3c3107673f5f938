"""Work that can be stopped from outside: gracefully, then by force."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from go_ent.sandbox import Run, Sandbox

GRACE_S = 2.0
T = TypeVar("T")


class Stop(asyncio.Event):
    """A request to stop, which also calls what was hung on it."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[object, Callable[[], None]] = {}

    def set(self) -> None:
        """Ask to stop."""
        super().set()
        for call in list(self._calls.values()):
            call()

    def hang(self, key: object, call: Callable[[], None]) -> None:
        """Have *call* called once it is asked to stop; at once if it was."""
        self._calls[key] = call
        if self.is_set():
            call()

    def take_off(self, key: object) -> None:
        self._calls.pop(key, None)


async def stoppable(
    work: Awaitable[T], stop: Stop, ask: Callable[[], Awaitable[object]], *, patience_s: float
) -> T | None:
    """What *work* comes to. Once it is to *stop* it is asked to, and has so many seconds for it; None if it had to be
    cancelled. No task waits beside it.
    """
    asking: list[asyncio.Future[None]] = []
    key = object()

    async def end() -> None:
        with contextlib.suppress(Exception):
            await ask()
        with contextlib.suppress(RuntimeError):  # it is over
            patience.reschedule(asyncio.get_running_loop().time() + patience_s)

    try:
        async with asyncio.timeout(None) as patience:
            stop.hang(key, lambda: asking.append(asyncio.ensure_future(end())))
            try:
                return await work
            finally:
                stop.take_off(key)
    except TimeoutError:
        if not patience.expired():
            raise
        return None
    finally:
        if asking:
            await asyncio.wait(asking)


async def drive(box: Sandbox, run_id: str, running: Coroutine[Any, Any, Run], stop: Stop) -> Run | None:
    """A run in a guest that *stop* ends. None if it had to be given up, since it waits for something on the host."""

    async def end() -> None:
        box.end(run_id, "interrupted")

    if stop.is_set():
        running.close()
        return None
    return await stoppable(running, stop, end, patience_s=GRACE_S)
