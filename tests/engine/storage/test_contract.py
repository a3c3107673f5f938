"""What everything that keeps executions must do. Two stores stand for two processes."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.core.config import RetentionConfig
from go_ent.engine.core.errors import BadState, ExecutionConflict, ExecutionNotFound
from go_ent.engine.core.ids import new_id, short_id
from go_ent.engine.core.models import TaskResult
from go_ent.engine.executions.history import CallTotals, Grouping
from go_ent.engine.executions.lifecycle import Ending, Lifecycle, Live
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.retention import EVERY_S, prune
from go_ent.engine.executions.state import Environment, ExecutionStatus
from go_ent.engine.executions.storage import ExecutionStorage
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.tape import Tapes
from go_ent.engine.executions.totals import records_from
from go_ent.engine.storage.file_storage import FileStorage
from go_ent.engine.storage.memory import Memory, MemoryStorage
from go_ent.engine.storage.packed import MAX_PACKED
from tests.engine.executions.test_executions import fresh, result
from tests.support.packed import made as packed
from tests.support.watching import Told, heard

Open = Callable[[], ExecutionStorage]


@pytest.fixture(params=["files", "memory", "fleet"])
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Another process's way to the same executions."""
    if request.param == "files":
        yield lambda: FileStorage(tmp_path)
    elif request.param == "memory":
        memory = Memory()
        yield lambda: MemoryStorage(memory)
    else:
        address = request.getfixturevalue("fleet")
        from tests.support.fleet import storages

        with storages(address) as opened:
            yield opened


@pytest.fixture
def store(another: Open) -> ExecutionStore:
    return ExecutionStore(another())


@pytest.fixture
def other(another: Open) -> ExecutionStore:
    return ExecutionStore(another())


def made(store: ExecutionStore, status: ExecutionStatus = "completed", **changes: Any) -> str:
    """An execution that is over, or rests."""
    with store.create(fresh(**changes)) as held:
        held.move("running")
        held.finish_step("task", result("task"))
        held.move(status)
        store.index.note(held.id, records_from(held.state), {"t.a": CallTotals(2, 1, 1500.0, time.time())})
        return held.id


def kinds(store: ExecutionStore, execution_id: str) -> list[str]:
    return [record["kind"] for record in store.records(execution_id)]


class TestWatching:
    def test_who_watches_is_told_of_new_ones_of_records_and_of_removals(
        self, store: ExecutionStore, other: ExecutionStore
    ) -> None:
        told: Told = queue.Queue()
        watch = other.storage.watch(lambda: told.put(None))

        def until(check: Callable[[], bool]) -> None:
            """Looks only when told, and so sees it only if somebody is told after it is so."""
            while not check():
                heard(told)

        until(lambda: not other.rows())
        with store.create(fresh()) as held:
            until(lambda: bool(other.rows()))
            watch.follow([held.id])
            for number in range(3):
                seq = held.append("note", {"text": str(number)})
                held.commit()
                until(lambda seq=seq: other.load(held.id).seq >= seq)  # type: ignore[misc]
        execution_id = made(store)
        until(lambda: any(row.status == "completed" for row in other.rows()))
        store.storage.remove([row for row in store.rows() if row.id == execution_id], {}, resumable=True)
        until(lambda: execution_id not in {row.id for row in other.rows()})
        watch.close()


class TestHolding:
    def test_one_process_has_it_and_the_other_is_told(self, store: ExecutionStore, other: ExecutionStore) -> None:
        held = store.create(fresh())
        assert other.is_held(held.id)
        with pytest.raises(ExecutionConflict, match=f"execution {held.id} is being run by process"):
            other.hold(held.id)
        held.release()
        assert not other.is_held(held.id)
        with other.hold(held.id) as again:
            assert again.slot.before is None
            assert store.is_held(held.id)

    def test_who_has_released_it_appends_no_more_and_may_release_again(self, store: ExecutionStore) -> None:
        held = store.create(fresh())
        held.release()
        held.release()
        assert held.slot.released
        with pytest.raises(ValueError, match="the journal is closed"):
            held.append("note", {"text": "late"})

    @pytest.mark.parametrize("name", ["", "../x", "0199", "01990000-0000-7000-8000-000000000000"])
    def test_one_that_is_not_there_is_not_found(self, store: ExecutionStore, name: str) -> None:
        made(store)
        for look in (store.load, store.hold, store.records, lambda one: store.read_from(one, 0)):
            with pytest.raises(ExecutionNotFound, match="there is no execution"):
                look(name)
        assert not store.is_held(name)
        assert not store.storage.has(name)

    def test_it_goes_on_where_it_was_left(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.finish_step("a", result("a"))
        assert other.load(held.id).status == "interrupted"  # it runs nowhere
        with other.hold(held.id) as again:
            assert (again.state.status, list(again.state.results)) == ("running", ["a"])
            assert again.append("progress", {"step": "b", "what": "text", "text": "x"}) == held.state.seq + 1
            again.finish_step("b", result("b"))
        assert list(store.load(held.id).results) == ["a", "b"]


class TestRecords:
    def test_they_are_numbered_in_order_and_read_back_as_they_were(self, store: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            assert held.append("progress", {"text": "Grüße\n\0"}, raw={"value": b'{"a":[1,null]}'}) == 2
            assert held.append("progress", {"n": 1.5}, sync=True) == 3
            records = list(held.records())
        assert [record["seq"] for record in records] == [1, 2, 3]
        assert {name: records[1][name] for name in ("text", "value")} == {
            "text": "Grüße\n\0",
            "value": {"a": [1, None]},
        }
        assert list(store.records(held.id)) == records

    def test_what_is_synced_is_there_for_others(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.start_try("a", "claude-code")
            assert other.load(held.id).tries == {"a": 1}
            assert kinds(other, held.id) == ["created", "status", "try"]

    def test_the_copy_of_the_state_changes_nothing(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            held.finish_step("a", result("a"))
            held.write()
            held.finish_step("b", result("b"))
            assert other.load(held.id).results == held.state.results

    def test_a_few_records_at_once_and_then_the_next(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            for number in range(4):
                held.append("progress", {"text": str(number)}, sync=True)
            seen, at = other.read_from(held.id, 0, 2)
            assert 2 <= len(seen) < 5
            while (part := other.read_from(held.id, at, 2))[0]:
                seen, at = [*seen, *part[0]], part[1]
            assert [record["seq"] for record in seen] == [1, 2, 3, 4, 5]
            assert at == held.slot.size

    def test_who_follows_reads_each_once(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            first, at = other.read_from(held.id, 0)
            assert other.read_from(held.id, at) == ([], at)
            held.append("progress", {"text": "x"}, sync=True)
            more, end = other.read_from(held.id, at)
        assert [record["kind"] for record in (*first, *more)] == ["created", "progress"]
        assert end == held.slot.size

    def test_going_back_to_a_checkpoint_outlives_the_process(self, store: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.checkpoint("here", {"n": 1})
            held.finish_step("a", result("a"))
            held.move("completed")
        with store.hold(held.id) as again:
            again.go_back(again.undoing("here"))
            again.move("running")
        assert store.load(held.id).results == {}


class TestPacking:
    def test_a_new_one_is_seen_once_it_is_placed(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh(), sync=False) as held:
            assert (held.slot.placed, other.storage.has(held.id), other.rows()) == (False, False, [])
            held.place()
            assert (held.slot.placed, other.is_held(held.id)) == (True, True)
            assert [row.id for row in other.rows()] == [held.id]

    def test_one_that_is_never_placed_leaves_nothing(self, store: ExecutionStore, other: ExecutionStore) -> None:
        store.create(fresh(), sync=False).release()
        assert other.rows() == []

    def test_a_small_one_is_kept_with_others(self, store: ExecutionStore, other: ExecutionStore) -> None:
        one = packed(store, title="small")
        (row,) = store.rows()
        assert (row.id, row.title, row.packed, row.status) == (one, "small", True, "completed")
        assert row.size > 0
        assert other.load(one).results["run"].output == "2"
        assert kinds(other, one) == ["created", "step_finished", "status"]
        records, end = other.read_from(one, 0)
        assert (len(records), other.read_from(one, end)) == (3, ([], end))
        assert other.find(one[:18]) == one
        assert store.index.totals("runtime")["cli"].count == 1

    def test_it_is_held_like_any_other(self, store: ExecutionStore, other: ExecutionStore) -> None:
        one = packed(store)
        store.flush()
        with other.hold(one) as held:
            assert held.slot.placed
            assert store.is_held(one)
        assert [row.packed for row in store.rows()] == [False]
        assert kinds(store, one) == ["created", "step_finished", "status"]

    def test_it_has_finished(self, store: ExecutionStore) -> None:
        with pytest.raises(ExecutionConflict, match="has finished: it is completed"):
            store.checkpoint(packed(store), "late")

    def test_a_large_one_is_placed_at_once(self, store: ExecutionStore) -> None:
        with store.create(fresh(), sync=False) as held:
            assert held.may_pack(100)
            held.append("progress", {"text": "x" * MAX_PACKED})
            assert (held.slot.placed, held.may_pack(0)) == (True, False)


class TestRequests:
    def test_to_stop_is_heard_once(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            assert not held.interrupt_requested()
            assert other.ask_to_interrupt(held.id) is None
            assert (held.interrupt_requested(), held.interrupt_requested()) == (True, False)

    def test_to_stop_one_that_waits_needs_nobody(self, store: ExecutionStore, other: ExecutionStore) -> None:
        resting = other.ask_to_interrupt(made(store, "paused"))
        assert resting is not None
        assert resting.status == "interrupted"
        with pytest.raises(ExecutionConflict, match="has finished: it is completed"):
            other.ask_to_interrupt(made(store))

    def test_that_nobody_heard_is_not_meant_for_the_next(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            other.ask_to_interrupt(held.id)
        with other.hold(held.id) as again:
            assert not again.interrupt_requested()

    def test_a_mark_is_made_by_who_has_it(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            with _answering(held) as heard:
                assert other.checkpoint(held.id, "here", [1]).checkpoints[0].value == [1]
                assert other.remove_checkpoint(held.id, "here").checkpoints == ()
            assert heard == [True, True]

    def test_a_mark_of_one_that_nobody_has_is_made_at_once(self, store: ExecutionStore) -> None:
        one = made(store, "interrupted")
        assert [mark.label for mark in store.checkpoint(one, "here").checkpoints] == ["here"]
        assert [mark.label for mark in store.load(one).checkpoints] == ["here"]

    def test_who_does_not_answer_may_hang(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh()) as held, pytest.raises(ExecutionConflict, match="does not answer: it may hang"):
            other.storage.ask_for_mark(held.id, b"{}", 0.05)

    def test_who_goes_without_an_answer_is_not_waited_for(self, store: ExecutionStore, other: ExecutionStore) -> None:
        held = store.create(fresh())
        threading.Timer(0.05, held.release).start()
        assert not other.storage.ask_for_mark(held.id, json.dumps({"label": "x"}).encode(), 30.0)
        with other.hold(held.id) as again:
            assert not again.mark_requested()  # it is asked of nobody


class _answering:
    """The process that has an execution, which looks now and then."""

    def __init__(self, held: OwnedExecution) -> None:
        self._held, self._over, self._heard = held, threading.Event(), list[bool]()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(0.005):
            if self._held.mark_requested():
                self._heard.append(True)

    def __enter__(self) -> list[bool]:
        self._thread.start()
        return self._heard

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


class TestFinding:
    def test_rows_the_newest_first_and_filtered(self, store: ExecutionStore, other: ExecutionStore) -> None:
        first = made(store, title="first", client="ann")
        time.sleep(0.002)  # an id has milliseconds
        between = time.time()
        time.sleep(0.002)
        second = made(store, "interrupted", parent=first)
        third = packed(store)
        store.flush()
        assert [row.id for row in other.rows()] == [third, second, first]
        assert [row.id for row in other.rows(1)] == [third]
        for filters, wanted in (
            ({"status": "interrupted"}, [second]),
            ({"kind": "code"}, [third]),
            ({"parent": first}, [second]),
            ({"client": "ann"}, [first]),
            ({"client": ""}, [third, second, first]),
            ({"since": between}, [third, second]),
            ({"before": between}, [first]),
            ({"status": "completed", "kind": "task"}, [first]),
            ({"text": "FIRS"}, [first]),
            ({"text": "%"}, []),
            ({"text": "f_rst"}, []),
            ({"tool": "t.a"}, [second, first]),
            ({"tool": "t.b"}, []),
            ({"runtime": "none"}, []),
            ({"below": third}, [second, first]),
            ({"below": first}, []),
        ):
            assert [row.id for row in other.rows(**filters)] == wanted, filters
        assert (other.rows()[2].title, other.rows()[2].resumable, other.rows()[1].resumable) == ("first", False, True)

    def test_one_is_counted_as_interrupted_once_nobody_has_it(self, store: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            assert (store.counts()["running"], store.counts()["interrupted"]) == (1, 0)
        assert (store.counts()["running"], store.counts()["interrupted"]) == (0, 1)
        assert [row.status for row in store.rows(status="interrupted")] == ["interrupted"]

    def test_one_is_found_by_the_beginning_of_its_id(self, store: ExecutionStore, other: ExecutionStore) -> None:
        one, two = made(store), made(store)
        assert other.find(one) == one
        with pytest.raises(
            ExecutionNotFound, match=rf"{one[:4]} fits several executions: {one[-8:]} \(x\), {two[-8:]}"
        ):
            other.find(one[:4])
        with pytest.raises(ExecutionNotFound, match=r"there is no execution ffffffff"):
            other.find("ffffffff")

    def test_one_is_found_by_its_short_id(self, store: ExecutionStore, other: ExecutionStore) -> None:
        one = made(store)
        for text in (short_id(one), one[-12:], one[-10:]):
            assert other.find(text) == one
        assert other.index.shared() == set()

    def test_a_short_id_of_two_fits_both(self, store: ExecutionStore, other: ExecutionStore) -> None:
        one, two = new_id(), new_id()
        two = f"{two[:-12]}{'0' if one[-12] == 'f' else 'f'}{two[-11:-8]}{one[-8:]}"  # their last twelve differ
        for execution_id in (one, two):
            store.create(fresh(id=execution_id, title="the same end")).release()
        with pytest.raises(ExecutionNotFound, match=rf"fits several executions: {one} \(the same end\), {two}"):
            other.find(short_id(one))
        assert other.find(one[-12:]) == one
        assert other.index.shared() == {short_id(one)}

    @pytest.mark.parametrize(
        ("by", "name", "count", "successes"),
        [("strategy", "single", 2, 2), ("tool", "t.a", 4, 2), ("runtime", "unknown", 2, 2)],
    )
    def test_totals(self, store: ExecutionStore, by: Grouping, name: str, count: int, successes: int) -> None:
        made(store)
        made(store)
        totals = store.index.totals(by)[name]
        assert (totals.count, totals.successes) == (count, successes)
        assert store.index.totals(by, since=time.time() + 60) == {}

    def test_an_older_state_does_not_replace_a_newer_one(self, store: ExecutionStore) -> None:
        with store.create(fresh()) as held:
            before = held.state
            held.move("running")
            held.move("completed")
            store.index.put(before)
        assert [row.status for row in store.rows()] == ["completed"]

    def test_the_index_has_all_of_them(self, store: ExecutionStore) -> None:
        assert store.index.check() is None
        made(store)
        found = store.index.check()
        assert found is not None
        assert (found.known, found.there, found.behind, found.problem) == (1, 1, False, "")
        assert (store.index.missing(), store.index.rebuild()) == ({}, 1)

    def test_which_images_are_needed(self, store: ExecutionStore) -> None:
        assert not store.storage.needs_image("abc")
        made(store, "interrupted", environment=Environment(go_ent="0", python="3", image="abc"))
        made(store, environment=Environment(go_ent="0", python="3", image="def"))
        assert (store.storage.needs_image("abc"), store.storage.needs_image("def")) == (True, False)


class TestRemoving:
    def test_the_oldest_go_and_what_can_be_resumed_or_is_held_stays(
        self, store: ExecutionStore, other: ExecutionStore
    ) -> None:
        old, resting, small = made(store), made(store, "interrupted"), packed(store)
        with store.create(fresh()) as held:
            held.move("running")
            would = prune(other, keep=0, dry_run=True)
            assert (would.removed, would.kept_resumable) == ([old, small], 2)
            pruned = prune(other, keep=0)
            assert (pruned.removed, pruned.bytes > 0, pruned.failed) == ([old, small], True, {})
            assert prune(other, keep=0, resumable=True).removed == [resting]
        assert [row.id for row in store.rows()] == [held.id]
        for gone in (old, small, resting):
            with pytest.raises(ExecutionNotFound):
                store.load(gone)
        assert store.index.totals("strategy") == {}

    def test_by_size_the_newest_that_fit_stay(self, store: ExecutionStore) -> None:
        first, second = made(store), made(store)
        (size,) = store.storage.sizes(store.rows(1)).values()
        assert prune(store, max_bytes=size).removed == [first]
        assert [row.id for row in store.rows()] == [second]

    def test_processes_take_turns(self, store: ExecutionStore, other: ExecutionStore) -> None:
        made(store)
        with store.storage.turn_to_prune(EVERY_S) as mine, other.storage.turn_to_prune(EVERY_S) as theirs:
            assert (mine, theirs) == (True, False)
        with other.storage.turn_to_prune(EVERY_S) as again, store.storage.turn_to_prune(0.0):
            assert not again
        with other.storage.turn_to_prune(0.0) as again:
            assert again


class TestAttachments:
    def test_they_are_kept_beside_it_and_never_written_over(self, store: ExecutionStore, other: ExecutionStore) -> None:
        with store.create(fresh(), sync=False) as held:
            kept = held.attachments("context")
            assert held.slot.placed
            kept.prepare()
            with kept.alone():
                kept.add("0001.json", b"one")
            with pytest.raises(FileExistsError):
                kept.add("0001.json", b"two")
        found = other.storage.attachments(held.id, "context")
        assert [name for name in found.names(10) if not name.startswith(".")] == ["0001.json"]
        assert found.read("0001.json", 10) == b"one"
        assert len(found.read("0001.json", 2)) == 3  # one that is too large is seen to be
        assert other.storage.attachments(held.id, "others").names(10) == []
        with pytest.raises(FileNotFoundError):
            found.read("0002.json", 10)


class TestLiving:
    async def test_an_execution_from_its_beginning_to_its_end(
        self, store: ExecutionStore, other: ExecutionStore
    ) -> None:
        lifecycle = Lifecycle(store, RetentionConfig())
        held = await lifecycle.begin(fresh(), synced=True)

        async def steps() -> Ending:
            held.move("running")
            return Ending("completed", TaskResult(execution_id=held.id, status="COMPLETE", strategy="single"))

        await lifecycle.carry(Live(held, Tapes(held, replay=False)), steps)
        await lifecycle.close()
        assert held.slot.released
        assert (other.load(held.id).status, [row.status for row in other.rows()]) == ("completed", ["completed"])
        assert other.index.totals("strategy")["single"].count == 1

    async def test_another_process_stops_one(self, store: ExecutionStore, other: ExecutionStore) -> None:
        lifecycle = Lifecycle(store, RetentionConfig())
        held = await lifecycle.begin(fresh(), synced=True)
        live = Live(held, Tapes(held, replay=False))

        async def steps() -> Ending:
            held.move("running")
            await asyncio.to_thread(other.ask_to_interrupt, held.id)
            stopped = asyncio.Event()
            live.stop.hang(stopped, stopped.set)
            await stopped.wait()
            return Ending("interrupted")

        await lifecycle.carry(live, steps)
        await lifecycle.close()
        assert other.load(held.id).status == "interrupted"


def test_damage_to_files_is_told(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    one = made(ExecutionStore(storage))
    folder = storage.folder / one
    (folder / "journal.jsonl").write_bytes((folder / "journal.jsonl").read_bytes()[:-100])
    (folder / "state.json").unlink()
    assert ExecutionStore(storage).load(one).damage
    (folder / "journal.jsonl").write_bytes(b"nothing\n" * 3)
    with pytest.raises(BadState, match="its journal does not tell how it began"):
        ExecutionStore(storage).load(one)
