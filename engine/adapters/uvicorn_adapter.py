"""uvicorn as we use it: our settings, its protocol for connections, and a server that leaves signals alone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol

__all__ = ["HttpProtocol", "WebServer", "hardened"]


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

    def stop_listening(self) -> None:
        """Take no new connections; those that are open go on."""
        for listening in self.servers:
            listening.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
