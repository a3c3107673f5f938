"""Small executions that have ended are packed, many to a file: what is kept, by whom, and through which faults."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from go_ent.composer import Composer
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.spec import Hints
from go_ent.composer.sources.functions import FunctionSource
from go_ent.engine import Engine, GuestOrder
from go_ent.engine.core import crash_points
from go_ent.engine.core.errors import BadState, ExecutionNotFound
from go_ent.engine.executions import running
from go_ent.engine.executions.retention import prune
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.storage import group_commit, packed
from go_ent.engine.storage.index import PackedExecution
from go_ent.engine.storage.packed import Packed, Place
from go_ent.sandbox import Run, Sandbox
from tests.support import ROOT
from tests.support.executions import FileStore
from tests.support.forked import Forked
from tests.support.packed import fresh, made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    made = FileStore(tmp_path)
    yield made
    made.close()


def files(store: FileStore) -> list[Path]:
    return sorted((store.folder / "packed").glob("*.jsonl"))


class TestKept:
    def test_it_has_no_folder_and_is_found_at_once_by_everybody(self, store: FileStore, tmp_path: Path) -> None:
        one = made(store)
        assert not (store.folder / one).exists()
        for other in (store, FileStore(tmp_path)):
            assert other.load(one).status == "completed"
            assert other.load(one).results["run"].output == "2"
            assert [row.id for row in other.rows()] == [one]
            assert other.find(one[:8]) == other.find(one) == one
            assert [record["kind"] for record in other.records(one)] == ["created", "step_finished", "status"]
            records, offset = other.read_from(one, 0)
            assert len(records) == 3
            assert other.read_from(one, offset) == ([], offset)
            assert other.counts()["completed"] == 1

    def test_a_new_one_is_nowhere_until_it_must_be(self, store: FileStore) -> None:
        held = store.create(fresh(), sync=False)
        held.append("printed", {"step": "run", "text": "x"})
        assert not store.folder.exists()
        held.commit()
        assert (store.folder / held.id / "journal.jsonl").exists()
        assert [record["kind"] for record in held.records()] == ["created", "printed"]
        held.release()

    def test_a_large_one_gets_a_folder(self, store: FileStore) -> None:
        held = store.create(fresh(), sync=False)
        held.append("printed", {"step": "run", "text": "x" * packed.MAX_PACKED})
        assert (store.folder / held.id / "journal.jsonl").exists()
        held.release()

    def test_one_that_goes_on_gets_a_folder_and_is_there_once(self, store: FileStore) -> None:
        one, other = made(store), made(store)
        with store.hold(one) as held:
            held.append("note", {"text": "went on"})
        assert store.load(one).status == "completed"
        assert [record["kind"] for record in store.records(one)][-1] == "note"
        assert sorted(row.id for row in store.rows()) == sorted([one, other])
        assert store.index.rebuild() == 2
        assert sorted(prune(store, keep=0).removed) == sorted([one, other])
        assert FileStore(store.folder.parent.parent).rows() == []

    def test_totals_count_them(self, store: FileStore) -> None:
        made(store)
        made(store)
        store.flush()
        assert store.index.totals("runtime")["cli"].count == 2
        (store.folder / "index.db").unlink()
        assert store.index.totals("runtime")["cli"].count == 2

    def test_files_are_numbered_when_they_are_full(self, store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(packed, "MAX_FILE", 4000)
        ids = [made(store) for _ in range(12)]
        assert len(files(store)) > 2
        assert {row.id for row in store.rows()} == set(ids)
        assert all(store.load(one).status == "completed" for one in ids)

    def test_an_index_that_says_something_else_is_put_right(self, store: FileStore) -> None:
        one = made(store)
        store.close()
        with contextlib.closing(sqlite3.connect(store.folder / "index.db")) as database, database:
            database.execute("UPDATE executions SET status = 'running'")
        assert [row.status for row in store.rows()] == ["completed"]
        assert [row.id for row in store.rows(status="completed")] == [one]
        assert store.load(one).status == "completed"


class TestRemoved:
    def test_they_stay_removed_without_an_index(self, store: FileStore) -> None:
        ids = [made(store) for _ in range(5)]
        assert sorted(prune(store, keep=2).removed) == ids[:3]
        store.close()
        (store.folder / "index.db").unlink()
        again = FileStore(store.folder.parent.parent)
        assert {row.id for row in again.rows()} == set(ids[3:])
        with pytest.raises(ExecutionNotFound):
            again.load(ids[0])

    def test_they_stay_removed_though_the_index_is_told_of_them_later(self, store: FileStore) -> None:
        one = made(store)
        other = FileStore(store.folder.parent.parent)
        assert prune(other, keep=0).removed == [one]
        store.flush()
        assert (store.rows(), other.rows()) == ([], [])

    def test_old_files_go_and_what_is_left_of_them_stays(
        self, store: FileStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(packed, "MAX_FILE", 4000)
        ids = [made(store) for _ in range(20)]
        before = files(store)
        kept = {ids[0], *ids[-6:]}
        store.packed.remove([one for one in ids if one not in kept])
        prune(store, keep=1000)
        assert len(files(store)) < len(before)
        assert not before[0].exists()
        assert {row.id for row in store.rows()} == kept
        assert store.load(ids[0]).status == "completed"
        (store.folder / "index.db").unlink()
        assert {row.id for row in FileStore(store.folder.parent.parent).rows()} == kept

    def test_a_dry_run_removes_nothing(self, store: FileStore) -> None:
        ids = [made(store) for _ in range(3)]
        told = prune(store, keep=1, dry_run=True)
        assert told.removed == ids[:2]
        assert told.bytes > 500
        assert len(store.rows()) == 3


class TestDamage:
    def test_a_damaged_one_is_told_and_the_others_are_there(self, store: FileStore) -> None:
        ids = [made(store, f"number {number}") for number in range(3)]
        store.close()
        (file,) = files(store)
        data = file.read_bytes()
        at = data.index(b"number 1")
        file.write_bytes(data[:at] + b"NUMBER 1" + data[at + 8 :])
        assert store.load(ids[0]).title == "number 0"
        with pytest.raises(BadState, match="does not tell how it began"):
            store.load(ids[1])
        store.close()
        (store.folder / "index.db").unlink()
        again = FileStore(store.folder.parent.parent)
        assert {row.id for row in again.rows()} == {ids[0], ids[2]}
        assert any(entry.damaged for entry in again.packed.entries(1))

    def test_a_torn_end_takes_no_other_with_it(self, store: FileStore) -> None:
        one = made(store)
        store.close()
        (file,) = files(store)
        with file.open("ab") as torn:
            torn.write(b'{"at":1.0,"seq":1,"kind":"packed","id"')
        other = made(store)
        assert {row.id for row in store.rows()} == {one, other}
        assert store.load(other).status == "completed"

    @pytest.mark.parametrize("planted", ["link", "folder", "pipe", "rubbish", "forged"])
    def test_what_is_planted_there_is_one_bad_item(self, store: FileStore, planted: str, tmp_path: Path) -> None:
        one = made(store)
        store.close()
        path = store.folder / "packed" / "000002.jsonl"
        if planted == "link":
            (tmp_path / "elsewhere").write_bytes(files(store)[0].read_bytes())
            path.symlink_to(tmp_path / "elsewhere")
        elif planted == "folder":
            path.mkdir()
        elif planted == "pipe":
            os.mkfifo(path)
        elif planted == "rubbish":
            path.write_bytes(os.urandom(5000))
        else:  # the id of one, the journal of another
            body = files(store)[0].read_bytes()
            Packed(store.folder).append("0199aaaa-bbbb-7ccc-8ddd-000000000000", body)
        assert one in {row.id for row in store.rows()}
        assert "0199aaaa-bbbb-7ccc-8ddd-000000000000" not in {row.id for row in store.rows()}
        assert store.load(one).status == "completed"


CODE = "import sys; sys.path.insert(0, sys.argv[3]); from tests.engine.executions.test_packed import *; "


def child(tmp_path: Path, code: str, **variables: str) -> Forked:
    return Forked(
        str(tmp_path),
        "40",
        str(ROOT),
        code=CODE + code,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **variables},
    )


MAKE = "store = FileStore(Path(sys.argv[1])); [print(made(store), flush=True) for _ in range(int(sys.argv[2]))]"


class TestKilled:
    @pytest.mark.parametrize(
        "point",
        [
            "pack-after-append",
            *(
                pytest.param(point, marks=pytest.mark.more)
                for point in ("pack-before-append", "pack-before-sync", "pack-after-sync")
            ),
        ],
    )
    def test_what_was_answered_is_there(self, store: FileStore, tmp_path: Path, point: str) -> None:
        """Killed between an answer and the commit: nothing of what was answered is missing, and nothing is twice."""
        killed = child(tmp_path, MAKE + "; time.sleep(10)", GO_ENT_CRASH=f"{point}:{1 if 'sync' in point else 20}")
        told = killed.communicate(timeout=60)[0].split()
        assert killed.returncode == -9
        found = [row.id for row in store.rows()]
        assert set(told) <= set(found)
        # What syncs is a thread of its own: it may die while one is written that is not told yet.
        assert len(found) - len(told) in ((0, 1) if "sync" in point else (point == "pack-after-append",))
        assert all(store.load(one).status == "completed" for one in told)

    def test_in_the_middle_of_a_write_only_that_one_is_missing(self, store: FileStore, tmp_path: Path) -> None:
        killed = child(tmp_path, MAKE, GO_ENT_CRASH="journal-mid-line:7")
        told = killed.communicate(timeout=60)[0].split()
        assert (killed.returncode, len(told)) == (-9, 6)
        assert {row.id for row in store.rows()} == set(told)
        assert made(store) in {row.id for row in store.rows()}


class TestTwoProcesses:
    def test_lose_nothing_and_have_nothing_twice(self, store: FileStore, tmp_path: Path) -> None:
        children = [child(tmp_path, MAKE + "; store.close()") for _ in range(2)]
        told = [one for each in children for one in each.communicate(timeout=60)[0].split()]
        assert [each.returncode for each in children] == [0, 0]
        rows = [row.id for row in store.rows(1000)]
        assert (len(told), sorted(rows)) == (80, sorted(told))
        assert store.index.rebuild() == 80
        assert store.index.totals("runtime")["cli"].count == 80


class TestTooLarge:
    async def test_the_calls_of_one_that_is_larger_than_it_seemed_count(self, tmp_path: Path, box: Sandbox) -> None:
        def look(n: int) -> int:
            return n

        source = FunctionSource([look], "w", hints={"look": Hints(read_only=True)})
        async with Composer(tmp_path, box=box, sources=[source]) as composer:
            composer.grants = composer.code.grants = Grants(["w.*"])
            async with Engine(tmp_path, composer=composer) as engine:
                code = "await tools.w.look(n=1)\nprint('\\x01' * 7000)"  # six bytes each, in each of its records
                run = await engine.guests.run(GuestOrder(code=code))
                assert run.ok, run.error
                store = engine.lifecycle.store
                assert (await asyncio.to_thread(store.index.totals, "tool"))["w.look"].count == 1
                assert await asyncio.to_thread((tmp_path / ".go-ent" / "executions" / run.id).is_dir)
                assert store.load(run.id).status == "completed"


class TestFullDisk:
    def test_the_answer_says_that_it_is_not_on_record(
        self, tmp_path: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(running, "LOOK_S", 60.0)  # however slow this machine is, it is a short run

        async def main() -> tuple[Run, Run]:
            async with Composer(tmp_path, box=box) as composer, Engine(tmp_path, composer=composer) as engine:
                crash_points.arm("full:1")
                try:
                    first = await engine.guests.run(GuestOrder(code="1 + 1"))
                finally:
                    crash_points.arm(None)
                second = await engine.guests.run(GuestOrder(code="1 + 2"))
                assert [row.id for row in await engine.executions()] == [second.id]
                return first, second

        first, second = asyncio.run(main())
        assert (first.status, first.result) == ("completed", 2)
        assert first.warning is not None
        assert "is not on record" in first.warning
        assert os.strerror(errno.ENOSPC) in first.warning
        assert (second.result, second.warning) == (3, None)


class TestGroups:
    def test_a_state_that_can_not_be_made_keeps_no_other_from_the_index(
        self, store: FileStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken() -> ExecutionState:
            raise BadState("it can't be made")

        monkeypatch.setattr(group_commit, "INDEX_S", 0.1)
        first = made(store)
        store.commits.add(PackedExecution(broken, {}, Place(1, 10**6, 1), 10**6))
        store.flush()
        second = made(store)
        assert {row.id for row in store.rows()} == {first, second}

    def test_the_index_is_told_of_many_at_once(self, store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[int] = []
        put = store.index.put_packed

        def count(waiting: Sequence[PackedExecution]) -> None:
            told.append(len(waiting))
            put(waiting)

        monkeypatch.setattr(store.index, "put_packed", count)
        monkeypatch.setattr(group_commit, "INDEX_S", 0.2)
        for _ in range(30):
            made(store)
        until = time.monotonic() + 30
        while sum(told) < 30 and time.monotonic() < until:
            time.sleep(0.02)
        assert sum(told) == 30
        assert len(told) <= 3
        assert json.dumps(sorted(row.id for row in store.rows())).count("-") == 120
