"""`go-ent run` and what belongs to it, as a person or a script uses them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.core.models import Task
from go_ent.engine.workflows.loop import Loop
from go_ent.engine.workflows.loop_checks import CommandCheck
from tests.support.forked import Forked
from tests.support.shell import Done, go_ent

PLAN = """
[[task]]
id = "load"
command = ["printf", "[3, 1, 2]"]
[[task]]
id = "sort"
code = "sorted(rows)"
inputs = { rows = "${load.output}" }
"""
FIRST = '[[task]]\nid = "a"\ncommand = ["sh", "-c", "echo x >> ran; echo 1"]\n'
ECHO = '[engine]\ncommand = "echo"\n[commands.echo]\nargv = ["echo", "said:", "{prompt}"]\n'


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, stdin: str = "") -> Done:
        return go_ent(*arguments, stdin=stdin.encode(), cwd=self.folder)

    def text(self, *arguments: str, code: int = 0) -> str:
        done = self(*arguments)
        assert done.returncode == code, done.stderr.decode()
        return done.stdout.decode()

    def error(self, *arguments: str, code: int = 2) -> str:
        done = self(*arguments)
        assert done.returncode == code, (done.stdout + done.stderr).decode()
        return done.stderr.decode()

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.text(*arguments, "--json", code=code))


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    folder = tmp_path / "project"
    (folder / ".go-ent").mkdir(parents=True)
    (folder / "plan.toml").write_text(PLAN)
    monkeypatch.setenv(
        "PATH", os.pathsep.join(f for f in os.environ["PATH"].split(os.pathsep) if not (Path(f) / "claude").exists())
    )
    return Shell(folder)


class TestRun:
    def test_a_plan(self, shell: Shell) -> None:
        done = shell("run", "--plan", "plan.toml")
        assert (done.returncode, done.stdout) == (0, b"[1,2,3]\n")
        lines = done.stderr.decode().splitlines()
        assert lines[0] == f"execution {shell.json('ps')[0]['id'][-8:]}"
        assert lines[1:6] == [
            "strategy parallel: a plan: 2 tasks, 1 dependency",
            "[load] running: printf [3, 1, 2]",
            "[load] completed",
            "[sort] running: code",
            "[sort] completed",
        ]
        result = shell.json("run", "--plan", "plan.toml")
        assert result["status"] == "COMPLETE"
        rows = shell.json("ps")
        assert [row["status"] for row in rows] == ["completed", "completed"]
        assert rows[0]["id"] == result["execution_id"]
        assert {"id", "parent", "kind", "status", "created", "finished"} <= set(rows[0])
        assert "sort: completed on sandbox" in shell.text("status", result["execution_id"])

    def test_a_composed_tool(self, shell: Shell) -> None:
        (shell.folder / "double.py").write_text(
            '# /// tool\n# name = "double"\n# ///\ndef double(n: int) -> int:\n    """Twice."""\n    return 2 * n\n'
        )
        shell.text("tool", "add", "double.py")
        assert shell.text("run", 'composed:double {"n": 4}') == "8\n"
        assert shell.text("run", "--tool", "double", "--input", '{"n": 5}') == "10\n"

    def test_a_command_needs_trust_once(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text(ECHO)
        assert "run go-ent trust there" in shell.error("run", "hello", "--command", "echo", code=12)
        assert "command echo: echo said: {prompt}" in shell.text("trust", "--yes")
        assert "said:" in shell.text("run", "hello", "--command", "echo")
        assert "hello" in shell.text("run", "hello")
        assert shell.text("trust", "--list") == f"{shell.folder}\n"
        shell.text("trust", "--remove")
        assert "go-ent trust" in shell.error("run", "hello", "--command", "echo", code=12)

    def test_a_dry_run_prints_the_prompt(self, shell: Shell) -> None:
        (shell.folder / "notes.md").write_text("remember the milk")
        said = shell.text("run", "Buy it", "--role", "developer", "--file", "notes.md", "--dry-run")
        assert all(part in said for part in ("You are the developer", "Buy it", "remember the milk"))
        assert not (shell.folder / ".go-ent" / "executions").exists()

    def test_from_stdin(self, shell: Shell) -> None:
        assert b"- a list\n- of things" in shell("run", "-", "--dry-run", stdin="- a list\n- of things").stdout

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["run"], "run needs a task, a --tool or a --plan"),
            (["run", "x", "--plan", "plan.toml"], "a task belongs into the plan's file"),
            (["run", "--plan", "plan.toml", "--role", "developer"], "role belongs into the plan's file"),
            (["run", "--plan", "nowhere.toml"], "nowhere.toml can't be read: No such file or directory"),
            (["run", "--plan", "plan.toml", "--strategy", "multi"], "its strategy is parallel"),
            (["run", "--plan", "plan.toml", "--concurrency", "0"], "--concurrency must be at least 1"),
            (["run", "x", "--type", "novel"], "type: it should be 'feature', 'bugfix'"),
            (["run", "x", "--strategy", "both"], "strategy: it should be 'auto', 'single', 'multi' or 'parallel'"),
            (["run", "x", "--runtime", "gpt"], "there is no runtime gpt; there are: claude-code, open-code, cli"),
            (["run", "x", "--role", "chef"], "the roles are architect, developer, reviewer, tester, writer"),
            (["run", "x", "--budget-usd", "-1"], "budget.usd: it should be greater than 0"),
            (["run", "-x"], "unknown option: -x"),
            (["run", "--modle", "opus", "x"], "unknown option: --modle. Did you mean --model?\nsee: go-ent run --help"),
            (["run", "x", "--modle", "opus"], "unknown option: --modle. Did you mean --model?"),
            (
                ["exec", "--tiemout", "3", "-c", "1"],
                "unknown option: --tiemout. Did you mean --timeout?\nsee: go-ent exec --help",
            ),
            (["exec", "--tiemout=3", "-c", "1"], "unknown option: --tiemout. Did you mean --timeout?"),
            (["exec", "-c", "--x", "--qiet"], "unknown option: --qiet. Did you mean --quiet?"),
            (["tool", "add", "--golbal"], "unknown option: --golbal. Did you mean --global?"),
            (["--verison"], "unknown option: --verison. Did you mean --version?"),
            (["tool", "search", "--limit", "0"], "--limit is how many are listed: 1 or more, not 0"),
            (["stubs", "--output", "nowhere/a.py"], "--output nowhere/a.py: there is no folder nowhere"),
            (["ps", "more"], "unexpected argument: more\nsee: go-ent ps --help"),
            (["toool", "list"], 'unknown command "toool". Did you mean "tool"?'),
            (["exe", "-c", "1"], 'unknown command "exe". Did you mean "exec"?'),
            (["run", "x", "--concurrency", "2"], "--concurrency is for a --plan"),
            (["status", "0000"], "there is no execution 0000"),
            (["status", "../.."], "is not the id of an execution"),
            (["resume", "zz"], "is not the id of an execution"),
            (["loop", "x"], "loop needs a task and one check"),
            (["loop", "x", "--check", "make test | tee log"], "needs a shell"),
            (["loop", "x", "--check-model", ""], "criterion: "),
            (["loop", "x", "--list"], "--list and --cancel ID stand alone"),
            (["workflow", "start"], "workflow start needs --plan FILE"),
            (["workflow", "approve", "none"], "none"),
        ],
    )
    def test_wrong_use_says_what_to_do(self, shell: Shell, arguments: list[str], said: str) -> None:
        assert said in shell.error(*arguments)

    def test_what_fails_exits_by_its_status(self, shell: Shell) -> None:
        (shell.folder / "bad.toml").write_text(
            '[[task]]\nid = "a"\ncommand = ["false"]\n[[task]]\nid = "b"\ncode = "1"\n'
        )
        done = shell("run", "--plan", "bad.toml")
        assert done.returncode == 13
        assert b"to resume: go-ent resume" in done.stderr
        done = shell("run", "--tool", "none")
        assert (done.returncode, b"to resume" in done.stderr) == (2, False)
        (shell.folder / "half.py").write_text(
            '# /// tool\n# name = "half"\n# ///\ndef half(n: int) -> int:\n    """Half."""\n    return n // 2\n'
        )
        shell.text("tool", "add", "half.py")
        done = shell("run", "--tool", "half")
        assert b"half needs n" in done.stderr
        assert b"to resume" not in done.stderr

    def test_a_failed_execution_is_resumed(self, shell: Shell) -> None:
        plan = f'{FIRST}[[task]]\nid = "b"\ncommand = ["cat", "wanted"]\ndepends_on = ["a"]\n'
        (shell.folder / "bad.toml").write_text(plan)
        failed = shell.json("run", "--plan", "bad.toml", code=13)
        (shell.folder / "wanted").write_text("there")
        assert shell.text("resume", failed["execution_id"][:18]) == "there\n"
        assert (shell.folder / "ran").read_text() == "x\n"
        assert "has finished" in shell.error("resume", failed["execution_id"], code=12)

    def test_one_that_can_not_be_read_does_not_hide_the_others(self, shell: Shell) -> None:
        kept, broken = (shell.json("run", "--plan", "plan.toml")["execution_id"] for _ in range(2))
        folder = shell.folder / ".go-ent" / "executions" / broken
        (folder / "state.json").write_text("{")
        (folder / "journal.jsonl").write_text('{"seq": 1, "kind": "status", "at": 0, "changes": {"status": 7}}\n')
        assert [row["id"] for row in shell.json("ps")] == [broken, kept]
        assert "damaged" in shell.error("status", broken, code=12)

    def test_a_dry_run_refuses_what_could_not_run(self, shell: Shell) -> None:
        assert "nope" in shell.error("run", "x", "--skill", "nope", "--dry-run")


class TestApproval:
    @pytest.fixture(autouse=True)
    def deploy(self, shell: Shell) -> None:
        source = '# /// tool\n# name = "deploy"\n# ///\ndef deploy(n: int) -> int:\n    """Deploy."""\n    return n\n'
        (shell.folder / "deploy.py").write_text(source)
        shell.text("tool", "add", "deploy.py")
        (shell.folder / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["deploy"]\n')

    def test_yes_approves(self, shell: Shell) -> None:
        assert shell.text("run", 'composed:deploy {"n": 4}', "--yes") == "4\n"

    def test_what_waits_is_resumed_with_yes(self, shell: Shell) -> None:
        said = shell.error("run", 'composed:deploy {"n": 4}', code=10)
        assert "decide: go-ent approve" in said
        execution_id = said.split()[1]
        shell.error("resume", execution_id, code=10)
        assert shell.text("resume", execution_id, "--yes") == "4\n"


class TestTextsFromElsewhere:
    """Nothing for people has what a terminal would obey, whoever wrote it."""

    ESCAPE = "\x1b]0;owned\x07\x9b2J"

    def test_of_executions(self, shell: Shell) -> None:
        code = f"raise ValueError({self.ESCAPE!r})"
        (shell.folder / "evil.json").write_text(json.dumps({"task": [{"id": "a", "code": code}]}))
        done = shell("run", "--plan", "evil.json")
        (shell.folder / ".go-ent" / "config.toml").write_text(ECHO)
        shell.text("trust", "--yes")
        shell.text("run", f"hello {self.ESCAPE}")
        for said in (
            done.stderr,
            *(shell(*command).stdout for command in (["ps"], ["status", shell.json("ps")[1]["id"]])),
        ):
            assert "owned�" in said.decode()
            assert not {"\x1b", "\x07", "\x9b"} & set(said.decode())

    def test_of_loops(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text(ECHO)
        shell.text("trust", "--yes")
        done = shell("loop", f"do {self.ESCAPE}", "--check", r"sh -c 'printf \033]0;owned\007; exit 1'")
        assert "\x1b" not in done.stderr.decode()
        listed = shell.text("loop", "--list")
        assert "owned�" in listed
        assert "\x1b" not in listed

    def test_of_workflows_errors_and_the_configuration(self, shell: Shell) -> None:
        (shell.folder / "w.json").write_text(json.dumps({"step": [{"id": "a", "wait": self.ESCAPE, "code": "1"}]}))
        shell("workflow", "start", "--plan", "w.json")
        argv = json.dumps(["echo", self.ESCAPE])
        (shell.folder / ".go-ent" / "config.toml").write_text(f"[commands.x]\nargv = {argv}\n")
        for said in (
            shell.text("workflow", "status"),
            shell.text("trust", "--yes"),
            shell.error("run", "--plan", f"{self.ESCAPE}.toml"),
        ):
            assert "owned�" in said
            assert not {"\x1b", "\x07", "\x9b"} & set(said)


class TestTrust:
    def test_everything_that_it_lets_through_is_listed_and_no_value(self, shell: Shell) -> None:
        config = (
            '[runners.claude-code]\nargs = ["--danger"]\nenv = ["SEEN"]\nset = { PLACE = "s3cret" }\n'
            '[servers.files]\ncommand = "npx"\nargs = ["files"]\nenv = { ZONE = "s3cret" }\n'
        )
        (shell.folder / ".go-ent" / "config.toml").write_text(config)
        (shell.folder / ".go-ent" / "prompts").mkdir()
        (shell.folder / ".go-ent" / "prompts" / "task.md.j2").write_text("x")
        (shell.folder / ".claude").mkdir()
        wanted = [
            "server files: npx files (sets ZONE)",
            "runtime claude-code: claude-code --danger (sees SEEN) (sets PLACE)",
            "prompt .go-ent/prompts/task.md.j2",
            "agents obey .claude",
        ]
        assert shell.json("trust", "--yes")["wants"] == wanted
        said = shell.text("trust", "--yes")
        assert said.splitlines()[1:] == [
            *(f"  {line}" for line in wanted),
            f"{shell.folder} is trusted, as it was before",
        ]
        assert "s3cret" not in said

    def test_a_configuration_that_can_not_be_read_is_not_trusted(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text("[engine]\nspeed = 3\n")
        assert "engine.speed" in shell.error("trust", code=12)
        assert shell.json("trust", "--list") == []


class TestSignals:
    @contextlib.contextmanager
    def begun(self, shell: Shell) -> Iterator[subprocess.Popen[str]]:
        """A plan whose second task has begun, and waits."""
        (shell.folder / "slow.toml").write_text(self.PLAN)
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with Forked("run", "--plan", "slow.toml", cwd=shell.folder, text=True, **pipes) as child:
            try:
                until = time.monotonic() + 60
                while not (shell.folder / "begun").exists():
                    assert time.monotonic() < until
                    assert child.poll() is None, child.communicate()
                    time.sleep(0.02)
                yield child
            finally:
                child.kill()

    SECOND = '["sh", "-c", "touch begun; test -f go || exec sleep 100; echo $((1 + 1))"]'
    PLAN = f'{FIRST}[[task]]\nid = "b"\ncommand = {SECOND}\ndepends_on = ["a"]\n'

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP, "command"])
    def test_an_interrupt_keeps_what_was_done(self, shell: Shell, how: str | signal.Signals) -> None:
        with self.begun(shell) as child:
            if isinstance(how, signal.Signals):
                child.send_signal(how)
            else:
                execution_id = shell.json("ps")[0]["id"]
                assert f"{execution_id[-8:]} is interrupted" in shell.text("interrupt", execution_id)
            _, said = child.communicate(timeout=60)
        assert child.returncode == 130
        assert sleepers(shell.folder) == 0
        execution_id = said.split()[1]
        assert f"go-ent resume {execution_id}" in said
        assert "interrupted: interrupted" not in said
        assert shell.json("ps")[0]["status"] == "interrupted"
        (shell.folder / "go").touch()
        said = shell.error("resume", execution_id, "--timeout", "9", code=2)
        assert "--timeout is for code and composed tools: a task keeps its own" in said
        assert shell.text("resume", execution_id) == "2\n"
        assert "command before: interrupted: " in shell.text("status", execution_id)
        assert (shell.folder / "ran").read_text() == "x\n"

    def test_a_killed_engine_is_resumed_and_its_children_end(self, shell: Shell) -> None:
        with self.begun(shell):
            pass
        row = shell.json("ps")[0]
        assert row["status"] == "interrupted"
        assert " 0 ms" not in shell.text("ps"), "it did not end when it began"
        assert sleepers(shell.folder) == 1
        (shell.folder / "go").touch()
        asked = shell("resume", row["id"])
        assert asked.returncode == 12
        assert b"nobody knows whether it was done" in asked.stderr
        assert sleepers(shell.folder) == 0
        assert shell.text("resume", row["id"], "--unfinished", "retry") == "2\n"
        assert (shell.folder / "ran").read_text() == "x\n"


def sleepers(folder: Path) -> int:
    """How many `sleep 100` there are whose working folder is *folder*."""
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and (entry / "cmdline").read_bytes() == b"sleep\x00100\x00"
                and (entry / "cwd").resolve() == folder
            ):
                count += 1
        except OSError:
            continue
    return count


class TestLoop:
    def test_it_runs_until_the_check_passes(self, shell: Shell) -> None:
        command = (
            "import pathlib; p = pathlib.Path('n'); p.write_text(str(int(p.read_text()) + 1) if p.exists() else '1')"
        )
        argv = json.dumps([sys.executable, "-c", f"{command}; print(p.read_text())", "--", "{prompt}"])
        config = f'[engine]\ncommand = "add"\n[commands.add]\nargv = {argv}\n'
        (shell.folder / ".go-ent" / "config.toml").write_text(config)
        shell.text("trust", "--yes")
        done = shell("loop", "count up", "--check", "grep -q 3 n")
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.strip() == b"3"
        assert b"iteration 3: passed" in done.stderr

    def test_the_same_failure_three_times_ends_it(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text(ECHO)
        shell.text("trust", "--yes")
        done = shell("loop", "try", "--check", "false", "--json")
        result = json.loads(done.stdout)
        assert (done.returncode, result["status"], len(result["iterations"])) == (3, "NEEDS_REPLAN", 3)

    def test_loops_are_listed_and_cancelled(self, shell: Shell) -> None:
        assert shell.json("loop", "--list") == []
        loop = Loop.start(shell.folder, Task(description="count up"), CommandCheck.parse("true"))
        assert f"{loop.id}  running  0 of 10" in shell.text("loop", "--list")
        assert shell.text("loop", "--cancel", loop.id) == f"loop {loop.id} is cancelled\n"
        [row] = shell.json("loop", "--list")
        assert (row["status"], row["title"], row["iterations"], row["message"]) == (
            "cancelled",
            "count up",
            0,
            "it was cancelled",
        )
        assert "it can't become cancelled" in shell.error("loop", "--cancel", loop.id, code=12)


class TestWordsOfStatus:
    """A person reads one set of words: those of steps and of `go-ent ps`. A task's own are for programs: `--json`."""

    TASK = ("COMPLETE", "PARTIAL", "BLOCKED", "NEEDS_REPLAN")

    @pytest.mark.parametrize(
        ("arguments", "code", "line"),
        [
            (("run", "code:1"), 1, "failed: task failed: no runtime is available"),
            (("run", "composed:nothing"), 2, "go-ent: there is no composed tool nothing"),
            (("run", "--plan", "part.toml"), 13, "failed: b failed: "),
            (("loop", "try", "--check", "false"), 3, "failed: the same failure 3 times in a row"),
            (("loop", "try", "--check", "true"), 0, "completed: `true` passed after 1 iteration"),
        ],
    )
    def test_one_set_of_words_in_what_a_person_reads(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, line: str
    ) -> None:
        if arguments[0] == "loop":
            (shell.folder / ".go-ent" / "config.toml").write_text(ECHO)
            shell.text("trust", "--yes")
        monkeypatch.setenv("PATH", "/usr/bin:/bin")  # where no agent program is
        (shell.folder / "part.toml").write_text(f'{FIRST}[[task]]\nid = "b"\ncode = "1 / 0"\n')
        done = shell(*arguments)
        said = done.stderr.decode()
        assert (done.returncode, [row for row in said.splitlines() if row.startswith(line)] != []) == (code, True), said
        assert not [word for word in self.TASK if word in said], said

    def test_what_no_resume_can_help_says_so(self, shell: Shell) -> None:
        (shell.folder / "bad.toml").write_text('[[task]]\nid = "a"\ncode = "import socket"\n')
        said = shell.error("run", "--plan", "bad.toml", code=3)
        assert "a resume would fail in the same way: change the task" in said


class TestWorkflow:
    def test_it_waits_goes_on_and_remembers(self, shell: Shell) -> None:
        steps = (
            '[[step]]\nid = "plan"\ncode = "\'a plan\'"\n[[step]]\nid = "build"\nwait = "Is the plan good?"\ncode '
            "= \"'built'\"\n"
        )
        (shell.folder / "release.toml").write_text(steps)
        done = shell("workflow", "start", "--plan", "release.toml")
        assert done.returncode == 10
        assert done.stdout.decode() == "release is waiting at step build (2 of 2): Is the plan good?\n"
        assert shell.text("workflow", "approve", "release") == "release is completed\n"
        assert "2 executions, 2 succeeded" in shell.text("workflow", "status", "release")
        assert "nothing waits for approval" in shell.error("workflow", "approve", "release", code=12)

    def test_it_is_cancelled(self, shell: Shell) -> None:
        (shell.folder / "w.toml").write_text('[[step]]\nid = "a"\nwait = "?"\ncode = "1"\n')
        shell("workflow", "start", "--plan", "w.toml")
        assert shell.text("workflow", "cancel", "w") == "w is cancelled\n"
        assert shell.json("workflow", "status")[0]["status"] == "cancelled"


class TestDoctorAndBudget:
    def test_doctor_says_what_there_is(self, shell: Shell) -> None:
        said = shell.text("doctor")
        assert all(f"ok  {name}" in said for name in ("platform", "python", "cache", "disk", "project", "cli"))
        checks = {check["name"]: check for check in shell.json("doctor")}
        assert set(checks["claude-code"]) == {"needed", "broken", "name", "ok", "said", "fix"}

    def test_doctor_shows_a_broken_configuration(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text("[engine]\nspeed = 3\n")
        done = shell("doctor")
        assert done.returncode == 12
        assert b"NO  configuration" in done.stdout
        assert b"engine.speed: there is no such setting" in done.stdout

    def test_budget(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text("[budget]\nday = { usd = 5 }\n")
        assert "$5.0000" in shell.text("budget")
        assert shell.json("budget")["day"]["limit_usd"] == 5


def test_a_tool_may_use_the_engine_where_that_is_granted(shell: Shell) -> None:
    code = (
        'async def spent() -> float:\n    """Spent today."""\n    return (await '
        'tools.engine.budget())["day"]["spent_usd"]\n'
    )
    (shell.folder / "spent.py").write_text(f'# /// tool\n# name = "spent"\n# ///\n{code}')
    (shell.folder / ".go-ent" / "config.toml").write_text('[grants]\nallow = ["engine.*"]\n')
    shell.text("trust", "--yes")
    shell.text("tool", "add", "spent.py")
    assert shell.text("tool", "run", "spent") == "0.0\n"
    assert shell.text("exec", "-c", "await tools.spent()") == "0.0\n"
