"""One step on one runtime: the way that every strategy's steps go.

Prompt, runtime, budget, the run itself, fallback within the family, settlement, journal: in that order, for each try.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from go_ent.engine.budget import Ask, Budget, Reservation, tighter
from go_ent.engine.context.keeper import LEAST, Fitted, Keeper, RecordedContext, Room
from go_ent.engine.context.models import Purse
from go_ent.engine.core.concurrency import Stopped, to_the_end, unless
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import BadTask, EngineError, NeedsApproval, PromptTooLarge, Untrusted
from go_ent.engine.core.models import Attempt, BudgetLimit, Event, RunRequest, RunResult, RunStatus, Task, cost_of
from go_ent.engine.core.step import Step
from go_ent.engine.dispatch.payment import Paying
from go_ent.engine.dispatch.runtime_choice import Choice, choose_runtime
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.resume_checks import assumed
from go_ent.engine.executions.state import AgentSession
from go_ent.engine.executions.tape import Policy, Tapes
from go_ent.engine.prompts import Prompt, Prompts, Role, Skill, find_role, find_skills, read_files
from go_ent.engine.runners.base.agent_files import obeyed
from go_ent.engine.runners.base.runner import SURVIVABLE, Progress, Runner
from go_ent.engine.runners.breaker import Breaker
from go_ent.engine.runners.registry import Registry
from go_ent.engine.storage.crash_points import point
from go_ent.engine.strategies.results import failed
from go_ent.sandbox.host.spans import span
from go_ent.sandbox.messages.advice import Advice

FORCE_S = 15.0  # a runner that was asked to stop, and its children, take no longer
GO_ON = "{why} What you did before still stands: look at where it is, and go on with the task."
MAX_WHY = 2000
FOR_SUMMARY = 0.5  # of a step's own limit, at the most: the rest is the step's
BEFORE_STEPS = 0.75  # of an execution's limit: what is left beyond that is for its steps
MOST_READ = 250_000  # tokens of the files of a task: what can't be shown is summarised
MAX_NOTED = 4000


@dataclass(slots=True)
class ExecutionContext:
    """One execution as its steps see it."""

    held: OwnedExecution
    emit: Callable[[Event], None]
    tapes: Tapes  # of its steps that run in a guest
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    limit: BudgetLimit | None = None
    may_start: bool = True  # whether whoever asked may start programs by argv
    ask: Ask | None = None  # decides what does not fit the budget, in the place of the budget's own
    adjustments: tuple[str, ...] = ()
    decided: dict[str, Policy] = field(
        default_factory=dict
    )  # by step, of those of which nobody knows whether they were done
    warnings: dict[str, list[str]] = field(default_factory=dict)  # by step: they are in its result
    spending: set[str] = field(default_factory=set)  # the tries for which money is held now
    context: RecordedContext | None = None
    broken: str | None = None  # why nothing more can be recorded
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    reserving: asyncio.Lock = field(default_factory=asyncio.Lock)
    queue: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = field(default_factory=list)  # what waits to be written
    writer: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.held.id

    def say(self, kind: Any, step: str | None = None, text: str = "", **data: Any) -> None:
        self.emit(Event(kind=kind, execution_id=self.id, task_id=step, at=time.time(), text=text, data=data))

    def note(self, step: str, progress: Progress) -> None:
        """An agent's turn, or its use of a tool, on record."""
        text = progress.text or str(progress.data.get("name", ""))
        try:
            self.held.append("progress", {"step": step, "what": progress.kind, "text": text[:MAX_NOTED]})
        except OSError as error:
            self.broken = self.broken or f"{self.held.folder} can't be written: {error.strerror or error}"
            self.stop.set()

    def warn(self, step: str, text: str) -> None:
        self.warnings.setdefault(step, []).append(text)
        self.say("warning", step, text)

    async def write(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do something to the execution's files, in a thread: what several steps want at once is written, and synced,
        at once.

        Who is cancelled meanwhile waits for it.
        """
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.queue.append((partial(work, *arguments), done))
        if self.writer is None or self.writer.done():
            self.writer = asyncio.create_task(self._drain())
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    async def _drain(self) -> None:
        while self.queue:
            batch, self.queue = self.queue, []
            outcomes = await to_the_end(self.held.together, [work for work, _ in batch])
            for (_, done), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    done.set_exception(outcome)
                else:
                    done.set_result(outcome)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The session of an earlier try: what it had cost, if that is known, and why it ended."""

    id: str
    cost_usd: float | None
    why: str


class Dispatcher:
    """Runs steps. Belongs to one engine."""

    def __init__(
        self,
        project: Path,
        config: EngineConfig,
        registry: Registry,
        prompts: Prompts,
        roles: Mapping[str, Role],
        budget: Budget,
        *,
        keeper: Keeper,
        trusted: bool,
    ) -> None:
        self._project = project
        self._keeper = keeper
        self._config = config
        self._registry = registry
        self._prompts = prompts
        self._roles = roles
        self._paying = Paying(config, budget)
        self._trusted = trusted
        self.breaker = Breaker()

    def _role(self, task: Task) -> Role | None:
        return None if task.role is None else find_role(task.role, self._roles)

    def check(self, task: Task, *, may_start: bool) -> None:
        """Refuse what can't run before anything does: unknown names, and programs that this caller may not start."""
        if task.runtime is not None:
            self._registry.get(task.runtime)
        self._role(task)
        if isinstance(task.command, tuple) and not may_start:
            raise NeedsApproval(
                f"{task.title!r:.120} would start a program of the caller's choice: name it under "
                "[commands.NAME] in .go-ent/config.toml and use that name",
                advice=Advice("run_command"),
            )
        if isinstance(task.command, str) and task.command not in self._config.commands:
            there = ", ".join(sorted(self._config.commands)) or "none"
            hint = '; a program is a list: ["ls", "-l"]' if may_start else ""
            raise BadTask(f"there is no command {task.command} in the configuration; there are: {there}{hint}")
        if isinstance(task.command, str) and not self._trusted:
            raise Untrusted(f"the command {task.command}", str(self._project))

    def check_runtime(self, name: str, task: Task) -> None:
        """Refuse a runtime that would start, or obey, what a folder says that nobody trusts."""
        if self._trusted:
            return
        config = self._config.runners.get(name)
        if config is not None and config.starts:
            raise Untrusted(f"the runtime {name}", str(self._project))
        if self._registry.get(name).family == "mcp" and (found := obeyed(self._project)):
            raise Untrusted(f"{name} obeys {found[0]}, and", str(self._project))
        if task.needs_model and name == "cli":
            raise Untrusted(f"the command {self._config.engine.command}", str(self._project))

    async def prompt(self, step: Step, adjustments: tuple[str, ...] = ()) -> Prompt:
        """What an agent would be sent, within the same room; but what is too long is cut here, where it would be
        summarised.
        """
        role = self._role(step.task)
        runtime = (
            step.task.runtime
            or (role.runtime if role is not None else None)
            or self._config.engine.runtime
            or "claude-code"
        )
        model = self._model(step.task, role, runtime, runtime)
        step, room, notes = await self._light(step, role, model)
        files = await asyncio.to_thread(read_files, self._project, step.task.files, budget_tokens=room.material)
        prompt = await asyncio.to_thread(self._prompt, Fitted(step, adjustments, files=tuple(files)), room.material)
        self._check_size(prompt, room, model)
        return replace(prompt, notes=(*notes, *prompt.notes))

    def _skills(self, task: Task, role: Role | None) -> Sequence[Skill]:
        skills = find_skills(self._project, dict.fromkeys((*(role.skills if role is not None else ()), *task.skills)))
        if not self._trusted and (theirs := [skill.name for skill in skills if skill.scope == "project"]):
            raise Untrusted(f"an agent with the skill {theirs[0]}", str(self._project))
        return skills

    def _prompt(self, fitted: Fitted, room: int) -> Prompt:
        task = fitted.step.task
        role = self._role(task)
        return self._prompts.render(
            fitted.step,
            role=role,
            skills=self._skills(task, role),
            files=fitted.files,
            budget_tokens=room,
            adjustments=fitted.adjustments,
            summary=fitted.summary,
        )

    async def _room(self, step: Step, role: Role | None, model: str | None) -> Room:
        """What the material of a step may take beside what must be said."""
        bare = replace(step, previous=(), dependencies=(), task=step.task.model_copy(update={"files": ()}))
        alone = (await asyncio.to_thread(self._prompt, Fitted(bare, ()), LEAST)).tokens
        config = self._config.roles.get(role.name) if role is not None else None
        room = self._keeper.room(
            model, alone, step.task.threshold or (config.threshold if config is not None else None)
        )
        return replace(room, material=min(room.material, self._config.engine.prompt_tokens))

    async def _light(
        self,
        step: Step,
        role: Role | None,
        model: str | None,
        context: RecordedContext | None = None,
        purse: Purse | None = None,
    ) -> tuple[Step, Room, list[str]]:
        """The step with what it brings along in short, if it is too much; the room that is left; and what was done."""
        room = await self._room(step, role, model)
        if not room.over:
            return step, room, []
        step, notes = await self._keeper.lighten(context, step, room, purse)
        return step, await self._room(step, role, model), notes

    async def _prompt_within(self, step: Step, run: ExecutionContext, role: Role | None, model: str | None) -> Prompt:
        """The prompt of a step, within the window of the model that it goes to: what would not fit is summarised
        first.
        """
        run.context = run.context or RecordedContext(run.held)
        limit = tighter(step.task.budget, role.budget if role is not None else None)
        purse = Purse(
            execution_id=run.id,
            task_id=step.id,
            task_limit=limit and limit.part(FOR_SUMMARY),
            execution_limit=run.limit and run.limit.part(BEFORE_STEPS),
            warn=lambda text: run.warn(step.id, f"a summary for it: {text}"),
        )
        step, room, notes = await self._light(step, role, model, run.context, purse)
        files = await asyncio.to_thread(
            read_files, self._project, step.task.files, budget_tokens=max(room.material, MOST_READ)
        )
        fitted = await self._keeper.fit(run.context, step, run.adjustments, room, purse=purse, files=files)
        for note in (*notes, *fitted.notes):
            run.warn(step.id, note)
        prompt = await asyncio.to_thread(self._prompt, fitted, room.material)
        for note in prompt.notes:
            run.warn(step.id, note)
        self._check_size(prompt, room, model)
        await run.write(
            run.held.append, "context", self._keeper.fill(step.id, model, self._keeper.counted(prompt.tokens, model))
        )
        return prompt

    def _check_size(self, prompt: Prompt, room: Room, model: str | None) -> None:
        if prompt.tokens > room.window:
            tokens, reserve = (self._keeper.counted(number, model) for number in (prompt.tokens, room.reserve))
            raise PromptTooLarge(tokens, self._keeper.windows.window(model).tokens, reserve, model)

    async def run(self, step: Step, run: ExecutionContext) -> RunResult:
        """One step, to its result. What is finished already, from before an interruption, is not run again."""
        before = run.held.state.results.get(step.id)
        role = step.task.role
        if before is not None and before.ok:
            run.say("step", step.id, "finished before", status=before.status)
            return before
        if run.stop.is_set():
            return self._blank(step, run, "interrupted", "interrupted before it began")
        run.say("step", step.id, step.task.title, status="running")
        started = time.monotonic()
        policy = run.decided.pop(step.id, "retry")
        try:
            result = (
                await self._tries(step, run, before) if policy == "retry" else assumed(step.id, run.held.state, policy)
            )
        except EngineError as error:
            result = failed(run.id, step.id, error)
        if run.tapes.wrong is not None:  # what it came to is not to be believed, nor to be recorded
            run.broken = run.broken or f"step {step.id}: {run.tapes.wrong}"
            run.stop.set()
            return result
        if result.failure == "task":
            run.tapes.ended(step.id)
        took = round((time.monotonic() - started) * 1000)
        observations = (*result.observations, *run.warnings.pop(step.id, ()))
        result = with_earlier(
            result.model_copy(update={"duration_ms": took, "observations": observations, "role": role}), before
        )
        unknown = policy == "fail" or (
            run.broken is not None and result.status == "interrupted"
        )  # it was not asked to stop
        try:
            await run.write(partial(run.held.finish_step, step.id, result, unknown=unknown))
        except OSError as error:  # what can't be recorded must not be done again, nor anything after it be begun
            run.broken = f"{run.held.folder} can't be written: {error.strerror or error}"
            run.stop.set()
        run.say("step", step.id, result.error or "", status=result.status)
        return result

    async def _tries(self, step: Step, run: ExecutionContext, before: RunResult | None) -> RunResult:
        task = step.task
        self.check(task, may_start=run.may_start)
        role = self._role(task)
        choice = await choose_runtime(
            task, role, self._config.engine.runtime, self._config.engine.command, self._registry
        )
        prompts: dict[str | None, Prompt | None] = {}  # by model: another may have a smaller window
        candidates = [choice.runtime, *(self._registry.family(choice.runtime) if task.needs_model else ())]
        attempts: list[Attempt] = []
        result: RunResult | None = None
        for name in candidates:
            if problem := await self._not_usable(name, breaks=task.needs_model):
                attempts.append(Attempt(runtime=name, status="failed", failure="not_found", error=problem))
                run.say("fallback", step.id, f"{name} is passed over: {problem}")
                continue
            session = _session_of(run, step, before, name)
            model = self._model(task, role, name, choice.runtime)
            try:
                if model not in prompts:
                    prompts[model] = (
                        await unless(run.stop, self._prompt_within(step, run, role, model)) if task.has_prompt else None
                    )
                prompt = prompts[model]
                result, settled = await self._try(step, run, name, role, model, prompt, session)
                if session is not None and _never_began(result):
                    attempts.append(settled)
                    run.warn(step.id, f"{name} could not go on in its session: {result.error}")
                    result, settled = await self._try(step, run, name, role, model, prompt, None)
            except Stopped:
                result = self._blank(step, run, "interrupted", "interrupted while its prompt was made")
                settled = Attempt.of(result, name)
            except EngineError as error:  # not allowed, or no budget for it; earlier tries are still reported
                result = failed(run.id, step.id, error)
                settled = Attempt.of(result, name)
            attempts.append(settled)
            if result.ok or result.failure not in SURVIVABLE or run.stop.is_set():
                break
            run.say("fallback", step.id, f"{name} failed ({result.failure}): {result.error}")
        return _told(step, run, choice, attempts, result)

    def _model(self, task: Task, role: Role | None, name: str, chosen: str) -> str | None:
        """The model as a runtime calls it. A stand-in has names of its own: what it can't know is left to its
        default.
        """
        config = self._config.runners.get(name)
        default = config.model if config is not None else None
        if name == "cli":
            command = self._config.commands.get(str(task.command or self._config.engine.command))
            default = (command.model if command is not None else None) or default
        model = task.model or (role.model if role is not None else None)
        if model is None or name == chosen:
            return model or default
        if name == "claude-code" and model.startswith("anthropic/"):
            return model.removeprefix("anthropic/")
        return model if name == "open-code" and "/" in model else default

    async def _not_usable(self, name: str, *, breaks: bool) -> str | None:
        if breaks and (out := self.breaker.out_for(name)):
            return f"it failed three times in a row, and is left out for another {out:.0f} s"
        found = await self._registry.available(name)
        return None if found.ok else found.whole

    async def _try(
        self,
        step: Step,
        run: ExecutionContext,
        name: str,
        role: Role | None,
        model: str | None,
        prompt: Prompt | None,
        session: Earlier | None,
    ) -> tuple[RunResult, Attempt]:
        task = step.task
        runner = self._registry.get(name)
        config = self._config.runners.get(name)
        self.check_runtime(name, task)
        version = (await self._registry.available(name)).version
        free = not self._paying.may_cost(step, run, role, name, prompt)
        number = await run.write(partial(run.held.start_try, step.id, name, version, begun=free))
        key = f"{run.id}/{step.id}/{number}"
        result: RunResult | None = None
        reservation = None if free else await self._paying.reserve(step, run, role, name, model, prompt, key)
        if reservation is not None and run.stop.is_set():  # while it waited for its budget
            await self._paying.release(reservation, run)
            result = self._blank(step, run, "interrupted", "interrupted before it began")
            return result, Attempt.of(result, name)
        if reservation is not None:
            await self._started(step, run, name, reservation)
        try:
            request = RunRequest(
                execution_id=run.id,
                task_id=step.id,
                attempt=number,
                prompt="" if prompt is None else GO_ON.format(why=session.why) if session is not None else prompt.user,
                system="" if prompt is None else prompt.system,
                model=model,
                access=task.access,
                cwd=str(self._project),
                timeout_s=task.timeout_s or self._config.engine.timeout_s,
                silence_s=self._config.engine.silence_s,
                max_usd=reservation.usd if reservation is not None and reservation.usd_limited else None,
                session_id=session.id if session is not None else None,
                session_cost_usd=session.cost_usd if session is not None else None,
                needs_session=task.access == "edit",
                serve_tools=prompt is not None and task.access == "edit" and (config is None or config.serve_tools),
                command=task.command,
                tool=task.tool,
                code=task.code,
                inputs=task.inputs,
                grants=self.grants_of(run.held.state.client),
                recording=run.tapes.of_step(step.id) if task.tool or task.code else None,
            )
            with span("step", step=step.id, runtime=name, attempt=number) as told:
                point("step-before-start")
                result = await self._drive(runner, request, run, step)
                point("step-after-end")
                told.set(status=result.status)
                if not result.ok:
                    told.fail(result.failure or result.status)
        finally:
            if reservation is not None:
                try:
                    result = await asyncio.shield(
                        self._paying.settle(reservation, run, step, role, name, model, result)
                    )
                finally:
                    self._paying.settled(run, key)
        assert result is not None
        if prompt is not None and result.tokens is not None and session is None and name == "cli":
            # An agent's figures are those of all its turns, and of what it says of itself: they tell nothing of the
            # tokenizer.
            reported = result.tokens.input + result.tokens.cache_read + result.tokens.cache_write
            self._keeper.counter.report(result.model or model or "", prompt.tokens, reported)
            if reported:  # what was counted there is what it was
                await run.write(run.held.append, "context", self._keeper.fill(step.id, model, reported))
        if task.needs_model:  # a program that a task names says nothing of the next
            if result.ok or result.failure not in SURVIVABLE:
                self.breaker.worked(name)
            else:
                self.breaker.failed(name)
        return result, Attempt.of(result, name)

    def grants_of(self, client: str) -> tuple[str, ...] | None:
        """What guests of a client with a token may call, at the most, as its grants are now. None: all that the
        project grants.
        """
        if not client:
            return None
        rights = self._config.serve.clients.get(client)
        return () if rights is None else rights.allow

    async def _started(self, step: Step, run: ExecutionContext, name: str, reservation: Reservation) -> None:
        """A try that had to wait for its budget begins: that is on disk before it does."""
        try:
            await run.write(run.held.started, step.id, name)
        except OSError:
            await self._paying.release(reservation, run)
            raise

    async def _drive(self, runner: Runner, request: RunRequest, run: ExecutionContext, step: Step) -> RunResult:
        """A runner's run, which an interrupt ends gracefully, then by force."""

        sessions: list[asyncio.Future[Any]] = []

        def emit(progress: Progress) -> None:
            if progress.kind == "session":
                said = progress.data.get("session_id")
                if isinstance(said, str):
                    session = AgentSession(runtime=runner.name, id=said[:200])
                    sessions.append(asyncio.ensure_future(run.write(run.held.session, step.id, session)))
                return
            run.note(step.id, progress)
            run.say(progress.kind, step.id, progress.text, **progress.data)

        running = asyncio.ensure_future(runner.execute(request, emit))
        stopping = asyncio.ensure_future(run.stop.wait())
        try:
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                with contextlib.suppress(Exception):
                    await runner.interrupt(request.run_id)
                await asyncio.wait([running], timeout=FORCE_S)
            if not running.done():
                running.cancel()
                await asyncio.wait([running])
            if running.cancelled():
                return self._blank(step, run, "interrupted", f"{runner.name} did not stop by itself, and was ended")
            answer = running.result()
            if not isinstance(answer, RunResult):
                raise TypeError(f"it answered with {type(answer).__name__}, not with a RunResult")
            return answer
        except EngineError:
            raise
        except Exception as error:
            said = f"the runner {runner.name} failed in a way that it should not: {type(error).__name__}: {error}"
            return self._blank(step, run, "failed", said).model_copy(update={"failure": "crash"})
        finally:
            stopping.cancel()
            if not running.done():
                running.cancel()
                await asyncio.wait([running])
            await asyncio.gather(*sessions, return_exceptions=True)

    def _blank(self, step: Step, run: ExecutionContext, status: RunStatus, error: str) -> RunResult:
        failure = "interrupted" if status == "interrupted" else "task"
        return RunResult.model_validate(
            {
                "execution_id": run.id,
                "task_id": step.id,
                "status": status,
                "error": error,
                "failure": failure,
                "runtime": None,
            }
        )


def _session_of(run: ExecutionContext, step: Step, before: RunResult | None, runtime: str) -> Earlier | None:
    """The session of an earlier try on the same runtime."""
    left = run.held.state.sessions.get(step.id)
    if left is None or left.runtime != runtime:
        return None
    why = "You were interrupted."
    if before is not None and before.error and before.status not in ("interrupted", "paused"):
        why = f"The last try did not succeed: {before.error[:MAX_WHY]}"
    return Earlier(left.id, left.cost_usd, why)


def _never_began(result: RunResult) -> bool:
    """Whether a session could not be resumed. A failure that has nothing to do with it keeps it for the next
    try.
    """
    return result.failure == "task" and not result.output and not (result.tokens and result.tokens.total)


def with_earlier(result: RunResult, before: RunResult | None) -> RunResult:
    """A result that also tells what earlier tries of the step cost and left: they were paid for, too."""
    if before is None or not before.attempts:
        return result
    attempts = (*before.attempts, *result.attempts)
    cost_usd, tokens = cost_of(attempts)
    return result.model_copy(
        update={
            "attempts": attempts,
            "cost_usd": cost_usd,
            "tokens": tokens,
            "overrun_usd": before.overrun_usd + result.overrun_usd,
            "files_modified": tuple(dict.fromkeys((*before.files_modified, *result.files_modified))),
        }
    )


def _told(
    step: Step, run: ExecutionContext, choice: Choice, attempts: list[Attempt], result: RunResult | None
) -> RunResult:
    """A result that tells its whole story: who tried, why, and what all of it cost."""
    if result is None:
        said = "; ".join(f"{attempt.runtime}: {attempt.error}" for attempt in attempts)
        made = {
            "status": "failed",
            "failure": "not_found",
            "error": f"no runtime could be used: {said}",
            "runtime": choice.runtime,
        }
        result = RunResult.model_validate({"execution_id": run.id, "task_id": step.id, **made})
    cost_usd, tokens = cost_of(attempts)
    error = result.error
    if not result.ok and len(attempts) > 1:
        error = "; ".join(f"{attempt.runtime}: {attempt.error or attempt.status}" for attempt in attempts)
    reason = choice.reason
    if result.runtime is not None and result.runtime != choice.runtime:
        reason = f"{choice.runtime} was chosen ({choice.reason}), and {result.runtime} stood in for it"
    return result.model_copy(
        update={
            "attempts": tuple(attempts),
            "error": error,
            "runtime_reason": reason,
            "adjustments": (*result.adjustments, *run.adjustments),
            "cost_usd": cost_usd,
            "tokens": tokens,
        }
    )
