"""The MCP server: an agent explores the granted tools, runs code over them, and composes tools of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from composer import Composer


def make_server(composer: Composer) -> FastMCP:
    """A server over one project's composer. Whoever makes it closes the composer."""
    from fastmcp import FastMCP

    from engine.server import code, composed

    server: FastMCP = FastMCP("go-ent", instructions=INSTRUCTIONS)
    code.add(server, composer)
    composed.add(server, composer)
    return server


INSTRUCTIONS = """\
Write Python over the granted tools instead of calling them one by one. tool_search finds tools, tool_schema shows their
typed stubs, code_execute runs code that calls them as `await tools.namespace.name(...)`: whole Python and its standard
library, in a sandbox without network or files. The value of the last expression is the result. Code that worked can be
saved with tool_compose, and is a tool from then on."""
