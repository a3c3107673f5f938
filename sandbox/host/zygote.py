"""The process that forks workers, as the host sees it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import logging
import os
import socket
import subprocess
import threading
from collections.abc import Collection
from typing import Literal

from go_ent.sandbox.children.python import start_python
from go_ent.sandbox.errors import SandboxClosed
from go_ent.sandbox.hardening.wall import WALLS, Wall
from go_ent.sandbox.images.cache import Image
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.orders import Orders
from go_ent.sandbox.worker.paths import worker_path

# The worker sees only these two folders and the standard library: no site-packages hooks, no environment.
_BOOT = """
import sys, json, gc
gc.disable()
fd, path, orders = json.loads(sys.argv[1])
sys.path[:0] = path
from go_ent.sandbox.worker.zygote import main
main(fd, orders)
"""
log = logging.getLogger("go_ent.sandbox")


class Zygote:
    """The process that forks workers; started when the first is needed, and again should it die.

    All sandboxes of a process share one of each kind: it runs nothing but the image's own code, and no worker can reach
    it. `close` is for each of those who share it; the last one ends it.
    """

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.remade = orders.remade  # why its guests are made anew for each run, if they are
        self.walls: tuple[Wall, ...] | None = None  # as the first worker has told; they are the same around all
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._users = 1

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    def _launch(self) -> None:
        self._discard()
        ours, theirs = socket.socketpair()
        order = json.dumps([theirs.fileno(), worker_path(), dataclasses.asdict(self.orders)])
        self._process = start_python(["-S", "-c", _BOOT, order], pass_fds=[theirs.fileno()])
        theirs.close()
        self._control = ours

    def start(self) -> None:
        """Start it if it does not run, so that the first worker need not wait for that."""
        with self._lock:
            if not self._users:
                raise SandboxClosed("the sandbox is closed")
            if self._process is None or self._process.poll() is not None:
                self._launch()

    def fork(self, sock: socket.socket, output: int) -> None:
        with self._lock:
            for attempt in (1, 2):
                self.start()
                assert self._control is not None
                try:
                    socket.send_fds(self._control, [b"W"], [sock.fileno(), output])
                    return
                except OSError as error:
                    if attempt == 2 or error.errno not in (errno.EPIPE, errno.ECONNRESET):  # else it is alive
                        raise
                    assert self._process is not None
                    self._process.kill()
                    self._process.wait()

    def problem(self) -> str:
        """What it said when it could not start, if that is why it is gone, or about to be."""
        with self._lock:
            if self._control is None:
                return ""
            frames = wire.Frames()
            with contextlib.suppress(OSError, wire.Closed):
                frames.feed(self._control.recv(1 << 16, socket.MSG_DONTWAIT))
                while (found := frames.next()) is not None:
                    if found[0] == wire.FAILED:
                        return found[1].decode("utf-8", "replace")[:1000]
            return ""

    def told(self, walls: tuple[Wall, ...], remade: str) -> None:
        """What a worker says of itself. A host whose kernel lacks a wall has it in its log, once."""
        if self.walls is None:
            self.walls, self.remade = walls, remade
            wanted = self.orders.walls
            missing = [f"{wall.name} ({wall.said})" for wall in walls if not wall.stands and wall.name in wanted]
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

    def join(self) -> bool:
        """Share it; False if it has just been closed by the last who did."""
        with self._lock:
            self._users += bool(self._users)
            return bool(self._users)

    def close(self) -> None:
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users:
                self._discard()


class Zygotes:
    """The zygotes of this process, by what they are made of. A forked child begins with none."""

    def __init__(self) -> None:
        self._zygotes: dict[Orders, Zygote] = {}
        self._ahead: dict[Orders, Zygote] = {}  # started for whoever comes first, and nobody's until then
        self._lock = threading.Lock()

    def share(self, orders: Orders) -> Zygote:
        """The one there is, or a new one. Whoever gets it closes it."""
        with self._lock:
            if (ahead := self._ahead.pop(orders, None)) is not None:
                return ahead
            zygote = self._zygotes.get(orders)
            if zygote is None or not zygote.join():
                zygote = self._zygotes[orders] = Zygote(orders)
            return zygote

    def start_ahead(self, orders: Orders) -> None:
        """Start one for the first who shares it, if there is none. If nobody does, it ends with this process."""
        with self._lock:
            zygote = self._zygotes.get(orders)
            if zygote is not None and zygote.join():
                zygote.close()  # others use it: it runs already
                return
            zygote = self._zygotes[orders] = self._ahead[orders] = Zygote(orders)
            with contextlib.suppress(OSError):  # the first run tries again, and tells
                zygote.start()

    def drop_ahead(self) -> None:
        """End those that nobody has come for: for a process that lives long."""
        with self._lock:
            for orders in list(self._ahead):
                self._ahead.pop(orders).close()


def orders_for(image: Image, kind: str, walls: Collection[str] = WALLS, remade: str = "") -> Orders:
    """What a zygote has to know of an image. The first use of a *kind* on a machine compiles it."""
    return Orders(str(image.artefact(kind)), kind == "fuel", tuple(walls), remade or image.remade)


def warm(image: Image, kind: Literal["plain", "fuel"] = "plain") -> None:
    """Start what makes workers for *image*, before there is a sandbox: for programs that have much to import first.

    It is started in the background, and taken over by the first sandbox of that image; if there is none it ends with
    this process. If it can't be started, the first run says why. Runs with a limit on `fuel` need the *kind* "fuel". An
    image that has yet to be compiled is left to the sandbox.
    """
    if image.is_compiled(kind):
        zygotes.start_ahead(orders_for(image, kind))


zygotes = Zygotes()
os.register_at_fork(after_in_child=zygotes.__init__)  # type: ignore[misc]
