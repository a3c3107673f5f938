"""The engine: the one door of the package. Tasks, chains and graphs on any runtime, within a budget, on record."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack, cast

from go_ent.composer import Approver, Composer
from go_ent.composer.project.files import find_project, user_data
from go_ent.composer.project.trust import is_sealed, is_trusted
from go_ent.engine.budget import Ask, Budget, BudgetReport, Prices, Spent, tighter
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.keeper import Keeper
from go_ent.engine.context.models import Purse, SummaryLink
from go_ent.engine.core.config import EngineConfig, Mode, read_engine_config
from go_ent.engine.core.errors import (
    BadTask,
    ExecutionConflict,
    ExecutionNotFound,
    NeedsApproval,
    Untrusted,
)
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import BudgetLimit, Event, ModelOptions, ModelReply, Task, TaskResult
from go_ent.engine.dispatch.dispatcher import Dispatcher
from go_ent.engine.dispatch.execution import RunOfStep, WorkSteps, with_steps
from go_ent.engine.dispatch.execution_context import ExecutionContext
from go_ent.engine.dispatch.model_calls import Asking
from go_ent.engine.executions.interrupting import interrupt_there
from go_ent.engine.executions.lifecycle import Lifecycle
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.past_runs import past_runs
from go_ent.engine.executions.resume_checks import Changed, ResumeOptions
from go_ent.engine.executions.state import ExecutionState, digest_of, sealed_text
from go_ent.engine.executions.storage import Row
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.tape import Tapes
from go_ent.engine.guest_runs.batch import Batch
from go_ent.engine.guest_runs.elsewhere import Elsewhere, run_sent
from go_ent.engine.guest_runs.engine_tools import EngineSource, offer_summaries
from go_ent.engine.guest_runs.runs import Guests, guest_order
from go_ent.engine.processes.trees import TAG
from go_ent.engine.prompts import Prompt, Prompts, roles
from go_ent.engine.prompts.templating import Templates
from go_ent.engine.records import Records
from go_ent.engine.resumption import Resumed, Resumption, released_unless_begun
from go_ent.engine.runners.base.runner import Availability, Runner
from go_ent.engine.runners.base.surroundings import Surroundings
from go_ent.engine.runners.registry import Registry
from go_ent.engine.start_options import StartOptions
from go_ent.engine.storages import Storages, open_storages
from go_ent.engine.strategies.work import Chosen, Work, as_plan, choose_for, kind_of, limit_of, pack, title_of
from go_ent.engine.summaries import Summaries
from go_ent.sandbox import Run as SandboxRun
from go_ent.sandbox.messages.advice import Advice
from go_ent.waiting import first_of

MOST_AT_ONCE = 256
TOKENIZERS = "tokenizers.json"  # what models count for a token of ours


class _Running(NamedTuple):
    run: ExecutionContext
    task: asyncio.Task[TaskResult]


class Engine:
    """Runs work for one project: tasks, lists and plans, with agents, commands and the sandbox, all on record.

    Ownership: use it as an async context manager, or await `close`, which interrupts what runs; interrupted executions
    can be resumed. It owns the programs it starts, and the composer unless one was passed in.

    Threads: it belongs to one event loop; `BlockingEngine` is for everything else. Several engines, also in several
    processes, may share a project: budget and executions are locked on disk.

    Errors: work that fails is a `TaskResult` with a status, never an exception. An `EngineError` means that the work
    could not be started or recorded: `BadTask`, `Untrusted`, `NeedsApproval`, `ExecutionNotFound`,
    `ExecutionConflict`, `StorageFailed`. Making an engine raises `ConfigError` for settings that can't be used.
    """

    def __init__(
        self,
        project: Path,
        *,
        config: EngineConfig | None = None,
        mode: Mode | None = None,
        ask: Ask | None = None,
        runners: Mapping[str, Runner] | None = None,
        composer: Composer | None = None,
        environment: Mapping[str, str] | None = None,
        trusted: bool | None = None,
        approver: Approver | None = None,
        storages: Storages | None = None,
    ) -> None:
        """*ask* decides about work that does not fit the budget, *approver* about tool calls that need approval.
        *runners* are additional runtimes, by name. *trusted* overrides `go-ent trust`. *storages* keep what it does;
        without any, those that the configuration asks for.
        """
        if not project.is_dir():
            raise BadTask(f"{project} is no folder")
        self.project = project
        self.config = config if config is not None else read_engine_config(project)
        self.trusted = is_trusted(project) if trusted is None else trusted
        # A folder that nobody trusts has no say in how strictly its own budget is kept.
        self.mode: Mode = (self.config.engine.mode if self.trusted else None) or mode or "library"
        self._approver = approver
        self.prices = Prices(self.config.prices)
        kept = open_storages(project, self.config.fleet, trusted=self.trusted) if storages is None else storages
        self.store, self._for_composer = ExecutionStore(kept.executions), kept.for_composer
        self.records = Records(self.store)
        self.elsewhere = kept.elsewhere
        limits = {name: one.budget for name, one in self.config.serve.clients.items() if one.budget is not None}
        self._budget = Budget(
            project, self.config.budget, self.prices, mode=self.mode, ask=ask, clients=limits, ledger=kept.ledger
        )
        self._composer = composer
        self._own_composer = composer is None
        self._opening = threading.Lock()
        # An agent that was started by an engine starts no agents, and neither does a folder that nobody trusts.
        self._for_guests = [EngineSource(self)] if self.trusted and TAG not in os.environ else []
        if composer is not None:
            composer.past_runs = partial(past_runs, self.store)
            for source in self._for_guests:
                composer.catalogue.add(source)
            offer_summaries(self, composer)
        variables = dict(os.environ if environment is None else environment)
        surroundings = Surroundings(project, self.config, self.open_composer, self.trusted, variables)
        self.registry = Registry(surroundings, runners)
        self.roles = roles(self.config if self.trusted else EngineConfig())
        self.prompts = Prompts(project, trusted=self.trusted)
        counter = Counter.remembered(user_data() / TOKENIZERS)
        self.keeper = Keeper(self.config.context, counter, lambda purse, model: self.asking.summarizers(purse, model))
        self.dispatcher = Dispatcher(
            project,
            self.config,
            self.registry,
            self.prompts,
            self.roles,
            self._budget,
            keeper=self.keeper,
            trusted=self.trusted,
        )
        self.asking: Asking = Asking(
            project,
            self.config,
            self.registry,
            self._budget,
            self.prices,
            Templates(project, trusted=self.trusted),
            self.keeper.counter,
            self.dispatcher.check_runtime,
            self._client_of,
            self.keeper.window_of,
            trusted=self.trusted,
        )
        self.listeners: list[Callable[[Event], None]] = []  # told of everything that happens in this engine
        self.stopping = asyncio.Event()  # set by `stop_all`: for what runs several executions, one after the other
        self._running: dict[str, _Running] = {}
        self.lifecycle = Lifecycle(self.store, self.config.executions)
        self._watch = self.lifecycle.watch
        self.guests = Guests(self.lifecycle, self.open_composer)
        self.guests.elsewhere = self.elsewhere
        self._resumption = Resumption(
            project,
            self.config,
            self.store,
            self.dispatcher,
            self.registry,
            self.open_composer,
            self._check_owner,
        )
        self._summaries = Summaries(self.store, self.keeper, self._watch, self._check_owner)
        self._steps = WorkSteps(self.dispatcher, self.config, self.lifecycle)

    @classmethod
    def open(cls, folder: Path | str = ".", **options: Any) -> Self:
        """The engine of the project that *folder* is in."""
        return cls(find_project(folder), **options)

    def open_composer(self) -> Composer:
        """The composer of its project: the one that it was given, or its own, opened when it is first needed."""
        with self._opening:
            if self._composer is None:
                how: dict[str, Any] = {"sources": self._for_guests, "approver": self._approver}
                self._composer = Composer(self.project, trusted=self.trusted, **how, **self._for_composer)
                self._composer.past_runs = partial(past_runs, self.store)
                offer_summaries(self, self._composer)
        return self._composer

    async def close(self) -> None:
        """Interrupt what runs, record what it has done, and free everything."""
        self.stopping.set()
        await self.lifecycle.close()
        await self.registry.close()
        if self.elsewhere is not None:
            await self.elsewhere.close()
        with contextlib.suppress(OSError):  # it will be learnt again
            await asyncio.to_thread(self.keeper.counter.remember, user_data() / TOKENIZERS)
        if self._own_composer and self._composer is not None:
            await self._composer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- running

    def check(self, task: Task, *, may_start: bool = True) -> None:
        """Check whether a task could run. Raises `BadTask`, `NeedsApproval` or `Untrusted`."""
        self.dispatcher.check(task, may_start=may_start)

    async def execute(self, work: Work, **options: Unpack[StartOptions]) -> TaskResult:
        """Run the work and return its result. Cancelling this interrupts the execution, which can be resumed.

        *work* is a task, a list of tasks in order, or a plan; see `StartOptions` for the rest. A failure is a result
        with a status. Raises what `start` raises.
        """
        return await self.wait(await self.start(work, **options))

    async def start(self, work: Work, **options: Unpack[StartOptions]) -> str:
        """Start the work and return its id at once; then `wait` for it, or ask for its `status`.

        Everything is checked first. Raises `BadTask` for work that can't run, `NeedsApproval` or `Untrusted` for a
        program that may not be started, and `StorageFailed` if the execution can't be recorded; nothing runs then.
        """
        plan = as_plan(work)
        parent, client, concurrency = options.get("parent"), options.get("client", ""), options.get("concurrency")
        if parent is not None and not client:  # what a guest's code has begun is its own client's
            client = await self._client_of(parent)
            self._check_client(client)
        if concurrency is not None and not (isinstance(concurrency, int) and 1 <= concurrency <= MOST_AT_ONCE):
            raise BadTask(f"concurrency must be a number from 1 to {MOST_AT_ONCE}, not {concurrency!r:.40}")
        chosen = choose_for(work, self.config.engine.strategy)
        for task in plan if isinstance(plan, tuple) else plan.task:
            self.check(task, may_start=options.get("may_start", True))
        elsewhere = None if options.get("here") else self.elsewhere
        now = time.time()
        packed = pack(work, concurrency, options.get("plan_file"))
        state = ExecutionState(
            id=new_id(),
            parent=parent,
            parent_call=options.get("parent_call"),
            client=client,
            kind=kind_of(work, chosen),
            title=title_of(work),
            strategy=chosen.strategy,
            strategy_reason=chosen.reason,
            work=packed,
            work_digest=digest_of(packed),
            adjustments=tuple(options.get("adjustments", ())),
            results=dict(options.get("finished", {})),
            environment=await asyncio.to_thread(self._resumption.environment, () if elsewhere else plan),
            created=now,
            updated=now,
        )
        if elsewhere is not None:
            return await elsewhere.send(self.lifecycle, state, options.get("label"), options.get("on_event"))
        held = await self.lifecycle.begin(state, synced=True)
        self._begin(held, Tapes(held, replay=False), work, chosen, options)
        return state.id

    async def wait(self, execution_id: str) -> TaskResult:
        """The result of an execution. Cancelling this interrupts it.

        Raises `ExecutionNotFound`, and `ExecutionConflict` for one that another engine runs or that has no result.
        """
        running = self._running.get(execution_id)
        if running is None:
            if self.elsewhere is not None and self.elsewhere.has_sent(execution_id):
                await self._wait_elsewhere(self.elsewhere, execution_id)
            state = await self.status(execution_id)
            if state.result is None:
                raise ExecutionConflict(f"execution {execution_id} is not run by this engine: it is {state.status}")
            return with_steps(state, state.result)
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            running.run.stop.set()
            await asyncio.wait([running.task])
            raise

    async def _wait_elsewhere(self, elsewhere: Elsewhere, execution_id: str) -> None:
        try:
            await elsewhere.over(execution_id)
        except asyncio.CancelledError:
            await self.interrupt(execution_id)
            raise

    def run_steps_by(self, run_step: RunOfStep) -> None:
        """Have the steps of executions run by something else than this engine's dispatcher."""
        self._steps.run_step = run_step

    async def stream(self, work: Work, **options: Any) -> AsyncIterator[Event]:
        """The events of an execution as they happen; the last is its `result`. Ending this early interrupts it."""
        events: asyncio.Queue[Event] = asyncio.Queue()
        execution_id = await self.start(work, on_event=events.put_nowait, **options)
        running = self._running.get(execution_id)
        try:
            while True:
                heard = asyncio.ensure_future(events.get())
                try:
                    await first_of(heard, *((running.task,) if running is not None and events.empty() else ()))
                    event = heard.result() if heard.done() else None
                finally:
                    heard.cancel()
                if event is None:  # it ended without a result: whatever was wrong is raised
                    assert running is not None
                    await running.task
                    return
                yield event
                if event.kind == "result":
                    return
        finally:
            if running is not None and not running.task.done():
                running.run.stop.set()
                await asyncio.wait([running.task])

    async def resume(self, execution_id: str, **options: Any) -> TaskResult:
        """Resume an execution that was interrupted, has failed, or lost its process. What is finished is not run
        again. The *options* are those of `ResumeOptions`, and of `StartOptions` *on_event*, *ask*, *here* and *label*.
        """
        return (await self.go_on(execution_id, **options)).result

    async def resume_run(self, execution_id: str, **options: Any) -> tuple[SandboxRun, list[Changed]]:
        """`resume`, of a run of code or of a composed tool: the run itself, and what has changed since it was begun. In
        a fleet it goes on here, unless a *label* says where.
        """
        state = await self.status(execution_id)
        if guest_order(state) is None:
            raise ExecutionConflict(f"execution {state.id} is no run of code or of a tool: it is a {state.kind}")
        resumed = await self.go_on(state.id, here=options.get("label") is None, **options)
        assert resumed.run is not None
        return resumed.run, list(resumed.changes)

    async def go_on(
        self,
        execution_id: str,
        *,
        on_event: Callable[[Event], None] | None = None,
        ask: Ask | None = None,
        here: bool = False,
        label: str | None = None,
        **options: Any,
    ) -> Resumed:
        """`resume`, with all that is known afterwards, whatever the execution is. One over many lines needs them again:
        that is `resume_batch`.
        """
        chosen = ResumeOptions(**options)
        if self.elsewhere is not None and not here:
            return await self._go_on_elsewhere(self.elsewhere, execution_id, label, chosen, on_event)
        held, back = await self._resumption.take(execution_id, chosen)
        with released_unless_begun(held):
            order = guest_order(held.state)
            if order is not None and order.each:
                raise ExecutionConflict(
                    f"execution {held.id} runs a tool for each line of its input, and needs the same lines again",
                    advice=Advice("resume", held.id, "lines"),
                )
            if order is not None:
                guest = await self.guests.ready(held, chosen, self.dispatcher.grants_of(held.state.client))
                await asyncio.to_thread(held.move, "running", error=None, result=None)
            else:
                ready = await self._resumption.task(held, chosen)
                strategy = Chosen(held.state.strategy, held.state.strategy_reason)
                start: StartOptions = {
                    "concurrency": ready.concurrency,
                    "may_start": chosen.may_start,
                    "on_event": on_event,
                    "ask": ask,
                }
                run = self._begin(held, ready.tapes, ready.work, strategy, start)
                run.decided = ready.decided
                for change in back + ready.changes:
                    run.say("warning", text=change.text)
        if order is None:
            return Resumed(await self.wait(held.id), changes=(*back, *ready.changes))
        ending = await self.guests.carry(held, guest, self._approver)
        assert ending.result is not None
        return Resumed(with_steps(held.state, ending.result), ending.run, (*back, *guest.changes))

    async def _go_on_elsewhere(
        self,
        elsewhere: Elsewhere,
        execution_id: str,
        label: str | None,
        options: ResumeOptions,
        on_event: Callable[[Event], None] | None,
    ) -> Resumed:
        state = await self.status(execution_id)
        is_guest = guest_order(state) is not None
        await elsewhere.send_again(state.id, label, asdict(options), on_event, guest=is_guest)
        run = await run_sent(elsewhere, self.store, state.id) if is_guest else None
        return Resumed(await self.wait(state.id), run)

    async def resume_batch(self, execution_id: str, **options: Any) -> tuple[Batch, list[Changed]]:
        """A tool over many lines, to be given the same lines again; what has changed since it was begun. In a fleet
        others run them, unless they are to run *here*.
        """
        elsewhere = None if options.pop("here", False) else self.elsewhere
        label, chosen = options.pop("label", None), ResumeOptions(**options)
        held, back = await self._resumption.take(execution_id, chosen)
        with released_unless_begun(held):
            if self.elsewhere is not None:
                await self.elsewhere.gather(held)
            ready = await self.guests.ready(held, chosen, None)
            send = None if elsewhere is None else partial(elsewhere.lines, label=label)
            return await Batch.go_on(self.guests, held, ready, send), back + list(ready.changes)

    async def _client_of(self, execution_id: str) -> str:
        """Who began an execution; "": the project's own user."""
        running = self._watch.get(execution_id)
        if running is not None:
            return running.held.state.client
        try:
            return (await asyncio.to_thread(self.store.load, execution_id)).client
        except ExecutionNotFound:
            return ""

    def _check_client(self, client: str) -> None:
        """Refuse what a client's code would start by way of `tools.engine`, where the client itself may not."""
        rights = self.config.serve.clients.get(client)
        if client and (rights is None or not rights.engine):
            raise NeedsApproval(
                f"the client {client} may start no agents: that takes engine = true in [serve.clients.{client}]"
            )

    def _check_owner(self, state: ExecutionState) -> None:
        """Refuse what somebody else has begun, in a folder that nobody trusts. Blocks."""
        if not self.trusted and not is_sealed(sealed_text(state), state.seal):
            raise Untrusted(f"execution {state.id}, which somebody else has begun,", str(self.project))

    async def decide(
        self, execution_id: str, call: str | None = None, *, approved: bool, digest: str | None = None, why: str = ""
    ) -> ExecutionState:
        """Approve or reject one waiting call of an execution, or all of them; then `resume` it.

        With a *digest* the decision is about a call with those very arguments, and about no other. *why* is kept.
        """

        def check(state: ExecutionState) -> None:
            self._check_owner(state)
            if digest is not None and (call not in state.requests or state.requests[call].digest != digest):
                raise ExecutionConflict(f"call {call} of execution {state.id} has changed: nothing was decided")

        execution_id = await self._find(execution_id)
        return await asyncio.to_thread(self.store.decide, execution_id, call, approved, check, why)

    async def checkpoint(self, execution_id: str, label: str, value: Any = None) -> ExecutionState:
        """Add a checkpoint to an execution, here or in the process that runs it."""
        return await self._marked("checkpoint", execution_id, label, value)

    async def remove_checkpoint(self, execution_id: str, checkpoint: str) -> ExecutionState:
        """Remove a checkpoint by its label or number, here or in the process that runs the execution."""
        return await self._marked("remove_checkpoint", execution_id, checkpoint)

    async def _marked(self, change: str, execution_id: str, *given: Any) -> ExecutionState:
        execution_id = await self._find(execution_id)
        if (running := self._watch.get(execution_id)) is None:
            return cast(ExecutionState, await asyncio.to_thread(getattr(self.store, change), execution_id, *given))
        await asyncio.to_thread(getattr(running.held, change), *given)
        return running.held.state

    def _begin(
        self, held: OwnedExecution, tapes: Tapes, work: Work, chosen: Chosen, options: StartOptions
    ) -> ExecutionContext:
        run = ExecutionContext(
            held,
            tapes,
            listeners=self.listeners,
            on_event=options.get("on_event"),
            limit=tighter(limit_of(work), self.config.budget.execution),
            may_start=options.get("may_start", True),
            ask=options.get("ask"),
            adjustments=held.state.adjustments,
        )
        task = asyncio.create_task(self._carry(run, work, chosen, options.get("concurrency")))
        self._running[held.id] = _Running(run, task)
        self._watch.add(held, run.stop.set, task)  # also before its first turn
        return run

    async def _carry(self, run: ExecutionContext, work: Work, chosen: Chosen, concurrency: int | None) -> TaskResult:
        try:
            return await self._steps.carry(run, work, chosen, concurrency)
        finally:
            self._running.pop(run.id, None)

    def stop_all(self) -> int:
        """Ask everything that runs here to stop, and return how many that is. Finished work is kept."""
        self.stopping.set()
        return self._watch.stop_all()

    # -- looking

    async def _find(self, execution_id: str) -> str:
        """The id that was meant. What runs here may be nowhere else yet."""
        here = self._watch.named(execution_id)
        return here if here is not None else await asyncio.to_thread(self.store.find, execution_id)

    async def status(self, execution_id: str) -> ExecutionState:
        """The state of an execution, by its id, its short id or its start. Raises `ExecutionNotFound`."""
        execution_id = await self._find(execution_id)
        running = self._watch.get(execution_id)
        if running is not None:
            return running.held.state
        return await asyncio.to_thread(self.store.load, execution_id)

    async def executions(self, *, limit: int = 50, **filters: Any) -> list[Row]:
        """The newest executions first; *filters* are status, kind, parent, since and before."""
        return await asyncio.to_thread(partial(self.store.rows, limit=limit, **filters))

    async def interrupt(self, execution_id: str, *, cancel: bool = False) -> ExecutionState:
        """Stop an execution, here or in another process, and return its state once it has stopped. It can be resumed.

        With *cancel* nobody goes on with it: it is given up, also if it has stopped before.
        """
        if not cancel:
            return await self._interrupt(execution_id)
        state = await self.status(execution_id)
        if state.status in ("running", "pending") or await asyncio.to_thread(self.store.is_held, state.id):
            await self._interrupt(state.id)

        def give_up() -> ExecutionState:
            with self.store.hold(state.id) as held:
                held.move("cancelled")
                return held.state

        return await asyncio.to_thread(give_up)

    async def _interrupt(self, execution_id: str) -> ExecutionState:
        execution_id = await self._find(execution_id)
        running = self._watch.get(execution_id)
        if running is not None:
            running.stop()
            await asyncio.wait([running.task])
            return await self.status(execution_id)
        return await interrupt_there(self.store, execution_id)

    async def budget(self) -> BudgetReport:
        """What was spent, what is reserved, and what the limits are."""
        return await self._budget.report()

    async def runtimes(self) -> dict[str, Availability]:
        """Every runtime, and whether it can be used here."""
        return {name: await self.registry.available(name) for name in self.registry.names}

    async def spent(self, execution_ids: Sequence[str]) -> Spent:
        """What executions have spent so far, as the account has it: also what was held when a process died."""
        return await self._budget.spent(execution_ids)

    async def call_model(
        self,
        system: str,
        user: str,
        options: ModelOptions | None = None,
        *,
        limit: BudgetLimit | None = None,
        parent: str | None = None,
    ) -> ModelReply:
        """Ask a model through the runtime a task would use, within the budget. Makes the engine a `ModelCaller`.

        What it costs is booked under *parent*, if that is given.
        """
        purse = Purse(execution_id=parent or new_id(), task_limit=limit, is_execution=parent is not None)
        return await self.asking.model(system, user, options or ModelOptions(), purse=purse)

    async def summarize(self, execution_id: str, *, model: str | None = None) -> list[SummaryLink]:
        """Summarise what an execution has come to, now: all of it, or of a graph what each step to come would be told.

        Such a step is told the summary instead. None are made of what is short enough. `BadTask` where summaries are
        switched off: nobody would be told them.
        """
        if not self.config.context.enabled:
            raise BadTask("summaries are switched off here: enabled is false in [context] of the configuration")
        execution_id = await self._find(execution_id)
        mine = self._running.get(execution_id)
        return await self._summaries.summarize(execution_id, mine.run if mine is not None else None, model=model)

    async def shorten(self, text: str, max_tokens: int, *, parent: str | None = None) -> str:
        """A text in at most so many tokens: as it is, or a summary, on record in the execution *parent*, which this
        engine runs.
        """
        return await self._summaries.shorten(text, max_tokens, parent)

    async def dry_run(self, work: Work, adjustments: Sequence[str] = ()) -> list[tuple[str, Prompt | str]]:
        """The prompts that would be sent, step by step, and what else would run. Nothing is started."""
        return await self._steps.rehearse(work, choose_for(work, self.config.engine.strategy), adjustments)
