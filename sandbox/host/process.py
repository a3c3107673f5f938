"""Worker processes, as the host sees them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Collection
from functools import lru_cache

from go_ent.sandbox.children.proc import read_stat, threads_of
from go_ent.sandbox.children.python import start_python
from go_ent.sandbox.errors import SandboxClosed
from go_ent.sandbox.hardening.wall import WALLS, Wall, read
from go_ent.sandbox.host.flight import Connect, Flight, Job, Landing
from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.threads import Threads
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.end import End
from go_ent.sandbox.worker.memory import size_from_map
from go_ent.sandbox.worker.paths import worker_path

# The worker sees only these two folders and the standard library: no site-packages hooks, no environment.
_BOOT = """
import sys, json
fd, fuel, artefact, path, walls = json.loads(sys.argv[1])
sys.path[:0] = path
from go_ent.sandbox.worker.zygote import main
main(fd, artefact, fuel, walls)
"""


log = logging.getLogger("go_ent.sandbox")
POLL_READS = 4
NICER, LAST = 5, 19
MAX_PID = 10
MAX_WORD = 1 << 16
MAX_CODE = 4 << 20
LARGE = 1 << 16  # a message that is not read on the loop
NEXT_GUEST_NS = 100_000_000  # what a worker may have used beside a run: it makes its next guest


class Zygote:
    """The process that forks workers; started when the first is needed, and again should it die."""

    def __init__(self, artefact: str, *, fuel: bool, walls: Collection[str] = WALLS) -> None:
        self.artefact = artefact
        self.fuel = fuel
        self.walls: tuple[Wall, ...] | None = None  # as the first worker has told; they are the same around all
        self._wanted = list(walls)
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    def _launch(self) -> None:
        self._discard()
        ours, theirs = socket.socketpair()
        path = worker_path()
        order = json.dumps([theirs.fileno(), self.fuel, self.artefact, path, self._wanted])
        self._process = start_python(["-S", "-c", _BOOT, order], pass_fds=[theirs.fileno()])
        theirs.close()
        self._control = ours

    def fork(self, sock: socket.socket, output: int) -> None:
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            for attempt in (1, 2):
                if self._process is None or self._process.poll() is not None:
                    self._launch()
                assert self._control is not None
                try:
                    socket.send_fds(self._control, [b"W"], [sock.fileno(), output])
                    return
                except OSError:
                    if attempt == 2:
                        raise
                    assert self._process is not None
                    self._process.kill()
                    self._process.wait()

    def problem(self) -> str:
        """What it said when it could not start, if that is why it is gone."""
        with self._lock:
            if self._control is None or self._process is None or self._process.poll() is None:
                return ""
            frames = wire.Frames()
            with contextlib.suppress(OSError, wire.Closed):
                frames.feed(self._control.recv(1 << 16, socket.MSG_DONTWAIT))
                while (found := frames.next()) is not None:
                    if found[0] == wire.FAILED:
                        return found[1].decode("utf-8", "replace")[:1000]
            return ""

    def told(self, walls: tuple[Wall, ...]) -> None:
        """Which walls stand around a worker. A host whose kernel lacks one has it in its log, once."""
        if self.walls is None:
            self.walls = walls
            missing = [f"{wall.name} ({wall.said})" for wall in walls if not wall.stands and wall.name in self._wanted]
            if missing:
                log.warning("workers run without %s", ", ".join(missing))

    def _discard(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._discard()


class WorkerProcess:
    """One worker: a socket, a file that takes its guest's output, and a pid to kill."""

    def __init__(self, zygote: Zygote, threads: Threads) -> None:
        self.zygote = zygote
        self.threads = threads
        self.pid: int | None = None
        self._pidfd: int | None = None
        self._rank = 0
        self._nice: int | None = os.getpriority(os.PRIO_PROCESS, 0)  # its zygote's
        self.alive = True
        self.stuck = False
        self.ready = True  # it starts with the zygote's own guest
        self.frames = wire.Frames()
        self.idle_since = time.monotonic()
        self.flight: ProcessFlight | None = None
        self._out: deque[bytes] = deque()
        self._out_lock = threading.Lock()
        self._draining = False
        self._listening: asyncio.AbstractEventLoop | None = None
        self.output = os.memfd_create("go-ent-output", os.MFD_CLOEXEC)
        self.sock, theirs = socket.socketpair()
        try:
            zygote.fork(theirs, self.output)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
        self.sock.setblocking(False)

    # -- talking

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Send without ever blocking the caller; what does not fit is sent by a thread."""
        data = wire.frame(kind, payload)
        with self._out_lock:
            if not self.alive:
                return
            if not self._out:
                try:
                    data = data[self.sock.send(data) :]
                except (BlockingIOError, InterruptedError):
                    pass
                except OSError:
                    return  # gone; the reader notices
            if data:
                self._out.append(data)
                if not self._draining:
                    self._draining = True
                    self.threads.start(self._drain)

    def _drain(self) -> None:
        """In a thread: send what is left over, as the worker takes it."""
        writable = select.poll()
        writable.register(self.sock, select.POLLOUT)
        while True:
            with self._out_lock:
                if not self._out or not self.alive:
                    self._draining = False
                    return
                try:
                    sent = self.sock.send(self._out[0][: 1 << 20])
                    if sent == len(self._out[0]):
                        self._out.popleft()
                    else:
                        self._out[0] = self._out[0][sent:]
                    continue
                except (BlockingIOError, InterruptedError):
                    pass
                except OSError:
                    self._out.clear()
                    continue
            writable.poll(100)

    def unsent(self) -> int:
        """Bytes that the worker has not taken yet."""
        return sum(map(len, self._out))

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have *loop* read what this worker says, for the length of a run.

        No longer: a loop that still watches a socket when it is closed takes the next one of that number for it.
        """
        self._listening = loop
        loop.add_reader(self.sock.fileno(), self.poll, 1)

    def unlisten(self) -> None:
        loop, self._listening = self._listening, None
        if loop is not None and self.alive:
            loop.remove_reader(self.sock.fileno())

    def poll(self, most: int = POLL_READS) -> None:
        """Read and act on what has arrived, and notice if the worker is gone. Never for long: a worker may be
        broken.
        """
        for _ in range(most):
            if not self.alive:
                return
            try:
                data = self.sock.recv(1 << 18)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            before, flight = time.thread_time_ns(), self.flight
            self.frames.feed(data)
            if not self.act_on_frames() or not data:
                self._lose()
            elif flight is not None:
                flight.charge(time.thread_time_ns() - before)

    def act_on_frames(self) -> bool:
        """Act on what has arrived, unless the run's last message is still being read; False for what is not our
        language.
        """
        try:
            while (self.flight is None or not self.flight.reading) and (
                found := self.frames.next(self._room)
            ) is not None:
                self._act(*found)
            return True
        except wire.Closed as error:
            log.warning("a worker does not speak our language any more: it is ended: %s", error)
        except Exception:
            log.exception("a worker does not speak our language any more: it is ended")
        return False

    def resume(self, loop: asyncio.AbstractEventLoop, understood: bool) -> None:
        """Go on after a message that was read elsewhere, and with what has arrived behind it."""
        if not self.alive:
            return
        self.listen(loop)
        if not understood or not self.act_on_frames():
            self._lose()

    def _lose(self) -> None:
        flight, self.flight = self.flight, None
        if flight is not None:
            flight.died()
        self.close()

    def _room(self, kind: int) -> int:
        """How long a frame may be: outside a run a worker says little."""
        flight = self.flight
        return flight.room(kind) if flight is not None and kind in (wire.EXCHANGE, wire.KEEP, wire.DONE) else MAX_WORD

    def _act(self, kind: int, payload: bytes) -> None:
        if kind == wire.READY:
            self.ready = True
        elif kind == wire.HELLO:
            pid, _, walls = payload.partition(b" ")
            self._meet(int(pid[:MAX_PID]))
            self.zygote.told(read(walls))
        elif self.flight is not None:
            self.flight.act(kind, payload)

    def _meet(self, pid: int) -> None:
        """Believe a worker's pid once, and only if that process is our zygote's child: it is what will be killed."""
        if self.pid is not None:
            raise wire.Closed("a second HELLO")
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return  # gone already
        stat = read_stat(pid)
        if stat is None or stat.parent != self.zygote.pid:
            os.close(pidfd)
            raise wire.Closed("not a worker of ours")
        self.pid, self._pidfd = pid, pidfd
        if self._rank:
            self._nice = None  # what was wished for before it was known
            self.place(self._rank)

    def take_output(self, limit: int | None) -> bytes:
        """What the guest printed. The file is shared with the worker, so its size is only a claim."""
        size = min(os.fstat(self.output).st_size, wire.output_room(limit))
        if not size:
            return b""
        data = os.pread(self.output, size, 0)
        os.ftruncate(self.output, 0)
        os.lseek(self.output, 0, os.SEEK_SET)
        return data

    # -- measuring and ending

    def cpu_ns(self) -> int:
        """CPU time the process has used, from its own clock."""
        if self.pid is None:
            return 0
        try:
            return time.clock_gettime_ns(~self.pid << 3 | 2)
        except OSError:
            return 0

    def memory(self) -> int:
        try:
            return size_from_map(self.zygote.artefact, pid=self.pid) if self.pid is not None else 0
        except OSError:
            return 0

    def kill(self) -> None:
        if self._pidfd is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        else:
            # Not yet heard of: it will find its socket closed.
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def launch(self, job: Job, loop: asyncio.AbstractEventLoop, connect: Connect) -> Flight:
        return ProcessFlight(self, job, loop, connect)

    def place(self, rank: int) -> bool:
        """The more of a caller's run at once, the less the kernel gives each: together they get little more than
        one.
        """
        nice = min(LAST, os.getpriority(os.PRIO_PROCESS, 0) + NICER * rank)
        if self.pid is not None and nice != self._nice:
            try:
                for thread in threads_of(self.pid):  # the kernel means one of them by a process
                    os.setpriority(os.PRIO_PROCESS, thread, nice)
            except PermissionError:  # only some may go back to the front
                return False
            except OSError:  # it is gone, as whoever uses it will notice
                return True
        self._nice, self._rank = nice, rank
        return True

    def close(self) -> None:
        with self._out_lock:
            if not self.alive:
                return
            self.alive = False
        self.kill()
        self.sock.close()
        os.close(self.output)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


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


class ProcessFlight(Flight):
    """A run in a worker process. It is asked to stop, and killed if it does not."""

    def __init__(self, worker: WorkerProcess, job: Job, loop: asyncio.AbstractEventLoop, connect: Connect) -> None:
        super().__init__(job, loop)
        self.worker = worker
        self.kept: bytes | None = None
        self.reading = False  # a message that is long is being read elsewhere: what comes after it waits
        self._used: tuple[int, int] | None = None
        self.broker = connect(self, lambda completion: worker.send(wire.COMPLETION, completion), worker.unsent)
        self._cpu_before = worker.cpu_ns()
        worker.flight = self
        worker.ready = False
        worker.listen(loop)
        order = _order(job.limits, job.keep, job.session, job.again, job.taped is not None)
        worker.send(wire.RUN, wire.encode_run(job.seed, order, job.request, job.taped))
        self.watch()

    def cpu_used(self) -> float:
        return self._cpu_ns() / 1e9

    def _cpu_ns(self) -> int:
        return self.worker.cpu_ns() - self._cpu_before + self._served_ns

    def room(self, kind: int) -> int:
        """How long what the worker says of this run may be."""
        limits = self.job.limits
        if kind == wire.EXCHANGE:
            return wire.message_room(limits.max_call_bytes) + (0 if self.job.taped is None else wire.MAX_HEARD + 1)
        if kind == wire.DONE:
            return wire.DONE_HEAD.size + wire.answer_room(limits.max_result_bytes, limits.max_file_bytes)
        return MAX_CODE if self.job.keep else 0

    def ask_to_stop(self, reason: str) -> None:
        if reason == "cpu_limit":
            self.force()
        else:
            self.worker.send(wire.STOP, reason.encode())

    def force(self) -> None:
        if self._used is None:
            self._used = self._cpu_ns(), self.worker.memory()
        self.worker.kill()

    def abandon(self) -> None:
        """Nobody waits for it any more: end it now."""
        with self.lock:
            if self.over:
                return
            self.reason = self.reason or "interrupted"
        self.force()
        self._end(Landing(End(reason="interrupted")))

    def act(self, kind: int, payload: bytes) -> None:
        """What the worker says of this run."""
        if kind == wire.EXCHANGE and len(payload) > LARGE:
            self.reading = True
            self.worker.unlisten()
            self.worker.threads.start(lambda: self._receive_apart(payload))
        elif kind == wire.EXCHANGE:
            self._receive(payload)
        elif kind == wire.KEEP:
            self.kept = self.kept or payload
        elif kind == wire.DONE:
            end, cpu, memory, fuel = wire.decode_done(payload)
            used = self._cpu_ns()
            if used - cpu < NEXT_GUEST_NS:  # else it is not telling the truth
                used = cpu + self._served_ns
            self._end(Landing(end, used, memory, fuel if self.job.limits.fuel is not None else None))

    def _receive(self, payload: bytes) -> None:
        assert self.broker is not None
        if self.job.taped is None:
            self.broker.receive(payload)
        else:
            heard, body = wire.split_heard(payload)
            self.broker.receive(body, heard)

    def _receive_apart(self, payload: bytes) -> None:
        """In a thread: what takes milliseconds to read would keep the loop from everything else."""
        before = time.thread_time_ns()
        try:
            self._receive(payload)
            understood = True
        except Exception:
            log.exception("a worker does not speak our language any more: it is ended")
            understood = False
        self.charge(time.thread_time_ns() - before)
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(self._go_on, understood)

    def _go_on(self, understood: bool) -> None:
        self.reading = False
        if not self.over:
            self.worker.resume(self.loop, understood)

    def died(self) -> None:
        if self.worker.pid is None and (problem := self.worker.zygote.problem()):
            self._end(Landing(End(trap=f"its worker could not start: {problem}")))
        else:
            self._end(Landing(End(trap="died"), *(self._used or (0, 0))))

    def _end(self, landing: Landing) -> None:
        """On the loop: let go of the worker. Under the lock, so that no deadline ends it after it was found well."""
        worker = self.worker
        with self.lock:
            if self.over:
                return
            worker.flight = None
            try:
                worker.unlisten()
                landing.kept = self.kept
                if worker.alive:
                    landing.stdout = worker.take_output(self.job.limits.max_stdout_bytes)
            except OSError:
                landing.end = End(trap="died")
            if landing.end.trap is not None or self._used is not None:
                worker.close()
            self.land(landing)
