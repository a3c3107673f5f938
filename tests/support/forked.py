"""`go-ent` in a process of its own that begins with everything imported: forked by a process that waits for requests,
since Python takes longer to start than most commands to run. All processes of a run of the tests share one that forks:
it takes two seconds to import everything.

It is a process like any other: its streams, signals, terminal, environment and exit code are real. Not for tests of how
Python itself starts (its path, its `PYTHON…` variables): those start `tests.support.shell.COMMAND`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import Any

import psutil

from tests.support import ROOT

MOST = 1 << 20  # bytes of a request
STATUS = 8  # bytes of a number
VARIABLE = "TESTS_FORK_AT"  # the address of the process that forks for all


class Forked(subprocess.Popen[Any]):
    """As `subprocess.Popen`, of which it takes the streams, cwd, env and start_new_session; *on_terminal* makes stderr
    its controlling terminal. With *code* it is not the command but Python, and does that, as with `python -c`.
    """

    def __init__(self, *arguments: str, on_terminal: bool = False, code: str | None = None, **options: Any) -> None:
        self._on_terminal = on_terminal
        self._code = code
        self._status, self._theirs = socket.socketpair()
        super().__init__(["go-ent" if code is None else "-c", *arguments], **options)

    def _execute_child(self, args: list[str], *rest: Any) -> None:
        names = "executable preexec_fn close_fds pass_fds cwd env startupinfo creationflags shell p2cread p2cwrite"
        names += " c2pread c2pwrite errread errwrite restore_signals gid gids uid umask start_new_session"
        given = dict(zip(names.split(), rest, strict=False))
        pipes = [given[name] for name in "p2cread p2cwrite c2pread c2pwrite errread errwrite".split()]
        theirs = given["p2cread"], given["c2pwrite"], given["errwrite"]
        streams = [number if handle == -1 else handle for number, handle in enumerate(theirs)]
        request = {
            "argv": args,
            "cwd": os.fspath(given["cwd"] or os.getcwd()),
            "env": dict(os.environ if given["env"] is None else given["env"]),
            "session": given["start_new_session"],
            "terminal": self._on_terminal,
            "code": self._code,
        }
        try:
            with self._theirs:
                socket.send_fds(_connection(), [json.dumps(request).encode()], [*streams, self._theirs.fileno()])
            self.pid = self._number()
            if not self.pid:  # a signal to 0 would be one to all of this group
                raise OSError("the process that forks has ended: see its traceback above")
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _number(self) -> int:
        return int.from_bytes(self._status.recv(STATUS, socket.MSG_WAITALL), "big")

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As the one that it replaces: the process is not this one's child, so that its parent is asked."""
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = self._number()
        self._status.close()
        return self.pid, status

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG) if self.returncode is None else (0, 0)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run_python(code: str, *arguments: str, timeout: float = 100, **options: Any) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run` of `python -c`, with everything imported."""
    with Forked(*arguments, code=code, **options) as running:
        try:
            stdout, stderr = running.communicate(timeout=timeout)
        except BaseException:
            running.kill()
            raise
    return subprocess.CompletedProcess(running.args, running.returncode, stdout, stderr)


class _Server:
    """The process that forks, from its start to its end. It imports nothing before somebody connects."""

    one: _Server | None = None

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="tests-fork-")
        self.address = str(Path(self._folder) / "fork")
        self._alive, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.address)
            listener.listen(64)
            handles = [theirs.fileno(), listener.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forked", *map(str, handles)],
                cwd=ROOT,
                pass_fds=handles,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        for left in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        self._alive.close()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


_connections: list[socket.socket] = []  # this process's


def _connection() -> socket.socket:
    if not _connections:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST)
        try:
            connection.connect(os.environ.get(VARIABLE) or begin())
        except OSError:  # somebody has cleaned up: this process has its own
            connection.connect(begin())
        _connections.append(connection)
    return _connections[0]


def begin() -> str:
    """Have a process that forks, for this one and those that find its address in their environment."""
    _Server.one = _Server.one or _Server()
    return _Server.one.address


def end() -> None:
    """End what was forked for this process, and the process that forks, if this one has begun it."""
    while _connections:
        _connections.pop().close()
    if _Server.one is not None:
        _Server.one.close()
        _Server.one = None


class _Forking:
    """What the process that forks knows."""

    def __init__(self, alive: socket.socket, listener: socket.socket) -> None:
        self.alive, self.listener = alive, listener
        self.connections: dict[int, socket.socket] = {}
        # By descriptor of the process: its id, who is to be told, and the connection that asked for it.
        self.running: dict[int, tuple[int, socket.socket, int]] = {}

    def until_forked(self) -> dict[str, Any]:
        """Fork for each request. Returns in a new process, with what it is to do."""
        while True:
            waited = [self.alive.fileno(), self.listener.fileno(), *self.connections, *self.running]
            for handle in select.select(waited, [], [])[0]:
                if handle == self.alive.fileno():  # the tests are over
                    self._kill(None)
                    raise SystemExit
                if handle == self.listener.fileno():
                    connection, _ = self.listener.accept()
                    self.connections[connection.fileno()] = connection
                elif handle in self.running:
                    pid, status, _ = self.running.pop(handle)
                    os.close(handle)
                    _tell(status, os.waitpid(pid, 0)[1])
                    status.close()
                elif (request := self._received(handle)) is not None:
                    return request

    def _received(self, number: int) -> dict[str, Any] | None:
        """In the new process, what it is to do; None in this one."""
        data, handles, _, _ = socket.recv_fds(self.connections[number], MOST, 4)
        if not data:  # whoever asked is gone
            self._kill(number)
            self.connections.pop(number).close()
            return None
        request: dict[str, Any] = json.loads(data)
        *streams, told = handles
        if not (pid := os.fork()):
            self._forget()
            for at, stream in enumerate(streams):
                os.dup2(stream, at)
            for handle in handles:
                os.close(handle)
            return request
        for stream in streams:
            os.close(stream)
        status = socket.socket(fileno=told)
        self.running[os.pidfd_open(pid)] = pid, status, number
        _tell(status, pid)
        return None

    def _forget(self) -> None:
        """In the new process: none of it is this one's."""
        for one in (self.alive, self.listener, *self.connections.values()):
            one.close()
        for handle, (_, status, _) in self.running.items():
            os.close(handle)
            status.close()

    def _kill(self, number: int | None) -> None:
        """End what was forked for a connection, or for all."""
        for pid, _, asked in self.running.values():
            if number in (None, asked):
                os.kill(pid, signal.SIGKILL)


def _tell(who: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it
        who.sendall(number.to_bytes(STATUS, "big"))


def _become(request: dict[str, Any]) -> None:
    """What `exec` would have made of this process."""
    if request["session"]:
        os.setsid()
    if request["terminal"]:
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]
    encoding = os.environ.get("PYTHONIOENCODING")
    sys.stdin = os.fdopen(0, encoding=encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding=encoding, buffering=1, closefd=False)


def warm() -> None:
    """Have everything that a command may load: modules, and the ranks of tokens, which take longer than most commands.
    Whoever is forked shares it.
    """
    from go_ent import engine
    from go_ent.engine.tokens import encoding

    for module in pkgutil.walk_packages(engine.__path__, f"{engine.__name__}."):
        importlib.import_module(module.name)
    encoding()
    gc.freeze()  # no collection of a child's looks at what is shared


_codes: list[int] = []  # with which this process ends


def _end() -> None:
    """The last thing that a process does at its exit, so it is registered first. Python would free all that is shared,
    which copies it: that takes longer than most commands.
    """
    if _codes:
        with contextlib.suppress(OSError):  # Python has its own way to say so
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_codes[0])


def main() -> None:
    atexit.register(_end)
    alive, listener = (socket.socket(fileno=int(handle)) for handle in sys.argv[1:3])
    if alive in select.select([alive, listener], [], [])[0]:  # nobody has come
        return
    warm()
    for name in ("pytest", "hypothesis"):  # of tests, whose modules children import
        importlib.import_module(name)
    gc.freeze()
    from go_ent.engine.cli import main as go_ent
    from go_ent.engine.core import crash_points

    request = _Forking(alive, listener).until_forked()
    _become(request)
    crash_points.arm(os.environ.get("GO_ENT_CRASH"))  # which is read when it is imported
    try:
        if request["code"] is None:
            go_ent()
        else:
            exec(request["code"], {"__name__": "__main__"})
            _codes.append(0)
    except SystemExit as ended:
        if isinstance(ended.code, int):
            _codes.append(ended.code)
        raise


if __name__ == "__main__":
    main()
