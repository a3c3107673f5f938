"""Lines of a pipeline, each a run of one composed tool: run, and on record when it has come to its end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from go_ent.composer import Approver
from go_ent.composer.composed.source import Composed
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.errors import BadState, ExecutionConflict
from go_ent.engine.executions.lifecycle import Live
from go_ent.engine.executions.storage import Record
from go_ent.engine.guest_runs.runs import GuestRun, guest_run
from go_ent.sandbox import Run
from go_ent.sandbox.errors import Diverged

GOES_ON = ("interrupted", "paused", "crashed", "timeout")  # such a line is run again


class LineRuns:
    """Runs lines of one execution in this process. Belongs to one event loop."""

    def __init__(self, live: Live, ready: GuestRun, tool: Composed) -> None:
        self._id, self._files, self._ready, self._tool = live.id.partition("/")[0], live.files, ready, tool
        self._running: set[str] = set()
        self.stop = live.stop
        live.stop.hang(self, self._interrupt)

    def _interrupt(self) -> None:
        """Interrupt the lines that run; those that were not begun are not begun any more."""
        for run_id in list(self._running):
            self._ready.box.end(run_id, "interrupted")

    async def run(self, number: int, digest: str, inputs: dict[str, Any], approver: Approver | None) -> Run:
        """One line; if it has come to its end, that is on record when this returns."""
        run_id = f"{self._id}/{number}"
        self._running.add(run_id)
        try:
            if self.stop.is_set():
                return Run(id=run_id, status="interrupted")
            run = await guest_run(
                self._ready.composer,
                self._ready.order,
                self._ready.tapes.tape(str(number)),
                box=self._ready.box,
                approver=approver,
                run_id=run_id,
                tool=self._tool,
                inputs=inputs,
            )
        finally:
            self._running.discard(run_id)
        if isinstance(self._ready.tapes.wrong, Diverged):
            raise ExecutionConflict(
                f"execution {self._id} can't go on, for it is not what was recorded: {self._ready.tapes.wrong}"
            )
        if run.files and run.status not in GOES_ON:
            run.warning = await to_the_end(self._files.keep, run.files, str(number)) or run.warning
        self.record(number, digest, run)
        return run

    def record(self, number: int, digest: str, run: Run) -> None:
        if run.status not in GOES_ON:
            raw = {"run": run.model_dump_json(exclude={"calls", "files"}).encode()}
            self._ready.tapes.append("line", {"n": number, "digest": digest, "status": run.status}, raw)


def line_digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]


def lines_in(records: Iterable[Record], where: str) -> dict[int, tuple[str, Run]]:
    """The lines that are done by a journal, with what they came to."""
    try:
        lines = [record for record in records if record["kind"] == "line"]
        return {record["n"]: (record["digest"], Run.model_validate(record["run"])) for record in lines}
    except (KeyError, TypeError, ValidationError) as error:
        raise BadState(f"the journal of execution {where} can't be used: {type(error).__name__}") from None
