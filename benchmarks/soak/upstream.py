"""The MCP server whose tools the soak's code calls: one that answers, and one that never does."""

from __future__ import annotations

import asyncio

from fastmcp import FastMCP
from mcp_types import ToolAnnotations

mcp = FastMCP("soak")
READ_ONLY = ToolAnnotations(read_only_hint=True)


@mcp.tool(annotations=READ_ONLY)
def add(a: int, b: int) -> int:
    """Two numbers, added."""
    return a + b


@mcp.tool(annotations=READ_ONLY)
async def hang(n: int) -> int:
    """Never come to an end."""
    await asyncio.Event().wait()
    return n


if __name__ == "__main__":
    mcp.run(show_banner=False)
