"""The bounded set of places where guests run: made when needed, handed out first come first served, given up when idle."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from sandbox.errors import SandboxClosed
from sandbox.flight import Berth
from sandbox.watchdog import Deadline, watchdog

IDLE_S = 30.0


class Berths:
    """Up to *most* berths; *warm* of them are kept even when idle. Thread-safe."""

    def __init__(self, make: Callable[[], Berth], *, most: int, warm: int) -> None:
        self._make = make
        self.most = most
        self.warm = min(warm, most)
        self._idle: list[Berth] = []
        self._all: set[Berth] = set()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[Berth]]] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._retiring: Deadline | None = None

    def prepare(self) -> None:
        """Make the warm berths now, so that the first run finds one."""
        with self._lock:
            for _ in range(self.warm - len(self._all)):
                self._idle.append(self._new())

    def _new(self) -> Berth:
        berth = self._make()
        self._all.add(berth)
        return berth

    def take(self) -> Berth | None:
        """A berth if one is free or may be made."""
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            berth = None if self._waiting else self._take_idle()
            if berth is None and not self._waiting and len(self._all) < self.most:
                berth = self._new()
            return berth

    async def wait(self) -> Berth:
        """The next berth that comes free, first come first served."""
        loop = asyncio.get_running_loop()
        with self._lock:
            future: asyncio.Future[Berth] = loop.create_future()
            self._waiting.append((loop, future))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release(future.result())
            raise

    def _take_idle(self) -> Berth | None:
        """The most recently used one that has its next guest ready, else any."""
        for berth in reversed(self._idle):
            berth.poll()  # it may have become ready, or died
            if berth.ready and berth.alive:
                self._idle.remove(berth)
                return berth
        while self._idle:
            berth = self._idle.pop()
            if berth.alive:
                return berth
            self._all.discard(berth)
        return None

    def release(self, berth: Berth) -> None:
        """Give a berth back, or what is left of it: a lost one is replaced when it is needed."""
        with self._lock:
            if berth.stuck or self._closed or not berth.alive:
                berth.close()
                self._all.discard(berth)
                if self._closed or not self._waiting:
                    return
                berth = self._new()
            berth.idle_since = time.monotonic()
            while self._waiting:
                loop, future = self._waiting.popleft()
                if not future.cancelled() and self._hand_over(loop, future, berth):
                    return
            self._idle.append(berth)
            if len(self._all) > self.warm and self._retiring is None:
                self._retiring = watchdog.after(IDLE_S, self._retire)

    def _hand_over(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Berth], berth: Berth) -> bool:
        def give() -> None:
            if future.done():
                self.release(berth)
            else:
                future.set_result(berth)

        try:
            loop.call_soon_threadsafe(give)
            return True
        except RuntimeError:  # that loop is closed
            return False

    def _retire(self) -> None:
        with self._lock:
            self._retiring = None
            now = time.monotonic()
            for berth in list(self._idle):
                if len(self._all) > self.warm and now - berth.idle_since >= IDLE_S:
                    self._idle.remove(berth)
                    self._all.discard(berth)
                    berth.close()
            if len(self._all) > self.warm and not self._closed:
                self._retiring = watchdog.after(IDLE_S, self._retire)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            waiting, self._waiting = list(self._waiting), deque()
            if self._retiring is not None:
                self._retiring.cancel()
            for berth in idle:
                self._all.discard(berth)
                berth.close()
        for loop, future in waiting:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_refuse, future)


def _refuse(future: asyncio.Future[Berth]) -> None:
    if not future.done():
        future.set_exception(SandboxClosed("the sandbox is closed"))
