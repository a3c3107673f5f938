"""One execution of a composed tool over many lines: a record for each line, so that what is done is not done again."""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from typing import Any, Self

from pydantic import ValidationError

from composer import Approver, Composer
from composer.composed import Composed
from engine.errors import ExecutionConflict
from engine.executions.state import BadState, ExecutionStatus
from engine.executions.store import Held
from engine.executions.tape import Tapes, Unfinished
from engine.guests import GuestOrder, Guests, guest_run
from engine.models import TaskResult
from engine.resuming import Changed
from engine.threads import to_the_end
from sandbox import Run, Sandbox
from sandbox.tape import Diverged

GOES_ON = ("interrupted", "paused", "crashed", "timeout")  # such a line is run again


class Batch:
    """Lines under way. `line` runs one, or answers from the record; `end` closes the execution."""

    def __init__(
        self, held: Held, order: GuestOrder, tool: Composed, composer: Composer, box: Sandbox, tapes: Tapes, guests: Guests
    ) -> None:
        self.held = held
        self.tool = tool
        self.order = order
        self._composer = composer
        self._box = box
        self._tapes = tapes
        self._guests = guests
        self._before: dict[int, tuple[str, Run]] = {}
        self._begun = {int(path) for path in tapes.tracks.runs if path.isdecimal()}  # lines that were under way before
        self.left = 0  # lines that were not brought to their end, and can be
        self._running: set[str] = set()
        self.stopping = asyncio.Event()
        self._over: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        guests.watch.add(held, self.stop, self._over)

    @classmethod
    async def begin(cls, guests: Guests, order: GuestOrder, composer: Composer) -> Self:
        tool = await composer.composed.get(order.tool or "")
        held = await guests.begin(order, composer)
        return cls(held, order, tool, composer, composer.box, Tapes(held, replay=False), guests)

    @classmethod
    async def resume(cls, guests: Guests, held: Held, *, unfinished: Unfinished, anyway: bool) -> tuple[Self, list[Changed]]:
        """Go on with one that this process holds now. It is released if it can't."""
        try:
            ready = await guests.prepare(held, unfinished, anyway=anyway)
            tool = await ready.composer.composed.get(ready.order.tool or "")
            before = await asyncio.to_thread(_lines, held)
            await asyncio.to_thread(held.move, "running", error=None, result=None)
        except BaseException:
            held.release()
            raise
        batch = cls(held, ready.order, tool, ready.composer, ready.box, ready.tapes, guests)
        batch._before = before
        return batch, ready.changes

    def stop(self) -> None:
        """Interrupt the lines that run; those that were not begun are not begun any more."""
        self.stopping.set()
        for run_id in list(self._running):
            self._box.end(run_id, "interrupted")

    async def line(self, number: int, line: bytes, inputs: dict[str, Any], approver: Approver | None) -> Run:
        """One line. What it came to is on record when this returns."""
        digest = hashlib.sha256(line).hexdigest()[:32]
        self._begun.discard(number)
        if (before := self._before.pop(number, None)) is not None:
            if before[0] != digest:
                raise ExecutionConflict(
                    f"line {number} of stdin is not the one that execution {self.held.id} has run: give it the same lines"
                )
            return before[1]
        run_id = f"{self.held.id}/{number}"
        self._running.add(run_id)
        try:
            if self.stopping.is_set():
                return Run(id=run_id, status="interrupted")
            run = await guest_run(
                self._composer,
                self.order,
                self._tapes,
                str(number),
                box=self._box,
                approver=approver,
                run_id=run_id,
                tool=self.tool,
                inputs=inputs,
                batch=self.held.id,
            )
        finally:
            self._running.discard(run_id)
        if isinstance(self._tapes.wrong, Diverged):
            raise ExecutionConflict(f"execution {self.held.id} can't go on, for it is not what was recorded: {self._tapes.wrong}")
        if run.status in GOES_ON:
            self.left += 1
        else:
            raw = {"run": run.model_dump_json(exclude={"calls", "files"}).encode()}
            self._tapes.append("line", {"n": number, "digest": digest, "status": run.status}, raw)
        return run

    @property
    def missing(self) -> int:
        """The first line that it has begun before, and that it was not given again; 0 if there is none."""
        return min({*self._begun, *self._before}, default=0)

    async def end(self, status: ExecutionStatus, *, done: int, failed: int) -> None:
        """The execution is over, or interrupted."""
        said = f"{done} lines, {failed} failed"
        result = TaskResult(
            execution_id=self.held.id, status="COMPLETE" if status == "completed" else "PARTIAL", strategy="single", output=said
        )
        try:
            await to_the_end(partial(self.held.move, status, result=result, error=said if failed else None))
        finally:
            self._guests.watch.remove(self.held.id)
            self._over.set_result(None)
            await asyncio.to_thread(self._guests.let_go, self.held, self._tapes)


def _lines(held: Held) -> dict[int, tuple[str, Run]]:
    """The lines that are done, with what they came to."""
    try:
        return {record["n"]: (record["digest"], Run.model_validate(record["run"])) for record in held.records() if record["kind"] == "line"}
    except (KeyError, TypeError, ValidationError) as error:
        raise BadState(f"the journal of execution {held.id} can't be used: {type(error).__name__}") from None
