"""Health: what is wrong on this machine or in this project, and what to do about it; workers, image, servers, fleet."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import field
from typing import Any

from starlette.responses import Response

from go_ent.dataclass import dataclass
from go_ent.engine.console.page import Page
from go_ent.engine.console.visit import Viewer, Visit
from go_ent.engine.setup.doctor import Check, examine

PAGE = Page("/health", "Health", order=80, key="h")
FRESH_S = 30.0  # that what was found is shown again: looking starts a guest
MOST_SERVERS = 100
PATIENCE_S = 5.0
log = logging.getLogger("go_ent.engine.console")


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server or an API, as this process knows it."""

    origin: str
    namespace: str
    state: str  # connected, idle (it is started by the first call), failing
    error: str  # what is wrong, or was last
    stderr: str  # the last that it wrote there


@dataclass(slots=True)
class _Found:
    """The last look of one console."""

    checks: list[Check] = field(default_factory=list)
    at: float = 0.0
    deep: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_found: dict[int, _Found] = {}  # by engine


@PAGE.get()
async def health(visit: Visit) -> Response:
    """What the last look found; a look, if that is long ago."""
    visit.allow(own=True)
    found = await _look(visit.viewer, deep=False)
    order = sorted(found.checks, key=lambda one: (one.ok, not (one.needed or one.broken)))
    box = visit.composer.box
    return await visit.html(
        "health.html",
        wrong=[one for one in order if not one.ok],
        right=[one for one in order if one.ok],
        at=found.at,
        deep=found.deep,
        walls=box.walls,
        remade=box.remade,
        limits=box.limits.model_dump(),
        servers=_servers(visit.viewer),
        runtimes=await visit.engine.runtimes(),
        fleet=await _fleet(visit.viewer),
    )


@PAGE.post("/look")
async def look(visit: Visit) -> Response:
    """Look again; also at the servers, if that is asked for."""
    visit.allow(own=True)
    await _look(visit.viewer, deep=visit.field("deep") == "yes", anew=True)
    return visit.go(visit.url("/health"))


async def _look(viewer: Viewer, *, deep: bool, anew: bool = False) -> _Found:
    found = _found.setdefault(id(viewer.engine), _Found())
    async with found.lock:
        if anew or not found.checks or time.time() - found.at > FRESH_S:
            found.checks = await examine(viewer.engine, deep=deep)
            found.at, found.deep = time.time(), deep
    return found


def _servers(viewer: Viewer) -> list[ServerState]:
    """The servers and APIs that this process knows."""
    problems = viewer.caller.problems(viewer.composer)
    found = []
    for source in viewer.composer.catalogue.sources:
        connected, problem = getattr(source, "connected", None), problems.get(source.origin, "")
        if connected is not None or problem:
            found.append(
                ServerState(
                    source.origin,
                    source.namespace or "",
                    "failing" if problem else "connected" if connected else "idle",
                    problem or getattr(source, "last_error", ""),
                    getattr(source, "stderr", ""),
                )
            )
    return found[:MOST_SERVERS]


async def _fleet(viewer: Viewer) -> dict[str, Any] | None:
    """The fleet that the project is one of; None if it is in none. A database that is gone is told of."""
    if viewer.engine.elsewhere is None:
        return None
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await viewer.engine.elsewhere.overview()
    except Exception as error:  # whatever the database says
        log.warning("the fleet can't be looked at: %s", error)
        return {"problem": f"it can't be looked at: {type(error).__name__}", "workers": [], "queues": []}
