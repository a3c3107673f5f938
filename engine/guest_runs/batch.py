"""One execution of a composed tool over many lines: a record for each line, so that what is done is not done again."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, Self

from pydantic import ValidationError

from go_ent.composer import Approver, Composer
from go_ent.composer.composed.source import Composed
from go_ent.composer.project.numbers import whole
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.errors import BadState, ExecutionConflict
from go_ent.engine.core.models import TaskResult
from go_ent.engine.executions.lifecycle import Ending, Live
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import ExecutionStatus
from go_ent.engine.executions.tape import Tapes
from go_ent.engine.guest_runs.runs import GuestOrder, GuestRun, Guests, guest_run
from go_ent.sandbox import Run, RunError
from go_ent.sandbox.errors import Diverged

GOES_ON = ("interrupted", "paused", "crashed", "timeout")  # such a line is run again


class Batch:
    """Lines under way. `line` runs one, or answers from the record; `end` closes the execution."""

    def __init__(self, held: OwnedExecution, ready: GuestRun, tool: Composed, guests: Guests) -> None:
        self.held = held
        self.tool = tool
        self.order = ready.order
        self._ready = ready
        self._tapes = ready.tapes
        self._before: dict[int, tuple[str, Run]] = {}
        self.known: frozenset[int] = frozenset()  # lines that have come to their end before
        self._begun = {
            line for path in ready.tapes.tracks.runs if (line := whole(path)) is not None
        }  # lines that were under way before
        self.left = 0  # lines that were not brought to their end, and can be
        self._running: set[str] = set()
        live = Live(held, ready.tapes)
        self.stopping = live.stop
        self.files = live.files
        live.stop.hang(self, self._interrupt)
        self._over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._carried = asyncio.ensure_future(guests.lifecycle.carry(live, self._ended))

    @classmethod
    async def begin(cls, guests: Guests, order: GuestOrder, composer: Composer) -> Self:
        tool = await composer.composed.get(order.tool or "")
        held = await guests.begin(order, composer)
        return cls(held, GuestRun(composer, order, Tapes(held, replay=False), composer.box), tool, guests)

    @classmethod
    async def go_on(cls, guests: Guests, held: OwnedExecution, ready: GuestRun) -> Self:
        """Go on with one that this process holds now."""
        tool = ready.tool or await ready.composer.composed.get(ready.order.tool or "")
        before = await asyncio.to_thread(_lines, held)
        await asyncio.to_thread(held.move, "running", error=None, result=None)
        batch = cls(held, ready, tool, guests)
        batch._before, batch.known = before, frozenset(before)
        return batch

    async def _ended(self) -> Ending:
        return await self._over

    def _interrupt(self) -> None:
        """Interrupt the lines that run; those that were not begun are not begun any more."""
        for run_id in list(self._running):
            self._ready.box.end(run_id, "interrupted")

    async def line(self, number: int, line: bytes, inputs: dict[str, Any], approver: Approver | None) -> Run:
        """One line. What it came to is on record when this returns."""
        if (before := self._known(number, line)) is not None:
            return before
        run_id = f"{self.held.id}/{number}"
        self._running.add(run_id)
        try:
            if self.stopping.is_set():
                return Run(id=run_id, status="interrupted")
            run = await guest_run(
                self._ready.composer,
                self.order,
                self._tapes.tape(str(number)),
                box=self._ready.box,
                approver=approver,
                run_id=run_id,
                tool=self.tool,
                inputs=inputs,
            )
        finally:
            self._running.discard(run_id)
        if isinstance(self._tapes.wrong, Diverged):
            raise ExecutionConflict(
                f"execution {self.held.id} can't go on, for it is not what was recorded: {self._tapes.wrong}"
            )
        if run.status in GOES_ON:
            self.left += 1
        else:
            if run.files:
                run.warning = await to_the_end(self.files.keep, run.files, str(number)) or run.warning
            self._record(number, line, run)
        return run

    def refuse(self, number: int, line: bytes, why: str) -> Run:
        """A line that can't be an input: on record as one that has failed."""
        if (before := self._known(number, line)) is not None:
            return before
        run = Run(id=f"{self.held.id}/{number}", status="error", error=RunError(kind="InputError", message=why))
        self._record(number, line, run)
        return run

    def _known(self, number: int, line: bytes) -> Run | None:
        self._begun.discard(number)
        digest, run = self._before.pop(number, (None, None))
        if digest is not None and digest != _digest(line):
            raise ExecutionConflict(
                f"line {number} of stdin is not the one that execution {self.held.id} has run: give it the same lines"
            )
        return run

    def _record(self, number: int, line: bytes, run: Run) -> None:
        raw = {"run": run.model_dump_json(exclude={"calls", "files"}).encode()}
        self._tapes.append("line", {"n": number, "digest": _digest(line), "status": run.status}, raw)

    @property
    def missing(self) -> int:
        """The first line that it has begun before, and that it was not given again; 0 if there is none."""
        return min({*self._begun, *self._before}, default=0)

    async def end(self, status: ExecutionStatus, said: str, error: str | None = None) -> None:
        """The execution is over, or rests: what is *said* of its lines, and why it has failed if it has."""
        result = TaskResult(
            execution_id=self.held.id,
            status="COMPLETE" if status == "completed" else "PARTIAL",
            strategy="single",
            output=said,
        )
        self._over.set_result(Ending(status, result, error))
        await asyncio.shield(self._carried)


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]


def _lines(held: OwnedExecution) -> dict[int, tuple[str, Run]]:
    """The lines that are done, with what they came to."""
    try:
        lines = [record for record in held.standing() if record["kind"] == "line"]
        return {record["n"]: (record["digest"], Run.model_validate(record["run"])) for record in lines}
    except (KeyError, TypeError, ValidationError) as error:
        raise BadState(f"the journal of execution {held.id} can't be used: {type(error).__name__}") from None
