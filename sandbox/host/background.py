"""What is built on event loops: one for callers that have none, and a cheap way to hear that a socket can be read."""

from __future__ import annotations

import asyncio
import contextlib
import select
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
CLOSE_S = 2.0


def runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether it is *loop* that runs this."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class Ears:
    """The sockets that one loop listens to on behalf of runs, in an epoll of their own, which the loop watches.

    A run listens for half a millisecond: to have a socket watched by the loop itself takes four times as long.
    All of it happens on the loop.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._heard: dict[int, Callable[[], None]] = {}

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> Ears:
        """Those of *loop*, which has them for as long as it is open."""
        ears = _ears.get(loop)
        if ears is None:
            ears = _ears[loop] = Ears()
            loop.add_reader(ears._epoll.fileno(), ears._hear)
        return ears

    def listen(self, socket: int, heard: Callable[[], None]) -> None:
        """Have *heard* called whenever there is something to read."""
        self._heard[socket] = heard
        self._epoll.register(socket, select.EPOLLIN)

    def unlisten(self, socket: int) -> None:
        if self._heard.pop(socket, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(socket)

    def _hear(self) -> None:
        if len(self._heard) == 1:  # then it is that one
            next(iter(self._heard.values()))()
            return
        for socket, _ in self._epoll.poll(0):
            if (heard := self._heard.get(socket)) is not None:
                heard()


_ears: WeakKeyDictionary[asyncio.AbstractEventLoop, Ears] = WeakKeyDictionary()


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
