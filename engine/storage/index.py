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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Unpack

from pydantic import ValidationError

from go_ent.composer.project.files import ignore_state, locked
from go_ent.composer.project.items import apart
from go_ent.engine.core.errors import EngineError
from go_ent.engine.core.ids import ID, PREFIX, is_meant
from go_ent.engine.executions.building import StateBuilder
from go_ent.engine.executions.history import CallTotals, ExecutionRecord, Grouping, Totals, check_grouping
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import Filters, IndexCheck, Row
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.totals import calls_from, records_from
from go_ent.engine.storage import marks
from go_ent.engine.storage.index_database import IndexFile, create
from go_ent.engine.storage.index_schema import COLUMNS, NAMES, PUT, SCHEMA, VERSION, find_query, rows_query
from go_ent.engine.storage.index_totals import note, storable, totals
from go_ent.engine.storage.packed import Entry, Packed, Place
from go_ent.engine.storage.records import Scan

log = logging.getLogger("go_ent.engine")
PLACE = "SELECT file, offset, size FROM executions WHERE id = ? AND file IS NOT NULL"
T = TypeVar("T")
Found = tuple[ExecutionState, list[ExecutionRecord], dict[str, CallTotals]]
FILE, FILLING, STALE = "index.db", ".index.filling", ".index.stale"
BATCH = 200
REST_S = 30.0
FILL_S = 120.0  # that another process has to fill it
FAILURES = (sqlite3.Error, OSError, ValueError, TypeError, ArithmeticError, EngineError)
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


class PackedExecution(NamedTuple):
    """An execution that was packed: what it came to, and where it is."""

    state: Callable[[], ExecutionState]
    calls: Mapping[str, CallTotals]
    place: Place
    start: int  # where its entry begins in the file


class Index:
    """The index in *folder*, which holds the executions. Its methods block: call them in a thread. Thread-safe."""

    def __init__(self, folder: Path, packed: Packed | None = None) -> None:
        self.folder = folder
        self._packed = packed or Packed(folder)
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

        def put(database: sqlite3.Connection) -> None:
            row = None if (self.folder / state.id).is_dir() else database.execute(PLACE, (state.id,)).fetchone()
            database.execute(PUT, _values(state, None if row is None else Place(*row)))

        self._tell(put)

    def note(self, execution_id: str, records: Iterable[ExecutionRecord], calls: Mapping[str, CallTotals]) -> None:
        """Tell it what an execution came to so far, instead of what it was told before. Never fails."""
        records = list(records)
        self._tell(lambda database: note(database, execution_id, records, calls))

    def put_packed(self, executions: Sequence[PackedExecution]) -> None:
        """Tell it of executions that were just packed, in that order. Never fails: it finds out itself otherwise."""

        def put(database: sqlite3.Connection) -> None:
            read = _read_so_far(database)
            for state, calls, place, start in executions:
                if start < read.get(place.number, 0):
                    continue  # another process has read it, and may have removed it since
                _put_packed(database, state(), calls, place)
                end = place.offset + place.size
                if start == 0:
                    database.execute("INSERT OR IGNORE INTO packed VALUES (?, 0)", (place.number,))
                # Where others' come before it that were not read yet, it will be read with them.
                database.execute("UPDATE packed SET size = ? WHERE file = ? AND size = ?", (end, place.number, start))

        self._tell(put)

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

    def place(self, execution_id: str) -> Place | None:
        """Where an execution is packed, if it is."""
        row = self._ask(lambda database: database.execute(PLACE, (execution_id,)).fetchone())
        return None if row is None or not all(type(one) is int and one >= 0 for one in row) else Place(*row)

    def packed_in(self, file: int) -> list[tuple[str, Place]]:
        """The executions that a file of packed ones still holds."""
        query = "SELECT id, file, offset, size FROM executions WHERE file = ?"
        rows = self._ask(lambda database: database.execute(query, (file,)).fetchall())
        return [(one, Place(*place)) for one, *place in rows]

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

    def find(self, text: str) -> list[str]:
        """The ids that *text* may stand for, four at the most."""
        if not PREFIX.fullmatch(text):
            return []
        found = self._ask(lambda database: database.execute(*find_query(text)).fetchall())
        return [name for (name,) in found if isinstance(name, str) and ID.fullmatch(name) and is_meant(text, name)][:4]

    def shared(self) -> set[str]:
        """The short ids that several executions have."""
        query = "SELECT substr(id, -8) FROM executions GROUP BY substr(id, -8) HAVING count(*) > 1"
        return {name for (name,) in self._ask(lambda database: database.execute(query).fetchall())}

    def rows(self, limit: int = 50, **filters: Unpack[Filters]) -> list[Row]:
        """Executions, the newest first."""
        query = rows_query(limit, **filters)
        return _valid(self._ask(lambda database: database.execute(*query).fetchall()))

    def counts(self) -> dict[str, int]:
        """How many executions there are of each status."""
        return dict(
            self._ask(
                lambda database: database.execute("SELECT status, count(*) FROM executions GROUP BY status").fetchall()
            )
        )

    def calls(self, ids: Sequence[str]) -> dict[str, int]:
        """How many calls the guests of executions have made, as far as they were counted."""
        query = f"SELECT execution, sum(calls) FROM tool_calls WHERE execution IN ({marks_for(ids)}) GROUP BY 1"  # noqa: S608
        return dict(self._ask(lambda database: database.execute(query, tuple(ids)).fetchall()))

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
        self._catch_up()
        (count,) = self._file.run(
            lambda database: database.execute("SELECT count(*) FROM executions").fetchone(), write=False
        )
        return int(count)

    def check(self) -> IndexCheck | None:
        """Whether it can be used; None if there are no executions yet. Nothing is mended by looking."""
        if not self.folder.is_dir():
            return None
        path = self.folder / FILE
        there = len(_names(self.folder))
        try:
            with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
                problem = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
                known = int(database.execute("SELECT count(*) FROM executions").fetchone()[0])
                there += int(database.execute("SELECT count(*) FROM executions WHERE file IS NOT NULL").fetchone()[0])
        except sqlite3.Error as error:
            return IndexCheck(there=there, problem=f"the index {path} can't be read: {error}")
        if problem != "ok":
            return IndexCheck(known, there, problem=f"the index {path} is damaged: {problem[:200]}")
        return IndexCheck(known, there, behind=(self.folder / STALE).exists())

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
            up_to_date = False
            for _ in range(4):
                whole, read, found = self._file.run(
                    lambda database: (_is_whole(database), _read_so_far(database), work(database)), write=False
                )
                if whole and not self._stale():
                    if up_to_date or read == self._packed.sizes():
                        return found
                    self._catch_up()
                    up_to_date = True  # what came while it was read is not missed
                else:
                    self._fill()
        except FAILURES as error:
            self._warn(error)
        return self._without(work, _names(self.folder))

    def _without(self, work: Callable[[sqlite3.Connection], T], names: Iterable[str]) -> T:
        """The same question to an index in memory, made for it."""
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            create(database, VERSION, SCHEMA)
            self._add_all((self._read(name) for name in names), database)
            self._read_packed(database)
            return work(database)

    def _catch_up(self) -> None:
        """Read what was packed since: by other processes, or by one that was killed."""
        self._file.run(self._read_packed, write=True)

    def _read_packed(self, database: sqlite3.Connection) -> None:
        known, sizes = _read_so_far(database), self._packed.sizes()
        for number in known:
            if number not in sizes:  # what was left of it is in a later one
                _remove(
                    database,
                    [one for (one,) in database.execute("SELECT id FROM executions WHERE file = ?", (number,))],
                )
                database.execute("DELETE FROM packed WHERE file = ?", (number,))
        for number, size in sizes.items():
            if known.get(number, 0) > size:  # it was replaced: what is there now counts
                known[number] = 0
            at = known.get(number, 0)
            if at < size:
                for entry in self._packed.entries(number, at):
                    self._take(database, entry)
                database.execute("INSERT OR REPLACE INTO packed VALUES (?, ?)", (number, size))

    def _take(self, database: sqlite3.Connection, entry: Entry) -> None:
        if entry.removed:
            packed = "SELECT id FROM executions WHERE id = ? AND file IS NOT NULL"
            _remove(database, [one for one in entry.removed if database.execute(packed, (one,)).fetchone()])
        elif entry.place is not None and not (self.folder / entry.execution_id).is_dir():
            wrong: dict[str, str] = {}
            database.execute("SAVEPOINT one")
            with apart(entry.execution_id, wrong):
                place = entry.place
                path = self._packed.path(place)
                records = list(Scan(path, offset=place.offset, end=place.offset + place.size))
                state = StateBuilder(entry.execution_id, str(path)).add_all(records)
                _put_packed(database, state, calls_from(records) if state.calls else {}, place)
            if wrong:
                database.execute("ROLLBACK TO one")
                log.info("%s is left out of the index: %s", entry.execution_id, wrong[entry.execution_id])
            database.execute("RELEASE one")

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
        from go_ent.engine.storage.file_storage import FileStorage

        store = ExecutionStore(FileStorage(self.folder.parent.parent))
        state = store.load(name)
        found = state, records_from(state), calls_from(store.records(name)) if state.calls else {}
        with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
            create(database, VERSION, SCHEMA)
            database.execute(PUT, _values(state))
            note(database, state.id, *found[1:])

    def _read(self, name: str) -> Found | None:
        """An execution from its folder; None if it can't be read."""
        from go_ent.engine.storage.file_storage import FileStorage

        store = ExecutionStore(FileStorage(self.folder.parent.parent))
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


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if ID.fullmatch(name))
    except OSError:
        return []


def marks_for(values: Sequence[str]) -> str:
    """So many question marks."""
    return ", ".join("?" * len(values))


def _begin(database: sqlite3.Connection, *, whole: bool, by: str = "") -> None:
    for table in ("executions", "tries", "tool_calls", "packed"):
        database.execute(f"DELETE FROM {table}")  # noqa: S608
    database.execute("INSERT OR REPLACE INTO filled VALUES (0, ?, ?)", (whole, by))


def _put_packed(
    database: sqlite3.Connection, state: ExecutionState, calls: Mapping[str, CallTotals], place: Place
) -> None:
    database.execute(PUT, _values(state, place))
    note(database, state.id, records_from(state), calls)


def _read_so_far(database: sqlite3.Connection) -> dict[int, int]:
    """How far each file of packed executions was read."""
    return dict(database.execute("SELECT file, size FROM packed ORDER BY file").fetchall())


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


def _values(state: ExecutionState, place: Place | None = None) -> tuple[Any, ...]:
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
        0 if place is None else place.size,
        state.seq,
        None if place is None else place.number,
        0 if place is None else place.offset,
    )


def _valid(found: Iterable[tuple[Any, ...]]) -> list[Row]:
    """The rows that are rows: a database may hold what nobody of us wrote."""
    rows = []
    for one in found:
        with contextlib.suppress(ValidationError):
            rows.append(Row(**dict(zip(NAMES, one, strict=True))))
    return rows


def _remove(database: sqlite3.Connection, ids: Iterable[str]) -> None:
    for one in ids:
        for table in ("executions", "marks"):
            database.execute(f"DELETE FROM {table} WHERE id = ?", (one,))  # noqa: S608
        note(database, one, (), {})
