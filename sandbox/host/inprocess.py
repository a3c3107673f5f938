"""Guests in threads of this process: the smallest latency, without a process's walls around them."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time

from go_ent.sandbox.host.broker import Broker
from go_ent.sandbox.host.flight import Connect, Flight, Job, Landing
from go_ent.sandbox.host.tools import CallFailed
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.end import End, Stop
from go_ent.sandbox.worker.machine import THREAD_STACK_BYTES, Guest, Machine
from go_ent.sandbox.worker.seam import Seam, TapedSeam

log = logging.getLogger("go_ent.sandbox")
_starting = threading.Lock()


class WorkerThread:
    """A thread with a machine of its own, so that its guest alone can be interrupted."""

    def __init__(self, artefact: str) -> None:
        self.artefact = artefact
        self.alive = True
        self.ready = False
        self.stuck = False  # busy with a run that was given up
        self.idle_since = time.monotonic()
        self._inbox: queue.SimpleQueue[ThreadFlight | None] = queue.SimpleQueue()
        self._kept: Guest | None = None
        self._guest: Guest | None = None
        self.machine: Machine | None = None
        with _starting:  # the stack size is a setting of the whole process
            before = threading.stack_size(THREAD_STACK_BYTES)
            try:
                self.thread = threading.Thread(target=self._serve, name="sandbox-guest", daemon=True)
                self.thread.start()
            finally:
                threading.stack_size(before)

    def poll(self) -> None:
        pass

    def place(self, rank: int) -> bool:
        return True

    def launch(self, job: Job, loop: asyncio.AbstractEventLoop, connect: Connect) -> Flight:
        flight = ThreadFlight(self, job, loop, connect)
        self._inbox.put(flight)
        return flight

    def close(self) -> None:
        if self.alive:
            self.alive = False
            self._inbox.put(None)

    def _serve(self) -> None:
        self.machine = Machine(self.artefact, epochs=True)
        while True:
            if self._kept is None:
                self._prepare()
            flight = self._inbox.get()
            if flight is None:
                break
            self._fly(flight)
            del flight
        for guest in (self._guest, self._kept):
            if guest is not None:
                guest.close()
        self.machine.close()

    def _prepare(self) -> None:
        assert self.machine is not None
        if self._guest is None and self._inbox.empty():
            self._guest = self.machine.guest()
        if self._guest is not None and not self._guest.touched and self._inbox.empty():
            self._guest.touch()
            self.ready = True

    def _fly(self, flight: ThreadFlight) -> None:
        assert self.machine is not None
        job = flight.job
        if self._kept is not None and not job.again:
            self._kept.close()  # a session that was given up
            self._kept = None
        guest = self._kept or self._guest or self.machine.guest()
        self._kept = self._guest = None
        self.ready = False
        self.stuck = False
        if job.taped is not None:
            guest.touch()  # always from the same heap
            guest.seam = TapedSeam(job.seed, job.taped)
        elif not job.again:
            guest.seam = Seam(job.seed)
        limits = job.limits
        landing = Landing(End(reason="interrupted"))
        try:
            if flight.begin(guest):
                memory = None if limits.memory_mb is None else limits.memory_mb << 20
                landing.end = guest.run(job.request, flight, memory_bytes=memory)
        except BaseException:  # an error of ours: it costs this run, not the worker
            log.exception("a run failed inside the sandbox itself")
            landing.end = End(trap="an error of the sandbox itself; the log has it")
        flight.finish()
        landing.cpu_ns = int(flight.cpu_used() * 1e9)
        landing.memory = guest.memory_size()
        landing.stdout = bytes(flight.output)
        landing.kept = flight.kept
        if job.session and landing.end.answer is not None and flight.reason is None:
            self._kept = guest
            guest = None  # type: ignore[assignment]
        flight.land(landing)
        if guest is not None:
            guest.close()


class ThreadFlight(Flight):
    """A run in a thread: also the port of its guest."""

    def __init__(self, worker: WorkerThread, job: Job, loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
        super().__init__(job, loop)
        self.worker = worker
        self.output = bytearray()
        self._room = wire.OutputRoom(job.limits.max_stdout_bytes)
        self._message_room = wire.message_room(job.limits.max_call_bytes)
        self.kept: bytes | None = None
        self._may_keep = job.keep
        self._completions: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._guest: Guest | None = None
        self._clock: int | None = None
        self._cpu_before = 0
        self._tools_cpu = 0
        self._tool_since: int | None = None  # a tool runs on this thread: its CPU time is not the guest's
        self._running = False
        self._unread = 0
        self.broker = connect(self, self._complete, lambda: self._unread)

    # -- on the worker's thread

    def begin(self, guest: Guest) -> bool:
        with self.lock:
            if self.reason is not None or self.over:
                return False
            self._guest = guest
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
            self._cpu_before = time.thread_time_ns()
            guest.store.set_epoch_deadline(1)
            self._running = True
        self.watch()
        return True

    def finish(self) -> None:
        with self.lock:
            self._running = False

    def exchange(self, message: bytes) -> bytes:
        wait, body = wire.split_exchange(message, self._message_room)
        broker, guest = self.broker, self._guest
        assert broker is not None
        assert guest is not None
        seam = guest.seam
        if isinstance(seam, TapedSeam):
            return seam.cross(wait, body, self._send_heard, self._receive)
        if body:
            completion = self._here_and_now(broker, wait, body)
            if completion is not None:
                return seam.deliver(b"[%b]" % completion)
        completion = self._receive(wait)
        return seam.deliver(b"[%b]" % completion if completion else b"")

    def _send_heard(self, heard: bytes, body: bytes) -> None:
        assert self.broker is not None
        self.broker.receive(body, heard)
        if self.reason is not None:
            raise Stop(self.reason)

    def _receive(self, wait: float | None) -> bytes:
        try:
            completion = self._completions.get(timeout=wait) if wait != 0 else self._completions.get_nowait()
        except queue.Empty:
            completion = b""
        if completion is None or self.reason is not None:
            raise Stop(self.reason or "stopped")
        self._unread -= len(completion)
        return completion

    def _here_and_now(self, broker: Broker, wait: float | None, body: bytes) -> bytes | None:
        """A plain function that is all the guest waits for runs on this thread: no hop, a fraction of the price."""
        if wait is None and broker.idle and self._completions.empty():
            parsed = broker.parse(body)
            if parsed is not None and len(parsed[0]) == 1 and not parsed[1]:
                call_id, name, args, kwargs = parsed[0][0]
                if broker.is_plain(name, call_id):
                    tool = broker.admit(name, call_id)
                    if tool is None or isinstance(tool, CallFailed):
                        return None
                    self._tool_since = before = time.thread_time_ns()
                    broker.enter(call_id, name, len(body))
                    completion = broker.call(tool, call_id, args, kwargs, len(body))
                    broker.leave(call_id)
                    self._tools_cpu += time.thread_time_ns() - before
                    self._tool_since = None
                    if self.reason is not None:
                        raise Stop(self.reason)
                    return completion
        broker.receive(body)
        return None

    def write(self, text: bytes) -> None:
        self.output += self._room.fit(text)

    def keep(self, code: bytes) -> None:
        if self._may_keep:
            self._may_keep = False
            self.kept = code

    # -- from anywhere

    def _complete(self, completion: bytes) -> None:
        self._unread += len(completion)
        self._completions.put(completion)

    def cpu_used(self) -> float:
        if self._clock is None:
            return 0.0
        try:
            now = self._tool_since or time.clock_gettime_ns(self._clock)
            return (now - self._cpu_before - self._tools_cpu) / 1e9
        except OSError:
            return 0.0

    def ask_to_stop(self, reason: str) -> None:
        self._completions.put(None)
        if self._running and self.worker.machine is not None:
            self.worker.machine.engine.increment_epoch()

    def force(self) -> None:
        """It sits in a tool that does not return: go on without it. The thread ends when the tool does."""
        self.worker.stuck = True
        self.land(Landing(End(reason=self.reason), int(self.cpu_used() * 1e9), 0, None, bytes(self.output)))

    def abandon(self) -> None:
        self.stop("interrupted")
