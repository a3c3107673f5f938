"""One child process from start to end: bounded, watched, interruptible, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Literal, TypeVar

import anyio

from go_ent.dataclass import dataclass
from go_ent.engine.processes import trees
from go_ent.sandbox.children.proc import OWNER, own_identity
from go_ent.sandbox.children.programs import program_to_start, with_safe_path

CHUNK = 64 << 10
PIPE_BYTES = 1 << 20  # the most that the kernel holds in a pipe, unless an administrator raised it
LINGER_S = 0.5  # for those who still hold stdout after the child has exited
QUICK_GRACE_S = 0.5  # between SIGTERM and SIGKILL when there is no time for more
LAST_S = 5.0  # for the kernel to end what got SIGKILL

T = TypeVar("T")
EndedBy = Literal["exit", "interrupted", "timeout", "silence", "output"]


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `env` is the whole environment of the child; `stdin` is written, then closed (empty:
    /dev/null).
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    timeout_s: float | None = None  # wall time
    silence_s: float | None = None  # nothing on stdout or stderr for so long
    line_bytes: int = 16 << 20  # longest line on stdout
    total_bytes: int = 256 << 20  # all of stdout
    stderr_bytes: int = 64 << 10  # kept tail
    grace_s: float = 3.0  # between SIGINT, SIGTERM, SIGKILL


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended. `code` is negative for a signal, None if it was not started or can't be ended."""

    by: EndedBy
    code: int | None
    stderr: str  # the tail, decoded with replacement
    duration_ms: int


class NotStarted(Exception):
    """Internal: raised when no child can be started: no such program or folder, arguments the kernel refuses.

    `missing` says that the program is not there, or can't be executed.
    """

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


async def run_child(
    command: Command,
    on_line: Callable[[bytes], None],
    *,
    limits: ChildLimits,
    stop: asyncio.Event | None = None,
    tag: str,
) -> Ended:
    """Runs a program to its end, and ends all that it started.

    `on_line` gets each line of stdout without its newline, on the event loop; also a last line that has none, which may
    be cut where the child was. If it raises, the child is ended and the error goes on to the caller.
    `stop`, the time limit and the silence limit end the child with SIGINT, SIGTERM and SIGKILL, a grace between them;
    its output is read meanwhile. What is over the caps ends it too, but then no more is read.
    Cancelling ends the whole tree within `QUICK_GRACE_S`, then raises.
    `tag` marks the tree, see `trees`: two children of one tag must not run at once, or the first to end ends the other.
    """
    began = time.monotonic()
    if stop is not None and stop.is_set():
        return Ended("interrupted", None, "", 0)
    child = _Child(_start(command, tag), command.stdin, on_line, limits, tag)
    try:
        try:
            by = await child.run(stop)
        except GeneratorExit:  # the coroutine was thrown away: there is nothing to wait on
            child.put_down(0.0)
            raise
        except BaseException:
            child.close_pipes()
            await _to_the_end(lambda: child.put_down(min(limits.grace_s, QUICK_GRACE_S)))
            raise
        code = await _to_the_end(lambda: child.put_down(0.0))
        child.read_rest()
    finally:
        child.close()
    if child.error is not None:
        raise child.error
    if child.over_cap and by == "exit":
        by = "output"
    return Ended(by, code, child.stderr.decode("utf-8", "replace"), int((time.monotonic() - began) * 1000))


def _start(command: Command, tag: str) -> subprocess.Popen[bytes]:
    program = command.argv[0] if command.argv else ""
    if not tag or "\0" in tag:
        raise ValueError("the tag of a run is text without NUL")
    if not program:
        raise NotStarted("there is no program to start: the command is empty")
    if not os.path.isdir(command.cwd):
        raise NotStarted(f"the folder {command.cwd} is not there")
    env = with_safe_path({name: value for name, value in command.env.items() if name not in (trees.TAG, OWNER)})
    try:
        return subprocess.Popen(
            (program_to_start(program, env.get("PATH"), command.cwd), *command.argv[1:]),
            cwd=command.cwd,
            env={trees.TAG: tag, OWNER: own_identity()} | env,
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except ValueError as error:
        raise NotStarted(f"{program!r} can't be started: {error}") from None
    except OSError as error:
        raise _not_started(command, error) from None


def _not_started(command: Command, error: OSError) -> NotStarted:
    program = command.argv[0]
    if error.filename == str(command.cwd):
        return NotStarted(f"the folder {command.cwd} can't be entered: {error.strerror}")
    if error.errno == errno.E2BIG:
        return NotStarted(
            f"{program!r} can't be started: its arguments and environment are longer than the system allows; "
            "long text can go over stdin"
        )
    if error.errno == errno.ENOENT:
        if "/" in program and os.path.exists(command.cwd / program):
            return NotStarted(
                f"{program!r} can't be started: the interpreter that its first line names is not there", missing=True
            )
        return NotStarted(f"there is no program {program!r}" + ("" if "/" in program else " on the PATH"), missing=True)
    if error.errno in {errno.EACCES, errno.ENOEXEC, errno.ENOTDIR}:
        return NotStarted(f"{program!r} is not a program that can be executed: {error.strerror}", missing=True)
    return NotStarted(f"{program!r} can't be started: {error.strerror}")


class _Child:
    """A started child, its pipes and its clocks, all on the event loop it was made on.

    The child is not waited for before the rest of its tree is dead: until then its pid, and so its group, can be nobody
    else's.
    """

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        stdin: bytes,
        on_line: Callable[[bytes], None],
        limits: ChildLimits,
        tag: str,
    ) -> None:
        self._popen, self._limits, self._tag = popen, limits, tag
        self._handle = -1
        self._loop = asyncio.get_running_loop()
        self._reason: asyncio.Future[EndedBy] = self._loop.create_future()
        self._exited, self._said_all = asyncio.Event(), asyncio.Event()
        self._heard = self._loop.time()
        self._clocks: dict[EndedBy, asyncio.TimerHandle] = {}
        self._known: set[trees.Process] = set()
        self._unwritten = memoryview(stdin)
        self._lines = _Lines(on_line, limits.line_bytes, limits.total_bytes)
        self.stderr = bytearray()
        self.error: BaseException | None = None
        self.over_cap = False

    async def run(self, stop: asyncio.Event | None) -> EndedBy:
        """Until the child has exited, or was asked to and had its time."""
        self._watch()
        stopping = None
        if stop is not None:
            stopping = self._loop.create_task(stop.wait())
            stopping.add_done_callback(lambda task: None if task.cancelled() else self._end("interrupted"))
        try:
            by = await self._reason
        finally:
            if stopping is not None:
                stopping.cancel()
        if by != "exit":
            await self._ask_to_end()
        if self._exited.is_set():
            await _within(self._said_all, LINGER_S)
        return by

    def _watch(self) -> None:
        try:
            self._handle = os.pidfd_open(self._popen.pid)
        except OSError as error:
            raise NotStarted(f"the child can't be watched: {error.strerror}") from None
        self._loop.add_reader(self._handle, self._on_exit)
        for file, ready in self._outputs():
            os.set_blocking(file.fileno(), False)
            self._loop.add_reader(file.fileno(), ready)
        if self._popen.stdin is not None:
            os.set_blocking(self._popen.stdin.fileno(), False)
            self._loop.add_writer(self._popen.stdin.fileno(), self._on_stdin)
        if self._limits.timeout_s is not None:
            self._clocks["timeout"] = self._loop.call_later(self._limits.timeout_s, self._end, "timeout")
        if self._limits.silence_s is not None:
            self._listen(self._limits.silence_s)

    def _outputs(self) -> list[tuple[IO[bytes], Callable[[], None]]]:
        """The pipes that are still open."""
        both = ((self._popen.stdout, self._on_stdout), (self._popen.stderr, self._on_stderr))
        return [(file, ready) for file, ready in both if file is not None and not file.closed]

    async def _ask_to_end(self) -> None:
        # Seen while they still have their parents: afterwards nothing may tell that they belong here.
        self._known = await _to_the_end(lambda: trees.members(self._tag, self._popen.pid))
        for number in (signal.SIGINT, signal.SIGTERM):
            self._signal(number)
            if await _within(self._exited, self._limits.grace_s):
                return

    def put_down(self, grace_s: float) -> int | None:
        """Ends the whole tree, blocking, and answers the child's exit code. With a grace, SIGTERM comes first."""
        if grace_s:
            self._known |= trees.members(self._tag, self._popen.pid)
            self._signal(signal.SIGTERM)
            self._gone(grace_s)
        trees.reap_now(self._tag, self._popen.pid, self._known)
        self._signal(signal.SIGKILL)
        return self._popen.wait() if self._gone(LAST_S) else None

    def _gone(self, seconds: float) -> bool:
        if self._handle < 0:  # no descriptor could be had for it
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(seconds)
            return self._popen.returncode is not None
        watch = select.poll()
        watch.register(self._handle, select.POLLIN)
        return bool(watch.poll(seconds * 1000))

    def _signal(self, number: signal.Signals) -> None:
        if self._popen.returncode is None:
            with suppress(OSError):
                os.killpg(self._popen.pid, number)

    def read_rest(self) -> None:
        """What the tree had written when it was ended."""
        for _ in range(PIPE_BYTES // CHUNK + 1):
            for _, ready in self._outputs():
                ready()
        self._deliver(self._lines.end)

    def close(self) -> None:
        """Lets go of everything. The child is dead, or can't be ended."""
        for clock in self._clocks.values():
            clock.cancel()
        self.close_pipes()
        if self._handle >= 0:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)

    def close_pipes(self) -> None:
        for file in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            self._shut(file)

    def _shut(self, file: IO[bytes] | None) -> None:
        if file is not None and not file.closed:
            self._loop.remove_reader(file.fileno())
            self._loop.remove_writer(file.fileno())
            file.close()
        if not self._outputs():
            self._said_all.set()

    def _end(self, by: EndedBy) -> None:
        if not self._reason.done():
            self._reason.set_result(by)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._handle)
        self._exited.set()
        self._end("exit")

    def _on_stdout(self) -> None:
        chunk = _read(self._popen.stdout)
        if chunk is None:
            return
        self._heard = self._loop.time()
        if not chunk:
            self._shut(self._popen.stdout)
            self._deliver(self._lines.end)
        elif not self._deliver(lambda: self._lines.feed(chunk)):
            # A reader that is gone ends most of those who write without end; one that discards would read on for ever.
            self._shut(self._popen.stdout)
            self._end("output")

    def _deliver(self, give: Callable[[], bool]) -> bool:
        if self.error is not None:
            return False
        try:
            within = give()
        except BaseException as error:
            self.error = error
            return False
        self.over_cap = self.over_cap or not within
        return within

    def _on_stderr(self) -> None:
        chunk = _read(self._popen.stderr)
        if chunk is None:
            return
        self._heard = self._loop.time()
        if not chunk:
            self._shut(self._popen.stderr)
        self.stderr += chunk
        del self.stderr[: max(0, len(self.stderr) - self._limits.stderr_bytes)]

    def _on_stdin(self) -> None:
        file = self._popen.stdin
        assert file is not None
        try:
            self._unwritten = self._unwritten[os.write(file.fileno(), self._unwritten[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it, which is the child's good right
            self._unwritten = self._unwritten[:0]
        if not self._unwritten:
            self._shut(file)

    def _listen(self, silence_s: float) -> None:
        left = self._heard + silence_s - self._loop.time()
        if left <= 0:
            self._end("silence")
        else:
            self._clocks["silence"] = self._loop.call_later(left, self._listen, silence_s)


class _Lines:
    """Cuts what is fed to it into lines, within caps. What is over a cap is cut off; then no more may be fed."""

    def __init__(self, on_line: Callable[[bytes], None], line_bytes: int, total_bytes: int) -> None:
        self._on_line, self._line_bytes, self._room = on_line, line_bytes, total_bytes
        self._open = bytearray()

    def feed(self, chunk: bytes) -> bool:
        """False when a cap was reached."""
        whole = len(chunk) <= self._room
        *lines, rest = chunk[: self._room].split(b"\n")
        self._room -= min(len(chunk), self._room)
        for line in lines:
            if not self._add(line):
                return False
            done = bytes(self._open)
            self._open.clear()
            self._on_line(done)
        return self._add(rest) and whole

    def _add(self, part: bytes) -> bool:
        self._open += part
        fits = len(self._open) <= self._line_bytes
        del self._open[self._line_bytes :]
        return fits

    def end(self) -> bool:
        """Gives out a last line that has no newline."""
        done = bytes(self._open)
        self._open.clear()
        if done:
            self._on_line(done)
        return True


def _read(file: IO[bytes] | None) -> bytes | None:
    """What is there now, b"" at the end, None if nothing is."""
    assert file is not None
    try:
        return os.read(file.fileno(), CHUNK)
    except BlockingIOError:
        return None


async def _within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def _to_the_end(work: Callable[[], T]) -> T:
    """Runs `work` in a thread of its own and waits for it, however often this task is cancelled meanwhile.

    Neither a task nor the loop's pool: the one can be cancelled on its own, the other can be busy, and children would
    be left.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            tell = partial(done.set_result, work())
        except BaseException as error:
            tell = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(tell)

    try:
        threading.Thread(target=run, name="go-ent-reap").start()
    except RuntimeError:  # no more threads: better to block the loop than to leave children
        return work()
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):  # or a cancelled scope of anyio would wake this task again and again
        while not done.done():
            try:
                await asyncio.wait([done])
            except asyncio.CancelledError as error:
                cancelled = error
    failure = done.exception()
    if cancelled is not None:
        raise cancelled from failure
    return done.result()
