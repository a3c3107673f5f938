"""One bad item is one bad item, in what the engine keeps: told by name, with why, where a person looks; the good
ones work.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fastmcp import Client

from go_ent.composer import Composer
from go_ent.engine.budget.ledger import LedgerCall, Wanted
from go_ent.engine.budget.sqlite_ledger import FileLedger
from go_ent.engine.core.ids import new_id
from go_ent.engine.engine import Engine
from go_ent.engine.server import make_server
from go_ent.engine.storage.index import Index
from tests.composer.conftest import DOUBLE, tool
from tests.engine.cli.test_run import Shell, shell
from tests.engine.executions.test_executions import fresh
from tests.engine.executions.test_index import made
from tests.support.executions import FileStore

__all__ = ["shell"]
BAD = tool("bad", f'def bad() -> int:\n    """{"x" * 20_001}"""\n    return 1\n')
WHY = "its docstring is 20001 characters long"


def state_of(shell: Shell, *path: str) -> Path:
    folder = shell.folder.joinpath(".go-ent", *path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def tools(shell: Shell) -> Shell:
    """A project with a good tool that has versions, a broken one, and a version that somebody planted."""
    folder = state_of(shell, "composed-tools")
    (folder / "double.py").write_text(DOUBLE)
    assert "double" in shell.text("tool", "list")  # which adopts it
    (folder / "bad.py").write_text(BAD)
    (folder / ".history" / "double" / "999999999-0123456789abcdef.py").write_text("x")
    return shell


class TestTools:
    def test_they_are_listed_run_and_tested(self, tools: Shell) -> None:
        done = tools("tool", "list")
        assert done.returncode == 0
        bad, double = done.stdout.decode().splitlines()
        assert bad.startswith("bad")
        assert WHY in bad
        assert double.startswith("double")
        assert (
            "999999999-0123456789abcdef.py: its number does not follow on version 1; it is ignored"
            in done.stderr.decode()
        )
        assert tools.text("tool", "run", "double", "--input", '{"n": 4}') == "8\n"
        done = tools("tool", "test")
        assert done.returncode == 1
        assert "ok     double example 1" in done.stdout.decode()
        assert "FAILED bad: " in done.stdout.decode()
        assert tools.text("tool", "history", "double").startswith("v1  ")
        assert len(json.loads(tools.text("tool", "export"))["tools"]) == 1

    def test_doctor_and_config_check_tell_of_the_bad_ones(self, tools: Shell) -> None:
        found = tools.json("doctor")
        said = {check["name"]: check["said"] for check in found}
        assert WHY in said["composed tool"]
        assert said["composed tool"].startswith("bad (project) is broken")
        assert "999999999-0123456789abcdef.py" in said["version"]
        assert said["composed tools"] == "1 can be called"
        done = tools("config", "check")
        assert WHY in (done.stdout + done.stderr).decode()
        assert "999999999-0123456789abcdef.py" in (done.stdout + done.stderr).decode()

    def test_a_store_that_can_not_be_looked_at(self, shell: Shell, tmp_path: Path) -> None:
        mine = tmp_path / "user" / "composed-tools"
        mine.mkdir(parents=True)
        (mine / "double.py").write_text(DOUBLE)
        (shell.folder / ".go-ent" / "composed-tools").symlink_to(tmp_path)
        done = shell("tool", "list")
        assert done.stdout.decode().startswith("double")
        assert "composed-tools is a link" in done.stderr.decode()
        assert shell.text("tool", "run", "double", "--input", '{"n": 4}') == "8\n"
        checked = shell("config", "check")
        assert "composed-tools is a link" in (checked.stdout + checked.stderr).decode()
        assert "composed-tools is a link" in json.dumps(shell.json("doctor"))

    def test_of_many_to_remove_or_to_import_the_good_ones_are(self, tools: Shell) -> None:
        (tools.folder / "t.py").write_text(DOUBLE.replace("double", "triple"))
        done = tools("tool", "import", "nowhere.json", "t.py")
        assert done.returncode == 1
        assert done.stdout.decode() == "triple: version 1 (project)\n"
        assert "nowhere.json: No such file" in done.stderr.decode()
        done = tools("tool", "rm", "nope", "triple", "neither")
        assert "triple: removed" in done.stdout.decode()
        assert "there is no composed tool nope" in done.stderr.decode()
        assert "there is no composed tool neither" in done.stderr.decode()
        assert done.returncode == 2

    async def test_the_server_lists_the_good_ones(self, tools: Shell) -> None:
        async with (
            Engine.open(tools.folder) as engine,
            Composer.open(tools.folder) as composer,
            Client(make_server(composer, engine)) as client,
        ):
            listed = {one.name for one in await client.list_tools()}
            assert (await client.call_tool("double", {"n": 3})).data == 6
            answer = await client.call_tool("bad", {}, raise_on_error=False)
            assert WHY in answer.content[0].text
        assert "double" in listed
        assert "bad" not in listed


def garbage(path: Path) -> None:
    for name in ("state.json", "journal.jsonl"):
        (path / name).write_bytes(b"\xff{")


def other_id(path: Path) -> None:
    (path / "state.json").write_text(json.dumps({"id": "x"}))


def folders(path: Path) -> None:
    for name in ("state.json", "journal.jsonl", "lock"):
        (path / name).mkdir()


def link(path: Path) -> None:
    path.rmdir()
    path.symlink_to("/")


class TestExecutions:
    @pytest.mark.parametrize("plant", [garbage, other_id, folders, link])
    def test_one_that_can_not_be_read(self, shell: Shell, plant: Callable[[Path], None]) -> None:
        store = FileStore(shell.folder)
        good = made(store)
        bad = new_id()
        (store.folder / bad).mkdir()
        plant(store.folder / bad)
        for command in (["executions", "reindex"], ["ps"]):
            done = shell(*command)
            assert done.returncode == 0
            assert f"{bad} can't be used: " in done.stderr.decode()
        assert [row["id"] for row in shell.json("ps")] == [good]
        assert shell.json("status", good)["status"] == "completed"
        told = {check["said"].partition(" ")[0] for check in shell.json("doctor") if check["name"] == "execution"}
        assert told == {bad}
        assert shell.json("executions", "totals") == {}
        assert shell.json("executions", "prune", "--keep", "0")["removed"] == [good]

    def test_one_with_figures_that_no_database_takes(self, shell: Shell) -> None:
        store = FileStore(shell.folder)
        good, bad = made(store), made(store, spent_tokens=1 << 70)
        assert store.index.rebuild() == 1
        assert [row.id for row in store.rows()] == [good]
        assert list(store.index.missing()) == [bad]
        (store.folder / "index.db").unlink()
        assert [row.id for row in Index(store.folder).rows()] == [good]

    def test_one_that_says_it_runs_and_can_not_be_read(self, shell: Shell) -> None:
        store = FileStore(shell.folder)
        good = made(store)
        with store.create(fresh()) as held:
            held.move("running")
            bad = held.id
        for name in ("state.json", "journal.jsonl"):
            (store.folder / bad / name).unlink()
            (store.folder / bad / name).mkdir()
        assert {row.id: row.status for row in store.rows()} == {good: "completed", bad: "interrupted"}


def test_workflows_and_loops(shell: Shell) -> None:
    for folder in (state_of(shell, "workflows"), state_of(shell, "loops")):
        (folder / "bad.json").write_text("{")
        (folder / "worse.json").mkdir()
        (folder / "deep.json").write_text("[" * 100_000)
    plan = 'name = "good"\n[[step]]\nid = "a"\ncommand = ["true"]\n'
    (shell.folder / "flow.toml").write_text(plan)
    assert shell("workflow", "start", "--plan", "flow.toml").returncode == 0
    done, loops = shell("workflow", "status"), shell("loop", "--list")
    assert "good" in done.stdout.decode()
    for name in ("bad.json", "worse.json", "deep.json"):
        assert name in done.stderr.decode()
        assert name in loops.stderr.decode()


def test_skills_and_templates(shell: Shell) -> None:
    skills = state_of(shell, "skills")
    for name, content in {
        "good": b"Be kind.",
        "bad": b"\xff",
        "deep": b"---\n" + b"[" * 5000 + b"\n---\nx",
        "empty": b"",
    }.items():
        (skills / name).mkdir()
        (skills / name / "SKILL.md").write_bytes(content)
    (skills / "dir" / "SKILL.md").mkdir(parents=True)
    templates = state_of(shell, "prompts")
    (templates / "task.j2").write_text("{% if %}")
    done = shell("config", "check")
    told = (done.stdout + done.stderr).decode()
    for name in ("bad", "deep", "empty", "dir"):
        assert f"the skill {name} can't be used" in told
    assert "the skill good" not in told
    assert {check["said"].partition(" ")[0] for check in shell.json("doctor") if check["name"] == "skill"} == {
        "bad",
        "deep",
        "empty",
        "dir",
    }


async def test_a_reservation_that_is_none(shell: Shell) -> None:
    async with Engine.open(shell.folder) as engine:
        ledger = FileLedger(shell.folder)
        ledger.reserve(LedgerCall("good", "e", "t"), Wanted(0.5, 10), (), unknown_usd=0.1, at=time.time())
        with contextlib.closing(sqlite3.connect(ledger.path)) as database, database:
            database.execute("INSERT INTO reservations VALUES ('bad', 'e', 't', 1.0, 1, 0, 'x', 1e300, '')")
        report = await engine.budget()
        assert [one.key for one in report.reservations] == ["good"]


def test_a_server_of_another_programs_file(shell: Shell) -> None:
    servers = {"good": {"command": sys.executable}, "old": {"type": "sse", "url": "http://x"}}
    (shell.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (shell.folder / ".go-ent" / "config.toml").write_text('mcp_json = ["mcp.json"]\n')
    assert shell("trust", "--yes").returncode == 0
    done = shell("config", "check")
    assert "mcpServers.old.type: 'sse' is not one that can be used" in (done.stdout + done.stderr).decode()
    doctor = shell("doctor", "--no-servers", "--json")
    assert doctor.returncode == 1
    checks = {check["name"]: check for check in json.loads(doctor.stdout)}
    assert "'sse' is not one that can be used" in checks["server old"]["said"]
    assert shell.text("exec", "-c", "1 + 1") == "2\n"
