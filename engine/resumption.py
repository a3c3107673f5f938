"""What an execution needs before it goes on: it is ours, nothing it stands on has changed, its processes have ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from go_ent.composer import Composer
from go_ent.dataclass import dataclass
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.core.ids import short_id
from go_ent.engine.core.models import Task, TaskResult
from go_ent.engine.dispatch.dispatcher import Dispatcher
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.resume_checks import (
    Changed,
    ResumeOptions,
    changes,
    damages,
    go_back,
    refuse,
    unfinished_calls,
    unfinished_steps,
    version_changes,
)
from go_ent.engine.executions.resume_checks import environment as environment_of
from go_ent.engine.executions.state import FINISHED, Environment, ExecutionState, digest_of
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.tape import Policy, Tapes
from go_ent.engine.guest_runs.runs import make_tapes
from go_ent.engine.processes.trees import reap, reap_now
from go_ent.engine.runners.registry import Registry
from go_ent.engine.strategies import Plan
from go_ent.engine.strategies.work import Work, as_plan, unpack
from go_ent.sandbox import Run
from go_ent.sandbox.children.proc import OWNER

MOST_REAPED = 100  # tries of a step whose processes are looked for


@dataclass(frozen=True, slots=True)
class ReadyTask:
    """A task's execution that may go on: its work, what its guests recorded, what was decided, what has changed."""

    tapes: Tapes
    work: Work
    concurrency: int | None
    decided: dict[str, Policy]
    changes: list[Changed]


@dataclass(frozen=True, slots=True)
class Resumed:
    """What an execution came to that went on: its result; the run, if it was one in a guest; what had changed since it
    was begun.
    """

    result: TaskResult
    run: Run | None = None
    changes: tuple[Changed, ...] = ()


@contextlib.contextmanager
def released_unless_begun(held: OwnedExecution) -> Iterator[None]:
    """An execution that can't go on here is let go, for others."""
    try:
        yield
    except BaseException:
        held.release()
        raise


class Resumption:
    """Of one engine. *check_owner* refuses an execution that is somebody else's; it blocks."""

    def __init__(
        self,
        project: Path,
        config: EngineConfig,
        store: ExecutionStore,
        dispatcher: Dispatcher,
        registry: Registry,
        open_composer: Callable[[], Composer],
        check_owner: Callable[[ExecutionState], None],
    ) -> None:
        self._project = project
        self._config = config
        self._store = store
        self._dispatcher = dispatcher
        self._registry = registry
        self._open_composer = open_composer
        self._check_owner = check_owner

    async def take(self, execution_id: str, options: ResumeOptions) -> tuple[OwnedExecution, list[Changed]]:
        """An execution that is to go on, held by this process: its own work, begun by this user or in a trusted folder.

        From a checkpoint: and what is done again.
        """
        execution_id = await asyncio.to_thread(self._store.find, execution_id)
        checkpoint = options.from_checkpoint
        held = await to_the_end(self._store.hold, execution_id, undo=OwnedExecution.release)
        try:
            state = held.state
            if state.status in FINISHED and (checkpoint is None or state.status == "cancelled"):
                raise ExecutionConflict(f"execution {short_id(execution_id)} has finished: it is {state.status}")
            if digest_of(state.work) != state.work_digest:
                raise ExecutionConflict(f"execution {execution_id} can't be resumed: its work is not what it was")
            await asyncio.to_thread(self._check_owner, state)
            if held.slot.before is not None:  # the servers that a killed process had started may still be at its calls
                await asyncio.to_thread(partial(reap_now, held.slot.before, variable=OWNER))
            if state.status == "running":
                await asyncio.to_thread(held.move, "interrupted")
            back = []
            if checkpoint is not None:
                work = None if "guest" in state.work else unpack(state.work)[0]
                going = partial(go_back, held, checkpoint, work, self._config, anyway=options.anyway)
                back = await asyncio.to_thread(going)
        except BaseException:
            held.release()
            raise
        return held, back

    async def task(self, held: OwnedExecution, options: ResumeOptions) -> ReadyTask:
        """What a task goes on with. Raises where it can't, or not before somebody has decided."""
        state = held.state
        work, concurrency = unpack(state.work)
        plan = as_plan(work)
        for task in plan if isinstance(plan, tuple) else plan.task:
            self._dispatcher.check(task, may_start=options.may_start)
        refuse(state, damages(state), anyway=options.anyway)
        tapes = await asyncio.to_thread(make_tapes, held, options.unfinished)
        runners = {
            name: (await self._registry.available(name)).version or ""
            for name in state.environment.runners
            if name in self._registry.names
        }
        now = await asyncio.to_thread(self.environment, plan, runners)
        open_steps = unfinished_steps(state, work, self._config)
        decided = {step: policy for step in open_steps if (policy := options.unfinished.of(step)) is not None}
        changed = changes(state, now) + await version_changes(self._open_composer, tapes, work)
        changed += unfinished_calls(tapes) + [open_steps[step] for step in open_steps if step not in decided]
        refuse(state, changed, anyway=options.anyway)
        for step, policy in decided.items():
            held.append("unfinished", {"step": step, "decided": policy})
        await self._reap(state)
        return ReadyTask(tapes, work, concurrency, decided, changed)

    @staticmethod
    async def _reap(state: ExecutionState) -> None:
        """End what is left of steps that have not succeeded: a child of a process that was killed may live on."""
        for step, tries in state.tries.items():
            if step not in state.results or not state.results[step].ok:
                for number in range(max(1, tries - MOST_REAPED), tries + 1):
                    await reap(f"{state.id}/{step}/{number}")

    def environment(self, plan: tuple[Task, ...] | Plan, runners: dict[str, str] | None = None) -> Environment:
        """What runs an execution; with the image, if any of it runs in a guest."""
        tasks = plan if isinstance(plan, tuple) else plan.task
        box = self._open_composer().box if any(task.tool or task.code for task in tasks) else None
        return environment_of(self._project, box, runners)
