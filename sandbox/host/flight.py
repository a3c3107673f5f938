"""One run under way, wherever it runs: what both kinds of worker share."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from go_ent.sandbox.host.broker import Broker
from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.watchdog import Deadline, watchdog
from go_ent.sandbox.worker.end import End
from go_ent.sandbox.worker.tape import Taped

GRACE_S = 0.02


@dataclass(slots=True)
class Job:
    """What a worker is asked to run."""

    request: bytes
    seed: bytes
    limits: Limits
    keep: bool
    session: bool = False
    again: bool = False
    taped: Taped | None = None


@dataclass(slots=True)
class Landing:
    """How a flight ended, and what it used."""

    end: End
    cpu_ns: int = 0
    memory: int = 0
    fuel: int | None = None
    stdout: bytes = b""
    kept: bytes | None = None
    problem: str | None = None  # what `end` is about, in words for people


class Flight(ABC):
    """A run on its way. `stop` may be called from any thread, any number of times; the first reason counts."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self.job = job
        self.loop = loop
        self.landed: asyncio.Future[Landing] = loop.create_future()
        self.lock = threading.RLock()
        self.reason: str | None = None
        self.over = False
        self.broker: Broker | None = None
        self._deadline: Deadline | None = None
        self._due: float | None = None
        self._served_ns = 0

    # What a kind of worker does in its own way:
    @abstractmethod
    def ask_to_stop(self, reason: str) -> None: ...

    @abstractmethod
    def force(self) -> None: ...

    @abstractmethod
    def cpu_used(self) -> float: ...

    @abstractmethod
    def abandon(self) -> None:
        """Nobody waits for the run any more."""

    def charge(self, ns: int) -> None:
        """CPU time that the host spent on what the guest sent: the run's, like the guest's own. One thread at a
        time.
        """
        self._served_ns += ns

    def watch(self) -> None:
        """Start the clocks."""
        limits = self.job.limits
        self._due = None if limits.timeout_s is None else time.monotonic() + limits.timeout_s
        cpu = None if limits.cpu_s is None else limits.cpu_s / 2
        soonest = min((limit for limit in (limits.timeout_s, cpu) if limit is not None), default=None)
        if soonest is not None:
            self._deadline = watchdog.after(soonest, self._check)

    def _check(self) -> None:
        """The guest and the host's work for it never use more than two seconds of CPU time in one of the wall's."""
        limits = self.job.limits
        with self.lock:
            if self.over or self.reason is not None:
                return
            waits = []
            if self._due is not None:
                waits.append(self._due - time.monotonic())
                if waits[-1] <= 0:
                    self.stop("timeout")
                    return
            if limits.cpu_s is not None:
                waits.append((limits.cpu_s - self.cpu_used()) / 2)
                if waits[-1] <= 0.0005:
                    self.stop("cpu_limit")
                    return
            self._deadline = watchdog.after(max(min(waits), 0.002), self._check)

    def stop(self, reason: str) -> None:
        with self.lock:
            if self.over or self.reason is not None:
                return
            self.reason = reason
            self.ask_to_stop(reason)
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = watchdog.after(GRACE_S, self._force)

    def _force(self) -> None:
        with self.lock:
            if not self.over:
                self.force()

    def land(self, landing: Landing) -> None:
        """The end; the first call counts. Thread-safe."""
        with self.lock:
            if self.over:
                return
            self.over = True
            if self._deadline is not None:
                self._deadline.cancel()
        if self.reason is not None:
            landing.end = End(reason=self.reason)
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self.loop:
            self._deliver(landing)
        else:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._deliver, landing)

    def _deliver(self, landing: Landing) -> None:
        if not self.landed.done():
            self.landed.set_result(landing)


Connect = Callable[[Flight, Callable[[bytes], None], Callable[[], int]], Broker]
"""Makes a flight's broker, given how to complete a call and how many bytes the guest has not read yet."""


class Berth(Protocol):
    """A place where one guest at a time can run: a worker process, or a thread of this one."""

    alive: bool
    ready: bool  # it has a guest made and touched
    stuck: bool  # it can't be used again: its run was given up while it was busy
    idle_since: float

    def poll(self) -> None: ...
    def place(self, rank: int) -> bool:
        """Run behind *rank* others of its caller's; False if it can't come back to the front, and so is of no use to
        anybody else.
        """
        ...

    def launch(self, job: Job, loop: asyncio.AbstractEventLoop, connect: Connect) -> Flight: ...
    def close(self) -> None: ...
