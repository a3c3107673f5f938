"""Playground: code over the granted tools, run at once, with what it came to; saved as a tool when it works."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

from starlette.responses import Response

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.engine.console.page import Page
from go_ent.engine.console.visit import Refused, Viewer, Visit
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.sandbox.worker.languages import Language

PAGE = Page("/playground", "Playground", order=50, key="p")
MOST_TOOLS = 500
MOST_CODE = 1 << 20
SESSION = re.compile(r"[a-z0-9-]{1,40}")
BEGINNINGS: dict[str, str] = {
    "python": "# The value of the last line is the result.\n[n * n for n in range(5)]\n",
    "javascript": "// The value of the last line is the result.\n[1, 2, 3].map((n) => n * n)\n",
    "typescript": "// The value of the last line is the result.\n[1, 2, 3].map((n: number) => n * n)\n",
}


@PAGE.stamp("playground")
async def _stamp(viewer: Viewer, argument: str) -> str:
    state = await viewer.execution(argument)
    return f"{state.status}:{state.seq}"


@PAGE.get()
async def playground(visit: Visit) -> Response:
    """The editor; with `?run=`, the code of a run and what it came to."""
    state = None
    order: dict[str, Any] = {}
    if run := visit.query("run"):
        state = await visit.viewer.execution(run)
        order = state.work.get("guest") or {}
        if not isinstance(order.get("code"), str):
            raise Refused(404, "this run did not run code", "its own page shows what it did")
        await visit.follow("playground", state.id)
        state = await visit.viewer.execution(state.id)
    language = str(order.get("language") or _language(visit.query("language")))
    return await visit.html(
        "playground.html",
        state=state,
        source=order.get("code") or BEGINNINGS[language],
        language=language,
        languages=get_args(Language),
        inputs=json.dumps(order.get("inputs") or {}, ensure_ascii=False, indent=2),
        session=str(order.get("session") or ""),
        value=_value(state),
        printed="" if state is None else "".join((await visit.engine.records.timeline(state.id)).printed.values()),
        tools=await _tools(visit),
        about=stubs.about,
        signature=stubs.signature,
    )


@PAGE.get("/tools")
async def tools(visit: Visit) -> Response:
    """What completion offers: the granted tools and their parameters."""
    return visit.json(
        [
            {"name": spec.name, "parameters": stubs.parameters(spec), "about": stubs.about(spec)[:200]}
            for spec in await _tools(visit)
        ]
    )


@PAGE.post("/run")
async def run(visit: Visit) -> Response:
    """Run what is in the editor."""
    code, session = visit.field("code"), visit.field("session")
    if not code.strip():
        raise Refused(400, "there is no code to run", "go back, and write some")
    if len(code) > MOST_CODE:
        raise Refused(413, f"code may have at most {MOST_CODE >> 20} MB here")
    try:
        inputs = json.loads(visit.field("inputs") or "{}")
    except (ValueError, RecursionError):
        inputs = None
    if not isinstance(inputs, dict):
        raise Refused(400, 'inputs must be a JSON object, like {"n": 3}', "go back, and correct them")
    if session and not SESSION.fullmatch(session):
        raise Refused(400, "a session's name is made of a-z, 0-9 and -")
    order = GuestOrder(
        code=code, language=_language(visit.field("language")), inputs=inputs, session=session or None, cut=False
    )
    return visit.go(visit.url("/playground", run=await visit.console.launches.launch(order, visit.caller)))


async def _tools(visit: Visit) -> list[ToolSpec]:
    """The tools that the caller's code may call, so far as they are known without starting a server."""
    grants = visit.caller.grants(visit.composer)
    await visit.composer.catalogue.load_known()
    return visit.composer.catalogue.search_known("", grants, limit=MOST_TOOLS)


def _language(text: str) -> Language:
    return next((one for one in get_args(Language) if one == text), "python")


def _value(state: ExecutionState | None) -> Any:
    step = next(iter(state.results.values()), None) if state is not None else None
    if step is None:
        return None
    return step.structured if step.structured is not None else step.output
