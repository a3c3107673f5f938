"""The command line on a terminal, and when it is told to end: questions, escapes, signals."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.cli.commands.shared import Telling
from go_ent.engine.core.models import Event
from tests.engine.cli.test_run import ECHO, Shell, shell, sleepers
from tests.support import ROOT
from tests.support.forked import Forked

__all__ = ["shell"]

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PATIENCE_S = 30
CTRL_C = b"\x03"


class Terminal:
    """A command whose streams are a terminal of its own."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        columns: int = 80,
        env: dict[str, str] | None = None,
        stdout: Path | None = None,
        stdin: Path | None = None,
    ) -> None:
        """*stdin* and *stdout* are files instead, if they are given."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {
            **ENVIRONMENT,
            "GO_ENT_DATA": os.environ["GO_ENT_DATA"],
            "PATH": os.environ["PATH"],
            "TERM": "xterm",
        }
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            environment.pop(name, None)
        with contextlib.ExitStack() as stack:
            out = slave if stdout is None else stack.enter_context(open(stdout, "wb"))
            given = slave if stdin is None else stack.enter_context(open(stdin, "rb"))
            self.child = Forked(
                *arguments,
                on_terminal=True,
                cwd=folder,
                stdin=given,
                stdout=out,
                stderr=slave,
                start_new_session=True,
                env={**environment, **(env or {})},
            )
        os.close(slave)
        self.said = b""

    def until(self, text: bytes) -> None:
        while text not in self.said:
            assert self._read(), self.said.decode()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def end(self) -> int:
        """Its exit code, once it has said everything."""
        while self._read():
            pass
        return self.child.wait(PATIENCE_S)

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self._master)

    def _read(self) -> bool:
        assert select.select([self._master], [], [], PATIENCE_S)[0], self.said.decode()
        try:
            data = os.read(self._master, 65536)
        except OSError:  # nobody is at its other end any more
            return False
        self.said += data
        return bool(data)


@contextlib.contextmanager
def terminal(shell: Shell, *arguments: str, **options: Any) -> Iterator[Terminal]:
    made = Terminal(shell.folder, *arguments, **options)
    try:
        yield made
    finally:
        made.close()


class TestTheBudgetsQuestion:
    @pytest.fixture(autouse=True)
    def small_budget(self, shell: Shell) -> None:
        config = f'{ECHO}model = "claude-sonnet-4-5"\n[budget]\nday = {{ usd = 0.01 }}\n'
        (shell.folder / ".go-ent" / "config.toml").write_text(config)
        shell.text("trust", "--yes")

    def test_ctrl_c_is_a_no_and_ends_the_command(self, shell: Shell) -> None:
        with terminal(shell, "run", "hello") as asked:
            asked.until(b"go on? [y/N] ")
            asked.type(CTRL_C)
            assert asked.end() == 130
        assert b"said: hello" not in asked.said
        assert (
            asked.said.split(b"[y/N] ")[1].splitlines()[1].startswith(b"interrupting")
        )  # no answer is put into anybody's mouth
        assert shell.json("ps")[0]["status"] == "interrupted"

    @pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1)])
    def test_a_person_decides(self, shell: Shell, answer: bytes, code: int) -> None:
        with terminal(shell, "run", "hello") as asked:
            asked.until(b"go on? [y/N] ")
            asked.type(answer)
            assert asked.end() == code
        assert (b"said:" in asked.said.split(b"[y/N]")[1]) is (code == 0)

    def test_yes_answers_it(self, shell: Shell) -> None:
        assert "said:" in shell.text("run", "hello", "--yes")


class TestATerminal:
    def test_trust_is_given_after_a_look_and_a_yes(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text(ECHO)
        with terminal(shell, "trust") as refused:
            refused.until(b"[y/N] ")
            assert b"command echo: echo said: {prompt}" in refused.said
            refused.type(b"n\n")
            assert refused.end() == 1
        assert shell.json("trust", "--list") == []
        with terminal(shell, "trust") as agreed:
            agreed.until(b"[y/N] ")
            agreed.type(b"y\n")
            assert agreed.end() == 0
        assert shell.json("trust", "--list") == [str(shell.folder)]

    def test_a_result_is_plain_on_a_terminal_and_itself_in_a_pipe(self, shell: Shell) -> None:
        (shell.folder / "evil.toml").write_text('[[task]]\nid = "a"\ncode = "chr(27) + \']0;owned\' + chr(7)"\n')
        assert shell.text("run", "--plan", "evil.toml") == "\x1b]0;owned\x07\n"
        with terminal(shell, "run", "--plan", "evil.toml") as shown:
            assert shown.end() == 0
        assert "�]0;owned�".encode() in shown.said
        assert b"\x1b]" not in shown.said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_served_engine_ends_what_it_has_started(shell: Shell, number: signal.Signals, code: int) -> None:
    slow = '[commands.slow]\nargv = ["sh", "-c", "touch begun; sleep 100"]\n'
    (shell.folder / ".go-ent" / "config.toml").write_text(slow)
    shell.text("trust", "--yes")
    call = {"name": "engine_execute", "arguments": {"plan": [{"id": "a", "command": "slow"}]}}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    environment = {**ENVIRONMENT, "GO_ENT_DATA": os.environ["GO_ENT_DATA"]}
    with Forked("serve", cwd=shell.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as served:
        try:
            assert served.stdin is not None
            served.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
            served.stdin.flush()
            until = time.monotonic() + PATIENCE_S
            while not (shell.folder / "begun").exists():
                assert time.monotonic() < until
                assert served.poll() is None
                time.sleep(0.02)
            served.send_signal(number)
            assert served.wait(PATIENCE_S) == code  # though its stdin is still open
        finally:
            served.kill()
    assert sleepers(shell.folder) == 0
    assert shell.json("ps")[0]["status"] == "interrupted"


def test_why_a_step_has_failed_is_told_once_on_a_terminal_and_whole_in_a_pipe(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # where no agent program is
    why = b"no runtime is available for a task with a prompt: "
    with terminal(shell, "run", "hello") as shown:
        assert shown.end() == 1
    assert (shown.said.count(why), b"\nfailed: task failed\r\n" in shown.said) == (1, True)
    with terminal(shell, "run", "hello", "--quiet") as quiet:
        assert quiet.end() == 1
    assert b"failed: task failed: " + why in quiet.said
    assert b"failed: task failed: " + why in shell("run", "hello").stderr


def test_a_warning_of_no_step_stands_for_itself(capfd: pytest.CaptureFixture[str]) -> None:
    for step in (None, "a"):
        Telling(told=True)(
            Event(kind="warning", execution_id="x", task_id=step, at=1.0, text="go-ent was 9.0.0, and is 1.0.0")
        )
    assert capfd.readouterr().err.splitlines() == [
        "go-ent was 9.0.0, and is 1.0.0",
        "[a] go-ent was 9.0.0, and is 1.0.0",
    ]
