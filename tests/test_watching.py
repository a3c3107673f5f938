"""Being told of what changes in folders."""

from __future__ import annotations

import ctypes
import queue
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from go_ent import watching
from go_ent.watching import FolderWatch
from tests.support.watching import Told, heard, settle


@pytest.fixture
def told() -> Told:
    return queue.Queue()


@pytest.fixture
def watch(told: Told, tmp_path: Path) -> Iterator[FolderWatch]:
    made = FolderWatch(lambda: told.put(None))
    made.follow([tmp_path / "there"])
    heard(told)
    yield made
    made.close()


@pytest.mark.usefixtures("watch")
def test_a_folder_that_is_made_later_is_watched_from_then_on(told: Told, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    heard(told)
    (tmp_path / "there" / "file").write_text("x")
    heard(told)


def test_a_folder_that_is_removed_and_made_again(watch: FolderWatch, told: Told, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    for _ in range(2):
        folder.mkdir()
        heard(told)
        folder.rmdir()
        heard(told)


def test_what_only_reads_a_database_is_no_change(watch: FolderWatch, told: Told, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    heard(told)
    with sqlite3.connect(folder / "some.db") as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("create table numbers (n int)")
    database.close()
    settle(told, folder)
    for _ in range(3):
        reading = sqlite3.connect(folder / "some.db")
        reading.execute("select * from numbers").fetchall()
        reading.close()
    settle(told, folder, most=1)


def test_nobody_is_told_once_it_is_closed(watch: FolderWatch, told: Told, tmp_path: Path) -> None:
    watch.close()
    (tmp_path / "there").mkdir()
    assert told.empty()
    watch.follow([tmp_path])  # does nothing
    watch.close()


def test_a_link_is_not_followed(watch: FolderWatch, told: Told, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "there").symlink_to(tmp_path / "elsewhere")
    watch.follow([tmp_path / "there"])
    heard(told)
    (tmp_path / "elsewhere" / "file").write_text("x")
    watch.close()
    assert told.empty()


def test_where_the_kernel_watches_nothing_more(
    monkeypatch: pytest.MonkeyPatch, told: Told, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Library:
        def inotify_init1(self, _: int) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Library())
    monkeypatch.setattr(watching, "FALLBACK_S", 0.001)
    watch = FolderWatch(lambda: told.put(None))
    watch.follow([tmp_path])
    heard(told)
    heard(told)
    watch.close()
    assert "every second" in caplog.text
