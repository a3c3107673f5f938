"""The databases of a project's state: which may be opened, and how, so that SQLite's locks hold."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import weakref
from pathlib import Path

from go_ent.files import read_bounded

File = tuple[int, int]
WAL = b"\x02\x02"  # bytes 18 and 19 of a database in WAL mode

# The kernel drops all locks that a process has on a file as soon as the process closes any descriptor of it. Without
# them another process takes the log of a database that is in use for a leftover, and removes it: what is read from then
# on is old, and what is written is lost. So nothing here opens the file itself while a connection of ours is open.
_guard = threading.RLock()  # a connection may be collected, and closed, at any time
_connections: weakref.WeakSet[_Connection] = weakref.WeakSet()


class _Connection(sqlite3.Connection):
    """A connection that is known of until it is closed."""

    file: File | None = None

    def close(self) -> None:
        with _guard:
            super().close()
            _connections.discard(self)


def connect(path: Path, timeout_s: float, *, any_thread: bool = False) -> sqlite3.Connection:
    """A connection to a database that is there, without transactions of its own. See `check_database`."""
    with _guard:
        database = sqlite3.connect(
            path.absolute().as_uri() + "?mode=rw",
            uri=True,
            timeout=timeout_s,
            isolation_level=None,
            check_same_thread=not any_thread,
            factory=_Connection,
        )
        with contextlib.suppress(FileNotFoundError):  # it was just removed
            database.file = _file(path)
        _connections.add(database)
    return database


def check_database(path: Path) -> None:
    """Refuse a database of ours that somebody else has made up: before SQLite opens it, it obeys what lies beside it.

    Ours are always in WAL mode. A rollback journal can name any file for SQLite to delete.
    """
    if os.path.lexists(f"{path}-journal"):
        raise OSError(f"{path}-journal is none of ours: remove it")
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):  # the latter two come and go with connections
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(name.lstat().st_mode):
                raise OSError(f"{name} is not an ordinary file")
    with _guard, contextlib.suppress(FileNotFoundError):
        if _file(path) in {one.file for one in _connections}:
            return  # it was checked when that was opened
        if read_bounded(path, 19)[18:20] != WAL:
            raise OSError(f"{path} is not a database of ours: move it away")


def _file(path: Path) -> File:
    found = path.lstat()
    return found.st_dev, found.st_ino
