"""`go-ent ps`, `status`, `logs`, `approve`, `reject`, `checkpoint`, `resume`: executions at the command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.composer.project.files import user_data
from go_ent.engine.storage import file_storage
from tests.composer.conftest import tool
from tests.engine.executions.test_executions import fresh
from tests.support.executions import FileStore
from tests.support.forked import Forked
from tests.support.shell import Done, go_ent

TOOLS = {
    "put": 'def put(text: str) -> str:\n    """Put."""\n    return text.upper()\n',
    "drop": 'def drop(name: str) -> str:\n    """Drop."""\n    return f"dropped {name}"\n',
}
CODE = """
a = await tools.put(text="a")
checkpoint("half", {"a": a})
try:
    b = await tools.drop(name="b")
except ToolError as error:
    b = f"no: {error.message}"
[a, b]
"""


@pytest.fixture
def project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["drop"]\n')
    store = Store(project / ".go-ent" / "composed-tools", "project")
    for name, code in TOOLS.items():
        store.save(toolfile.read(tool(name, code)))
    monkeypatch.chdir(project)
    return project


def ids(*arguments: str) -> list[str]:
    return [row["id"] for row in json.loads(go_ent("ps", "--json", *arguments).stdout)]


def text(done: Done) -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_run_waits_for_approval_and_goes_on(project: Path) -> None:
    paused = go_ent("exec", "-c", CODE)
    assert paused.returncode == 10
    assert b"waits for approval: drop" in paused.stderr
    (execution,) = ids("--status", "paused", "--kind", "code")
    assert f"go-ent approve {execution[-8:]}".encode() in paused.stderr
    shown = text(go_ent("status", execution[:24]))
    for line in (
        "status    paused",
        "1 put: completed",
        'checkpoint half: {"a": "A"}',
        'waits     call run/3: drop with {"name": "b"}',
    ):
        assert line in shown
    whole = json.loads(text(go_ent("status", execution, "--json")))
    assert [(call["name"], call["status"]) for call in whole["tree"][0]["children"]] == [
        ("put", "completed"),
        ("drop", "waits for approval"),
    ]
    assert text(go_ent("approve", execution, "run/3")).splitlines() == [
        "approved: call run/3, drop",
        f"to resume: go-ent resume {execution[-8:]}",
    ]
    assert "needs approval" not in text(go_ent("status", execution))
    assert json.loads(text(go_ent("resume", execution))) == ["A", "dropped b"]
    for command in ("resume", "interrupt", "approve"):
        again = go_ent(command, execution)
        assert again.returncode == 12
        assert b"completed" in again.stderr
    logged = [json.loads(line) for line in text(go_ent("logs", execution, "--follow", "--json")).splitlines()]
    assert [record["kind"] for record in logged if record["kind"] in ("asked", "decided", "checkpoint")] == [
        "checkpoint",
        "asked",
        "decided",
    ]
    assert "drop" in text(go_ent("logs", execution))
    totals = json.loads(text(go_ent("executions", "totals", "--by", "tool", "--json")))
    assert totals["put"]["count"] == 1


def test_a_rejected_call_is_an_error_of_the_code(project: Path) -> None:
    go_ent("exec", "-c", CODE)
    (execution,) = ids()
    assert json.loads(text(go_ent("reject", execution, "--resume"))) == ["A", "no: the call was not approved"]


def test_a_mark_from_outside(project: Path) -> None:
    go_ent("exec", "-c", CODE)
    (execution,) = ids()
    assert "checkpoint by hand; 2 are kept" in text(go_ent("checkpoint", execution))
    assert go_ent("checkpoint", execution, "--value", "{").returncode == 2
    assert [
        one["label"]
        for one in json.loads(text(go_ent("checkpoint", execution, "--label", "two", "--value", "[1]", "--json")))
    ] == [
        "half",
        "by hand",
        "two",
    ]


def test_ctrl_c_tells_how_to_go_on(project: Path) -> None:
    code = "print('begun')\ncheckpoint('on')\nwhile not stop:\n    pass\n'never'"
    env = {**os.environ, "GO_ENT_DATA": str(user_data())}
    command = ("exec", "-c", code, "--input", '{"stop": []}')
    with Forked(*command, cwd=project, env=env, stdout=-1, stderr=-1) as running:
        while running.poll() is None and not any(
            b'"checkpoint"' in file.read_bytes() for file in project.rglob("journal.jsonl")
        ):
            time.sleep(0.01)
        marked = go_ent("checkpoint", ids()[0], "--label", "outside")
        running.send_signal(signal.SIGINT)
        said, problem = running.communicate(timeout=60)
    assert b"checkpoint outside" in marked.stdout  # the process that has it makes it
    assert (running.returncode, said) == (130, b"begun\n")
    (execution,) = ids("--status", "interrupted")
    assert f"to resume: go-ent resume {execution[-8:]}".encode() in problem
    state = json.loads(text(go_ent("status", execution, "--json")))
    assert state["results"]["run"]["output"] == "begun\n"
    assert [one["label"] for one in state["checkpoints"]] == ["on", "outside"]


class TestNames:
    """What can be typed instead of an id."""

    @pytest.fixture
    def runs(self, project: Path) -> list[str]:
        for code in ("1", "1/0", "[{'a': 1}]"):
            go_ent("exec", "-c", code)
        return ids()

    @pytest.mark.parametrize(
        ("typed", "at"), [("last", 0), ("last-1", 1), ("last-2", 2), ("last:failed", 1), ("last:completed-1", 2)]
    )
    def test_the_last_ones(self, runs: list[str], typed: str, at: int) -> None:
        assert json.loads(text(go_ent("status", typed, "--json")))["id"] == runs[at]

    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            ("last-3", "there is no last-3"),
            ("last:paused", "there is no last:paused"),
            ("last:faild", "did you mean failed?"),
            ("lastly", "use last, last-1, last:failed"),
        ],
    )
    def test_those_that_are_not_there(self, runs: list[str], typed: str, said: str) -> None:
        done = go_ent("status", typed)
        assert (done.returncode, said in done.stderr.decode()) == (2, True)

    def test_none_is_the_last_and_it_is_said(self, runs: list[str]) -> None:
        for command in ("status", "logs", "output"):
            done = go_ent(command)
            assert done.returncode == 0
            assert done.stderr.decode().startswith(f"the last execution: {runs[0][-8:]} (code: ")
        nothing = go_ent("interrupt")
        assert (nothing.returncode, b"no execution runs: the last" in nothing.stderr) == (2, True)

    def test_the_last_that_can_be_resumed(self, project: Path) -> None:
        go_ent("exec", "-c", CODE)
        waits = ids()[0]
        go_ent("exec", "-c", "1")
        done = go_ent("resume", "--yes")
        assert done.stderr.decode().startswith(f"the last execution that can be resumed: {waits[-8:]} (code: ")
        assert json.loads(done.stdout) == ["A", "dropped b"]

    def test_what_an_execution_has_begun_is_not_the_last(self, project: Path) -> None:
        store = FileStore(project)
        with store.create(fresh()) as above, store.create(fresh(parent=above.id)):
            assert json.loads(text(go_ent("status", "last", "--json")))["id"] == above.id


def test_output_is_that_of_the_whole_or_of_a_step(project: Path) -> None:
    (project / "p.toml").write_text(
        '[[task]]\nid = "a"\ncode = "[1, 2]"\n[[task]]\nid = "b"\ncode = "1/0"\ndepends_on = ["a"]\n'
        '[[task]]\nid = "c"\ncode = "3"\ndepends_on = ["b"]\n'
    )
    assert go_ent("run", "--plan", "p.toml").returncode == 13
    assert text(go_ent("output", "last", "a")) == "[1,2]\n"
    assert text(go_ent("output", "last", "a", "--output", "yaml")) == "- 1\n- 2\n"
    assert text(go_ent("output", "last", "a", "-o", "csv")) == "value\n1\n2\n"
    assert b"did not run" in go_ent("output", "last", "c").stderr
    assert b"there are: a, b, c" in go_ent("output", "last", "zzz").stderr
    shown = text(go_ent("status", "last"))
    assert "\n  a: completed on sandbox, " in shown
    assert "\n  c: skipped  not run: b failed" in shown
    assert shown.count("division by zero") == 1


def test_the_beginning_of_many_ids(project: Path) -> None:
    store = FileStore(project)
    for _ in range(6):
        store.create(fresh()).release()
    done = go_ent("status", ids()[0][:4])
    assert done.returncode != 0
    assert b"fits several executions" in done.stderr


def test_wrong_words_are_told(project: Path) -> None:
    assert go_ent("ps", "--limit", "0").returncode == 2
    assert go_ent("image", "info", "zzz").returncode == 2
    assert go_ent("ps", "--status", "sleeping").returncode == 2
    assert b"there is no execution" in go_ent("logs", "01a1e4e4").stderr
    assert b"no executions of that kind" in go_ent("ps", "--kind", "graph").stderr


class TestInterrupt:
    def test_of_one_that_finished_meanwhile_says_so(self, project: Path) -> None:
        store = FileStore(project)
        held = store.create(fresh())
        held.move("running")

        def finish() -> None:
            while not held.interrupt_requested():
                time.sleep(0.005)
            held.move("completed")
            held.release()

        other = threading.Thread(target=finish)
        other.start()
        done = go_ent("interrupt", held.id)
        other.join()
        store.index.close()
        assert (done.returncode, done.stdout) == (12, b"")
        assert done.stderr.decode() == f"{held.id[-8:]} could not be stopped any more: it is completed\n"

    def test_with_cancel_gives_it_up(self, project: Path) -> None:
        go_ent("exec", "-c", CODE)
        (execution,) = ids()
        assert text(go_ent("interrupt", execution, "--cancel")) == f"{execution[-8:]} is cancelled\n"
        (row,) = json.loads(text(go_ent("ps", "--json")))
        assert (row["status"], row["resumable"]) == ("cancelled", False)
        for command in ("resume", "approve", "interrupt"):
            again = go_ent(command, execution)
            assert again.returncode == 12
            assert b"cancelled" in again.stderr


class TestResume:
    def test_with_yes_leaves_nothing_that_waits(self, project: Path) -> None:
        go_ent("exec", "-c", CODE)
        (execution,) = ids()
        assert json.loads(text(go_ent("resume", execution, "--yes"))) == ["A", "dropped b"]
        shown = text(go_ent("status", execution))
        assert "waits" not in shown
        assert "3 drop: completed" in shown
        assert json.loads(text(go_ent("status", execution, "--json")))["requests"] == {}

    def test_with_more_time(self, project: Path) -> None:
        code = "import asyncio\nchecked = await tools.put(text='a')\nawait asyncio.sleep(0.4)\nchecked"
        late = go_ent("exec", "-c", code, "--timeout", "0.25")
        assert late.returncode == 4
        (execution,) = ids()
        assert f"to resume: go-ent resume {execution[-8:]}".encode() in late.stderr
        assert text(go_ent("resume", execution, "--timeout", "30")) == "A\n"
        calls = [
            line
            for line in text(go_ent("logs", execution, "--json")).splitlines()
            if json.loads(line)["kind"] == "call"
        ]
        assert len(calls) == 1

    def test_of_a_tool_that_itself_needs_approval(self, project: Path) -> None:
        waits = go_ent("tool", "run", "drop", "--input", '{"name": "x"}')
        (execution,) = ids()
        assert waits.returncode == 10
        assert f"go-ent approve {execution[-8:]}".encode() in waits.stderr
        assert 'waits     call run/0: drop with {"name": "x"}' in text(go_ent("status", execution))
        assert text(go_ent("approve", execution, "--resume")) == "dropped x\n"

    def test_of_a_tool_that_has_another_version_now(self, project: Path) -> None:
        source = tool(
            "both",
            'async def both() -> str:\n    """Both."""\n    return await tools.drop(name=await tools.put(text="a"))\n',
        )
        path = project / "both.py"
        for number in (1, 2):
            path.write_text(source.replace('"a"', f'"{number}"'))
            assert go_ent("tool", "add", str(path)).returncode == 0
            if number == 1:
                assert go_ent("tool", "run", "both").returncode == 10
        (execution,) = ids()
        done = go_ent("approve", execution, "--resume")
        assert b"both was version 1, and is version 2: it continues with version 1" in done.stderr
        assert text(done) == "dropped 1\n"


def test_what_waits_is_told_with_the_name_of_its_call(project: Path) -> None:
    run = json.loads(go_ent("exec", "-c", CODE, "--json").stdout)
    assert [(one["tool"], one["call"]) for one in run["pending"]] == [("drop", "run/3")]


def test_logs_are_whole_however_many_records_there_are(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_storage, "MOST_READ", 100)
    with FileStore(project).create(fresh()) as held:
        for number in range(350):
            held.append("progress", {"step": "a", "what": "text", "text": str(number)})
    for options in ((), ("--follow",)):
        logged = [json.loads(line) for line in text(go_ent("logs", held.id, "--json", *options)).splitlines()]
        assert [one["text"] for one in logged if one["kind"] == "progress"] == [str(number) for number in range(350)]


def test_an_index_that_was_not_told_how_one_ended_is_put_right(project: Path) -> None:
    """As when the process is killed between the journal and the index."""
    # With a checkpoint it has a journal of its own, however short it is.
    assert text(go_ent("exec", "-c", "checkpoint('here')\nawait tools.put(text='a')")) == "A\n"
    (execution,) = ids()
    with contextlib.closing(sqlite3.connect(project / ".go-ent" / "executions" / "index.db")) as database, database:
        database.execute("UPDATE executions SET status = 'running'")
    assert [row["status"] for row in json.loads(text(go_ent("ps", "--json")))] == ["completed"]
    assert ids("--status", "completed") == [execution]
    assert ids("--status", "running") == []
