"""fastmcp's private parts that we use: the protocol's own server, which takes handlers and middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from mcp.server import Server


def lowlevel_of(server: FastMCP) -> Server[Any]:
    """The server of the mcp library that a FastMCP is built on."""
    return server._mcp_server
