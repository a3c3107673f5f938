"""The record of a part of an execution: what of it is written while it runs, and what is told with its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.engine.executions.storage import Record
from go_ent.engine.fleet.database import Address
from go_ent.engine.fleet.execution_storage import PostgresStorage
from go_ent.engine.fleet.records import MOST_REST, rest_of
from go_ent.engine.fleet.slot import PostgresSlot
from go_ent.engine.storage.records import encode
from tests.engine.executions.test_executions import fresh
from tests.support.fleet import storages

Open = Callable[[], PostgresStorage]


@pytest.fixture
def another(fleet: Address) -> Iterator[Open]:
    with storages(fleet) as opened:
        yield opened


def notes(storage: PostgresStorage, slot: str, rest: bytes) -> list[int]:
    """The numbers of a part's records, as who sent it puts them together."""
    records = list(storage.records(slot)) if storage.has_slot(slot) else []
    told = rest_of({"rest": rest.decode()}, records[-1]["seq"] if records else 0)
    return [one["seq"] for one in (*records, *told)]


def part(storage: PostgresStorage, name: str) -> PostgresSlot:
    slot = storage.create(f"{fresh().id}/{name}")
    slot.append("note", {"text": "one"})
    return slot


def test_the_last_records_are_told_instead_of_written(another: Open) -> None:
    storage = another()
    slot = part(storage, "a")
    slot.place(fresh())
    slot.append("note", {"text": "two"})
    slot.sync()
    slot.append("note", {"text": "three"})
    rest = slot.leave(fresh(), MOST_REST)
    assert rest.count(b"\n") == 1
    assert [one["text"] for one in storage.records(slot.id)] == ["one", "two"]
    assert notes(storage, slot.id, rest) == [1, 2, 3]
    storage.flush()
    assert storage.database.ask("select owner from $.slots where id = %s", (slot.id,)) == [(None,)]


def test_one_that_nobody_has_seen_is_told_whole(another: Open) -> None:
    storage = another()
    slot = part(storage, "a")
    rest = slot.leave(fresh(), MOST_REST)
    assert not storage.has_slot(slot.id)
    assert notes(storage, slot.id, rest) == [1]


@pytest.mark.parametrize("placed", [True, False])
def test_what_is_too_long_to_be_told_is_written(another: Open, placed: bool) -> None:
    storage = another()
    slot = part(storage, "a")
    if placed:
        slot.place_soon(fresh())
    slot.append("note", {"text": "x" * 2000})
    assert slot.leave(fresh(), 1000) == b""
    assert notes(storage, slot.id, b"") == [1, 2]


def test_one_that_is_placed_soon_is_there_when_it_is_synced(another: Open) -> None:
    storage = another()
    slot = part(storage, "a")
    slot.place_soon(fresh())
    assert slot.placed
    slot.append("note", {"text": "two"})
    slot.sync()
    other = another()
    assert notes(other, slot.id, b"") == [1, 2]
    again = other.create(slot.id)
    again.append("note", {"text": "another's"})
    again.place_soon(fresh())  # there is one of that name
    with pytest.raises(OSError, match="is there already"):
        again.sync()
    assert again.lost
    for one in (slot, again):
        one.leave(fresh())


@pytest.mark.parametrize(
    "rest",
    [None, 7, ["x"], "", "x", "{}\n", "\ud800", '{"seq": 1, "kind": "note"}\n'[:-1], "y" * (MOST_REST + 1)],
    ids=lambda rest: str(rest)[:20].encode(errors="replace").decode(),
)
def test_what_is_no_record_is_not_read(rest: object) -> None:
    assert [one for one in rest_of({"rest": rest}, 0) if one["kind"] != "note"] == []


def test_what_is_told_twice_is_read_once() -> None:
    lines = b"".join(encode(seq, 1.0, "note", {"text": str(seq)}) for seq in (1, 2, 3))
    found: list[Record] = list(rest_of({"rest": lines.decode()}, 2))
    assert [one["text"] for one in found] == ["3"]
    assert list(rest_of(lines.decode(), 0)) == []
