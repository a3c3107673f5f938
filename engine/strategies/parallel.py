"""`parallel`: the tasks of a plan as a graph, several at a time, the longest chain first."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import AsyncGenerator, Sequence

from go_ent.engine.core.models import RunResult
from go_ent.engine.core.step import Output, RunStep, Step
from go_ent.engine.strategies.graph import build
from go_ent.engine.strategies.plan import Plan, PlanTask
from go_ent.engine.strategies.pool import run_with_concurrency
from go_ent.engine.strategies.references import filled
from go_ent.engine.strategies.results import failed, not_run, run_retried

CONCURRENCY = 4
BIG = 1 << 18  # characters that are not parsed on the event loop


async def run(
    plan: Plan,
    run_step: RunStep,
    *,
    execution_id: str,
    concurrency: int | None = None,
    stop: asyncio.Event | None = None,
    backoff_s: float = 1.0,
) -> tuple[RunResult, ...]:
    """Run the graph and answer with one result for each task, in plan order.

    A task that fails leaves what needs it `skipped`, with the cause named; the rest goes on. Once *stop* is set nothing
    more is started, and what never was is `interrupted`.
    """
    if concurrency is None:
        concurrency = plan.concurrency or CONCURRENCY
    going = _Going(plan, run_step, execution_id, stop or asyncio.Event(), backoff_s)
    watch = asyncio.create_task(going.wake_when_stopped())
    try:
        async with contextlib.aclosing(going.ready()) as ready:
            await run_with_concurrency(ready, going.one, concurrency)
    finally:
        watch.cancel()
    return going.all_results()


def leaves(plan: Plan, results: Sequence[RunResult]) -> tuple[str, ...]:
    """The ids whose outputs are the graph's: completed, and taken up by no task that completed. In full: its last
    tasks.
    """
    taken = {before for needs, result in zip(plan.needs, results, strict=True) if result.ok for before in needs}
    return tuple(result.task_id for index, result in enumerate(results) if result.ok and index not in taken)


class _Going:
    """A graph on its way: what is ready, what has ended, and why the rest is not run."""

    def __init__(self, plan: Plan, run_step: RunStep, execution_id: str, stop: asyncio.Event, backoff_s: float) -> None:
        self._plan, self._run_step, self._execution_id, self._stop, self._backoff_s = (
            plan,
            run_step,
            execution_id,
            stop,
            backoff_s,
        )
        self._graph = build(list(plan.index), plan.nodes)
        self._waits = list(self._graph.waits)
        self._results: dict[str, RunResult] = {}
        self._causes: list[int | None] = [None] * len(
            self._waits
        )  # the first task, in plan order, that keeps a node from running
        self._ready = [
            (-self._graph.urgency[index], index) for index in range(self._graph.size) if not self._waits[index]
        ]
        heapq.heapify(self._ready)
        self._left = self._graph.size  # neither started nor given up
        self._changed = asyncio.Event()

    async def ready(self) -> AsyncGenerator[int, None]:
        """The tasks that may start, when they may; of several, the one with the longest chain behind it."""
        while self._left and not self._stop.is_set():
            if self._ready:
                self._left -= 1
                yield heapq.heappop(self._ready)[1]
            else:
                self._changed.clear()
                await self._changed.wait()

    async def wake_when_stopped(self) -> None:
        await self._stop.wait()
        self._changed.set()

    async def one(self, index: int) -> None:
        if self._stop.is_set():
            return
        task = self._plan.task[index]
        try:
            result = await self._result(task, index)
        except Exception as error:
            result = failed(self._execution_id, task.id, error)
        self._results[task.id] = result
        if not result.ok:
            self._causes[index] = index
        self._ended(index)

    async def _result(self, task: PlanTask, index: int) -> RunResult:
        referred = self._plan.referred[index]
        results = {id_: self._results[id_] for id_ in referred}
        inserted: list[Output] = []
        if sum(len(result.output) for result in results.values()) > BIG:
            put_in = await asyncio.to_thread(filled, task, results, inserted)
        else:
            put_in = filled(task, results, inserted)
        # What the task refers to stands where it refers to it, and is not sent a second time.
        outputs = [
            Output(id_, self._results[id_].output, self._results[id_].structured)
            for id_ in dict.fromkeys(task.depends_on)
            if id_ not in referred
        ]
        step = Step(task.id, self._plan.with_threshold(put_in), dependencies=tuple(outputs), inserted=tuple(inserted))
        return await run_retried(
            step, self._run_step, self._execution_id, retries=task.retries, backoff_s=self._backoff_s, stop=self._stop
        )

    def _ended(self, node: int) -> None:
        """Tell those that wait. What can't run any more has ended with that, and what waits for it is told too."""
        ended = [node]
        while ended:
            for follower in self._graph.followers[ended.pop()]:
                self._waits[follower] -= 1
                if self._waits[follower]:
                    continue
                self._causes[follower] = self._cause(follower)
                if follower >= self._graph.size:
                    ended.append(follower)
                elif self._causes[follower] is None:
                    heapq.heappush(self._ready, (-self._graph.urgency[follower], follower))
                else:
                    self._left -= 1
                    ended.append(follower)
        self._changed.set()

    def _cause(self, node: int) -> int | None:
        return min(
            (cause for before in self._graph.needs[node] if (cause := self._causes[before]) is not None), default=None
        )

    def all_results(self) -> tuple[RunResult, ...]:
        for node in self._graph.order:
            if self._causes[node] is None:
                self._causes[node] = self._cause(node)
        return tuple(
            self._results.get(task.id) or self._not_run(task.id, index) for index, task in enumerate(self._plan.task)
        )

    def _not_run(self, id_: str, index: int) -> RunResult:
        cause = self._causes[index]
        return not_run(self._execution_id, id_, None if cause is None else self._results[self._plan.task[cause].id])
