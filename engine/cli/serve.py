"""`go-ent serve`: the MCP server of this folder's project, over stdio."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, NoReturn

from composer import Composer
from engine.cli.signals import on_signals

GRACE_S = 0.5  # for the server's own end; its thread may be reading from a stdin that never ends


def serve_command() -> int:
    """Serve this project to an MCP client over stdin and stdout. Logs go to stderr."""
    return asyncio.run(_serve())


async def _serve() -> int:
    """Serve until stdin ends, or a signal comes: then what was started is ended too. The second signal waits for nothing."""
    from engine.engine import Engine
    from engine.server import make_server

    asked: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()

    def heard(number: signal.Signals) -> None:
        if asked.done():
            _leave(number)
        asked.set_result(number)

    with on_signals(heard):
        composer = await asyncio.to_thread(Composer.open, ".")
        async with composer:
            engine = await asyncio.to_thread(Engine, composer.project, mode="mcp", composer=composer)
            async with engine:
                serving = asyncio.create_task(make_server(composer, engine).run_async("stdio", show_banner=False))
                waiting: set[asyncio.Future[Any]] = {serving, asked}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if asked.done():
                    serving.cancel()
        if asked.done():
            await asyncio.wait([serving], timeout=GRACE_S)
            _leave(asked.result())
        await serving
        return 0


def _leave(number: signal.Signals) -> NoReturn:
    """End now. Not through `sys.exit`: that waits for the thread that reads stdin."""
    os._exit(128 + number)
