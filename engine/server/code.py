"""Code mode over MCP: find tools, look at them, run code over them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastmcp.tools.base import ToolResult
from pydantic import Field, ValidationError

from composer import Composer, ComposerError
from composer.catalogue import show
from composer.codemode import CodeRun
from composer.errors import did_you_mean
from engine.errors import EngineError
from engine.explaining import explain
from engine.guests import GuestOrder, Guests
from engine.outcomes import OUTCOMES
from sandbox import SandboxError

if TYPE_CHECKING:
    from fastmcp import FastMCP

MAX_LIMIT = 50
MAX_CHARS = 10_000
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


def of_run(run: CodeRun) -> ToolResult:
    """A run as a result: what a model needs of it, and no more. Every field is bounded."""
    made: dict[str, Any] = {"status": run.status, "execution_id": run.id}
    if run.status == "completed":
        made["result"] = run.result
    if run.stdout:
        made["stdout"] = cut(run.stdout)
    if run.error is not None:
        made["error"] = cut((run.error.traceback or f"{run.error.kind}: {run.error.message}").strip())
        if run.error.hint:
            made["hint"] = cut(run.error.hint)
    if run.pending:
        made["pending"] = [{**pending.model_dump(mode="json"), "arguments": _short(pending.arguments)} for pending in run.pending]
        made["hint"] = f"a person must decide: engine_approve, or go-ent approve {run.id}; then engine_resume goes on"
    if run.help:
        made["help"] = run.help
    made["usage"] = {"wall_ms": round(run.usage.wall_ms, 1), "tool_calls": run.usage.tool_calls}
    return ToolResult(structured_content=made, is_error=OUTCOMES[run.status].is_error)


def cut(value: str) -> str:
    """The beginning and the end of a long text."""
    if len(value) <= MAX_CHARS:
        return value
    return f"{value[: MAX_CHARS // 2]}\n… [cut: {len(value) - MAX_CHARS} characters; print less] …\n{value[-MAX_CHARS // 2 :]}"


def _short(arguments: dict[str, Any]) -> Any:
    text = json.dumps(arguments, ensure_ascii=False, default=str)
    return arguments if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"


def add(server: FastMCP, composer: Composer, guests: Guests) -> None:
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
                found = await composer.catalogue.search(words, composer.grants, namespace=namespace, limit=limit)
            else:
                found = await composer.catalogue.tools(composer.grants, namespace)
        except ComposerError as error:
            return failed(str(error))
        problems = "".join(f"\n{origin} is not available: {problem}" for origin, problem in composer.catalogue.problems.items())
        more = f"\n… and {len(found) - limit} more: search with words, or by namespace" if len(found) > limit else ""
        return text((show(found[:limit], detail) if found else "no tool that is granted fits") + more + problems)

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    async def tool_schema(names: Annotated[list[str], Field(min_length=1, max_length=MAX_LIMIT, description="Full names.")]) -> ToolResult:
        """Typed stubs of tools: their parameters, what they return, what they do."""
        found, problems = [], []
        for name in names:
            try:
                found.append(await composer.catalogue.get(name, composer.grants))
            except ComposerError as error:
                problems.append(str(error) + did_you_mean(spec.name for spec in composer.catalogue.near(name, composer.grants)))
        if not found:
            return failed("\n".join(problems))
        return text(show(found, "stubs") + "".join(f"\n# {problem}" for problem in problems))

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
            order = GuestOrder(code=code, inputs=inputs or {}, session=session, limits=limits)
            run = await guests.run(order)
            return of_run(run if isinstance(run, CodeRun) else composer.code.present(run))
        except (ComposerError, SandboxError, EngineError) as error:
            return failed(str(error))
        except ValidationError as error:
            return failed(explain(error))
