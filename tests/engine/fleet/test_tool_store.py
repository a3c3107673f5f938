"""Composed tools of a fleet: two folders stand for two machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.composer import StoreError
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.composer.errors import ComposeRefused
from go_ent.engine.fleet import tool_store
from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.tool_store import FleetToolStore
from tests.composer.conftest import DOUBLE

TRIPLE = DOUBLE.replace("2 * n", "3 * n").replace('"result": 4', '"result": 6')
Open = Callable[[str], FleetToolStore]


@pytest.fixture
def machine(fleet: Address, tmp_path: Path) -> Iterator[Open]:
    database = Database(fleet)
    yield lambda name: FleetToolStore(database, Store(tmp_path / name / "composed-tools", "project"), name)
    database.close()


def wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_one_machine_saves_the_other_is_told_of(machine: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_store, "AGAIN_S", 90.0)  # later than the test would wait: it does not look by itself
    a, b = machine("a"), machine("b")
    assert list(b.scan()) == list(b.scan()) == []  # the second look follows
    time.sleep(0.2)
    version, created = a.save(toolfile.read(DOUBLE))
    assert (version.number, created) == (1, True)
    wait_for(lambda: list(b.scan()) == ["double"])
    file = b.read("double")
    assert file is not None
    assert (file.metadata.version, file.digest) == (1, toolfile.read(DOUBLE).digest)


def test_versions_are_the_fleets(machine: Open) -> None:
    a, b = machine("a"), machine("b")
    a.save(toolfile.read(DOUBLE))
    assert a.save(toolfile.read(DOUBLE))[1] is False
    b.scan()
    assert b.save(toolfile.read(TRIPLE))[0].number == 2
    assert [version.number for version in a.versions("double")] == [1, 2]
    assert "3 * n" in a.version("double", 2).source
    assert a.rollback("double", 1).number == 3
    b.catch_up()
    now = b.read("double")
    assert now is not None
    assert ("2 * n" in now.source, now.metadata.version) == (True, 3)
    with pytest.raises(ComposeRefused, match="has another tool of that name"):
        b.save(toolfile.read(TRIPLE), replace=False)


def test_a_removed_tool_is_removed_everywhere_and_can_be_brought_back(machine: Open) -> None:
    a, b = machine("a"), machine("b")
    a.save(toolfile.read(DOUBLE))
    b.scan()
    b.remove("double")
    a.catch_up()
    assert (a.scan(), [version.number for version in a.versions("double")]) == ({}, [1])
    a.rollback("double", 1)
    b.catch_up()
    assert list(b.scan()) == ["double"]


def test_what_was_edited_here_is_kept_and_told_until_it_is_pushed(machine: Open) -> None:
    a, b = machine("a"), machine("b")
    a.save(toolfile.read(DOUBLE))
    b.scan()
    path = Path(b.where) / "double.py"
    path.write_text(path.read_text().replace("2 * n", "20 * n"))
    a.save(toolfile.read(TRIPLE))
    b.catch_up()
    assert "20 * n" in path.read_text()
    assert "was changed here" in b.pull()["double"]
    assert "not pushed: the fleet has version 2" in b.push()["double"]
    assert b.push(["double"]) == {"double": "is version 3 now"}
    a.catch_up()
    assert "20 * n" in (Path(a.where) / "double.py").read_text()
    assert (b.pull(), b.push()) == ({}, {"double": "is what the fleet has"})


def test_tools_of_a_checkout_are_pushed(machine: Open) -> None:
    a, b = machine("a"), machine("b")
    Store(Path(a.where), "project").save(toolfile.read(DOUBLE))
    assert list(a.scan()) == ["double"]
    assert a.push() == {"double": "is version 1 now"}
    assert list(b.scan()) == ["double"]


def test_a_hostile_row_is_one_bad_tool(machine: Open, fleet: Address) -> None:
    a, b = machine("a"), machine("b")
    a.save(toolfile.read(DOUBLE))
    database = Database(fleet)
    for name, digest, source in (
        ("../../evil", "0" * 64, DOUBLE),
        ("forged", "1" * 64, DOUBLE.replace("double", "forged")),
        ("huge", "2" * 64, "x" * (4 << 20)),
        ("nothing", "3" * 64, "\x01"),
    ):
        database.tell("insert into $.tool_contents values (%s, %s)", (digest, source))
        database.tell("insert into $.tool_versions values (%s, 1, %s, now(), 'x')", (name, digest))
        database.tell("insert into $.tool_heads values (%s, 1)", (name,))
    database.close()
    assert list(b.scan()) == ["double"]
    assert set(b.conflicts) == {"../../evil", "forged", "huge", "nothing"}
    assert "is damaged" in b.conflicts["forged"]
    assert not (Path(b.where).parent.parent / "evil.py").exists()


def test_without_a_server_the_folder_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("go_ent.engine.fleet.tool_store.FIRST_S", 0.0)
    nowhere = f"postgresql://x@/x?host={tmp_path}"
    folder = Store(tmp_path / "composed-tools", "project")
    folder.save(toolfile.read(DOUBLE))
    store = FleetToolStore(Database(Address(nowhere, nowhere, "go_ent")), folder, "a")
    assert list(store.scan()) == ["double"]
    assert [version.number for version in store.versions("double")] == [1]
    monkeypatch.setattr("go_ent.engine.fleet.database.PATIENCE_S", 0.0)
    with pytest.raises(StoreError, match="the fleet's Postgres can't be used"):
        store.remove("double")
