"""Long calls: run, tell how it goes, ask who can be asked, go on; cancelled or cut off, they are interrupted and can
be resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import anyio
from fastmcp.tools.base import ToolResult

from go_ent.composer import Composer
from go_ent.composer.catalogue.spec import NAMESPACE
from go_ent.composer.codemode.codemode import CodeRun
from go_ent.composer.composed.source import Composed
from go_ent.engine.core.errors import EngineError, ExecutionConflict, NotAllowed
from go_ent.engine.core.models import Event, TaskResult
from go_ent.engine.engine import Engine
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.tape import NOT_SAID, Unfinished
from go_ent.engine.guest_runs.runs import GuestOrder, guest_order
from go_ent.engine.resumption import Resumed
from go_ent.engine.server.calls import elicit
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.elicit import Permits
from go_ent.engine.server.calls.request import ToolRequest, request_under_way
from go_ent.engine.server.calls.results import cut, of_code, of_result, of_run
from go_ent.engine.strategies.work import Work
from go_ent.sandbox import Run
from go_ent.sandbox.host.run import Pending

log = logging.getLogger("go_ent.engine.server")
T = TypeVar("T")
Present = Callable[[CodeRun], ToolResult]
LOOK_S = 0.1  # no more than ten reports a second
SILENCE_S = 1.0
STOP_S = 4.0  # that executions have to stop, when the server ends
ANSWER_S = 0.2  # that their answers have to be sent
MOST_TOLD = 200
BUILDING = "waiting for the sandbox image, which is built once on this machine, in about half a minute"


async def run_guest(
    order: GuestOrder,
    composer: Composer,
    engine: Engine,
    *,
    present: Present = of_run,
    tool: Composed | None = None,
) -> ToolResult:
    """Run code or a composed tool for the client of the request under way; *present* makes its run the tool's answer.
    *tool* is the one that is run, if it has just been looked up.

    Reports progress, asks about calls that need approval where the client can, and is interrupted when the client
    cancels. Raises what a tool's `answering` wrapper turns into errors.
    """
    return await to_its_end(_converse(_Guest(_narrowed(order), composer, engine, present, tool), engine))


async def run_work(work: Work, engine: Engine, *, concurrency: int | None = None) -> ToolResult:
    """Have the engine do work for the client of the request under way."""
    return await to_its_end(_converse(_Work(work, engine, concurrency), engine))


async def go_on(
    state: ExecutionState,
    composer: Composer,
    engine: Engine,
    *,
    unfinished: Unfinished = NOT_SAID,
    anyway: bool = False,
    timeout_s: float | None = None,
    from_checkpoint: str | None = None,
) -> ToolResult:
    """Go on with an execution for the client of the request under way."""
    order, allow = guest_order(state), current().allow
    if order is not None and allow is not None and order.grants != allow:
        raise NotAllowed(
            f"what client {current().name} may call has changed since execution {state.id} was begun: begin anew"
        )
    return await to_its_end(
        _converse(_Resumed(state, composer, engine, unfinished, anyway, timeout_s, from_checkpoint), engine)
    )


def _narrowed(order: GuestOrder) -> GuestOrder:
    """An order as the caller may give it: a client with a token has its own grants, and its sessions to itself."""
    caller = current()
    if caller.allow is not None:
        order = order.model_copy(update={"grants": caller.allow})
    if caller.name and order.session is not None and NAMESPACE.fullmatch(order.session):
        mark = hashlib.sha256(f"{caller.name}/{order.session}".encode()).hexdigest()[:24]
        order = order.model_copy(update={"session": f"{order.session[:30]}_{mark}"})
    return order


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Do it in a task of its own. Who is cancelled waits until what it has begun is interrupted, and is on record as
    that.

    A request is cancelled again and again while it waits: work in its own task hears of it once.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a call that was cancelled failed: %s", error)
        raise


async def end_calls(engine: Engine) -> None:
    """Before the server ends: have what runs stop and be put on record, and who waits for it hear so."""
    engine.stop_all()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_S):
            await engine.lifecycle.watch.close()
    await asyncio.sleep(ANSWER_S)


class Report:
    """How a call is going: what was said last, or how many tool calls the execution has made."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._said = ""
        self.execution_id = ""

    def follow(self, execution_id: str) -> None:
        self.execution_id, self._said = execution_id, ""

    def say(self, text: str) -> None:
        """What keeps it from beginning."""
        self._said = text

    def hear(self, event: Event) -> None:
        """An event of the engine."""
        self.execution_id = self.execution_id or event.execution_id
        if event.kind != "result":
            words = [
                event.task_id or "",
                event.kind,
                str(event.data.get("status") or event.data.get("name") or ""),
                event.text,
            ]
            said = " ".join(" ".join(words)[: 4 * MOST_TOLD].split())[:MOST_TOLD]
            self._said = "".join(char if char.isprintable() else "�" for char in said)

    @property
    def text(self) -> str:
        running = self._engine.lifecycle.watch.get(self.execution_id)
        calls = running.held.state.calls if running is not None else 0
        made = f"{calls} tool call{'' if calls == 1 else 's'}" if calls else ""
        return "; ".join(
            part for part in (f"execution {self.execution_id}" if self.execution_id else "", self._said, made) if part
        )


@contextlib.asynccontextmanager
async def reporting(engine: Engine) -> AsyncIterator[Report]:
    """Tell the client how a call is going, if it wants to know: at once when something happens, else every second."""
    report, request = Report(engine), request_under_way()
    if request is None or not request.wants_progress:
        yield report
        return
    telling = asyncio.create_task(_tell(report, request))
    try:
        yield report
    finally:
        telling.cancel()
        await asyncio.wait([telling])


async def _tell(report: Report, request: ToolRequest) -> None:
    started, told_at, told = time.monotonic(), 0.0, ""
    while True:
        await asyncio.sleep(LOOK_S)
        now, text = time.monotonic(), report.text
        if text != told or now - told_at >= SILENCE_S:
            try:
                await request.report_progress(round(now - started, 2), text or None)
            except Exception as error:  # a client that no longer listens is told nothing
                log.debug("progress could not be told: %s", error)
                return
            told_at, told = now, text


class _Job(Protocol[T]):
    """Work that may have to rest until somebody answers."""

    def fits(self, state: ExecutionState) -> bool:
        """Whether an execution is this work, begun before."""

    async def begin(self, report: Report, permits: Permits | None) -> tuple[str, T]: ...

    async def go_on(self, execution_id: str, report: Report, permits: Permits | None) -> T: ...

    def rests(self, outcome: T) -> bool:
        """Whether it has not come to its end, and somebody may have to decide something."""

    def answer(self, outcome: T, state: ExecutionState | None) -> ToolResult:
        """The answer; of what rests with its state."""

    async def resting(self, state: ExecutionState) -> ToolResult:
        """The answer of an execution that goes on no further."""


async def _converse(job: _Job[T], engine: Engine) -> ToolResult:
    """Do a job, and ask whatever a person has to decide, until it has ended or nobody answers."""
    person = elicit.person()
    budget = person is not None and elicit.asks_budget(engine)
    async with reporting(engine) as report:
        returned = elicit.returned()
        if returned is None:
            execution_id, outcome = await job.begin(report, Permits() if budget else None)
        else:
            execution_id, verdicts = returned
            state = await current().find(engine, execution_id)
            if not job.fits(state):
                raise ExecutionConflict(f"execution {execution_id[:80]} is not what this call has begun")
            asked = elicit.questions(state, budget=budget)
            permits = await elicit.settle(engine, state.id, asked, verdicts) if person is not None else None
            if permits is None:
                return await job.resting(await engine.status(state.id))
            outcome = await job.go_on(state.id, report, permits if budget else None)
        resting = None
        while job.rests(outcome):
            resting = await engine.status(execution_id)
            asked = elicit.questions(resting, budget=budget) if person is not None else []
            if person is None or not asked:
                break
            if person.later:
                return person.hand_over(asked, execution_id)
            permits = await elicit.settle(engine, execution_id, asked, await person.ask(asked))
            if permits is None:
                resting = await engine.status(execution_id)
                break
            outcome = await job.go_on(execution_id, report, permits if budget else None)
        return job.answer(outcome, resting)


class _Guest:
    """A run of code or of a composed tool."""

    def __init__(
        self, order: GuestOrder, composer: Composer, engine: Engine, present: Present, tool: Composed | None
    ) -> None:
        self._order, self._composer, self._engine, self._present, self._tool = order, composer, engine, present, tool

    def fits(self, state: ExecutionState) -> bool:
        return guest_order(state) == self._order

    async def begin(self, report: Report, permits: Permits | None) -> tuple[str, Run]:
        if not self._composer.box.has_image:
            report.say(BUILDING)
        run = await self._engine.guests.run(self._order, begun=report.follow, client=current().name, tool=self._tool)
        return run.id, run

    async def go_on(self, execution_id: str, report: Report, permits: Permits | None) -> Run:
        report.follow(execution_id)
        return (await self._engine.resume_run(execution_id))[0]

    def rests(self, outcome: Run) -> bool:
        return outcome.status == "paused"

    def answer(self, outcome: Run, state: ExecutionState | None) -> ToolResult:
        return self._present(_presented(outcome, self._composer, state))

    async def resting(self, state: ExecutionState) -> ToolResult:
        return self._present(resting_run(state))


class _Work:
    """A task, a chain or a graph."""

    def __init__(self, work: Work, engine: Engine, concurrency: int | None) -> None:
        self._work, self._engine, self._concurrency = work, engine, concurrency

    def fits(self, state: ExecutionState) -> bool:
        return "guest" not in state.work  # and the seal of the request is about its arguments

    async def begin(self, report: Report, permits: Permits | None) -> tuple[str, TaskResult]:
        done = await self._engine.execute(
            self._work,
            may_start=False,
            concurrency=self._concurrency,
            on_event=report.hear,
            ask=permits,
            client=current().name,
        )
        return done.execution_id, done

    async def go_on(self, execution_id: str, report: Report, permits: Permits | None) -> TaskResult:
        return await self._engine.resume(execution_id, may_start=False, on_event=report.hear, ask=permits)

    def rests(self, outcome: TaskResult) -> bool:
        return not outcome.ok

    def answer(self, outcome: TaskResult, state: ExecutionState | None) -> ToolResult:
        return of_result(outcome, state)

    async def resting(self, state: ExecutionState) -> ToolResult:
        return of_result(await self._engine.wait(state.id), state)


class _Resumed:
    """An execution of either kind that goes on."""

    def __init__(
        self,
        state: ExecutionState,
        composer: Composer,
        engine: Engine,
        unfinished: Unfinished,
        anyway: bool,
        timeout_s: float | None,
        checkpoint: str | None,
    ) -> None:
        self._state, self._composer, self._engine, self._checkpoint = state, composer, engine, checkpoint
        self._unfinished, self._anyway, self._timeout_s = unfinished, anyway, timeout_s

    def fits(self, state: ExecutionState) -> bool:
        return state.id == self._state.id

    async def begin(self, report: Report, permits: Permits | None) -> tuple[str, Resumed]:
        return self._state.id, await self._go(report, permits, self._unfinished, self._checkpoint)

    async def go_on(self, execution_id: str, report: Report, permits: Permits | None) -> Resumed:
        return await self._go(report, permits, NOT_SAID)

    async def _go(
        self, report: Report, permits: Permits | None, unfinished: Unfinished, checkpoint: str | None = None
    ) -> Resumed:
        report.follow(self._state.id)
        how: dict[str, Any] = {"unfinished": unfinished, "anyway": self._anyway, "from_checkpoint": checkpoint}
        is_guest = guest_order(self._state) is not None
        if self._timeout_s is not None and not is_guest:
            raise EngineError("timeout_s is for code and composed tools: a task keeps its own")
        how |= {"timeout_s": self._timeout_s, "may_start": False, "here": is_guest}
        return await self._engine.go_on(self._state.id, on_event=report.hear, ask=permits, **how)

    def rests(self, outcome: Resumed) -> bool:
        return not outcome.result.ok if outcome.run is None else outcome.run.status == "paused"

    def answer(self, outcome: Resumed, state: ExecutionState | None) -> ToolResult:
        if outcome.run is None:
            return of_result(outcome.result, state)
        order = guest_order(self._state)
        present = of_run if order is None or order.code is None else of_code
        made = present(_presented(outcome.run, self._composer, state))
        if outcome.changes and made.structured_content is not None:
            made.structured_content["changed"] = [cut(change.text) for change in outcome.changes[:20]]
        return made

    async def resting(self, state: ExecutionState) -> ToolResult:
        if guest_order(state) is not None:
            return of_run(resting_run(state))
        return of_result(await self._engine.wait(state.id), state)


def _presented(run: Run, composer: Composer, state: ExecutionState | None) -> CodeRun:
    made = run if isinstance(run, CodeRun) else composer.code.present(run)
    if state is not None and state.status == "paused":  # some of what it waited for may have been decided since
        return made.model_copy(update={"pending": [one for one in made.pending if one.call in state.requests]})
    return made


def resting_run(state: ExecutionState) -> CodeRun:
    """A run of which nothing more is known than what is on record: it waits for decisions."""
    pending = [
        Pending(tool=one.tool, arguments=one.arguments or {}, reason=one.reason, call=path)
        for path, one in state.requests.items()
    ]
    return CodeRun(id=state.id, status="paused", pending=pending)
