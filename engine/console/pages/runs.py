"""Runs: the executions of the project, the newest first: filtered, paged, stopped or removed many at a time."""

from __future__ import annotations

import hashlib
import time
from typing import Any, get_args

from starlette.responses import Response

from go_ent.engine.console.page import Page
from go_ent.engine.console.visit import Refused, Viewer, Visit
from go_ent.engine.console.words import line, plural, size
from go_ent.engine.core.errors import EngineError
from go_ent.engine.core.ids import ID, short_id
from go_ent.engine.core.models import ExecutionKind
from go_ent.engine.executions.state import ExecutionState, ExecutionStatus
from go_ent.engine.executions.store import ALIVE

PAGE = Page("/runs", "Runs", order=10, key="r")
AT_ONCE = 50
LOOKED_AT = 50  # rows that a stamp is made of
MOST_PICKED = 200
TIMES = {"1h": 3600.0, "24h": 86_400.0, "7d": 604_800.0, "30d": 2_592_000.0}
FILTERS = ("status", "kind", "time", "text", "tool", "runtime")


@PAGE.stamp("runs")
async def _stamp(viewer: Viewer, argument: str) -> str:
    rows = await viewer.engine.executions(limit=LOOKED_AT, client=viewer.client)
    text = "".join(f"{row.id}{row.status}{row.updated}" for row in rows)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@PAGE.get()
async def runs(visit: Visit) -> Response:
    """The list, filtered as the address says."""
    await visit.follow("runs")
    chosen = {name: visit.query(name).strip()[:200] for name in FILTERS}
    filters: dict[str, Any] = {"client": visit.viewer.client}
    if chosen["status"] in get_args(ExecutionStatus):
        filters["status"] = chosen["status"]
    if chosen["kind"] in get_args(ExecutionKind):
        filters["kind"] = chosen["kind"]
    if (since := TIMES.get(chosen["time"])) is not None:
        filters["since"] = time.time() - since
    filters |= {name: chosen[name] for name in ("text", "tool", "runtime") if chosen[name]}
    if ID.fullmatch(below := visit.query("below")):
        filters["below"] = below
    rows = await visit.engine.executions(limit=AT_ONCE + 1, **filters)
    more = len(rows) > AT_ONCE
    rows = rows[:AT_ONCE]
    return await visit.html(
        "runs.html",
        rows=rows,
        calls=await visit.engine.records.calls([row.id for row in rows]),
        next=visit.url("/runs", **chosen, below=rows[-1].id) if more else "",
        first=visit.url("/runs", **chosen) if "below" in filters else "",
        statuses=get_args(ExecutionStatus),
        kinds=get_args(ExecutionKind),
        times=TIMES,
        runtimes=visit.engine.registry.names,
        chosen=chosen,
        filtered=any(chosen.values()),
        alive=ALIVE,
        now=time.time(),
    )


@PAGE.post("/interrupt")
async def interrupt(visit: Visit) -> Response:
    """Stop the runs that were picked."""
    visit.allow(agents=True)
    picked = [state for state in await _picked(visit) if state.status in (*ALIVE, "paused")]
    if not picked:
        return visit.go(visit.back(visit.url("/runs")), "none of these runs is running", bad=True)
    if not visit.sure:
        return await visit.confirm(
            f"Interrupt {plural(len(picked), 'run')}?", button="Interrupt", detail=map(_named, picked), danger=True
        )
    failed = []
    for state in picked:
        try:
            await visit.engine.interrupt(state.id)
        except EngineError as error:
            failed.append(f"{short_id(state.id)}: {error}")
    done = f"{plural(len(picked) - len(failed), 'run')} interrupted; they can be resumed"
    return visit.go(visit.back(visit.url("/runs")), "; ".join([done, *failed]), bad=bool(failed))


@PAGE.post("/remove")
async def remove(visit: Visit) -> Response:
    """Remove the record of the runs that were picked; what can be resumed is kept, unless that is asked for."""
    visit.allow(own=True)
    picked = [state for state in await _picked(visit) if state.status not in ALIVE]
    if not picked:
        return visit.go(visit.back(visit.url("/runs")), "runs that are running can't be removed", bad=True)
    if not visit.sure:
        question = f"Remove the record of {plural(len(picked), 'run')} for good?"
        return await visit.confirm(question, button="Remove", detail=map(_named, picked), danger=True)
    rows = {row.id: row for one in picked for row in await visit.engine.executions(limit=1, **_only(one.id))}
    resumable = visit.field("resumable") == "yes"
    removed, failed = await visit.engine.records.remove(list(rows.values()), resumable=resumable)
    kept = len(picked) - len(removed) - len(failed)
    said = f"{plural(len(removed), 'run')} removed"
    said += f"; {kept} kept because they can be resumed" if kept else ""
    said += "".join(f"; {short_id(name)} is not removed: {why}" for name, why in failed.items())
    return visit.go(visit.back(visit.url("/runs")), said, bad=bool(failed))


@PAGE.post("/prune")
async def prune(visit: Visit) -> Response:
    """Remove old runs as the project's settings say, after showing how many that is."""
    visit.allow(own=True)
    limits = visit.engine.config.executions
    options = {"keep": limits.keep, "older_than_s": limits.days * 86_400, "max_bytes": limits.max_mb << 20}
    if not visit.sure:
        would = await visit.engine.records.prune(**options, dry_run=True)
        if not would.removed:
            return visit.go(visit.url("/runs"), "there is nothing to prune: [executions] of the settings keeps it all")
        question = f"Prune {plural(len(would.removed), 'run')}, {size(would.bytes)}?"
        detail = [f"[executions] keeps {limits.keep} runs, {limits.days} days, {limits.max_mb} MB"]
        return await visit.confirm(question, button="Prune", detail=[*detail, *would.removed], danger=True)
    done = await visit.engine.records.prune(**options)
    return visit.go(visit.url("/runs"), f"{plural(len(done.removed), 'run')} removed, {size(done.bytes)} freed")


async def _picked(visit: Visit) -> list[ExecutionState]:
    ids = list(dict.fromkeys(visit.fields("run")))
    if not 0 < len(ids) <= MOST_PICKED:
        raise Refused(400, f"pick 1 to {MOST_PICKED} runs")
    return [await visit.viewer.execution(one) for one in ids]


def _only(execution_id: str) -> dict[str, Any]:
    """Filters that one execution fits: ids sort, and the next smaller text is not one."""
    return {"below": f"{execution_id}0"}


def _named(state: ExecutionState) -> str:
    return f"{short_id(state.id)} · {line(state.title, 120)} · {state.status}"
