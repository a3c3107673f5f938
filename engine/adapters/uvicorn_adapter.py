"""uvicorn's private parts that we use: its protocol for connections, and a server that leaves signals alone."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol

__all__ = ["HttpProtocol", "WebServer"]


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
