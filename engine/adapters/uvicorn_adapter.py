"""uvicorn as we use it: our settings, its protocol for connections, and a server that runs until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol

from go_ent.waiting import first_of

__all__ = ["HttpProtocol", "WebServer", "hardened", "listening"]

WAITING = 128  # connections that wait to be taken, before the server runs
LAST_S = 2.0  # that a server has to end


def listening(host: str, port: int, family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    """A socket that listens there. `OSError` or `OverflowError` if that can't be had."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(WAITING)
    except BaseException:
        made.close()
        raise
    return made


def hardened(app: ASGIApp, http: type[asyncio.Protocol], head_bytes: int, **options: Any) -> uvicorn.Config:
    """The settings of every server of ours: no web sockets, no lifespan, nothing said of itself, no proxy believed, a
    bound on the head of a request; what is under way has a second to end.
    """
    return uvicorn.Config(
        app,
        http=http,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=head_bytes,
        timeout_graceful_shutdown=1,
        **options,
    )


class WebServer(uvicorn.Server):
    """Signals are the command's business; *started* is told when it listens, with *backlog* connections waiting."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], backlog: int) -> None:
        super().__init__(config)
        self._started = started
        self._backlog = backlog

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(self._backlog)
        self._started()

    async def run_until(self, stop: asyncio.Event, made: socket.socket, last: Callable[[], Awaitable[None]]) -> None:
        """Serve on that socket until *stop* is set; then *last* ends what is still open."""
        serving = asyncio.create_task(self.serve(sockets=[made]))
        try:
            await first_of(serving, stop)
            if self.started and not serving.done():
                await last()
        finally:
            self.should_exit = True
            await asyncio.wait([serving], timeout=LAST_S)
            if serving.done():
                serving.result()

    def stop_listening(self) -> None:
        """Take no new connections; those that are open go on."""
        for listening in self.servers:
            listening.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
