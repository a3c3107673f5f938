"""A process that has imported everything, and forks one for each thing that a test wants done and killed: starting
Python takes long.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests.support import ROOT
from tests.support.forked import Forked

PATIENCE_S = 60.0


@dataclass(slots=True)
class Child:
    """One process, and the files that it writes to."""

    forker: Forker
    pid: int
    place: Path
    code: int | None = None  # how it ended: minus the signal, if one ended it

    def wait(self) -> int:
        """How it ends; the output says why it failed, where it did."""
        if self.code is None:
            self.code = self.forker.ask({"wait": self.pid})
            assert self.code is not None, f"it has not ended within {PATIENCE_S} s: {self.stderr}"
        return self.code

    def over(self) -> bool:
        """Whether it has ended by itself. Who forked it has not asked yet, so that it is a zombie then."""
        return self.code is not None or psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE

    def kill(self) -> int:
        """As if the machine's power were cut, to this process alone."""
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def outcome(self) -> Any:
        """What its work came to."""
        assert self.wait() == 0, self.stderr
        return json.loads(self.place.with_suffix(".json").read_text())

    @property
    def stdout(self) -> str:
        return self.place.with_suffix(".out").read_text()

    @property
    def stderr(self) -> str:
        return self.place.with_suffix(".err").read_text()


class Forker:
    """The test's side of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []
        self._process = Forked(
            code="from tests.support.crashers.forking import main; main()",
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, project: Path, work: str, *arguments: Any, crash: str | None = None) -> Child:
        """A process that does something of `work.WORKS` in a project; with a crash point, if one is given."""
        return self._start({"project": str(project), "work": work, "arguments": arguments, "crash": crash})

    def go_ent(self, project: Path, *arguments: str, stdin: Path | None = None, crash: str | None = None) -> Child:
        """A process that is a command of `go-ent` in a project."""
        given = None if stdin is None else str(stdin)
        return self._start({"project": str(project), "command": arguments, "stdin": given, "crash": crash})

    def _start(self, request: dict[str, Any]) -> Child:
        place = self._folder / str(len(self._children))
        for suffix in (".out", ".err"):  # they may be looked at before it has begun
            place.with_suffix(suffix).touch()
        child = Child(self, self.ask({"place": str(place), **request}), place)
        self._children.append(child)
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            if child.code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
        self._process.communicate()


def main() -> None:
    from tests.support.crashers import work  # noqa: F401

    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "wait" in request:
            reply = _wait(request["wait"])
        elif not (reply := os.fork()):
            _child(request)
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


def _wait(pid: int) -> int | None:
    """How a child ends; None if it does not."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def _child(request: dict[str, Any]) -> None:
    """In the new process: do it, and end. Nothing of the one that forked it is touched."""
    code = 1
    try:
        place = Path(request["place"])
        for number, path in (
            (0, request.get("stdin") or os.devnull),
            (1, place.with_suffix(".out")),
            (2, place.with_suffix(".err")),
        ):
            handle = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(handle, number)
            os.close(handle)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        code = _do(request, place)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _do(request: dict[str, Any], place: Path) -> int:
    from go_ent.engine.cli import main as go_ent
    from go_ent.engine.core import crash_points
    from tests.support.crashers import work

    crash_points.arm(request["crash"])
    os.chdir(request["project"])
    if "command" in request:
        sys.argv = ["go-ent", *request["command"]]
        try:
            go_ent()
        except SystemExit as ended:
            return int(ended.code or 0)
    with work.a_box() as box:
        done = work.live(Path(request["project"]), box, work.WORKS[request["work"]](*request["arguments"]))
    place.with_suffix(".json").write_text(json.dumps(done))
    return 0
