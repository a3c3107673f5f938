"""What can be done with a run: stop it, resume it, run it again with other inputs, make a tool of it."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import Any

from pydantic import ValidationError
from starlette.responses import Response

from go_ent.composer import ComposerError
from go_ent.engine.console.pages.run import PAGE
from go_ent.engine.console.pages.run_facts import order_of, source_of
from go_ent.engine.console.visit import Refused, Visit
from go_ent.engine.console.words import has_unseen, json_text
from go_ent.engine.core.errors import EngineError, ExecutionConflict
from go_ent.engine.core.ids import short_id
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.tape import Unfinished
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.strategies.replanning import ChangedPlan, changed_file

__all__ = ["PAGE"]
POLICIES = ("retry", "skip", "fail")
ANSWERS = ("unfinished", "anyway", "from", "sure", "plan")  # fields that answer what keeps a run from going on
Way = tuple[str, dict[str, str], str]


@PAGE.post("/{id}/interrupt")
async def interrupt(visit: Visit) -> Response:
    """Stop a run. What it has done is kept."""
    visit.allow(agents=True)
    state = await visit.engine.interrupt((await visit.viewer.execution(visit.path("id"))).id)
    return visit.go(_address(visit, state), f"it is {state.status}; what it has done is kept")


@PAGE.post("/{id}/resume")
async def resume(visit: Visit) -> Response:
    """Go on with a run. What keeps it from that is shown, with the ways to go on anyway."""
    visit.allow(agents=True)
    state = await visit.viewer.execution(visit.path("id"))
    chosen = visit.field("unfinished")
    options: dict[str, Any] = {"anyway": visit.field("anyway") == "yes"}
    if chosen in POLICIES:
        options["unfinished"] = Unfinished.parse([chosen])
    if visit.field("from"):
        options["from_checkpoint"] = visit.field("from")[:200]
    if visit.field("from") and not visit.sure:
        question = "Go back to this checkpoint? What came after it runs again."
        return await visit.confirm(question, button="Go back and resume", detail=[state.title])
    if order_of(state).get("each"):
        raise Refused(409, "this run takes the lines of stdin, and needs them again", "resume it in a terminal")
    changed = None if visit.field("plan") == "kept" else await _changed_plan(visit, state)
    if changed is not None:
        said = f"{changed.file} has changed since: {changed.said}"
        taken = shlex.join(["go-ent", "resume", short_id(state.id), "--plan", str(changed.file)])
        return await _cannot(visit, state, said, _ways("plan"), taken)
    try:
        over = await visit.console.launches.go_on(
            visit.engine.resume(state.id, **options), visit.session, f"{short_id(state.id)} could not be resumed"
        )
    except ExecutionConflict as error:
        return await _cannot(visit, state, str(error), _ways("" if error.advice is None else error.advice.argument))
    return visit.go(_address(visit, state), "it has been resumed" + (", and has ended" if over else ""))


async def _changed_plan(visit: Visit, state: ExecutionState) -> ChangedPlan | None:
    """What has changed in the file of a plan since it was begun. Files are the user's own to look at, in a folder that
    they trust.
    """
    if visit.caller.name or not visit.engine.trusted:
        return None
    return await asyncio.to_thread(changed_file, state.work)


async def _cannot(visit: Visit, state: ExecutionState, said: str, ways: list[Way], command: str = "") -> Response:
    """What keeps a run from going on, and the ways to go on anyway. What was said before is said with them again."""
    given = {name: visit.field(name) for name in ANSWERS if visit.field(name)}
    ways = [(button, {**given, **fields}, about) for button, fields, about in ways]
    return await visit.html("resume.html", state=state, said=said, ways=ways, command=command, status=409)


def _ways(about: str) -> list[Way]:
    """The ways to go on that there are: a button, what it says, and what that does."""
    if about == "plan":
        return [("Resume anyway", {"plan": "kept"}, "The plan continues as it was when the run began.")]
    if about == "unfinished":
        return [
            ("Do them again", {"unfinished": "retry"}, "They may be done twice."),
            ("Count them as done", {"unfinished": "skip"}, "The code continues without an answer."),
            ("Let them fail", {"unfinished": "fail"}, "The code may catch that."),
        ]
    if about == "anyway":
        return [("Resume anyway", {"anyway": "yes"}, "As things are now, whatever has changed.")]
    return []


@PAGE.get("/{id}/again")
async def again(visit: Visit) -> Response:
    """A form to run the same with other inputs."""
    state = await visit.viewer.execution(visit.path("id"))
    return await _again(visit, state, order_of(state))


async def _again(visit: Visit, state: ExecutionState, order: dict[str, Any], wrong: str = "") -> Response:
    if not order:
        raise Refused(409, "only runs of code and of tools can be run again from here", "go-ent run starts tasks")
    code, language = await source_of(visit.viewer, state)
    inputs = json_text(json.dumps(order.get("inputs") or {}, ensure_ascii=False, indent=2, default=str))
    return await visit.html(
        "again.html",
        state=state,
        tool=order.get("tool") or "",
        code=visit.field("code") or code,
        language=language,
        inputs=visit.field("inputs") or inputs,
        unseen=has_unseen(visit.field("code") or code),
        wrong=wrong,
        status=400 if wrong else 200,
    )


@PAGE.post("/{id}/again")
async def run_again(visit: Visit) -> Response:
    """Run it, as a new execution."""
    state = await visit.viewer.execution(visit.path("id"))
    order = order_of(state)
    try:
        inputs = json.loads(visit.field("inputs") or "{}")
    except (ValueError, RecursionError) as error:
        return await _again(visit, state, order, f"the inputs are not JSON: {error}")
    if not isinstance(inputs, dict):
        return await _again(visit, state, order, "the inputs are a JSON object: names and their values")
    kept = {name: order[name] for name in ("language", "limits") if order.get(name)}
    what = {"tool": order["tool"]} if order.get("tool") else {"code": visit.field("code")}
    if order.get("tool"):
        visit.allow_tool(order["tool"])
    try:
        wanted = GuestOrder(**what, **kept, inputs=inputs)
    except ValidationError as error:
        return await _again(visit, state, order, str(error.errors()[0]["msg"]))
    return visit.go(visit.url(f"/runs/{await visit.console.launches.launch(wanted, visit.caller)}"))


@PAGE.get("/{id}/save")
async def save_form(visit: Visit) -> Response:
    """A form to make a tool of a run."""
    state = await visit.viewer.execution(visit.path("id"))
    return await _save(visit, state)


async def _save(visit: Visit, state: ExecutionState, wrong: str = "") -> Response:
    code, language = await source_of(visit.viewer, state)
    fields = {name: visit.field(name) for name in ("name", "about", "param")}
    return await visit.html(
        "save.html", state=state, code=code, language=language, wrong=wrong, fields=fields, status=400 if wrong else 200
    )


@PAGE.post("/{id}/save")
async def save(visit: Visit) -> Response:
    """Make a tool of a run: its inputs become parameters, its calls and its result an example, which must pass."""
    visit.allow(compose=True)
    state = await visit.viewer.execution(visit.path("id"))
    name, about = visit.field("name").strip(), visit.field("about").strip()
    visit.allow_tool(name)  # a client that may not call a tool does not change what others call
    try:
        constants = {one.strip(): ... for one in visit.field("param").split(",") if one.strip()}
        past = await visit.engine.records.past_run(state.id)
        await visit.composer.catalogue.load()
        source = await visit.composer.tool_of(
            past, name, about or f"Made from run {short_id(state.id)}.", constants=constants
        )
        saved = await visit.composer.compose(source, scope="project")
    except (ComposerError, EngineError) as error:
        return await _save(visit, state, str(error))
    return visit.go(_address(visit, state), f"{saved.name}: version {saved.version}, its example passed")


def _address(visit: Visit, state: ExecutionState) -> str:
    return visit.url(f"/runs/{state.id}")
