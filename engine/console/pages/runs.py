"""Runs: the executions of the project, the newest first."""

from __future__ import annotations

import hashlib
import time
from typing import Any, get_args

from starlette.responses import Response

from go_ent.engine.console.page import Page
from go_ent.engine.console.visit import Viewer, Visit
from go_ent.engine.core.models import ExecutionKind
from go_ent.engine.executions.state import ExecutionStatus

PAGE = Page("/runs", "Runs", order=10, key="r")
AT_ONCE = 50
LOOKED_AT = 50  # rows that a stamp is made of
TIMES = {"1h": 3600.0, "24h": 86_400.0, "7d": 604_800.0, "30d": 2_592_000.0}


@PAGE.stamp("runs")
async def _stamp(viewer: Viewer, argument: str) -> str:
    rows = await viewer.engine.executions(limit=LOOKED_AT, client=viewer.client)
    text = "".join(f"{row.id}{row.status}{row.updated}" for row in rows)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@PAGE.get()
async def runs(visit: Visit) -> Response:
    """The list, filtered as the address says."""
    await visit.follow("runs")
    filters: dict[str, Any] = {"client": visit.viewer.client}
    if (status := visit.query("status")) in get_args(ExecutionStatus):
        filters["status"] = status
    if (kind := visit.query("kind")) in get_args(ExecutionKind):
        filters["kind"] = kind
    if (since := TIMES.get(visit.query("time"))) is not None:
        filters["since"] = time.time() - since
    rows = await visit.engine.executions(limit=AT_ONCE + 1, **filters)
    return await visit.html(
        "runs.html",
        rows=rows[:AT_ONCE],
        more=len(rows) > AT_ONCE,
        statuses=get_args(ExecutionStatus),
        kinds=get_args(ExecutionKind),
        times=TIMES,
        chosen={name: visit.query(name) for name in ("status", "kind", "time")},
        now=time.time(),
    )
