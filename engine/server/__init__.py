"""The MCP server: an agent explores the granted tools, runs code over them, and composes tools of its own."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from go_ent.composer.sources.fastmcp_loading import load_fastmcp

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from go_ent.composer import Composer
    from go_ent.engine.engine import Engine

load_fastmcp()  # before a module of this package does


def make_server(composer: Composer, engine: Engine) -> FastMCP:
    """A server over one project's composer and engine. Whoever makes it closes both."""
    from fastmcp import FastMCP

    from go_ent.engine.adapters.fastmcp_adapter import keep_no_state
    from go_ent.engine.guest_runs.engine_tools import offer_summaries
    from go_ent.engine.server.calls.results import Arguments
    from go_ent.engine.server.calls.slim_schemas import Lean
    from go_ent.engine.server.calls.unknown_tools import Unknown
    from go_ent.engine.server.http.admission import Working
    from go_ent.engine.server.tools import authoring_prompt, changes, code, composed, context, named, resources
    from go_ent.engine.server.tools import engine as engine_tools

    offer_summaries(engine, composer)
    server: FastMCP = FastMCP("go-ent", instructions=INSTRUCTIONS, version=version("go-ent"))
    keep_no_state(server)
    server.add_middleware(Working())
    server.add_middleware(Arguments())
    server.add_middleware(Unknown(composer))
    server.add_middleware(Lean())
    code.add(server, composer, engine)
    composed.add(server, composer, engine)
    engine_tools.add(server, engine, composer)
    context.add(server, engine)
    resources.add(server, composer, engine)
    authoring_prompt.add(server, composer)
    changes.add(server, named.add(server, composer, engine))
    return server


INSTRUCTIONS = """\
Write Python over the granted tools instead of calling them one by one. tool_search finds tools, tool_schema shows their
typed stubs, code_execute runs code that calls them as `await tools.namespace.name(...)`: whole Python and its standard
library, in a sandbox without network or files. The value of the last expression is the result. Code that worked can be
saved with tool_compose, and is a tool from then on. engine_execute has another agent, a command or a graph of both do work,
within the project's budget."""  # noqa: E501
