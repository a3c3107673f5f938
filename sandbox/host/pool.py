"""The bounded set of workers: made when needed, shared out among callers, given up when idle."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from go_ent.sandbox.errors import SandboxClosed
from go_ent.sandbox.host.background import runs_here
from go_ent.sandbox.host.process import WorkerProcess
from go_ent.sandbox.host.sharing import CALLER, Shares
from go_ent.sandbox.host.watchdog import Deadline, watchdog
from go_ent.sandbox.messages.items import apart, log

IDLE_S = 30.0  # after which a worker that is not needed is given up
QUIET_S = 300.0  # after which all but one are not needed
Place = tuple[asyncio.AbstractEventLoop, "asyncio.Future[WorkerProcess]"]


class Pool:
    """Up to *most* workers; *warm* of them are kept even when idle. Thread-safe.

    Where some are warm, one more is made when the last idle one is taken, in a thread that *start* gives: the next run
    finds it. An error with one worker ends that worker alone.

    Each of several callers is sure of some; those who wait are served by turns, and each one's runs in their order.
    """

    def __init__(
        self,
        make: Callable[[], WorkerProcess],
        start: Callable[[Callable[[], None]], None],
        *,
        most: int,
        warm: int,
        callers: Callable[[], int] = lambda: 1,
    ) -> None:
        self._make = make
        self._start = start
        self.most = most
        self.warm = min(warm, most)
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._shares = Shares(most, callers)
        self._holders: dict[WorkerProcess, str] = {}
        self._waiting: dict[str, deque[Place]] = {}  # whose turn it is next comes first
        self._lock = threading.Lock()
        self._closed = False
        self._retiring: Deadline | None = None
        self._growing = False
        self._used = time.monotonic()

    def __len__(self) -> int:
        return len(self._all)

    def prepare(self) -> None:
        """Make the warm workers now, so that the first run finds one. One must come about; more are a help."""
        with self._lock:
            if not self._closed and not self._all and self.warm:
                self._idle.append(self._new())
        for _ in range(self.warm - len(self._all)):
            self._grow()

    def _new(self) -> WorkerProcess:
        worker = self._make()
        self._all.add(worker)
        return worker

    def _grow(self) -> None:
        """One more idle worker, which nobody waits for."""
        # A sandbox that is closed meanwhile wants none.
        with apart("one more worker could not be made"), contextlib.suppress(SandboxClosed):
            worker = self._make()
            with self._lock:
                wanted = not self._closed and len(self._all) < self.most
                if wanted:
                    self._all.add(worker)
                    self._offer(worker)
            if not wanted:
                worker.close()
        self._growing = False

    def take(self) -> WorkerProcess | asyncio.Future[WorkerProcess]:
        """A worker for the caller that is free or may be made, else a place in its queue.

        One step, under the lock: a worker that comes free in between would be nobody's.
        """
        caller = CALLER.get()
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            if caller not in self._waiting and self._shares.room(caller):
                worker = self._take_idle() or self._new()
                self._hold(worker, caller)
                if self.warm and not self._idle and not self._growing and len(self._all) < self.most:
                    self._growing = True
                    try:
                        self._start(self._grow)
                    except RuntimeError:  # there can be no more threads
                        self._growing = False
                return worker
            loop = asyncio.get_running_loop()
            future: asyncio.Future[WorkerProcess] = loop.create_future()
            self._waiting.setdefault(caller, deque()).append((loop, future))
            return future

    def _hold(self, worker: WorkerProcess, caller: str) -> None:
        if self._shares.shared:
            worker.place(self._shares.held[caller])
        self._holders[worker] = caller
        self._shares.take(caller)

    def _next(self) -> tuple[str, Place] | None:
        """Whoever is to have the next worker: of the callers who may have one, the one whose turn it is."""
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

    def _take_idle(self) -> WorkerProcess | None:
        """The most recently used one that has its next guest ready, else any."""
        for worker in self._idle[::-1]:
            try:
                worker.catch_up()  # it may have become ready, or died
            except Exception:
                log.warning("a worker can't be read", exc_info=True)
                self._give_up(worker)
                continue
            if not worker.alive:
                self._give_up(worker)
            elif worker.ready:
                self._idle.remove(worker)
                return worker
        return self._idle.pop() if self._idle else None

    def _give_up(self, worker: WorkerProcess) -> None:
        if worker in self._idle:
            self._idle.remove(worker)
        self._all.discard(worker)
        with apart("a worker can't be ended"):
            worker.close()

    def release(self, worker: WorkerProcess) -> None:
        """Give a worker back, or what is left of it: a lost one is replaced when it is needed."""
        with self._lock:
            if (caller := self._holders.pop(worker, None)) is not None:
                self._shares.give(caller)
                if self._shares.shared and not worker.place(0):
                    worker.stuck = True
            if worker.stuck or self._closed or not worker.alive:
                self._give_up(worker)
                replacement = None if self._closed else self._replacement()
                if replacement is None:
                    return
                worker = replacement
            self._offer(worker)

    def _offer(self, worker: WorkerProcess) -> None:
        """Under the lock: the worker is for whoever waits, or else idle."""
        worker.idle_since = self._used = time.monotonic()
        while (turn := self._next()) is not None:
            caller, (loop, future) = turn
            self._hold(worker, caller)
            if self._hand_over(loop, future, worker):
                return
            del self._holders[worker]
            self._shares.give(caller)
        self._idle.append(worker)
        self._retire_later()

    def _replacement(self) -> WorkerProcess | None:
        """A new worker for those who wait, or to be kept warm. One that can't be made is the first waiter's trouble."""
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
        if len(self._all) < self.warm:  # the next run is not to wait for it
            with contextlib.suppress(Exception):
                return self._new()
        return None

    def _hand_over(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[WorkerProcess], worker: WorkerProcess
    ) -> bool:
        if runs_here(loop):
            future.set_result(worker)  # `_next` gives no place that was given up
            return True

        def give() -> None:
            if future.done():
                self.release(worker)
            else:
                future.set_result(worker)

        try:
            loop.call_soon_threadsafe(give)
            return True
        except RuntimeError:  # that loop is closed
            return False

    def _retire_later(self) -> None:
        if self._retiring is None and not self._closed and len(self._all) > min(self.warm, 1):
            self._retiring = watchdog.after(IDLE_S, self._retire)

    def _retire(self) -> None:
        """End workers that have been idle for a while, to free their memory."""
        with self._lock:
            self._retiring = None
            now = time.monotonic()
            least = self.warm if now - self._used < QUIET_S else min(self.warm, 1)
            for worker in list(self._idle):
                if len(self._all) > least and now - worker.idle_since >= IDLE_S:
                    self._give_up(worker)
            self._retire_later()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting = [place for places in self._waiting.values() for place in places]
            self._waiting.clear()
            if self._retiring is not None:
                self._retiring.cancel()
            for worker in list(self._idle):
                self._give_up(worker)
        for loop, future in waiting:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_fail, future, SandboxClosed("the sandbox is closed"))


def _fail(future: asyncio.Future[WorkerProcess], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class Queued:
    """A run that has no worker yet; it can still be interrupted."""

    def __init__(self) -> None:
        self.interrupted = False
        self._place: asyncio.Future[WorkerProcess] | None = None

    def stop(self, reason: str) -> None:
        self.interrupted = True
        if self._place is not None:
            with contextlib.suppress(RuntimeError):
                self._place.get_loop().call_soon_threadsafe(self._place.cancel)

    async def wait_for(self, place: asyncio.Future[WorkerProcess], pool: Pool) -> WorkerProcess | None:
        """The worker that comes to *place* in the queue, or None when the run was interrupted before."""
        self._place = place
        if self.interrupted:
            place.cancel()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                pool.release(place.result())  # it came in the very moment that nobody waited any more
            place.cancel()
            task = asyncio.current_task()
            if self.interrupted and not (task is not None and task.cancelling()):
                return None
            raise
