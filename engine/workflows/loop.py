"""Loops: a task, run again until a check passes. What failed last is fed back as an adjustment.

running ──► completed   the check passed
running ──► failed      too many iterations, the budget is spent, the same failure three times, or nothing could run
running ──► paused      stopped, or an execution that was interrupted, or is run by another process; `resume` goes on
running, paused ──► cancelled
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError
from pydantic_core import to_json

from go_ent.composer.project.files import STATE
from go_ent.composer.project.trust import is_sealed, is_trusted, seal
from go_ent.dataclass import dataclass
from go_ent.engine.budget import Spent, tighter
from go_ent.engine.core.concurrency import Stopped, to_the_end, unless
from go_ent.engine.core.errors import BadTask, EngineError, ExecutionConflict, Untrusted
from go_ent.engine.core.explain import explain
from go_ent.engine.core.ids import ID, new_id
from go_ent.engine.core.models import BudgetLimit, Metrics, Model, Task, TaskResult, TaskStatus
from go_ent.engine.core.text import shortened
from go_ent.engine.processes.environment import child_environment
from go_ent.engine.processes.trees import reap
from go_ent.engine.storage.state_files import MAX_STATE, Listing, StateFiles
from go_ent.engine.workflows.loop_checks import (
    FEEDBACK_CHARS,
    OUTPUT_CHARS,
    Check,
    Checking,
    CheckOutcome,
    CommandCheck,
    LoopEngine,
    ModelCheck,
    ToolCheck,
    digest,
    tag_of,
)
from go_ent.engine.workflows.workflow import carry_out, completed, was_interrupted
from go_ent.sandbox.children.programs import find_program

MAX_ITERATIONS = 10
SAME_FAILURES = 3
MAX_FILES = 200
LEAST_USD = 1e-6
T = TypeVar("T")

LoopStatus = Literal["running", "paused", "completed", "failed", "cancelled"]
TRANSITIONS: MappingProxyType[LoopStatus, frozenset[LoopStatus]] = MappingProxyType(
    {
        "running": frozenset({"running", "paused", "completed", "failed", "cancelled"}),  # running again: after a crash
        "paused": frozenset({"running", "cancelled"}),
        "completed": frozenset(),
        "failed": frozenset(),
        "cancelled": frozenset(),
    }
)


class Iteration(Model):
    """One finished execution of the task, and what the check said of it; `check` is None until it is known."""

    number: int
    execution_id: str
    status: TaskStatus
    output: str = ""
    error: str | None = None
    files_modified: tuple[str, ...] = ()
    metrics: Metrics | None = None
    failure: str = ""  # of the execution itself, as `CheckOutcome.failure`
    over_budget: bool = False
    check: CheckOutcome | None = None
    at: float

    @property
    def passed(self) -> bool:
        return self.check is not None and self.check.passed

    @property
    def unchecked(self) -> bool:
        return self.status == "COMPLETE" and self.check is None


class LoopState(Model):
    """A loop as it is on disk.

    `begun` is the iteration that is under way, and `under_way` the execution of it, or of its check, that was begun and
    has not ended; `executions` are all that it ever began. `spent` is the sum of what they said. What the ledger has of
    them, or had held for them where a cost is not known, is `counted_usd` and `counted_tokens`; the larger decides.
    """

    version: Literal[1] = 1
    id: Annotated[str, Field(pattern=rf"^{ID.pattern}$")]
    status: LoopStatus = "running"
    task: Task
    check: Check
    max_iterations: Annotated[int, Field(ge=1, le=1000)] = MAX_ITERATIONS
    budget: BudgetLimit | None = None
    seal: str = ""  # of the user who began it
    iterations: Annotated[tuple[Iteration, ...], Field(max_length=1000)] = ()
    begun: int | None = None
    under_way: Annotated[str, Field(pattern=rf"^{ID.pattern}$")] | None = None
    executions: tuple[str, ...] = ()
    spent: Metrics = Metrics(tokens_used=0, duration_ms=0)
    counted_usd: float = 0.0
    counted_tokens: int = 0
    unknown_costs: int = 0
    outcome: TaskStatus | None = None
    message: str = ""
    created: float
    updated: float

    def changed(self, **changes: Any) -> Self:
        """This state, changed. A status that may not follow is refused."""
        then = changes.get("status")
        if then is not None and then not in TRANSITIONS[self.status]:
            raise ExecutionConflict(f"loop {self.id} is {self.status}: it can't become {then}")
        return self.model_copy(update={**changes, "updated": time.time()})

    def ended(self, status: LoopStatus, outcome: TaskStatus, message: str) -> Self:
        return self.changed(status=status, outcome=outcome, message=shortened(message, FEEDBACK_CHARS), begun=None)

    def charged(self, metrics: Metrics | None) -> Self:
        if metrics is None:
            return self
        known = [cost for cost in (self.spent.cost_usd, metrics.cost_usd) if cost is not None]
        spent = Metrics(
            tokens_used=self.spent.tokens_used + metrics.tokens_used,
            duration_ms=self.spent.duration_ms + metrics.duration_ms,
            cost_usd=sum(known) if known else None,
        )
        return self.changed(spent=spent)

    def counted(self, spent: Spent) -> Self:
        """This state, with what the ledger says."""
        said = {"counted_usd": spent.usd, "counted_tokens": spent.tokens, "unknown_costs": spent.unknown}
        return self if all(getattr(self, name) == value for name, value in said.items()) else self.changed(**said)

    @property
    def used_usd(self) -> float:
        return max(self.spent.cost_usd or 0.0, self.counted_usd)

    @property
    def used_tokens(self) -> int:
        return max(self.spent.tokens_used, self.counted_tokens)


class LoopResult(Model):
    """The result of a loop. `result` is that of the last execution of this run of the loop."""

    version: Literal[1] = 1
    loop_id: str
    state: LoopStatus
    status: TaskStatus
    message: str
    iterations: tuple[Iteration, ...]
    metrics: Metrics
    warnings: tuple[str, ...] = ()
    result: TaskResult | None = None


class Loop:
    """One loop, in `.go-ent/loops/<id>.json`. All but `run` block shortly."""

    def __init__(self, project: Path, loop_id: str) -> None:
        """The handle of a loop that is there: to look at it, or to cancel it."""
        self.project, self.id = project, loop_id
        self._files = _files(project)
        self._result: TaskResult | None = None

    @classmethod
    def start(
        cls,
        project: Path,
        task: Task,
        check: CommandCheck | ToolCheck | ModelCheck,
        *,
        max_iterations: int = MAX_ITERATIONS,
        budget: BudgetLimit | None = None,
    ) -> Self:
        """A new loop; nothing of it runs before `run`. Without a *budget* the task's is the whole loop's."""
        if isinstance(check, CommandCheck):
            _check_program(check)
        now = time.time()
        try:
            state = LoopState(
                id=new_id(),
                task=task,
                check=check,
                max_iterations=max_iterations,
                budget=budget or task.budget,
                created=now,
                updated=now,
            )
        except ValidationError as error:
            raise BadTask(f"a loop: {explain(error)}") from None
        loop = cls(project, state.id)
        state = state.model_copy(update={"seal": seal(_sealed(state))})
        with loop._files.changing(state.id):
            loop._files.save(state.id, state, most=MAX_STATE // 4)  # the rest is for what comes of it
        return loop

    @classmethod
    def resume(cls, project: Path, loop_id: str) -> Self:
        """A loop to resume: one that is paused, or whose process died. `run` then begins with what was not
        finished.
        """
        loop = cls(project, loop_id)
        loop.state.changed(status="running")
        return loop

    @staticmethod
    def all(project: Path) -> Listing[LoopState]:
        """The loops of a project, the oldest first, and what could not be read."""
        return _files(project).all()

    @property
    def state(self) -> LoopState:
        return self._files.load(self.id)

    @property
    def run_by(self) -> int | None:
        """The process that runs it now. What is running and run by none was left behind: `resume` goes on with it."""
        return self._files.held_by(self.id)

    def cancel(self) -> LoopState:
        """End it. An execution that is running is not stopped by this; it is the last."""
        return self._files.change(self.id, lambda state: state.ended("cancelled", "PARTIAL", "it was cancelled"))

    async def run(
        self,
        engine: LoopEngine,
        *,
        stop: asyncio.Event | None = None,
        on_iteration: Callable[[Iteration], None] | None = None,
    ) -> LoopResult:
        """Iterate to the end, or until *stop* is set; to pause a loop, set it, then interrupt the engine.

        Everything is on disk before an iteration begins and after it ends. After a crash, or a stop, the execution that
        was under way is resumed, and nothing that had finished is run again. *on_iteration* is told of each that has.
        """
        await to_the_end(self._files.load, self.id)
        claim = self._files.claim(self.id)
        stop = stop if stop is not None else asyncio.Event()
        try:
            await to_the_end(claim.take)
            if (await to_the_end(self._trusted)).begun is not None:
                await reap(tag_of(self.id))  # what a check had started when its process was killed
            state = await self._change(lambda now: now.changed(status="running", outcome=None, message=""))
            try:
                while state.status == "running":
                    state = await self._next(state, engine, stop, on_iteration or (lambda _: None))
                state = await self._count(state, engine)
            except ExecutionConflict as error:  # another process is at the execution: it may yet complete
                said = str(error)
                state = await self._change(lambda now: _paused(now, said))
            except EngineError as error:  # no further iteration could change it: no runtime, no budget, not allowed
                end = End("failed", "NEEDS_REPLAN" if isinstance(error, BadTask) else "BLOCKED", str(error))
                state = await self._change(lambda now: _ended(now, end))
            except asyncio.CancelledError:
                await self._change(_paused)
                raise
            return _result(state, self._result)
        finally:
            claim.release()

    def _trusted(self) -> LoopState:
        """The state. What somebody else has begun in a folder, whatever it would do, waits for trust."""
        state = self.state
        if not is_trusted(self.project) and not is_sealed(_sealed(state), state.seal):
            raise Untrusted(f"loop {self.id}", str(self.project))
        return state

    async def _next(
        self, state: LoopState, engine: LoopEngine, stop: asyncio.Event, on_iteration: Callable[[Iteration], None]
    ) -> LoopState:
        """One thing more: the end, a pause, an execution, or the check of one."""
        state = await self._count(state, engine)
        end = ending(state)
        if (
            end is not None and await completed(engine, state.under_way) is None
        ):  # what has completed costs nothing more
            return await self._change(lambda now: _ended(now, end))
        if stop.is_set():
            return await self._change(_paused)
        unchecked = bool(state.iterations) and state.iterations[-1].unchecked
        number = len(state.iterations) + (not unchecked)
        state = await self._change(lambda now: now.changed(begun=number) if now.status == "running" else now)
        if state.status != "running":
            return state
        if unchecked:
            state = await self._check(state, engine, stop)
        else:
            state = await self._execute(state, engine, stop)
        if len(state.iterations) == number and not state.iterations[-1].unchecked:
            on_iteration(state.iterations[-1])
        return state

    async def _execute(self, state: LoopState, engine: LoopEngine, stop: asyncio.Event) -> LoopState:
        number = len(state.iterations) + 1
        task = state.task.model_copy(
            update={"budget": tighter(state.task.budget, left(state)), "max_cost_usd": _most(state)}
        )
        result = await self._carry_out(state, engine, task, adjustments(state))
        self._result = result
        if was_interrupted(result) or (stop.is_set() and not result.ok):
            said = result.error or "it was stopped"
            return await self._change(lambda now: _paused(now.charged(_unfinished(result)), said))
        iteration = _iteration(number, result, self.project)

        def add(now: LoopState) -> LoopState:
            return now.charged(result.metrics).changed(iterations=(*now.iterations, iteration), under_way=None)

        return await self._change(add)

    async def _check(self, state: LoopState, engine: LoopEngine, stop: asyncio.Event) -> LoopState:
        last = state.iterations[-1]
        execute = partial(self._carry_out, state, engine)
        checking = Checking(
            self.project, engine, self.id, state.task, last.output, last.files_modified, execute, left(state)
        )
        try:
            outcome = await unless(stop, state.check.run(checking))
        except Stopped:
            return await self._change(_paused)
        checked = last.model_copy(update={"check": outcome})

        def add(now: LoopState) -> LoopState:
            return now.charged(outcome.metrics).changed(iterations=(*now.iterations[:-1], checked), under_way=None)

        return await self._change(add)

    async def _carry_out(
        self, state: LoopState, engine: LoopEngine, task: Task, adjustments: tuple[str, ...] = ()
    ) -> TaskResult:
        async def begun(execution_id: str) -> None:
            await self._change(
                lambda now: now.changed(under_way=execution_id, executions=(*now.executions, execution_id))
            )

        return await carry_out(
            engine, task, parent=self.id, adjustments=adjustments, under_way=state.under_way, begun=begun
        )

    async def _count(self, state: LoopState, engine: LoopEngine) -> LoopState:
        """The state with what the ledger has of the loop, also of executions that ended with their process."""
        spent = await engine.spent((self.id, *state.executions))
        return await self._change(lambda now: now.counted(spent))

    async def _change(self, change: Callable[[LoopState], LoopState]) -> LoopState:
        return await to_the_end(self._files.change, self.id, change)


def _sealed(state: LoopState) -> str:
    """What a loop's seal is made of: all that says what is done, and for how much."""
    limit = None if state.budget is None else state.budget.model_dump()
    said = [
        "loop",
        state.id,
        state.task.model_dump(mode="json"),
        state.check.model_dump(mode="json"),
        state.max_iterations,
        limit,
    ]
    return to_json(said).decode()


@dataclass(frozen=True, slots=True)
class End:
    status: LoopStatus
    outcome: TaskStatus
    message: str


def ending(state: LoopState) -> End | None:
    """Whether a loop is at its end, and as what; None if there is something to execute or to check."""
    last = state.iterations[-1] if state.iterations else None
    if last is not None and last.unchecked:
        return _spent_all(state) if isinstance(state.check, ModelCheck) else None  # other checks may cost nothing
    if last is not None:
        if last.passed:
            return End("completed", "COMPLETE", f"{state.check.title} passed after {_times(last.number)}")
        if last.status == "NEEDS_REPLAN":
            return End("failed", "NEEDS_REPLAN", last.error or "the execution says that the task itself must change")
        if last.over_budget:
            return End("failed", "BLOCKED", last.error or "the budget does not hold another execution")
        failures = [_failure(iteration) for iteration in state.iterations[-SAME_FAILURES:]]
        if len(failures) == SAME_FAILURES and len(set(failures)) == 1:
            return End("failed", "NEEDS_REPLAN", f"the same failure {SAME_FAILURES} times in a row: {_feedback(last)}")
        if last.number >= state.max_iterations:
            return End(
                "failed", "PARTIAL", f"{state.check.title} did not pass in {_times(last.number)}: {_feedback(last)}"
            )
    return _spent_all(state)


def _spent_all(state: LoopState) -> End | None:
    limit = state.budget or BudgetLimit()
    if limit.usd is not None and state.used_usd >= limit.usd:
        return End("failed", "BLOCKED", f"the budget of the loop is spent: ${state.used_usd:.4f} of ${limit.usd:.4f}")
    if limit.tokens is not None and state.used_tokens >= limit.tokens:
        return End(
            "failed", "BLOCKED", f"the budget of the loop is spent: {state.used_tokens} of {limit.tokens} tokens"
        )
    return None


def adjustments(state: LoopState) -> tuple[str, ...]:
    """What the next iteration is told of the last."""
    if not state.iterations:
        return ()
    last = state.iterations[-1]
    return (f"Iteration {last.number} did not succeed. {_feedback(last)}",)


def _failure(iteration: Iteration) -> str:
    return iteration.check.failure if iteration.check is not None else iteration.failure


def _feedback(iteration: Iteration) -> str:
    if iteration.check is not None:
        return iteration.check.feedback
    return f"The execution itself ended as {iteration.status}: {iteration.error or 'it did not say why'}"


def _times(number: int) -> str:
    return "1 iteration" if number == 1 else f"{number} iterations"


def left(state: LoopState) -> BudgetLimit | None:
    """What is left for the loop, and never quite nothing: an execution that costs nothing fits into any budget."""
    limit = state.budget
    if limit is None:
        return None
    return BudgetLimit(
        usd=None if limit.usd is None else max(limit.usd - state.used_usd, LEAST_USD),
        tokens=None if limit.tokens is None else max(limit.tokens - state.used_tokens, 1),
    )


def _most(state: LoopState) -> float | None:
    """The most that a command of an iteration costs: it does not fall with what is left."""
    if state.task.max_cost_usd is not None or state.task.tool or state.task.code:
        return state.task.max_cost_usd
    limit = tighter(state.task.budget, state.budget)
    return None if limit is None else limit.usd


def _unfinished(result: TaskResult) -> Metrics:
    """What the steps cost that were interrupted: the others are in the result again when the execution is resumed."""
    steps = [step for step in result.steps if not step.ok]
    costs = [step.cost_usd for step in steps if step.cost_usd is not None]
    return Metrics(
        tokens_used=sum(step.tokens.total for step in steps if step.tokens is not None),
        duration_ms=sum(step.duration_ms for step in steps),
        cost_usd=sum(costs) if costs else None,
    )


def _iteration(number: int, result: TaskResult, project: Path) -> Iteration:
    error = None if result.ok else result.error or f"it ended as {result.status}"
    return Iteration(
        number=number,
        execution_id=result.execution_id,
        status=result.status,
        output=shortened(result.output, OUTPUT_CHARS, end=True),
        error=None if error is None else shortened(error, FEEDBACK_CHARS, end=True),
        files_modified=tuple(result.files_modified[:MAX_FILES]),
        metrics=result.metrics,
        failure="" if error is None else digest(error, project),
        over_budget=result.status == "BLOCKED" and any(step.failure == "budget" for step in result.steps),
        at=time.time(),
    )


def _paused(now: LoopState, said: str = "it was stopped") -> LoopState:
    if now.status != "running":
        return now
    return now.changed(status="paused", outcome="PARTIAL", message=shortened(said, FEEDBACK_CHARS), begun=None)


def _ended(now: LoopState, end: End) -> LoopState:
    """Its end, unless it was cancelled meanwhile."""
    return now.ended(end.status, end.outcome, end.message) if now.status == "running" else now


def _result(state: LoopState, result: TaskResult | None) -> LoopResult:
    warnings: tuple[str, ...] = ()
    if state.unknown_costs and state.budget is not None and state.budget.usd is not None:
        runs = "1 run" if state.unknown_costs == 1 else f"{state.unknown_costs} runs"
        warnings = (f"the cost of {runs} is not known: against ${state.budget.usd:g} it is counted as what was held",)
    return LoopResult(
        loop_id=state.id,
        state=state.status,
        status=state.outcome or "PARTIAL",
        message=state.message,
        iterations=state.iterations,
        metrics=state.spent,
        warnings=warnings,
        result=result,
    )


def _check_program(check: CommandCheck) -> None:
    """Refuse a program that is not there before an iteration is paid for. One with a path may be what the task is to
    make.
    """
    program = check.argv[0]
    path = child_environment(os.environ, allow=check.env).get("PATH")
    if "/" not in program and find_program(program, path, Path("/")) is None:
        raise BadTask(f"there is no program {program} on the PATH: the check {check.title} could never pass")


def _files(project: Path) -> StateFiles[LoopState]:
    return StateFiles(project / STATE / "loops", LoopState, "loop")
