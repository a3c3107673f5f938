"""What was recorded of executions, for those who look: lists, timelines, values, files; and what is removed of it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from go_ent.composer.codemode.past_runs import PastRun
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import ExecutionNotFound
from go_ent.engine.executions.history import Grouping, Totals
from go_ent.engine.executions.kept_files import KeptFile, files_of, read_file
from go_ent.engine.executions.past_runs import past_run
from go_ent.engine.executions.retention import Pruned, prune
from go_ent.engine.executions.state import ExecutionState, ExecutionStatus
from go_ent.engine.executions.storage import Record, Row, StorageWatch
from go_ent.engine.executions.store import ALIVE, ExecutionStore
from go_ent.engine.timeline import Span, Timeline
from go_ent.sandbox.media.kinds import Media

MOST_TIMELINES = 16  # that are kept, to be followed
MOST_READ = 100_000  # records of one journal that are read in one go
PART = 1000  # records that are read at once: a call is found again in the part that has it


@dataclass(slots=True)
class _Followed:
    """A timeline, and how far its journal was read."""

    timeline: Timeline = field(default_factory=Timeline)
    offset: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class CallDetails:
    """A step or a call with its values, as they are on record. None: too large to be kept, or not there yet."""

    span: Span
    arguments: Any = None
    answer: Any = None
    has_answer: bool = False


class Records:
    """The record of a project's executions. Its methods do not check whose an execution is; they take whole ids."""

    def __init__(self, store: ExecutionStore) -> None:
        self._store = store
        self._followed: OrderedDict[str, _Followed] = OrderedDict()

    def watch(self, told: Callable[[], None]) -> StorageWatch:
        """Have *told* called, by another thread, when executions may have changed; see `ExecutionStorage.watch`."""
        return self._store.storage.watch(told)

    async def calls(self, ids: Sequence[str]) -> dict[str, int]:
        """How many calls executions have made, as far as they were counted."""
        return await asyncio.to_thread(self._store.index.calls, ids) if ids else {}

    async def counts(self) -> dict[ExecutionStatus, int]:
        """How many executions there are of each status."""
        return await asyncio.to_thread(self._store.counts)

    async def totals(self, by: Grouping, *, since: float | None = None) -> dict[str, Totals]:
        """What the executions that are still there came to, since a time; by tool, the calls of guests count too."""
        return await asyncio.to_thread(partial(self._store.index.totals, by, since=since))

    async def waiting(self, limit: int, client: str | None = None) -> list[ExecutionState]:
        """The executions with calls that wait for a decision, the newest first."""

        def look() -> list[ExecutionState]:
            found = []
            for row in self._store.rows(limit, status="paused", client=client):
                state = self._store.load(row.id, compare=False)
                if state.requests:
                    found.append(state)
            return found

        return await asyncio.to_thread(look)

    async def timeline(self, execution_id: str) -> Timeline:
        """What an execution has done so far. The same one is brought up to date each time: it belongs to this loop."""
        followed = self._followed.setdefault(execution_id, _Followed())
        self._followed.move_to_end(execution_id)
        while len(self._followed) > MOST_TIMELINES:
            self._followed.popitem(last=False)
        async with followed.lock:
            await asyncio.to_thread(self._read_on, execution_id, followed)
        return followed.timeline

    def _read_on(self, execution_id: str, followed: _Followed) -> None:
        read = 0
        while read < MOST_READ:
            try:
                records, offset = self._store.read_from(execution_id, followed.offset, PART)
            except ExecutionNotFound:  # it has just begun, in this process: it is on disk soon
                return
            if offset < followed.offset:  # it was mended
                followed.timeline, followed.offset = Timeline(), 0
                continue
            if not records or offset == followed.offset:
                return
            followed.timeline.add(records, followed.offset)
            followed.offset = offset
            read += len(records)

    async def details(self, execution_id: str, path: str) -> CallDetails | None:
        """One step or call with its values; None if there is none at *path*."""
        span = (await self.timeline(execution_id)).spans.get(path)
        if span is None:
            return None
        details = CallDetails(span)
        for place, kinds in ((span.begun_at, ("call", "calls")), (span.ended_at, ("answer", "step_finished", "calls"))):
            if place is not None:
                records, _ = await asyncio.to_thread(self._store.read_from, execution_id, place, PART)
                _fill(details, [one for one in records if one["kind"] in kinds])
        return details

    async def tail(self, execution_id: str, offset: int, most: int) -> tuple[list[Record], int]:
        """The records from *offset* on, about *most* of them, and where to read on."""
        try:
            return await asyncio.to_thread(self._store.read_from, execution_id, offset, most)
        except ExecutionNotFound:
            return [], offset

    async def children(self, execution_id: str, limit: int = 100) -> list[Row]:
        """The executions that one has begun."""
        return await asyncio.to_thread(partial(self._store.rows, limit, parent=execution_id))

    async def files(self, execution_id: str) -> list[KeptFile]:
        """The files that an execution left."""
        return files_of((await self.timeline(execution_id)).files)

    async def file(self, execution_id: str, name: str) -> Media:
        """One file of an execution."""
        return await asyncio.to_thread(read_file, self._store, execution_id, name)

    async def past_run(self, execution_id: str) -> PastRun:
        """The code that an execution ran to its end, for `Composer.tool_of`; `ExecutionConflict` if it did not."""
        return await asyncio.to_thread(past_run, self._store, execution_id)

    async def prune(self, **options: Any) -> Pruned:
        """Remove old executions, as `go-ent executions prune` does; see `prune`."""
        return await asyncio.to_thread(partial(prune, self._store, **options))

    async def remove(self, rows: Sequence[Row], *, resumable: bool = False) -> tuple[list[str], dict[str, str]]:
        """Remove these executions, unless a process has one, or it can be resumed: which were, and why others not."""
        failed: dict[str, str] = {}
        doomed = [row for row in rows if row.status not in ALIVE and (resumable or not row.resumable)]
        removed, _ = await asyncio.to_thread(partial(self._store.storage.remove, doomed, failed, resumable=resumable))
        return removed, failed


def _fill(details: CallDetails, records: list[Record]) -> None:
    path = details.span.path
    for record in records:
        kind = record["kind"]
        if kind == "step_finished" and record.get("step") == path:
            result = record["result"]
            details.answer = result.get("output") if result.get("structured") is None else result.get("structured")
            details.has_answer = True
        elif kind == "call" and record.get("path") == path and record["seq"] == details.span.seq:
            details.arguments = record.get("arguments")
        elif kind == "answer" and record.get("path") == path and isinstance(record.get("answer"), list):
            details.answer, details.has_answer = record["answer"][2], record["answer"][1] == 1
        elif kind == "calls" and path.startswith(f"{record.get('path')}/"):
            number = int(path.rpartition("/")[2])
            noted = record["calls"][number - 1] if number <= len(record["calls"]) else {}
            details.arguments = [[], noted.get("arguments") or {}]
            details.answer, details.has_answer = noted.get("result"), not noted.get("error")
