"""Composed tools over MCP: save, run, look after them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from fastmcp.tools.base import ToolResult
from pydantic import Field

from go_ent.composer import Broken, Composer
from go_ent.composer.catalogue.catalogue import show
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.suggest import Wanted
from go_ent.composer.errors import ComposeRefused, NotGranted
from go_ent.engine.core.errors import NotAllowed
from go_ent.engine.engine import Engine
from go_ent.engine.executions.past_runs import past_run
from go_ent.engine.guest_runs.runs import GuestOrder, call_order
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.long_calls import run_guest
from go_ent.engine.server.calls.results import (
    BOOLEAN,
    INTEGER,
    KEEPS,
    MAX_STUBS,
    READ_ONLY,
    RUN,
    RUNS,
    STRING,
    OtherLanguage,
    answering,
    cut,
    rows,
    said,
    shape,
)

if TYPE_CHECKING:
    from fastmcp import FastMCP

FORMAT = (
    '`# /// tool`, `# name = "N"`, `# ///`, optional `# /// examples` of JSON {inputs, result, calls}, then the typed '
    "function N with docstring. TypeScript: `// ///`, an exported function."
)
SAVED = shape("name", "version", name=STRING, version=INTEGER, created=BOOLEAN, examples=INTEGER)
LISTED = rows(
    "name",
    "scope",
    "calls",
    name=STRING,
    scope=STRING,
    calls=INTEGER,
    description=STRING,
    broken=STRING,
    changed={"type": "array", "items": STRING},
)
SOURCE = shape(
    "name", "source", name=STRING, version=INTEGER, scope=STRING, language=STRING, origin=STRING, source=STRING
)
TESTED = shape(
    "name", "examples", name=STRING, examples=rows("number", "ok", number=INTEGER, ok=BOOLEAN, problem=STRING)
)
VERSIONS = rows("version", "digest", "current", version=INTEGER, digest=STRING, current=BOOLEAN)
SUGGESTED = shape("suggestions", suggestions=rows("runs", "source", runs=INTEGER, source=STRING))
MOST_VERSIONS = 100
MOST_SUGGESTED = 5


def add(server: FastMCP, composer: Composer, engine: Engine) -> None:
    """Add the tools that save, run and show composed tools."""

    @server.tool(annotations=KEEPS, output_schema=SAVED)
    @answering("compose")
    async def tool_compose(
        source: Annotated[str | None, Field(description=FORMAT)] = None,
        from_execution: Annotated[
            str | None, Field(description="Or its code, as name; params: its constants to take.")
        ] = None,
        name: str | None = None,
        about: str | None = None,
        params: dict[str, Any] | None = None,
        language: OtherLanguage = None,
    ) -> ToolResult:
        """Save code that worked as a tool."""
        caller = current()
        wanted = None if name is None else Wanted(name, about or "", params or {})
        source = await _source(composer, engine, source, from_execution, wanted)
        if caller.allow is not None:
            _granted(
                composer, toolfile.read(source, language=language).name
            )  # a client that may not call a tool does not change what others call
        saved = await composer.compose(source, scope=caller.scope or "project", language=language)
        what = "saved as" if saved.created else "unchanged, still"
        words = (
            f"{saved.name}: {what} version {saved.version}; {saved.examples} "
            f"{'example' if saved.examples == 1 else 'examples'} passed"
        )
        return said(words, name=saved.name, version=saved.version, created=saved.created, examples=saved.examples)

    @server.tool(annotations=RUNS, output_schema=RUN)
    @answering()
    async def tool_run(name: str, inputs: dict[str, Any] | None = None) -> ToolResult:
        """Run any granted tool by name: a composed one, listed or not, or one of a server or an API."""
        _granted(composer, name)
        if await composer.is_elsewhere(name):
            spec = await composer.catalogue.get(name, current().grants(composer))
            return await run_guest(call_order(spec.name, inputs or {}), composer, engine)
        return await run_guest(GuestOrder(tool=name, inputs=inputs or {}), composer, engine)

    @server.tool(annotations=READ_ONLY, output_schema=shape("tools", tools=LISTED))
    @answering()
    async def tool_list() -> ToolResult:
        """List all composed tools, including those not listed by name."""
        lines, found = await _listed(composer)
        return said("\n".join(lines) or "none yet", tools=found)

    @server.tool(annotations=READ_ONLY, output_schema=SOURCE)
    @answering()
    async def tool_show(name: str) -> ToolResult:
        """The source of a composed tool, or the typed stub of any other that is granted."""
        _granted(composer, name)
        if await composer.is_elsewhere(name):
            spec = await composer.catalogue.get(name, current().grants(composer))
            stub = cut(show([spec], "stubs", language=engine.config.serve.language), MAX_STUBS)
            return said(stub, name=spec.name, origin=spec.origin, source=stub)
        tool = await composer.composed.get(name)
        about = {"name": tool.name, "version": tool.version, "scope": tool.scope, "language": tool.language}
        return said(tool.file.source, **about, source=tool.file.source)

    _add_keeping(server, composer)


async def _listed(composer: Composer) -> tuple[list[str], list[dict[str, Any]]]:
    """The caller's composed tools, as lines and as rows."""
    grants = current().grants(composer)
    lines: list[str] = []
    found: list[dict[str, Any]] = []
    outdated = await composer.outdated()
    for tool, used in await composer.tools():
        if not grants.allows(tool.name):
            continue
        row: dict[str, Any] = {"name": tool.name, "scope": tool.scope, "calls": used.calls}
        if isinstance(tool, Broken):
            row["broken"] = state = cut(tool.reason, 500)
            state = f"BROKEN: {state}"
        else:
            row["description"] = state = cut(tool.interface.description.partition("\n")[0], 500)
        if changed := [name for name in outdated.get(tool.name, []) if grants.allows(name)]:
            row["changed"] = changed
            state += f" ({', '.join(changed)}, which it requires, changed since: tool_test)"
        found.append(row)
        lines.append(f"{tool.name} ({tool.scope}, {used.calls} calls): {state}")
    return lines, found


async def _source(
    composer: Composer, engine: Engine, source: str | None, execution: str | None, wanted: Wanted | None
) -> str:
    """What is to be saved: what was given, or what an execution of the caller's ran."""
    if source is not None and execution is None and wanted is None:
        return source
    if source is not None or execution is None or wanted is None:
        raise ComposeRefused("the tool", ["give its source, or from_execution and a name"])
    state = await current().find(engine, execution)
    run = await asyncio.to_thread(past_run, engine.store, state.id)
    about = wanted.about or f"Made from execution {state.id}."
    return await composer.tool_of(run, wanted.name, about, constants=wanted.constants)


def _granted(composer: Composer, name: str) -> None:
    """Refuse a client with a token what its token does not name. The project's own user has all composed tools."""
    if current().allow is not None and not current().grants(composer).allows(name):
        raise NotGranted(name)


def _add_keeping(server: FastMCP, composer: Composer) -> None:
    """Those that look after what was saved."""

    @server.tool(annotations=READ_ONLY, output_schema=TESTED)
    @answering()
    async def tool_test(name: str) -> ToolResult:
        """Run the examples of a composed tool; their calls are answered from recordings."""
        _granted(composer, name)
        outcomes = await composer.test(name)
        found = [{"number": one.number, "ok": one.problem is None} | _problem(one.told) for one in outcomes]
        lines = [f"example {one['number']}: {one.get('problem', 'ok')}" for one in found]
        made = said("\n".join(lines) or "it has no examples", name=name, examples=found)
        made.is_error = not all(one["ok"] for one in found)
        return made

    @server.tool(annotations=READ_ONLY, output_schema=shape("name", "versions", name=STRING, versions=VERSIONS))
    @answering()
    async def tool_history(name: str) -> ToolResult:
        """List a composed tool's versions, oldest first."""
        _granted(composer, name)
        versions = (await composer.history(name))[-MOST_VERSIONS:]
        current_tool = composer.composed.found.get(name)
        now = current_tool.version if current_tool is not None else None
        lines = [f"version {v.number} {v.digest}{' (current)' if v.number == now else ''}" for v in versions]
        found = [{"version": v.number, "digest": v.digest, "current": v.number == now} for v in versions]
        return said("\n".join(lines), name=name, versions=found)

    @server.tool(
        annotations={**KEEPS, "idempotentHint": False},
        output_schema=shape("name", "version", name=STRING, version=INTEGER, of=INTEGER),
    )
    @answering("compose")
    async def tool_rollback(name: str, version: int) -> ToolResult:
        """Restore an earlier version of a composed tool, as a new version."""
        _granted(composer, name)
        made = await composer.rollback(name, version, scope=current().scope)
        return said(
            f"{name}: version {made.number} has the content of version {version}",
            name=name,
            version=made.number,
            of=version,
        )

    @server.tool(
        annotations={**KEEPS, "destructiveHint": True}, output_schema=shape("name", "scope", name=STRING, scope=STRING)
    )
    @answering("compose")
    async def tool_delete(name: str) -> ToolResult:
        """Delete a composed tool. tool_rollback restores it."""
        _granted(composer, name)
        scope = await composer.remove(name, scope=current().scope)
        return said(f"{name}: removed from the {scope} store", name=name, scope=scope)

    @server.tool(annotations=READ_ONLY, output_schema=SUGGESTED)
    @answering("compose")
    async def tool_suggest() -> ToolResult:
        """Propose composed tools from code that was run repeatedly; save one with tool_compose."""
        if current().name:
            raise NotAllowed("what others have run is not shown to a client with a token")
        found = (await composer.suggest())[:MOST_SUGGESTED]
        parts = [f"# from {one.runs} runs\n{cut(one.source)}" for one in found]
        words = "\n\n".join(parts) or "nothing yet: no code was run at least twice in the same shape"
        return said(words, suggestions=[{"runs": one.runs, "source": cut(one.source)} for one in found])


def _problem(problem: str | None) -> dict[str, Any]:
    return {} if problem is None else {"problem": cut(problem, 2000)}
