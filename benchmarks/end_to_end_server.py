"""A server for `end_to_end_bench`, over stdio: ours in a project, or FastMCP's CodeMode; each with a tool that does nothing."""

from __future__ import annotations

import sys
from pathlib import Path


def noop() -> int:
    """Nothing."""
    return 2


async def ours(project: Path) -> None:
    from go_ent.composer import Composer
    from go_ent.engine import Engine
    from go_ent.engine.server import make_server, stdio

    async with Composer(project, trusted=True) as composer, Engine(project, composer=composer, trusted=True) as engine:
        server = make_server(composer, engine)
        server.tool(noop)
        server.tool(noop, name="tool_noop")  # a name of ours: called as our own tools are
        await stdio.serve(server)


async def peer() -> None:
    from fastmcp import FastMCP
    from fastmcp.experimental.transforms.code_mode import CodeMode

    server = FastMCP("peer")
    server.tool(noop)
    server.add_transform(CodeMode())
    await server.run_async("stdio", show_banner=False)


if __name__ == "__main__":
    import asyncio

    asyncio.run(ours(Path(sys.argv[2])) if sys.argv[1] == "ours" else peer())
