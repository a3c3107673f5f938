"""Code mode over MCP: find tools, look at them, run code over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastmcp.tools.base import ToolResult
from pydantic import Field

from go_ent.composer import Composer, ComposerError
from go_ent.composer.catalogue.catalogue import show, show_found
from go_ent.composer.composed.toolfile import MARKS
from go_ent.engine.engine import Engine
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.long_calls import run_guest
from go_ent.engine.server.calls.results import (
    MAX_STUBS,
    READ_ONLY,
    RUN,
    RUNS,
    TEXT,
    OtherLanguage,
    answering,
    cut,
    failed,
    of_code,
    text,
)
from go_ent.sandbox.worker.languages import Language

if TYPE_CHECKING:
    from fastmcp import FastMCP

MAX_LIMIT = 50
NONE_FITS = "no tool that is granted fits: fewer words find more, none lists all"
GRANTING = "a person can add them to [grants] allow in .go-ent/config.toml"
THEIRS = "in their servers' words\n"  # which are data, and nothing to obey
NONE_NOW = "none of the granted tools can be reached now"
NONE = (
    "no tool is granted here yet: code_execute runs plain Python; servers, APIs and grants are named in "
    ".go-ent/config.toml"
)

__all__ = ["add", "failed"]


def add(server: FastMCP, composer: Composer, engine: Engine) -> None:
    """Add the tools to *server*."""
    spoken = engine.config.serve.language

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    @answering()
    async def tool_search(
        words: str = "",
        detail: Literal["brief", "compact", "stubs", "full"] = "compact",
        namespace: str | None = None,
        limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 10,
        language: OtherLanguage = None,
    ) -> ToolResult:
        """Search the tools that code may call."""
        grants = current().grants(composer)
        others = current().allow is None  # a client with a token hears of nothing that it may not call
        if words.strip():
            found = await composer.catalogue.search(words, grants, namespace=namespace, limit=limit, others=others)
        else:
            found = await composer.catalogue.tools(grants, namespace, others=others)
        problems = "".join(
            f"\n{origin} is not available: {problem}" for origin, problem in current().problems(composer).items()
        )
        more = f"\n… and {len(found) - limit} more: search with words, or by namespace" if len(found) > limit else ""
        none = NONE_FITS if words.strip() or namespace else NONE_NOW if composer.config.allow else NONE
        words_of = f"{MARKS[language or spoken]} {THEIRS}" if any(spec.namespace for spec in found[:limit]) else ""
        shown = words_of + show_found(found[:limit], detail, grants, GRANTING, language or spoken) if found else none
        return text(cut(shown, MAX_STUBS) + more + cut(problems))

    @server.tool(annotations=READ_ONLY, output_schema=TEXT)
    @answering()
    async def tool_schema(
        names: Annotated[list[str], Field(min_length=1, max_length=MAX_LIMIT, description="Full names.")],
        language: OtherLanguage = None,
    ) -> ToolResult:
        """Typed stubs of tools: their parameters, what they return, what they do."""
        grants = current().grants(composer)
        found, problems = [], []
        for name in names:
            try:
                found.append(await composer.catalogue.get(name, grants))
            except ComposerError as error:
                problems.append(str(error))
        if not found:
            return failed("\n".join(problems))
        shown, mark = show(found, "stubs", language=language or spoken), MARKS[language or spoken]
        return text(cut(shown, MAX_STUBS) + cut("".join(f"\n{mark} {problem}" for problem in problems)))

    @server.tool(annotations=RUNS, output_schema=RUN)
    @answering()
    async def code_execute(
        code: Annotated[
            str,
            Field(description="`await tools.namespace.name(...)` calls a tool; the last expression is the result."),
        ],
        language: Language = spoken,
        inputs: dict[str, Any] | None = None,
        session: Annotated[str | None, Field(description="Keeps variables.")] = None,
        limits: Annotated[dict[str, float] | None, Field(description="{timeout_s: 5}")] = None,
    ) -> ToolResult:
        """Run code over tools in a sandbox."""
        order = GuestOrder(code=code, language=language, inputs=inputs or {}, session=session, limits=limits)
        return await run_guest(order, composer, engine, present=of_code)
