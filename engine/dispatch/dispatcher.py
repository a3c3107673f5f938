"""One step on one runtime: the way that every strategy's steps go.

Prompt, runtime, budget, the run itself, fallback within the family, settlement, journal: in that order, for each try.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.budget import Budget, Reservation
from go_ent.engine.context.keeper import Keeper
from go_ent.engine.core.concurrency import Stopped, unless
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.crash_points import point
from go_ent.engine.core.errors import BadTask, EngineError, NeedsApproval, Untrusted
from go_ent.engine.core.models import Attempt, RunRequest, RunResult, RunStatus, Task, cost_of
from go_ent.engine.core.step import Step
from go_ent.engine.core.stoppable_run import stoppable
from go_ent.engine.dispatch.execution_context import ExecutionContext
from go_ent.engine.dispatch.payment import Paying
from go_ent.engine.dispatch.runtime_choice import Choice, choose_runtime
from go_ent.engine.dispatch.step_prompts import StepPrompts
from go_ent.engine.executions.resume_checks import assumed
from go_ent.engine.executions.state import AgentSession
from go_ent.engine.prompts import Prompt, Prompts, Role
from go_ent.engine.runners.base.agent_files import obeyed
from go_ent.engine.runners.base.runner import SURVIVABLE, Progress, Runner
from go_ent.engine.runners.breaker import Breaker
from go_ent.engine.runners.registry import Registry
from go_ent.engine.strategies.results import failed
from go_ent.sandbox.host.spans import span
from go_ent.sandbox.messages.advice import Advice

FORCE_S = 15.0  # a runner that was asked to stop, and its children, take no longer
GO_ON = "{why} What you did before still stands: look at where it is, and continue the task."
MAX_WHY = 2000


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
        self._prompts = StepPrompts(project, config, prompts, roles, keeper=keeper, trusted=trusted)
        self._paying = Paying(config, budget)
        self._trusted = trusted
        self.breaker = Breaker()

    def check(self, task: Task, *, may_start: bool) -> None:
        """Refuse what can't run before anything does: unknown names, and programs that this caller may not start."""
        if task.runtime is not None:
            self._registry.get(task.runtime)
        self._prompts.role(task)
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
        role = self._prompts.role(step.task)
        runtime = (
            step.task.runtime
            or (role.runtime if role is not None else None)
            or self._config.engine.runtime
            or "claude-code"
        )
        model = self._model(step.task, role, runtime, runtime)
        return await self._prompts.rehearsed(step, role, model, adjustments)

    async def run(self, step: Step, run: ExecutionContext) -> RunResult:
        """One step, to its result, which is on disk when something else is, or after `run.flush`. What is finished
        already, from before an interruption, is not run again.
        """
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
            await run.finish(step.id, result, unknown=unknown)
        except OSError as error:
            run.fail(error)
        run.say("step", step.id, result.error or "", status=result.status)
        return result

    async def _tries(self, step: Step, run: ExecutionContext, before: RunResult | None) -> RunResult:
        task = step.task
        self.check(task, may_start=run.may_start)
        role = self._prompts.role(task)
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
                        await unless(run.stop, self._prompts.within(step, run, role, model))
                        if task.has_prompt
                        else None
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
        free = not self._paying.may_cost(step, run, role, name, prompt)
        number = await self._start(step, run, name, free=free)
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
                language=task.language,
                inputs=task.inputs,
                grants=self.grants_of(run.held.state.client),
                recording=run.tapes.of_step(step.id) if task.tool or task.code else None,
                keep=partial(run.files.keep, step=step.id) if task.tool or task.code else None,
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

    async def _start(self, step: Step, run: ExecutionContext, name: str, *, free: bool) -> int:
        """A try begins, or waits for its budget: its number, which is on disk before anything is done."""
        version = (await self._registry.available(name)).version
        if free and (step.task.code or step.task.tool):  # what it does are calls: with the first one, this is on disk
            return run.held.start_try(step.id, name, version, sync=False)
        number: int = await run.write(partial(run.held.start_try, step.id, name, version, begun=free))
        return number

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

        try:
            answer = await stoppable(
                runner.execute(request, emit), run.stop, lambda: runner.interrupt(request.run_id), patience_s=FORCE_S
            )
            if answer is None:
                return self._blank(step, run, "interrupted", f"{runner.name} did not stop by itself, and was ended")
            if not isinstance(answer, RunResult):
                raise TypeError(f"it answered with {type(answer).__name__}, not with a RunResult")
            return answer
        except EngineError:
            raise
        except Exception as error:
            said = f"the runner {runner.name} failed in a way that it should not: {type(error).__name__}: {error}"
            return self._blank(step, run, "failed", said).model_copy(update={"failure": "crash"})
        finally:
            if sessions:
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
