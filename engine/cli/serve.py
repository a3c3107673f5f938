"""`go-ent serve`: the MCP server of this folder's project, over stdio."""

from __future__ import annotations

import asyncio

from composer import Composer


def serve_command() -> int:
    """Serve this project to an MCP client over stdin and stdout. Logs go to stderr."""

    async def main() -> None:
        from engine.server import make_server

        composer = await asyncio.to_thread(Composer.open, ".")
        async with composer:
            await make_server(composer).run_async("stdio", show_banner=False)

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        return 130
    return 0
