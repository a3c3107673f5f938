"""What the server offers: thin. Each function calls the composer and says what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastmcp.tools.base import ToolResult
from pydantic import Field

from composer import Composer, ComposeRefused, ComposerError
from composer.catalogue import show
from sandbox import Run, SandboxError

if TYPE_CHECKING:
    from fastmcp import FastMCP

MAX_LIMIT = 50
READ_ONLY = {"readOnlyHint": True, "openWorldHint": False}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
RUN = {
    "type": "object",
    "properties": {"status": {"type": "string"}, "result": {}, "stdout": {"type": "string"}, "error": {"type": "string"}},
    "required": ["status"],
}


def failed(message: str) -> ToolResult:
    """A failure that the model can act on."""
    return ToolResult(content=message, is_error=True)


def text(value: str, **more: Any) -> ToolResult:
    return ToolResult(content=value, structured_content={"text": value, **more})


def of_run(run: Run) -> ToolResult:
    """A run as a result: what a model needs of it, and no more."""
    made: dict[str, Any] = {"status": run.status}
    if run.status == "completed":
        made["result"] = run.result
    if run.stdout:
        made["stdout"] = run.stdout
    if run.error is not None:
        made["error"] = f"{run.error.traceback or ''}{'' if run.error.traceback else f'{run.error.kind}: {run.error.message}'}".strip()
        if run.error.hint:
            made["hint"] = run.error.hint
    if run.pending:
        made["pending"] = [pending.model_dump(mode="json") for pending in run.pending]
    help_ = getattr(run, "help", None)
    if help_:
        made["help"] = help_
    made["usage"] = {"wall_ms": round(run.usage.wall_ms, 1), "tool_calls": run.usage.tool_calls}
    return ToolResult(structured_content=made, is_error=run.status not in ("completed", "paused"))


def add(server: FastMCP, composer: Composer) -> None:
    """Add the tools to *server*."""

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_search(
        words: Annotated[str, Field(description="What the tool should do; empty lists all.")] = "",
        detail: Annotated[Literal["brief", "stubs", "full"], Field(description="A line each, typed stubs, or schemas too.")] = "brief",
        namespace: Annotated[str | None, Field(description="Only this namespace.")] = None,
        limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 10,
    ) -> ToolResult:
        """Search the tools that code may call."""
        try:
            if words.strip():
                found = await composer.catalogue.search(words, composer.grants, limit=limit)
                found = [spec for spec in found if namespace is None or spec.name.startswith(f"{namespace}.")]
            else:
                found = (await composer.catalogue.tools(composer.grants, namespace))[:limit]
        except ComposerError as error:
            return failed(str(error))
        problems = "".join(f"\n{origin} is not available: {problem}" for origin, problem in composer.catalogue.problems.items())
        return text((show(found, detail) if found else "no tool fits") + problems)

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_schema(names: Annotated[list[str], Field(min_length=1, max_length=MAX_LIMIT, description="Full names.")]) -> ToolResult:
        """Typed stubs of tools: their parameters, what they return, what they do."""
        try:
            found = [await composer.catalogue.get(name, composer.grants) for name in names]
        except ComposerError as error:
            return failed(str(error))
        return text(show(found, "stubs"))

    @server.tool(annotations={"openWorldHint": True}, output_schema=RUN)
    async def code_execute(
        code: Annotated[
            str, Field(description="Python. Call tools as `await tools.namespace.name(...)`; the last expression is the result.")
        ],
        inputs: Annotated[dict[str, Any] | None, Field(description="Variables for the code.")] = None,
        session: Annotated[str | None, Field(description="Keep variables between calls under this name.")] = None,
        limits: Annotated[dict[str, float] | None, Field(description="Narrower limits: timeout_s, cpu_s, memory_mb …")] = None,
    ) -> ToolResult:
        """Run Python over the granted tools in a sandbox: fresh each time, or in a named session."""
        try:
            return of_run(await composer.code.execute(code, inputs, session=session, limits=limits))
        except (ComposerError, SandboxError) as error:
            return failed(str(error))

    @server.tool(annotations={"idempotentHint": True, "destructiveHint": False, "openWorldHint": False}, output_schema=TEXT)
    async def tool_compose(
        source: Annotated[str, Field(description="A Python file with a `# /// tool` block; see tool_show of any tool.")],
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
            return of_run(await composer.run(name, inputs))
        except (ComposerError, SandboxError) as error:
            return failed(str(error))

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_list() -> ToolResult:
        """The composed tools there are."""
        lines = []
        for tool, used in await composer.tools():
            state = f"BROKEN: {tool.reason}" if hasattr(tool, "reason") else tool.interface.description.partition("\n")[0]
            lines.append(f"{tool.name} ({tool.scope}, {used.calls} calls): {state}")
        return text("\n".join(lines) or "none yet")

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_show(name: str) -> ToolResult:
        """The source of a composed tool."""
        try:
            return text((await composer.composed.get(name)).file.source)
        except ComposerError as error:
            return failed(str(error))
