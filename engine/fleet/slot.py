"""The record of an execution that this process holds, in the fleet's Postgres: who has lost it can't write any more."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol

from go_ent.engine.executions.history import CallTotals
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import MAX_MARK, Attachments, Record
from go_ent.engine.executions.totals import records_from
from go_ent.engine.fleet.execution_index import noting, putting
from go_ent.engine.fleet.writer import LATER_S, LINGER_S, Entry, Statement, Writer
from go_ent.engine.storage.packed import MAX_PACKED
from go_ent.engine.storage.records import MAX_JOURNAL, decode, encode

log = logging.getLogger("go_ent.engine.fleet")

# Written by the owner alone. Again, after a lost connection: it is there already.
LINES = """
with mine as (update $.slots set seq = %(seq)s, size = %(end)s
  where id = %(id)s and epoch = %(epoch)s and size in (%(start)s, %(end)s) returning id)
insert into $.lines as l select id, %(start)s, %(data)s from mine
on conflict (slot, start) do update set start = l.start
"""
# By a member that lives: one that was taken for dead, and does not know it yet, must not begin anew what others have
# brought to its end. Nobody buries it meanwhile.
PLACE = """
insert into $.slots as s (id, owner, epoch, process, seq, size, packed)
select %(id)s, %(owner)s, 1, %(process)s, %(seq)s, %(size)s, %(packed)s
where %(by)s::bigint is null or exists (select from $.members where id = %(by)s and dead is null for share)
on conflict (id) do update set epoch = 1 where s.owner is not distinct from excluded.owner and s.epoch = 1
"""
FIRST = "insert into $.lines select id, 0, %s from $.slots where id = %s on conflict do nothing"
RELEASE = "update $.slots set owner = null, interrupt = false, mark = null where id = %s and epoch = %s"
# What a line of a pipeline came to: its calls are on record. That a step was sent: who does not know it sends it again
# by the same name, which changes nothing.
FOUND_OUT_AGAIN = ("line", "sent")

Request = Literal["interrupt", "mark"]


class Home(Protocol):
    """Where slots are kept."""

    @property
    def writer(self) -> Writer:
        """Writes for all of them."""

    def joined(self) -> tuple[int, str]:
        """This process as a member of the fleet: its number and its identity. Blocks."""

    def took(self, slot: PostgresSlot) -> None:
        """This process has that slot."""

    def gave(self, slot: PostgresSlot) -> None:
        """It has it no more."""

    def asked(self, slot: PostgresSlot, request: Request) -> bool:
        """Whether others want it interrupted, or marked."""

    def answer(self, slot: PostgresSlot, request: Request) -> None:
        """A request was heard."""

    def mark_of(self, slot_id: str, most: int) -> bytes:
        """What is to be marked."""

    def records(self, slot_id: str) -> Iterator[Record]:
        """What was written so far."""

    def attachments(self, slot_id: str, kind: str) -> Attachments:
        """What is kept beside it."""


class Taken(NamedTuple):
    """How a slot was when it was taken, and the identity of the process of this machine that had it and died."""

    epoch: int
    seq: int
    size: int
    before: str | None


class PostgresSlot:
    """A `Slot` of a fleet. A new one is in memory until it is placed; then what is appended is written soon, and
    `sync` waits for it.
    """

    def __init__(self, home: Home, slot_id: str, taken: Taken | None = None) -> None:
        """*taken* is what it was taken with; without it, it is a new one."""
        self.id = slot_id
        self.where = f"execution {slot_id} in the fleet"
        self.epoch, self.seq, self.size, self.before = taken or Taken(0, 0, 0, None)
        self.released = False
        self._home = home
        self._lock = threading.RLock()
        self._lines: list[bytes] = []
        self._start = self.size  # where they begin
        self._queued = self._begun = 0  # the writer's numbers of the last entry, and the last that it has begun
        self._entry: Entry | None = None  # which will take what is appended now
        self._lost: OSError | None = None
        self._copying: int | None = None  # the thread that appends what others keep until it is written

    @property
    def placed(self) -> bool:
        return self.epoch > 0

    @property
    def lost(self) -> bool:
        """Whether what was appended and is not written yet never will be."""
        return self._lost is not None

    def lose(self, why: OSError | None = None) -> None:
        """Others have it, or may: nothing is written any more."""
        self._lost = self._lost or why or OSError(errno.ESTALE, f"{self.where} was taken over by another process")

    def place(self, state: ExecutionState) -> None:
        with self._lock:
            if self.placed or self.released:
                return
            self._place(state)
            self._home.took(self)

    def place_soon(self, state: ExecutionState) -> None:
        """The same, without waiting for it; several share one write. If it can't be, `sync` tells."""
        with self._lock:
            if self.placed or self.released:
                return
            self._queued = self._begun = self._home.writer.add(self._placing(state, self.lose))
            self.epoch, self._lines, self._start = 1, [], self.size
            self._home.took(self)

    def _place(self, state: ExecutionState, *, leave: bool = False) -> None:
        failed: list[OSError] = []
        self._home.writer.wait(self._home.writer.add(self._placing(state, failed.append, leave=leave)))
        if failed:
            raise failed[0]
        self.epoch, self._lines, self._start = 1, [], self.size

    def _placing(self, state: ExecutionState, failed: Callable[[OSError], None], *, leave: bool = False) -> Entry:
        member, process = self._home.joined()
        mine = (None, "") if leave else (member, process)

        def made(counts: list[int], error: OSError | None) -> None:
            if error is not None or counts[0] != 1:
                said = f"{self.where} is there already, or this process was taken for dead"
                failed(error or FileExistsError(errno.EEXIST, said))

        statements = [*self._first(*mine, by=member), *self._indexed(state)]
        return Entry(lambda: statements, made)

    def _first(self, owner: int | None, process: str, *, by: int | None, packed: bool = False) -> list[Statement]:
        """The slot, with what it has so far. *by* is the member that writes it, if others could have it."""
        given = {"id": self.id, "owner": owner, "process": process, "by": by}
        sizes = {"seq": self.seq, "size": self.size, "packed": packed}
        return [(PLACE, {**given, **sizes}), (FIRST, (b"".join(self._lines), self.id))]

    def _indexed(self, state: ExecutionState) -> list[Statement]:
        return [putting(state)] if state.id == self.id else []  # a step of an execution is not one

    def append(self, kind: str, data: Mapping[str, Any], raw: Mapping[str, bytes] | None = None) -> int:
        with self._lock:
            if self.released:
                raise ValueError("the journal is closed")
            if self._lost is not None:
                raise self._lost
            line = encode(self.seq + 1, time.time(), kind, data, raw)
            if self.size + len(line) > MAX_JOURNAL:
                raise OSError(errno.EFBIG, f"the journal of an execution may have {MAX_JOURNAL} bytes")
            self._lines.append(line)
            self.seq += 1
            self.size += len(line)
            if self.placed:
                later = kind in FOUND_OUT_AGAIN or self._copying == threading.get_ident()
                self._queue(LATER_S if later else LINGER_S)
            return self.seq

    @contextmanager
    def copying(self) -> Iterator[None]:
        """What this thread appends within it is on record elsewhere until it is written here, so that may be later."""
        self._copying = threading.get_ident()
        try:
            yield
        finally:
            self._copying = None

    def _queue(self, within_s: float = LINGER_S) -> None:
        if self._entry is None:
            self._entry = Entry(self._take, self._written)
            self._queued = self._home.writer.add(self._entry, within_s)
        else:
            self._home.writer.hasten(within_s)

    def _take(self) -> list[Statement]:
        """For the writer, when it is its turn: all that was appended meanwhile."""
        with self._lock:
            self._entry, self._begun = None, self._queued
            if self._lost is not None or not self._lines:
                return []
            given = {"id": self.id, "epoch": self.epoch, "seq": self.seq, "start": self._start, "end": self.size}
            data, self._lines, self._start = b"".join(self._lines), [], self.size
            return [(LINES, {**given, "data": data})]

    def _written(self, counts: list[int], error: OSError | None) -> None:
        if error is not None or 0 in counts:
            self.lose(error)

    def sync(self) -> None:
        with self._lock:
            if self._lines and self.placed:
                self._queue()
            number = self._queued
        self._home.writer.wait(number)
        if self._lost is not None:
            raise self._lost

    def save(self, state: ExecutionState) -> None:
        """The records have it all."""

    def records(self) -> Iterator[Record]:
        if self.placed:
            self.sync()
            return self._home.records(self.id)
        return (found[0] for line in list(self._lines) if (found := decode(line)) is not None)

    def may_pack(self, more: int) -> bool:
        return not self.placed and self.size + more <= MAX_PACKED

    def pack(self, state: Callable[[], ExecutionState], calls: Mapping[str, CallTotals]) -> bool:
        with self._lock:
            if self.released or not self.may_pack(0):
                return False
            now = state()
            statements = [
                *self._first(None, "", by=None, packed=True),
                putting(now),
                *noting(now.id, records_from(now), calls),
            ]
            self._home.writer.add(Entry(lambda: statements, self._packed))
            self.released = True
            return True

    def _packed(self, _: list[int], error: OSError | None) -> None:
        if error is not None:
            log.warning("%s is not on record: %s", self.where, error)

    def interrupt_requested(self) -> bool:
        if not self.placed or not self._home.asked(self, "interrupt"):
            return False
        self._home.answer(self, "interrupt")
        return True

    def mark_requested(self) -> bytes | None:
        if not self.placed or not self._home.asked(self, "mark"):
            return None
        return self._home.mark_of(self.id, MAX_MARK)

    def mark_answered(self) -> None:
        self._home.answer(self, "mark")

    def attachments(self, kind: str) -> Attachments:
        return self._home.attachments(self.id, kind)

    def release(self) -> None:
        with self._lock:
            if self.released:
                return
            if self.placed:
                if self._lines and self._lost is None:
                    self._queue()
                statement = (RELEASE, (self.id, self.epoch))
                self._queued = self._home.writer.add(Entry(lambda: [statement]))
            self.released = True
            number = self._queued
        self._home.writer.wait(number)
        self._home.gave(self)

    def leave(self, state: ExecutionState, most: int = 0) -> bytes:
        """Let go of the record of a part of an execution: it is there for who has the execution when this returns,
        and who removes it. That it is nobody's is written with something else.

        The last records, if they are *most* bytes together and nobody writes them yet, are returned instead: who tells
        of the end tells them with it.
        """
        with self._lock:
            if self.released:
                return b""
            self.released = True
            rest = b"".join(self._lines) if self._lost is None else b""
            if len(rest) > most:
                rest = b""
            else:
                self._lines, self._start = [], self.size
            if not self.placed:
                if not rest:
                    self._place(state, leave=True)
                return rest
            if self._lines and self._lost is None:
                self._queue()
            number, statement = self._queued if self._lines else self._begun, (RELEASE, (self.id, self.epoch))
            self._home.writer.add(Entry(lambda: [statement]), LATER_S)
        self._home.writer.wait(number)
        self._home.gave(self)
        return rest
