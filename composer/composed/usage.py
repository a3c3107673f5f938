"""How often each composed tool was used, and how it went. Kept apart from the tools: running one changes no reviewed
file.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from go_ent.composer.project.databases import check_database, connect
from go_ent.composer.project.files import locked
from go_ent.composer.project.items import apart
from go_ent.dataclass import dataclass

log = logging.getLogger("go_ent.composer")
RECENT = 101  # durations that the median is taken from
BUSY_S = 5.0
WORK_S = 5.0
TABLES = """
CREATE TABLE IF NOT EXISTS usage (name TEXT PRIMARY KEY, calls INTEGER NOT NULL, failures INTEGER NOT NULL, last_used REAL NOT NULL);
CREATE TABLE IF NOT EXISTS recent (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, ms REAL NOT NULL);
CREATE INDEX IF NOT EXISTS recent_by_name ON recent (name, id);
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Used:
    """How a tool was used."""

    calls: int = 0
    failures: int = 0
    last_used: float | None = None
    p50_ms: float | None = None


@dataclass(frozen=True, slots=True)
class UsageCall:
    """One use of a tool."""

    name: str
    ok: bool
    ms: float
    at: float


class UsageStore:
    """Counts in a small database: updates of any number of processes add up. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._flushing = threading.Lock()  # who reads waits for who writes
        self._waiting: list[UsageCall] = []
        self._written = 0.0

    def note(self, name: str, ok: bool, ms: float) -> bool:
        """Count a call; whether it is time to `flush`: the last was written a while ago, or many wait."""
        with self._lock:
            self._waiting.append(UsageCall(name, ok, ms, time.time()))
            return time.monotonic() - self._written > 0.5 or len(self._waiting) >= 200

    def flush(self) -> None:
        """Write what waits. Blocks: a disk may take its time."""
        with self._flushing:
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._written = time.monotonic()
        if waiting:
            try:
                self.add(waiting)
            except (sqlite3.Error, OSError, ValueError, TypeError) as error:
                log.warning(
                    "%s can't be written, so %d uses are not counted: %s%s",
                    self._path,
                    len(waiting),
                    error,
                    _mend(error),
                )

    def add(self, calls: Iterable[UsageCall]) -> None:
        """Count calls, all or none of them."""
        by_name: dict[str, list[UsageCall]] = {}
        for call in calls:
            by_name.setdefault(call.name, []).append(call)
        with self._open() as database:
            for name, made in by_name.items():
                failures = sum(not call.ok for call in made)
                self._upsert(database, name, len(made), failures, max(call.at for call in made))
                database.executemany(
                    "INSERT INTO recent (name, ms) VALUES (?, ?)", [(name, call.ms) for call in made[-RECENT:]]
                )
                database.execute(
                    "DELETE FROM recent WHERE name = ? AND id <= (SELECT id FROM recent WHERE name = ? ORDER "
                    "BY id DESC LIMIT 1 OFFSET ?)",
                    (name, name, RECENT),
                )

    def set(self, name: str, calls: int, last_used: float | None) -> None:
        """Take over counts from elsewhere; added to what there is."""
        with self._open() as database:
            self._upsert(database, name, calls, 0, last_used or 0.0)

    @staticmethod
    def _upsert(database: sqlite3.Connection, name: str, calls: int, failures: int, last_used: float) -> None:
        database.execute(
            "INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET calls = calls + excluded.calls, "
            "failures = failures + excluded.failures, last_used = max(last_used, excluded.last_used)",
            (name, calls, failures, last_used),
        )

    def forget(self, name: str) -> None:
        if self._path.exists():
            with self._open() as database:
                database.execute("DELETE FROM usage WHERE name = ?", (name,))
                database.execute("DELETE FROM recent WHERE name = ?", (name,))

    def all(self) -> dict[str, Used]:
        """What is known of every tool."""
        self.flush()
        if not self._path.exists():
            return {}
        try:
            return self._read()
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            log.warning("%s can't be read, so uses are not shown: %s%s", self._path, error, _mend(error))
            return {}

    def _read(self) -> dict[str, Used]:
        with self._open() as database:
            found: dict[str, Used] = {}
            wrong: dict[str, str] = {}
            for name, calls, failures, last_used in database.execute(
                "SELECT name, calls, failures, last_used FROM usage"
            ):
                with apart(f"{self._path}: the uses of {str(name)[:80]}", wrong):
                    recent = sorted(
                        float(ms)
                        for (ms,) in database.execute(
                            "SELECT ms FROM recent WHERE name = ? ORDER BY id DESC LIMIT ?", (name, RECENT)
                        )
                    )
                    p50 = recent[len(recent) // 2] if recent else None
                    found[_text(name)] = Used(_count(calls), _count(failures), float(last_used) or None, p50)
            return found

    def _make(self) -> None:
        """Made aside and put in place whole: two processes that start at once must not meet a half-made one."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path.with_name(f".{self._path.name}.lock")):
            if self._path.exists():
                return
            fresh = self._path.with_name(f".{self._path.name}.new")
            fresh.unlink(missing_ok=True)
            with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as database:
                database.executescript(TABLES)
                database.execute("PRAGMA journal_mode=WAL")
            fresh.replace(self._path)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            self._make()
        check_database(self._path)
        database = connect(self._path, BUSY_S)
        try:
            database.execute("PRAGMA synchronous=NORMAL")
            database.execute("PRAGMA trusted_schema=OFF")
            until = time.monotonic() + WORK_S
            database.set_progress_handler(lambda: int(time.monotonic() > until), 10_000)
            database.execute("BEGIN IMMEDIATE")
            kinds = dict(database.execute("SELECT name, type FROM sqlite_master WHERE name IN ('usage', 'recent')"))
            if kinds != {"usage": "table", "recent": "table"}:
                raise sqlite3.DatabaseError("it is not a database of uses")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
        finally:
            database.close()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a tool's name is a text, not {type(value).__name__}")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise TypeError(f"a count is a whole number, not {str(value)[:40]!r}")
    return value


def _mend(error: Exception) -> str:
    """What to do about a file that will never be right again. It is not removed without being asked: the counts are
    in it alone.
    """
    useless = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return "; move it away to count anew" if useless else ""
