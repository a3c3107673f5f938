"""What the budget looks like now, for people and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Literal
from zoneinfo import ZoneInfo

from go_ent.composer.project.items import apart
from go_ent.engine.budget.calendar import BudgetWindow, bounds
from go_ent.engine.budget.ledger import Ledger, LedgerView, OpenHold
from go_ent.engine.core.config import BudgetConfig
from go_ent.engine.core.models import BudgetLimit, Model
from go_ent.sandbox.children.proc import is_dead

MOST_ROWS = 100


class WindowReport(Model):
    """A day or a month. What is spent includes estimates; what a process held when it died is among them."""

    starts_at: datetime
    resets_at: datetime
    runs: int
    spent_usd: float
    reserved_usd: float
    limit_usd: float | None
    spent_tokens: int
    reserved_tokens: int
    limit_tokens: int | None
    estimated_usd: float  # the part of what is spent that stands for costs nobody knows
    estimated_tokens: int
    unknown_costs: int  # runs whose cost is not known
    overshoot_usd: float  # what runs cost beyond what was held for them
    forced: int  # runs that did not fit, and were let through by a person, a program or the mode


class Total(Model):
    """What the month's runs of one runtime or model came to; the name is None where it was not said."""

    name: str | None
    runs: int
    usd: float
    tokens: int
    unknown_costs: int


class OpenReservation(Model):
    """What is held for a call. It is `lost` if the process that made it is gone without saying what the call cost."""

    key: str
    usd: float | None
    tokens: int
    at: datetime
    lost: bool


class BudgetReport(Model):
    """What is spent, reserved and allowed. The lists cover the month: at most the hundred most expensive entries."""

    version: Literal[1] = 1
    timezone: str
    hard: bool
    task: BudgetLimit | None
    execution: BudgetLimit | None
    day: WindowReport
    month: WindowReport
    clients: dict[
        str, WindowReport
    ]  # the day of each client with a token that has a limit, or has spent something today
    runtimes: tuple[Total, ...]
    models: tuple[Total, ...]
    open_reservations: int
    lost_reservations: int
    reservations: tuple[OpenReservation, ...]  # the oldest


class Spent(Model):
    """What one execution has spent so far. `usd` includes `estimated_usd`, which stands for `unknown` costs."""

    usd: float
    tokens: int
    estimated_usd: float
    unknown: int


def read_report(
    ledger: Ledger,
    config: BudgetConfig,
    zone: ZoneInfo,
    now: float,
    clients: Mapping[str, BudgetLimit] = MappingProxyType({}),
) -> BudgetReport:
    """All of it, as of one moment."""
    within, dead = bounds(now, zone), cache(is_dead)
    with ledger.reading() as view:
        owners = view.owners()
        names = sorted({*clients, *view.clients(within.day.start, within.day.end, MOST_ROWS)})
        return BudgetReport(
            timezone=config.timezone,
            hard=config.hard,
            task=config.task,
            execution=config.execution,
            day=_window(view, within.day, config.day, config.usual_usd, zone, dead),
            month=_window(view, within.month, config.month, config.usual_usd, zone, dead),
            clients={
                name: _window(view, within.day, clients.get(name), config.usual_usd, zone, dead, client=name)
                for name in names
            },
            runtimes=_totals(view, "runtime", within.month),
            models=_totals(view, "model", within.month),
            open_reservations=sum(count for owner, count in owners.items() if not dead(owner)),
            lost_reservations=sum(count for owner, count in owners.items() if dead(owner)),
            reservations=tuple(_reservations(view.oldest(MOST_ROWS), zone, dead)),
        )


def _reservations(rows: Iterable[OpenHold], zone: ZoneInfo, dead: Callable[[str], bool]) -> Iterator[OpenReservation]:
    for key, usd, tokens, at, owner in rows:
        shown = None
        with apart(f"the reservation {str(key)[:80]}", {}):
            shown = OpenReservation(
                key=key, usd=usd, tokens=tokens, at=datetime.fromtimestamp(at, zone), lost=dead(owner)
            )
        if shown is not None:
            yield shown


def read_spent(ledger: Ledger, execution_id: str) -> Spent:
    """What an execution has spent, and what its dead processes held."""
    dead = cache(is_dead)
    with ledger.reading() as view:
        spent = view.spent_by(execution_id)
        usd, estimated, tokens, unknown = spent.usd, spent.estimated_usd, spent.tokens, spent.unknown
        for held in view.held_for(execution_id):
            if dead(held.owner):
                usd, estimated = usd + held.usd, estimated + held.usd
                tokens, unknown = tokens + held.tokens, unknown + held.calls
    return Spent(usd=usd, tokens=tokens, estimated_usd=estimated, unknown=unknown)


def _window(
    view: LedgerView,
    window: BudgetWindow,
    limit: BudgetLimit | None,
    default_usd: float,
    zone: ZoneInfo,
    dead: Callable[[str], bool],
    client: str | None = None,
) -> WindowReport:
    limit = limit or BudgetLimit()
    # As the gate counts: where dollars are limited, an unknown cost is not free.
    unknown_usd = 0.0 if limit.usd is None else default_usd
    runs, usd, tokens, estimated_usd, estimated_tokens, unknown, over, forced = view.spent(
        *window, unknown_usd=unknown_usd, client=client
    )
    reserved_usd, reserved_tokens = 0.0, 0
    for owner, count, held_usd, held_tokens, held_forced in view.held(*window, unknown_usd=unknown_usd, client=client):
        forced += held_forced
        if not dead(owner):
            reserved_usd, reserved_tokens = reserved_usd + held_usd, reserved_tokens + held_tokens
            continue
        runs, unknown = runs + count, unknown + count
        usd, estimated_usd = usd + held_usd, estimated_usd + held_usd
        tokens, estimated_tokens = tokens + held_tokens, estimated_tokens + held_tokens
    return WindowReport(
        starts_at=datetime.fromtimestamp(window.start, zone),
        resets_at=datetime.fromtimestamp(window.end, zone),
        runs=runs,
        spent_usd=usd,
        reserved_usd=reserved_usd,
        limit_usd=limit.usd,
        spent_tokens=tokens,
        reserved_tokens=reserved_tokens,
        limit_tokens=limit.tokens,
        estimated_usd=estimated_usd,
        estimated_tokens=estimated_tokens,
        unknown_costs=unknown,
        overshoot_usd=over,
        forced=forced,
    )


def _totals(view: LedgerView, by: Literal["runtime", "model"], window: BudgetWindow) -> tuple[Total, ...]:
    return tuple(
        Total(name=one.name, runs=one.runs, usd=one.usd, tokens=one.tokens, unknown_costs=one.unknown)
        for one in view.groups(by, *window, MOST_ROWS)
    )
