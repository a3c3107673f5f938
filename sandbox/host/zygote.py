"""The process that forks workers, as the host sees it."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import subprocess
import threading
from collections.abc import Collection

from go_ent.sandbox.children.python import start_python
from go_ent.sandbox.errors import SandboxClosed
from go_ent.sandbox.hardening.wall import WALLS, Wall
from go_ent.sandbox.worker import wire
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
