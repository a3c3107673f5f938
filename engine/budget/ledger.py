"""What was spent and what is held, in one database for all processes of a project.

A call's money is held before it starts (`reserve`) and counted after it (`settle`), under one key. Check and hold are
one transaction, so no two processes are promised the same money. A hold whose process died stays: the call may have
cost it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from go_ent.composer.project.files import STATE, check_database, check_folder, ignore_state, locked, sync_folder
from go_ent.engine.core.errors import BadTask, EngineError, LedgerError
from go_ent.sandbox.children.proc import own_identity

Scope = Literal["task", "execution", "client", "day", "month"]
FILE = "budget.db"
VERSION = 2
BUSY_S = 30.0
WORK_S = 10.0
KEPT = 200_000  # spends; older ones go when they are of another month
LONGEST_KEY = 500
LONGEST_LABEL = 200
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


@dataclass(frozen=True, slots=True)
class LedgerCall:
    """One try of a task, which has one key; and the client with a token for whom it is made, if it is for one."""

    key: str
    execution_id: str
    task_id: str
    client: str = ""

    def __post_init__(self) -> None:
        for text in (self.key, self.execution_id, self.task_id):
            if not 0 < len(text) <= LONGEST_KEY or _clean(text, LONGEST_KEY) != text:
                raise BadTask(
                    f"{text[:80]!r} can't be the key of a spend, nor part of one: 1 to {LONGEST_KEY} "
                    "characters of ordinary text"
                )
        if _clean(self.client, LONGEST_LABEL) != self.client:
            raise BadTask(f"{self.client[:80]!r} can't be the name of a client")


@dataclass(frozen=True, slots=True)
class Limit:
    """What a scope may spend. A day, a month, or the day of a client has a start and an end."""

    scope: Scope
    usd: float | None = None
    tokens: int | None = None
    start: float = 0.0
    end: float = 0.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be held for a call, and the least it can do with; None: no less than that.

    What is held of the task's own limit may be what earlier tries have left of it, but not if the dollars are `whole`.
    """

    usd: float | None
    tokens: int
    least_usd: float | None = None
    least_tokens: int | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class HeldAmount:
    """What a reservation came to."""

    usd: float | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A limit that a reservation does not fit in; or, of one that was passed, what is spent and held against it."""

    scope: Scope
    unit: Literal["usd", "tokens"]
    spent: float
    wanted: float
    limit: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call came to. None is not known."""

    usd: float | None
    tokens: int | None
    runtime: str
    model: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What was written for a call, and by how much it is over what was held for it."""

    usd: float | None
    tokens: int
    estimated: bool
    tokens_estimated: bool
    over_usd: float
    over_tokens: int
    passed: tuple[Refusal, ...] = ()  # the limits that do not hold what is counted now


class Ledger:
    """The database of one project. Thread-safe; its methods block."""

    def __init__(self, project: Path) -> None:
        self.path = project / STATE / FILE
        self._lock = threading.Lock()
        self._upgraded = False

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
        """Hold money for a call if it fits every limit; with *force* in any case, but for a client's own limit.

        Of the task's own limit, what earlier tries have left is held, if the estimate would have fitted at first; of
        the other limits what is left, if the call can do with that.
        """
        usd, tokens = wanted.usd, wanted.tokens
        with self._writing() as database:
            used = "SELECT 1 FROM spends WHERE key = :key UNION ALL SELECT 1 FROM reservations WHERE key = :key"
            if database.execute(used, {"key": call.key}).fetchone():
                raise BadTask(f"{call.key} has been reserved before: each try needs a key of its own")
            forced = False
            for limit in limits:
                spent_usd, spent_tokens = _spent(database, call, limit, unknown_usd)
                of_task = limit.scope == "task"
                fit_usd = _fit(
                    limit.usd, spent_usd, usd, wanted.least_usd, CENT_DUST, rest=of_task and not wanted.whole
                )
                fit_tokens = _fit(limit.tokens, spent_tokens, tokens, wanted.least_tokens, 0, rest=of_task)
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
        """Count what a call came to, in the day it was reserved, instead of what was held for it.

        What is not known counts as what was held. Done again, new figures replace the old, and an unknown replaces
        nothing. Which of *limits* are passed is told.
        """
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
        """Let go of what was held for a call that was never made."""
        with self._writing() as database:
            database.execute("DELETE FROM reservations WHERE key = ?", (key,))

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
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
            yield database

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone among threads and processes."""
        with self._lock, self._explained():
            if not self._is_there():
                self._make()
            self._upgrade()
            with contextlib.closing(self._connect()) as database:
                database.execute("BEGIN IMMEDIATE")
                try:
                    self._check(database)
                    yield database
                    database.execute("COMMIT")
                except BaseException:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
                    raise

    def _connect(self) -> sqlite3.Connection:
        address = self.path.absolute().as_uri() + "?mode=rw"  # only `_make` makes one
        database = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
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


def _create(database: sqlite3.Connection) -> None:
    for statement in SCHEMA.values():
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {VERSION}")


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _spent(database: sqlite3.Connection, call: LedgerCall, limit: Limit, unknown_usd: float) -> tuple[float, int]:
    """What counts against a limit now: spends and what is held, whoever holds it and whether or not it lives."""
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


def _fit(
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
    return None if text is None else _clean(text, LONGEST_LABEL)


def _clean(text: str, most: int) -> str:
    """Text that a database takes: what programs say of themselves may be anything."""
    return text[:most].encode("utf-8", "replace").decode("utf-8").replace("\0", "")
