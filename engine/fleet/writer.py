"""What a process writes to the fleet's Postgres: in order, in few transactions. Who waits shares the next one."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import field
from typing import Any

from psycopg import Connection

from go_ent.dataclass import dataclass
from go_ent.engine.fleet.database import Database

log = logging.getLogger("go_ent.engine.fleet")
LINGER_S = 0.05  # that what nobody waits for may wait for more
LATER_S = 0.3  # the same for what could be found out again
MOST_AT_ONCE = 500
TELL_S = 0.5  # between two notifications: those who watch are told of many writes at once
NOTIFY = b"select pg_notify(%s, '')"
# What is written: a query and what it is given, made when it is its turn; None: there is nothing any more.
Statement = tuple[str, Any]


@dataclass(slots=True, eq=False)
class Entry:
    """Something to be written, and what came of it. *make* may be asked more than once, if the connection is lost."""

    make: Callable[[], list[Statement]]
    done: Callable[[list[int], OSError | None], None] = lambda counts, error: None  # rows that each query changed
    statements: list[Statement] | None = None
    counts: list[int] = field(default_factory=list)


class Writer:
    """Of one storage. Thread-safe. A thread writes; it ends with the writer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._waiting: list[Entry] = []
        self._added = self._written = 0
        self._due = 0.0  # when what waits is written at the latest
        self._over = False
        self._told, self._untold = 0.0, False
        self._thread: threading.Thread | None = None

    def add(self, entry: Entry, within_s: float = LINGER_S) -> int:
        """Write that soon; the number to `wait` for."""
        with self._changed:
            if not self._waiting:
                self._due = float("inf")
            self._waiting.append(entry)
            self._added += 1
            self._due = min(self._due, time.monotonic() + within_s)
            if self._thread is None or not self._thread.is_alive():
                self._over = False
                self._thread = threading.Thread(target=_write, args=(weakref.ref(self),), name="fleet", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return self._added

    def hasten(self, within_s: float = LINGER_S) -> None:
        """What waits now must not wait for longer than that."""
        with self._changed:
            due = time.monotonic() + within_s
            if due < self._due:
                self._due = due
                self._changed.notify_all()

    def wait(self, number: int) -> None:
        """Until that many have been written, or have failed."""
        with self._changed:
            if self._written >= number:
                return
            self.hasten(0.0)
            self._changed.wait_for(lambda: self._written >= number)

    def flush(self) -> None:
        """Until all that was added has been written, or has failed."""
        self.wait(self._added)

    def close(self) -> None:
        """Flush, and end the thread. The next entry starts another."""
        self.flush()
        with self._changed:
            self._over = True
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(2.0)

    def take(self) -> list[Entry] | None:
        """For the thread: what is to be written now; None at the end."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting or self._over, TELL_S if self._untold else 1.0):
                return []
            if not self._waiting:
                return None
            while not self._over and (left := self._due - time.monotonic()) > 0:
                self._changed.wait(left)
            taken, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
            return taken

    def tell(self) -> None:
        """Those who watch the fleet's executions, of what they were not told yet. A notification is a hint."""
        if self._untold:
            self._told, self._untold = time.monotonic(), False
            with contextlib.suppress(OSError):
                notify(self._database, patience_s=0.0)

    def write(self, entries: list[Entry]) -> None:
        """All in one transaction; if that can't be, each by itself, so that one fails alone."""
        try:
            self._transact(entries)
            wrong: dict[Entry, OSError] = {}
        except OSError as error:
            wrong = {entries[0]: error} if len(entries) == 1 else {}
            for entry in entries if len(entries) > 1 else ():
                try:
                    self._transact([entry])
                except OSError as failed:
                    wrong[entry] = failed
        for entry in entries:
            try:
                entry.done(entry.counts, wrong.get(entry))
            except Exception:
                log.exception("what was written to the fleet could not be told")
        with self._changed:
            self._written += len(entries)
            self._changed.notify_all()

    def _transact(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.statements is None:
                entry.statements = entry.make()

        tells = time.monotonic() - self._told >= TELL_S

        def write(connection: Connection) -> None:
            with connection.transaction(), connection.pipeline():
                cursors = [
                    [connection.execute(self._database.query(text).encode(), given) for text, given in entry.statements]
                    for entry in entries
                    if entry.statements is not None
                ]
                if tells:
                    connection.execute(NOTIFY, (channel(self._database),))
            for entry, made in zip(entries, cursors, strict=True):
                entry.counts = [cursor.rowcount for cursor in made]

        if any(entry.statements for entry in entries):
            self._database.run(write)
            self._untold = not tells
            if tells:
                self._told = time.monotonic()


def channel(database: Database) -> str:
    """What is notified when executions change."""
    return f"{database.address.namespace}_executions"


def notify(database: Database, *, patience_s: float | None = None) -> None:
    """Tell whoever watches that executions have changed."""
    database.run(lambda connection: connection.execute(NOTIFY, (channel(database),)), patience_s=patience_s)


def _write(writer: weakref.ref[Writer]) -> None:
    while True:
        mine = writer()
        if mine is None:
            return
        entries = mine.take()
        if not entries:
            mine.tell()
        if entries is None:
            return
        if entries:
            mine.write(entries)
        del mine, entries
