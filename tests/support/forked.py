"""`go-ent` in a process of its own that begins with everything imported: forked by a process that waits for requests,
since Python takes longer to start than most commands to run.

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
import signal
import socket
import subprocess
import sys
import termios
from typing import Any

from tests.support import ROOT

MOST = 1 << 20  # bytes of a request
STATUS = 8  # bytes of a number


class Forked(subprocess.Popen[Any]):
    """As `subprocess.Popen`, of which it takes the streams, cwd, env and start_new_session; *on_terminal* makes stderr
    its controlling terminal.
    """

    def __init__(self, *arguments: str, on_terminal: bool = False, **options: Any) -> None:
        self._on_terminal = on_terminal
        self._status, self._theirs = socket.socketpair()
        super().__init__(["go-ent", *arguments], **options)

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
        }
        try:
            with self._theirs:
                _server().ask(request, [*streams, self._theirs.fileno()])
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


class _Server:
    """The process that forks."""

    one: _Server | None = None

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST)
        with theirs:
            command = [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )

    def ask(self, request: dict[str, Any], handles: list[int]) -> None:
        socket.send_fds(self._socket, [json.dumps(request).encode()], handles)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _server() -> _Server:
    _Server.one = _Server.one or _Server()
    return _Server.one


def end() -> None:
    """End the process that forks, if there is one."""
    if _Server.one is not None:
        _Server.one.close()
        _Server.one = None


def _until_forked(requests: socket.socket) -> dict[str, Any]:
    """Fork for each request. Returns in a new process, with what it is to do."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by descriptor of the process: its id, and who is to be told
    while True:
        for handle in select.select([requests.fileno(), *running], [], [])[0]:
            if handle != requests.fileno():
                pid, status = running.pop(handle)
                os.close(handle)
                _tell(status, os.waitpid(pid, 0)[1])
                status.close()
                continue
            data, handles, _, _ = socket.recv_fds(requests, MOST, 4)
            if not data:  # the tests are over
                for pid, _ in running.values():
                    os.kill(pid, signal.SIGKILL)
                raise SystemExit
            request: dict[str, Any] = json.loads(data)
            *streams, told = handles
            if not (pid := os.fork()):
                requests.close()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                for other in [*running, *handles]:
                    os.close(other)
                for _, status in running.values():
                    status.close()
                return request
            for stream in streams:
                os.close(stream)
            status = socket.socket(fileno=told)
            running[os.pidfd_open(pid)] = pid, status
            _tell(status, pid)


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
    warm()
    from go_ent.engine.cli import main as go_ent
    from go_ent.engine.core import crash_points

    _become(_until_forked(socket.socket(fileno=int(sys.argv[1]))))
    crash_points.arm(os.environ.get("GO_ENT_CRASH"))  # which is read when it is imported
    try:
        go_ent()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            _codes.append(ended.code)
        raise


if __name__ == "__main__":
    main()
