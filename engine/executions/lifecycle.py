"""The life of an execution, whatever it runs: begun, claimed, recorded, ended or paused or interrupted, released."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from pydantic_core import PydanticSerializationError

from go_ent.composer.project.trust import seal
from go_ent.dataclass import dataclass
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.config import RetentionConfig
from go_ent.engine.core.errors import BadTask, StorageFailed
from go_ent.engine.core.models import RunResult, TaskResult
from go_ent.engine.core.stoppable_run import Stop
from go_ent.engine.executions.kept_files import FileKeeper
from go_ent.engine.executions.owned import NewState, OwnedExecution
from go_ent.engine.executions.retention import Retention
from go_ent.engine.executions.running import Watch
from go_ent.engine.executions.state import ExecutionState, ExecutionStatus, sealed_text, sealed_words
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.tape import Tapes
from go_ent.engine.executions.totals import calls_from, records_from
from go_ent.sandbox import Run
from go_ent.sandbox.host.spans import span

log = logging.getLogger("go_ent.engine")
# The execution that what runs here belongs to.
UNDER_WAY: ContextVar[str | None] = ContextVar("UNDER_WAY", default=None)
MAX_PRINTED = 1 << 20
MAX_TRACEBACK = 8 << 10
PATIENCE_S = 2.0  # that old executions have to be removed, when a process ends


@dataclass(frozen=True, slots=True)
class Ending:
    """How an execution ended, or rests: what is recorded of it, and what its caller gets."""

    status: ExecutionStatus
    result: TaskResult | None = None
    error: str | None = None
    final: bool = False  # it has failed by its own doing: the same again would end the same way
    run: Run | None = None  # of one that is a single run in a guest
    step: RunResult | None = None  # the result of its only step, where that is not on record yet
    raises: Exception | None = None  # what its caller gets instead of a result


@dataclass(slots=True)
class Live:
    """An execution that runs in this process."""

    held: OwnedExecution
    tapes: Tapes
    stop: Stop = field(default_factory=Stop)
    files: FileKeeper = field(init=False)

    def __post_init__(self) -> None:
        self.files = FileKeeper(self.held)

    @property
    def id(self) -> str:
        return self.held.id


class Lifecycle:
    """The one owner of a project's executions, from `begin` to release. Belongs to one event loop.

    What runs in an execution (a guest, agents, lines of a pipeline) is a function that it is given: it returns an
    `Ending`, and knows nothing of claims, journals and locks.
    """

    def __init__(self, store: ExecutionStore, config: RetentionConfig) -> None:
        self.store = store
        self.watch = Watch()
        self._config = config
        self._retention = Retention(store, config)

    async def begin(self, state: ExecutionState | NewState, *, synced: bool) -> OwnedExecution:
        """A new execution, held by this process: on disk when this returns if it must be *synced*, else when that
        matters. Raises `StorageFailed`.
        """
        new = _sealed(state if isinstance(state, NewState) else NewState.of(state))
        if not synced and self._config.sync == "effects":
            return self.store.create(new, sync=False)
        return await to_the_end(self._create, new, undo=OwnedExecution.release)

    def _create(self, new: NewState) -> OwnedExecution:
        try:
            return self.store.create(new)
        except OSError as error:
            raise StorageFailed.begun(error) from None
        except PydanticSerializationError as error:  # a tool's inputs: half a character
            raise BadTask(f"the work can't be put on record, so nothing was run: {error}") from None

    async def carry(
        self, live: Live, steps: Callable[[], Awaitable[Ending]], cancelled: Callable[[], Ending] | None = None
    ) -> Ending:
        """Run an execution that this process holds to its end, put that on record, and release it, whatever happens.

        Cancelling this interrupts it: *cancelled* is the ending then. Raises what the ending says, and `StorageFailed`
        if it can't be recorded.
        """
        UNDER_WAY.set(live.id)
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.watch.add(live.held, live.stop.set, done)
        try:
            with span("execution", execution_id=live.id) as told:
                if told.listened:
                    told.set(work=live.held.state.kind, strategy=live.held.state.strategy)
                try:
                    ending = await steps()
                except asyncio.CancelledError:
                    if cancelled is not None:
                        await self._end(live, cancelled())
                    raise
                told.set(status=ending.status)
                try:
                    await self._end(live, ending)
                except Exception:
                    if ending.raises is None:  # else that is the first thing that went wrong
                        raise
                if ending.raises is not None:
                    raise ending.raises
                return ending
        finally:
            self.watch.remove(live.id)
            done.set_result(None)
            if not live.held.slot.released:
                await asyncio.to_thread(self._let_go, live)

    async def _end(self, live: Live, ending: Ending) -> None:
        """How it ended, on record when this returns; then others may have it."""
        held, tally, run = live.held, live.tapes.tally, ending.run
        size = 0 if run is None else run.usage.result_bytes + len(run.stdout)
        packs = tally is not None and ending.status in ("completed", "failed") and not (run is not None and run.files)
        if tally is not None and packs and held.may_pack(size):
            (failure,) = held.together([lambda: _record(held, ending)], pack=tally.totals)
            if failure is None and not held.slot.released:  # it has turned out too large to be packed
                await asyncio.to_thread(self._let_go, live)
                return
            held.release()
            if isinstance(failure, OSError) and run is not None:  # it did nothing that has to be on record
                run.warning = f"this run is not on record, which can't be written: {failure.strerror or failure}"
                log.warning("execution %s: %s", held.id, run.warning)
            elif failure is not None:
                raise failure
            self._retention.maybe()
            return
        try:
            await to_the_end(self._end_and_let_go, live, ending)
        except OSError as error:
            raise StorageFailed(
                f"how execution {held.id} ended can't be recorded: {error.strerror or error}; it can be resumed"
            ) from None

    def _end_and_let_go(self, live: Live, ending: Ending) -> None:
        if ending.run is not None and ending.run.files and (lost := live.files.keep(ending.run.files)):
            ending.run.warning = lost
            log.warning("execution %s: %s", live.id, lost)
        with self.store.index.together():
            (failure,) = live.held.together([lambda: _record(live.held, ending)])
            if failure is not None:
                raise failure
            self._count(live)
        live.held.release()

    def _let_go(self, live: Live) -> None:
        if live.held.begun:
            self._count(live)
        live.held.release()

    def _count(self, live: Live) -> None:
        """Add up what an execution has come to so far. Calls that were not counted are in its journal. Never fails."""
        try:
            state, tally = live.held.state, live.tapes.tally
            calls = tally.totals if tally is not None else calls_from(live.held.records()) if state.calls else {}
            self.store.index.note(state.id, records_from(state), calls)
            self._retention.maybe()
        except Exception as error:
            log.warning("execution %s is not in the totals: %s", live.id, error)

    async def close(self) -> None:
        """Interrupt what runs, wait until it has ended, and let go of everything."""
        await self.watch.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._retention.wait(PATIENCE_S)
        self.store.close()


def _sealed(new: NewState) -> NewState:
    def fields() -> Mapping[str, Any] | ExecutionState:
        made = new.fields()
        if isinstance(made, ExecutionState):
            return made.model_copy(update={"seal": seal(sealed_text(made))})
        return {**made, "seal": seal(sealed_words(**made))}

    return NewState(new.id, new.status, fields)


def _used(run: Run) -> dict[str, Any]:
    """What a run used, and where it failed: for people who look at it later."""
    used = run.usage
    told: dict[str, Any] = {"cpu_ms": round(used.cpu_ms, 1), "wall_ms": round(used.wall_ms, 1)}
    told |= {"memory_bytes": used.memory_peak_bytes, "stdout_bytes": used.stdout_bytes}
    if run.error is not None and run.error.line is not None:
        told |= {"line": run.error.line, "traceback": (run.error.traceback or "")[:MAX_TRACEBACK]}
        told |= {"values": run.error.values} if run.error.values else {}
    return told


def _record(held: OwnedExecution, ending: Ending) -> None:
    if ending.run is not None and ending.run.stdout and ending.step is not None:
        held.append("printed", {"step": ending.step.task_id, "text": ending.run.stdout[:MAX_PRINTED]})
    if ending.run is not None and ending.step is not None:
        held.append("used", {"step": ending.step.task_id, **_used(ending.run)})
    if ending.step is not None:
        held.finish_step(ending.step.task_id, ending.step)
    held.move(ending.status, result=ending.result, error=ending.error, final=ending.final)
