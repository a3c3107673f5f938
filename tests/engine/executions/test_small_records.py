"""The record of a small execution: made while its guest runs, and no less whole for that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.spec import Hints
from go_ent.composer.errors import StoreError
from go_ent.composer.sources.functions import FunctionSource
from go_ent.engine import Engine, GuestOrder
from go_ent.engine.core.errors import BadTask, ExecutionConflict
from go_ent.engine.executions.owned import NewState, OwnedExecution
from go_ent.engine.executions.tape import Tapes
from go_ent.sandbox import Sandbox
from tests.support.executions import FileStore
from tests.support.packed import fresh


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    made = FileStore(tmp_path)
    yield made
    made.close()


class Counted:
    """A new state, and how often it was made."""

    def __init__(self) -> None:
        self.state, self.times = fresh(), 0

    def fields(self) -> dict[str, Any]:
        self.times += 1
        time.sleep(0.01)
        return self.state.model_dump(exclude_defaults=True) | {"version": 3}

    def held(self, store: FileStore) -> OwnedExecution:
        return store.create(NewState(self.state.id, self.state.status, self.fields), sync=False)


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth > 1 else [1]


class TestItsState:
    def test_is_made_when_it_is_needed_and_once(self, store: FileStore) -> None:
        counted = Counted()
        held = counted.held(store)
        assert (held.id, held.status, counted.times) == (counted.state.id, "running", 0)
        threads = [threading.Thread(target=held.append, args=("cancel", {"path": "run"})) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert counted.times == 1
        assert held.state == counted.state
        assert [record["kind"] for record in held.records()] == ["created", *["cancel"] * 8]
        held.release()

    def test_is_what_its_record_says_whoever_looks_first(self, store: FileStore) -> None:
        counted = Counted()
        held = counted.held(store)
        for number in range(3):
            held.append("call", {"path": f"run/{number}", "tool": "w.look", "digest": "", "heard": ""})
        held.move("completed")
        assert (held.status, held.state.status, held.state.calls) == ("completed", "completed", 3)
        held.release()
        loaded = store.load(held.id)
        assert (loaded.status, loaded.calls, loaded.finished) == ("completed", 3, held.state.finished)

    def test_of_one_that_has_ended_can_not_change(self, store: FileStore) -> None:
        held = Counted().held(store)
        held.move("completed", sync=False)
        with pytest.raises(ExecutionConflict, match="it has finished: it is completed"):
            held.move("running")
        held.release()


class TestWhatIsRecordedLater:
    def test_comes_before_anything_else_and_in_its_order(self, store: FileStore) -> None:
        held = Counted().held(store)
        tapes = Tapes(held, replay=False)
        for number in range(3):
            tapes.soon(lambda number=number: tapes.append("cancel", {"path": f"later {number}"}))  # type: ignore[misc]
        assert held.slot.seq == 0
        tapes.append("cancel", {"path": "now"})
        assert [record["path"] for record in list(held.records())[1:]] == ["later 0", "later 1", "later 2", "now"]
        held.release()

    def test_is_on_disk_with_the_rest_once_it_must_be(self, store: FileStore) -> None:
        held = Counted().held(store)
        tapes = Tapes(held, replay=False)
        tapes.soon(lambda: tapes.append("cancel", {"path": "before"}))
        held.place()
        tapes.soon(lambda: tapes.append("cancel", {"path": "after"}))
        held.release()
        assert [record.get("path") for record in store.records(held.id)] == [None, "before", "after"]

    def test_is_on_disk_though_it_was_placed_just_before(self, store: FileStore) -> None:
        held = Counted().held(store)
        tapes = Tapes(held, replay=False)
        held.place()
        held.later(lambda: tapes.append("cancel", {"path": "late"}))
        assert [record.get("path") for record in store.records(held.id)] == [None, "late"]
        held.release()

    def test_stays_in_order_while_others_write(self, store: FileStore) -> None:
        held = Counted().held(store)
        tapes = Tapes(held, replay=False)

        def calls(who: int) -> None:
            for number in range(40):
                path = f"{who}/{number}"
                tapes.soon(lambda path=path: tapes.append("cancel", {"path": path, "calls": [1]}))  # type: ignore[misc]
                tapes.append("cancel", {"path": path, "calls": [2]})

        threads = [threading.Thread(target=calls, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = [(record["path"], record["calls"][0]) for record in list(held.records())[1:]]
        assert len(said) == 320
        for who in range(4):
            mine = [one for one in said if one[0].startswith(f"{who}/")]
            assert mine == [(f"{who}/{number}", turn) for number in range(40) for turn in (1, 2)]
        held.release()


class TestAsARun:
    async def test_a_call_is_timed_from_when_it_was_made(self, tmp_path: Path, box: Sandbox) -> None:
        def wait(n: int) -> int:
            time.sleep(0.05)
            return n

        source = FunctionSource([wait], "w", hints={"wait": Hints(read_only=True)})
        composer = Composer(tmp_path, sources=[source], box=box, trusted=True)
        composer.grants = composer.code.grants = Grants(["w.*"])
        async with composer, Engine(tmp_path, composer=composer, trusted=True) as engine:
            run = await engine.guests.run(GuestOrder(code="await tools.w.wait(n=1)"))
            assert run.ok, run.error
            found = {record["kind"]: record for record in engine.store.records(run.id)}
        assert found["answer"]["at"] - found["call"]["at"] >= 0.05

    async def test_what_is_no_json_is_refused_and_what_is_given_is_recorded_as_it_was_then(
        self, tmp_path: Path, box: Sandbox
    ) -> None:
        composer = Composer(tmp_path, box=box, trusted=True)
        async with composer, Engine(tmp_path, composer=composer, trusted=True) as engine:
            for order, why in (
                (GuestOrder(code="'\ud800'"), "half a character"),
                (GuestOrder(code="x", inputs={"x": ["\udcff"]}), "half a character"),
                (GuestOrder(code="x", inputs={"x": object()}), "Unable to serialize unknown type"),
                (GuestOrder(code="x", inputs={"x": nested(260)}), "can't be put on record"),
                (GuestOrder(code="x", inputs={"x": 10**5000}), "can't be put on record"),
            ):
                with pytest.raises(BadTask, match=why):
                    await engine.guests.run(order)
            given = {"x": [1]}
            held = await engine.guests.begin(GuestOrder(code="x", inputs=given), composer)
            given["x"].append(2)
            assert held.state.work["guest"]["inputs"] == {"x": [1]}
            held.release()
            assert await engine.executions() == []
            run = await engine.guests.run(GuestOrder(code="str(x).count('[')", inputs={"x": nested(230)}))
            assert run.result == 230, run.error
            assert engine.store.load(run.id).work["guest"]["inputs"] == {"x": nested(230)}

    async def test_without_the_users_key_it_is_refused_and_the_next_one_runs(
        self, tmp_path: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "data"))
        composer = Composer(tmp_path, box=box, trusted=True)
        async with composer, Engine(tmp_path, composer=composer, trusted=True) as engine:
            assert (await engine.guests.run(GuestOrder(code="1"))).ok
            key = tmp_path / "data" / "key"
            key.write_bytes(b"short")
            with pytest.raises(StoreError, match="is not the user's key any more"):
                await engine.guests.run(GuestOrder(code="while True: pass"))
            key.unlink()
            assert (await engine.guests.run(GuestOrder(code="2"))).result == 2
            assert not box.running
