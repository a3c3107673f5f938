"""The bounded set of places where guests run: made when needed, shared out among callers, given up when idle."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from go_ent.sandbox.errors import SandboxClosed
from go_ent.sandbox.host.flight import Berth
from go_ent.sandbox.host.sharing import CALLER, Shares
from go_ent.sandbox.host.watchdog import Deadline, watchdog

IDLE_S = 30.0
Place = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Berth]"]


class Berths:
    """Up to *most* berths; *warm* of them are kept even when idle. Thread-safe.

    Each of several callers is sure of some; those who wait are served by turns, and each one's runs in their order.
    """

    def __init__(
        self, make: Callable[[], Berth], *, most: int, warm: int, callers: Callable[[], int] = lambda: 1
    ) -> None:
        self._make = make
        self.most = most
        self.warm = min(warm, most)
        self._idle: list[Berth] = []
        self._all: set[Berth] = set()
        self._shares = Shares(most, callers)
        self._holders: dict[Berth, str] = {}
        self._waiting: dict[str, deque[Place]] = {}  # whose turn it is next comes first
        self._lock = threading.Lock()
        self._closed = False
        self._retiring: Deadline | None = None

    def __len__(self) -> int:
        return len(self._all)

    def prepare(self) -> None:
        """Make the warm berths now, so that the first run finds one."""
        with self._lock:
            if not self._closed:
                for _ in range(self.warm - len(self._all)):
                    self._idle.append(self._new())

    def _new(self) -> Berth:
        berth = self._make()
        self._all.add(berth)
        return berth

    def take(self) -> Berth | asyncio.Future[Berth]:
        """A berth for the caller that is free or may be made, else a place in its queue.

        One step, under the lock: a berth that comes free in between would be nobody's.
        """
        caller = CALLER.get()
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            if caller not in self._waiting and self._shares.room(caller):
                berth = self._take_idle() or self._new()
                self._hold(berth, caller)
                return berth
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Berth] = loop.create_future()
            self._waiting.setdefault(caller, deque()).append((loop, future))
            return future

    def _hold(self, berth: Berth, caller: str) -> None:
        if self._shares.shared:
            berth.place(self._shares.held[caller])
        self._holders[berth] = caller
        self._shares.take(caller)

    def _next(self) -> tuple[str, Place] | None:
        """Whoever is to have the next berth: of the callers who may have one, the one whose turn it is."""
        for caller in list(self._waiting):
            places = self._waiting[caller]
            while places and places[0][1].cancelled():
                places.popleft()
            if not places:
                del self._waiting[caller]
            elif self._shares.room(caller):
                place = places.popleft()
                del self._waiting[caller]
                if places:
                    self._waiting[caller] = places  # now the last
                return caller, place
        return None

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
            if (caller := self._holders.pop(berth, None)) is not None:
                self._shares.give(caller)
                if self._shares.shared and not berth.place(0):
                    berth.stuck = True
            if berth.stuck or self._closed or not berth.alive:
                berth.close()
                self._all.discard(berth)
                replacement = None if self._closed else self._replacement()
                if replacement is None:
                    return
                berth = replacement
            berth.idle_since = time.monotonic()
            while (turn := self._next()) is not None:
                caller, (loop, future) = turn
                self._hold(berth, caller)
                if self._hand_over(loop, future, berth):
                    return
                del self._holders[berth]
                self._shares.give(caller)
            self._idle.append(berth)
            if len(self._all) > self.warm and self._retiring is None:
                self._retiring = watchdog.after(IDLE_S, self._retire)

    def _replacement(self) -> Berth | None:
        """A new berth for those who wait; one that can't be made is the first waiter's trouble, not the releaser's."""
        while self._waiting:
            try:
                return self._new()
            except Exception as error:
                turn = self._next()
                if turn is None:
                    return None
                loop, future = turn[1]
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_fail, future, error)
        return None

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
            waiting = [place for places in self._waiting.values() for place in places]
            self._waiting.clear()
            if self._retiring is not None:
                self._retiring.cancel()
            for berth in idle:
                self._all.discard(berth)
                berth.close()
        for loop, future in waiting:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_fail, future, SandboxClosed("the sandbox is closed"))


def _fail(future: asyncio.Future[Berth], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class Queued:
    """A run that has no berth yet; it can be interrupted all the same."""

    def __init__(self) -> None:
        self.interrupted = False
        self._place: asyncio.Future[Berth] | None = None

    def stop(self, reason: str) -> None:
        self.interrupted = True
        if self._place is not None:
            with contextlib.suppress(RuntimeError):
                self._place.get_loop().call_soon_threadsafe(self._place.cancel)

    async def wait_for(self, place: asyncio.Future[Berth], berths: Berths) -> Berth | None:
        """The berth that comes to *place* in the queue, or None when the run was interrupted before."""
        self._place = place
        if self.interrupted:
            place.cancel()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                berths.release(place.result())  # it came in the very moment that nobody waited any more
            place.cancel()
            task = asyncio.current_task()
            if self.interrupted and not (task is not None and task.cancelling()):
                return None
            raise
