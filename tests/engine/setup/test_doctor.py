"""`go-ent doctor`: what is wrong here, and the command or the line that mends it."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.project.files import locked
from go_ent.engine.budget.sqlite_ledger import FileLedger
from go_ent.engine.engine import Engine
from go_ent.engine.setup.doctor import Check, examine, machine, recorded, settings, shut_in
from go_ent.sandbox import Wall
from tests.engine.cli.test_run import Shell, shell
from tests.support import SMALL_SERVER

__all__ = ["shell"]


def checks(shell: Shell, *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in shell.json("doctor", *arguments, code=code)}


def of_machine(project: Path) -> dict[str, Check]:
    return {check.name: check for check in machine(project)}


def of_record(shell: Shell) -> dict[str, Check]:
    return {check.name: check for check in recorded(shell.folder)}


class TestTheMachine:
    def test_a_cache_that_others_can_write_to(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cache = tmp_path / "cache"
        (cache / "images").mkdir(parents=True)
        for folder in (cache, cache / "images"):
            folder.chmod(0o700)
        monkeypatch.setenv("GO_ENT_CACHE", str(cache))
        assert of_machine(tmp_path)["cache"].ok
        (cache / "images").chmod(0o770)
        found = of_machine(tmp_path)["cache"]
        assert (found.ok, found.needed, found.fix) == (False, True, f"chmod -R go-w {cache}")
        assert str(cache / "images") in found.said

    def test_looking_makes_no_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path / "cache"))
        assert of_machine(tmp_path)["cache"].said.endswith("(not made yet)")
        assert not (tmp_path / "cache").exists()

    def test_what_holds_of_every_machine(self, tmp_path: Path) -> None:
        found = of_machine(tmp_path)
        assert found["platform"].ok
        assert found["python"].ok
        assert "seccomp" in found["isolation"].said


class TestTheSandbox:
    def test_runs_code_and_says_in_which_python(self, shell: Shell) -> None:
        found = checks(shell)
        assert found["sandbox"]["said"].startswith("Python 3.")
        assert "built" in found["image"]["said"]

    def test_says_what_workers_are_shut_in_by(self, shell: Shell) -> None:
        found = checks(shell)["workers"]
        assert found["needed"] is False
        for wall in ("no new privileges", "no capabilities", "no writable code", "limits", "seccomp"):
            assert wall in found["said"]
        if "landlock: no" in checks(shell)["isolation"]["said"]:
            assert "run without landlock" in found["said"]
        else:
            assert (found["ok"], found["fix"]) == (True, None)
            assert "landlock (version " in found["said"]

    @pytest.mark.parametrize(
        ("lacking", "fix"), [("landlock", "kernel of 5.13"), ("seccomp", "seccomp(2)"), ("limits", "giving up rights")]
    )
    def test_a_wall_that_does_not_stand_is_told_with_a_hint(self, lacking: str, fix: str) -> None:
        found = shut_in([Wall("no new privileges", True), Wall(lacking, False, "Function not implemented")])
        assert (found.ok, found.needed) == (False, False)
        assert found.said == f"run without {lacking} (Function not implemented); in force: no new privileges"
        assert fix in (found.fix or "")

    def test_an_image_that_is_not_built_yet(
        self, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path / "cache"))
        found = checks(shell)["image"]
        assert (found["ok"], found["needed"], found["fix"]) == (False, False, "go-ent image build")


class TestTheProject:
    def test_a_configuration_that_can_not_be_read_keeps_nothing_else_unsaid(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text("[engine]\nspeed = 3\n")
        found = checks(shell, code=12)
        assert found["configuration"]["ok"] is False
        assert "config.toml:2: engine.speed" in found["configuration"]["said"]
        assert found["python"]["ok"] is True

    def test_each_mistake_in_it_is_a_line_of_its_own(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text("[engine]\nspeed = 3\nheight = 4\n")
        lines = [line for line in shell("doctor").stdout.decode().splitlines() if line.startswith("NO")]
        assert [line.split()[2] for line in lines] == [".go-ent/config.toml:2:", ".go-ent/config.toml:3:"]

    def test_grants_and_trust(self, shell: Shell) -> None:
        (shell.folder / ".go-ent" / "config.toml").write_text(
            '[grants]\nallow = ["git.*"]\napprove = ["git.push"]\n[commands.x]\nargv = ["x"]\n'
        )
        found = {check.name: check for check in settings(shell.folder)}
        assert found["grants"].said == "git.*; approval is asked for git.push"
        assert (found["trust"].ok, found["trust"].needed, (found["trust"].fix or "").startswith("go-ent trust")) == (
            False,
            False,
            True,
        )
        shell.text("trust", "--yes")
        assert {check.name: check.ok for check in settings(shell.folder)}["trust"]

    def test_a_damaged_index(self, shell: Shell) -> None:
        shell.text("exec", "-c", "1")
        assert of_record(shell)["executions"].said == "1, all in the index"
        index = shell.folder / ".go-ent" / "executions" / "index.db"
        for path in index.parent.glob("index.db*"):
            path.write_bytes(b"rubbish" * 1000)
        found = of_record(shell)["executions"]
        assert (found.ok, found.fix) == (False, "go-ent executions reindex")
        shell.text("executions", "reindex")
        assert of_record(shell)["executions"].ok

    def test_an_execution_that_the_index_lacks(self, shell: Shell) -> None:
        shell.text("run", "--plan", "plan.toml")
        with (
            contextlib.closing(sqlite3.connect(shell.folder / ".go-ent" / "executions" / "index.db")) as database,
            database,
        ):
            database.execute("DELETE FROM executions")
        assert of_record(shell)["executions"].said.startswith("the index has 0 of 1 executions")

    def test_an_account_that_can_not_be_read(self, shell: Shell) -> None:
        path = FileLedger(shell.folder).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"rubbish" * 1000)
        found = of_record(shell)["budget"]
        assert (found.ok, found.needed, str(path) in found.said) == (False, True, True)

    def test_a_lock_that_somebody_holds(self, shell: Shell) -> None:
        path = shell.folder / ".go-ent" / ".lock"
        assert str(path) not in of_record(shell)["locks"].said
        with locked(path):
            assert str(path) in of_record(shell)["locks"].said

    def test_a_server_that_does_not_work_is_a_failure(self, shell: Shell) -> None:
        shutil.copy(SMALL_SERVER, shell.folder / "server.py")
        good = f'[servers.mine]\ncommand = "{sys.executable}"\nargs = ["server.py"]\n'
        (shell.folder / ".go-ent" / "config.toml").write_text(f'{good}[servers.gone]\ncommand = "no-such-program"\n')
        shell.text("trust", "--yes")
        found = checks(shell, "--no-servers", code=1)
        assert found["servers"]["said"] == "mine, gone: not asked"
        assert found["server gone"]["said"] == "there is no program no-such-program"
        found = checks(shell, code=1)
        assert found["server mine"]["said"] == "answers, 2 tools"
        assert found["server gone"]["ok"] is False
        assert "[servers.gone]" in found["server gone"]["fix"]

    def test_a_server_that_starts_and_ends_at_once(self, shell: Shell) -> None:
        """Its program is there: that it is broken is seen only when it is asked."""
        (shell.folder / ".go-ent" / "config.toml").write_text('[servers.dead]\ncommand = "false"\n')
        shell.text("trust", "--yes")
        assert checks(shell, "--no-servers")["servers"]["ok"]
        done = shell("doctor")
        assert done.returncode == 1
        assert "its process ended with exit code 1" in done.stdout.decode()
        assert done.stdout.decode().splitlines()[-1].startswith("next: run it by hand to see more: false")

    def test_servers_of_a_folder_that_is_not_trusted_are_not_started(self, shell: Shell) -> None:
        mark = shell.folder / "started"
        (shell.folder / ".go-ent" / "config.toml").write_text(f'[servers.mine]\ncommand = "touch"\nargs = ["{mark}"]\n')
        done = shell("doctor")
        assert done.returncode == 0
        assert done.stdout.decode().splitlines()[-1].startswith("next: go-ent trust")
        assert not mark.exists()


def test_each_problem_has_a_fix(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also an agent program that is not there, and one that does not answer."""
    (shell.folder / ".go-ent" / "config.toml").write_text('[runners.open-code]\ncommand = ["false"]\n')
    shell.text("trust", "--yes")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path / "cache"))
    found = checks(shell)
    assert [name for name, check in found.items() if not check["ok"] and not check["fix"]] == []
    assert found["claude-code"]["said"] == "there is no program claude"
    assert found["claude-code"]["fix"].startswith("install it (npm install -g @anthropic-ai/claude-code)")
    assert "[runners.open-code]" in found["open-code"]["fix"]


def test_a_fix_is_shown_under_its_problem(shell: Shell) -> None:
    (shell.folder / ".go-ent" / "config.toml").write_text("[engine\n")
    done = shell("doctor")
    assert done.returncode == 12
    lines = done.stdout.decode().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("NO  configuration"))
    assert lines[at + 1].strip().startswith("fix: ")
    assert done.stderr.decode() == "1 problem to mend: configuration\n"


async def test_a_program_may_ask_too(tmp_path: Path) -> None:
    async with Engine(tmp_path) as engine:
        result = await examine(engine)
    assert {"project", "budget", "cli"} <= {check.name for check in result}
