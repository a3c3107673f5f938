"""The budget: nothing is started before what it may cost is held, and what it did cost is counted after."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from go_ent.dataclass import dataclass
from go_ent.engine.budget.calendar import bounds, zone
from go_ent.engine.budget.commands import Spender
from go_ent.engine.budget.ledger import Cost, Counted, HeldAmount, Ledger, LedgerCall, Limit, Refusal, Wanted
from go_ent.engine.budget.prices import Prices
from go_ent.engine.budget.report import BudgetReport, Spent, read_report, read_spent
from go_ent.engine.budget.sqlite_ledger import FileLedger
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.config import BudgetConfig, Mode
from go_ent.engine.core.errors import BadTask, BudgetExceeded, NoCap
from go_ent.engine.core.models import BudgetLimit, Tokens

log = logging.getLogger("go_ent.engine.budget")
Ask = Callable[[BudgetExceeded], Awaitable[bool]]  # a person or a program decides whether it runs anyway
OUTPUT_TOKENS = 8192  # what an answer is thought to take when nobody says
MOST_USD = 1_000_000.0  # a run that says more is not believed
MOST_TOKENS = 10**12


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a call may cost. Dollars are None where no price is known and no limit asks for one.

    Where neither its task nor the configuration says what is held for it, it can do with less than is usual, if a limit
    has no more left: it is stopped there. What nothing stops is held `whole`.
    """

    usd: float | None
    tokens: int
    least_usd: float | None = None
    least_tokens: int | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is held for a call, and whether a limit in dollars or in tokens asked for it."""

    key: str
    usd: float | None
    tokens: int
    warning: str | None = None
    execution_id: str = ""
    task_id: str = ""
    usd_limited: bool = False
    tokens_limited: bool = False
    limits: tuple[Limit, ...] = ()  # those that it was held against
    free: bool = False  # it was declared that it costs nothing


@dataclass(frozen=True, slots=True)
class Settled:
    """What was counted for a call. If it is `estimated`, the real cost is not known, and `usd` is what was held for
    it.
    """

    usd: float | None
    estimated: bool
    overshoot_usd: float
    overshoot_tokens: int
    warning: str | None
    tokens: int = 0
    tokens_estimated: bool = False

    @property
    def cost_usd(self) -> float | None:
        """The real cost; None if it is not known."""
        return None if self.estimated else self.usd


class Budget:
    """The budget of one project, shared by all its processes.

    What does not fit is refused with `BudgetExceeded`, unless `ask` says that it goes on. Over MCP there is nobody to
    ask: it goes on with a warning, unless the budget is hard. `ask` is called for one task at a time.
    """

    def __init__(
        self,
        project: Path,
        config: BudgetConfig,
        prices: Prices,
        *,
        mode: Mode,
        ask: Ask | None = None,
        clock: Callable[[], float] = time.time,
        clients: Mapping[str, BudgetLimit] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """*clients* have a limit of their own for each day, which nobody is asked about and no mode lets pass. *ledger*
        keeps the figures; without one, a file of the project does.
        """
        self._config, self._prices, self._mode, self._ask, self._clock = config, prices, mode, ask, clock
        self._clients = dict(clients or {})
        self._zone = zone(config.timezone)
        self._ledger: Ledger = ledger or FileLedger(project)
        self._asking = asyncio.Lock()

    def estimate(
        self,
        *,
        model: str | None,
        prompt_tokens: int,
        limit: BudgetLimit | None,
        max_output: int | None = None,
        client: str = "",
        command: Spender | None = None,
    ) -> Estimate:
        """What a call is held at: its task's own limit, else its likely price but not less than the configured amount;
        a *command* at the most that was declared of it.

        A prompt that alone costs more than the limit is estimated at that, and will be refused. The first call may load
        prices, which takes a moment: it may run in a thread.
        """
        own, cap, config = limit or BudgetLimit(), tighter(limit, self._config.task) or BudgetLimit(), self._config
        prompt_tokens = min(max(prompt_tokens, 0), MOST_TOKENS)
        output = OUTPUT_TOKENS if max_output is None else min(max(max_output, 0), MOST_TOKENS)
        tokens = _held_at(own.tokens, cap.tokens, config.usual_tokens, prompt_tokens, prompt_tokens + output)
        prompt_usd = self._prices.cost(model, Tokens(input=prompt_tokens))
        likely_usd = self._prices.cost(model, Tokens(input=prompt_tokens, output=output))
        usd = None
        if prompt_usd is not None or self.limits_dollars(limit, client):
            usd = _held_at(own.usd, cap.usd, config.usual_usd, prompt_usd or 0.0, likely_usd or 0.0)
        if command is not None and command.most_usd is not None:
            usd = command.most_usd
        said_usd = usd is None or own.usd is not None or config.reserve_usd is not None or command is not None
        least_usd = None if said_usd else min(usd or 0.0, likely_usd or config.usual_usd / 10)
        said_tokens = own.tokens is not None or config.reserve_tokens is not None
        least_tokens = None if said_tokens else int(min(tokens, prompt_tokens + output))
        return Estimate(usd, int(tokens), least_usd, least_tokens, whole=command is not None)

    def limits_dollars(self, limit: BudgetLimit | None = None, client: str = "") -> bool:
        """Whether dollars are limited for a call: by the configuration, by *limit*, or for its client."""
        config = self._config
        limits = (limit, self._clients.get(client), config.task, config.execution, config.day, config.month)
        return any(each is not None and each.usd is not None for each in limits)

    async def reserve(
        self,
        key: str,
        estimate: Estimate,
        *,
        execution_id: str,
        task_id: str,
        task_limit: BudgetLimit | None = None,
        execution_limit: BudgetLimit | None = None,
        may_ask: bool = True,
        ask: Ask | None = None,
        client: str = "",
        command: Spender | None = None,
    ) -> Reservation:
        """Hold what a call may cost, before it is made; `BudgetExceeded` if it does not fit and nobody lets it pass.

        It fits if all of it does. A *command* of which no most was declared, and that is not allowed by name, fits no
        limit in dollars.

        Without *may_ask* nobody is asked, and nothing goes on with a warning: for who can wait until there is more.
        *ask* is asked in the place of the budget's own, also over MCP; but nobody is who calls with a client's token:
        whether the project's limits may be passed is not theirs to say.

        A later try of a task holds what its earlier tries have left of the task's limit. A key can be used once.
        """
        call, warnings = LedgerCall(key, execution_id, task_id, client), list[str]()
        task, execution = tighter(task_limit, self._config.task), tighter(execution_limit, self._config.execution)
        limits = self._limits(self._clock(), client, task, execution)
        usd_limited, tokens_limited = any(limit.usd for limit in limits), any(limit.tokens for limit in limits)
        usd, tokens = estimate.usd, estimate.tokens
        if not (0 <= tokens <= MOST_TOKENS and (usd is None or 0 <= usd <= MOST_USD)):
            raise BadTask(
                f"{usd} dollars and {tokens} tokens can't be reserved: at most {MOST_USD:,.0f} and {MOST_TOKENS:,}"
            )
        least_usd = estimate.least_usd
        if usd is None and usd_limited:
            usd = self._config.usual_usd
            least_usd = None if estimate.whole or self._config.reserve_usd is not None else usd / 10
        if command is not None and command.most_usd is None and not command.allowed:
            limit = next((limit for limit in limits if limit.usd is not None), None)
            if limit is not None:
                refusal = NoCap(_scope(limit.scope, client), command.problem, dollars(limit.usd or 0.0))
                if not may_ask:
                    raise refusal
                async with self._asking:
                    warnings.append(await self._permission(refusal, None if client else ask))
        wanted = Wanted(usd, tokens, least_usd, estimate.least_tokens, estimate.whole)
        held = await self._hold(
            call, wanted, task, execution, force=bool(warnings)
        )  # who lets pass the one is not asked again
        if isinstance(held, Refusal):
            if not may_ask:
                raise _exceeded(held, client)
            async with self._asking:
                held = await self._hold(call, wanted, task, execution)  # what was decided meanwhile counts
                while isinstance(held, Refusal):
                    warnings.append(await self._permission(_exceeded(held, client), None if client else ask))
                    held = await self._hold(call, wanted, task, execution, force=True)
        for warning in warnings:
            log.warning("%s: %s", key, warning)
        said, free = "; ".join(warnings) or None, command is not None and command.most_usd == 0
        return Reservation(
            key, held.usd, held.tokens, said, execution_id, task_id, usd_limited, tokens_limited, tuple(limits), free
        )

    async def settle(
        self,
        reservation: Reservation,
        *,
        runtime: str,
        model: str | None,
        role: str | None,
        tokens: Tokens | None,
        usd: float | None,
    ) -> Settled:
        """Count what a call came to, whether or not it succeeded. It counts in the day and month in which it was
        reserved.

        Without *usd* the cost is that of the tokens. What can't be known counts as what was held. What a process that
        died held is settled by its key alone: `Reservation(key, None, 0)`. Goes on to its end even if the caller is
        cancelled.
        """
        return await to_the_end(self._settle, reservation, runtime, model, role, tokens, usd)

    async def release(self, reservation: Reservation) -> None:
        """Let go of what was held for a call that was never made."""
        await to_the_end(self._ledger.release, reservation.key)

    async def report(self) -> BudgetReport:
        """What is spent, held and allowed now."""
        return await asyncio.to_thread(
            read_report, self._ledger, self._config, self._zone, self._clock(), self._clients
        )

    async def spent(self, execution_ids: Sequence[str]) -> Spent:
        """What executions have spent so far, together."""
        found = [
            await asyncio.to_thread(read_spent, self._ledger, execution_id)
            for execution_id in dict.fromkeys(execution_ids)
        ]
        return Spent(
            usd=sum(one.usd for one in found),
            tokens=sum(one.tokens for one in found),
            estimated_usd=sum(one.estimated_usd for one in found),
            unknown=sum(one.unknown for one in found),
        )

    def _limits(self, at: float, client: str, task: BudgetLimit | None, execution: BudgetLimit | None) -> list[Limit]:
        """The limits that hold for a call: a client's, which nothing gets past, then the narrowest first."""
        within, limits = bounds(at, self._zone), []
        if (own := self._clients.get(client)) is not None:
            limits.append(Limit("client", own.usd, own.tokens, *within.day))
        if task is not None:
            limits.append(Limit("task", task.usd, task.tokens))
        if execution is not None:
            limits.append(Limit("execution", execution.usd, execution.tokens))
        if (day := self._config.day) is not None:
            limits.append(Limit("day", day.usd, day.tokens, *within.day))
        if (month := self._config.month) is not None:
            limits.append(Limit("month", month.usd, month.tokens, *within.month))
        return limits

    async def _permission(self, refusal: BudgetExceeded, ask: Ask | None) -> str:
        """Why a call that does not fit may be made anyway; raises *refusal* if it may not."""
        if refusal.scope.startswith("client "):
            raise refusal
        if ask is None and self._mode == "mcp":
            if self._config.hard:
                raise refusal
            return f"{refusal}; it continues with this warning, because budget.hard is not set"
        ask = ask or self._ask
        if ask is None or not await ask(refusal):
            raise refusal
        return f"{refusal}; it goes on because that was allowed"

    async def _hold(
        self,
        call: LedgerCall,
        wanted: Wanted,
        task: BudgetLimit | None,
        execution: BudgetLimit | None,
        *,
        force: bool = False,
    ) -> HeldAmount | Refusal:
        """In a thread. If the caller is cancelled meanwhile, nobody would ever settle it: it is let go."""
        at = self._clock()
        limits = self._limits(at, call.client, task, execution)

        def hold() -> HeldAmount | Refusal:
            return self._ledger.reserve(call, wanted, limits, unknown_usd=self._config.usual_usd, at=at, force=force)

        def let_go(held: HeldAmount | Refusal) -> None:
            if isinstance(held, HeldAmount):
                self._ledger.release(call.key)

        return await to_the_end(hold, undo=let_go)

    def _settle(
        self,
        reservation: Reservation,
        runtime: str,
        model: str | None,
        role: str | None,
        tokens: Tokens | None,
        usd: float | None,
    ) -> Settled:
        if tokens is not None and tokens.total > MOST_TOKENS:
            log.warning(
                "%s says that it used more than %.0e tokens: that is not believed", reservation.key, MOST_TOKENS
            )
            tokens = None
        if usd is not None and not (math.isfinite(usd) and 0 <= usd <= MOST_USD):
            log.warning("%s says that it cost %r dollars: that is not believed", reservation.key, usd)
            usd = None
        if usd is None and reservation.free:
            usd = 0.0
        if usd is None and tokens is not None:
            usd = self._prices.cost(model, tokens)
        call = LedgerCall(reservation.key, reservation.execution_id or reservation.key, reservation.task_id or "task")
        at = self._clock()
        cost = Cost(usd, None if tokens is None else tokens.total, runtime, model, role)
        month_start, unknown_usd = bounds(at, self._zone).month.start, self._config.usual_usd
        counted = self._ledger.settle(
            call, cost, at=at, month_start=month_start, limits=reservation.limits, unknown_usd=unknown_usd
        )
        warning = _overshoot(reservation, counted)
        if warning is not None:
            log.warning("%s: %s", reservation.key, warning)
        return Settled(
            counted.usd,
            counted.estimated,
            counted.over_usd,
            counted.over_tokens,
            warning,
            counted.tokens,
            counted.tokens_estimated,
        )


def tighter(first: BudgetLimit | None, second: BudgetLimit | None) -> BudgetLimit | None:
    """A limit that holds where both do: the smaller of each amount."""
    if first is None or second is None:
        return first or second
    usd = [limit.usd for limit in (first, second) if limit.usd is not None]
    tokens = [limit.tokens for limit in (first, second) if limit.tokens is not None]
    return BudgetLimit(usd=min(usd, default=None), tokens=min(tokens, default=None))


def _held_at(own: float | None, cap: float | None, least: float, prompt: float, likely: float) -> float:
    """A task's own limit, else what is likely but no more than the limit of every task; and never less than its
    prompt.
    """
    amount = max(least, likely) if own is None or cap is None else cap
    return max(amount if cap is None else min(amount, cap), prompt)


def _exceeded(refusal: Refusal, client: str) -> BudgetExceeded:
    show = dollars if refusal.unit == "usd" else _tokens
    return BudgetExceeded(_scope(refusal.scope, client), show(refusal.spent), show(refusal.wanted), show(refusal.limit))


def _scope(scope: str, client: str) -> str:
    return f"client {client} for today" if scope == "client" else scope


def _overshoot(reservation: Reservation, counted: Counted) -> str | None:
    """A sentence about what a limit was not asked for, and about a cost that is only thought."""
    said = []
    if reservation.usd_limited and counted.over_usd > 0:
        said.append(f"it cost {dollars(counted.over_usd)} more than the {dollars(reservation.usd or 0.0)} held for it")
    if reservation.tokens_limited and counted.over_tokens > 0:
        said.append(f"it used {_tokens(counted.over_tokens)} more than the {_tokens(reservation.tokens)} held for it")
    if said:
        for limit in counted.passed:
            show = dollars if limit.unit == "usd" else _tokens
            said.append(
                f"the limit of the {limit.scope}, {show(limit.limit)}, is passed: {show(limit.spent)} spent or reserved"
            )
    if reservation.usd_limited and counted.estimated:
        said.append(f"what it cost is not known and counts as {dollars(counted.usd or 0.0)}")
    if reservation.tokens_limited and counted.tokens_estimated:
        said.append(f"what it used is not known and counts as {_tokens(counted.tokens)}")
    return "; ".join(said) or None


def dollars(amount: float) -> str:
    """Dollars for people: two digits after the point, more where there is less than a cent to see."""
    whole, _, rest = f"{amount:,.6f}".partition(".")
    return f"${whole}.{rest[:2]}{rest[2:].rstrip('0')}"


def _tokens(amount: float) -> str:
    return f"{int(amount):,} tokens"
