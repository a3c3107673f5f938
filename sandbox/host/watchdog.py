"""Deadlines that fire whatever the event loop does: one thread, asleep until the next one."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable

log = logging.getLogger("go_ent.sandbox")


class Deadline:
    """A call that will be made at a time, unless it is cancelled before."""

    __slots__ = ("action", "when")

    def __init__(self, when: float, action: Callable[[], None]) -> None:
        self.when = when
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Watchdog:
    """Makes calls at given times of the monotonic clock, in a daemon thread that ends when it has nothing to do."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._running = False

    def after(self, seconds: float, action: Callable[[], None]) -> Deadline:
        deadline = Deadline(time.monotonic() + seconds, action)
        with self._changed:
            heap = self._heap
            if len(heap) > 1000 and sum(1 for item in heap if item[2].action is None) * 2 > len(heap):
                heap[:] = [item for item in heap if item[2].action is not None]
                heapq.heapify(heap)
            first = not heap or deadline.when < heap[0][0]
            heapq.heappush(heap, (deadline.when, next(self._count), deadline))
            if not self._running:
                threading.Thread(target=self._watch, name="sandbox-watchdog", daemon=True).start()
                self._running = True
            elif first:
                self._changed.notify()
        return deadline

    def _watch(self) -> None:
        while True:
            with self._changed:
                while self._heap and self._heap[0][2].action is None:
                    heapq.heappop(self._heap)
                if not self._heap:
                    if not self._changed.wait(5.0) and not self._heap:
                        self._running = False
                        return
                    continue
                wait = self._heap[0][0] - time.monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
                deadline = heapq.heappop(self._heap)[2]
            action = deadline.action
            if action is not None:
                try:
                    action()
                except Exception:  # one deadline's trouble is not the next one's
                    log.exception("a deadline could not be carried out")


watchdog = Watchdog()
# A forked child has none of its parent's threads, and none of its runs.
os.register_at_fork(after_in_child=watchdog.__init__)  # type: ignore[misc]
