"""Runs of code and of composed tools as executions: on record from their first call, interrupted and resumed
like any other.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from go_ent.composer import Approver, Composer, ComposerError
from go_ent.composer.composed.source import Composed
from go_ent.composer.project.trust import seal
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.errors import BadState, ExecutionConflict, StorageFailed
from go_ent.engine.core.explain import explain
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import Model, RunResult
from go_ent.engine.core.outcomes import run_result
from go_ent.engine.core.stoppable_run import drive
from go_ent.engine.executions.finish import Ending
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.resume_checks import Changed, damages, environment, guest_changes, refuse
from go_ent.engine.executions.running import Watch
from go_ent.engine.executions.state import Environment, ExecutionState, ExecutionStatus, digest_of, sealed_text
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.tape import NOT_SAID, Tally, Tapes, Unfinished, read_tapes
from go_ent.engine.strategies import aggregate
from go_ent.sandbox import Run, RunError, Sandbox, SandboxError
from go_ent.sandbox.errors import Diverged
from go_ent.sandbox.host.spans import span
from go_ent.sandbox.messages.advice import Advice

log = logging.getLogger("go_ent.engine")
UNDER_WAY: ContextVar[str | None] = ContextVar(
    "UNDER_WAY", default=None
)  # the execution that what runs here belongs to
STEP = "run"
REASON = "it runs in a guest"
MAX_PRINTED = 1 << 20


class GuestOrder(Model):
    """Code or a composed tool to run in a guest, with everything a later resume needs."""

    code: str | None = None
    tool: str | None = None
    inputs: dict[str, Any] = Field(default_factory=dict)
    grants: tuple[str, ...] | None = None
    limits: dict[str, Any] | None = None
    session: str | None = None
    cut: bool = True
    each: bool = False  # once for each line of stdin
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
            return f"composed:{self.tool}" + (" for each line" if self.each else "")
        line = next((line.strip() for line in (self.code or "").splitlines() if line.strip()), "")
        return f"code: {line[:70]}"


def guest_order(state: ExecutionState) -> GuestOrder | None:
    """What an execution runs in a guest, if that is what it does."""
    if "guest" not in state.work:
        return None
    try:
        return GuestOrder(**state.work["guest"])
    except (ValidationError, TypeError) as error:
        raise BadState(f"what execution {state.id} was to run can't be read: {explain(error)}") from None


@dataclass(frozen=True, slots=True)
class _GuestRun:
    held: OwnedExecution
    order: GuestOrder
    tapes: Tapes
    box: Sandbox
    approver: Approver | None
    stop: asyncio.Event
    tool: Composed | None = None  # the version of its tool, if not the current one


@dataclass(frozen=True, slots=True)
class Ready:
    """What an execution goes on with, and what has changed since it was begun."""

    composer: Composer
    order: GuestOrder
    tapes: Tapes
    box: Sandbox
    changes: list[Changed]
    tool: Composed | None  # the version of its tool that it was begun with


class Guests:
    """Runs guests for one project. Belongs to one event loop."""

    def __init__(
        self,
        store: ExecutionStore,
        composer: Callable[[], Composer],
        watch: Watch,
        ending: Ending,
        *,
        sync: Literal["effects", "always"] = "effects",
    ) -> None:
        """*sync* is when a run must be on disk: before it has an effect and at its end, or always."""
        self._store = store
        self._strict = sync == "always"
        self.ending = ending
        self._open = composer
        self._opened: tuple[Composer, Environment] | None = None
        self.watch = watch

    async def close(self) -> None:
        """Interrupt what runs, and let go of everything."""
        await self.watch.close()
        await asyncio.to_thread(self.ending.close)

    async def run(
        self,
        order: GuestOrder,
        *,
        approver: Approver | None = None,
        begun: Callable[[str], None] | None = None,
        client: str = "",
    ) -> Run:
        """Run an order, on record; the run's id is the execution's. Whatever the code does is a run with a status.

        Cancelling this interrupts the execution, which can be resumed. *begun* is told its id as soon as there is one;
        *client* is who asked with a token of their own.
        """
        composer = self._opened[0] if self._opened is not None else await asyncio.to_thread(self._open)
        held = await self.begin(order, composer, client=client)
        if begun is not None:
            begun(held.id)
        tapes = Tapes(held, replay=False)
        return await self._go(_GuestRun(held, order, tapes, composer.box, approver, asyncio.Event()), composer)

    async def begin(self, order: GuestOrder, composer: Composer, *, client: str = "") -> OwnedExecution:
        """An execution for an order, held by this process."""
        composer.box.limits.narrowed(order.limits)  # refused orders are not recorded, so there is nothing to resume
        if order.tool is not None:
            source = (await composer.composed.get(order.tool)).file.digest
        else:
            source = hashlib.sha256((order.code or "").encode("utf-8", "surrogatepass")).hexdigest()
        work = {"guest": order.model_dump(mode="json", exclude_defaults=True)}
        now = time.time()
        state = ExecutionState(
            id=new_id(),
            client=client,
            kind="tool" if order.tool is not None else "code",
            title=order.title,
            strategy_reason=REASON,
            status="running",
            work=work,
            work_digest=digest_of(work),
            source=source,
            unresumable=None if order.session is None else "it ran in a session, and the session's variables are gone",
            environment=await self._environment(composer),
            created=now,
            updated=now,
        )
        state = state.model_copy(update={"seal": seal(sealed_text(state))})
        if not self._strict:
            return self._store.create(state, sync=False)
        return await to_the_end(self._create, state, undo=OwnedExecution.release)

    async def _environment(self, composer: Composer) -> Environment:
        """What runs guests now. It is looked up once: neither the composer nor its image changes in a process."""
        if self._opened is None or self._opened[0] is not composer:
            self._opened = composer, await asyncio.to_thread(environment, composer.project, composer.box)
        return self._opened[1].model_copy(update={"runners": {}})

    def _create(self, state: ExecutionState) -> OwnedExecution:
        try:
            return self._store.create(state)
        except OSError as error:
            raise StorageFailed.begun(error) from None

    async def resume(
        self,
        held: OwnedExecution,
        *,
        approver: Approver | None = None,
        unfinished: Unfinished = NOT_SAID,
        anyway: bool = False,
        timeout_s: float | None = None,
        grants: tuple[str, ...] | None = None,
    ) -> tuple[Run, list[Changed]]:
        """Go on with an execution that this process holds now; the run, and what has changed since it was begun.

        It is released whatever happens. *grants* are those of now of the client whose it is.
        """
        try:
            ready = await self.prepare(held, unfinished, anyway=anyway, timeout_s=timeout_s, grants=grants)
            await asyncio.to_thread(held.move, "running", error=None, result=None)
        except BaseException:
            held.release()
            raise
        flight = _GuestRun(held, ready.order, ready.tapes, ready.box, approver, asyncio.Event(), ready.tool)
        return await self._go(flight, ready.composer), ready.changes

    async def prepare(
        self,
        held: OwnedExecution,
        unfinished: Unfinished,
        *,
        anyway: bool,
        timeout_s: float | None = None,
        grants: tuple[str, ...] | None = None,
    ) -> Ready:
        """All that an execution needs to go on, checked; `ExecutionConflict` or `BadState` if it can't."""
        order = guest_order(held.state)
        assert order is not None, "not an execution of a guest"
        composer = await asyncio.to_thread(self._open)
        refuse(held.state, damages(held.state), anyway=anyway)
        tapes = await asyncio.to_thread(make_tapes, held, unfinished)
        changes, tool = await guest_changes(held.state, composer, tapes, tool=order.tool)
        refuse(held.state, changes, anyway=anyway)
        if timeout_s is not None:
            order = order.model_copy(update={"limits": {**(order.limits or {}), "timeout_s": timeout_s}})
        if grants is not None:
            order = order.model_copy(update={"grants": grants})
        box = await asyncio.to_thread(composer.box_of, held.state.environment.image, order.limits)
        return Ready(composer, order, tapes, box, changes, tool)

    async def _go(self, flight: _GuestRun, composer: Composer) -> Run:
        UNDER_WAY.set(flight.held.id)
        with span("execution", execution_id=flight.held.id, work=flight.held.state.kind) as told:
            run = await self._fly(flight, composer)
            told.set(status=flight.held.state.status)
            return run

    async def _fly(self, flight: _GuestRun, composer: Composer) -> Run:
        held, order, tapes = flight.held, flight.order, flight.tapes
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.watch.add(held, flight.stop.set, done)
        started = time.monotonic()
        interrupted = Run(
            id=held.id, status="interrupted", error=RunError(kind="interrupted", message="the run was interrupted")
        )
        try:
            running = guest_run(
                composer, order, tapes, STEP, box=flight.box, approver=flight.approver, run_id=held.id, tool=flight.tool
            )
            try:
                run = await drive(flight.box, held.id, running, flight.stop) or interrupted
            except asyncio.CancelledError:
                await self._end(held, interrupted, started, tapes)
                raise
            except (ComposerError, SandboxError) as error:  # it never began
                await self._end(
                    held,
                    Run(id=held.id, status="error", error=RunError(kind=type(error).__name__, message=str(error))),
                    started,
                    tapes,
                )
                raise
            await self._end(held, run, started, tapes)
            return run
        finally:
            self.watch.remove(held.id)
            done.set_result(None)
            if not held.released:
                await asyncio.to_thread(self.let_go, held, tapes)

    def let_go(self, held: OwnedExecution, tapes: Tapes) -> None:
        """An execution has ended, or rests: count it, and let others have it. Blocks."""
        self.ending.note(held, tapes.tally)
        held.release()

    def _pack(self, held: OwnedExecution, run: Run, tally: Tally, end: Callable[[], None]) -> None:
        """End one that has done nothing to the outside, and is in memory alone. What can't be recorded of it is no
        reason to withhold what it came to.
        """
        (failure,) = held.together([end], pack=tally.totals())
        held.release()
        if isinstance(failure, OSError):
            run.warning = f"this run is not on record, which can't be written: {failure.strerror or failure}"
            log.warning("execution %s: %s", held.id, run.warning)
        elif failure is not None:
            raise failure
        self.ending.tidy()

    def _end_and_let_go(self, held: OwnedExecution, tapes: Tapes, end: Callable[[], None]) -> None:
        with self._store.index.together():
            (failure,) = held.together([end])
            if failure is not None:
                raise failure
            self.ending.note(held, tapes.tally)
        held.release()

    async def _end(self, held: OwnedExecution, run: Run, started: float, tapes: Tapes) -> None:
        """How it ended, on disk when this returns; then others may have it."""
        if isinstance(tapes.wrong, Diverged) or _diverged(run):
            said = (
                f"execution {held.id} can't go on, for it is not what was recorded: "
                f"{tapes.wrong or (run.error and run.error.message)}"
            )
            await to_the_end(held.move, "interrupted")
            raise ExecutionConflict(said)
        result = run_result(run, held.id, STEP, round((time.monotonic() - started) * 1000))
        status, final = guest_status(run)
        if final and run.status == "error":
            final = not await asyncio.to_thread(_wants_a_tool, held)
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
        short = whole.model_copy(
            update={"steps": (RunResult(execution_id=held.id, task_id=STEP, status=result.status),)}
        )

        def end() -> None:
            if run.stdout:
                held.append("printed", {"step": STEP, "text": run.stdout[:MAX_PRINTED]})
            held.finish_step(STEP, result)
            held.move(status, result=short, error=result.error, final=final)

        size = run.usage.result_bytes + len(run.stdout)
        if tapes.tally is not None and status in ("completed", "failed") and held.may_pack(size):
            self._pack(held, run, tapes.tally, end)
            return
        try:
            await to_the_end(self._end_and_let_go, held, tapes, end)
        except OSError as error:
            raise StorageFailed(
                f"how execution {held.id} ended can't be recorded: {error.strerror or error}; it can be resumed"
            ) from None


async def guest_run(
    composer: Composer,
    order: GuestOrder,
    tapes: Tapes,
    path: str,
    *,
    box: Sandbox,
    approver: Approver | None,
    run_id: str,
    tool: Composed | None = None,
    inputs: Mapping[str, Any] | None = None,
    batch: str | None = None,
) -> Run:
    """One run of an order, on the tape of that path; of that version of its tool, and over those inputs, if they are
    given.
    """
    given = order.inputs if inputs is None else inputs
    options: dict[str, Any] = {
        "grants": order.grants,
        "limits": order.limits,
        "approver": approver,
        "run_id": run_id,
        "box": box,
    }
    if order.tool is not None:
        return await composer.run(tool or order.tool, given, recording=tapes.tape(path), batch=batch, **options)
    recording = None if order.session is not None else tapes.tape(path)
    return await composer.code.execute(
        order.code or "", given, session=order.session, cut=order.cut, recording=recording, **options
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
