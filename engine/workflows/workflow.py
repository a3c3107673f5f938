"""Named workflows: steps in order, with wait points, that outlive the process which runs them.

active ──► waiting      at a wait point, or at a step that failed
waiting ──► active      approved: go on, or try the step again
active ──► completed
active, waiting ──► cancelled
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import to_json

from go_ent.composer.project.files import STATE, read_bounded
from go_ent.composer.project.trust import is_sealed, is_trusted, seal
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.errors import (
    BadTask,
    EngineError,
    ExecutionConflict,
    ExecutionNotFound,
    NeedsApproval,
    Untrusted,
)
from go_ent.engine.core.explain import names
from go_ent.engine.core.ids import ID, new_id
from go_ent.engine.core.models import Model, Task, TaskId, TaskResult
from go_ent.engine.core.text import shortened
from go_ent.engine.executions.history import ExecutionHistory, records_of
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.storage.state_files import MAX_STATE, NAME, Listing, StateFiles
from go_ent.sandbox.messages.validation import MOST, problems

MAX_FILE = 1 << 20
MAX_STEPS = 1000
OUTPUT_CHARS = 32_000  # kept of one step's output
OUTPUTS_CHARS = 1_000_000  # kept of all, the newest
CONTEXT_CHARS = 64_000  # of earlier outputs, in a step's context
ERROR_CHARS = 4_000

WorkflowStatus = Literal["active", "waiting", "completed", "cancelled"]
TRANSITIONS: MappingProxyType[WorkflowStatus, frozenset[WorkflowStatus]] = MappingProxyType(
    {
        "active": frozenset({"waiting", "completed", "cancelled"}),
        "waiting": frozenset({"active", "cancelled"}),
        "completed": frozenset(),
        "cancelled": frozenset(),
    }
)
FINISHED: frozenset[WorkflowStatus] = frozenset({"completed", "cancelled"})


class Executes(Protocol):
    """What runs a step: the engine."""

    async def start(self, task: Task, /, *, parent: str | None = None, adjustments: Sequence[str] = ()) -> str: ...

    async def wait(self, execution_id: str, /) -> TaskResult: ...

    async def resume(self, execution_id: str, /) -> TaskResult: ...

    async def status(self, execution_id: str, /) -> ExecutionState: ...


async def completed(engine: Executes, execution_id: str | None) -> TaskResult | None:
    """The result of an execution that has completed; None if it has not, or is not there."""
    state = await _found(engine, execution_id)
    return None if state is None else _result_of(state)


async def carry_out(
    engine: Executes,
    task: Task,
    *,
    parent: str,
    adjustments: Sequence[str] = (),
    under_way: str | None,
    begun: Callable[[str], Awaitable[object]],
) -> TaskResult:
    """Go on with the execution that is *under_way*, or begin one. *begun* is told the id of a new one, to keep it."""
    left = await _found(engine, under_way)
    if left is not None:
        return _result_of(left) or await engine.resume(left.id)
    execution_id = await engine.start(task, parent=parent, adjustments=adjustments)
    waiting = asyncio.ensure_future(engine.wait(execution_id))
    try:
        await begun(execution_id)
    except BaseException:
        waiting.cancel()  # which interrupts it: nothing runs that nobody knows of
        await asyncio.wait([waiting])
        raise
    return await waiting


async def _found(engine: Executes, execution_id: str | None) -> ExecutionState | None:
    """An execution that can be resumed, or that has completed."""
    if execution_id is None:
        return None
    try:
        state = await engine.status(execution_id)
    except ExecutionNotFound:
        return None
    return None if state.status == "cancelled" else state


def _result_of(state: ExecutionState) -> TaskResult | None:
    if state.status != "completed" or state.result is None:
        return None
    # A result is kept without its steps, which are on disk one by one.
    return (
        state.result if state.result.steps else state.result.model_copy(update={"steps": tuple(state.results.values())})
    )


def was_interrupted(result: TaskResult) -> bool:
    """Whether it was ended before its end: it has not failed, and can be resumed."""
    return not result.ok and any(step.status in ("interrupted", "paused") for step in result.steps)


class WorkflowStep(Task):
    """A task of a workflow. With `wait`, the question that somebody must approve before it begins."""

    id: TaskId
    wait: Annotated[str, Field(min_length=1, max_length=2000)] | None = None

    def task(self, context: str) -> Task:
        return Task(**(self.model_dump(exclude={"id", "wait"}) | {"context": context}))


class WorkflowPlan(Model):
    """A workflow's definition, the same in TOML and JSON: `[[step]]` entries."""

    version: Literal[1] = 1
    name: Annotated[str, Field(pattern=rf"^{NAME.pattern}$")] | None = None
    step: Annotated[tuple[WorkflowStep, ...], Field(min_length=1, max_length=MAX_STEPS)]

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        seen: set[str] = set()
        for step in self.step:
            if step.id in seen:
                raise ValueError(f"two steps are called {step.id}")
            seen.add(step.id)
        return self


class WorkflowState(Model):
    """A workflow as it is on disk.

    `position` is the step that is next, `begun` how often it was begun, finished or not, and `under_way` the execution
    that was begun for it and has neither completed nor failed.
    """

    version: Literal[1] = 1
    id: Annotated[str, Field(pattern=rf"^{ID.pattern}$")]
    name: Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]
    status: WorkflowStatus = "active"
    steps: Annotated[tuple[WorkflowStep, ...], Field(min_length=1, max_length=MAX_STEPS)]
    seal: str = ""  # of the user who began it
    position: Annotated[int, Field(ge=0)] = 0
    begun: Annotated[int, Field(ge=0)] = 0
    under_way: Annotated[str, Field(pattern=rf"^{ID.pattern}$")] | None = None
    approved: bool = False  # the wait point at `position` is passed
    question: str | None = None  # what it waits for, at a wait point
    error: str | None = None  # why the step at `position` failed when it was last tried
    outputs: dict[str, str] = Field(default_factory=dict)
    history: ExecutionHistory = ExecutionHistory()
    created: float
    updated: float

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.position > len(self.steps) or (self.position == len(self.steps)) != (self.status == "completed"):
            raise ValueError(f"position: {self.position} of {len(self.steps)} steps can't be {self.status}")
        return self

    @property
    def step(self) -> WorkflowStep | None:
        """The step that is next."""
        return self.steps[self.position] if self.position < len(self.steps) else None

    @property
    def summary(self) -> str:
        """Where it stands, in one line for people."""
        if self.step is None or self.status == "cancelled":
            return f"{self.name} is {self.status}"
        at = f"{self.name} is {self.status} at step {self.step.id} ({self.position + 1} of {len(self.steps)})"
        reason = self.question or (f"it failed: {self.error}" if self.error else "")
        return f"{at}: {reason}" if reason and self.status == "waiting" else at

    def changed(self, **changes: Any) -> Self:
        """This state, changed. A status that may not follow is refused."""
        then = changes.get("status")
        if then is not None and then not in TRANSITIONS[self.status]:
            raise ExecutionConflict(f"workflow {self.summary}: it can't become {then}")
        return self.model_copy(update={**changes, "updated": time.time()})


class Workflows:
    """The workflows of a project, in `.go-ent/workflows/`. All but `advance` block shortly."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self._files = StateFiles(project / STATE / "workflows", WorkflowState, "workflow")

    def start(self, name: str, steps: Iterable[WorkflowStep]) -> WorkflowState:
        """A new workflow; nothing of it runs before `advance`. A finished one of that name is kept beside it."""
        now = time.time()
        try:
            plan = WorkflowPlan(step=tuple(steps))
            state = WorkflowState(id=new_id(), name=name, steps=plan.step, created=now, updated=now)
            state = state.model_copy(update={"seal": seal(_sealed(state))})
        except ValidationError as error:
            self._files.path(name)
            raise BadTask(f"workflow {name}: {_explain(error, [])}") from None
        with self._files.claim(name), self._files.changing(name):
            if name in self._files.names():
                old = self._files.load(name)
                if old.status not in FINISHED:
                    raise ExecutionConflict(
                        f"workflow {old.summary}: resume or cancel it before you start another of that name"
                    )
                os.replace(self._files.path(name), self._files.folder / f"{name}.{old.id}.json")
            self._files.save(name, state, most=MAX_STATE // 4)  # the rest is for what comes of it
        return state

    def get(self, name: str) -> WorkflowState:
        """The state of a workflow."""
        return self._files.load(name)

    def all(self) -> Listing[WorkflowState]:
        """All workflows of the project, and what could not be read."""
        return self._files.all()

    def run_by(self, name: str) -> int | None:
        """The process that advances it now. What is active and run by none was left behind: `advance` continues it."""
        return self._files.held_by(name)

    def approve(self, name: str, at: str | None = None) -> WorkflowState:
        """Pass the wait point, or try the failed step again. With *at*, only if it waits at that step.

        A person says *at* which question they looked, so that an approval never answers another.
        """

        def change(state: WorkflowState) -> WorkflowState:
            if state.status != "waiting":
                raise ExecutionConflict(f"workflow {state.summary}: nothing waits for approval")
            if at is not None and state.step is not None and state.step.id != at:
                raise ExecutionConflict(f"workflow {state.summary}: it does not wait at {at} any more")
            return state.changed(status="active", approved=True, question=None)

        return self._files.change(name, change)

    def cancel(self, name: str) -> WorkflowState:
        """End it. A step that is running is not stopped by this; it is the last."""
        return self._files.change(name, lambda state: state.changed(status="cancelled", question=None))

    async def advance(self, name: str, engine: Executes, *, stop: asyncio.Event | None = None) -> WorkflowState:
        """Run steps until the next wait point, a failure, the end, or *stop*.

        Each step is on disk before it begins and after it ends. So after a crash, or a stop, the execution that was
        under way is resumed, and nothing that had finished is run again. `ExecutionConflict` if another process is at
        it.
        """
        await to_the_end(self.get, name)
        claim = self._files.claim(name)
        try:
            await to_the_end(claim.take)
            await to_the_end(self._check_trust, name)
            while not (stop is not None and stop.is_set()):
                state = await to_the_end(self._files.change, name, _begin)
                step = state.step
                if state.status != "active" or step is None:
                    break
                ended = await self._run(state, step, engine, stop)
                await to_the_end(self._files.change, name, ended)
            return await to_the_end(self.get, name)
        finally:
            claim.release()

    async def _run(
        self, state: WorkflowState, step: WorkflowStep, engine: Executes, stop: asyncio.Event | None
    ) -> Callable[[WorkflowState], WorkflowState]:
        """Run a step. What is answered brings its outcome into the state, whatever that is by then."""
        adjustments = (f"The last try of this failed: {state.error}",) if state.error else ()

        async def begun(execution_id: str) -> None:
            await to_the_end(self._files.change, state.name, lambda now: now.changed(under_way=execution_id))

        try:
            result = await carry_out(
                engine,
                step.task(_context(state, step)),
                parent=state.id,
                adjustments=adjustments,
                under_way=state.under_way,
                begun=begun,
            )
        except ExecutionConflict:
            raise  # another process is at that execution: it may yet complete
        except EngineError as error:
            said = str(error)
            return lambda now: _failed(now, said)
        stopped = stop is not None and stop.is_set()
        return lambda now: _ended(now, step, result, stopped)

    def _check_trust(self, name: str) -> None:
        """What somebody else has begun in a folder, whatever it would do, waits for trust."""
        state = self._files.load(name)
        if not is_trusted(self.project) and not is_sealed(_sealed(state), state.seal):
            raise Untrusted(f"workflow {name}", str(self.project))


def _sealed(state: WorkflowState) -> str:
    """What a workflow's seal is made of: all that says what is done."""
    return to_json(["workflow", state.id, [step.model_dump(mode="json") for step in state.steps]]).decode()


def _begin(state: WorkflowState) -> WorkflowState:
    step = state.step
    if state.status != "active" or step is None:
        return state
    if step.wait is not None and not state.approved:
        return state.changed(status="waiting", question=step.wait)
    if state.history.full:
        raise ExecutionConflict(
            f"workflow {state.name} has been tried {len(state.history.records)} times, which is the most: start another"
        )
    return state.changed(begun=state.begun + 1)


def _ended(now: WorkflowState, step: WorkflowStep, result: TaskResult, stopped: bool) -> WorkflowState:
    """The state after a step. What was spent is remembered also if it was cancelled meanwhile."""
    now = now.changed(history=_with(now.history, result, step))
    if now.status != "active" or now.step != step:
        return now.changed(under_way=None)
    if not result.ok:
        if stopped:
            return now  # still active: it was not the step that failed
        said = result.error or f"it ended as {result.status} without saying why"
        return _failed(now, said, under_way=now.under_way if was_interrupted(result) else None)
    outputs = _kept({**now.outputs, step.id: shortened(result.output, OUTPUT_CHARS)})
    then = now.changed(outputs=outputs, position=now.position + 1, begun=0, under_way=None, approved=False, error=None)
    return then if then.step is not None else then.changed(status="completed")


def _with(history: ExecutionHistory, result: TaskResult, step: WorkflowStep) -> ExecutionHistory:
    """The history with a result. What a resumed execution had finished before is on record already."""
    finished = {(record.execution_id, record.task_id) for record in history.records if record.success}
    records = records_of(result, task_id=step.id, role=step.role)
    return history.add(record for record in records if (record.execution_id, record.task_id) not in finished)


def _failed(now: WorkflowState, error: str, *, under_way: str | None = None) -> WorkflowState:
    """It waits. Approved, it starts over and is told why it failed; with *under_way*, it is resumed."""
    if now.status != "active":
        return now
    return now.changed(status="waiting", error=shortened(error, ERROR_CHARS), under_way=under_way)


def _kept(outputs: dict[str, str]) -> dict[str, str]:
    room, kept = OUTPUTS_CHARS, dict[str, str]()
    for step, text in reversed(outputs.items()):
        room -= len(text)
        if room >= 0:
            kept[step] = text
    return dict(reversed(kept.items()))


def _context(state: WorkflowState, step: WorkflowStep) -> str:
    """The step's own context, and what earlier steps left: the newest in full as far as there is room."""
    room = CONTEXT_CHARS
    parts: list[str] = []
    for earlier in reversed(state.steps[: state.position]):
        text = state.outputs.get(earlier.id, "")
        if not text.strip():
            continue
        if room <= 0:
            parts.append(f"[outputs of {earlier.id} and of the steps before it left out]")
            break
        parts.append(f'<output step="{earlier.id}">\n{shortened(text, room)}\n</output>')
        room -= len(text)
    outputs = ["Outputs of the earlier steps:", *reversed(parts)] if parts else []
    return "\n\n".join(filter(None, (step.context, *outputs)))


def read_workflow(path: Path) -> WorkflowPlan:
    """A workflow's file: TOML, or JSON if it is called so. `BadTask` names the step and the field that are wrong."""
    try:
        data = read_bounded(path.resolve(), MAX_FILE)
    except OSError as error:
        raise BadTask(f"{path} can't be read: {error.strerror or error}") from None
    if len(data) > MAX_FILE:
        raise BadTask(f"{path} is larger than {MAX_FILE} bytes")
    kind = "JSON" if path.suffix == ".json" else "TOML"
    try:
        text = data.decode("utf-8")
        table = json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadTask(f"{path} is not valid {kind}: {error}") from None
    return parse_workflow(table, where=str(path), allow_argv=True)


def parse_workflow(table: Any, *, where: str, allow_argv: bool) -> WorkflowPlan:
    """A workflow's definition. Who may not start programs may only name those in the configuration."""
    try:
        plan = WorkflowPlan.model_validate(table)
    except ValidationError as error:
        steps = table.get("step") if isinstance(table, dict) else None
        raise BadTask(f"{where}: {_explain(error, steps)}") from None
    argv = next((step.id for step in plan.step if isinstance(step.command, tuple)), None)
    if argv is not None and not allow_argv:
        raise NeedsApproval(
            f"{where}: step {argv} is an argv, which only a person may start: name a command of the configuration"
        )
    return plan


def _explain(error: ValidationError, steps: Any) -> str:
    """What is wrong, by the number and id of the step."""
    said = []
    for problem in problems(error)[:MOST]:
        where = [str(part) for part in problem.place]
        if where[:1] == ["step"] and len(where) > 1 and isinstance(number := problem.place[1], int):
            step = steps[number] if isinstance(steps, list) and number < len(steps) else None
            name = step.get("id") if isinstance(step, dict) else None
            where = [f"step {number + 1}" + (f" ({name[:100]})" if isinstance(name, str) else ""), *where[2:3]]
        said.append(": ".join((*where, problem.meant(names()).words)))
    return "; ".join(said)
