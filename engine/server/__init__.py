"""The MCP server: an agent explores the granted tools, runs code over them, and composes tools of its own."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from go_ent.composer.sources.fastmcp_loading import load_fastmcp

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from go_ent.composer import Composer
    from go_ent.engine.core.config import Profile
    from go_ent.engine.engine import Engine

load_fastmcp()  # before a module of this package does


def make_server(composer: Composer, engine: Engine, *, profile: Profile | None = None) -> FastMCP:
    """A server over one project's composer and engine. The caller closes both. *profile* is what it lists, if not
    what the project's configuration says.
    """
    from fastmcp import FastMCP
    from mcp_types import CallToolRequestParams

    from go_ent.engine.adapters.fastmcp_adapter import keep_no_state, plain_docstrings, take_over
    from go_ent.engine.guest_runs.engine_tools import offer_summaries
    from go_ent.engine.server.calls.slim_schemas import Lean
    from go_ent.engine.server.calls.tool_calls import ToolCalls
    from go_ent.engine.server.http.admission import Working, hold
    from go_ent.engine.server.tools import (
        authoring_prompt,
        changes,
        code,
        composed,
        context,
        direct,
        named,
        offer,
        resources,
    )
    from go_ent.engine.server.tools import engine as engine_tools

    offer_summaries(engine, composer)
    config = engine.config.serve
    profile = profile or config.profile
    said = IN_PYTHON if config.language == "python" else IN_JAVASCRIPT
    said += INSTRUCTIONS if profile == "code" else INSTRUCTIONS + OF_THE_ENGINE
    server: FastMCP = FastMCP("go-ent", instructions=said, version=version("go-ent"))
    keep_no_state(server)
    server.add_middleware(Working())
    server.add_middleware(Lean())
    offered = offer.add(server, composer, config, profile)
    with plain_docstrings():
        code.add(server, composer, engine)
        composed.add(server, composer, engine)
        engine_tools.add(server, engine, composer)
        context.add(server, engine)
        resources.add(server, composer, engine)
        authoring_prompt.add(server, composer)
    offered.composed = tools = named.add(server, composer, engine)
    exposed = direct.add(server, composer, engine)
    changed = changes.add(server, tools, exposed, offered)
    calls = ToolCalls(server, composer, (tools.find, exposed.find), called=changed.called, hold=hold)
    calls.otherwise = take_over(server, "tools/call", CallToolRequestParams, calls.answer)
    return server


IN_PYTHON = (
    "Write Python with code_execute instead of calling tools one by one: all of the standard library, no network. "
)
IN_JAVASCRIPT = (
    "Write TypeScript with code_execute instead of calling tools one by one: ES2024, no network, no packages. "
)
INSTRUCTIONS = "tool_search finds tools; tool_compose saves code that worked as a tool."
OF_THE_ENGINE = " engine_execute has another agent, a command or a graph of both do work, within the project's budget."
