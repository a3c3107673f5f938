"""One execution of a composed tool over many lines: a record for each line, so that what is done is not done again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from go_ent.composer import Approver, Composer
from go_ent.composer.composed.source import Composed
from go_ent.composer.project.numbers import whole
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.core.models import TaskResult
from go_ent.engine.executions.lifecycle import Ending, Live
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import ExecutionStatus
from go_ent.engine.executions.tape import Tapes
from go_ent.engine.guest_runs.elsewhere import LinesElsewhere
from go_ent.engine.guest_runs.lines import GOES_ON, LineRuns, line_digest, lines_in
from go_ent.engine.guest_runs.needs import needed_names
from go_ent.engine.guest_runs.runs import GuestOrder, GuestRun, Guests
from go_ent.sandbox import Run, RunError

AHEAD = 256  # lines that are read ahead of the one that is to be written next


SendLines = Callable[[OwnedExecution, Sequence[str]], Awaitable[LinesElsewhere | None]]  # and the names it needs


class Batch:
    """Lines under way. `line` runs one, or answers from the record; `end` closes the execution. What leaves its context
    without that interrupts it: an execution that nobody ends would be waited for.
    """

    def __init__(
        self,
        held: OwnedExecution,
        ready: GuestRun,
        tool: Composed,
        guests: Guests,
        elsewhere: LinesElsewhere | None = None,
    ) -> None:
        self.held = held
        self.tool = tool
        self.order = ready.order
        self._before: dict[int, tuple[str, Run]] = {}
        self.known: frozenset[int] = frozenset()  # lines that have come to their end before
        self._begun = {
            line for path in ready.tapes.tracks.runs if (line := whole(path)) is not None
        }  # lines that were under way before
        self.left = 0  # lines that were not brought to their end, and can be
        live = Live(held, ready.tapes)
        self.stopping = live.stop
        self.files = live.files
        self._lines = LineRuns(live, ready, tool)
        self._elsewhere = elsewhere
        if elsewhere is not None:
            live.stop.hang(elsewhere, elsewhere.stop)
        self._running: set[asyncio.Future[Any]] = set()  # who runs lines now
        self._over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._carried = asyncio.ensure_future(guests.lifecycle.carry(live, self._ended))

    @classmethod
    async def begin(
        cls, guests: Guests, order: GuestOrder, composer: Composer, elsewhere: SendLines | None = None
    ) -> Self:
        """*elsewhere* has others run the lines, if there are any."""
        tool = await composer.composed.get(order.tool or "")
        held = await guests.begin(order, composer)
        sent = await _sent(elsewhere, held, composer, order)
        return cls(held, GuestRun(composer, order, Tapes(held, replay=False), composer.box), tool, guests, sent)

    @classmethod
    async def go_on(
        cls, guests: Guests, held: OwnedExecution, ready: GuestRun, elsewhere: SendLines | None = None
    ) -> Self:
        """Go on with one that this process holds now. Lines that were begun are run here, where their tapes are."""
        tool = ready.tool or await ready.composer.composed.get(ready.order.tool or "")
        before = await asyncio.to_thread(lambda: lines_in(held.standing(), held.id))
        sent = await _sent(elsewhere, held, ready.composer, ready.order)
        await asyncio.to_thread(held.move, "running", error=None, result=None)
        batch = cls(held, ready, tool, guests, sent)
        batch._before, batch.known = before, frozenset(before)
        return batch

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._over.done():
            self.stopping.set()
            if others := self._running - {asyncio.current_task()}:
                await asyncio.wait(others)
            await self.end("interrupted", "what ran its lines has failed")

    async def _ended(self) -> Ending:
        return await self._over

    async def line(self, number: int, line: bytes, inputs: dict[str, Any], approver: Approver | None) -> Run:
        """One line. What it came to is on record when this returns."""
        begun = number in self._begun
        if (before := self._known(number, line)) is not None:
            return before
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            if self._elsewhere is None or begun or self.stopping.is_set():
                run = await self._lines.run(number, line_digest(line), inputs, approver)
            else:
                run = await self._elsewhere.line(number, line_digest(line), inputs)
        finally:
            self._running.discard(task)
        self.left += run.status in GOES_ON
        return run

    def refuse(self, number: int, line: bytes, why: str) -> Run:
        """A line that can't be an input: on record as one that has failed."""
        if (before := self._known(number, line)) is not None:
            return before
        run = Run(id=f"{self.held.id}/{number}", status="error", error=RunError(kind="InputError", message=why))
        self._lines.record(number, line_digest(line), run)
        return run

    def _known(self, number: int, line: bytes) -> Run | None:
        self._begun.discard(number)
        digest, run = self._before.pop(number, (None, None))
        if digest is not None and digest != line_digest(line):
            raise ExecutionConflict(
                f"line {number} of stdin is not the one that execution {self.held.id} has run: give it the same lines"
            )
        return run

    @property
    def missing(self) -> int:
        """The first line that it has begun before, and that it was not given again; 0 if there is none."""
        return min({*self._begun, *self._before}, default=0)

    @property
    def at_once(self) -> int | None:
        """How many lines run at once, if that is not for this machine to say."""
        return None if self._elsewhere is None else self._elsewhere.at_once

    async def end(self, status: ExecutionStatus, said: str, error: str | None = None) -> None:
        """The execution is over, or rests: what is *said* of its lines, and why it has failed if it has."""
        result = TaskResult(
            execution_id=self.held.id,
            status="COMPLETE" if status == "completed" else "PARTIAL",
            strategy="single",
            output=said,
        )
        try:
            if self._elsewhere is not None:
                await self._elsewhere.close()
        finally:
            if not self._over.done():
                self._over.set_result(Ending(status, result, error))
        await asyncio.shield(self._carried)


async def _sent(
    elsewhere: SendLines | None, held: OwnedExecution, composer: Composer, order: GuestOrder
) -> LinesElsewhere | None:
    return None if elsewhere is None else await elsewhere(held, await needed_names(composer, tool=order.tool))
