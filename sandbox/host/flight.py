"""One run under way in a worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable
from functools import lru_cache, partial

from go_ent.dataclass import dataclass
from go_ent.sandbox.host.background import runs_here
from go_ent.sandbox.host.broker import Broker, Call
from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.process import WorkerProcess
from go_ent.sandbox.host.tools import Granted
from go_ent.sandbox.host.watchdog import Deadline, watchdog
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.end import End
from go_ent.sandbox.worker.tape import Tape, Taped

log = logging.getLogger("go_ent.sandbox")
GRACE_S = 0.02
MAX_CODE = 4 << 20
LOOK_S = 0.005  # after which a tool that is still called is looked at
NEXT_GUEST_NS = 100_000_000  # what a worker may have used beside a run: it makes its next guest


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


@lru_cache(64)
def _order(limits: Limits, keep: bool, session: bool, again: bool, taped: bool) -> bytes:
    memory = None if limits.memory_mb is None else limits.memory_mb << 20
    order = {
        "memory": memory,
        "fuel": limits.fuel,
        "stdout": limits.max_stdout_bytes,
        "keep": keep,
        "session": session,
        "again": again,
    }
    rooms = {
        "message_room": wire.message_room(limits.max_call_bytes),
        "answer_room": wire.answer_room(limits.max_result_bytes, limits.max_file_bytes),
    }
    return json.dumps({**order, **rooms, "taped": taped}).encode()


@lru_cache(64)
def _rooms(limits: Limits, keep: bool, taped: bool) -> dict[int, int]:
    """How long what a worker says of a run may be, by its kind."""
    return {
        wire.EXCHANGE: wire.message_room(limits.max_call_bytes) + (wire.MAX_HEARD + 1 if taped else 0),
        wire.DONE: wire.DONE_HEAD.size + wire.answer_room(limits.max_result_bytes, limits.max_file_bytes),
        wire.KEEP: MAX_CODE if keep else 0,
    }


class Flight:
    """A run on its way. `stop` may be called from any thread, any number of times; the first reason counts. The worker
    is asked to stop, and killed if it does not.
    """

    def __init__(
        self, worker: WorkerProcess, job: Job, loop: asyncio.AbstractEventLoop, tools: Granted, tape: Tape | None
    ) -> None:
        # Gets the worker as soon as the run is over, before whoever waits for the run is woken: so the worker has its
        # next run while this one's outcome is read. Without it the worker is for whoever made the flight to give back.
        self.free: Callable[[WorkerProcess], None] | None = None
        self.freed = False
        self.worker = worker
        self.job = job
        self.loop = loop
        self.landed: asyncio.Future[Landing] = loop.create_future()
        self.lock = threading.RLock()
        self.reason: str | None = None
        self.over = False
        self._deadline: Deadline | None = None
        self._due: float | None = None
        self._served_ns = 0
        self.kept: bytes | None = None
        self.call: Call | None = None  # that has to be made before anything else is read
        self._making: Call | None = None
        self._looking = False
        self._reader = 0  # the thread that reads, if it is not the loop
        self._used: tuple[int, int] | None = None
        self._is_ready = False  # its worker, for the next run
        self.rooms = _rooms(job.limits, job.keep, job.taped is not None)
        complete = partial(worker.send, wire.COMPLETION)
        self.broker = Broker(tools, job.limits, loop, worker.threads, complete, self.stop, worker.unsent, tape)
        self._cpu_before = worker.cpu_ns()
        worker.flight = self
        worker.ready = False
        worker.listen(loop, self._heard)
        order = _order(job.limits, job.keep, job.session, job.again, job.taped is not None)
        worker.send(wire.RUN, wire.encode_run(job.seed, order, job.taped), job.request)
        self._watch()

    def charge(self, ns: int) -> None:
        """CPU time that the host spent on what the guest sent: the run's, like the guest's own. One thread at a
        time.
        """
        self._served_ns += ns

    def _watch(self) -> None:
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
            if reason == "cpu_limit":
                self._kill()
            else:
                self.worker.send(wire.STOP, reason.encode())
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = watchdog.after(GRACE_S, self._force)

    def _force(self) -> None:
        with self.lock:
            if not self.over:
                self._kill()

    def _land(self, landing: Landing) -> None:
        """The end; the first call counts. Thread-safe."""
        with self.lock:
            if self.over:
                return
            self.over = True
            if self._deadline is not None:
                self._deadline.cancel()
        if self.reason is not None:
            landing.end = End(reason=self.reason)
        if runs_here(self.loop):
            self._deliver(landing)
        else:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(self._deliver, landing)

    def _deliver(self, landing: Landing) -> None:
        """On the loop. Nobody waits any more if the task was cancelled: then its own clean-up frees the worker."""
        if not self.landed.done():
            if self.free is not None:
                self.broker.close()  # from here on the worker may be another run's
                self.freed = True
                self.free(self.worker)
            self.landed.set_result(landing)

    def cpu_used(self) -> float:
        return self._cpu_ns() / 1e9

    def _cpu_ns(self) -> int:
        return self.worker.cpu_ns() - self._cpu_before + self._served_ns

    def _kill(self) -> None:
        if self._used is None:
            self._used = self._cpu_ns(), self.worker.memory()
        self.worker.kill()

    def abandon(self) -> None:
        """Nobody waits for it any more: end it now."""
        with self.lock:
            if self.over:
                return
            self.reason = self.reason or "interrupted"
            self._kill()
        self._end(Landing(End(reason="interrupted")))

    # -- what the worker says

    def act(self, kind: int, payload: bytes | bytearray) -> None:
        """What the worker says of this run."""
        if kind == wire.EXCHANGE:
            heard, body = (b"", payload) if self.job.taped is None else wire.split_heard(payload)
            self.call = self.broker.receive(body, heard)
        elif kind == wire.KEEP:
            self.kept = self.kept or bytes(payload)
        elif kind == wire.DONE:
            end, cpu, memory, fuel, again = wire.decode_done(payload)
            self.worker.stuck = self.worker.stuck or again == wire.NO_MORE
            self._is_ready = again == wire.AT_ONCE  # by the time that it reads the next run
            used = self._cpu_ns()
            if used - cpu < NEXT_GUEST_NS:  # else it is not telling the truth
                used = cpu + self._served_ns
            self._end(Landing(end, used, memory, fuel if self.job.limits.fuel is not None else None))

    @property
    def listens(self) -> bool:
        """Whether it can take the next message."""
        return self.call is None and not self.over

    def _heard(self) -> None:
        """On the loop: something has arrived."""
        self.worker.poll(1)
        self._go_apart()

    def _go_apart(self) -> None:
        """On the loop: leave a plain call, or a message that takes milliseconds to receive and read, to a thread, which
        then reads what comes after it too.
        """
        if not self.over and (self.call is not None or self.worker.frames.large):
            self.worker.enter()
            try:
                self.worker.threads.start(self._read)
            except RuntimeError:  # there can be no more threads
                self.worker.leave()
                self.worker.lose()

    def _read(self) -> None:
        """In a thread: plain calls are made and answered here, without a turn of the loop or a change of threads. Until
        the run is over, or a call takes so long that another thread has to read on.
        """
        self._reader = threading.get_ident()
        try:
            while self._make_call():
                if self.worker.frames:  # something came with the call
                    self.worker.take_in(None)
                if self.listens:
                    data = self.worker.wait()
                    if not self.over:  # else it was abandoned
                        self.worker.take_in(data)
        except Exception:
            log.exception("a run failed inside the sandbox itself")
            if self._reader == threading.get_ident():  # else nobody would read any more
                self.worker.lose()
        self._leave()

    def _make_call(self) -> bool:
        """Whether this thread still reads, after the call that it had to make."""
        with self.lock:
            call, self.call = self.call, None
            if call is None or self.over:
                return not self.over
            self._making = call
            if not self._looking:
                self._looking = True
                watchdog.after(LOOK_S, self._look)
        self.broker.make(call)
        with self.lock:
            if self._making is not call:  # another thread reads on
                return False
            self._making = None
            return not self.over

    def _look(self, seen: Call | None = None) -> None:
        """The watchdog's: a tool that is still at the call it was *seen* at holds up its own run. Another thread reads
        on.
        """
        with self.lock:
            call = self._making
            self._looking = call is not None and not self.over
            if not self._looking:
                return
            if call is None or call is not seen:
                watchdog.after(LOOK_S, partial(self._look, call))
                return
            self._looking, self._making, self._reader = False, None, 0
            self.broker.slow.add(call.tool.name)
            try:
                self.worker.threads.start(self._read)
            except RuntimeError:  # there can be no more threads
                self.worker.leave()
                self._kill()
                self._end(Landing(End(trap="died")))

    def _leave(self) -> None:
        """The thread that reads is about to leave: after that the worker may be another's."""
        if self._reader == threading.get_ident():
            self._reader = 0
            self.worker.leave()

    def died(self) -> None:
        if self.worker.pid is None and (problem := self.worker.zygote.problem()):
            self._end(Landing(End(trap=f"its worker could not start: {problem}")))
        else:
            self._end(Landing(End(trap="died"), *(self._used or (0, 0))))

    def _end(self, landing: Landing) -> None:
        """Let go of the worker. Under the lock, so that no deadline kills a worker that goes on to another run."""
        worker = self.worker
        with self.lock:
            if self.over:
                return
            worker.flight = None
            worker.ready = self._is_ready
            try:
                worker.unlisten()
                landing.kept = self.kept
                if worker.alive:
                    landing.stdout = worker.take_output(self.job.limits.max_stdout_bytes)
            except OSError:
                landing.end = End(trap="died")
            if landing.end.trap is not None or self._used is not None:
                worker.close()
            self._leave()
            self._land(landing)
