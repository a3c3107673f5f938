"""Tools: composed ones with their source, examples, versions and use; those of servers; granting; a form to run one."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import field

from starlette.responses import Response

from go_ent.composer import Broken
from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.grants import check_pattern
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.composed.checks import ExampleOutcome
from go_ent.composer.composed.differences import source_diff
from go_ent.composer.composed.source import Composed
from go_ent.composer.composed.tool_store import ToolStore
from go_ent.composer.errors import ComposerError, NotGranted
from go_ent.composer.project.numbers import whole
from go_ent.dataclass import dataclass
from go_ent.engine.console.page import Page
from go_ent.engine.console.schema_form import fields_of, inputs_of
from go_ent.engine.console.visit import Refused, Viewer, Visit
from go_ent.engine.guest_runs.runs import GuestOrder, call_order
from go_ent.engine.settings import grants as settings
from go_ent.engine.setup.servers import Servers
from go_ent.engine.tokens import count

PAGE = Page("/tools", "Tools", order=30, key="t")
MOST_FOUND = 50
MOST_VERSIONS = 100
MOST_OF_A_SERVER = 500
PERIODS = {"24 h": 86_400.0, "7 days": 604_800.0, "30 days": 2_592_000.0}


@dataclass(slots=True)
class ServerRow:
    """A server or an API, as far as it is known without starting it."""

    name: str
    kind: str
    reached: str
    listed: float | None = None
    tools: list[str] = field(default_factory=list)
    granted: int = 0
    problem: str = ""
    remedy: str = ""


@PAGE.stamp("tools")
async def _stamp(viewer: Viewer, argument: str) -> str:
    grants = viewer.caller.grants(viewer.composer)
    rows = [
        f"{tool.name}{tool.scope}{tool.last_version if isinstance(tool, Broken) else tool.version}{used.calls}"
        for tool, used in await viewer.composer.tools()
        if grants.allows(tool.name)
    ]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


@PAGE.get()
async def tools(visit: Visit) -> Response:
    """All composed tools, what words find, and the servers."""
    await visit.follow("tools")
    grants = visit.caller.grants(visit.composer)
    words = visit.query("q")
    own = not visit.caller.name
    found = await visit.composer.catalogue.search(words, grants, limit=MOST_FOUND, others=own) if words.strip() else []
    composed = [row for row in await visit.composer.tools() if grants.allows(row[0].name)]
    if visit.query("by") == "calls":
        composed.sort(key=lambda row: -row[1].calls)
    return await visit.html(
        "tools.html",
        words=words,
        found=[(spec, grants.allows(spec.name)) for spec in found],
        shown=stubs.compact([spec for spec in found if grants.allows(spec.name)]) if found else "",
        composed=composed,
        by=visit.query("by"),
        outdated=await visit.composer.outdated(),
        servers=await _servers(visit) if own else [],
        own=own,
        about=stubs.about,
        tokens=count,
    )


@PAGE.get("/composed/{name}")
async def composed_tool(visit: Visit) -> Response:
    await visit.follow("tools")
    return await _show_composed(visit, visit.path("name"))


async def _show_composed(
    visit: Visit, name: str, outcomes: Sequence[ExampleOutcome] | None = None, problem: str = ""
) -> Response:
    visit.allow_tool(name)
    rows = {tool.name: (tool, used) for tool, used in await visit.composer.tools()}
    if name not in rows:
        raise Refused(404, f"there is no composed tool {name}", "its history may be there: go-ent tool history NAME")
    tool, used = rows[name]
    versions = (await visit.composer.history(name))[-MOST_VERSIONS:]
    numbers = {version.number for version in versions}
    new = visit.count("new", max(numbers, default=0), 1 << 30)
    old = visit.count("old", max((one for one in numbers if one < new), default=0), 1 << 30)
    grants = visit.caller.grants(visit.composer)
    callers = [one.name for one, _ in rows.values() if isinstance(one, Composed) and name in one.interface.requires]
    return await visit.html(
        "tool.html",
        tool=tool,
        used=used,
        source=await _source(visit, tool),
        broken=tool.reason if isinstance(tool, Broken) else "",
        versions=list(reversed(versions)),
        new=new,
        old=old,
        diff=await _diff(visit, tool, old, new) if {old, new} <= numbers else "",
        outcomes=outcomes,
        problem=problem,
        recent={said: (await _calls(visit, name, span)) for said, span in PERIODS.items()} if grants else {},
        fields=[] if isinstance(tool, Broken) else fields_of(tool.interface.input_schema, visit.form),
        requires=[] if isinstance(tool, Broken) else sorted(tool.interface.requires),
        callers=sorted(one for one in callers if grants.allows(one)),
        stub="" if isinstance(tool, Broken) else stubs.stub(tool.spec),
        tokens=count,
        may_change=visit.caller.may_compose,
    )


@PAGE.post("/composed/{name}/test")
async def test(visit: Visit) -> Response:
    """Run the examples, whose calls are answered from recordings."""
    name = visit.path("name")
    visit.allow_tool(name)
    try:
        outcomes = await visit.composer.test(name)
    except ComposerError as error:
        return await _show_composed(visit, name, problem=str(error))
    return await _show_composed(visit, name, outcomes)


@PAGE.post("/composed/{name}/rollback")
async def rollback(visit: Visit) -> Response:
    visit.allow(compose=True)
    name = visit.path("name")
    visit.allow_tool(name)
    version = _number(visit.field("version"))
    if not visit.sure:
        return await visit.confirm(
            f"Make version {version} of {name} the current one?",
            button="Roll back",
            detail=["It is saved as a new version: nothing is lost, and this can be undone the same way."],
        )
    made = await visit.composer.rollback(name, version, scope=visit.caller.scope)
    return visit.go(visit.url(f"/tools/composed/{name}"), f"version {made.number} has the content of version {version}")


@PAGE.post("/composed/{name}/remove")
async def remove(visit: Visit) -> Response:
    visit.allow(compose=True)
    name = visit.path("name")
    visit.allow_tool(name)
    if not visit.sure:
        return await visit.confirm(
            f"Remove the tool {name}?",
            button="Remove",
            danger=True,
            detail=["Its versions are kept: go-ent tool rollback brings it back."],
        )
    scope = await visit.composer.remove(name, scope=visit.caller.scope)
    return visit.go(visit.url("/tools"), f"{name} was removed from the {scope} store")


@PAGE.get("/of/{name}")
async def any_tool(visit: Visit) -> Response:
    """A tool of a server, an API or a program: what a model reads of it, and a form to call it."""
    name = visit.path("name")
    spec, granted = await _spec(visit, name)
    if not spec.namespace and name in visit.composer.composed.found:
        return visit.go(visit.url(f"/tools/composed/{name}"))
    patterns = await asyncio.to_thread(settings.written, visit.engine.project, "allow") if not visit.caller.name else []
    return await visit.html(
        "tool_of.html",
        spec=spec,
        granted=granted,
        pattern=name if name in patterns else "",
        approved=visit.composer.config.approve,
        stub=stubs.stub(spec),
        fields=fields_of(spec.input_schema, visit.form),
        tokens=count,
        own=not visit.caller.name,
    )


@PAGE.get("/servers/{name}")
async def server(visit: Visit) -> Response:
    visit.allow(own=True)
    name = visit.path("name")
    row = next((one for one in await _servers(visit) if one.name == name), None)
    if row is None:
        raise Refused(404, f"there is no server {name}")
    await visit.composer.catalogue.load_known()
    grants = visit.composer.grants
    known = await visit.composer.catalogue.tools(grants, name, others=True)
    return await visit.html(
        "tool_server.html",
        row=row,
        tools=[(spec, grants.allows(spec.name)) for spec in known[:MOST_OF_A_SERVER]],
        more=max(0, len(known) - MOST_OF_A_SERVER),
        about=stubs.about,
        tokens=count,
        compact=stubs.compact,
    )


@PAGE.post("/run/{name}")
async def run(visit: Visit) -> Response:
    """Run a tool with what was typed; its page is the run's."""
    name = visit.path("name")
    spec, granted = await _spec(visit, name)
    if not granted:
        raise NotGranted(name)
    try:
        inputs = inputs_of(spec.input_schema, visit.form)
    except Refused as refused:  # the form again, with what was typed
        visit.session.notice(str(refused), bad=True)
        shown = await (any_tool(visit) if spec.namespace else _show_composed(visit, name))
        shown.status_code = 400
        return shown
    order = GuestOrder(tool=name, inputs=inputs) if not spec.namespace else call_order(name, inputs)
    return visit.go(visit.url(f"/runs/{await visit.console.launches.launch(order, visit.caller)}"))


@PAGE.post("/grant")
async def grant(visit: Visit) -> Response:
    """Let code call a tool; only the project's own user may say so."""
    return await _change_grants(visit, "grant")


@PAGE.post("/revoke")
async def revoke(visit: Visit) -> Response:
    return await _change_grants(visit, "revoke")


async def _change_grants(visit: Visit, what: str) -> Response:
    visit.allow(own=True)
    pattern = check_pattern(visit.field("pattern"))
    approve = visit.field("approve") == "yes"
    if what == "revoke":
        problem = await asyncio.to_thread(settings.not_granted, visit.engine.project, pattern)
        if problem is not None:
            raise Refused(409, problem)
    if not visit.sure:
        ask = " and asks you before each call" if approve else ""
        said = f"Code and agents of this project may then call it{ask}." if what == "grant" else "Code may not call it."
        return await visit.confirm(
            f"{what.capitalize()} {pattern}?", button=what.capitalize(), detail=[said], danger=what == "revoke"
        )
    change = settings.revoke if what == "revoke" else lambda *given: settings.grant(*given, approve=approve)
    lines = await asyncio.to_thread(change, visit.engine.project, [pattern])
    await visit.composer.live_config.follow()
    done = f"{what}{'ed' if what == 'grant' else 'd'} {pattern}: .go-ent/config.toml has changed"
    return visit.go(visit.back(visit.url("/tools")), done if lines else "nothing was changed")


# -- how


async def _spec(visit: Visit, name: str) -> tuple[ToolSpec, bool]:
    """A tool by name, and whether the caller may call it. Others' are shown to the project's own user alone."""
    grants = visit.caller.grants(visit.composer)
    if name in visit.composer.composed.found and not visit.caller.name:
        return visit.composer.composed.found[name].spec, True
    if visit.caller.name or grants.allows(name):
        return await visit.composer.catalogue.get(name, grants), True
    return await visit.composer.catalogue.find(name), False


async def _servers(visit: Visit) -> list[ServerRow]:
    servers = await asyncio.to_thread(Servers, visit.engine.project, visit.composer.config)
    problems = visit.composer.catalogue.problems
    rows = [ServerRow(name, "", "", problem=why) for name, why in servers.config.unusable.items()]
    for name in servers.names:
        copy = await servers.copy(name)
        listed = [] if copy is None else [*copy.listing.entries]
        problem = next((why for origin, why in problems.items() if origin.endswith(f" {name}")), "")
        rows.append(
            ServerRow(
                name,
                servers.kind(name),
                servers.reached(name),
                None if copy is None else copy.listed,
                listed,
                sum(map(visit.composer.grants.allows, listed)),
                problem,
                servers.remedy(name) if problem else "",
            )
        )
    return rows


async def _source(visit: Visit, tool: Composed | Broken) -> str:
    return (
        tool.file.source if isinstance(tool, Composed) else await asyncio.to_thread(_store(visit, tool).text, tool.name)
    )


def _store(visit: Visit, tool: Composed | Broken) -> ToolStore:
    """The store that a tool is in."""
    return next(store for store in visit.composer.stores if store.scope == tool.scope)


async def _diff(visit: Visit, tool: Composed | Broken, old: int, new: int) -> str:
    """How one version became another."""
    version = _store(visit, tool).version
    before, after = [await asyncio.to_thread(version, tool.name, number) for number in (old, new)]
    return "\n".join(source_diff(before.source, after.source, (f"version {old}", f"version {new}")))


async def _calls(visit: Visit, name: str, span: float) -> int | None:
    """How often a tool was called in executions that are still there; of a client, that is not told."""
    if visit.caller.name:
        return None
    totals = await visit.engine.records.totals("tool", since=time.time() - span)
    return totals[name].count if name in totals else 0


def _number(text: str) -> int:
    number = whole(text)
    if number is None:
        raise Refused(400, f"{text[:40]!r} is no version")
    return number
