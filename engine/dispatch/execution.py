"""What runs in the execution of a task, a list or a plan: the steps of the strategy that was chosen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Protocol

from go_ent.engine.context.execution_summaries import with_summaries
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import EngineError, ExecutionConflict, StorageFailed
from go_ent.engine.core.models import RunResult, Task, TaskResult
from go_ent.engine.core.step import Output, RunStep, Step
from go_ent.engine.dispatch.dispatcher import Dispatcher
from go_ent.engine.dispatch.execution_context import ExecutionContext
from go_ent.engine.executions.lifecycle import Ending, Lifecycle
from go_ent.engine.executions.state import ExecutionState, ExecutionStatus
from go_ent.engine.prompts import Prompt
from go_ent.engine.strategies import Plan, aggregate, multi, parallel, single
from go_ent.engine.strategies.work import Chosen, Work, as_tasks
from go_ent.sandbox.errors import Diverged


class RunOfStep(Protocol):
    """Runs one step of an execution: here, or elsewhere."""

    def __call__(self, step: Step, run: ExecutionContext) -> Awaitable[RunResult]:
        """To its result."""


class WorkSteps:
    """What is run in the execution of a task, a list or a plan: the steps of its strategy. Of one engine."""

    def __init__(self, dispatcher: Dispatcher, config: EngineConfig, lifecycle: Lifecycle) -> None:
        self._dispatcher = dispatcher
        self._config = config
        self._lifecycle = lifecycle
        self.run_step: RunOfStep = dispatcher.run

    async def carry(self, run: ExecutionContext, work: Work, chosen: Chosen, concurrency: int | None) -> TaskResult:
        """Run an execution that this process holds to its end. Whatever happens, its state says so."""
        ending = await self._lifecycle.carry(run, partial(self._end_of, run, work, chosen, concurrency))
        assert ending.result is not None
        result = with_steps(run.held.state, ending.result)
        run.say("status", status=ending.status)
        run.say("result", text=result.output, result=result.model_dump(mode="json"))
        return result

    async def _end_of(self, run: ExecutionContext, work: Work, chosen: Chosen, concurrency: int | None) -> Ending:
        started = time.monotonic()
        try:
            await run.write(run.held.move, "running")
            run.say(
                "status", text=run.held.state.title, status="running", strategy=chosen.strategy, reason=chosen.reason
            )
            step = partial(self.run_step, run=run)
            try:
                results = await self.steps(run.id, work, chosen, step, concurrency, run.stop)
            finally:
                await run.flush()
            if run.broken is not None:
                raise _broken(run)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            result = TaskResult(execution_id=run.id, status="BLOCKED", strategy=chosen.strategy, error=said)
            return Ending("failed", result, said, raises=error)
        for one in results:
            if one.task_id not in run.held.state.results:  # it never came to be run, and who watches should know
                run.say("step", one.task_id, one.error or "", status=one.status)
        leaves = parallel.leaves(work, results) if isinstance(work, Plan) else ()
        took = round((time.monotonic() - started) * 1000)
        result = aggregate(run.id, chosen.strategy, chosen.reason, results, leaves=leaves, duration_ms=took)
        result = with_summaries(result, run.context.links if run.context is not None else ())
        # What the steps say is in the state already, step by step.
        known = run.held.state.results
        short = tuple(_named(step) if step.task_id in known else step for step in result.steps)
        return Ending(_status(run, result), result.model_copy(update={"steps": short}), result.error)

    async def steps(
        self,
        execution_id: str,
        work: Work,
        chosen: Chosen,
        step: RunStep,
        concurrency: int | None,
        stop: asyncio.Event | None = None,
    ) -> tuple[RunResult, ...]:
        """What the steps come to, each of them run by *step*, as the strategy has them."""
        if isinstance(work, Plan):
            most = next(
                one for one in (concurrency, work.concurrency, self._config.engine.concurrency) if one is not None
            )
            return await parallel.run(work, step, execution_id=execution_id, concurrency=most, stop=stop)
        if chosen.strategy == "multi":
            assert isinstance(work, Task)
            return await multi.run(work, step, execution_id=execution_id, chain=self._config.engine.chain, stop=stop)
        return await single.run(as_tasks(work), step, execution_id=execution_id, stop=stop)

    async def rehearse(
        self, work: Work, chosen: Chosen, adjustments: Sequence[str] = ()
    ) -> list[tuple[str, Prompt | str]]:
        """The prompts that would be sent, step by step, and what else would run. Nothing is started."""
        seen: list[tuple[str, Prompt | str]] = []

        problems: list[EngineError] = []

        async def look(step: Step) -> RunResult:
            shown: Prompt | str = step.task.title
            try:
                self._dispatcher.check(step.task, may_start=True)
                if step.task.has_prompt:
                    shown = await self._dispatcher.prompt(step, tuple(adjustments))
            except EngineError as error:
                problems.append(error)
                raise
            seen.append((step.id, shown))
            said = f"[what {step.task.role or step.id} answers]"
            return RunResult(execution_id="", task_id=step.id, status="completed", output=said)

        if not isinstance(work, Plan):
            await self.steps("", work, chosen, look, 1)
            if problems:
                raise problems[0]
            return seen
        for task, referred in zip(
            work.task, work.referred, strict=True
        ):  # as they are: what is referred to is not there yet
            others = [one for one in dict.fromkeys(task.depends_on) if one not in referred]
            await look(
                Step(
                    task.id,
                    work.with_threshold(task),
                    dependencies=tuple(Output(one, f"[what {one} answers]") for one in others),
                )
            )
        return seen


def _broken(run: ExecutionContext) -> EngineError:
    """Why an execution can't go on whose steps could not be recorded, or are not what was recorded."""
    if isinstance(run.tapes.wrong, Diverged):
        return ExecutionConflict(f"execution {run.id} can't go on, for it is not what was recorded: {run.broken}")
    return StorageFailed(f"{run.broken}; what was recorded before can be resumed once that is mended")


def _status(run: ExecutionContext, result: TaskResult) -> ExecutionStatus:
    if result.ok:
        return "completed"
    if run.stop.is_set():
        return "interrupted"
    return "paused" if any(step.status == "paused" for step in result.steps) else "failed"


def _named(step: RunResult) -> RunResult:
    """A step by its name alone: the rest of it is in the state."""
    return RunResult(execution_id=step.execution_id, task_id=step.task_id, status=step.status)


def with_steps(state: ExecutionState, result: TaskResult) -> TaskResult:
    """A result as it was, with all that the state has of its steps."""
    return result.model_copy(update={"steps": tuple(state.results.get(step.task_id, step) for step in result.steps)})
