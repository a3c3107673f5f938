"""A person at a terminal: questions, progress, colours, width, and Ctrl-C that tells how to go on."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from go_ent.engine.cli.terminal import progress
from go_ent.engine.cli.terminal.output import say
from tests.engine.cli.test_run import Shell, shell, sleepers
from tests.engine.cli.test_signals import CTRL_C, ENVIRONMENT, Terminal, terminal

__all__ = ["shell"]

LOOP = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
ID = r"[0-9a-f]{8}"
CTRL_D = b"\x04"
SLOW = "import asyncio\nawait asyncio.sleep(1.5)\n5"
TOOL = """# /// tool
# name = "slowly"
# ///
import asyncio
async def slowly(n: int) -> int:
    \"\"\"Twice, after a while.\"\"\"
    await asyncio.sleep(0.3)
    return 2 * n
"""
# Sleeps until there is a file called go; `begun` says that it does.
SLEEPS = "touch begun; test -e go || sleep 100; echo done"
PLAN = f'[[task]]\nid = "a"\ncommand = ["sh", "-c", "{SLEEPS}"]\n'


def screen(said: bytes) -> list[str]:
    """What stands on the terminal in the end, without colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", said.decode())
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = line.rpartition("\x1b[2K")[2]
        lines.append(shown.rpartition("\r")[2])
    return [line for line in lines if line]


def interrupted(found: Terminal, command: str = "go-ent resume") -> str:
    """The id that an interrupted command names; and it names the command that goes on with it."""
    ids = re.findall(rf"interrupted: (?:loop )?({LOOP}|{ID})", found.said.decode())
    assert len(ids) == 1, found.said.decode()
    assert f"to resume: {command} {ids[0]}" in found.said.decode()
    return str(ids[0])


def begun(project: Path) -> None:
    """Until an execution is on record: the machine may be slow to start one."""
    until = time.monotonic() + 60
    while not any(project.glob(".go-ent/executions/*/journal.jsonl")) and time.monotonic() < until:
        time.sleep(0.02)


class TestQuestions:
    @pytest.fixture(autouse=True)
    def tool(self, shell: Shell) -> None:
        (shell.folder / "slowly.py").write_text(TOOL)
        shell.text("tool", "add", "slowly.py")
        (shell.folder / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["slowly"]\n')

    @pytest.mark.parametrize(
        ("answer", "code", "said"),
        [(b"y\n", 0, "8"), (b"n\n", 1, "the call was not approved"), (CTRL_D, 10, "decide: go-ent approve")],
        ids=["yes", "no", "the end of the input"],
    )
    def test_a_call_that_needs_approval_is_asked_for(self, shell: Shell, answer: bytes, code: int, said: str) -> None:
        with terminal(shell, "exec", "-c", "await tools.slowly(n=4)") as asked:
            asked.until(b"make the call? ")
            assert b'slowly with {"n": 4} needs approval' in asked.said
            asked.type(answer)
            assert asked.end() == code
        assert any(said in line for line in screen(asked.said)), asked.said

    def test_ctrl_c_at_the_question_interrupts(self, shell: Shell) -> None:
        with terminal(shell, "tool", "run", "slowly", "--input", '{"n": 4}') as asked:
            asked.until(b"make the call? ")
            asked.type(CTRL_C)
            assert asked.end() == 130
        assert shell.json("status", interrupted(asked))["status"] == "interrupted"

    def test_the_end_of_the_input_is_no_trust(self, shell: Shell) -> None:
        with terminal(shell, "trust") as asked:
            asked.until(b"[y/N] ")
            asked.type(CTRL_D)
            assert asked.end() == 1
        assert screen(asked.said)[-1] == "nothing was changed"


class TestProgress:
    def test_it_appears_and_goes(self, shell: Shell) -> None:
        with terminal(shell, "exec", "-c", SLOW) as running:
            running.until(b"running, ")
            assert running.end() == 0
        assert screen(running.said) == ["5"]

    @pytest.mark.more
    def test_it_is_not_in_what_is_printed_elsewhere(self, shell: Shell, tmp_path: Path) -> None:
        out = tmp_path / "out"
        with terminal(shell, "exec", "-c", SLOW, stdout=out) as running:
            running.until(b"running, ")
            assert running.end() == 0
        assert out.read_bytes() == b"5\n"
        assert screen(running.said) == []

    @pytest.mark.more
    def test_it_is_not_there_when_nobody_wants_it(self, shell: Shell) -> None:
        for option, printed in (("--quiet", [b"5"]), ("--json", None)):
            with terminal(shell, "--no-color", "exec", "-c", SLOW, option) as running:
                assert running.end() == 0
            assert b"running" not in running.said
            assert b"\x1b" not in running.said
            assert printed is None or running.said.split() == printed

    def test_what_is_printed_all_the_time_does_not_hide_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Screen(io.StringIO):
            def isatty(self) -> bool:
                return True

        drawn = Screen()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", drawn)
        monkeypatch.setattr(progress, "DELAY_S", 0)
        with progress.ProgressLine("working") as line:
            say("a result")
            while "working" not in drawn.getvalue().rpartition(progress.ERASE)[2]:
                time.sleep(0.01)
            monkeypatch.setattr(progress, "TICK_S", 3600)
            before = drawn.getvalue().count("working")
            for _ in range(3):
                say("a result")
            assert drawn.getvalue().count("working") >= before + 3
            assert "working" in drawn.getvalue().rpartition(progress.ERASE)[2]
            line.tell("done")
        assert drawn.getvalue().endswith(progress.ERASE)

    def test_the_steps_of_a_plan(self, shell: Shell) -> None:
        steps = "\n".join(
            f'[[task]]\nid = "{name}"\ncommand = ["sh", "-c", "sleep 0.8; echo {name}"]\n' for name in "ab"
        )
        (shell.folder / "steps.toml").write_text(steps + 'depends_on = ["a"]\n')
        with terminal(shell, "run", "--plan", "steps.toml") as running:
            running.until(b"1 step done, running b")
            assert running.end() == 0
        assert [line for line in screen(running.said) if line.startswith("[")] == [
            "[a] running: sh -c sleep 0.8; echo a",
            "[a] completed",
            "[b] running: sh -c sleep 0.8; echo b",
            "[b] completed",
        ]


class TestCtrlC:
    @pytest.mark.more
    def test_code_goes_on_with_the_command_that_it_names(self, shell: Shell) -> None:
        with terminal(shell, "exec", "-c", SLOW.replace("1.5", "8")) as running:
            running.until(b"running, ")
            begun(shell.folder)
            running.type(CTRL_C)
            assert running.end() == 130
        assert shell.text("resume", interrupted(running)) == "5\n"

    def test_a_plan(self, shell: Shell) -> None:
        (shell.folder / "sleeps.toml").write_text(PLAN)
        with terminal(shell, "run", "--plan", "sleeps.toml") as running:
            running.until(b"running a, ")
            running.type(CTRL_C)
            assert running.end() == 130
        assert sleepers(shell.folder) == 0
        execution = interrupted(running)
        (shell.folder / "go").touch()
        with terminal(shell, "resume", execution) as again:
            assert again.end() == 0
        assert "done" in screen(again.said)

    @pytest.mark.more
    def test_lines(self, shell: Shell, tmp_path: Path) -> None:
        (shell.folder / "slowly.py").write_text(TOOL)
        shell.text("tool", "add", "slowly.py")
        lines, out = tmp_path / "lines", tmp_path / "out"
        lines.write_text("".join(f"{n}\n" for n in range(12)))
        with terminal(shell, "tool", "run", "slowly", "--each", "--jobs", "2", stdin=lines, stdout=out) as running:
            running.until(b"done, 0 failed, ")
            running.type(CTRL_C)
            assert running.end() == 130
        before = out.read_text().split()
        assert 0 < len(before) < 12
        done = shell("resume", interrupted(running), stdin=lines.read_text())
        assert (done.returncode, done.stdout.decode().split()) == (0, [str(2 * n) for n in range(12)])

    def test_a_loop_and_a_workflow(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text(
            '[engine]\ncommand = "echo"\n[commands.echo]\nargv = ["echo", "{prompt}"]\n'
        )
        shell.text("trust", "--yes")
        with terminal(shell, "loop", "go", "--check", "sleep 100") as loop:
            loop.until(b"1 step done")
            loop.type(CTRL_C)
            assert loop.end() == 130
        interrupted(loop, "go-ent loop --resume")
        (shell.folder / "w.toml").write_text(PLAN.replace("task", "step"))
        with terminal(shell, "workflow", "start", "--plan", "w.toml") as workflow:
            workflow.until(b"running ")
            workflow.type(CTRL_C)
            assert workflow.end() == 130
        assert b"interrupted: workflow w\x1b[0m\r\nto resume: go-ent workflow start w\r\n" in workflow.said
        assert sleepers(shell.folder) == 0

    def test_the_second_one_leaves_at_once_and_nothing_behind(self, shell: Shell) -> None:
        deaf = "trap '' TERM INT; touch begun; while :; do sleep 100; done"
        (shell.folder / "deaf.toml").write_text(f'[[task]]\nid = "a"\ncommand = ["sh", "-c", "{deaf}"]\n')
        with terminal(shell, "run", "--plan", "deaf.toml") as running:
            running.until(b"running a, ")
            running.type(CTRL_C)
            running.until(b"once more: at once")
            running.type(CTRL_C)
            assert running.end() == 130
        assert sleepers(shell.folder) == 0
        assert shell.json("status", interrupted(running))["status"] == "interrupted"

    @pytest.mark.more
    def test_sigterm_is_the_same(self, shell: Shell) -> None:
        with terminal(shell, "exec", "-c", SLOW) as running:
            running.until(b"running, ")
            begun(shell.folder)
            running.child.send_signal(signal.SIGTERM)
            assert running.end() == 130
        interrupted(running)

    def test_while_an_image_is_built(self, shell: Shell, tmp_path: Path) -> None:
        cache = str(tmp_path / "cache")
        with terminal(shell, "image", "build", env={"GO_ENT_CACHE": cache}) as building:
            building.until(b"building the sandbox image")
            building.child.send_signal(signal.SIGTERM)
            assert building.end() == 130
        assert screen(building.said)[-1] == "interrupted"
        end = time.monotonic() + 10  # a killed one takes a moment to be gone; one that was left would take longer
        while left := [one for one in Path("/proc").iterdir() if one.name.isdigit() and cache in _command(one)]:
            assert time.monotonic() < end, left
            time.sleep(0.02)


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


class TestLook:
    @pytest.fixture
    def execution(self, shell: Shell) -> str:
        (shell.folder / "plan.toml").write_text('[[task]]\nid = "load"\ncommand = ["true"]\n')
        shell.text("run", "--plan", "plan.toml")
        return str(shell.json("ps")[0]["id"])

    def test_a_table_on_a_terminal_and_plain_columns_in_a_pipe(self, shell: Shell, execution: str) -> None:
        with terminal(shell, "ps", columns=200) as shown:
            assert shown.end() == 0
        assert b"\x1b[32mcompleted" in shown.said
        assert "─────" in shown.said.decode()
        head, row = shell.text("ps").splitlines()
        assert head.split() == ["id", "status", "age", "took", "cost", "kind", "title"]
        assert row.startswith(f"{execution[-8:]}  completed  ")

    def test_a_tree_on_a_terminal_and_indentation_in_a_pipe(self, shell: Shell, execution: str) -> None:
        assert "\n  load: completed, " in shell.text("status", execution)
        with terminal(shell, "status", execution) as shown:
            assert shown.end() == 0
        assert any(line.startswith("  load: completed") for line in screen(shown.said))

    def test_no_colours_for_who_wants_none(self, shell: Shell, execution: str) -> None:
        with terminal(shell, "ps", env={"NO_COLOR": "1"}) as shown:
            assert shown.end() == 0
        assert b"\x1b" not in shown.said
        assert "─────" in shown.said.decode()

    def test_a_dumb_terminal_is_treated_like_a_pipe(self, shell: Shell, execution: str) -> None:
        with terminal(shell, "ps", env={"TERM": "dumb"}) as shown:
            assert shown.end() == 0
        assert shown.said.isascii()
        assert b"\x1b" not in shown.said

    def test_a_pipe_gets_colours_on_demand(self, shell: Shell, execution: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[32mcompleted" in shell.text("ps")

    @pytest.mark.parametrize(
        ("columns", "heads"), [(50, "id status age title"), (200, "id status age took cost kind title")]
    )
    def test_the_width_is_kept_and_ids_stay_whole(self, shell: Shell, columns: int, heads: str) -> None:
        (shell.folder / "long.toml").write_text(f'name = "{"long " * 19}"\n[[task]]\nid = "a"\ncommand = ["true"]\n')
        shell.text("run", "--plan", "long.toml")
        with terminal(shell, "ps", columns=columns) as shown:
            assert shown.end() == 0
        head, _, row = screen(shown.said)
        assert head.split() == heads.split()
        assert (re.match(ID, row) is not None, len(row) <= columns, row.endswith("…")) == (True, True, columns == 50)

    def test_without_unicode(self, shell: Shell, execution: str) -> None:
        with terminal(shell, "status", execution, env={"PYTHONIOENCODING": "ascii"}) as shown:
            assert shown.end() == 0
        assert shown.said.isascii()

    def test_json_is_json_whatever_the_stream_can_encode(self, shell: Shell) -> None:
        argv = [sys.executable, "-c", "from go_ent.engine.cli import main; main()", "exec", "-c", "'é😀'", "--json"]
        environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "GO_ENT_DATA": os.environ["GO_ENT_DATA"]}
        done = subprocess.run(argv, cwd=shell.folder, env=environment, capture_output=True, check=True)
        assert b'"result":"\\u00e9\\ud83d\\ude00"' in done.stdout


class TestErrors:
    def test_an_id_that_is_almost_right(self, shell: Shell) -> None:
        shell.text("exec", "-c", "1")
        right = shell.json("ps")[0]["id"]
        wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
        assert shell.error("status", wrong) == f"go-ent: there is no execution {wrong}; did you mean {right}?\n"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["tol", "list"], 'unknown command "tol". Did you mean "tool"?\nsee: go-ent --help'),
            (["tool", "lst"], 'unknown command "lst". Did you mean "list"?\nsee: go-ent tool --help'),
            (["exec", "--jsno"], "--jsno"),
            (["approve"], "EXECUTION requires an argument.\nsee: go-ent approve --help"),
            (["status", "0123abcd"], "go-ent ps lists"),
        ],
    )
    def test_say_what_was_meant_and_where_to_look(self, shell: Shell, arguments: list[str], said: str) -> None:
        done = shell(*arguments)
        assert (done.returncode, done.stdout) == (2, b"")
        assert said in done.stderr.decode()
        assert "─" not in done.stderr.decode()
