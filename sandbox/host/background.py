"""An event loop for callers that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
CLOSE_S = 2.0


def runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether it is *loop* that runs this."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class BackgroundLoop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox-loop", daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run *coroutine* there, and wait for it here."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Let what runs there end, and those who wait for it know."""
        if threading.current_thread() is self._thread:
            return
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._finish()))
        self._thread.join(2 * CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _finish(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            _, late = await asyncio.wait(others, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CLOSE_S)
        self._loop.stop()
