"""`go-ent console`: the console of one project on loopback, for the user who started it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from go_ent.composer.errors import ConfigError
from go_ent.engine.adapters.uvicorn_adapter import WAITING, WebServer, hardened, listening
from go_ent.engine.console.app import Console
from go_ent.engine.console.guard import Access
from go_ent.engine.console.page import Page
from go_ent.engine.server.calls.callers import LOCAL, Caller
from go_ent.engine.server.http.connections import Lobby, protocol
from go_ent.engine.server.http.peers import is_own

if TYPE_CHECKING:
    from go_ent.composer import Composer
    from go_ent.engine.engine import Engine

LOOPBACK = "127.0.0.1"
HEAD_BYTES = 32 << 10
HEAD_S = 20.0
MOST_CONNECTIONS = 512


def listen(port: int) -> socket.socket:
    """A socket on loopback; port 0 is any that is free. `ConfigError` if that can't be had."""
    try:
        return listening(LOOPBACK, port)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--port {port} can't be listened on: {getattr(error, 'strerror', None) or error}") from None


def local_console(engine: Engine, composer: Composer, pages: Iterable[Page], port: int) -> Console:
    """The console of the user who runs this process. Cookies know no ports, so its own has the port in its name."""
    hosts = frozenset(f"{name}:{port}" for name in (LOOPBACK, "localhost"))
    access = Access(hosts, is_own, cookie=f"go-ent-console-{port}")
    return Console(engine, composer, pages, access)


def clients_console(
    engine: Engine, composer: Composer, pages: Iterable[Page], whose: Callable[[str], Caller | None]
) -> Console | None:
    """The console of clients with `console = true`, behind the gate of `go-ent serve --http`; None if there are none.
    *whose* finds the client of a token.
    """
    allowed = {name for name, client in engine.config.serve.clients.items() if client.console}
    if not allowed or not engine.trusted:
        return None

    def login(token: str) -> Caller | None:
        caller = whose(token)
        return caller if caller is not None and caller.name in allowed else None

    return Console(engine, composer, pages, Access(None), login=login)


async def serve(console: Console, made: socket.socket, stop: asyncio.Event, started: Callable[[str], None]) -> None:
    """Serve until *stop* is set. *started* gets the address that opens the first session, once."""
    base = f"http://{LOOPBACK}:{made.getsockname()[1]}"
    config = hardened(console, protocol(Lobby(MOST_CONNECTIONS, HEAD_S)), HEAD_BYTES)
    web = WebServer(config, lambda: started(base + console.invite(LOCAL)), WAITING)
    try:
        await web.run_until(stop, made, console.close)
    finally:
        await console.close()
