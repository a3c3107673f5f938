"""Executions in memory: for tests, and for programs that want nothing on disk. They go with the process."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field
from typing import Any, Unpack

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import ExecutionConflict, ExecutionNotFound
from go_ent.engine.core.ids import PREFIX, is_meant, short_id
from go_ent.engine.executions.building import StateBuilder
from go_ent.engine.executions.history import CallTotals, ExecutionHistory, ExecutionRecord, Grouping, Totals
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import MOST_READ, Filters, IndexCheck, Record, Row
from go_ent.engine.executions.totals import records_from
from go_ent.engine.storage.index_schema import first_id
from go_ent.engine.storage.packed import MAX_PACKED
from go_ent.engine.storage.records import MAX_JOURNAL, decode, encode


class MemoryAttachments:
    """`Attachments` in memory."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._kept: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def names(self, most: int) -> list[str]:
        return list(self._kept)[: most + 1]

    def read(self, name: str, most: int) -> bytes:
        if name not in self._kept:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._kept[name][: most + 1]

    def add(self, name: str, data: bytes) -> None:
        if self._kept.setdefault(name, data) is not data:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)

    def alone(self) -> AbstractContextManager[Any]:
        return self._lock

    def prepare(self) -> None:
        """There is nothing to prepare."""


@dataclass(slots=True)
class Kept:
    """An execution: its records as lines, who has it, and what is asked of it."""

    id: str
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    held: bool = True
    packed: bool = False
    interrupt: bool = False
    mark: bytes | None = None
    attached: dict[str, MemoryAttachments] = field(default_factory=dict)

    def records(self) -> Iterator[Record]:
        return (found[0] for line in list(self.lines) if (found := decode(line)) is not None)

    def attachments(self, kind: str) -> MemoryAttachments:
        return self.attached.setdefault(kind, MemoryAttachments(f"{kind} of execution {self.id}"))


class MemoryIndex:
    """`ExecutionIndex` in memory. It is told of everything, so it lacks nothing."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, Row]] = {}  # with the number of the last record
        self._came_to: dict[str, tuple[list[ExecutionRecord], Mapping[str, CallTotals]]] = {}

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def put(self, state: ExecutionState, *, packed: int = 0) -> None:
        """Of one that is kept with others, *packed* is how many bytes it has."""
        fields = state.model_dump(include=Row.model_fields.keys() - {"image", "resumable", "size", "packed"})
        row = Row(**fields, image=state.environment.image, resumable=state.resumable, size=packed, packed=bool(packed))
        if state.id not in self._rows or self._rows[state.id][0] <= state.seq:
            self._rows[state.id] = state.seq, row

    def note(self, execution_id: str, records: Iterable[ExecutionRecord], calls: Mapping[str, CallTotals]) -> None:
        self._came_to[execution_id] = list(records), dict(calls)

    def remove(self, *ids: str) -> None:
        for one in ids:
            self._rows.pop(one, None)
            self._came_to.pop(one, None)

    def find(self, text: str) -> list[str]:
        return sorted(one for one in list(self._rows) if is_meant(text, one))[:4] if PREFIX.fullmatch(text) else []

    def shared(self) -> set[str]:
        counts = Counter(short_id(one) for one in list(self._rows))
        return {name for name, count in counts.items() if count > 1}

    def rows(self, limit: int = 50, **filters: Unpack[Filters]) -> list[Row]:
        since, before, below = filters.pop("since", None), filters.pop("before", None), filters.pop("below", None)
        text, tool = filters.pop("text", None), filters.pop("tool", None)
        runtime = filters.pop("runtime", None)
        wanted = {
            name: value for name, value in filters.items() if value is not None and (name, value) != ("client", "")
        }
        found = [
            row
            for _, row in list(self._rows.values())
            if all(getattr(row, name) == value for name, value in wanted.items())
            and (since is None or row.id >= first_id(since))
            and (before is None or row.id < first_id(before))
            and (below is None or row.id < below)
            and (text is None or text.lower() in row.title.lower())
            and (tool is None or tool in self._tools(row.id))
            and (runtime is None or any(one.runtime == runtime for one in self._came_to.get(row.id, ([], {}))[0]))
        ]
        return sorted(found, key=lambda row: row.id, reverse=True)[: max(0, limit)]

    def _tools(self, execution_id: str) -> set[str | None]:
        records, calls = self._came_to.get(execution_id, ([], {}))
        return {one.tool for one in records} | set(calls)

    def calls(self, ids: Sequence[str]) -> dict[str, int]:
        known = {one: self._came_to[one][1] for one in ids if one in self._came_to}
        return {one: sum(made.calls for made in calls.values()) for one, calls in known.items() if calls}

    def counts(self) -> dict[str, int]:
        return Counter(row.status for _, row in list(self._rows.values()))

    def totals(self, by: Grouping, *, since: float | None = None) -> dict[str, Totals]:
        start = 0.0 if since is None else since
        came_to = list(self._came_to.values())
        records = tuple(one for records, _ in came_to for one in records if one.at >= start)
        found = ExecutionHistory(records=records).by(by)
        made: dict[str, CallTotals] = {}
        for tool, calls in ((tool, calls) for _, of_one in came_to for tool, calls in of_one.items()):
            if by == "tool" and calls.at >= start:
                made.setdefault(tool, CallTotals()).add(calls.calls, calls.failures, calls.ms, calls.at)
        found |= {tool: found.get(tool, Totals()).with_calls(calls) for tool, calls in made.items()}
        return dict(sorted(found.items()))

    def missing(self) -> dict[str, str]:
        return {}

    def rebuild(self) -> int:
        return len(self._rows)

    def check(self) -> IndexCheck | None:
        return IndexCheck(len(self._rows), len(self._rows)) if self._rows else None


class Memory:
    """What several `MemoryStorage` share, as processes share a disk."""

    def __init__(self) -> None:
        self.executions: dict[str, Kept] = {}
        self.index = MemoryIndex()
        self.changed = threading.Condition(threading.RLock())
        self.pruning = threading.Lock()
        self.pruned: float | None = None
        self.watches: list[MemoryWatch] = []

    def tell(self) -> None:
        """Tell all watches that something has changed."""
        for watch in list(self.watches):
            watch.told()

    def get(self, execution_id: str) -> Kept:
        if (kept := self.executions.get(execution_id)) is None:
            raise ExecutionNotFound(f"there is no execution {execution_id[:80]}")
        return kept


class MemorySlot:
    """A `Slot` in memory."""

    before = None

    def __init__(self, memory: Memory, kept: Kept, *, placed: bool) -> None:
        self.where = f"execution {kept.id}"
        self.placed, self.released = placed, False
        self._memory, self._kept = memory, kept

    @property
    def seq(self) -> int:
        return len(self._kept.lines)

    @property
    def size(self) -> int:
        return self._kept.size

    def place(self, state: ExecutionState) -> None:
        with self._memory.changed:
            if not self.placed and not self.released:
                self._memory.executions[state.id] = self._kept
                self._memory.index.put(state)
                self.placed = True
                self._memory.tell()

    def append(self, kind: str, data: Mapping[str, Any], raw: Mapping[str, bytes] | None = None) -> int:
        with self._memory.changed:
            if self.released:
                raise ValueError("the journal is closed")
            line = encode(self.seq + 1, time.time(), kind, data, raw)
            if self.size + len(line) > MAX_JOURNAL:
                raise OSError(errno.EFBIG, f"the journal of an execution may have {MAX_JOURNAL} bytes")
            self._kept.lines.append(line)
            self._kept.size += len(line)
            self._memory.tell()
            return self.seq

    def sync(self) -> None:
        """It is as safe as it gets."""

    def save(self, state: ExecutionState) -> None:
        """The records have it all."""

    def records(self) -> Iterator[Record]:
        return self._kept.records()

    def may_pack(self, more: int) -> bool:
        return not self.placed and self.size + more <= MAX_PACKED

    def pack(self, state: Callable[[], ExecutionState], calls: Mapping[str, CallTotals]) -> bool:
        with self._memory.changed:
            if self.released or not self.may_pack(0):
                return False
            self._kept.packed = True
            now = state()
            self._memory.executions[now.id] = self._kept
            self._memory.index.put(now, packed=self.size)
            self._memory.index.note(now.id, records_from(now), calls)
            self.release()
            return True

    def interrupt_requested(self) -> bool:
        with self._memory.changed:
            asked, self._kept.interrupt = self._kept.interrupt, False
            return asked

    def mark_requested(self) -> bytes | None:
        return self._kept.mark

    def mark_answered(self) -> None:
        with self._memory.changed:
            self._kept.mark = None
            self._memory.changed.notify_all()

    def attachments(self, kind: str) -> MemoryAttachments:
        return self._kept.attachments(kind)

    def release(self) -> None:
        with self._memory.changed:
            if not self.released:
                self.released, self._kept.held = True, False
                self._memory.changed.notify_all()
                self._memory.tell()


class MemoryWatch:
    """`StorageWatch` of what is in memory. Who is told is told by who changes something."""

    def __init__(self, memory: Memory, told: Callable[[], None]) -> None:
        self._memory, self.told = memory, told
        memory.watches.append(self)

    def follow(self, ids: Iterable[str]) -> None:
        self.told()

    def close(self) -> None:
        if self in self._memory.watches:
            self._memory.watches.remove(self)


class MemoryStorage:
    """`ExecutionStorage` in memory: its own, or one that it shares with others."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()

    @property
    def index(self) -> MemoryIndex:
        return self.memory.index

    def create(self, execution_id: str) -> MemorySlot:
        return MemorySlot(self.memory, Kept(execution_id), placed=False)

    def hold(self, execution_id: str) -> tuple[MemorySlot, ExecutionState]:
        with self.memory.changed:
            kept = self.memory.get(execution_id)
            if kept.held:
                raise ExecutionConflict(f"execution {execution_id} is being run by process {os.getpid()}")
            state = self.load(execution_id)
            kept.held, kept.interrupt = True, False  # who asked to stop it meant who had it before
            if kept.packed:
                kept.packed = False
                self.index.put(state)
            return MemorySlot(self.memory, kept, placed=True), state

    def is_held(self, execution_id: str) -> bool:
        kept = self.memory.executions.get(execution_id)
        return kept is not None and kept.held

    def where(self, execution_id: str) -> str:
        return f"execution {execution_id}"

    def has(self, execution_id: str) -> bool:
        return execution_id in self.memory.executions

    def ids(self) -> list[str]:
        return []

    def load(self, execution_id: str, *, compare: bool = True) -> ExecutionState:
        return StateBuilder(execution_id, self.where(execution_id)).add_all(self.records(execution_id))

    def records(self, execution_id: str) -> Iterator[Record]:
        return self.memory.get(execution_id).records()

    def read_from(self, execution_id: str, offset: int, most: int = MOST_READ) -> tuple[list[Record], int]:
        records, at = [], 0
        for line in list(self.memory.get(execution_id).lines):
            at += len(line)
            if at > offset and (found := decode(line)) is not None:
                records.append(found[0])
            if len(records) >= most:
                break
        return records, at

    def attachments(self, execution_id: str, kind: str) -> MemoryAttachments:
        return self.memory.get(execution_id).attachments(kind)

    def forget_unborn(self, execution_id: str) -> None:
        """None is ever seen: there is one once it has its first record."""

    def ask_to_interrupt(self, execution_id: str) -> None:
        self.memory.get(execution_id).interrupt = True

    def ask_for_mark(self, execution_id: str, request: bytes, patience_s: float) -> bool:
        kept, until = self.memory.get(execution_id), time.monotonic() + patience_s
        with self.memory.changed:
            for asking in (True, False):  # one at a time; then until it is answered
                if not self.memory.changed.wait_for(
                    lambda: kept.mark is None or not kept.held, max(0.0, until - time.monotonic())
                ):
                    raise ExecutionConflict(
                        f"the process that has execution {execution_id} does not answer: it may hang"
                    )
                if not kept.held:
                    answered, kept.mark = kept.mark is None and not asking, None
                    return answered
                if asking:
                    kept.mark = request
        return True

    def watch(self, told: Callable[[], None]) -> MemoryWatch:
        return MemoryWatch(self.memory, told)

    def oldest(self) -> Iterator[Row]:
        return reversed(self.index.rows(len(self.memory.executions)))

    def sizes(self, rows: Iterable[Row]) -> dict[str, int]:
        return {row.id: kept.size for row in rows if (kept := self.memory.executions.get(row.id)) is not None}

    def remove(self, rows: Iterable[Row], failed: dict[str, str], *, resumable: bool) -> tuple[list[str], int]:
        removed, freed = [], 0
        with self.memory.changed:
            for row in rows:
                kept = self.memory.executions.get(row.id)
                if kept is not None and not kept.held and (resumable or not self.load(row.id).resumable):
                    del self.memory.executions[row.id]
                    removed.append(row.id)
                    freed += kept.size
            self.index.remove(*removed)
            self.memory.tell()
        return removed, freed

    @contextmanager
    def turn_to_prune(self, every_s: float) -> Iterator[bool]:
        memory = self.memory
        if not memory.pruning.acquire(blocking=False):
            yield False
            return
        try:
            due = memory.pruned is None or time.monotonic() - memory.pruned >= every_s
            yield due
            if due:
                memory.pruned = time.monotonic()
        finally:
            memory.pruning.release()

    def needs_image(self, digest: str) -> bool:
        return any(row.resumable and row.image == digest for row in self.oldest())

    def older_runs(self) -> Iterator[bytes]:
        return iter(())

    def flush(self) -> None:
        """All is where it belongs."""

    def close(self) -> None:
        """There is nothing to let go of."""
