"""The index of a project's executions: found by id, prefix, status, kind, parent and time, and summed up.

A cache of the folders beside it, in `index.db`. It fills itself from them when it is missing, damaged or of another
version; what it could not be told makes it fill itself again; and where there can be none, answers come from the
folders.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from go_ent.composer.project.files import ignore_state, locked
from go_ent.composer.project.items import apart
from go_ent.engine.core.ids import ID, PREFIX
from go_ent.engine.core.models import ExecutionKind, Model, StrategyName
from go_ent.engine.executions.history import CallTotals, ExecutionRecord, Grouping, Totals, check_grouping
from go_ent.engine.executions.index_database import IndexFile, create
from go_ent.engine.executions.state import ExecutionState, ExecutionStatus
from go_ent.engine.executions.totals import TABLES, calls_from, note, records_from, storable, totals
from go_ent.engine.storage import marks

log = logging.getLogger("go_ent.engine")
T = TypeVar("T")
Found = tuple[ExecutionState, list[ExecutionRecord], dict[str, CallTotals]]
FILE, FILLING, STALE = "index.db", ".index.filling", ".index.stale"
VERSION = 3
BATCH = 200
REST_S = 30.0
FILL_S = 120.0  # that another process has to fill it
MOST_ROWS = 100_000
FAILURES = (sqlite3.Error, OSError, ValueError, TypeError, ArithmeticError)
# Values that no database takes: the execution's fault, not the file's.
UNFIT = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    ValueError,
    TypeError,
    ArithmeticError,
)
MOST_TOLD = 20  # executions that can't be read

SCHEMA = MappingProxyType(
    {
        "filled": "CREATE TABLE filled (id INTEGER PRIMARY KEY CHECK (id = 0), whole INTEGER NOT NULL, by TEXT NOT NULL) "  # noqa: E501
        "STRICT",
        "executions": (
            "CREATE TABLE executions (id TEXT PRIMARY KEY, parent TEXT, kind TEXT NOT NULL, status TEXT NOT "
            "NULL, title TEXT NOT NULL, "
            "strategy TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, finished REAL, spent_usd REAL, "
            "spent_tokens INTEGER NOT NULL, image TEXT NOT NULL, resumable INTEGER NOT NULL, client TEXT NOT "
            "NULL, size INTEGER NOT NULL, "
            "seq INTEGER NOT NULL) STRICT, WITHOUT ROWID"
        ),
        "by_status": "CREATE INDEX by_status ON executions (status, id)",
        "by_kind": "CREATE INDEX by_kind ON executions (kind, status, id)",
        "of_kind": "CREATE INDEX of_kind ON executions (kind, id)",
        "by_parent": "CREATE INDEX by_parent ON executions (parent, id) WHERE parent IS NOT NULL",
        "by_client": "CREATE INDEX by_client ON executions (client, id) WHERE client != ''",
        "by_image": "CREATE INDEX by_image ON executions (image) WHERE resumable",
        **TABLES,
        **marks.TABLES,
    }
)
COLUMNS = (
    "id, parent, kind, status, title, strategy, created, updated, finished, spent_usd, spent_tokens, image, "
    "resumable, client, size"
)
# Who comes late with an older state changes nothing; a size is that of the state it was measured with.
PUT = f"""
INSERT INTO executions ({COLUMNS}, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)
ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, kind = excluded.kind, status = excluded.status, title = excluded.title,
  strategy = excluded.strategy, created = excluded.created, updated = excluded.updated, finished = excluded.finished,
  spent_usd = excluded.spent_usd, spent_tokens = excluded.spent_tokens, image = excluded.image, resumable = excluded.resumable,
  client = excluded.client, size = CASE WHEN excluded.seq = seq THEN size ELSE 0 END, seq = excluded.seq
WHERE excluded.seq >= seq
"""  # noqa: E501, S608


class Row(Model):
    """An execution as the index knows it."""

    id: Annotated[str, Field(pattern=f"^{ID.pattern}$")]
    parent: str | None
    kind: ExecutionKind
    status: ExecutionStatus
    title: str
    strategy: StrategyName
    created: float
    updated: float
    finished: float | None
    spent_usd: float | None
    spent_tokens: int
    image: str
    resumable: bool
    client: str  # who began it; "": the project's own user
    size: int  # bytes of its folder; 0 until somebody has measured it


class Index:
    """The index in *folder*, which holds the executions. Its methods block: call them in a thread. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = IndexFile(
            folder / FILE, VERSION, SCHEMA, lambda database: _begin(database, whole=not _names(folder))
        )
        self._said = False
        self._later = threading.local()  # what a thread has to tell together
        self._rests = 0.0  # until when it is told no marks, because it could not take one

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        self._file.close()

    # -- telling it

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What this thread tells it meanwhile is told at the end, in one transaction."""
        self._later.works = works = list[Callable[[sqlite3.Connection], object]]()
        try:
            yield
        finally:
            self._later.works = None
            if works:
                self._tell(lambda database: [work(database) for work in works])

    def put(self, state: ExecutionState) -> None:
        """Tell it of an execution's state. Never fails: what it could not be told, it looks up itself later."""
        self._tell(lambda database: database.execute(PUT, _values(state)))

    def note(self, execution_id: str, records: Iterable[ExecutionRecord], calls: Mapping[str, CallTotals]) -> None:
        """Tell it what an execution came to so far, instead of what it was told before. Never fails."""
        records = list(records)
        self._tell(lambda database: note(database, execution_id, records, calls))

    def remove(self, *ids: str) -> None:
        """Forget executions. Never fails."""
        if ids and (self.folder / FILE).exists():
            self._tell(lambda database: _remove(database, ids))

    def measured(self, sizes: Mapping[str, int]) -> None:
        """Tell it how large folders are. Never fails."""
        self._tell(
            lambda database: database.executemany(
                "UPDATE executions SET size = ? WHERE id = ?", [(b, a) for a, b in sizes.items()]
            )
        )

    def keep(self, execution_id: str, mark: marks.Mark) -> None:
        """Tell it how far a journal is on disk. Never fails, and never keeps the journal waiting again and again."""
        if time.monotonic() < self._rests:
            return
        row = execution_id, mark.seq, mark.size, mark.digest
        if self._waits(lambda database: database.execute(marks.PUT, row)):
            return
        try:
            self._check_folder()
            self._file.run(lambda database: database.execute(marks.PUT, row), write=True)
        except FAILURES as error:
            self._rests = time.monotonic() + REST_S
            self._warn(error)

    # -- asking it

    def kept(self, execution_id: str) -> marks.Mark | None:
        """How far a journal was on disk, at the least; None if that is not known: the folders do not say."""
        if not (self.folder / FILE).exists():
            return None
        try:
            self._check_folder()
            return marks.Mark.of(
                self._file.run(lambda database: database.execute(marks.GET, (execution_id,)).fetchone(), write=False)
            )
        except FAILURES as error:
            self._warn(error)
            return None

    def find(self, prefix: str) -> list[str]:
        """The ids that begin with *prefix*, four at the most."""
        if not PREFIX.fullmatch(prefix):
            return []
        found = self._ask(lambda database: database.execute(*find_query(prefix)).fetchall())
        return [name for (name,) in found if isinstance(name, str) and ID.fullmatch(name)]

    def rows(
        self,
        limit: int = 50,
        *,
        status: ExecutionStatus | None = None,
        kind: ExecutionKind | None = None,
        parent: str | None = None,
        since: float | None = None,
        before: float | None = None,
        client: str | None = None,
    ) -> list[Row]:
        """Executions, the newest first; *since* and *before* are times at which they were made."""
        query = rows_query(limit, status=status, kind=kind, parent=parent, since=since, before=before, client=client)
        return _valid(self._ask(lambda database: database.execute(*query).fetchall()))

    def counts(self) -> dict[str, int]:
        """How many executions there are of each status."""
        return dict(
            self._ask(
                lambda database: database.execute("SELECT status, count(*) FROM executions GROUP BY status").fetchall()
            )
        )

    def oldest(self) -> Iterator[Row]:
        """All executions, the oldest first, read a part at a time."""
        query = f"SELECT {COLUMNS} FROM executions WHERE id > ? ORDER BY id LIMIT 2000"  # noqa: S608
        after = ""
        while found := _valid(self._ask(lambda database: database.execute(query, (after,)).fetchall())):  # noqa: B023
            yield from found
            if found[-1].id <= after:
                return  # no order that we made
            after = found[-1].id

    def missing(self) -> dict[str, str]:
        """The executions that it can't hold, the newest first, and why; only so many are looked at."""
        from go_ent.engine.core.errors import Unborn

        names, left_out = _names(self.folder), dict[str, str]()
        known = {
            name for (name,) in self._ask(lambda database: database.execute("SELECT id FROM executions").fetchall())
        }
        for name in (name for name in reversed(names) if name not in known):
            with apart(name, left_out), contextlib.suppress(Unborn):  # of those, nothing was done
                self._check_readable(name)
            if len(left_out) == MOST_TOLD:
                break
        return left_out

    def needs_image(self) -> set[str]:
        """The digests of the images that executions which can be resumed were run by."""
        return self._ask(_images)

    def totals(self, by: Grouping, *, since: float | None = None) -> dict[str, Totals]:
        """What executions came to, of each runtime, model, role, strategy, tool or day (in UTC); what has none is
        `unknown`.

        By tool, the calls that guests made count too; they have no cost of their own.
        """
        check_grouping(by)
        return self._ask(lambda database: totals(database, by, since))

    def rebuild(self) -> int:
        """Fill it anew from the folders; how many executions it holds then."""
        if not self.folder.is_dir():
            return 0
        self._check_folder()
        self._fill(always=True)
        (count,) = self._file.run(
            lambda database: database.execute("SELECT count(*) FROM executions").fetchone(), write=False
        )
        return int(count)

    # -- how

    def _waits(self, work: Callable[[sqlite3.Connection], object]) -> bool:
        """Whether *work* is told with others, later."""
        works: list[Callable[[sqlite3.Connection], object]] | None = getattr(self._later, "works", None)
        if works is not None:
            works.append(work)
        return works is not None

    def _tell(self, work: Callable[[sqlite3.Connection], object]) -> None:
        if self._waits(work):
            return
        try:
            self._check_folder()
            try:
                if not self.folder.is_dir():
                    self.folder.mkdir(parents=True, exist_ok=True)
                    ignore_state(self.folder.parent)
                self._file.run(work, write=True)
            except FAILURES:
                os.close(
                    os.open(
                        self.folder / STALE,
                        os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
                        0o600,
                    )
                )
                raise
        except FAILURES as error:
            self._warn(error)

    def _ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What *work* finds in an index that has all executions."""
        if not self.folder.is_dir():
            return self._without(work, ())
        try:
            self._check_folder()
            for _ in range(3):
                whole, found = self._file.run(lambda database: (_is_whole(database), work(database)), write=False)
                if whole and not self._stale():
                    return found
                self._fill()
        except FAILURES as error:
            self._warn(error)
        return self._without(work, _names(self.folder))

    def _without(self, work: Callable[[sqlite3.Connection], T], names: Iterable[str]) -> T:
        """The same question to an index in memory, made for it."""
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            create(database, VERSION, SCHEMA)
            self._add_all((self._read(name) for name in names), database)
            return work(database)

    def _fill(self, *, always: bool = False) -> None:
        """Fill it from the folders, unless another process just did. Who dies over it leaves one that is not whole."""
        with locked(self.folder / FILLING, patience_s=FILL_S):
            if not always and not self._stale() and self._file.run(_is_whole, write=False):
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.folder / STALE)
            for _ in range(3):
                mine = str(uuid.uuid4())
                self._file.run(lambda database: _begin(database, whole=False, by=mine), write=True)  # noqa: B023
                names = _names(self.folder)
                for start in range(0, len(names), BATCH):
                    read = [self._read(name) for name in names[start : start + BATCH]]
                    self._file.run(partial(self._add_all, read), write=True)
                done = "UPDATE filled SET whole = 1 WHERE by = ?"
                if self._file.run(lambda database: database.execute(done, (mine,)).rowcount, write=True):  # noqa: B023
                    return  # else it was replaced on the way, and the new one lacks the first of them
            raise sqlite3.DatabaseError(f"{self.folder / FILE} is replaced again and again")

    def _check_readable(self, name: str) -> None:
        from go_ent.engine.executions.store import ExecutionStore

        store = ExecutionStore(self.folder.parent.parent)
        state = store.load(name)
        found = state, records_from(state), calls_from(store.records(name)) if state.calls else {}
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            create(database, VERSION, SCHEMA)
            database.execute(PUT, _values(state))
            note(database, state.id, *found[1:])

    def _read(self, name: str) -> Found | None:
        """An execution from its folder; None if it can't be read."""
        from go_ent.engine.executions.store import ExecutionStore

        store = ExecutionStore(self.folder.parent.parent)
        wrong: dict[str, str] = {}
        with apart(name, wrong):
            state = store.load(name, compare=False)
            return state, records_from(state), calls_from(store.records(name)) if state.calls else {}
        log.info("%s is left out of the index: %s", self.folder / name, wrong[name])
        return None

    def _add_all(self, found: Iterable[Found | None], database: sqlite3.Connection) -> None:
        for one in found:
            # Looked at in the transaction: one that is removed after it is removed from the index after it.
            if one is None or not (self.folder / one[0].id).is_dir():
                continue
            state, records, calls = one
            database.execute("SAVEPOINT one")
            try:
                database.execute(PUT, _values(state))
                note(database, state.id, records, calls)
            except UNFIT as error:
                database.execute("ROLLBACK TO one")
                log.info("%s is left out of the index: %s", self.folder / state.id, error)
            finally:
                database.execute("RELEASE one")

    def _stale(self) -> bool:
        return os.path.lexists(self.folder / STALE)

    def _check_folder(self) -> None:
        if self.folder.is_symlink() or self.folder.parent.is_symlink():
            raise OSError(f"{self.folder} is a link")

    def _warn(self, error: Exception) -> None:
        if not self._said:
            self._said = True
            log.warning("the index of executions can't be used, which makes looking for them slow: %s", error)


def find_query(prefix: str) -> tuple[str, tuple[Any, ...]]:
    return "SELECT id FROM executions WHERE id >= ? AND id < ? ORDER BY id LIMIT 4", (
        prefix,
        f"{prefix}g",
    )  # g: after all of an id


def rows_query(
    limit: int,
    *,
    status: str | None = None,
    kind: str | None = None,
    parent: str | None = None,
    since: float | None = None,
    before: float | None = None,
    client: str | None = None,
) -> tuple[str, tuple[Any, ...]]:
    """Ids sort by the time they were made, so a time is a range of them."""
    wanted: list[tuple[str, Any]] = [("status = ?", status), ("kind = ?", kind), ("parent = ?", parent)]
    if client:  # said in so many words, so that its index is used
        wanted += [("client != '' AND client = ?", client)]
    wanted += [
        ("id >= ?", None if since is None else _first_id(since)),
        ("id < ?", None if before is None else _first_id(before)),
    ]
    given = [(term, value) for term, value in wanted if value is not None]
    where = f" WHERE {' AND '.join(term for term, _ in given)}" if given else ""
    query = f"SELECT {COLUMNS} FROM executions{where} ORDER BY id DESC LIMIT ?"  # noqa: S608
    return query, (*(value for _, value in given), min(max(0, limit), MOST_ROWS))


def _first_id(at: float) -> str:
    """Not after any id of that time, and after all before it."""
    text = f"{int(min(max(0.0, at * 1000), (1 << 48) - 1)):012x}"
    return f"{text[:8]}-{text[8:]}"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if ID.fullmatch(name))
    except OSError:
        return []


def _begin(database: sqlite3.Connection, *, whole: bool, by: str = "") -> None:
    for table in ("executions", "tries", "tool_calls"):
        database.execute(f"DELETE FROM {table}")  # noqa: S608
    database.execute("INSERT OR REPLACE INTO filled VALUES (0, ?, ?)", (whole, by))


def _is_whole(database: sqlite3.Connection) -> bool:
    return bool(database.execute("SELECT whole FROM filled").fetchone() == (1,))


def _images(database: sqlite3.Connection) -> set[str]:
    """From one image to the next: of many executions, there are few."""
    found: set[str] = set()
    last = ""
    while True:
        (image,) = database.execute(
            "SELECT min(image) FROM executions WHERE resumable AND image > ?", (last,)
        ).fetchone()
        if not isinstance(image, str) or image <= last:
            return found
        found.add(image)
        last = image


def _values(state: ExecutionState) -> tuple[Any, ...]:
    return (
        state.id,
        storable(state.parent),
        state.kind,
        state.status,
        storable(state.title),
        state.strategy,
        state.created,
        state.updated,
        state.finished,
        state.spent_usd,
        state.spent_tokens,
        storable(state.environment.image),
        state.resumable,
        storable(state.client),
        state.seq,
    )


def _valid(found: Iterable[tuple[Any, ...]]) -> list[Row]:
    """The rows that are rows: a database may hold what nobody of us wrote."""
    names, rows = COLUMNS.split(", "), []
    for one in found:
        with contextlib.suppress(ValidationError):
            rows.append(Row(**dict(zip(names, one, strict=True))))
    return rows


def _remove(database: sqlite3.Connection, ids: Iterable[str]) -> None:
    for one in ids:
        for table in ("executions", "marks"):
            database.execute(f"DELETE FROM {table} WHERE id = ?", (one,))  # noqa: S608
        note(database, one, (), {})
