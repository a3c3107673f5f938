"""The index of executions: a cache that is never wrong for long, and the totals in it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.ids import ID, new_id
from go_ent.engine.core.models import Attempt, RunResult, TaskResult, Tokens
from go_ent.engine.executions.history import CallTotals, ExecutionHistory, Grouping
from go_ent.engine.executions.state import Environment, ExecutionState
from go_ent.engine.executions.totals import calls_from, records_from
from go_ent.engine.storage.index import FILE, STALE, Index
from go_ent.engine.storage.index_database import create
from go_ent.engine.storage.index_schema import SCHEMA, VERSION, find_query, rows_query
from go_ent.engine.storage.marks import Mark
from tests.engine.executions.test_executions import fresh
from tests.support import ROOT
from tests.support.executions import FileStore
from tests.support.forked import Forked
from tests.support.rows import each


def made(store: FileStore, **changes: Any) -> str:
    """An execution that has completed."""
    with store.create(fresh(**changes), sync=False) as held:
        held.move("running")
        held.move("completed")
        return held.id


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


@pytest.fixture
def index(store: FileStore) -> Index:
    return store.index


class TestLooking:
    def test_nothing_is_made_by_looking(self, store: FileStore) -> None:
        assert store.index.rows() == []
        assert store.index.find("0123") == []
        assert store.index.needs_image() == set()
        assert store.index.rebuild() == 0
        assert not store.folder.exists()

    def test_the_newest_come_first(self, index: Index) -> None:
        states = [fresh(title=str(number)) for number in range(5)]
        for state in states:
            index.put(state)
        assert [row.title for row in index.rows(3)] == ["4", "3", "2"]

    def test_by_prefix(self, index: Index) -> None:
        states = [fresh(id=f"0199aaaa-bbbb-7ccc-8ddd-00000000000{number}") for number in range(6)] + [fresh()]
        for state in states:
            index.put(state)
        assert index.find(states[0].id) == [states[0].id]
        assert index.find("0199aaaa-bb") == [state.id for state in states[:4]]
        assert index.find(states[6].id[:30]) == [states[6].id]
        assert index.find("ffff") == []

    @pytest.mark.parametrize("text", ["%", "", "../..", "0199%", "g" * 8, "0" * 37])
    def test_what_begins_no_id_is_not_looked_for(self, index: Index, text: str) -> None:
        index.put(fresh())
        assert index.find(text) == []

    def test_by_status_kind_parent_and_time(self, index: Index) -> None:
        parent = fresh(kind="graph", status="running")
        child = fresh(kind="code", status="paused", parent=parent.id)
        old = fresh(id="0190aaaa-bbbb-7ccc-8ddd-000000000000", status="failed")
        for state in (parent, child, old):
            index.put(state)
        assert [row.id for row in index.rows(status="paused")] == [child.id]
        assert [row.id for row in index.rows(kind="graph")] == [parent.id]
        assert [row.id for row in index.rows(kind="graph", status="paused")] == []
        assert [row.id for row in index.rows(parent=parent.id)] == [child.id]
        assert [row.id for row in index.rows(since=time.time() - 60)] == [child.id, parent.id]
        assert [row.id for row in index.rows(before=time.time() - 60)] == [old.id]
        assert index.rows(since=float("inf")) == []

    def test_which_images_are_needed(self, index: Index) -> None:
        def ran_by(image: str, **changes: Any) -> ExecutionState:
            return fresh(environment=Environment(go_ent="0", python="3", image=image), **changes)

        index.put(ran_by("a" * 64, status="paused"))
        index.put(ran_by("b" * 64, status="completed"))
        index.put(ran_by("c" * 64, status="failed", final=True))
        index.put(ran_by("d" * 64, status="failed"))
        index.put(ran_by("e" * 64, status="interrupted", unresumable="its session is gone"))
        assert index.needs_image() == {"a" * 64, "d" * 64}

    @each(
        ("filters", "how"),
        [
            ({}, "SCAN executions"),  # from its end, and no further than fifty rows
            ({"status": "failed"}, "SEARCH executions USING INDEX by_status (status=?)"),
            ({"status": "failed", "since": 1.0}, "SEARCH executions USING INDEX by_status (status=? AND id>?)"),
            ({"kind": "code"}, "SEARCH executions USING INDEX of_kind (kind=?)"),
            ({"kind": "code", "status": "failed"}, "SEARCH executions USING INDEX by_kind (kind=? AND status=?)"),
            ({"parent": "p"}, "SEARCH executions USING INDEX by_parent (parent=?)"),
            ({"client": "ci"}, "SEARCH executions USING INDEX by_client (client=?)"),
            ({"since": 1.0, "before": 2.0}, "SEARCH executions USING PRIMARY KEY (id>? AND id<?)"),
        ],
    )
    def test_every_question_goes_by_an_index_and_sorts_nothing(self, filters: dict[str, Any], how: str) -> None:
        assert plan_of(*rows_query(50, **filters)) == [how]

    def test_so_does_a_prefix(self) -> None:
        for text in ("0199", "0199abcd1234"):
            found = [line for line in plan_of(*find_query(text)) if line.startswith(("SEARCH", "SCAN"))]
            assert found == [
                "SEARCH executions USING PRIMARY KEY (id>? AND id<?)",
                "SEARCH executions USING COVERING INDEX by_short (<expr>>? AND <expr><?)",
            ]


def plan_of(query: str, given: tuple[Any, ...]) -> list[str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        create(database, VERSION, SCHEMA)
        return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {query}", given)]


class TestTelling:
    def test_what_is_told_together_is_there_at_the_end(self, index: Index) -> None:
        first, second = fresh(), fresh()
        with index.together():
            index.put(first)
            index.put(second)
            index.keep(first.id, Mark(seq=1, size=2, digest="d"))
            assert Index(index.folder).rows() == []
        assert {row.id for row in index.rows()} == {first.id, second.id}
        assert index.kept(first.id) == Mark(seq=1, size=2, digest="d")

    def test_what_another_thread_tells_meanwhile_is_there_at_once(self, index: Index) -> None:
        mine, its = fresh(), fresh()
        with index.together():
            index.put(mine)
            thread = threading.Thread(target=index.put, args=(its,))
            thread.start()
            thread.join()
            assert [row.id for row in index.rows()] == [its.id]

    def test_many_are_forgotten_at_once(self, index: Index) -> None:
        states = [fresh() for _ in range(3)]
        for state in states:
            index.put(state)
        index.remove(states[0].id, states[2].id)
        assert [row.id for row in index.rows()] == [states[1].id]

    def test_an_older_state_changes_nothing(self, index: Index) -> None:
        state = fresh(status="completed", seq=5)
        index.put(state)
        index.put(state.model_copy(update={"status": "running", "seq": 3}))
        assert index.rows()[0].status == "completed"

    def test_a_size_is_that_of_the_state_it_was_measured_with(self, index: Index) -> None:
        state = fresh(seq=1)
        index.put(state)
        index.measured({state.id: 77})
        index.put(state)
        assert index.rows()[0].size == 77
        index.put(state.model_copy(update={"seq": 2}))
        assert index.rows()[0].size == 0

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(title=st.text(), tokens=st.integers(min_value=0), parent=st.none() | st.text())
    def test_it_never_fails_whatever_it_is_told(
        self, tmp_path: Path, title: str, tokens: int, parent: str | None
    ) -> None:
        index = Index(tmp_path / ".go-ent" / "executions")
        state = fresh(title=title, spent_tokens=tokens, parent=parent)
        index.put(state)
        found = [row for row in index.rows() if row.id == state.id]
        assert [row.spent_tokens for row in found] == ([tokens] if tokens < 1 << 63 else [])
        index.close()

    def test_what_it_could_not_be_told_it_looks_up(self, store: FileStore) -> None:
        made(store)
        with contextlib.closing(sqlite3.connect(store.folder / FILE)) as other, other:
            other.execute("DELETE FROM executions")
        other.close()
        assert store.index.rows() == []
        (store.folder / STALE).touch()
        assert len(store.index.rows()) == 1
        assert not (store.folder / STALE).exists()

    def test_a_folder_that_is_a_link_is_not_written_through(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / ".go-ent").mkdir()
        (tmp_path / ".go-ent" / "executions").symlink_to(tmp_path / "elsewhere")
        Index(tmp_path / ".go-ent" / "executions").put(fresh())
        assert os.listdir(tmp_path / "elsewhere") == []

    def test_others_can_not_read_it(self, index: Index) -> None:
        index.put(fresh())
        for name in (FILE, f"{FILE}-wal"):
            assert not (index.folder / name).stat().st_mode & 0o077


class TestFilling:
    def test_an_index_that_is_gone_is_made_again(self, store: FileStore) -> None:
        ids = [made(store) for _ in range(3)]
        for name in os.listdir(store.folder):
            if not ID.fullmatch(name):
                (store.folder / name).unlink()
        assert [row.id for row in store.index.rows()] == ids[::-1]
        assert FileStore(store.folder.parent.parent).index.find(ids[0][:30]) == [ids[0]]

    @pytest.mark.parametrize(
        "data", [b"", b"garbage", b"SQLite format 3\0" + b"\0" * 84, b"SQLite format 3\0" + b"\2" * 5000]
    )
    def test_garbage_in_its_place_is_replaced(self, store: FileStore, data: bytes) -> None:
        first = made(store)
        (store.folder / FILE).write_bytes(data)
        second = made(store)
        assert [row.id for row in store.index.rows()] == [second, first]

    @pytest.mark.parametrize("size", [0, 100, 9000])
    def test_one_that_is_cut_short_while_it_is_used_is_replaced(self, store: FileStore, size: int) -> None:
        ids = [made(store, title="x" * 300) for _ in range(20)]
        other = Index(store.folder)
        assert len(other.rows()) == 20
        store.index.close()
        other.close()
        assert len(other.rows()) == 20
        os.truncate(store.folder / FILE, size)
        ids.append(made(store))
        assert [row.id for row in other.rows(100)] == ids[::-1]
        assert [row.id for row in store.index.rows(100)] == ids[::-1]

    def test_one_that_was_replaced_is_not_written_to(self, store: FileStore) -> None:
        made(store)
        other = Index(store.folder)
        assert len(other.rows()) == 1
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
            (store.folder / name).unlink()
        last = fresh()
        assert len(other.rows()) == 1  # it is the new one's now
        store.index.put(last)
        assert last.id in {row.id for row in other.rows()}
        store.index.close()
        assert (store.folder / FILE).exists()
        assert last.id in {row.id for row in Index(store.folder).rows()}

    @pytest.mark.parametrize(
        "change", ["PRAGMA user_version = 99", "CREATE TRIGGER t AFTER INSERT ON executions BEGIN SELECT 1; END"]
    )
    def test_another_version_or_a_schema_that_is_not_ours_is_replaced(self, store: FileStore, change: str) -> None:
        first = made(store)
        store.index.close()
        other = sqlite3.connect(store.folder / FILE)
        other.execute(change)
        other.close()
        assert [row.id for row in store.index.rows()] == [first]
        other = sqlite3.connect(store.folder / FILE)
        assert other.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() == (0,)
        assert other.execute("PRAGMA user_version").fetchone() == (VERSION,)
        other.close()

    def test_rebuilding_forgets_what_has_no_folder(self, store: FileStore) -> None:
        kept = made(store)
        store.index.put(fresh())
        assert store.index.rebuild() == 1
        assert [row.id for row in store.index.rows()] == [kept]

    def test_what_can_not_be_read_is_left_out(self, store: FileStore) -> None:
        kept, broken = made(store), made(store)
        (store.folder / broken / "state.json").write_bytes(b"?")
        (store.folder / broken / "journal.jsonl").write_bytes(b"?\n")
        (store.folder / new_id()).mkdir()
        assert store.index.rebuild() == 1
        assert [row.id for row in store.index.rows()] == [kept]

    def test_where_there_can_be_no_index_the_folders_answer(
        self, store: FileStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        ids = [made(store), made(store)]
        store.index.close()
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
            (store.folder / name).unlink(missing_ok=True)
        (store.folder / FILE).mkdir()
        ids.append(made(store))
        assert [row.id for row in store.index.rows()] == ids[::-1]
        assert store.index.find(ids[1]) == [ids[1]]
        assert [record.message for record in caplog.records if "index of executions" in record.message] != []
        (store.folder / FILE).rmdir()
        assert [row.id for row in store.index.rows()] == ids[::-1]


class TestHostileFolders:
    def test_a_link_or_a_pipe_in_its_place_is_replaced_and_not_followed(self, store: FileStore, tmp_path: Path) -> None:
        first = made(store)
        store.index.close()
        target = tmp_path / "precious"
        target.write_bytes(b"mine")
        for put in (lambda path: path.symlink_to(target), os.mkfifo):
            for name in (FILE, f"{FILE}-wal", f"{FILE}-journal"):
                (store.folder / name).unlink(missing_ok=True)
                put(store.folder / name)
                assert [row.id for row in store.index.rows()] == [first]
        assert target.read_bytes() == b"mine"

    def test_rows_that_name_no_execution_are_not_given(self, store: FileStore) -> None:
        first = made(store)
        store.index.close()
        other = sqlite3.connect(store.folder / FILE)
        for name in ("../../../etc", f"{first}/..", "0199", "0199aaaa-bbbb-7ccc-8ddd-00000000000\n"):
            query = (
                "INSERT INTO executions SELECT ?, parent, kind, status, title, strategy, created, updated, "
                "finished, spent_usd, "
            )
            other.execute(
                query + "spent_tokens, image, resumable, client, size, seq, file, offset FROM executions WHERE id = ?",
                (name, first),
            )
        other.execute("UPDATE executions SET status = 'wonderful' WHERE id = '0199'")
        other.commit()
        other.close()
        assert [row.id for row in store.index.rows()] == [first]
        assert [row.id for row in store.index.oldest()] == [first]
        assert store.index.find("0199") in ([], [first])


MAKING = """
import sys
from pathlib import Path
from tests.engine.executions.test_index import made
from tests.support.executions import FileStore
store = FileStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    made(store, title=sys.argv[3])
"""
FILLING_AND_DYING = """
import os, signal, sys
from pathlib import Path
from go_ent.engine.storage import index as module
module.BATCH = 1
index = module.Index(Path(sys.argv[1]))
read, count = index._read, 0
def dying(name):
    global count
    count += 1
    if count == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(name)
index._read = dying
index.rebuild()
"""


def python(code: str, *arguments: object) -> Forked:
    return Forked(*map(str, arguments), code=code, stdin=-1, stdout=-1, text=True, cwd=ROOT)


class TestManyProcesses:
    def test_two_that_put_at_once_lose_nothing(self, store: FileStore, tmp_path: Path) -> None:
        both = [python(MAKING, tmp_path, 60, name) for name in ("a", "b")]
        for one in both:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in both:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        for one in both:
            one.communicate(timeout=60)
            assert one.returncode == 0
        assert sorted(row.title for row in store.index.rows(1000, status="completed")) == ["a"] * 60 + ["b"] * 60
        assert store.index.rebuild() == 120

    def test_threads_that_put_and_look_while_it_is_replaced_lose_nothing(self, store: FileStore) -> None:
        states = [fresh(title=str(number)) for number in range(60)]
        go = threading.Barrier(4)

        def put(part: list[ExecutionState]) -> None:
            index = Index(store.folder)
            go.wait()
            for state in part:
                with store.create(state) as held:
                    index.put(held.state)
            index.close()

        made(store)
        threads = [threading.Thread(target=put, args=(states[number::3],)) for number in range(3)]
        for thread in threads:
            thread.start()
        go.wait()
        while any(thread.is_alive() for thread in threads):
            (store.folder / FILE).unlink(missing_ok=True)
            store.index.rows()
        for thread in threads:
            thread.join()
        assert {state.id for state in states} <= {row.id for row in Index(store.folder).rows(1000)}

    def test_who_is_killed_while_filling_it_leaves_one_that_the_next_fills(self, store: FileStore) -> None:
        ids = [made(store) for _ in range(6)]
        killed = python(FILLING_AND_DYING, store.folder)
        killed.communicate(timeout=60)
        assert killed.returncode == -signal.SIGKILL
        part = sqlite3.connect(store.folder / FILE)
        assert part.execute("SELECT count(*) FROM executions").fetchone() == (3,)
        part.close()
        assert [row.id for row in store.index.rows()] == ids[::-1]


def attempt(runtime: str, **fields: Any) -> Attempt:
    return Attempt.model_validate({"runtime": runtime, "status": "completed", "duration_ms": 10, **fields})


def step(name: str, *attempts: Attempt, **fields: Any) -> RunResult:
    return RunResult.model_validate(
        {
            "execution_id": "e",
            "task_id": name,
            "status": "completed",
            "runtime": "claude",
            "attempts": attempts,
            **fields,
        }
    )


def call(path: str, tool: str, at: float) -> dict[str, Any]:
    return {"kind": "call", "path": path, "tool": tool, "at": at}


def answer(path: str, answer: Any, at: float) -> dict[str, Any]:
    return {"kind": "answer", "path": path, "answer": answer, "at": at}


class TestTotals:
    def test_every_try_of_every_step_is_a_record(self) -> None:
        work = {"plan": {"task": [{"id": "a", "description": "x"}, {"id": "b", "tool": "rank"}]}}
        results = {
            "a": step(
                "a",
                attempt("opencode", status="failed"),
                attempt("claude", cost_usd=0.5, tokens=Tokens(input=7)),
                role="developer",
            ),
            "b": step("b", attempt("cli"), runtime="cli"),
        }
        state = fresh(kind="graph", strategy="parallel", work=work, results=results, status="interrupted")
        found = records_from(state)
        assert [(one.runtime, one.success, one.cost_usd, one.tool) for one in found] == [
            ("opencode", False, None, None),
            ("claude", True, 0.5, None),
            ("cli", True, None, "rank"),
        ]

    def test_a_step_that_only_the_result_names_counts_once(self) -> None:
        named = RunResult(execution_id="e", task_id="task", status="completed")
        result = TaskResult(execution_id="e", status="COMPLETE", strategy="single", steps=(named,))
        state = fresh(
            result=result, results={"task": step("task", attempt("claude", cost_usd=1.0))}, status="completed"
        )
        assert [one.cost_usd for one in records_from(state)] == [1.0]

    def test_nothing_ran_nothing_is_recorded(self) -> None:
        assert records_from(fresh()) == []

    def test_calls_are_counted_from_the_journal(self) -> None:
        records = [
            {"kind": "created", "at": 0.0},
            call("task/1", "search", 1.0),
            call("task/2", "search", 1.0),
            call("task/3", "write", 2.0),
            answer("task/2", [2, 1, {"x": 1}], 1.5),
            answer("task/1", [1, 0, {"kind": "ToolError", "message": "no"}], 2.0),
            answer("task/3", None, 3.0),
            call("task/4", "write", 4.0),
        ]
        assert calls_from(records) == {"search": CallTotals(2, 1, 1500.0, 2.0), "write": CallTotals(2, 0, 1000.0, 4.0)}

    @pytest.mark.parametrize(
        "record",
        [
            call("a", "t", float("nan")),
            call("a", "t", 10**400),
            call("a", ["t"], 1.0),  # type: ignore[arg-type]
            {"kind": "call", "path": None, "tool": "t", "at": 1.0},
            {"kind": "answer", "path": "b", "answer": [1, 0, {}], "at": 1.0},
            {"kind": "calls", "path": "run", "calls": {"name": "t"}, "at": 1.0},
            {"kind": "calls", "path": "run", "calls": ["t", None, {"name": 5, "ms": "long"}], "at": 1.0},
        ],
    )
    def test_a_record_that_makes_no_sense_counts_for_nothing(self, record: dict[str, Any]) -> None:
        assert calls_from([record]) == {}

    def test_they_are_summed_by_each_grouping(self, index: Index) -> None:
        first = fresh(
            results={
                "task": step("task", attempt("claude", cost_usd=0.25, tokens=Tokens(output=4)), model="m", role="r")
            }
        )
        tool = fresh(
            work={"tasks": [{"tool": "rank"}]},
            results={"task": step("task", attempt("cli", status="failed"), runtime="cli")},
        )
        index.note(first.id, records_from(first), {"search": CallTotals(3, 1, 20.0, first.updated)})
        index.note(tool.id, records_from(tool), {"rank": CallTotals(2, 0, 5.0, tool.updated)})
        runtimes = index.totals("runtime")
        assert list(runtimes) == ["claude", "cli"]
        assert (runtimes["claude"].cost_usd, runtimes["claude"].tokens, runtimes["claude"].successes) == (0.25, 4, 1)
        assert (runtimes["cli"].cost_usd, runtimes["cli"].costs_unknown, runtimes["cli"].successes) == (None, 1, 0)
        assert list(index.totals("model")) == ["m", "unknown"]
        assert list(index.totals("role")) == ["r", "unknown"]
        assert list(index.totals("strategy")) == ["single"]
        assert sum(one.count for one in index.totals("day").values()) == 2
        tools = {name: (one.count, one.successes, one.duration_ms) for name, one in index.totals("tool").items()}
        assert tools == {"rank": (3, 2, 15), "search": (3, 2, 20), "unknown": (1, 1, 10)}

    def test_what_is_noted_again_counts_once(self, index: Index) -> None:
        state = fresh(results={"task": step("task", attempt("claude", cost_usd=0.25))})
        for _ in range(2):
            index.note(state.id, records_from(state), {"search": CallTotals(1, 0, 1.0, 1.0)})
        assert index.totals("runtime")["claude"].count == 1
        assert index.totals("tool")["search"].count == 1

    def test_only_since(self, index: Index) -> None:
        old, new = (
            fresh(updated=1000.0, results={"task": step("task", attempt("a"))}),
            fresh(results={"task": step("task", attempt("b"))}),
        )
        for state in (old, new):
            index.note(state.id, records_from(state), {state.id: CallTotals(1, 0, 1.0, state.updated)})
        assert list(index.totals("runtime", since=2000.0)) == ["b"]
        assert list(index.totals("tool", since=2000.0)) == [new.id, "unknown"]

    def test_what_is_removed_counts_no_more(self, store: FileStore) -> None:
        name = made(store)
        store.index.note(name, records_from(fresh(results={"task": step("task", attempt("a"))})), {"t": CallTotals(1)})
        store.index.remove(name)
        assert store.index.totals("runtime") == {}
        assert store.index.totals("tool") == {}
        assert store.index.rows() == []

    def test_rebuilding_finds_the_same(self, store: FileStore) -> None:
        with store.create(fresh(), sync=False) as held:
            held.move("running")
            held.append("call", {"path": "task/1", "tool": "search", "digest": "0", "arguments": None, "heard": "[]"})
            held.append("answer", {"path": "task/1", "answer": [1, 0, {"kind": "ToolError", "message": "no"}]})
            held.finish_step("task", step("task", attempt("claude", cost_usd=0.25)))
            held.move("completed")
            store.index.note(held.id, records_from(held.state), calls_from(held.records()))
        before = {by: store.index.totals(by) for by in ("runtime", "tool", "day")}
        assert before["tool"]["search"].count == 1
        assert before["tool"]["search"].successes == 0
        assert store.index.rebuild() == 1
        after = {by: store.index.totals(by) for by in ("runtime", "tool", "day")}
        assert after == before

    def test_an_unknown_grouping_is_refused(self, index: Index) -> None:
        with pytest.raises(BadTask, match="not by weather"):
            index.totals("weather")  # type: ignore[arg-type]

    def test_the_index_sums_as_a_history_does(self, index: Index) -> None:
        results = {
            "task": step(
                "task", attempt("a", cost_usd=1.5), attempt("b", status="failed", tokens=Tokens(input=3)), model="m"
            )
        }
        state = fresh(results=results)
        index.note(state.id, records_from(state), {})
        history = ExecutionHistory().add(records_from(state))
        for by in get_args(Grouping):
            assert index.totals(by) == history.by(by)
