"""A worker: takes work from the fleet's queues, runs it with an engine of its own, and looks after the work of others
who die.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from go_ent.composer import Composer, ComposerError
from go_ent.composer.project.trust import is_sealed
from go_ent.dataclass import dataclass
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import EngineError, ExecutionConflict, ExecutionNotFound, Untrusted
from go_ent.engine.core.models import RunResult
from go_ent.engine.dispatch.execution_context import ExecutionContext
from go_ent.engine.engine import Engine
from go_ent.engine.executions.lifecycle import UNDER_WAY, Live
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.resume_checks import own_version, unfinished_steps
from go_ent.engine.executions.state import FINISHED, sealed_text
from go_ent.engine.executions.tape import Tapes, Unfinished
from go_ent.engine.fleet import schema
from go_ent.engine.fleet.dbos_adapter import LINES, STEP, Order, Workflows
from go_ent.engine.fleet.execution_storage import PostgresStorage
from go_ent.engine.fleet.images import FleetImages
from go_ent.engine.fleet.opening import open_fleet
from go_ent.engine.fleet.queue import EXECUTION, GUEST, Bell, WorkQueue, queue_name
from go_ent.engine.fleet.records import MOST_REST
from go_ent.engine.fleet.slot import PostgresSlot
from go_ent.engine.fleet.worker.line_chunks import run_chunk
from go_ent.engine.fleet.worker.orders import LinesOrder, StepOrder, read_execution, read_lines, read_number, read_step
from go_ent.engine.fleet.worker.remote_steps import RemoteSteps
from go_ent.engine.guest_runs.needs import configured_names
from go_ent.engine.storages import Storages
from go_ent.sandbox import Run, SandboxError

log = logging.getLogger("go_ent.engine.fleet")
LOOK_S = 0.5  # between two looks at who lives
ORPHANS_S = 5.0  # between two looks at work that somebody took who is no member any more
IDLE_S = 2.0  # between two looks at queues where nothing rings
PLACE_S = 0.1  # that a step may run before others see it and can stop it
FORGET_EVERY_S, FORGET_S = 600.0, 3 * 86400.0  # when workflows that have ended are removed, and which
ASKED_S = 0.1  # between two looks at who is to stop
TOLD = set(Run.model_fields) - {"calls", "files"}  # of a run, to who has sent it; the rest is on record
LOST = 70  # the exit code of a worker that was taken for dead
PLANS = 32  # executions at once: most of them wait for their steps


@dataclass(slots=True)
class Load:
    """What runs of one kind, and how much may."""

    most: int
    running: set[str] = field(default_factory=set)
    ending: set[str] = field(default_factory=set)  # those of them that leave their slot to the next one already

    @property
    def room(self) -> int:
        return self.most - len(self.running - self.ending)


class Worker:
    """One process. `run` returns once it was told to stop and nothing runs any more."""

    def __init__(
        self,
        project: Path,
        config: EngineConfig,
        *,
        labels: Sequence[str] = (),
        slots: int = 4,
        composer: Composer | None = None,
    ) -> None:
        storage, ledger, tools = open_fleet(project, config.fleet)
        schema.check(storage.database)
        self.storage: PostgresStorage = storage
        storage.kind, storage.info = "worker", {"labels": list(labels), "slots": slots, "version": own_version()}
        storages = Storages(storage, ledger, tools, images=FleetImages(storage.database))
        self.engine = Engine(project, config=config, mode="cli", storages=storages, composer=composer)
        if not self.engine.trusted:
            raise Untrusted("a worker", str(project))
        self.queue = WorkQueue(storage.database)
        self.remote = RemoteSteps(self.engine, storage, self.queue)
        self.engine.run_steps_by(self.remote.run)
        self._labels = (None, socket.gethostname(), *labels)  # what is tied to a machine goes there by its name
        self._loads = {EXECUTION: Load(PLANS), STEP: Load(slots)}
        self._steps: dict[str, tuple[OwnedExecution, Live]] = {}
        self._stopping = threading.Event()
        self._forgot = self._counted = time.monotonic()
        self._bell: Bell | None = None
        self._workflows: Workflows | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.name = ""

    # -- the process

    async def run(self, ready: Callable[[str], None] = lambda name: None) -> None:
        """Work until `stop`. *ready* is told the name that others know it by."""
        self._loop = asyncio.get_running_loop()
        names = configured_names(await asyncio.to_thread(self.engine.open_composer))
        self.storage.info["names"] = sorted(name for name in names if os.environ.get(name))
        number, _ = await asyncio.to_thread(self.storage.joined)
        self.name = f"{socket.gethostname()}-{number}"
        await asyncio.to_thread(
            self.storage.database.tell, "update $.members set name = %s where id = %s", (self.name, number)
        )
        assert self.storage.member is not None
        self.storage.member.lost = self._lost
        kinds = {
            EXECUTION: self._threaded(EXECUTION, self._execution),
            GUEST: self._threaded(STEP, self._execution),
            STEP: self._threaded(STEP, self._step),
            LINES: self._threaded(STEP, self._lines),
        }
        self._workflows = await asyncio.to_thread(
            lambda: Workflows(self.storage.database.address, executor=self.name, version=own_version(), kinds=kinds)
        )
        self._bell = Bell(self.storage.database)
        threads = [asyncio.ensure_future(asyncio.to_thread(one)) for one in (self._take_all, self._look_after)]
        watching = asyncio.create_task(self._watch())
        ready(self.name)
        try:
            await asyncio.gather(*threads)
        finally:
            self._stopping.set()
            self._bell.ring()
            watching.cancel()
            await asyncio.wait([watching, *threads])
            await self.engine.close()
            await self.queue.close()
            await asyncio.to_thread(self._bell.close)
            await asyncio.to_thread(self._workflows.close)

    def stop(self) -> None:
        """Take nothing more, and end once nothing runs."""
        self._stopping.set()
        if self._bell is not None:
            self._bell.ring()

    @staticmethod
    def _lost() -> None:
        """The others have taken this process for dead, and have its work. It must not even stop it in an orderly way:
        what it would ask to stop runs elsewhere now.
        """
        log.error("this worker was taken for dead, and its work goes on elsewhere: it ends")
        os._exit(LOST)

    @property
    def busy(self) -> int:
        return sum(len(load.running) for load in self._loads.values())

    # -- taking work

    def _take_all(self) -> None:
        """A thread: takes what there is room for, at once when the bell rings."""
        assert self._bell is not None
        while not (self._stopping.is_set() and not self.busy):
            if not self._stopping.is_set():
                try:
                    self._take_some()
                except Exception as error:  # the server is away: it is waited for
                    log.warning("nothing can be taken: %s", str(error).splitlines()[0][:200])
                    time.sleep(0.5)
            self._bell.wait(IDLE_S if not self._stopping.is_set() else 0.1)

    def _take_some(self) -> None:
        assert self._workflows is not None
        mine = self._queues()
        found = self.queue.with_work([queue for queue, _ in mine]) if mine else set()
        if found.difference(queue for queue, _ in mine):
            self.queue.needing.look_again()
            mine = self._queues()
        for queue, load in mine:
            if queue in found and load.room > 0:
                self._workflows.take(queue, load.room, self._set_aside)

    def _queues(self) -> list[tuple[str, Load]]:
        """Those that this worker takes from, where it has room. Lines and guests are in the queue of steps."""
        return [
            (queue, load)
            for kind, load in self._loads.items()
            if load.room > 0
            for queue in (
                *(queue_name(kind, label) for label in self._labels),
                *self.queue.needing.for_worker(kind, self._labels),
            )
        ]

    def _set_aside(self, workflow: str) -> None:
        """A workflow whose workers died again and again. A step's is told by its execution."""
        log.warning("%s is set aside: its workers died again and again", workflow)
        if "/" in workflow:
            return
        execution_id = workflow.partition("@")[0]
        try:
            with self.engine.store.hold(execution_id) as held:
                if held.state.status == "running":
                    held.move("failed", error="its workers died again and again: it is set aside; resume tries again")
        except (EngineError, OSError) as error:
            log.warning("%s could not be told so: %s", execution_id, error)

    def _threaded(self, kind: str, work: Callable[[str, Order], Awaitable[Order]]) -> Callable[[str, Order], Order]:
        """A workflow as DBOS calls it, in a thread of its own: the work is done in the engine's loop."""
        load = self._loads[kind]

        def body(workflow: str, order: Order) -> Order:
            assert self._loop is not None
            assert self._bell is not None
            load.running.add(workflow)
            try:
                future: concurrent.futures.Future[Order] = asyncio.run_coroutine_threadsafe(
                    _awaited(work(workflow, order)), self._loop
                )
                return future.result()
            finally:
                load.running.discard(workflow)
                load.ending.discard(workflow)
                self._bell.ring()

        return body

    # -- what is done

    async def _execution(self, workflow: str, order: Order) -> Order:
        read = read_execution(workflow, order)
        state = await asyncio.to_thread(self.storage.load, read.id)
        if state.status in FINISHED:
            return {"status": state.status}
        if not await asyncio.to_thread(self.storage.is_due, read.id, read_number(workflow)):
            return {"status": "interrupted"}  # somebody has stopped it while it waited
        if not is_sealed(sealed_text(state), state.seal):
            return {"status": state.status, "error": "it was not begun by anybody with the fleet's key"}
        self.remote.labels[read.id] = read.label
        options = {**read.options}
        if "unfinished" in options:
            options["unfinished"] = Unfinished(**options["unfinished"])
        told: Order = {}
        try:
            resumed = await self.engine.go_on(read.id, **options)
            if resumed.run is not None:
                told["run"] = resumed.run.model_dump(mode="json", include=TOLD)
        except (EngineError, ComposerError, SandboxError) as error:
            log.warning("execution %s can't go on here: %s", read.id, error)
            return {"status": "interrupted", "error": str(error)[:2000]}
        finally:
            self.remote.forget(read.id)
        status = (await asyncio.to_thread(self.storage.load, read.id)).status
        if status in FINISHED:  # what workers that died have left of its steps' records is in its own
            await asyncio.to_thread(self.storage.drop_steps, read.id)
        return {"status": status, **told}

    async def _step(self, workflow: str, order: Order) -> Order:
        read = read_step(workflow, order)
        UNDER_WAY.set(read.state.id)
        held = await asyncio.to_thread(self._opened, read)
        try:
            run = ExecutionContext(
                held,
                await asyncio.to_thread(lambda: Tapes(held, replay=True)),
                limit=read.limit,
                may_start=read.may_start,
                adjustments=read.adjustments,
                # What code came to is found out again from its calls; what a model said is not.
                ends_elsewhere=not read.task.needs_model,
            )
            self._steps[workflow] = held, run
            result = self._unknown(read, run) or await self.engine.dispatcher.run(read.as_step(), run)
            await run.flush()
            if run.broken is not None:
                raise ExecutionConflict(run.broken)
            return {"result": result.model_dump(mode="json"), **await asyncio.to_thread(_rest, held)}
        finally:
            self._steps.pop(workflow, None)
            await asyncio.to_thread(_let_go, held)

    async def _lines(self, workflow: str, order: Order) -> Order:
        read = read_lines(workflow, order)
        UNDER_WAY.set(read.state.id)
        held = await asyncio.to_thread(self._opened, read)
        try:
            live = Live(held, await asyncio.to_thread(lambda: Tapes(held, replay=True)))
            self._steps[workflow] = held, live
            await run_chunk(self.engine, read, live, lambda: self._ends(workflow))
            return await asyncio.to_thread(_rest, held, placed=True)
        finally:
            self._steps.pop(workflow, None)
            await asyncio.to_thread(_let_go, held)

    def _ends(self, workflow: str) -> None:
        """The last of its lines have begun: the next chunk is taken while they end and are recorded."""
        assert self._bell is not None
        self._loads[STEP].ending.add(workflow)
        self._bell.ring()

    def _opened(self, order: StepOrder | LinesOrder) -> OwnedExecution:
        """The record of a step: as far as another worker came, or a new one. Blocks."""
        try:
            return self.engine.store.hold(order.slot)
        except ExecutionNotFound:
            pass
        slot = self.storage.create(order.slot)
        held = OwnedExecution(slot, order.state, self.storage.index)
        held.append("created", {}, raw={"state": order.state.model_dump_json().encode()})
        return held  # it is on record with its first call, or soon: see `_watch`

    def _unknown(self, order: StepOrder, run: ExecutionContext) -> RunResult | None:
        """A step that was begun elsewhere, where nobody knows whether something was done: people are asked."""
        calls = [call.tool for _, call in run.tapes.undecided()]
        steps = unfinished_steps(run.held.state, order.task, self.engine.config)
        if not calls and not steps:
            return None
        what = f"calls of {', '.join(calls[:3])}" if calls else "it"
        return RunResult(
            execution_id=order.state.id,
            task_id=order.step,
            status="interrupted",
            error=f"its worker died, and nobody knows whether {what} had been done: resume with --unfinished",
        )

    # -- looking after others

    async def _watch(self) -> None:
        """Tell steps to stop that somebody wants stopped: one look for all of them."""
        while True:
            await asyncio.sleep(ASKED_S)
            if self._steps:
                for run in await asyncio.to_thread(_asked_to_stop, list(self._steps.values())):
                    run.stop.set()

    def _look_after(self) -> None:
        """A thread: what the dead had goes on with who lives; a worker that is being drained stops."""
        while not (self._stopping.is_set() and not self.busy):
            try:
                self._look()
            except Exception as error:
                log.warning("who lives can't be looked at: %s", str(error).splitlines()[0][:200])
            time.sleep(LOOK_S)

    def _look(self) -> None:
        assert self._workflows is not None
        seen = self.storage.members.bury()
        dead = [one for one in seen if one.dead]
        names = [one.name for one in dead if one.kind == "worker"]
        if time.monotonic() - self._counted > ORPHANS_S:
            self._counted = time.monotonic()
            names += self.queue.left()  # one that was dead and woke up may have taken something before it knew
        if names:
            taken = self._workflows.recover(names)
            log.warning("%s died: %d pieces of work go on elsewhere", ", ".join(names), taken)
        if dead:
            self.storage.members.forget([one.id for one in dead])
        if time.monotonic() - self._forgot > FORGET_EVERY_S:
            self._forgot = time.monotonic()
            self.queue.forget(FORGET_S)
        if any(one.draining for one in seen if one.name == self.name):
            self.stop()


def _asked_to_stop(steps: list[tuple[OwnedExecution, Live]]) -> list[Live]:
    """Those that somebody wants stopped. What has run for a while is on record from now on. Blocks."""
    asked = []
    for held, run in steps:
        try:
            assert isinstance(held.slot, PostgresSlot)
            if held.is_due(PLACE_S):
                held.catch_up()
                held.slot.place_soon(held.state)
            if held.interrupt_requested():
                asked.append(run)
        except OSError as error:
            log.warning("what is asked of %s can't be looked at: %s", held.slot.where, error)
    return asked


def _let_go(held: OwnedExecution) -> None:
    """Its record is there for the worker that has the execution, also if nothing of it had to be."""
    assert isinstance(held.slot, PostgresSlot)
    with contextlib.suppress(OSError):  # others have it
        held.catch_up()
        held.slot.leave(held.state)


def _rest(held: OwnedExecution, *, placed: bool = False) -> Order:
    """Let go of a record, and tell the last of it, so that this is written once, with the end. What has to be *placed*
    is found by who looks for records. Blocks.
    """
    assert isinstance(held.slot, PostgresSlot)
    if placed:
        held.place()
    held.catch_up()
    rest = held.slot.leave(held.state, MOST_REST)
    if held.slot.lost:
        raise ExecutionConflict(f"{held.slot.where} was taken over by another process")
    return {"rest": rest.decode()} if rest else {}


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work
