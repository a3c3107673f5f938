"""What the tries of steps cost: held before, counted after. Of steps that run at once, one waits for what another
has left.
"""

from __future__ import annotations

import asyncio

from go_ent.engine.budget import Budget, Reservation, Spender, spender, tighter
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import BudgetExceeded, LedgerError
from go_ent.engine.core.models import BudgetLimit, RunResult, Task
from go_ent.engine.core.step import Step
from go_ent.engine.dispatch.execution_context import ExecutionContext
from go_ent.engine.prompts import Prompt, Role
from go_ent.waiting import first_of


class Paying:
    """Of one engine."""

    def __init__(self, config: EngineConfig, budget: Budget) -> None:
        self._config, self._budget = config, budget

    def may_cost(
        self, step: Step, run: ExecutionContext, role: Role | None, runtime: str, prompt: Prompt | None
    ) -> bool:
        """Whether anything has to be held for a try."""
        if runtime != "cli":
            return prompt is not None
        return self._spender(step.task, _limit(step.task, role), run) is not None

    async def reserve(
        self,
        step: Step,
        run: ExecutionContext,
        role: Role | None,
        runtime: str,
        model: str | None,
        prompt: Prompt | None,
        key: str,
    ) -> Reservation:
        """Hold what a try that may cost something is to cost."""
        task = step.task
        limit = _limit(task, role)
        command = self._spender(task, limit, run) if runtime == "cli" else None
        if command is None and task.max_cost_usd:  # an agent is stopped there
            limit = tighter(limit, BudgetLimit(usd=task.max_cost_usd))
        client, tokens = run.held.state.client, 0 if prompt is None else prompt.tokens
        estimate = await asyncio.to_thread(
            self._budget.estimate, model=model, prompt_tokens=tokens, limit=limit, client=client, command=command
        )
        while True:
            async with run.reserving:  # one after the other: who comes next sees what is held for the others
                others, settled = bool(run.spending), run.settled
                try:
                    reservation = await self._budget.reserve(
                        key,
                        estimate,
                        execution_id=run.id,
                        task_id=step.id,
                        task_limit=limit,
                        execution_limit=run.limit,
                        may_ask=not others,
                        ask=run.ask,
                        client=client,
                        command=command,
                    )
                    run.spending.add(key)
                    break
                except BudgetExceeded:
                    if not others or run.stop.is_set():
                        raise
            # What is held for another step may turn out to be more than it costs.
            await first_of(settled, run.stop)
        if reservation.warning:
            run.warn(step.id, reservation.warning)
        return reservation

    def _spender(self, task: Task, limit: BudgetLimit | None, run: ExecutionContext) -> Spender | None:
        """The command that a task runs. What the task declares of its cost counts if the caller may start any
        program.
        """
        if task.tool or task.code:
            return None
        own = (task.max_cost_usd, limit.usd if limit is not None else None) if run.may_start else ()
        return spender(self._config, task.command, *own)

    async def release(self, reservation: Reservation, run: ExecutionContext) -> None:
        """Let go of what was held for a try that was never made."""
        await self._budget.release(reservation)
        self.settled(run, reservation.key)

    @staticmethod
    def settled(run: ExecutionContext, key: str) -> None:
        run.spending.discard(key)
        run.settled.set()
        run.settled = asyncio.Event()

    async def settle(
        self,
        reservation: Reservation,
        run: ExecutionContext,
        step: Step,
        role: Role | None,
        name: str,
        model: str | None,
        result: RunResult | None,
    ) -> RunResult | None:
        """What a try cost, however it ended. One that was cancelled is counted at what was reserved for it."""
        tokens = result.tokens if result is not None else None
        usd = result.cost_usd if result is not None else None
        ran = (result.model if result is not None else None) or model
        if result is not None and never_asked(result):
            await self._budget.release(reservation)
            return result
        try:
            settled = await self._budget.settle(
                reservation,
                runtime=name,
                model=ran,
                role=role.name if role is not None else None,
                tokens=tokens,
                usd=usd,
            )
        except LedgerError as error:  # what was done is done: what was held for it stays counted
            run.warn(step.id, str(error))
            return result
        if settled.warning:
            run.warn(step.id, settled.warning)
        run.say("spend", step.id, usd=settled.cost_usd, tokens=tokens.total if tokens is not None else None)
        if result is None:
            return None
        over = settled.overshoot_usd if reservation.usd_limited else 0.0
        return result.model_copy(update={"cost_usd": settled.cost_usd, "overrun_usd": over})


def _limit(task: Task, role: Role | None) -> BudgetLimit | None:
    return tighter(task.budget, role.budget if role is not None else None)


def never_asked(result: RunResult) -> bool:
    """Whether no model can have been paid: the program was not there, was not let in, or could not even be started."""
    told = result.tokens is not None or result.cost_usd is not None or result.output
    return not told and (result.failure in ("not_found", "auth", "rate_limit", "unavailable") or result.replan)
