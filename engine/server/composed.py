"""Composed tools over MCP: save, run, look after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastmcp.tools.base import ToolResult
from pydantic import Field

from composer import Broken, Composer, ComposeRefused, ComposerError
from engine.errors import EngineError
from engine.guests import GuestOrder, Guests
from engine.server.code import READ_ONLY, RUN, TEXT, cut, failed, of_run, text
from sandbox import SandboxError

if TYPE_CHECKING:
    from fastmcp import FastMCP

FORMAT = """\
A Python file: a `# /// tool` block with `# name = "..."`, closed by `# ///`; optionally an `# /// examples` block of JSON
objects {"inputs", "result", "calls": [{"tool", "arguments", "result"}]}; then the function of that name, every parameter and
the return typed, with a docstring. It calls tools as `await tools.namespace.name(...)`."""


def add(server: FastMCP, composer: Composer, guests: Guests) -> None:
    """Add the tools that save, run and show composed tools."""

    @server.tool(annotations={"idempotentHint": True, "destructiveHint": False, "openWorldHint": False}, output_schema=TEXT)
    async def tool_compose(
        source: Annotated[str, Field(description=FORMAT)],
    ) -> ToolResult:
        """Save a composed tool: checked, its examples run, versioned. Nothing is saved if anything is wrong."""
        try:
            saved = await composer.compose(source)
        except ComposeRefused as error:
            return failed(f"{error.name} was not saved:\n" + "\n".join(f"- {problem}" for problem in error.problems))
        except ComposerError as error:
            return failed(str(error))
        what = "saved as" if saved.created else "unchanged, still"
        return text(f"{saved.name}: {what} version {saved.version}; {saved.examples} examples passed")

    @server.tool(annotations={"openWorldHint": True}, output_schema=RUN)
    async def tool_run(name: str, inputs: dict[str, Any] | None = None) -> ToolResult:
        """Run a composed tool."""
        try:
            return of_run(composer.code.present(await guests.run(GuestOrder(tool=name, inputs=inputs or {}))))
        except (ComposerError, SandboxError, EngineError) as error:
            return failed(str(error))

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_list() -> ToolResult:
        """The composed tools there are."""
        lines = []
        for tool, used in await composer.tools():
            state = f"BROKEN: {tool.reason}" if isinstance(tool, Broken) else tool.interface.description.partition("\n")[0]
            lines.append(f"{tool.name} ({tool.scope}, {used.calls} calls): {state}")
        return text("\n".join(lines) or "none yet")

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_show(name: str) -> ToolResult:
        """The source of a composed tool."""
        try:
            return text((await composer.composed.get(name)).file.source)
        except ComposerError as error:
            return failed(str(error))

    _add_keeping(server, composer)


def _add_keeping(server: FastMCP, composer: Composer) -> None:
    """Those that look after what was saved."""

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_test(name: str) -> ToolResult:
        """Run the examples of a composed tool; their calls are answered from recordings."""
        try:
            outcomes = await composer.test(name)
        except ComposerError as error:
            return failed(str(error))
        lines = [f"example {one.number}: {'ok' if one.problem is None else one.problem}" for one in outcomes]
        said = "\n".join(lines) or "it has no examples"
        return text(said) if all(one.problem is None for one in outcomes) else failed(said)

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_history(name: str) -> ToolResult:
        """The versions of a composed tool, the oldest first."""
        try:
            versions = await composer.history(name)
        except ComposerError as error:
            return failed(str(error))
        current = composer.composed.found.get(name)
        now = current.version if current is not None else None
        return text("\n".join(f"version {v.number} {v.digest}{' (current)' if v.number == now else ''}" for v in versions))

    @server.tool(annotations={"idempotentHint": True, "destructiveHint": False, "openWorldHint": False}, output_schema=TEXT)
    async def tool_rollback(name: str, version: int) -> ToolResult:
        """Bring an earlier version of a composed tool back, as a new version with its content."""
        try:
            made = await composer.rollback(name, version)
        except ComposerError as error:
            return failed(str(error))
        return text(f"{name}: version {made.number} has the content of version {version}")

    @server.tool(annotations={"destructiveHint": True, "openWorldHint": False}, output_schema=TEXT)
    async def tool_delete(name: str) -> ToolResult:
        """Remove a composed tool. Its versions stay: tool_rollback brings it back."""
        try:
            scope = await composer.remove(name)
        except ComposerError as error:
            return failed(str(error))
        return text(f"{name}: removed from the {scope} store")

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_suggest() -> ToolResult:
        """Composed tools that code which was run again and again would make: save one with tool_compose."""
        try:
            found = await composer.suggest()
        except ComposerError as error:
            return failed(str(error))
        parts = [f"# from {one.runs} runs\n{one.source}" for one in found[:5]]
        return text(cut("\n\n".join(parts)) if parts else "nothing yet: no code was run at least twice in the same shape")
