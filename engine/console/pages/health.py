"""Health: what is wrong on this machine or in this project, and what to do about it; workers, image, servers, fleet."""

from __future__ import annotations

import asyncio
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
        fleet=visit.engine.elsewhere is not None,
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


def _servers(viewer: Viewer) -> list[dict[str, Any]]:
    """The sources of tools that this process knows: what state each is in, and what was last wrong."""
    problems = viewer.caller.problems(viewer.composer)
    return [
        {"name": source.origin, "namespace": source.namespace, "problem": problems.get(source.origin, "")}
        for source in viewer.composer.catalogue.sources[:MOST_SERVERS]
    ]
