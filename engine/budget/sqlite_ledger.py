"""A ledger in SQLite: one file for all processes of a project, or memory. Check and hold are one transaction."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from go_ent.composer.project.databases import check_database, connect
from go_ent.composer.project.files import STATE, check_folder, ignore_state, locked, sync_folder
from go_ent.engine.budget.ledger import (
    LONGEST_LABEL,
    Cost,
    Counted,
    GroupSum,
    HeldAmount,
    HeldSum,
    LedgerCall,
    Limit,
    OpenHold,
    Refusal,
    SpentSum,
    Wanted,
    storable,
)
from go_ent.engine.core.errors import BadTask, EngineError, LedgerError
from go_ent.sandbox.children.proc import own_identity

FILE = "budget.db"
VERSION = 2
BUSY_S = 30.0
WORK_S = 10.0
KEPT = 200_000  # spends; older ones go when they are of another month
CENT_DUST = 1e-9  # dollars that sums of binary fractions may be off by

SCHEMA = MappingProxyType(
    {
        "spends": (
            "CREATE TABLE spends (key TEXT PRIMARY KEY, execution_id TEXT NOT NULL, task_id TEXT NOT NULL, "
            "runtime TEXT, model TEXT, "
            "role TEXT, usd REAL CHECK (usd >= 0), tokens INTEGER NOT NULL CHECK (tokens >= 0), estimated "
            "INTEGER NOT NULL, "
            "tokens_estimated INTEGER NOT NULL, reserved_usd REAL, reserved_tokens INTEGER NOT NULL, forced "
            "INTEGER NOT NULL, "
            "at REAL NOT NULL, client TEXT NOT NULL DEFAULT '') STRICT"
        ),
        "spends_at": "CREATE INDEX spends_at ON spends (at)",
        "spends_of": "CREATE INDEX spends_of ON spends (execution_id, task_id)",
        "reservations": (
            "CREATE TABLE reservations (key TEXT PRIMARY KEY, execution_id TEXT NOT NULL, task_id TEXT NOT NULL, "
            "usd REAL CHECK (usd >= 0), tokens INTEGER NOT NULL CHECK (tokens >= 0), forced INTEGER NOT NULL, "
            "owner TEXT NOT NULL, "
            "at REAL NOT NULL, client TEXT NOT NULL DEFAULT '') STRICT"
        ),
    }
)

# The last column is what version 2 has added; as SQLite itself writes it then.
ADDED = ", client TEXT NOT NULL DEFAULT ''"
SCHEMA_1 = MappingProxyType({name: text.replace(ADDED, "") for name, text in SCHEMA.items()})

# An unknown cost counts as what a call is held at by default: an unknown is not free.
WINDOW_SUM = """
SELECT coalesce(sum(coalesce(usd, :unknown)), 0.0), coalesce(sum(tokens), 0) FROM (
  SELECT usd, tokens FROM spends WHERE at >= :start AND at < :end AND (:client IS NULL OR client = :client)
  UNION ALL SELECT usd, tokens FROM reservations WHERE at >= :start AND at < :end AND (:client IS NULL OR client = :client))
"""  # noqa: E501
EXECUTION_SUM = """
SELECT coalesce(sum(coalesce(usd, :unknown)), 0.0), coalesce(sum(tokens), 0) FROM (
  SELECT usd, tokens FROM spends WHERE execution_id = :execution AND (:task IS NULL OR task_id = :task)
  UNION ALL SELECT usd, tokens FROM reservations WHERE execution_id = :execution AND (:task IS NULL OR task_id = :task))
"""
SPENT_COLUMNS = """count(*), coalesce(sum(coalesce(usd, :unknown)), 0.0), coalesce(sum(tokens), 0),
  coalesce(sum(CASE WHEN estimated THEN coalesce(usd, :unknown) END), 0.0), coalesce(sum(tokens * tokens_estimated), 0),
  coalesce(sum(estimated), 0), coalesce(sum(max(0.0, usd - reserved_usd)), 0.0), coalesce(sum(forced), 0)"""
HELD_COLUMNS = (
    "owner, count(*), coalesce(sum(coalesce(usd, :unknown)), 0.0), coalesce(sum(tokens), 0), coalesce(sum(forced), 0)"
)
WITHIN = "at >= :start AND at < :end AND (:client IS NULL OR client = :client)"
CLIENTS = """
SELECT client FROM spends WHERE at >= :start AND at < :end AND client != ''
UNION SELECT client FROM reservations WHERE at >= :start AND at < :end AND client != '' ORDER BY client LIMIT :most
"""
HELD = "SELECT usd, tokens, forced, at, execution_id, task_id, client FROM reservations WHERE key = ?"
COUNTED = """
SELECT reserved_usd, reserved_tokens, forced, at, execution_id, task_id, client, usd, tokens, estimated, tokens_estimated
FROM spends WHERE key = ?
"""  # noqa: E501
SPEND = """
INSERT INTO spends VALUES (:key, :execution, :task, :runtime, :model, :role, :usd, :tokens, :estimated, :tokens_estimated, :reserved_usd,
  :reserved_tokens, :forced, :at, :client)
ON CONFLICT (key) DO UPDATE SET runtime = excluded.runtime, model = excluded.model, role = excluded.role, usd = excluded.usd,
  tokens = excluded.tokens, estimated = excluded.estimated, tokens_estimated = excluded.tokens_estimated
"""  # noqa: E501


class SqliteView:
    """A `LedgerView` in one transaction of a database."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._ask = database.execute

    def spent(self, start: float, end: float, *, unknown_usd: float, client: str | None) -> SpentSum:
        given = {"unknown": unknown_usd, "start": start, "end": end, "client": client}
        return SpentSum(*self._ask(f"SELECT {SPENT_COLUMNS} FROM spends WHERE {WITHIN}", given).fetchone())  # noqa: S608

    def held(self, start: float, end: float, *, unknown_usd: float, client: str | None) -> Iterator[HeldSum]:
        given = {"unknown": unknown_usd, "start": start, "end": end, "client": client}
        query = f"SELECT {HELD_COLUMNS} FROM reservations WHERE {WITHIN} GROUP BY owner"  # noqa: S608
        return (HeldSum(*row) for row in self._ask(query, given))

    def spent_by(self, execution_id: str) -> SpentSum:
        query = f"SELECT {SPENT_COLUMNS} FROM spends WHERE execution_id = :execution"  # noqa: S608
        return SpentSum(*self._ask(query, {"unknown": 0.0, "execution": execution_id}).fetchone())

    def held_for(self, execution_id: str) -> Iterator[HeldSum]:
        query = f"SELECT {HELD_COLUMNS} FROM reservations WHERE execution_id = :execution GROUP BY owner"  # noqa: S608
        return (HeldSum(*row) for row in self._ask(query, {"unknown": 0.0, "execution": execution_id}))

    def clients(self, start: float, end: float, most: int) -> list[str]:
        return [name for (name,) in self._ask(CLIENTS, {"start": start, "end": end, "most": most})]

    def groups(self, by: Literal["runtime", "model"], start: float, end: float, most: int) -> list[GroupSum]:
        columns = "count(*), coalesce(sum(usd), 0.0) AS dollars, coalesce(sum(tokens), 0), coalesce(sum(estimated), 0)"
        query = (
            f"SELECT {by}, {columns} FROM spends WHERE at >= ? AND at < ? "  # noqa: S608
            f"GROUP BY {by} ORDER BY dollars DESC, {by} LIMIT ?"
        )
        return [GroupSum(*row) for row in self._ask(query, (start, end, most))]

    def owners(self) -> dict[str, int]:
        return dict(self._ask("SELECT owner, count(*) FROM reservations GROUP BY owner").fetchall())

    def oldest(self, most: int) -> list[OpenHold]:
        query = "SELECT key, usd, tokens, at, owner FROM reservations ORDER BY at, key LIMIT ?"
        return [OpenHold(*row) for row in self._ask(query, (most,))]


class SqliteLedger(ABC):
    """A `Ledger` in a database."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """One transaction, alone among all who use it."""

    def reserve(
        self,
        call: LedgerCall,
        wanted: Wanted,
        limits: Sequence[Limit],
        *,
        unknown_usd: float,
        at: float,
        force: bool = False,
    ) -> HeldAmount | Refusal:
        usd, tokens = wanted.usd, wanted.tokens
        with self._writing() as database:
            used = "SELECT 1 FROM spends WHERE key = :key UNION ALL SELECT 1 FROM reservations WHERE key = :key"
            if database.execute(used, {"key": call.key}).fetchone():
                raise BadTask(f"{call.key} has been reserved before: each try needs a key of its own")
            forced = False
            for limit in limits:
                spent_usd, spent_tokens = _spent(database, call, limit, unknown_usd)
                of_task = limit.scope == "task"
                fit_usd = fit(limit.usd, spent_usd, usd, wanted.least_usd, CENT_DUST, rest=of_task and not wanted.whole)
                fit_tokens = fit(limit.tokens, spent_tokens, tokens, wanted.least_tokens, 0, rest=of_task)
                if fit_usd is None or fit_tokens is None:
                    if not force or limit.scope == "client":  # what somebody else was given is no matter of a warning
                        if fit_usd is None:
                            return Refusal(limit.scope, "usd", spent_usd, usd or 0.0, limit.usd or 0.0)
                        return Refusal(limit.scope, "tokens", spent_tokens, tokens, limit.tokens or 0)
                    forced = True
                    continue
                usd, tokens = None if usd is None else fit_usd, int(fit_tokens)
            row = (call.key, call.execution_id, call.task_id, usd, tokens, forced, own_identity(), at, call.client)
            database.execute("INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            return HeldAmount(usd, tokens)

    def settle(
        self,
        call: LedgerCall,
        cost: Cost,
        *,
        at: float,
        month_start: float,
        limits: Sequence[Limit] = (),
        unknown_usd: float = 0.0,
    ) -> Counted:
        with self._writing() as database:
            fresh = (None, 0, False, at, call.execution_id, call.task_id, call.client)
            held = database.execute(HELD, (call.key,)).fetchone()
            before = database.execute(COUNTED, (call.key,)).fetchone()
            reserved_usd, reserved_tokens, forced, at, execution_id, task_id, client = held or (
                before[:7] if before else fresh
            )
            usd, estimated, tokens, tokens_estimated = cost.usd, cost.usd is None, cost.tokens, cost.tokens is None
            if usd is None:
                usd, estimated = (before[7], bool(before[9])) if before else (reserved_usd, True)
            if tokens is None:
                tokens, tokens_estimated = (before[8], bool(before[10])) if before else (reserved_tokens, True)
            row = {
                "key": call.key,
                "execution": execution_id,
                "task": task_id,
                "runtime": _label(cost.runtime),
                "model": _label(cost.model),
                "role": _label(cost.role),
                "usd": usd,
                "tokens": tokens,
                "estimated": estimated,
                "tokens_estimated": tokens_estimated,
                "reserved_usd": reserved_usd,
                "reserved_tokens": reserved_tokens,
                "forced": forced,
                "at": at,
                "client": client,
            }
            database.execute(SPEND, row)
            database.execute("DELETE FROM reservations WHERE key = ?", (call.key,))
            _forget(database, month_start)
            over_usd = 0.0 if usd is None or reserved_usd is None else max(0.0, usd - reserved_usd)
            passed = tuple(_passed(database, LedgerCall(call.key, execution_id, task_id, client), limits, unknown_usd))
            return Counted(usd, tokens, estimated, tokens_estimated, over_usd, max(0, tokens - reserved_tokens), passed)

    def release(self, key: str) -> None:
        with self._writing() as database:
            database.execute("DELETE FROM reservations WHERE key = ?", (key,))


class MemoryLedger(SqliteLedger):
    """A ledger that goes with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._database.close)
        _create(self._database)

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteView]:
        with self._lock:
            yield SqliteView(self._database)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _transaction(self._database):
            yield self._database


class FileLedger(SqliteLedger):
    """The ledger in a file of a project."""

    def __init__(self, project: Path) -> None:
        self.path = project / STATE / FILE
        self._lock = threading.Lock()
        self._upgraded = False

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteView]:
        """One consistent view of the database; an empty one if there is none yet."""
        with self._explained(), contextlib.ExitStack() as stack:
            if self._is_there():
                self._upgrade()
                database = stack.enter_context(contextlib.closing(self._connect()))
                database.execute("BEGIN")
                self._check(database)
            else:
                database = stack.enter_context(contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)))
                _create(database)
            yield SqliteView(database)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            if not self._is_there():
                self._make()
            self._upgrade()
            with contextlib.closing(self._connect()) as database, _transaction(database):
                self._check(database)
                yield database

    def _connect(self) -> sqlite3.Connection:
        database = connect(self.path, BUSY_S)  # only `_make` makes one
        try:
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("PRAGMA synchronous=FULL")  # a spend survives a power cut, not only a crash
        except BaseException:
            database.close()
            raise
        until = time.monotonic() + BUSY_S + WORK_S
        database.set_progress_handler(lambda: int(time.monotonic() > until), 10_000)
        return database

    def _is_there(self) -> bool:
        """Whether there is a database, of ordinary files: a link would have us write where it leads."""
        try:
            check_database(self.path)
        except OSError as error:
            raise sqlite3.DatabaseError(str(error)) from None
        return self.path.exists()

    def _make(self) -> None:
        """Made aside and put in place whole: two processes that start at once must not meet a half-made one."""
        check_folder(self.path.parent)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        ignore_state(self.path.parent)
        with locked(self.path.with_name(f".{FILE}.lock")):
            if self.path.exists():
                return
            fresh = self.path.with_name(f".{FILE}.new")
            for leftover in (fresh, self.path.with_name(f"{FILE}-wal"), self.path.with_name(f"{FILE}-shm")):
                leftover.unlink(missing_ok=True)  # a log without its database would be replayed into the new one
            with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as database:
                _create(database)
                database.execute("PRAGMA journal_mode=WAL")
            fresh.replace(self.path)
            sync_folder(self.path.parent)

    def _upgrade(self) -> None:
        """Bring a database of the version before to this one. What it says of spends stays."""
        if self._upgraded:
            return
        with contextlib.closing(self._connect()) as database:
            if _version(database) == 1:
                database.execute("BEGIN IMMEDIATE")
                if _version(database) == 1:  # no other process has just done it
                    self._check(database, SCHEMA_1)
                    for table in ("spends", "reservations"):
                        database.execute(f"ALTER TABLE {table} ADD COLUMN {ADDED[2:]}")
                    database.execute(f"PRAGMA user_version = {VERSION}")
                database.execute("COMMIT")
        self._upgraded = True

    @staticmethod
    def _check(database: sqlite3.Connection, schema: Mapping[str, str] = SCHEMA) -> None:
        """The schema is ours to the letter: a database that came with a project has no trigger or view that we would
        run.
        """
        version = _version(database)
        if version > VERSION:
            raise sqlite3.DatabaseError(f"it was made by a newer go-ent, in version {version} of its format")
        found = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 100"))
        if found != dict(schema):
            raise sqlite3.DatabaseError("it is not a database of spends")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except EngineError:
            raise
        except (
            sqlite3.Error,
            OSError,
            ValueError,
            TypeError,
            ArithmeticError,
        ) as error:  # the last: rows with what no one wrote
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LedgerError(
                    f"{self.path} is held by another process, so nothing may be spent: try again"
                ) from error
            raise LedgerError(
                f"{self.path} can't be used, so nothing may be spent: {error}. If it is damaged, move it away "
                f"with {FILE}-wal and "
                f"{FILE}-shm: the budget then begins anew, without what was spent so far"
            ) from error


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _create(database: sqlite3.Connection) -> None:
    for statement in SCHEMA.values():
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {VERSION}")


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _spent(database: sqlite3.Connection, call: LedgerCall, limit: Limit, unknown_usd: float) -> tuple[float, int]:
    """What counts against a limit now: spends and what is held, also by processes that have died."""
    if limit.scope in ("day", "month", "client"):
        client = call.client if limit.scope == "client" else None
        given = {"unknown": unknown_usd, "start": limit.start, "end": limit.end, "client": client}
        row = database.execute(WINDOW_SUM, given).fetchone()
    else:
        task = call.task_id if limit.scope == "task" else None
        row = database.execute(
            EXECUTION_SUM, {"unknown": unknown_usd, "execution": call.execution_id, "task": task}
        ).fetchone()
    return float(row[0]), int(row[1])


def fit(
    most: float | None, spent: float, wanted: float | None, least: float | None, dust: float, *, rest: bool
) -> float | None:
    """What is held of what is wanted, or None if the limit has no room for it. With *rest*, what is left of it will
    do.
    """
    wanted = wanted or 0
    if most is None or not wanted or spent + wanted <= most + dust:
        return wanted
    left = most - spent
    if left > dust and ((rest and wanted <= most + dust) or (least is not None and left >= least - dust)):
        return left
    return None


def _passed(
    database: sqlite3.Connection, call: LedgerCall, limits: Sequence[Limit], unknown_usd: float
) -> Iterator[Refusal]:
    for limit in limits:
        usd, tokens = _spent(database, call, limit, unknown_usd)
        if limit.usd is not None and usd > limit.usd + CENT_DUST:
            yield Refusal(limit.scope, "usd", usd, 0.0, limit.usd)
        if limit.tokens is not None and tokens > limit.tokens:
            yield Refusal(limit.scope, "tokens", tokens, 0.0, limit.tokens)


def _forget(database: sqlite3.Connection, month_start: float) -> None:
    """Keep the table bounded, by the order of writing: a clock that was wrong once must not empty it."""
    oldest, newest = database.execute(
        "SELECT (SELECT min(rowid) FROM spends), (SELECT max(rowid) FROM spends)"
    ).fetchone()
    if newest - oldest >= KEPT:
        database.execute("DELETE FROM spends WHERE rowid <= ? AND at < ?", (newest - KEPT, month_start))


def _label(text: str | None) -> str | None:
    return None if text is None else storable(text, LONGEST_LABEL)
