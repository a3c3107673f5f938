"""A database that is only a cache: used by many processes, believed only if it is ours to the letter, thrown away
when damaged.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from go_ent.composer.project.databases import check_database, connect
from go_ent.composer.project.files import locked

T = TypeVar("T")
BUSY_S = 5.0
WORK_S = 20.0
USELESS = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
File = tuple[int, int, bool]


class Damaged(Exception):
    """Internal: raised when the file is no database of ours, or one of another version. It is made anew."""


class IndexFile:
    """One file, opened when it is first needed and again whenever it was replaced. Thread-safe; a transaction at a
    time.

    *ready* is called in the transaction that makes a new one.
    """

    def __init__(
        self, path: Path, version: int, schema: Mapping[str, str], ready: Callable[[sqlite3.Connection], object]
    ) -> None:
        self.path = path
        self._version, self._schema, self._ready = version, schema, ready
        self._lock = threading.Lock()
        self._open: list[sqlite3.Connection] = []
        self._file: File | None = None
        self._deadline = [0.0]  # not an attribute: what a connection calls must not keep this object alive
        weakref.finalize(self, _close_all, self._open)

    def run(self, work: Callable[[sqlite3.Connection], T], *, write: bool) -> T:
        """Do *work* in one transaction. It is done again if the file was useless, or was replaced meanwhile."""
        with self._lock:
            for _ in range(4):
                try:
                    found = self._transaction(work, write=write)
                except (Damaged, sqlite3.DatabaseError) as error:
                    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF not in USELESS:
                        raise
                    self._throw_away()
                else:
                    if self._file == _identity(self.path):
                        return found
            raise sqlite3.DatabaseError(f"{self.path} is damaged again and again")

    def close(self) -> None:
        with self._lock:
            _close_all(self._open)

    def _transaction(self, work: Callable[[sqlite3.Connection], T], *, write: bool) -> T:
        if not self._open or self._file != _identity(self.path):
            self._connect()
        database = self._open[0]
        self._deadline[0] = time.monotonic() + BUSY_S + WORK_S
        database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            found = work(database)
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
            raise
        return found

    def _connect(self) -> None:
        """Under the lock of the one that replaces it: an old file must never meet the log of a new one."""
        _close_all(self._open)
        with self._guarded():
            if not os.path.lexists(self.path):
                self._make()
            self._file = _identity(self.path)
            try:
                check_database(self.path)
            except OSError as error:
                raise Damaged(str(error)) from None
            database = connect(self.path, BUSY_S, any_thread=True)
            self._open.append(database)
            deadline = self._deadline
            deadline[0] = time.monotonic() + BUSY_S + WORK_S
            database.set_progress_handler(lambda: int(time.monotonic() > deadline[0]), 10_000)
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("PRAGMA synchronous=NORMAL")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            found = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 100").fetchall()
            if version != self._version or sorted(found) != sorted(self._schema.items()):
                raise Damaged("it is not an index of this version")

    def _make(self) -> None:
        """Made aside and put in place whole."""
        fresh = self.path.with_name(f".{self.path.name}.new")
        for leftover in (
            fresh,
            *_beside(fresh),
            *_beside(self.path),
        ):  # a log without its database would be replayed into the new one
            leftover.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            create(database, self._version, self._schema)
            self._ready(database)
        fresh.replace(self.path)

    def _throw_away(self) -> None:
        """Unless another process has done so: then there is a new one already."""
        _close_all(self._open)
        with self._guarded():
            if self._file == _identity(self.path):
                # The database first: who has it open then lets the files beside it be.
                for name in (self.path, *_beside(self.path)):
                    name.unlink(missing_ok=True)
            self._file = None

    def _guarded(self) -> contextlib.AbstractContextManager[None]:
        return locked(self.path.with_name(f".{self.path.name}.lock"), patience_s=BUSY_S)


def create(database: sqlite3.Connection, version: int, schema: Mapping[str, str]) -> None:
    for statement in schema.values():
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {version}")


def _identity(path: Path) -> File | None:
    """Which file it is, and whether there is anything in it."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size > 0


def _beside(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        with contextlib.suppress(sqlite3.Error):
            connections.pop().close()
