"""What the budget looks like now, for people and programs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Literal
from zoneinfo import ZoneInfo

from go_ent.composer.project.items import apart
from go_ent.engine.budget.calendar import BudgetWindow, bounds
from go_ent.engine.budget.ledger import Ledger
from go_ent.engine.core.config import BudgetConfig
from go_ent.engine.core.models import BudgetLimit, Model
from go_ent.sandbox.children.proc import is_dead

MOST_ROWS = 100

SPENT = """
SELECT count(*), coalesce(sum(coalesce(usd, :unknown)), 0.0), coalesce(sum(tokens), 0),
  coalesce(sum(CASE WHEN estimated THEN coalesce(usd, :unknown) END), 0.0), coalesce(sum(tokens * tokens_estimated), 0),
  coalesce(sum(estimated), 0), coalesce(sum(max(0.0, usd - reserved_usd)), 0.0), coalesce(sum(forced), 0)
FROM spends WHERE at >= :start AND at < :end AND (:client IS NULL OR client = :client)
"""
HELD = """
SELECT owner, count(*), coalesce(sum(coalesce(usd, :unknown)), 0.0), coalesce(sum(tokens), 0), coalesce(sum(forced), 0)
FROM reservations WHERE at >= :start AND at < :end AND (:client IS NULL OR client = :client) GROUP BY owner
"""
CLIENTS = """
SELECT client FROM spends WHERE at >= :start AND at < :end AND client != ''
UNION SELECT client FROM reservations WHERE at >= :start AND at < :end AND client != '' ORDER BY client LIMIT :most
"""
COLUMNS = "count(*), coalesce(sum(usd), 0.0) AS dollars, coalesce(sum(tokens), 0), coalesce(sum(estimated), 0)"
BY_RUNTIME = (
    f"SELECT runtime, {COLUMNS} FROM spends WHERE at >= ? AND at < ? GROUP BY runtime ORDER BY dollars DESC, "  # noqa: S608
    "runtime LIMIT ?"
)
BY_MODEL = (
    f"SELECT model, {COLUMNS} FROM spends WHERE at >= ? AND at < ? GROUP BY model ORDER BY dollars DESC, model LIMIT ?"  # noqa: S608
)
OF_EXECUTION = """
SELECT coalesce(sum(usd), 0.0), coalesce(sum(CASE WHEN estimated THEN usd END), 0.0), coalesce(sum(tokens), 0),
  coalesce(sum(estimated), 0) FROM spends WHERE execution_id = ?
"""


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
    with ledger.reading() as database:
        owners = database.execute("SELECT owner, count(*) FROM reservations GROUP BY owner").fetchall()
        oldest = database.execute(
            "SELECT key, usd, tokens, at, owner FROM reservations ORDER BY at, key LIMIT ?", (MOST_ROWS,)
        )
        spent = database.execute(CLIENTS, {"start": within.day.start, "end": within.day.end, "most": MOST_ROWS})
        names = sorted({*clients, *(name for (name,) in spent)})
        return BudgetReport(
            timezone=config.timezone,
            hard=config.hard,
            task=config.task,
            execution=config.execution,
            day=_window(database, within.day, config.day, config.usual_usd, zone, dead),
            month=_window(database, within.month, config.month, config.usual_usd, zone, dead),
            clients={
                name: _window(database, within.day, clients.get(name), config.usual_usd, zone, dead, client=name)
                for name in names
            },
            runtimes=_totals(database, BY_RUNTIME, within.month),
            models=_totals(database, BY_MODEL, within.month),
            open_reservations=sum(count for owner, count in owners if not dead(owner)),
            lost_reservations=sum(count for owner, count in owners if dead(owner)),
            reservations=tuple(_reservations(oldest, zone, dead)),
        )


def _reservations(
    rows: Iterable[tuple[Any, ...]], zone: ZoneInfo, dead: Callable[[str], bool]
) -> Iterator[OpenReservation]:
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
    with ledger.reading() as database:
        usd, estimated, tokens, unknown = database.execute(OF_EXECUTION, (execution_id,)).fetchone()
        for owner, held, held_tokens in database.execute(
            "SELECT owner, usd, tokens FROM reservations WHERE execution_id = ?", (execution_id,)
        ):
            if dead(owner):
                usd, estimated, tokens, unknown = (
                    usd + (held or 0.0),
                    estimated + (held or 0.0),
                    tokens + held_tokens,
                    unknown + 1,
                )
    return Spent(usd=usd, tokens=tokens, estimated_usd=estimated, unknown=unknown)


def _window(
    database: sqlite3.Connection,
    window: BudgetWindow,
    limit: BudgetLimit | None,
    default_usd: float,
    zone: ZoneInfo,
    dead: Callable[[str], bool],
    client: str | None = None,
) -> WindowReport:
    limit = limit or BudgetLimit()
    # As the gate counts: where dollars are limited, an unknown cost is not free.
    values = {
        "unknown": 0.0 if limit.usd is None else default_usd,
        "start": window.start,
        "end": window.end,
        "client": client,
    }
    runs, usd, tokens, estimated_usd, estimated_tokens, unknown, over, forced = database.execute(
        SPENT, values
    ).fetchone()
    reserved_usd, reserved_tokens = 0.0, 0
    for owner, count, held_usd, held_tokens, held_forced in database.execute(HELD, values):
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


def _totals(database: sqlite3.Connection, query: str, window: BudgetWindow) -> tuple[Total, ...]:
    rows = database.execute(query, (window.start, window.end, MOST_ROWS))
    return tuple(
        Total(name=name, runs=runs, usd=usd, tokens=tokens, unknown_costs=unknown)
        for name, runs, usd, tokens, unknown in rows
    )
