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
from tests.support.shell import go_ent

ID = re.compile(r"\b01[0-9a-f]{6}-[0-9a-f]{4}(?:-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?\b")
SHORT = re.compile(r"\b[0-9a-f]{8}\b")
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d{4}")
PATIENCE_S = 60


@pytest.mark.more
def test_make_demo() -> None:
    """The first of the two commands, with the environment that the tests have: nothing is set up anew."""
    command = ["make", "--silent", "-o", f"{sys.prefix}/.installed", f"VENV={sys.prefix}", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(word in done.stdout for word in ("status  completed", "usage", "status  refused"))


def plain(command: str) -> list[str]:
    """The arguments of a single `go-ent`; none where a shell has more to do than to split words."""
    unquoted = re.sub(r"'[^']*'" + r'|"[^"$`\\]*"', "", command)
    alone = command.startswith("go-ent ") and not re.search(r"[|&;<>$`*?~\\#=\"'\n]", unquoted)
    return shlex.split(command)[1:] if alone else []


def test_only_what_needs_no_shell_is_run_without_one() -> None:
    assert plain("""go-ent exec -c "sum([1, 2])" --input '{"a": "$b"}'""") == [
        "exec",
        "-c",
        "sum([1, 2])",
        "--input",
        '{"a": "$b"}',
    ]
    for command in (
        "go-ent init | tail",
        "X=1 go-ent ps",
        "ls",
        'go-ent exec -c "$CODE"',
        "go-ent ps > x",
        "go-ent a &",
    ):
        assert plain(command) == []


def without_ids(text: str) -> str:
    """A text in which all ids are the same one, long or short."""
    return SHORT.sub("ID", ID.sub("ID", text))


@dataclass
class Folder:
    """Where a page's commands run."""

    path: Path
    environment: dict[str, str]
    ports: dict[str, str] = field(default_factory=dict)
    going: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, command: str) -> str:
        if arguments := plain(real := self.real(command)):
            return go_ent(*arguments, cwd=self.path, env=self.environment, merged=True).stdout.decode()
        shell = ["bash", "-c", f"{{ {real}\n}} 2>&1"]
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


@pytest.fixture
def folder(page: str, tmp_path: Path) -> Iterator[Folder]:
    """Where a page's commands run, with the files that the page shows."""
    (tmp_path / "project").mkdir()
    command = tmp_path / "go-ent"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from go_ent.engine.cli import main; main()" "$@"\n')
    command.chmod(0o700)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GO_ENT_DATA": str(tmp_path / "user"),
        "HOME": str(tmp_path),
    }
    environment.setdefault("GO_ENT_CACHE", str(Path.home() / ".cache" / "go-ent"))
    for block in BLOCKS:
        if block.is_file and block.page == page:
            file = tmp_path / "project" / block.rest
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
    folder = Folder(tmp_path / "project", environment)
    yield folder
    folder.end()


EVERYDAY = {"README.md"}  # what a newcomer types first
PAGES = dict.fromkeys(command.page for command in COMMANDS if not command.is_real)


@pytest.mark.parametrize(
    "page", [page if page in EVERYDAY else pytest.param(page, marks=pytest.mark.more) for page in PAGES]
)
@pytest.mark.more
def test_console_commands(page: str, folder: Folder) -> None:
    """In the order of the page: a command finds what the ones before it have made."""
    for command in [command for command in COMMANDS if command.page == page and not command.is_real]:
        lines = command.output.count("\n")
        printed = folder.start(command.text, lines) if command.text.endswith("&") else folder.run(command.text)
        expected = without_ids(PORT.sub(lambda found: folder.ports.get(found[0], found[0]), command.output))
        printed += "" if printed.endswith("\n") or not printed else "\n"
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, without_ids(printed)), (
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
