"""Budget: what is spent and reserved against its limits, by runtime, model, role, tool and day, and the outlook."""

from __future__ import annotations

import hashlib
import time
from typing import get_args

from starlette.responses import Response

from go_ent.dataclass import dataclass
from go_ent.engine.budget.report import WindowReport
from go_ent.engine.console.page import Page
from go_ent.engine.console.visit import Refused, Viewer, Visit
from go_ent.engine.executions.history import Grouping, Totals, group_title

PAGE = Page("/budget", "Budget", order=60, key="b")
TIMES = {"24h": 86_400.0, "7d": 604_800.0, "30d": 2_592_000.0}
MOST_ROWS = 100


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where a window ends up if spending goes on as it did so far in it. *runs_out* is when the limit is reached."""

    usd: float
    runs_out: float | None


def outlook(window: WindowReport, now: float) -> Outlook | None:
    """None while there is too little to go by: nothing spent, or less than a twentieth of the window gone."""
    start, end = window.starts_at.timestamp(), window.resets_at.timestamp()
    gone = now - start
    if window.spent_usd <= 0 or end <= start or not (end - start) / 20 <= gone <= end - start:
        return None
    rate = window.spent_usd / gone
    left = None if window.limit_usd is None else (window.limit_usd - window.spent_usd - window.reserved_usd) / rate
    reached = None if left is None or now + left >= end else now + max(0.0, left)
    return Outlook(rate * (end - start), reached)


@PAGE.stamp("budget")
async def _stamp(viewer: Viewer, argument: str) -> str:
    report = await viewer.engine.budget()
    shown = report.clients.get(viewer.caller.name) if viewer.caller.name else report
    text = "" if shown is None else shown.model_dump_json()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@PAGE.get()
async def budget(visit: Visit) -> Response:
    """The project's own user sees all of it, a client with a token its own day."""
    await visit.follow("budget")
    report = await visit.engine.budget()
    now = time.time()
    if visit.caller.name:
        window = report.clients.get(visit.caller.name)
        if window is None:
            raise Refused(404, "you have spent nothing today, and have no limit of your own")
        windows = {"Today": window}
        return await visit.html("budget.html", windows=windows, outlooks=_outlooks(windows, now), report=None, by=None)
    by: Grouping = next((one for one in get_args(Grouping) if one == visit.query("by")), "runtime")
    period = visit.query("time") if visit.query("time") in TIMES else "30d"
    totals = await visit.engine.records.totals(by, since=now - TIMES[period])
    windows = {"Today": report.day, "This month": report.month}
    return await visit.html(
        "budget.html",
        windows=windows,
        outlooks=_outlooks(windows, now),
        report=report,
        by=by,
        groupings=get_args(Grouping),
        times=TIMES,
        period=period,
        rows=[(group_title(by, name), one) for name, one in _ranked(by, totals)[:MOST_ROWS]],
        more=max(0, len(totals) - MOST_ROWS),
        most=max((one.cost_usd or 0.0 for one in totals.values()), default=0.0),
    )


def _outlooks(windows: dict[str, WindowReport], now: float) -> dict[str, Outlook | None]:
    return {name: outlook(window, now) for name, window in windows.items()}


def _ranked(by: Grouping, totals: dict[str, Totals]) -> list[tuple[str, Totals]]:
    """Days by date, the newest first; everything else by what it cost, then by how often it was."""
    if by == "day":
        return sorted(totals.items(), reverse=True)
    return sorted(totals.items(), key=lambda row: (-(row[1].cost_usd or 0.0), -row[1].count, row[0]))
