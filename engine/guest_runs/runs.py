"""Runs of code and of composed tools as executions: on record from their first call, interrupted and resumed
like any other.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticSerializationError, to_json

from go_ent.composer import Approver, Composer, ComposerError
from go_ent.composer.catalogue.recording import Recording
from go_ent.composer.catalogue.scope import NotedCalls
from go_ent.composer.composed.source import Composed
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadState, BadTask, ExecutionConflict
from go_ent.engine.core.explain import explain
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import Model, RunResult
from go_ent.engine.core.outcomes import run_result
from go_ent.engine.core.stoppable_run import drive
from go_ent.engine.executions.lifecycle import Ending, Lifecycle, Live
from go_ent.engine.executions.owned import NewState, OwnedExecution
from go_ent.engine.executions.resume_checks import Changed, ResumeOptions, damages, environment, guest_changes, refuse
from go_ent.engine.executions.state import SCHEMA_VERSION, Environment, ExecutionState, ExecutionStatus, digest_of
from go_ent.engine.executions.tape import Tapes, Unfinished, read_tapes
from go_ent.engine.guest_runs.elsewhere import Elsewhere, run_sent
from go_ent.engine.guest_runs.needs import needed_names
from go_ent.engine.strategies import aggregate
from go_ent.sandbox import Run, RunError, Sandbox, SandboxError
from go_ent.sandbox.errors import Diverged
from go_ent.sandbox.messages.advice import Advice
from go_ent.sandbox.worker.languages import Language

STEP = "run"
MOST_TITLE = 70  # characters of code in an execution's title
CALL = "await tools.", "(**arguments)"  # the code of a single call, around the tool's name
REASON = "it runs in a guest"
SHALLOW = 100  # brackets that need no look at how deep they are


class GuestOrder(Model):
    """Code or a composed tool to run in a guest, with everything a later resume needs."""

    code: str | None = None
    tool: str | None = None
    language: Language = "python"
    inputs: dict[str, Any] = Field(default_factory=dict)
    grants: tuple[str, ...] | None = None
    limits: dict[str, Any] | None = None
    session: str | None = None
    cut: bool = True
    files: dict[str, str] = Field(default_factory=dict)  # that code can open, in base64
    each: bool = False  # once for each line of stdin, or each of these files
    each_files: tuple[str, ...] = ()
    jobs: int | None = None  # lines at a time
    fail_fast: bool = False  # the first line that fails is the last

    @model_validator(mode="after")
    def _one(self) -> GuestOrder:
        if (self.code is None) == (self.tool is None):
            raise ValueError("either code or a tool is run")
        return self

    @property
    def title(self) -> str:
        if self.tool is not None:
            return f"tool: {self.tool}" + (f" for each {'file' if self.each_files else 'line'}" if self.each else "")
        lines = [line.strip() for line in (self.code or "").splitlines() if line.strip()]
        telling = (line for line in lines if not line.startswith(("import ", "from ")))
        line = next(telling, lines[0] if lines else "")
        if line.startswith(CALL[0]) and line.endswith(CALL[1]):
            line = line[len(CALL[0]) : -len(CALL[1])]
        return f"code: {line}" if len(line) <= MOST_TITLE else f"code: {line[: MOST_TITLE - 1]}…"


def call_order(name: str, arguments: dict[str, Any], **options: Any) -> GuestOrder:
    """One call of a tool that is not a composed one: a line of code, so that it is granted, limited and recorded."""
    return GuestOrder(code=f"{CALL[0]}{name}{CALL[1]}", inputs={"arguments": arguments}, **options)


def guest_order(state: ExecutionState) -> GuestOrder | None:
    """What an execution runs in a guest, if that is what it does."""
    if "guest" not in state.work:
        return None
    try:
        return GuestOrder(**state.work["guest"])
    except (ValidationError, TypeError) as error:
        raise BadState(f"what execution {state.id} was to run can't be read: {explain(error)}") from None


@dataclass(frozen=True, slots=True)
class GuestRun:
    """An order that is ready to run: what it needs, checked, and what has changed since it was begun."""

    composer: Composer
    order: GuestOrder
    tapes: Tapes
    box: Sandbox
    tool: Composed | None = None  # the version of its tool; None: the current one
    changes: tuple[Changed, ...] = ()


class Guests:
    """Runs guests for one project: what is run in an execution of code or of a composed tool. Belongs to one event
    loop.
    """

    def __init__(self, lifecycle: Lifecycle, composer: Callable[[], Composer]) -> None:
        self.lifecycle = lifecycle
        self.elsewhere: Elsewhere | None = None  # others who may run guests, if this project has any
        self._open = composer
        self._opened: tuple[Composer, Environment] | None = None

    async def run(
        self,
        order: GuestOrder,
        *,
        approver: Approver | None = None,
        begun: Callable[[str], None] | None = None,
        client: str = "",
        label: str | None = None,
        tool: Composed | None = None,
    ) -> Run:
        """Run an order, on record; the run's id is the execution's. Whatever the code does is a run with a status.

        In a fleet it runs here while there is a free worker in the sandbox, else on another machine; with a *label*
        on one that has it.

        Cancelling this interrupts the execution, which can be resumed. *begun* is told its id as soon as there is one;
        *client* is who asked with a token of their own; *tool* is the order's, if it has just been looked up.
        """
        composer = self._opened[0] if self._opened is not None else await asyncio.to_thread(self._open)
        if tool is None and order.tool is not None:
            tool = await composer.composed.get(order.tool)
        if self.elsewhere is not None and await self._goes_elsewhere(self.elsewhere, order, composer, label):
            state = (await self._state(order, composer, client, tool)).make().model_copy(update={"status": "pending"})
            needs = await needed_names(composer, code=order.code, tool=order.tool)
            execution_id = await self.elsewhere.send(self.lifecycle, state, label, None, needs=needs)
            if begun is not None:
                begun(execution_id)
            return await run_sent(self.elsewhere, self.lifecycle.store, execution_id)
        held = await self.begin(order, composer, client=client, tool=tool)
        if len(composer.box.running) >= composer.box.workers:
            held.begin()  # it has to wait; else while the guest runs
        if begun is not None:
            begun(held.id)
        ready = GuestRun(composer, order, Tapes(held, replay=False), composer.box, tool)
        return run_of(await self.carry(held, ready, approver))

    @staticmethod
    async def _goes_elsewhere(elsewhere: Elsewhere, order: GuestOrder, composer: Composer, label: str | None) -> bool:
        if order.session is not None:  # its variables are in this process
            return False
        return label is not None or (len(composer.box.running) >= composer.box.workers and await elsewhere.slots() > 0)

    async def begin(
        self, order: GuestOrder, composer: Composer, *, client: str = "", tool: Composed | None = None
    ) -> OwnedExecution:
        """An execution for an order, held by this process. *tool* is the one that it runs, if it has been looked up."""
        return await self.lifecycle.begin(await self._state(order, composer, client, tool), synced=False)

    async def _state(self, order: GuestOrder, composer: Composer, client: str, tool: Composed | None) -> NewState:
        composer.box.limits.narrowed(order.limits)  # refused orders are not recorded, so there is nothing to resume
        if order.tool is not None and tool is None:
            tool = await composer.composed.get(order.tool)
        work, now = _as_json(order), time.time()  # now: what is in it may be changed later
        environment, execution_id = await self._environment(composer), new_id()
        fields = partial(_begun, order, work, execution_id, now, client=client, tool=tool, environment=environment)
        return NewState(execution_id, "running", fields)

    async def _environment(self, composer: Composer) -> Environment:
        """What runs guests now. It is looked up once: neither the composer nor its image changes in a process."""
        if self._opened is None or self._opened[0] is not composer:
            self._opened = composer, await asyncio.to_thread(environment, composer.project, composer.box)
        return self._opened[1].model_copy(update={"runners": {}})

    async def ready(self, held: OwnedExecution, options: ResumeOptions, grants: tuple[str, ...] | None) -> GuestRun:
        """All that an execution needs to go on, checked; `ExecutionConflict` or `BadState` if it can't.

        *grants* are those of now of the client whose it is.
        """
        order = guest_order(held.state)
        assert order is not None, "not an execution of a guest"
        composer = await asyncio.to_thread(self._open)
        refuse(held.state, damages(held.state), anyway=options.anyway)
        tapes = await asyncio.to_thread(make_tapes, held, options.unfinished)
        changes, tool = await guest_changes(held.state, composer, tapes, tool=order.tool)
        refuse(held.state, changes, anyway=options.anyway)
        if options.timeout_s is not None:
            order = order.model_copy(update={"limits": {**(order.limits or {}), "timeout_s": options.timeout_s}})
        if grants is not None:
            order = order.model_copy(update={"grants": grants})
        box = await asyncio.to_thread(composer.box_of, held.state.environment.image, order.limits)
        return GuestRun(composer, order, tapes, box, tool, tuple(changes))

    async def carry(self, held: OwnedExecution, ready: GuestRun, approver: Approver | None) -> Ending:
        """Run what is ready in an execution that this process holds, to its end."""
        live = Live(held, ready.tapes)
        started = time.monotonic()

        def interrupted() -> Run:
            said = RunError(kind="interrupted", message="the run was interrupted")
            return Run(id=held.id, status="interrupted", error=said)

        async def steps() -> Ending:
            recording = None if ready.order.session is not None else ready.tapes.tape(STEP)
            how: dict[str, Any] = {"box": ready.box, "approver": approver, "run_id": held.id, "tool": ready.tool}
            noting = ready.tapes.noting(STEP) if recording is None else contextlib.nullcontext()
            try:
                with noting as calls:
                    running = guest_run(ready.composer, ready.order, recording, calls=calls, **how)
                    run = await drive(ready.box, held.id, running, live.stop) or interrupted()
            except (ComposerError, SandboxError) as error:  # it never began
                said = RunError(kind=type(error).__name__, message=str(error))
                return await _ending(live, Run(id=held.id, status="error", error=said), started, error)
            return await _ending(live, run, started)

        return await self.lifecycle.carry(live, steps, lambda: _end_of(live, interrupted(), started))


def _as_json(order: GuestOrder) -> str:
    """An order for a record. What is no JSON, or too deep, is refused: nobody could resume it."""
    try:
        text = order.model_dump_json(exclude_defaults=True)
        if text.count("[") + text.count("{") > SHALLOW:  # else it can't be too deep
            to_json({"at": {"state": {"work": {"guest": json.loads(text)}}}})
        return text
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise _unfit(error) from None


def _unfit(error: Exception) -> BadTask:
    halves = "they have half a character (a lone surrogate), which is in no Unicode text"
    said = halves if "surrogates not allowed" in str(error) else str(error)
    return BadTask(f"code and inputs can't be put on record, so nothing was run: {said}")


def _begun(
    order: GuestOrder,
    work_json: str,
    execution_id: str,
    now: float,
    *,
    client: str,
    tool: Composed | None,
    environment: Environment,
) -> dict[str, Any]:
    """The state of an execution that begins *now*: what it does not have by default."""
    if tool is not None:
        source = tool.file.digest
    else:
        source = hashlib.sha256((order.code or "").encode("utf-8", "surrogatepass")).hexdigest()
    try:
        work = {"guest": json.loads(work_json)}
    except (ValueError, RecursionError) as error:  # a number of thousands of digits
        raise _unfit(error) from None
    made: dict[str, Any] = {
        "version": SCHEMA_VERSION,
        "id": execution_id,
        "client": client,
        "kind": "tool" if order.tool is not None else "code",
        "title": order.title,
        "strategy_reason": REASON,
        "status": "running",
        "work": work,
        "work_digest": digest_of(work),
        "source": source,
        "environment": environment,
        "created": now,
        "updated": now,
    }
    if order.session is not None:
        made["unresumable"] = "it ran in a session, and the session's variables are gone"
    return made


def run_of(ending: Ending) -> Run:
    """The run of an execution that was one."""
    assert ending.run is not None
    return ending.run


async def _ending(live: Live, run: Run, started: float, raises: Exception | None = None) -> Ending:
    """How an execution ends whose only step was that run."""
    held, tapes = live.held, live.tapes
    if isinstance(tapes.wrong, Diverged) or _diverged(run):
        told = tapes.wrong or (run.error and run.error.message)
        said = f"execution {held.id} can't go on, for it is not what was recorded: {told}"
        return Ending("interrupted", raises=ExecutionConflict(said))
    final = guest_status(run)[1]
    if final and run.status == "error" and held.state.calls:
        final = not await asyncio.to_thread(_wants_a_tool, held)
    return _end_of(live, run, started, final=final, raises=raises)


def _end_of(live: Live, run: Run, started: float, *, final: bool = False, raises: Exception | None = None) -> Ending:
    held, tapes = live.held, live.tapes
    status, _ = guest_status(run)
    result = run_result(run, held.id, STEP, round((time.monotonic() - started) * 1000))
    if run.error is not None and status == "paused" and held.state.unresumable is not None:
        status, final = "failed", True
        run.error.hint = "a run in a session can't wait for approval: make such calls outside of one"
    elif run.error is not None and tapes.open and status == "interrupted":
        tools = ", ".join(list(tapes.open.values())[:3])
        run.error.advise(
            Advice("resume", held.id, "unfinished"),
            f"calls of {tools} were under way, and nobody knows whether they were done",
        )
    whole = aggregate(held.id, "single", REASON, (result,), duration_ms=result.duration_ms)
    # What the step says is in the state already.
    short = whole.model_copy(update={"steps": (RunResult(execution_id=held.id, task_id=STEP, status=result.status),)})
    return Ending(status, short, result.error, final=final, run=run, step=result, raises=raises)


async def guest_run(
    composer: Composer,
    order: GuestOrder,
    recording: Recording | None,
    *,
    box: Sandbox,
    run_id: str,
    approver: Approver | None = None,
    tool: Composed | None = None,
    inputs: Mapping[str, Any] | None = None,
    calls: NotedCalls | None = None,
) -> Run:
    """One run of an order; of that version of its tool, and over those inputs, if they are given. Its *calls* are added
    to, if nothing records them.
    """
    given = order.inputs if inputs is None else inputs
    options: dict[str, Any] = {
        "grants": order.grants,
        "limits": order.limits,
        "approver": approver,
        "run_id": run_id,
        "box": box,
        "recording": recording,
    }
    if order.tool is not None:
        return await composer.run(tool or order.tool, given, **options)
    files = {name: base64.b64decode(data) for name, data in order.files.items()} or None
    return await composer.code.execute(
        order.code or "",
        given,
        language=order.language,
        session=order.session,
        cut=order.cut,
        files=files,
        calls=calls,
        **options,
    )


def make_tapes(held: OwnedExecution, unfinished: Unfinished) -> Tapes:
    """The tapes of an execution that goes on."""
    try:
        return Tapes(held, unfinished=unfinished, replay=True)
    except (ValueError, TypeError, KeyError) as error:
        raise BadState(
            f"the journal of execution {held.id} can't be replayed: {type(error).__name__}: {str(error)[:200]}"
        ) from None


def _diverged(run: Run) -> bool:
    """Whether the sandbox itself says so; code may call an exception what it likes, but that one has a line."""
    return (
        run.error is not None
        and run.error.kind == "Diverged"
        and run.error.line is None
        and run.error.traceback is None
    )


def guest_status(run: Run) -> tuple[ExecutionStatus, bool]:
    """The status of an execution that was one run, and whether it is final: the same again would end the same way."""
    if run.status in ("completed", "paused", "interrupted"):
        return run.status, False
    return "failed", run.status not in ("timeout", "cpu_limit", "crashed")


def _wants_a_tool(held: OwnedExecution) -> bool:
    """Whether a run failed for want of a tool: once it is there, it can go on."""
    try:
        return STEP in read_tapes(held.standing()).mended
    except (ValueError, TypeError, KeyError, OSError):
        return False
