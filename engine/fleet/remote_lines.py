"""Lines of a pipeline that a fleet's workers run, in chunks: one piece of work, and one record, for many lines.

A chunk has as many lines as take about half a second, so that its few writes are shared. The calls of a line are on
record before they are made, and what it came to soon after it has ended: whoever goes on with a chunk makes no finished
call again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import ValidationError

from go_ent.engine.core.errors import ExecutionNotFound
from go_ent.engine.executions.kept_files import KIND as FILES
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import Record
from go_ent.engine.fleet.dbos_adapter import LINES, Outcome
from go_ent.engine.fleet.execution_storage import PostgresStorage
from go_ent.engine.fleet.queue import WorkQueue
from go_ent.engine.fleet.records import OF_THE_EXECUTION, bare, rest_of
from go_ent.engine.fleet.slot import PostgresSlot
from go_ent.sandbox import Run, RunError

log = logging.getLogger("go_ent.engine.fleet")
FIRST, FEWEST, MOST = 16, 4, 500  # lines of a chunk
WANTED_S = 0.5  # that a chunk takes
MOST_BYTES = 512 << 10  # of the inputs of a chunk, if one line is not more
LINGER_S = 0.02  # that a line may wait for others
AGAIN_S = 5.0  # between two looks at how many workers there are
MOST_AT_ONCE = 4000
ASK_AGAIN_S, ASKED_TIMES = 0.05, 200


class Line(NamedTuple):
    """One that waits to be sent, or for what it came to."""

    number: int
    digest: str
    inputs: dict[str, Any]
    size: int
    done: asyncio.Future[Run]


class Where(NamedTuple):
    """Who may run lines: workers with a label, and with those environment variables; how many slots they have."""

    label: str | None
    needs: tuple[str, ...]
    slots: int


class RemoteLines:
    """`LinesElsewhere` of one execution, which this process holds."""

    def __init__(self, storage: PostgresStorage, queue: WorkQueue, held: OwnedExecution, where: Where) -> None:
        self._storage, self._queue, self._held, self._where = storage, queue, held, where
        self._slots, self._looked = where.slots, time.monotonic()
        self._state = untouched(held.state)
        assert isinstance(held.slot, PostgresSlot)
        self._turn = held.slot.epoch  # what was sent, and stopped, in an earlier one is not sent by its name again
        self._waiting: list[Line] = []
        self._size = FIRST
        self._chunks: dict[str, asyncio.Task[None]] = {}
        self._later: asyncio.TimerHandle | None = None
        self._stopped = False
        self._asking: set[asyncio.Task[None]] = set()

    @property
    def at_once(self) -> int:
        """Enough for the chunks that are under way, and for the next ones."""
        return min(MOST_AT_ONCE, 4 * self._slots * max(self._size, FIRST))

    async def line(self, number: int, digest: str, inputs: dict[str, Any]) -> Run:
        done: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        self._waiting.append(Line(number, digest, inputs, len(json.dumps(inputs)), done))
        self._send(linger=True)
        return await done

    def _send(self, *, linger: bool = False) -> None:
        """Send chunks, as many as there is room for; one that is not full waits for a moment."""
        while self._waiting and (self._stopped or len(self._chunks) < 2 * self._slots):
            lines = self._next()
            if linger and not self._stopped and len(lines) < self._size and len(lines) == len(self._waiting):
                if self._later is None:
                    self._later = asyncio.get_running_loop().call_later(LINGER_S, self._linger_over)
                return
            del self._waiting[: len(lines)]
            if self._stopped:
                for line in lines:
                    _settle(line, Run(id=f"{self._held.id}/{line.number}", status="interrupted"))
                continue
            slot = f"{self._held.id}/l{lines[0].number}@{self._turn}"
            self._chunks[slot] = asyncio.create_task(self._chunk(slot, lines))

    def _linger_over(self) -> None:
        self._later = None
        self._send()

    def _next(self) -> list[Line]:
        lines, size = self._waiting[: self._size], 0
        for count, line in enumerate(lines):
            size += line.size
            if count and size > MOST_BYTES:
                return lines[:count]
        return lines

    async def _chunk(self, slot: str, lines: list[Line]) -> None:
        """Have one chunk run, and keep its record in the execution's own."""
        order = {
            "kind": LINES,
            "slot": slot,
            "state": self._state,
            "lines": [[line.number, line.digest, line.inputs] for line in lines],
        }
        runs: dict[int, Run] = {}
        problem = "interrupted"
        try:
            await asyncio.to_thread(self._queue.put, LINES, slot, order, self._where.label, self._where.needs)
            if self._stopped:
                self._ask(slot)
            outcome = await self._queue.outcome(LINES, slot)
            problem = str(outcome.error or outcome.status)[:500]
            runs, seconds = await asyncio.to_thread(copy_chunk, self._storage, self._held, slot, outcome)
            self._learn(seconds, len(lines))
            await self._look()
        except Exception as error:  # of one chunk: its lines can be run again
            log.warning("lines %d to %d: %s", lines[0].number, lines[-1].number, error)
            problem = str(error)[:500]
        finally:
            self._chunks.pop(slot, None)
            for line in lines:
                _settle(line, runs.get(line.number) or self._not_run(line, problem))
            self._send(linger=True)  # the next lines come in now, from those who waited for these

    def _not_run(self, line: Line, problem: str) -> Run:
        said = RunError(kind="interrupted", message=f"the line did not come to its end: {problem}")
        return Run(id=f"{self._held.id}/{line.number}", status="interrupted", error=said)

    def _learn(self, seconds: float, count: int) -> None:
        if seconds > 0:
            wanted = round(WANTED_S * count / seconds)
            self._size = max(FEWEST, min(MOST, wanted, 4 * self._size))

    async def _look(self) -> None:
        if time.monotonic() - self._looked > AGAIN_S:
            self._looked = time.monotonic()
            slots = await asyncio.to_thread(self._storage.members.slots, self._where.label)
            self._slots = max(1, slots)

    def stop(self) -> None:
        self._stopped = True
        for slot in list(self._chunks):
            self._ask(slot)
        self._send()

    def _ask(self, slot: str) -> None:
        """Have a chunk stop: who runs it is asked, and one that was not begun never is."""

        async def ask() -> None:
            with contextlib.suppress(Exception):
                await ask_part(self._storage, self._queue, slot)

        task = asyncio.ensure_future(ask())
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def close(self) -> None:
        """Nobody waits for lines any more: chunks that run are stopped, and waited for."""
        if self._chunks or self._waiting:
            self.stop()
        while self._chunks:
            await asyncio.wait(list(self._chunks.values()))


async def ask_part(storage: PostgresStorage, queue: WorkQueue, slot: str) -> None:
    """Have a step or a chunk stop: who runs it is asked, and one that was not begun never is. One that was begun just
    now is on record soon.
    """
    for _ in range(ASKED_TIMES):
        try:
            return await asyncio.to_thread(storage.ask_to_interrupt, slot)
        except ExecutionNotFound:
            if await asyncio.to_thread(queue.queues.cancel, slot):
                return None
        await asyncio.sleep(ASK_AGAIN_S)
    return None


def _settle(line: Line, run: Run) -> None:
    if not line.done.done():
        line.done.set_result(run)


def untouched(state: ExecutionState) -> dict[str, Any]:
    """A state for the record of a chunk: the work and what runs it, and nothing of what was done."""
    nothing = {"results": {}, "tries": {}, "begun": {}, "sessions": {}, "checkpoints": (), "seq": 0, "offset": 0}
    rest: dict[str, Any] = {"requests": {}, "result": None, "status": "running"}
    return state.model_copy(update={**nothing, **rest}).model_dump(mode="json")


def copy_chunk(
    storage: PostgresStorage, held: OwnedExecution, slot: str, outcome: Outcome
) -> tuple[dict[int, Run], float]:
    """Copy the record of a chunk that has ended into its execution's, and remove it; what its lines came to, and the
    seconds that they took. Blocks.
    """
    runs: dict[int, Run] = {}
    began = ended = None
    files = []
    for record in _told(storage, slot, outcome):
        began, ended = began or record["at"], record["at"]
        if record["kind"] == FILES:
            files.append(record)
        if record["kind"] == "line":
            with contextlib.suppress(KeyError, TypeError, ValidationError):  # one bad line is one bad line
                runs[int(record["n"])] = Run.model_validate(record["run"])
        if record["kind"] not in OF_THE_EXECUTION:
            held.append(record["kind"], bare(record))
    storage.keep_attachments(slot, files)
    storage.drop(slot, held.slot)
    return runs, ended - began if began and ended else 0.0


def _told(storage: PostgresStorage, slot: str, outcome: Outcome) -> Iterator[Record]:
    """The record of a chunk: what of it was written while it ran, and what was told with its end."""
    seq = 0
    with contextlib.suppress(ExecutionNotFound):  # it never began, or all was told with its end
        for record in storage.records(slot):
            seq = record["seq"]
            yield record
    yield from rest_of(outcome.output, seq)
