"""What everything that keeps composed tools must do, in files and in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from go_ent.composer import BadName, Composer, ComposeRefused, StoreError
from go_ent.composer.composed import store as store_module
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.memory_store import MemoryToolStore
from go_ent.composer.composed.store import Store
from go_ent.composer.composed.tool_store import ToolStore
from go_ent.sandbox import Sandbox
from tests.composer.conftest import DOUBLE, tool

TRIPLE = toolfile.read(DOUBLE.replace("2 * n", "3 * n").replace('"result": 4', '"result": 6'))
TWICE = toolfile.read(DOUBLE)


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ToolStore:
    return Store(tmp_path / "composed-tools", "project") if request.param == "files" else MemoryToolStore()


def source(store: ToolStore) -> str:
    file = store.read("double")
    assert file is not None
    return file.source


class TestAnyStore:
    def test_it_begins_empty(self, store: ToolStore) -> None:
        assert (dict(store.scan()), store.versions("double"), store.read("double")) == ({}, [], None)
        assert (store.find("double"), store.strangers(), store.ignored()) == (None, [], [])
        for missing in (store.text, store.remove):
            with pytest.raises(StoreError):
                missing("double")

    def test_the_same_again_is_no_new_version(self, store: ToolStore) -> None:
        first, created = store.save(TWICE)
        again, created_again = store.save(TWICE)
        assert (first.number, created, again, created_again) == (1, True, first, False)
        assert first.digest == TWICE.digest[:16]
        assert store.adopt(TWICE) == first

    def test_a_scan_is_another_object_when_something_is_another(self, store: ToolStore) -> None:
        store.save(TWICE)
        seen = store.scan()
        assert store.scan() is seen
        assert seen["double"] == store.find("double")
        store.save(TRIPLE)
        changed = store.scan()
        assert changed is not seen
        assert changed["double"].stamp != seen["double"].stamp
        store.remove("double")
        assert not store.scan()
        assert list(seen) == ["double"]

    def test_versions_stay_and_come_back(self, store: ToolStore) -> None:
        store.save(TWICE)
        store.save(TRIPLE)
        store.remove("double")
        assert [version.number for version in store.versions("double")] == [1, 2]
        assert store.rollback("double", 1).number == 3
        assert "2 * n" in source(store)
        assert "# version = 3" in store.text("double")
        assert "3 * n" in store.version("double", 2).source
        assert store.rollback("double", 3).number == 3  # it is what is current
        with pytest.raises(StoreError, match="double has no version 7; it has 1, 2, 3"):
            store.version("double", 7)

    def test_another_tool_is_left_alone_unless_it_is_to_be_replaced(self, store: ToolStore) -> None:
        store.save(TWICE)
        assert not store.save(TWICE, replace=False)[1]
        with pytest.raises(ComposeRefused, match="has another tool of that name"):
            store.save(TRIPLE, replace=False)
        assert "2 * n" in source(store)

    def test_names_that_are_none(self, store: ToolStore) -> None:
        for look in (store.find, store.read, store.versions, store.remove, store.text):
            with pytest.raises(BadName):
                look("../etc/passwd")

    def test_several_at_once_lose_nothing(self, store: ToolStore) -> None:
        with ThreadPoolExecutor(4) as threads:
            files = [toolfile.read(tool("many", f"x = {number}\n")) for number in range(8)]
            made = [version.number for version, _ in threads.map(store.save, files)]
        assert sorted(made) == [version.number for version in store.versions("many")] == list(range(1, 9))

    async def test_a_composer_works_over_it(self, store: ToolStore, tmp_path: Path, box: Sandbox) -> None:
        async with Composer(tmp_path, box=box, stores=[store]) as composer:
            await composer.compose(DOUBLE)
            assert (await composer.run("double", {"n": 4})).result == 8
            store.save(TRIPLE)
            assert (await composer.run("double", {"n": 4})).result == 12


class TestFilesThatWereLookedAt:
    """A store that has not changed is recognised without a look at every entry: whatever changes is seen."""

    @pytest.fixture
    def looks(self, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        """The folders that were looked through."""
        looks: list[object] = []
        scandir = os.scandir

        def look(path: str) -> object:
            looks.append(path)
            return scandir(path)

        monkeypatch.setattr(os, "scandir", look)
        return looks

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        store = Store(tmp_path / ".go-ent" / "composed-tools", "project")
        store.save(TWICE)
        os.utime(store.folder, (1, 1))  # long ago
        store.scan()
        return store

    def test_nothing_is_looked_through_that_has_not_changed(self, store: Store, looks: list[object]) -> None:
        seen = store.scan()
        assert (store.scan() is seen, looks) == (True, [])

    def test_a_file_that_is_new_gone_or_edited(self, store: Store) -> None:
        (store.folder / "other.py").write_text("x = 1\n")
        assert sorted(store.scan()) == ["double", "other"]
        os.utime(store.folder, (1, 1))
        before = store.scan()["other"]
        (store.folder / "other.py").write_text("x = 12\n")
        assert store.scan()["other"] != before
        (store.folder / "double.py").unlink()
        assert list(store.scan()) == ["other"]

    def test_a_folder_that_has_only_just_changed_is_looked_through(self, store: Store, looks: list[object]) -> None:
        (store.folder / "other.py").write_text("x = 1\n")
        store.scan()
        store.scan()
        assert looks == [store.folder, store.folder]

    def test_a_link_in_its_place(self, store: Store, tmp_path: Path) -> None:
        state = tmp_path / ".go-ent"
        state.rename(tmp_path / "elsewhere")
        state.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreError, match="is a link, or in one"):
            store.scan()


def test_what_threads_see_of_a_folder_is_never_less_than_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one thread names what it found in its first look, others look."""
    folder = tmp_path / "tools"
    Store(folder, "project").save(toolfile.read(DOUBLE))
    os.utime(folder, ns=(1, 1))  # long ago, so that one look settles it
    fresh, seen = Store(folder, "project"), []
    monkeypatch.setattr(store_module, "NAME", Looked(lambda: seen.append(list(fresh.scan()))))
    assert list(fresh.scan()) == ["double"]
    assert seen == [["double"]]


class Looked:
    """The pattern of names; the first time that it is asked, something else happens too."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens: list[Callable[[], None]] = [happens]

    def fullmatch(self, name: str) -> re.Match[str] | None:
        while self._happens:
            self._happens.pop()()
        return re.fullmatch("[a-z_]+", name)
