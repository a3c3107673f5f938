"""Steps of an execution, run by whichever worker is free: sent by the one that has the execution, which keeps their
records in its own as soon as they have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from functools import partial

from go_ent.engine.core.errors import ExecutionNotFound
from go_ent.engine.core.models import RunResult, RunStatus, Task
from go_ent.engine.core.step import Step
from go_ent.engine.dispatch.execution_context import ExecutionContext
from go_ent.engine.engine import Engine
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import Record
from go_ent.engine.fleet.dbos_adapter import STEP, Outcome
from go_ent.engine.fleet.execution_storage import PostgresStorage
from go_ent.engine.fleet.queue import WorkQueue
from go_ent.engine.fleet.records import OF_THE_EXECUTION, bare, rest_of
from go_ent.engine.fleet.remote_lines import ask_part
from go_ent.engine.fleet.slot import PostgresSlot
from go_ent.engine.fleet.worker.orders import StepOrder
from go_ent.engine.guest_runs.needs import needed_names

Sent = dict[str, tuple[int, bool]]  # by step: how often it was sent, and whether it runs now


def travels(task: Task) -> bool:
    """Whether a task may run on any machine: what changes a working tree stays with the one that has it."""
    return bool(task.code or task.tool or (task.needs_model and task.access != "edit"))


class RemoteSteps:
    """Of one worker."""

    def __init__(self, engine: Engine, storage: PostgresStorage, queue: WorkQueue) -> None:
        self._dispatcher, self._storage, self._queue = engine.dispatcher, storage, queue
        self._open_composer = engine.open_composer
        self.labels: dict[str, str | None] = {}  # by execution: who may run its steps
        self._sent: dict[str, asyncio.Future[Sent]] = {}  # by execution

    async def run(self, step: Step, run: ExecutionContext) -> RunResult:
        """One step, to its result, as `Dispatcher.run`."""
        before = run.held.state.results.get(step.id)
        here = not travels(step.task) or step.id in run.decided or run.stop.is_set()
        if here or (before is not None and before.ok):
            gone = None if travels(step.task) or (before is not None and before.ok) else await self._pin(step, run)
            return gone or await self._dispatcher.run(step, run)
        run.say("step", step.id, step.task.title, status="running")
        slot = await self._send(step, run)
        outcome = await self._outcome(slot, run)
        result = self._result(step, run, outcome)
        records = await asyncio.to_thread(self._records, slot, outcome)
        if result.failure == "task":
            run.tapes.ended(step.id)
        try:
            await run.write(partial(self._finish, run, step.id, result, slot, records))
            sent = await self._sent[run.id]
            sent[step.id] = sent[step.id][0], False
        except OSError as error:
            run.broken = run.broken or f"{run.held.slot.where} can't be written: {error.strerror or error}"
            run.stop.set()
        run.say("step", step.id, result.error or "", status=result.status)
        return result

    async def _pin(self, step: Step, run: ExecutionContext) -> RunResult | None:
        """What changes a working tree is tied to the machine whose tree the first such step had: elsewhere it rests."""
        here = socket.gethostname()
        machine = await asyncio.to_thread(_machine_of, run)
        if machine is None:
            await run.write(partial(run.held.append, "pinned", {"machine": here}, sync=True))
        if machine in (None, here):
            return None
        said = f"it changes the working tree of {machine}, and this is {here}: go-ent resume --label {machine} once a "
        said += "worker runs there, or resume --here in that checkout"
        return RunResult(execution_id=run.id, task_id=step.id, status="interrupted", error=said)

    async def _send(self, step: Step, run: ExecutionContext) -> str:
        """Have it run; the slot that its record is in. One that was sent before, by a worker that has died, is not
        sent again.
        """
        if run.id not in self._sent:  # several steps begin at once: all wait for one look
            self._sent[run.id] = asyncio.ensure_future(asyncio.to_thread(_sent_before, run))
        sent = await self._sent[run.id]
        number, runs = sent.get(step.id, (0, False))
        if not runs:
            number += 1
            sent[step.id] = number, True
            # Who goes on without having read it sends the first one again, by the same name: that changes nothing.
            await run.write(partial(run.held.append, "sent", {"step": step.id, "number": number}, sync=number > 1))
        slot = f"{run.id}/{step.id}" if number == 1 else f"{run.id}/{step.id}@{number}"
        state = _alone(run.held.state, step.id)
        if not runs and (step.id in run.held.state.tries or step.id in run.held.state.results):
            await asyncio.to_thread(self._seed, slot, state, step.id, run)
        how = {"limit": run.limit, "may_start": run.may_start, "adjustments": run.adjustments}
        order = StepOrder.of(slot, step, state, **how).model_dump(mode="json")
        composer = await asyncio.to_thread(self._open_composer) if step.task.code or step.task.tool else None
        needs = composer and await needed_names(composer, code=step.task.code, tool=step.task.tool)
        await asyncio.to_thread(self._queue.put, STEP, slot, order, self.labels.get(run.id), needs or ())
        return slot

    def _seed(self, slot_id: str, state: ExecutionState, step: str, run: ExecutionContext) -> None:
        """What its earlier tries have recorded goes with it."""
        if self._storage.has_slot(slot_id):
            return
        slot = self._storage.create(slot_id)
        slot.append("created", {}, {"state": state.model_dump_json().encode()})
        for record in run.held.standing():
            path = str(record.get("path", "")).partition("/")[0].partition("#")[0]
            if record["kind"] not in OF_THE_EXECUTION and step in (path, record.get("step")):
                slot.append(record["kind"], bare(record))
        slot.append("note", {"text": SEEDED})
        slot.place(state)
        slot.release()

    async def _outcome(self, slot: str, run: ExecutionContext) -> Outcome:
        """How it ends. Once the execution is to stop, the step is asked to: what has not begun never does."""
        asking: list[asyncio.Future[None]] = []

        async def ask() -> None:
            await ask_part(self._storage, self._queue, slot)

        run.stop.hang(slot, lambda: asking.append(asyncio.ensure_future(ask())))
        try:
            return await self._queue.outcome(STEP, slot)
        finally:
            run.stop.take_off(slot)
            for one in asking:
                with contextlib.suppress(Exception):
                    await one

    def _result(self, step: Step, run: ExecutionContext, outcome: Outcome) -> RunResult:
        if outcome.status == "SUCCESS" and outcome.output is not None:
            return RunResult.model_validate(outcome.output.get("result"))
        status: RunStatus = "interrupted" if outcome.status == "CANCELLED" else "failed"
        told = "interrupted before it began" if status == "interrupted" else outcome.error or outcome.status
        if outcome.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            told = "its workers died again and again: it is set aside"
        return RunResult(execution_id=run.id, task_id=step.id, status=status, error=told[:2000])

    def _records(self, slot: str, outcome: Outcome) -> list[Record]:
        records: list[Record] = []
        with contextlib.suppress(ExecutionNotFound):  # it never began, or all was told with its end
            records += self._storage.records(slot)
        return [*records, *rest_of(outcome.output, records[-1]["seq"] if records else 0)]

    def _finish(self, run: ExecutionContext, step: str, result: RunResult, slot: str, records: list[Record]) -> None:
        """Its record becomes part of the execution's, as if it had run here."""
        known, slot_of_all = self._seeded(records), run.held.slot
        assert isinstance(slot_of_all, PostgresSlot)
        with slot_of_all.copying():
            for record in records[known:]:
                if record["kind"] not in OF_THE_EXECUTION:
                    run.held.append(record["kind"], bare(record))
            # Nobody waits for it: until it is written, the step's own record and its outcome say the same.
            run.held.finish_step(step, result, sync=False)
        self._storage.keep_attachments(slot, records)
        self._storage.drop(slot, run.held.slot)

    @staticmethod
    def _seeded(records: list[Record]) -> int:
        """How many of the first records it was given: the execution has those."""
        last = next((at for at, one in enumerate(records) if one["kind"] == "note" and one.get("text") == SEEDED), None)
        return 0 if last is None else last + 1

    def forget(self, execution_id: str) -> None:
        """This worker has it no more."""
        self._sent.pop(execution_id, None)
        self.labels.pop(execution_id, None)


SEEDED = "what was recorded before it was sent again"


def _machine_of(run: ExecutionContext) -> str | None:
    """The machine whose working tree an execution changes, if it has begun to."""
    return next((str(one.get("machine"))[:200] for one in run.held.records() if one["kind"] == "pinned"), None)


def _sent_before(run: ExecutionContext) -> Sent:
    sent: Sent = {}
    for record in run.held.records():
        if record["kind"] == "sent":
            sent[str(record["step"])] = int(record["number"]), True
        elif record["kind"] == "step_finished" and str(record["step"]) in sent:
            sent[str(record["step"])] = sent[str(record["step"])][0], False
    return sent


def _alone(state: ExecutionState, step: str) -> ExecutionState:
    """A state with nothing of other steps, and without its work: for the record of one step."""
    kept = {
        name: {step: value} if (value := getattr(state, name).get(step)) is not None else {}
        for name in ("results", "tries", "begun", "sessions")
    }
    decisions = {path: one for path, one in state.decisions.items() if path.partition("/")[0].partition("#")[0] == step}
    requests = {path: one for path, one in state.requests.items() if path.partition("/")[0].partition("#")[0] == step}
    bare = {"work": {}, "checkpoints": (), "seq": 0, "offset": 0, "result": None, "status": "running"}
    return state.model_copy(update={**kept, **bare, "decisions": decisions, "requests": requests})
