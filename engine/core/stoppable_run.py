"""A run in a guest that can be stopped from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from go_ent.sandbox import Run, Sandbox

GRACE_S = 2.0


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


async def drive(box: Sandbox, run_id: str, running: Coroutine[Any, Any, Run], stop: Stop) -> Run | None:
    """A run that *stop* ends: gracefully, then by force. None if it had to be given up. Cancelling this ends it,
    too.
    """
    if stop.is_set():
        running.close()
        return None
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as patience:

            def end() -> None:
                box.end(run_id, "interrupted")
                patience.reschedule(loop.time() + GRACE_S)

            stop.hang(run_id, end)
            try:
                return await running
            finally:
                stop.take_off(run_id)
    except TimeoutError:  # it waits for something on the host
        if not patience.expired():
            raise
        return None
