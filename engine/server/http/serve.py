"""The MCP server over streamable HTTP: where it listens, who may come in, and how it ends."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import resource
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fastmcp.server.context import reset_transport, set_transport
from fastmcp.server.http import set_http_request
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from go_ent.composer.errors import ConfigError
from go_ent.dataclass import dataclass
from go_ent.engine.adapters.fastmcp_adapter import lowlevel_of
from go_ent.engine.adapters.mcp_adapter import SharedSessions
from go_ent.engine.adapters.uvicorn_adapter import WebServer, hardened, listening
from go_ent.engine.core.config import ServeConfig
from go_ent.engine.core.errors import BadAddress
from go_ent.engine.server.calls.callers import NOBODY, become
from go_ent.engine.server.calls.long_calls import end_calls
from go_ent.engine.server.http.admission import Admission
from go_ent.engine.server.http.connections import ROOM, Lobby, protocol
from go_ent.engine.server.http.gate import MCP, Gate, Rules, Site
from go_ent.engine.server.http.metrics import Metrics
from go_ent.engine.server.http.tokens import Tokens, names_of, read_tokens

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from go_ent.composer import Composer
    from go_ent.engine.engine import Engine

log = logging.getLogger("go_ent.engine.server")
ADDRESS = re.compile(r"(?:(?P<host>\[[^\[\]]+\]|[^:\[\]]*):)?(?P<port>[0-9]{1,5})")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEAD_BYTES = 64 << 10
IDLE_S = 30  # that a connection without a request is kept
RESERVE = 200  # files that everything else may need to have open: records, workers, servers
AT_ONCE = 4  # connections that are taken in one go: what is under way goes on in between
WAITING = 1024  # connections that the kernel keeps until then


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: as it was asked for, and the socket's own address."""

    name: str
    family: socket.AddressFamily
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        found = ipaddress.ip_address(self.host)
        mapped = getattr(found, "ipv4_mapped", None)
        return (mapped or found).is_loopback


def parse_address(text: str) -> Address:
    """`HOST:PORT`, or a port of loopback; port 0 is any that is free. Names are looked up."""
    match = ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65535:
        raise BadAddress(
            f"--http {text[:80]!r} is no address: write HOST:PORT, like 127.0.0.1:8000 or [::1]:8000, or only a port"
        )
    name = (match["host"] or LOOPBACK[0]).strip("[]").lower()
    try:
        found = socket.getaddrinfo(name, int(match["port"]), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BadAddress(f"--http {text[:80]!r}: there is no address {name}: {error}") from None
    family, _, _, _, (host, *_) = found[0]
    return Address(name, family, str(host), int(match["port"]))


def read_rules(
    config: ServeConfig,
    address: Address,
    engine: Engine,
    version: str,
    environ: Mapping[str, str],
    token_env: str | None,
) -> Rules:
    """Who is let in; `ConfigError` if that would be anybody, or nobody.

    What a folder says that nobody trusts makes no client, and lets no name and no page in. Nor does any folder where
    there are no tokens: the owner of a name can lead a browser of this user here by it.
    """
    trusted = engine.trusted
    if config.clients and not trusted and token_env is None:
        raise ConfigError(
            f"the clients of [serve.clients] are not let in, for nobody has trusted {engine.project}: look at "
            "its .go-ent/config.toml, "
            "then run go-ent trust there; or give a token of your own with --token-env VARIABLE"
        )
    tokens = read_tokens(config.clients if trusted else {}, engine.project, environ, everything_env=token_env)
    if not tokens and not address.is_loopback:
        raise ConfigError(
            f"{address.name} can be reached from other machines, so clients need a token: put one into "
            "a variable and pass "
            "--token-env VARIABLE, or name clients under [serve.clients.NAME] in .go-ent/config.toml; or "
            "listen on 127.0.0.1"
        )
    named = trusted and bool(tokens)
    hosts = {*LOOPBACK, address.name, *(config.hosts if named else ())}
    origins = frozenset(config.origins if named else ())
    return Rules(tokens, frozenset(hosts), origins, config.max_request_bytes, config.read_timeout_s, version)


def listen(address: Address) -> socket.socket:
    """A socket that listens there. `ConfigError` if that can't be had."""
    try:
        return listening(address.host, address.port, address.family)
    except OSError as error:
        raise ConfigError(
            f"--http {address.name}:{address.port} can't be listened on: {error.strerror or error}"
        ) from None


def connections(config: ServeConfig) -> int:
    """How many connections are kept: no more than leaves files to open for what runs."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return config.max_connections
    return min(config.max_connections, max(files - RESERVE - ROOM, files // 4, 1))


def url_of(made: socket.socket) -> str:
    host, port = made.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{MCP}"


def who(tokens: Tokens) -> str:
    """Who may call, for a person to read."""
    return (
        f"to clients with a token: {', '.join(names_of(tokens))}"
        if tokens
        else "to programs of this user, without a token"
    )


async def serve(
    server: FastMCP,
    composer: Composer,
    engine: Engine,
    made: socket.socket,
    rules: Rules,
    stop: asyncio.Event,
    started: Callable[[], None],
    site: Site | None = None,
) -> None:
    """Serve until *stop* is set. Then nobody is let in any more, executions are interrupted, and who waits is
    answered.
    """
    become(NOBODY)
    config = engine.config.serve
    callers = max(1, len(rules.tokens.known))
    composer.box.callers = callers
    manager = SharedSessions(
        callers,
        lowlevel_of(server),
        # The gate has seen to it; and more strictly.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=rules.max_bytes,
        max_sessions=config.max_sessions,
    )

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        transport = set_transport("streamable-http")
        try:
            with set_http_request(Request(scope)):
                await manager.handle_request(scope, receive, send)
        finally:
            reset_transport(transport)

    if (most := connections(config)) < config.max_connections:
        log.warning("no more than %d connections are kept: this process may not open more files (ulimit -n)", most)
    # Of bytes each client is sure of a whole request, however many clients there are.
    admission = Admission.of(most, max(config.max_waiting_bytes, 2 * callers * rules.max_bytes), callers)
    lobby = Lobby(most + ROOM, rules.read_s)
    gate = Gate(inner, rules, Metrics(server, composer, engine, rules.version), admission, lobby, site=site)
    web = WebServer(
        hardened(gate, protocol(lobby), HEAD_BYTES, timeout_keep_alive=IDLE_S, backlog=AT_ONCE),
        started,
        WAITING,
    )
    asyncio.get_running_loop().set_exception_handler(_accepting)
    async with manager.run():
        await web.run_until(stop, made, partial(_end, web, gate, engine, site))


async def _end(web: WebServer, gate: Gate, engine: Engine, site: Site | None) -> None:
    """Let nobody in, have what runs stop and say so, then end what is still open."""
    if site is not None:
        await site.close()
    gate.closing = True
    web.stop_listening()
    await end_calls(engine)
    await gate.close()


def _accepting(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A connection that can't be taken is no news: asyncio tries again by itself, and has a traceback for each try."""
    if str(context.get("message", "")).startswith("socket.accept()"):
        log.debug("a connection could not be taken: %s", context.get("exception"))
    else:
        loop.default_exception_handler(context)
