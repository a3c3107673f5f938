"""Every command of the documentation is run, and prints what its page says: `tests/support/pages.py` tells how they
are written.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.pages import BLOCKS, COMMANDS, Command

ID = re.compile(r"\b01[0-9a-f]{6}-[0-9a-f]{4}(?:-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?\b")
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d{4}")
PATIENCE_S = 60


def test_make_demo() -> None:
    """The first of the two commands, with the environment that the tests have: nothing is set up anew."""
    command = ["make", "--silent", "-o", f"{sys.prefix}/.installed", f"VENV={sys.prefix}", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(word in done.stdout for word in ("status  completed", "usage", "status  refused"))


@dataclass
class Folder:
    """Where a page's commands run."""

    path: Path
    environment: dict[str, str]
    ports: dict[str, str] = field(default_factory=dict)
    going: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, command: str) -> str:
        shell = ["bash", "-c", f"{{ {self.real(command)}\n}} 2>&1"]
        done = subprocess.run(
            shell,
            capture_output=True,
            text=True,
            cwd=self.path,
            env=self.environment,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout

    def start(self, command: str, lines: int) -> str:
        """What it has printed once it has printed so many lines."""
        shell = ["bash", "-c", f"{{ {self.real(command).rstrip('& ')}\n}} 2>&1"]
        started = subprocess.Popen(
            shell,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.going.append(started)
        assert started.stdout is not None
        late = threading.Timer(PATIENCE_S, os.killpg, (started.pid, signal.SIGKILL))
        late.start()
        try:
            return "".join(started.stdout.readline() for _ in range(lines))
        finally:
            late.cancel()

    def real(self, text: str) -> str:
        """With an id and ports that are there."""
        text = PORT.sub(lambda found: self._port(found[0]), text)
        newest = max((path.name for path in (self.path / ".go-ent" / "executions").glob("01*")), default=None)
        return text if newest is None else ID.sub(newest, text)

    def _port(self, written: str) -> str:
        if written not in self.ports:
            with socket.socket() as one:
                one.bind(("127.0.0.1", 0))
                self.ports[written] = str(one.getsockname()[1])
        return self.ports[written]

    def end(self) -> None:
        for one in self.going:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGINT)
            late = threading.Timer(PATIENCE_S, os.killpg, (one.pid, signal.SIGKILL))
            late.start()
            one.communicate()
            late.cancel()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Folder]]:
    """A folder for each page, with the files that the page shows."""
    made: dict[str, Folder] = {}
    for page in {command.page for command in COMMANDS}:
        above = tmp_path_factory.mktemp("page")
        (above / "project").mkdir()
        go_ent = above / "go-ent"
        go_ent.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from go_ent.engine.cli import main; main()" "$@"\n')
        go_ent.chmod(0o700)
        path = f"{above}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": path,
            "GO_ENT_DATA": str(above / "user"),
            "HOME": str(above),
        }
        environment.setdefault("GO_ENT_CACHE", str(Path.home() / ".cache" / "go-ent"))
        made[page] = Folder(above / "project", environment)
    for block in BLOCKS:
        if block.is_file and block.page in made:
            file = made[block.page].path / block.rest
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
    yield made
    for folder in made.values():
        folder.end()


@pytest.mark.parametrize("command", [one for one in COMMANDS if not one.is_real], ids=str)
def test_console_command(command: Command, folders: dict[str, Folder]) -> None:
    folder = folders[command.page]
    lines = command.output.count("\n")
    printed = folder.start(command.text, lines) if command.text.endswith("&") else folder.run(command.text)
    expected = ID.sub("ID", PORT.sub(lambda found: folder.ports.get(found[0], found[0]), command.output))
    printed += "" if printed.endswith("\n") or not printed else "\n"
    pattern = ".*".join(map(re.escape, expected.split("…")))
    assert re.fullmatch(pattern, ID.sub("ID", printed)), (
        f"{command.where}: {command.text}\nprinted:\n{printed}\nis shown as:\n{command.output}"
    )


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.is_real], ids=str)
def test_command_that_needs_a_program_of_npm(command: Command) -> None:
    """It is not run here. What it does is what the tests of `make test-real` do, with the same program."""
    program = shlex.split(command.text)[0]
    tests = {"claude": "test_real_clients.py", "opencode": "test_real_clients.py", "npx": "test_inspector.py"}
    said = (ROOT / "tests" / "e2e" / tests[program]).read_text()
    assert "pytest.mark.real" in said
    assert all(
        word in said
        for word in {"claude": ("mcp", "list"), "opencode": ("mcp", "list"), "npx": ("--method", "tools/list")}[program]
    )
