"""Says whether a peer's host survives a hostile program, and if not, what became of it."""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.driver import ENV_NAME, Host, HostGone, Secrets
from benchmarks.peers.hostile import HOSTILE

MOST_GROWTH = 300 << 20
MOST_PROCESSES = 20
SETTLE_S = 0.3
BUSY = 0.5  # of one core, after the program should be gone
ONE_AND_ONE = "result = 1 + 1"


@dataclass(frozen=True)
class Verdict:
    """What became of the host: `harm` is empty if it survived."""

    harm: str = ""
    said: str = ""  # the status that the peer gave

    @property
    def survived(self) -> bool:
        return not self.harm


class Judge:
    """Tries hostile programs on hosts of one peer; a host that was harmed is replaced."""

    def __init__(self, peer: str, python: str, timeout: float) -> None:
        self.peer, self.python, self.timeout = peer, python, timeout
        self.folder = tempfile.TemporaryDirectory(prefix="peers-")
        self.target = Path(self.folder.name) / "written"
        self.secret = Path(self.folder.name) / "secret"
        self.planted = Secrets()
        self.secret.write_text(self.planted.file)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0)
        self.host: Host | None = None
        self.usual_s = 0.0
        self.pid = 0

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *args: object) -> None:
        self._drop()
        self.listener.close()
        self.folder.cleanup()

    def try_all(self) -> dict[str, Verdict]:
        return {name: self.try_one(name) for name in HOSTILE}

    def try_one(self, name: str) -> Verdict:
        """The first harm that one of the program's spellings does, or survival of all."""
        said: list[str] = []
        for code in HOSTILE[name]:
            verdict = self._attack(code)
            if not verdict.survived:
                self._drop()
                return verdict
            said.append(verdict.said)
        return Verdict(said=", ".join(dict.fromkeys(said)))

    def _ready(self) -> Host:
        if self.host is None:
            host = self.host = Host(self.peer, self.python, self.planted)
            host.start()
            self.pid = host.ask({"do": "confine", "keyring": {"peers keyring": self.planted.memory}}, 10)["pid"]
            self.usual_s = host.run(ONE_AND_ONE)["seconds"]
        return self.host

    def _survivor(self) -> Host:
        """A host to attack. Raises `HostGone` if there can be none: no program is to blame for that."""
        try:
            return self._ready()
        except HostGone:
            self._drop()
            return self._ready()

    def _drop(self) -> None:
        if self.host is not None:
            self.host.end()
            self.host = None

    def _attack(self, code: str) -> Verdict:
        host = self._survivor()
        inputs: dict[str, Any] = {
            "secret_file": str(self.secret),
            "target_file": str(self.target),
            "env_name": ENV_NAME,
            "host_pid": self.pid,
            "port": self.listener.getsockname()[1],
        }
        watch = host.watch()
        allowed = 2 * self.timeout + self.usual_s
        try:
            answer = host.ask(
                {"do": "run", "code": code, "inputs": inputs, "timeout": self.timeout}, allowed + 1, watch
            )
            harm = self._harm(answer, allowed) or watch_harm(watch.grew, watch.more_processes) or self._aftermath(host)
        except HostGone as gone:
            self.host = None
            return Verdict(self._seen("") or watch_harm(watch.grew, watch.more_processes) or str(gone))
        return Verdict(harm, answer["status"])

    def _harm(self, answer: dict[str, Any], allowed: float) -> str:
        if harm := self._seen(json.dumps(answer)):
            return harm
        if not answer["intact"]:
            return "the host was patched"
        if answer["seconds"] > allowed:
            return f"it ran for {answer['seconds']:.1f} s of {self.timeout:g}"
        return ""

    def _seen(self, text: str) -> str:
        """What can be told from outside: a secret in the answer, a file, a connection."""
        if leaked := self.planted.seen_in(text):
            return f"the secret in its {leaked[0]} was read"
        if self.target.exists():
            self.target.unlink()
            return "a file was written"
        with contextlib.suppress(BlockingIOError):
            self.listener.accept()[0].close()
            return "a connection was made"
        return ""

    def _aftermath(self, host: Host) -> str:
        """Is the program gone, and does the host still work?"""
        before, started = host.cpu_seconds(), time.monotonic()
        time.sleep(SETTLE_S)
        if (host.cpu_seconds() - before) / (time.monotonic() - started) > BUSY:
            return "it runs on after its end"
        answer = host.run(ONE_AND_ONE)
        if (answer["status"], answer["value"]) != ("completed", 2):
            return "the host answers wrongly afterwards"
        return ""


def watch_harm(grew: int, processes: int) -> str:
    if processes > MOST_PROCESSES:
        return f"{processes} processes were started"
    if grew > MOST_GROWTH:
        return f"memory grew by {grew >> 20} MB"
    return ""
