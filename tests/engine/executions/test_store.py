"""The store of executions: what is acknowledged stays, whatever kills the process; what is older, damaged or missing
is made up for.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.core import crash_points
from go_ent.engine.core.errors import BadState, ExecutionConflict, ExecutionNotFound, TooNew
from go_ent.engine.core.ids import new_id
from go_ent.engine.executions.approvals import arguments_digest
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import (
    MAX_CHECKPOINTS,
    MAX_VALUE,
    MIGRATIONS,
    SCHEMA_VERSION,
    AgentSession,
    ExecutionState,
)
from go_ent.engine.storage.records import read_records
from go_ent.engine.storage.slot import JOURNAL_FILE, STATE_FILE
from tests.engine.executions.test_executions import fresh, result
from tests.support.executions import FileStore, folder_of
from tests.support.forked import run_python


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


# -- killed at any point

STEPS = ("created", "running", "begun", "tried", "finished", "marked", "paused", "decided", "again", "completed")


def live(store: FileStore, execution_id: str, done: Callable[[str], None]) -> None:
    """The life of an execution, from wherever it stands; *done* is told of each thing that was acknowledged."""
    folder = store.folder / execution_id
    if not (folder / JOURNAL_FILE).exists() or not read_records(folder / JOURNAL_FILE).size:
        shutil.rmtree(folder, ignore_errors=True)  # what is left of one that was killed before it was acknowledged
        store.create(fresh(id=execution_id)).release()
    done("created")
    with store.hold(execution_id) as held:
        if held.state.status == "pending":
            held.move("running")
        done("running")
        if not held.state.calls:
            held.append("call", {"path": "a/1", "tool": "t", "digest": "d", "arguments": None, "heard": ""})
        if "begun" not in [record["kind"] for record in held.records()]:
            held.append("begun", {"path": "a/1", "retry": False})
        held.commit()
        done("begun")
        if "a" not in held.state.tries:
            held.start_try("a", "cli", "1.0")
        done("tried")
        if "a" not in held.state.results:
            held.finish_step("a", result("a"))
        done("finished")
        if not held.state.checkpoints:
            held.checkpoint("here", {"n": 1})
        done("marked")
        if not held.state.requests and not held.state.decisions:
            held.append(
                "asked",
                {"path": "a/2", "tool": "t", "digest": arguments_digest({"x": 1}), "reason": "why"},
                raw={"arguments": b'{"x":1}'},
            )
        if not held.state.decisions and held.state.status == "running":
            held.move("paused")
        done("paused")
    if store.load(execution_id).requests:
        store.decide(execution_id, None, True)
    done("decided")
    with store.hold(execution_id) as held:
        if held.state.status == "paused":
            held.move("running")
        done("again")

        def end() -> None:
            if "b" not in held.state.results:
                held.finish_step("b", result("b"))
            if held.state.status != "completed":
                held.move("completed")

        for outcome in held.together([end]):
            if outcome is not None:
                raise outcome
        done("completed")


def check(store: FileStore, execution_id: str, acknowledged: Sequence[str]) -> None:
    """What was acknowledged is there, for one who looks."""
    if "created" not in acknowledged:
        return
    state, records = store.load(execution_id), list(store.records(execution_id))
    facts = {
        "created": state.id == execution_id,
        "running": state.status != "pending",
        "begun": "begun" in [record["kind"] for record in records] and state.calls == 1,
        "tried": state.tries == {"a": 1} and state.environment.runners == {"cli": "1.0"},
        "finished": state.results.get("a") == result("a"),
        "marked": [(one.label, one.value) for one in state.checkpoints] == [("here", {"n": 1})],
        "paused": {*state.requests, *state.decisions} == {"a/2"},
        "decided": not state.requests and [one.approved for one in state.decisions.values()] == [True],
        "again": state.status in ("interrupted", "completed"),
        "completed": state.status == "completed" and set(state.results) == {"a", "b"},
    }
    assert [one for one in acknowledged if not facts[one]] == []
    assert state.damage == ()


def crash_everywhere(project: Path) -> None:
    """Live that life in a child of its own for each time that it comes to a point, or each third, and print how each
    ended.
    """
    for name in crash_points.NAMES:
        for time in range(1, 100, 1 if name in ("journal-mid-line", "state-before-rename") else 3):
            execution_id = new_id()
            child = os.fork()
            if not child:
                with open(project / execution_id, "a", buffering=1) as said:
                    crash_points.arm(f"{name}:{time}")
                    live(FileStore(project), execution_id, lambda step: print(step, file=said))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            print(name, execution_id, os.waitstatus_to_exitcode(status), flush=True)
            if status == 0:
                break


class TestKilledAtAnyPoint:
    @pytest.mark.more
    def test_what_was_acknowledged_is_there_and_the_rest_can_be_done(self, store: FileStore, tmp_path: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from tests.engine.executions.test_store import *; "
            "crash_everywhere(Path(sys.argv[1]))"
        )
        # Not forked from the one that has everything imported: it forks a hundred times itself.
        child = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
        assert child.returncode == 0, child.stderr
        killed = Counter[str]()
        for name, execution_id, ended in (line.split() for line in child.stdout.splitlines()):
            said = (tmp_path / execution_id).read_text().split()
            if int(ended) == 0:
                assert said == list(STEPS)
                continue
            assert int(ended) == -signal.SIGKILL
            killed[name] += 1
            check(store, execution_id, said)
            live(store, execution_id, lambda _: None)
            check(store, execution_id, STEPS)
            assert not read_records(store.folder / execution_id / JOURNAL_FILE).gaps
        elsewhere = {
            "call-before-dispatch",
            "call-after-dispatch",
            "step-before-start",
            "step-after-end",
            "repair-before-swap",
            *(name for name in crash_points.NAMES if name.startswith("pack-")),
        }
        assert set(killed) == set(crash_points.NAMES) - elsewhere
        assert killed["journal-mid-line"] >= 10

    def test_the_environment_names_the_point(self, tmp_path: Path) -> None:
        code = (
            "import sys; from tests.engine.executions.test_store import *; live(FileStore(Path(sys.argv[1])), "
            "new_id(), lambda step: print(step, flush=True))"
        )
        environment = {**os.environ, "GO_ENT_CRASH": "journal-before-append:2"}
        child = run_python(code, str(tmp_path), stdout=subprocess.PIPE, text=True, env=environment)
        assert (child.returncode, child.stdout) == (-signal.SIGKILL, "created\n")

    @pytest.mark.parametrize("said", ["nowhere", "journal-mid-line:x", "full:-1"])
    def test_a_point_that_there_is_not_is_said(self, said: str) -> None:
        with pytest.raises(SystemExit, match="names no crash point: there are create-before-folder"):
            crash_points.arm(said)

    def test_a_crash_while_damage_is_mended_leaves_it_to_the_next(self, store: FileStore) -> None:
        damaged = damage(store, 2)
        project = str(store.folder.parent.parent)
        code = (
            "import sys, tests.engine.executions.test_store as own; "
            "own.FileStore(own.Path(sys.argv[1])).hold(sys.argv[2])"
        )
        environment = {**os.environ, "GO_ENT_CRASH": "repair-before-swap"}
        child = run_python(code, project, damaged, env=environment)
        assert child.returncode == -signal.SIGKILL
        with store.hold(damaged) as held:
            assert held.state.damage == ("record 2 is lost: the journal was damaged",)
        kept = [name for name in os.listdir(store.folder / damaged) if "damaged" in name]
        assert kept == ["journal.damaged-1.jsonl"]


class TestFullDisk:
    def test_what_was_acknowledged_is_there_and_what_failed_can_be_done_later(self, store: FileStore) -> None:
        for number in range(1, 100):
            execution_id, said = new_id(), list[str]()
            crash_points.arm(f"full:{number}")
            try:
                live(store, execution_id, said.append)
                break
            except OSError as error:
                failed = error
            finally:
                crash_points.arm(None)
            assert failed.errno == errno.ENOSPC
            check(store, execution_id, said)
            assert not read_records(store.folder / execution_id / JOURNAL_FILE).torn
            live(store, execution_id, said.append)
            check(store, execution_id, STEPS)
        assert number > 10

    def test_a_state_that_can_not_be_written_fails_nothing(
        self, store: FileStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        with store.create(fresh()) as held:
            (folder_of(held) / STATE_FILE).unlink()
            (folder_of(held) / STATE_FILE).mkdir()
            with caplog.at_level(logging.WARNING):
                held.move("running")
            assert "its journal has it all" in caplog.text
            assert store.load(held.id).status == "running"

    def test_an_execution_that_could_not_be_begun_leaves_nothing(self, store: FileStore) -> None:
        crash_points.arm("full:1")
        try:
            with pytest.raises(OSError, match="No space left"):
                store.create(fresh())
        finally:
            crash_points.arm(None)
        assert [path for path in store.folder.iterdir() if path.is_dir()] == []
        assert store.rows() == []


# -- states


def older(state: ExecutionState, **changes: Any) -> dict[str, Any]:
    """A state as version 1 had it."""
    new = {
        "source",
        "calls",
        "requests",
        "decisions",
        "checkpoints",
        "lines",
        "final",
        "unresumable",
        "damage",
        "offset",
    }
    found = state.model_dump(mode="json", exclude=new) | {"version": 1} | changes
    del found["environment"]["image"]
    return found


def packed(found: dict[str, Any]) -> bytes:
    text = json.dumps(found)
    return f'{{"checksum":"{hashlib.sha256(text.encode()).hexdigest()}","state":{text}}}\n'.encode()


def put(store: FileStore, execution_id: str, state: bytes | None, *records: dict[str, Any]) -> str:
    folder = store.folder / execution_id
    folder.mkdir(parents=True)
    if state is not None:
        (folder / STATE_FILE).write_bytes(state)
    lines = [
        json.dumps({"seq": number, "at": 1.5, **record}, separators=(",", ":")) + "\n"
        for number, record in enumerate(records, 1)
    ]
    (folder / JOURNAL_FILE).write_text("".join(lines))
    return execution_id


class TestVersions:
    def records(self, state: ExecutionState) -> list[dict[str, Any]]:
        return [
            {"kind": "created", "state": older(state)},
            {"kind": "status", "changes": {"status": "running", "finished": None}},
            {"kind": "try", "step": "a", "runtime": "cli", "try": 1},
            {"kind": "step_finished", "step": "a", "result": result("a").model_dump(mode="json")},
        ]

    @pytest.mark.parametrize("kept", ["both", "journal", "ahead"])
    def test_the_first_version_is_read_and_goes_on(self, store: FileStore, kept: str) -> None:
        state = fresh()
        then = older(state, status="running", seq=2)
        if kept == "ahead":
            then |= {"seq": 4, "tries": {"a": 1}, "results": {"a": result("a").model_dump(mode="json")}}
        records = self.records(state)
        put(store, state.id, None if kept == "journal" else packed(then), *records)
        found = store.load(state.id)
        assert (found.version, found.status, found.tries, found.results) == (
            SCHEMA_VERSION,
            "interrupted",
            {"a": 1},
            {"a": result("a")},
        )
        with store.hold(state.id) as held:
            held.move("completed")
        found = store.load(state.id)
        assert (found.status, found.damage, found.seq) == ("completed", (), 5)
        assert [record["kind"] for record in store.records(state.id)][-2:] == ["step_finished", "status"]

    @pytest.mark.parametrize("kept", ["both", "journal"])
    def test_a_try_of_the_second_version_without_an_end_is_one_that_was_begun(
        self, store: FileStore, kept: str
    ) -> None:
        state = fresh()
        then = older(
            state,
            version=2,
            status="running",
            tries={"a": 1, "b": 1},
            results={"a": result("a").model_dump(mode="json")},
            seq=5,
        )
        records = [*self.records(state), {"kind": "try", "step": "b", "runtime": "cli", "try": 1}]
        put(store, state.id, None if kept == "journal" else packed(then), *records)
        assert store.load(state.id).begun == {"b": "" if kept == "both" else "cli"}

    def test_there_is_a_way_from_every_version(self) -> None:
        assert set(MIGRATIONS) == set(range(1, SCHEMA_VERSION))

    @pytest.mark.parametrize("place", ["state", "journal"])
    def test_a_newer_version_is_refused(self, store: FileStore, place: str) -> None:
        state = fresh()
        newer = state.model_dump(mode="json") | {"version": SCHEMA_VERSION + 1}
        in_state = place == "state"
        put(
            store,
            state.id,
            packed(newer) if in_state else None,
            {"kind": "created", "state": older(state) if in_state else newer},
        )
        said = f"has version {SCHEMA_VERSION + 1}, and this go-ent reads versions up to {SCHEMA_VERSION}: update go-ent"
        with pytest.raises(TooNew, match=said):
            store.load(state.id)
        with pytest.raises(TooNew):
            store.hold(state.id)

    @pytest.mark.parametrize("version", [0, -1, None, True, "2", 1.5])
    def test_a_version_that_never_was_is_no_state(self, store: FileStore, version: object) -> None:
        state = fresh()
        put(store, state.id, packed(older(state, version=version)))
        with pytest.raises(BadState, match="its journal does not tell how it began"):
            store.load(state.id)


class TestStatesFile:
    def test_comes_with_the_first_sync(self, store: FileStore) -> None:
        with store.create(fresh(), sync=False) as held:
            assert not (folder_of(held) / STATE_FILE).exists()
            assert store.load(held.id).title == held.state.title
            held.append("begun", {"path": "run/1", "retry": False}, sync=True)
            assert (folder_of(held) / STATE_FILE).exists()

    @pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"{}", b'{"checksum":"', None])
    def test_one_that_did_not_reach_the_disk_is_made_anew(self, store: FileStore, content: bytes | None) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.finish_step("a", result("a"))
            if content is None:
                (folder_of(held) / STATE_FILE).unlink()
            else:
                (folder_of(held) / STATE_FILE).write_bytes(content)
            assert store.load(held.id).results == {"a": result("a")}

    def test_the_journal_is_read_from_where_the_state_ends(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            size = (folder_of(held) / JOURNAL_FILE).stat().st_size
            assert (held.state.offset, held.state.seq) == (size, 2)
            held.append("call", {"path": "a/1"})
            data = bytearray((folder_of(held) / JOURNAL_FILE).read_bytes())
            data[10] ^= 1  # before that place: nobody looks there
            (folder_of(held) / JOURNAL_FILE).write_bytes(data)
            found = store.load(held.id)
            assert (found.calls, found.damage) == (1, ())

    def test_or_from_the_beginning_if_that_does_not_fit(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.append("call", {"path": "a/1"})
            path = folder_of(held) / STATE_FILE
        for offset in (0, 3, held.state.offset - 1, held.state.offset + 1, 1 << 40):
            path.write_bytes(packed(held.state.model_dump(mode="json") | {"calls": 0, "seq": 2, "offset": offset}))
            assert store.load(held.id).calls == 1

    def test_a_state_that_knows_more_than_its_journal_is_believed_and_said(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.checkpoint("x")
            held.move("paused")
            path = folder_of(held) / JOURNAL_FILE
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:2]))
        said = ("records 3 to 4 are lost: the journal was damaged",)
        looked = store.load(held.id)
        assert (looked.status, looked.damage) == ("paused", said)
        with store.hold(held.id) as again:
            assert (again.state.status, again.state.damage) == ("paused", said)
            again.move("running")
        found = read_records(path)
        assert [record["seq"] for record in found.records] == [1, 2, 5, 6]
        assert (found.gaps, store.load(held.id).damage) == ((), said)


def damage(store: FileStore, *lost: int) -> str:
    """An execution that came to its end, with these lines of its journal unreadable and no state beside it."""
    with store.create(fresh()) as held:
        held.append("call", {"path": "a/1"})
        held.move("running")
        held.append("asked", {"path": "a/1", "tool": "t", "reason": "r"})
        held.finish_step("a", result("a"))
        held.append("decided", {"path": "a/1", "approved": True})
        held.move("completed", error="said")
    path = folder_of(held) / JOURNAL_FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(b"?" * 20 + b"\n" if number in lost else line for number, line in enumerate(lines, 1)))
    (folder_of(held) / STATE_FILE).unlink()
    return held.id


class TestADamagedJournal:
    def test_what_follows_the_damage_is_in_the_state_and_what_is_lost_is_said(self, store: FileStore) -> None:
        execution_id = damage(store, 2, 3, 4)
        looked = store.load(execution_id)
        with store.hold(execution_id) as held:
            for state in (looked, held.state):
                assert state.damage == ("records 2 to 4 are lost: the journal was damaged",)
                assert (state.status, state.error, set(state.results)) == ("completed", "said", {"a"})
                assert (state.calls, state.decisions["a/1"].approved) == (0, True)
            assert [record["lost"] for record in held.records() if "lost" in record] == [[2, 4]]
        assert store.load(execution_id).damage == looked.damage

    def test_looking_mends_nothing(self, store: FileStore) -> None:
        execution_id = damage(store, 2)
        path = store.folder / execution_id / JOURNAL_FILE
        before = path.read_bytes()
        store.load(execution_id)
        assert len(list(store.records(execution_id))) == 7
        assert path.read_bytes() == before
        assert sorted(os.listdir(path.parent)) == [JOURNAL_FILE, "lock"]

    def test_a_state_from_before_it_was_mended_learns_of_it(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.checkpoint("x")
            held.move("paused")
            before = (folder_of(held) / STATE_FILE).read_bytes()
        path = folder_of(held) / JOURNAL_FILE
        path.write_bytes(path.read_bytes().replace(b'"label":"x"', b'"label":"y"'))
        store.hold(held.id).release()
        (folder_of(held) / STATE_FILE).write_bytes(before)
        assert store.load(held.id).damage == ("record 3 is lost: the journal was damaged",)
        assert store.load(held.id).checkpoints[0].label == "x"

    def test_a_beginning_that_is_lost_is_made_up_for_by_the_state(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
        path = folder_of(held) / JOURNAL_FILE
        path.write_bytes(b"?" + path.read_bytes())
        with store.hold(held.id) as again:
            assert again.state.damage == ("record 1 is lost: the journal was damaged",)
            again.move("completed")
        assert store.load(held.id).status == "completed"

    @pytest.mark.parametrize(
        "record",
        [
            {"kind": "status", "changes": {"id": "x"}},
            {"kind": "status", "changes": {"status": "running", "spent_usd": "much"}},
            {"kind": "status", "changes": {"nothing": 1}},
            {"kind": "status"},
            {"kind": "try", "step": "a", "runtime": "x", "try": "1"},
            {"kind": "step_finished", "step": ["a"], "result": {}},
            {"kind": "decided", "path": "a/1", "approved": "yes"},
            {"kind": "asked", "path": 5},
            {"kind": "checkpoint", "label": {}},
            {"kind": "line"},
        ],
    )
    def test_a_record_that_can_not_be_used_is_said_and_hides_no_other(
        self, store: FileStore, record: dict[str, Any]
    ) -> None:
        state = fresh()
        done = {"kind": "status", "changes": {"status": "completed"}}
        put(store, state.id, None, {"kind": "created", "state": older(state)}, record, done)
        found = store.load(state.id)
        assert found.status == "completed"
        assert found.damage[0].startswith(f"record 2 of execution {state.id} can't be used: ")


class TestAppending:
    def test_all_kinds_are_in_the_state(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            for number in range(3):
                held.append("call", {"path": f"a/{number}"})
            held.append(
                "asked", {"path": "a/1", "tool": "t", "reason": "why", "digest": "d"}, raw={"arguments": b'{"x":[1]}'}
            )
            held.append(
                "asked", {"path": "a/2", "tool": "t", "reason": "why", "digest": "d"}, raw={"arguments": b"null"}
            )
            held.append("decided", {"path": "a/2", "approved": False, "seal": "s"})
            held.append("line", {"n": 1, "digest": "d", "status": "completed"})
            held.append("line", {"n": 2, "digest": "d", "status": "error"})
            for kind in ("guest", "cancel", "begun", "answer", "progress", "note", "whatever"):
                held.append(kind, {"path": "a/1", "text": "x"})
            state = held.state
        assert state.calls == 3
        assert {path: (one.tool, one.arguments, one.reason) for path, one in state.requests.items()} == {
            "a/1": ("t", {"x": [1]}, "why")
        }
        assert {path: (one.approved, one.seal) for path, one in state.decisions.items()} == {"a/2": (False, "s")}
        assert state.lines is not None
        assert (state.lines.done, state.lines.failed) == (1, 1)
        found = store.load(held.id)
        same = {"calls", "decisions", "lines", "damage"}
        assert found.model_dump(include=same) == state.model_dump(include=same)
        assert list(found.requests) == ["a/1"]

    def test_the_last_checkpoints_are_kept_and_large_values_are_in_the_journal(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            for number in range(MAX_CHECKPOINTS + 5):
                held.append("checkpoint", {"path": "a", "label": f"n{number}"}, raw={"value": b"%d" % number})
            held.append("checkpoint", {"path": "a", "label": "large"}, raw={"value": b'"%s"' % (b"x" * MAX_VALUE)})
            assert len(held.state.checkpoints) == MAX_CHECKPOINTS
            assert [(one.label, one.value, one.kept) for one in held.state.checkpoints[-2:]] == [
                (f"n{MAX_CHECKPOINTS + 4}", MAX_CHECKPOINTS + 4, True),
                ("large", None, False),
            ]
            held.write()
            assert store.load(held.id).checkpoints == held.state.checkpoints
            assert len(list(held.records())[-1]["value"]) == MAX_VALUE

    def test_from_many_threads_all_are_there_in_order(self, store: FileStore) -> None:
        with store.create(fresh()) as held:

            def work(name: str) -> None:
                for number in range(400):
                    held.append("call", {"path": f"{name}/{number}"}, sync=number % 100 == 0)
                    if number % 200 == 0:
                        held.write()

            threads = [threading.Thread(target=work, args=(str(one),)) for one in range(4)]
            often = sys.getswitchinterval()
            sys.setswitchinterval(1e-6)
            try:
                for thread in threads:
                    thread.start()
                held.together([lambda: held.finish_step("a", result("a")), lambda: held.move("running")])
                for thread in threads:
                    thread.join()
            finally:
                sys.setswitchinterval(often)
            assert held.state.calls == 1600
            records = list(held.records())
        assert [record["seq"] for record in records] == list(range(1, 1604))
        for name in range(4):
            mine = [record["path"] for record in records if record.get("path", "").startswith(f"{name}/")]
            assert mine == [f"{name}/{number}" for number in range(400)]
        assert store.load(held.id).calls == 1600

    def test_one_who_follows_is_given_what_is_new(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            first, offset = store.read_from(held.id, 0)
            assert [record["kind"] for record in first] == ["created"]
            assert store.read_from(held.id, offset) == ([], offset)
            held.append("progress", {"step": "a", "what": "text", "text": "hello"})
            with open(folder_of(held) / JOURNAL_FILE, "ab") as file:
                file.write(b'{"at":1')
            second, after = store.read_from(held.id, offset)
            assert [record["text"] for record in second] == ["hello"]
            assert store.read_from(held.id, after) == ([], after)
            assert [record["seq"] for record in store.read_from(held.id, 1 << 40)[0]] == [1, 2]


class TestOnDisk:
    @pytest.fixture
    def synced(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The names of what was synced, as it is."""
        names: list[str] = []

        def noting(real: Callable[[int], None]) -> Callable[[int], None]:
            def sync(handle: int) -> None:
                names.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
                real(handle)

            return sync

        monkeypatch.setattr(os, "fsync", noting(os.fsync))
        monkeypatch.setattr(os, "fdatasync", noting(os.fdatasync))
        return names

    def test_what_is_begun_is_there_with_its_folder(self, store: FileStore, synced: list[str]) -> None:
        with store.create(fresh()) as held:
            assert synced == [JOURNAL_FILE, held.id, "executions"]

    def test_or_as_soon_as_something_is_to_be(self, store: FileStore, synced: list[str]) -> None:
        with store.create(fresh(), sync=False) as held:
            held.append("call", {"path": "a/1"})
            held.session("a", AgentSession(runtime="cli", id="s"))
            assert synced == []
            held.commit()
            assert synced == [JOURNAL_FILE, held.id, "executions"]
            held.commit()
            assert len(synced) == 3

    @pytest.mark.parametrize(
        "work",
        [
            lambda held: held.move("running"),
            lambda held: held.start_try("a", "cli"),
            lambda held: held.finish_step("a", result("a")),
            lambda held: held.checkpoint("x"),
            lambda held: held.append("begun", {"path": "a/1", "retry": False}, sync=True),
            lambda held: held.together([lambda: held.finish_step("a", result("a")), lambda: held.move("running")]),
        ],
    )
    def test_each_thing_costs_one_sync_and_so_do_several_together(
        self, store: FileStore, synced: list[str], work: Callable[[OwnedExecution], object]
    ) -> None:
        with store.create(fresh()) as held:
            synced.clear()
            work(held)
            assert synced == [JOURNAL_FILE]

    def test_what_could_not_be_brought_there_has_failed(
        self, store: FileStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with store.create(fresh()) as held:
            monkeypatch.setattr(os, "fdatasync", broken)
            outcomes = held.together([lambda: held.move("running"), lambda: held.move("pending")])
        assert [type(outcome) for outcome in outcomes] == [OSError, ExecutionConflict]


class TestDeciding:
    def paused(self, store: FileStore) -> str:
        with store.create(fresh()) as held:
            held.move("running")
            for path in ("a/1", "a/2"):
                held.append(
                    "asked", {"path": path, "tool": "t", "arguments": {}, "digest": arguments_digest({}), "reason": "r"}
                )
            held.move("paused")
        return held.id

    def test_one_call_or_all(self, store: FileStore) -> None:
        execution_id = self.paused(store)
        assert list(store.decide(execution_id, "a/2", False).requests) == ["a/1"]
        state = store.decide(execution_id, None, True)
        assert (state.requests, {path: one.approved for path, one in state.decisions.items()}) == (
            {},
            {"a/1": True, "a/2": False},
        )
        assert store.load(execution_id).decisions == state.decisions
        assert state.status == "paused"

    def test_what_does_not_wait_is_said_not_to(self, store: FileStore) -> None:
        execution_id = self.paused(store)
        with pytest.raises(ExecutionConflict, match="has no call 'a/3' that waits for a decision; there are: a/1, a/2"):
            store.decide(execution_id, "a/3", True)
        store.decide(execution_id, None, True)
        with pytest.raises(ExecutionConflict, match="all its calls have one"):
            store.decide(execution_id, None, True)
        with store.hold(execution_id) as held:
            with pytest.raises(ExecutionConflict, match=f"is being run by process {os.getpid()}"):
                store.decide(execution_id, None, True)
            held.move("running")
        with pytest.raises(ExecutionConflict, match="all its calls have one"):
            store.decide(execution_id, None, True)

    def test_a_mark_by_a_person(self, store: FileStore) -> None:
        execution_id = self.paused(store)
        assert store.checkpoint(execution_id, "before lunch", 5).checkpoints[0].path is None
        assert store.load(execution_id).checkpoints[0].value == 5
        with store.hold(execution_id) as held:
            held.move("cancelled")
        with pytest.raises(ExecutionConflict, match="has finished: it is cancelled"):
            store.checkpoint(execution_id, "x")


class TestResumable:
    @pytest.mark.parametrize("status", ["pending", "running", "paused", "interrupted", "failed"])
    def test_what_has_not_come_to_its_end_is(self, status: str) -> None:
        assert fresh(status=status).resumable
        assert not fresh(status=status, unresumable="it ran in a session").resumable

    def test_what_has_is_not(self) -> None:
        assert [fresh(status=status).resumable for status in ("completed", "cancelled")] == [False, False]
        assert not fresh(status="failed", final=True).resumable


class TestRows:
    def test_what_runs_without_an_owner_is_interrupted(self, store: FileStore) -> None:
        held = store.create(fresh())
        held.move("running")
        with store.create(fresh()) as other:
            other.move("running")
            assert [row.status for row in store.rows()] == ["running", "running"]
            held.release()
            assert [(row.id, row.status) for row in store.rows()] == [(other.id, "running"), (held.id, "interrupted")]
            assert [row.id for row in store.rows(status="interrupted")] == [held.id]
            assert [row.id for row in store.rows(status="running")] == [other.id]
            assert [row.id for row in store.rows(1)] == [other.id]

    def test_one_whose_folder_is_gone_is_forgotten(self, store: FileStore) -> None:
        store.create(fresh()).release()
        store.index.put(fresh(created=1.0))
        assert len(store.index.rows()) == 2
        assert len(store.rows()) == 1
        assert len(store.index.rows()) == 1

    def test_an_id_that_the_index_does_not_know_is_found(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            store.index.remove(held.id)
            assert store.find(held.id[:13]) == held.id


class TestIds:
    @pytest.mark.parametrize("text", ["..", "../x", "", "/etc", "a\0b", "x" * 300])
    def test_what_is_no_id_is_nowhere(self, store: FileStore, text: str) -> None:
        for look in (
            store.load,
            store.hold,
            store.records,
            lambda one: store.read_from(one, 0),
            lambda one: store.decide(one, None, True),
        ):
            with pytest.raises(ExecutionNotFound):
                look(text)
