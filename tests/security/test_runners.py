"""Attacks on the processes that runners start, and by them: flags, shells, secrets, signals, escapes and floods."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from go_ent.engine.core.config import CommandConfig
from go_ent.engine.core.models import RunRequest, RunResult
from go_ent.engine.processes.child import ChildLimits, Command, Ended, run_child
from go_ent.engine.runners.cli.commands import MAX_TEXT, run_command
from tests.security.corpus import attack

SECRET = "wJalrXUtnFEMI/K7MDENG"
ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"
HOSTILE = [
    "$(touch owned)",
    "`touch owned`",
    "; touch owned",
    "| touch owned",
    "&& touch owned",
    "> owned",
    "$HOME ~ *",
    "a\nb\r\n\tc",
    "'\"\\",
    "%s {system} ${x} {0.__class__}",
    "\x1b[2J\x07",
    "\u202e\ufeff",
]


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("GO_ENT_TRUST_PROJECT", "1")


def ask(folder: Path, config: CommandConfig, **fields: Any) -> RunResult:
    """Answers a prompt by a command, with this process's own environment as the host's."""

    async def main() -> RunResult:
        request = RunRequest(**{"execution_id": uuid.uuid4().hex, "cwd": str(folder), "prompt": "p", **fields})
        return await run_command(config, request, lambda _: None, host_env=os.environ, stop=asyncio.Event())

    return asyncio.run(main())


def python(code: str, *arguments: str, **fields: Any) -> CommandConfig:
    return CommandConfig(argv=(sys.executable, "-I", "-S", "-c", code, *arguments), **fields)


def child(
    code: str, *, stop_when: Callable[[bytes], bool] = lambda _: False, **limits: float
) -> tuple[Ended, list[bytes]]:
    lines: list[bytes] = []

    async def main() -> Ended:
        stop = asyncio.Event()

        def on_line(line: bytes) -> None:
            lines.append(line)
            if stop_when(line):
                stop.set()

        command = Command((sys.executable, "-I", "-S", "-c", code), Path("/"), {"PATH": os.environ["PATH"]})
        bounds = ChildLimits(**limits)  # type: ignore[arg-type]
        return await run_child(command, on_line, limits=bounds, stop=stop, tag=uuid.uuid4().hex)

    return asyncio.run(main()), lines


def alive(pid: bytes) -> bool:
    try:
        return bool(psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class TestArguments:
    @attack("runners", "signs that a shell obeys")
    def test_shell_characters_arrive_as_they_are(self, tmp_path: Path) -> None:
        """All of them in one argument, as the prompt, as the system text and as the model."""
        text = " ".join(HOSTILE)
        result = ask(
            tmp_path, python(ARGV, "{prompt}", "x={system}", "{model}"), prompt=text, system=text, model="$(id);`id`"
        )
        assert json.loads(result.output) == [text, f"x={text}", "$(id);`id`"]
        assert list(tmp_path.iterdir()) == []

    @attack("runners", "a prompt that begins like a flag")
    @pytest.mark.parametrize("prompt", ["-", "--help", "-rf /", "--output=/etc/passwd", "-\n"])
    def test_a_prompt_does_not_become_a_flag(self, tmp_path: Path, prompt: str) -> None:
        result = ask(tmp_path, CommandConfig(argv=("touch", "{prompt}", "owned")), prompt=prompt)
        expected = "{prompt} would begin with '-' and be taken for a flag: set stdin = true, or put '--' before it"
        assert (result.status, result.failure, result.error, result.output) == ("failed", "task", expected, "")
        assert list(tmp_path.iterdir()) == []

    def test_after_two_dashes_it_is_a_name(self, tmp_path: Path) -> None:
        result = ask(tmp_path, CommandConfig(argv=("touch", "--", "{prompt}")), prompt="--help", command="touch")
        assert [path.name for path in tmp_path.iterdir()] == ["--help"]
        assert (result.failure, result.output) == ("empty", "")

    @attack("runners", "two dashes out of a prompt")
    def test_two_dashes_in_a_prompt_end_no_flags(self, tmp_path: Path) -> None:
        result = ask(tmp_path, CommandConfig(argv=("echo", "{system}", "{prompt}")), system="--", prompt="--help")
        assert (
            result.error
            == "{system} would begin with '-' and be taken for a flag: set stdin = true, or put '--' before it"
        )

    @attack("runners", "a NUL in an argument")
    def test_a_nul_does_not_cut_an_argument_short(self, tmp_path: Path) -> None:
        result = ask(tmp_path, CommandConfig(argv=("touch", "{prompt}.txt")), prompt="owned\0")
        assert result.error == "{prompt}.txt would hold a NUL, which no argument can: set stdin = true"
        assert list(tmp_path.iterdir()) == []

    @attack("runners", "a prompt in the place of the program")
    def test_the_prompt_does_not_choose_the_program(self, tmp_path: Path) -> None:
        result = ask(tmp_path, CommandConfig(argv=("{prompt}", "owned")), prompt="touch")
        assert result.error == "the program of a command can't be filled in: {prompt}"
        assert list(tmp_path.iterdir()) == []

    @attack("runners", "hostile text on stdin")
    def test_on_stdin_everything_arrives_as_it_is(self, tmp_path: Path) -> None:
        text = "--help\0" + " ".join(HOSTILE)
        code = "import sys; print(ascii(sys.stdin.buffer.read().decode()))"
        assert ask(tmp_path, python(code, stdin=True), prompt=text).output == ascii(text)


class TestSecrets:
    ENVIRONMENT = "import os; print(open('/proc/self/environ').read().replace(chr(0), chr(10)))"

    @attack("secrets", "the host's environment, in a command's")
    def test_the_hosts_do_not_reach_a_child(self, tmp_path: Path) -> None:
        assert SECRET in os.environ.values()
        result = ask(tmp_path, python(self.ENVIRONMENT), command="env")
        given = dict(line.split("=", 1) for line in result.output.splitlines() if line)
        assert SECRET not in result.output
        assert given["PATH"] == os.environ["PATH"]
        assert "AWS_SECRET_ACCESS_KEY" not in given
        assert [name for name in given if name.startswith("GO_ENT_")] == ["GO_ENT_RUN", "GO_ENT_OWNER"]

    @attack("secrets", "a command's last words with its keys")
    def test_one_that_is_passed_on_is_not_repeated_in_an_error(self, tmp_path: Path) -> None:
        code = (
            "import os, sys; sys.exit('the keys are ' + os.environ['AWS_SECRET_ACCESS_KEY'] + ' and ' + "
            "repr(os.environ['TOKEN']))"
        )
        result = ask(tmp_path, python(code, env=["AWS_*"], set={"TOKEN": "tok'en\\value"}), command="c")
        assert result.error == f'{sys.executable} failed with exit code 1: the keys are [secret] and "[secret]"'

    @attack("secrets", "half a key, where a message is cut")
    def test_not_even_half_of_it_where_the_error_is_cut(self, tmp_path: Path) -> None:
        code = f"import os, sys; sys.exit(os.environ['AWS_SECRET_ACCESS_KEY'] + 'x' * (2000 - 1 - {len(SECRET) // 2}))"
        result = ask(tmp_path, python(code, env=["AWS_SECRET_ACCESS_KEY"]), command="c")
        assert result.error is not None
        assert not any(SECRET[start:] in result.error for start in range(len(SECRET) - 4))

    @attack("secrets", "a name in an answer that is a key")
    def test_a_key_of_an_answer_is_no_way_out(self, tmp_path: Path) -> None:
        code = "import json, os; print(json.dumps({os.environ['AWS_SECRET_ACCESS_KEY']: 1}))"
        result = ask(tmp_path, python(code, env=["AWS_SECRET_ACCESS_KEY"], format="json", path="a"), command="c")
        assert (
            result.error
            == f"the answer of {sys.executable} can't be read: there is no a in it; in it there is: [secret]"
        )


class TestProcesses:
    @attack("runners", "a program that ignores signals")
    def test_one_that_ignores_both_signals_is_killed(self) -> None:
        code = (
            "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; print('ready', flush=True); "
            "time.sleep(60)"
        )
        ended, lines = child(code, stop_when=b"ready".__eq__, grace_s=0.05)
        assert (ended.by, ended.code, lines) == ("interrupted", -signal.SIGKILL, [b"ready"])

    @attack("runners", "a program that stops itself")
    def test_one_that_stopped_itself_is_killed(self) -> None:
        def stopped(pid: bytes) -> bool:
            while psutil.Process(int(pid)).status() != psutil.STATUS_STOPPED:
                time.sleep(0.001)
            return True

        ended, _ = child("import os; print(os.getpid(), flush=True); os.kill(0, 19)", stop_when=stopped, grace_s=0.05)
        assert (ended.by, ended.code) == ("interrupted", -signal.SIGKILL)

    @attack("runners", "a daemon, forked twice")
    def test_a_daemon_is_ended(self) -> None:
        """Forked twice, in a session of its own, its parents gone, all its streams closed."""
        code = """
import os, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, b"%d" % os.getpid())
        os.closerange(0, 100)
        time.sleep(60)
    os._exit(0)
os.wait()
print(os.read(read, 20).decode())
"""
        ended, lines = child(code)
        assert (ended.by, ended.code, len(lines)) == ("exit", 0, 1)
        assert not alive(lines[0])

    @attack("runners", "a fork that keeps stdout open")
    def test_a_fork_that_keeps_stdout_does_not_hold_the_run(self) -> None:
        code = """
import os, time
pid = os.fork()
if pid == 0:
    os.setsid()
    os.close(0)
    os.close(2)
    time.sleep(60)
print(pid)
"""
        ended, lines = child(code)
        assert (ended.by, ended.code, len(lines)) == ("exit", 0, 1)
        assert not alive(lines[0])

    @attack("runners", "processes that flee from one to the next")
    def test_those_that_flee_from_process_to_process_are_ended(self, tmp_path: Path) -> None:
        """Each lives for a moment only and starts its successor in a new session: a kill after one look would come
        too late.
        """
        os.mkfifo(tmp_path / "held")  # by all of them: its end is read when the last is dead
        code = f"""
import os, time
os.write(os.open({str(tmp_path / "held")!r}, os.O_WRONLY), b"x")
read, write = os.pipe()
if os.fork():
    os.read(read, 1)
    print("ready", flush=True)
    time.sleep(60)
os.closerange(0, 3)
for generation in range(1000):
    if generation == 3:
        os.write(write, b"x")
    time.sleep(0.003)
    if os.fork():
        os._exit(0)
    os.setsid()
"""
        held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
        try:
            ended, lines = child(code, stop_when=b"ready".__eq__, grace_s=0.05)
            assert (ended.by, lines) == ("interrupted", [b"ready"])
            assert os.read(held, 2) == b"x"
            assert os.read(held, 2) == b""
        finally:
            os.close(held)

    @attack("runners", "a program that reads stdin for ever")
    def test_one_that_reads_stdin_for_ever_gets_its_end(self) -> None:
        ended, lines = child("import sys; sys.stdin.read(); print('done')")
        assert (ended.by, ended.code, lines) == ("exit", 0, [b"done"])


class TestFloods:
    FLOOD = "import os\nwhile True: os.write({fd}, b'x' * 65536)"

    @attack("runners", "output without a newline")
    def test_stdout_without_a_newline(self, tmp_path: Path) -> None:
        result = ask(tmp_path, python(self.FLOOD.format(fd=1)), command="c")
        assert (result.status, result.failure) == ("failed", "output")
        assert result.output == "x" * MAX_TEXT

    @attack("runners", "a flood by a program that ignores its broken pipe")
    def test_stdout_by_one_that_ignores_everything(self) -> None:
        setup = "import os, signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 13, 15)]\n"
        code = setup + "while True:\n try: os.write(1, b'x\\n' * 9999)\n except OSError: pass"
        ended, lines = child(code, total_bytes=100_000, grace_s=0.05)
        assert (ended.by, ended.code, len(lines)) == ("output", -signal.SIGKILL, 50_000)

    @attack("runners", "a flood on stderr")
    def test_stderr(self) -> None:
        code = "import os; [os.write(2, b'x' * 65536) for _ in range(500)]; os.write(2, b'the end'); print('done')"
        ended, lines = child(code, stderr_bytes=100)
        assert (ended.by, ended.code, lines, ended.stderr) == ("exit", 0, [b"done"], "x" * 93 + "the end")

    @attack("runners", "a flood of empty lines")
    def test_newlines_alone(self) -> None:
        ended, lines = child("import os; [os.write(1, b'\\n' * 65536) for _ in range(20)]", total_bytes=300_000)
        assert (ended.by, len(lines), set(lines)) == ("output", 300_000, {b""})
