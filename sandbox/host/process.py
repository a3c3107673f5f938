"""A worker process, as the host sees it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from go_ent.sandbox.children.proc import read_stat, threads_of
from go_ent.sandbox.hardening.wall import read
from go_ent.sandbox.host.background import Ears
from go_ent.sandbox.host.threads import Threads
from go_ent.sandbox.host.zygote import Zygote
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.memory import map_of, size_from_map

if TYPE_CHECKING:
    from go_ent.sandbox.host.flight import Flight

log = logging.getLogger("go_ent.sandbox")
POLL_READS = 4
NICER, LAST = 5, 19
MAX_PID = 10
MAX_WORD = 1 << 16
SHORT = 1 << 8  # a message that takes less time to act on than two looks at the clock are worth
MARK_NS = 2_500  # of CPU time, more than it takes, for each bracket of such a message: a call has two, a message three
MOST_MARKS = 16  # of a message that is charged by them: more may be text


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
        self.stuck = False  # it can't be used again: its run was given up while it was busy
        self.ready = True  # it has a guest made and touched: it starts with the zygote's own
        self.frames = wire.Frames()
        self.idle_since = time.monotonic()
        self.flight: Flight | None = None
        self._out: deque[memoryview] = deque()
        self._unsent = 0  # bytes in it
        self._out_lock = threading.Lock()
        self._draining = False
        self._ears: Ears | None = None  # of the loop that listens
        self._read_apart = False  # a thread reads what it says: the socket is closed when that has left
        self.output = os.memfd_create("go-ent-output", os.MFD_CLOEXEC)
        self.sock, theirs = socket.socketpair()
        self._readable = select.poll()
        self._readable.register(self.sock, select.POLLIN)
        try:
            zygote.fork(theirs, self.output)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    # -- talking

    def send(self, kind: int, *parts: bytes) -> None:
        """Send without ever blocking the caller; what does not fit, and is not copied here, is sent by a thread."""
        size = sum(map(len, parts))
        pieces = [wire.HEAD.pack(size, kind), *parts]
        with self._out_lock:
            if not self.alive:
                return
            if not self._out and size <= wire.LARGE:
                data, sent = b"".join(pieces), 0
                try:
                    sent = self.sock.send(data, socket.MSG_DONTWAIT)
                except (BlockingIOError, InterruptedError):
                    pass
                except OSError:
                    return  # gone; the reader notices
                if sent == len(data):
                    return
                pieces = [data[sent:]]
            self._out += map(memoryview, pieces)
            self._unsent += sum(map(len, pieces))
            if not self._draining:
                self._draining = True
                try:
                    self.threads.start(self._drain)
                except RuntimeError:  # there can be no more threads: whoever reads hears that it is gone
                    self._draining = False
                    self._forget_unsent()
                    self.kill()

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
                    sent = self.sock.send(self._out[0][: 1 << 20], socket.MSG_DONTWAIT)
                    self._unsent -= sent
                    if sent == len(self._out[0]):
                        self._out.popleft()
                    else:
                        self._out[0] = self._out[0][sent:]
                    continue
                except (BlockingIOError, InterruptedError):
                    pass
                except OSError:
                    self._forget_unsent()
                    continue
            writable.poll(100)

    def _forget_unsent(self) -> None:
        """Under the lock: nobody will read it."""
        self._out.clear()
        self._unsent = 0

    def unsent(self) -> int:
        """Bytes that the worker has not taken yet. From any thread, without the lock: it is asked for each completion
        while another thread sends, so the bytes are counted as they come and go.
        """
        return self._unsent

    def listen(self, loop: asyncio.AbstractEventLoop, heard: Callable[[], None]) -> None:
        """Have *loop* call when there is something to read, for the length of a run.

        No longer: a loop that still watches a socket when it is closed takes the next one of that number for it.
        """
        self._ears = Ears.of(loop)
        self._ears.listen(self.sock.fileno(), heard)

    def unlisten(self) -> None:
        ears, self._ears = self._ears, None
        if ears is not None and self.alive:
            ears.unlisten(self.sock.fileno())

    def catch_up(self) -> None:
        """Act on what it said while nobody listened, and notice if it is gone."""
        if self.frames or self._readable.poll(0):
            self.poll()

    def poll(self, most: int = POLL_READS) -> None:
        """Read and act on what has arrived, and notice if the worker is gone. Never for long: a worker may be
        broken.
        """
        for _ in range(most):
            if not self.alive:
                return
            try:
                data = self.sock.recv(wire.RECEIVE, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                if self.frames:
                    self.take_in(None)
                return
            except OSError:
                data = b""
            self.take_in(data)

    def wait(self) -> bytes:
        """In a thread of its own: what the worker says next; nothing if it is gone."""
        try:
            return self.sock.recv(wire.RECEIVE)
        except OSError:
            return b""

    def enter(self) -> None:
        """A thread reads from here on, until it says `leave`."""
        self.unlisten()
        self._read_apart = True

    def leave(self) -> None:
        with self._out_lock:
            self._read_apart = False
            if not self.alive:
                self.sock.close()

    def take_in(self, data: bytes | None) -> None:
        """Act on what was read, and on what is left of earlier; None: nothing new was. An empty read means that the
        worker is gone; one that sends what is not our language is ended.
        """
        flight = self.flight
        price = None
        if data and len(data) <= SHORT and not self.frames and flight is not None and flight.job.taped is None:
            marks = data.count(b"[")
            price = marks * MARK_NS if marks <= MOST_MARKS else None  # a record takes longer, and is measured
        before = 0 if flight is None or price is not None else time.thread_time_ns()
        if not self._act_on_frames(flight, data) or data == b"":
            self.lose()
        elif flight is not None and not flight.over:
            flight.charge(time.thread_time_ns() - before if price is None else price)

    def _act_on_frames(self, flight: Flight | None, data: bytes | None) -> bool:
        """Act on what has arrived, as far as the run can take it now; False for what is not our language."""
        try:
            if data and (flight is None or flight.listens):
                if (only := self.frames.only(data, self._room)) is not None:
                    self._act(*only)
                    return True
            elif data:
                self.frames.feed(data)
            while (flight is None or flight.listens) and (found := self.frames.next(self._room)) is not None:
                self._act(*found)
            return True
        except wire.Closed as error:
            log.warning("a worker does not speak our language any more: it is ended: %s", error)
        except Exception:
            log.exception("a worker does not speak our language any more: it is ended")
        return False

    def lose(self) -> None:
        flight, self.flight = self.flight, None
        if flight is not None:
            flight.died()
        self.close()

    def _room(self, kind: int) -> int:
        """How long a frame may be: outside a run a worker says little."""
        flight = self.flight
        return MAX_WORD if flight is None else flight.rooms.get(kind, MAX_WORD)

    def _act(self, kind: int, payload: bytes | bytearray) -> None:
        if kind == wire.READY:
            self.ready = True
        elif kind == wire.HELLO:
            pid, _, rest = payload.partition(b" ")
            walls, _, remade = rest.partition(b"\n")
            self._meet(int(pid[:MAX_PID]))
            self.zygote.told(read(bytes(walls)), bytes(remade).decode("utf-8", "replace"))
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
            return 0 if self.pid is None else size_from_map(self.zygote.orders.artefact, map_of(self.pid))
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

    def place(self, rank: int) -> bool:
        """Run behind *rank* others of its caller's: the more run at once, the less the kernel gives each, so that
        together they get little more than one. False if it can't come back to the front, and so is of no use to anybody
        else.
        """
        nice = min(LAST, os.getpriority(os.PRIO_PROCESS, 0) + NICER * rank)
        if self.pid is not None and nice != self._nice:
            try:
                for thread in threads_of(self.pid):  # the kernel means one of them by a process
                    with contextlib.suppress(ProcessLookupError):
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
            if self._read_apart:
                with contextlib.suppress(OSError):
                    self.sock.shutdown(socket.SHUT_RDWR)  # which whoever reads hears of
            else:
                self.sock.close()
        os.close(self.output)
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            os.close(pidfd)
