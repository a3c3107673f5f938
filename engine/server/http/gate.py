"""The gate before everything that is served over HTTP: who may come in, how much they may bring, and for how long.

In this order: the name and the page that a request comes for (a browser must not be led here by somebody's page), where
it goes, who sends it, what it brings. What is behind the gate never sees a token.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import field
from typing import Any, Protocol

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from go_ent.composer.project.numbers import whole
from go_ent.dataclass import dataclass
from go_ent.engine.server.calls.callers import NOBODY, REMOTE, Caller, become
from go_ent.engine.server.http.admission import TICKET, Admission, Busy, Ticket
from go_ent.engine.server.http.connections import Lobby
from go_ent.engine.server.http.metrics import CONTENT_TYPE, Metrics
from go_ent.engine.server.http.peers import is_own
from go_ent.engine.server.http.tokens import Tokens
from go_ent.waiting import first_of

log = logging.getLogger("go_ent.engine.server")
MCP, CONSOLE = "/mcp", "/console"
METHODS = {MCP: ("GET", "POST", "DELETE"), "/healthz": ("GET", "HEAD"), "/metrics": ("GET", "HEAD")}
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?")
DRAIN_BYTES = 256 << 10  # of a refused request: who still sends would not hear why it was refused
DRAIN_S = 0.5
BUSY_S = 0.25
WAIT_S = 60.0


class ConnectionRefused(Exception):
    """Internal: raised when a request is not let in. It becomes a reply of that status."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


@dataclass(frozen=True, slots=True)
class Rules:
    """Who is let in. Without any tokens: this user's programs, on this machine."""

    tokens: Tokens
    hosts: frozenset[str]  # names by which it may be asked for, beside the address itself
    origins: frozenset[str]  # of pages that may ask, beside its own
    max_bytes: int
    read_s: float
    version: str


@dataclass(slots=True)
class _Answer:
    """What was said so far to a request."""

    send: Send
    status: int = 0
    complete: bool = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True
        await self.send(message)


@dataclass(slots=True)
class _Request:
    """What comes of a request."""

    receive: Receive
    whole: bool = False

    async def __call__(self) -> Message:
        message = await self.receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.whole = True
        return message


class Site(Protocol):
    """Pages below `/console` that look after their own sessions: a browser sends no token, but a cookie."""

    def caller_of(self, scope: Scope) -> Caller | None:
        """Whose session a request is of."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request: a stranger's with the way in, and nothing else."""

    async def close(self) -> None:
        """End what is open."""


@dataclass(slots=True)
class Gate:
    """The application that is served; *inner* is what speaks MCP, *site* the console, where there is one."""

    inner: ASGIApp
    rules: Rules
    metrics: Metrics
    admission: Admission
    lobby: Lobby
    closing: bool = False
    site: Site | None = None
    _ended: set[asyncio.Task[object]] = field(
        default_factory=set
    )  # streams that were closed for another request of their client's
    _under_way: set[asyncio.Task[object]] = field(default_factory=set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        become(NOBODY)
        answer, request = _Answer(send), _Request(receive)
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            await self._answer(scope, request, answer)
        except ConnectionRefused as refused:
            if (b"expect", b"100-continue") not in scope["headers"]:  # who waits to be asked for it does not send yet
                await _drain(request)
            await _say(
                answer, refused.status, {"error": str(refused)}, scope["method"], connection="close", **refused.headers
            )
        except asyncio.CancelledError:
            if not self.closing and task not in self._ended:
                raise
            task.uncancel()
            await self._goodbye(answer, scope["method"])
        finally:
            self._under_way.discard(task)
            self._ended.discard(task)
            self.metrics.answered(answer.status)

    async def close(self) -> None:
        """End every request that is under way: it is told so, or its stream ends."""
        self.closing = True
        mine = [task for task in self._under_way if task is not asyncio.current_task()]
        for task in mine:
            task.cancel()
        if mine:
            await asyncio.wait(mine, timeout=DRAIN_S)

    async def _goodbye(self, answer: _Answer, method: str) -> None:
        with contextlib.suppress(Exception):  # a client that is gone is told nothing
            if not answer.status:
                await _say(
                    answer,
                    503,
                    {"error": "go-ent is shutting down; what was under way can be resumed"},
                    method,
                    connection="close",
                )
            elif not answer.complete:
                await answer({"type": "http.response.body", "body": b"", "more_body": False})

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        if self.closing:
            raise ConnectionRefused(503, "go-ent is shutting down")
        headers = _headers(scope)
        self._check_page(scope, headers)
        path, method = scope["path"], scope["method"]
        if self.site is not None and (path == CONSOLE or path.startswith(f"{CONSOLE}/")):
            await self._show(self.site, scope, receive, answer)
            return
        if path not in METHODS:
            raise ConnectionRefused(404, f"there is nothing here; MCP is at {MCP}")
        if method not in METHODS[path]:
            raise ConnectionRefused(405, f"{path} takes {', '.join(METHODS[path])}", allow=", ".join(METHODS[path]))
        if path == "/healthz":
            await _say(answer, 200, {"ok": True, "version": self.rules.version}, method)
            return
        caller = await self._caller(scope, headers)
        try:
            with self._admitted(scope, caller) as ticket:
                if path == "/metrics":
                    await _send(answer, 200, (await self.metrics.text()).encode(), CONTENT_TYPE, method)
                else:
                    await self._serve(scope, headers, receive, answer, caller, ticket)
        except Busy as busy:
            await asyncio.sleep(BUSY_S)  # who asks again at once has less of it
            raise ConnectionRefused(429, str(busy), **{"retry-after": "1"}) from None

    async def _show(self, site: Site, scope: Scope, receive: Receive, answer: _Answer) -> None:
        """Have the console answer. A session's requests count as its client's, like any other."""
        inside = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"authorization"]}
        caller = site.caller_of(inside)
        if caller is None:
            await site(inside, receive, answer)
            return
        try:
            with self._admitted(scope, caller):
                await site(inside, receive, answer)
        except Busy as busy:
            raise ConnectionRefused(429, str(busy), **{"retry-after": "1"}) from None

    @contextlib.contextmanager
    def _admitted(self, scope: Scope, caller: Caller) -> Iterator[Ticket]:
        """Count a request as its client's, and its connection."""
        task = asyncio.current_task()
        assert task is not None

        def end() -> None:
            self._ended.add(task)
            task.cancel()

        listens = scope["path"] in (MCP, f"{CONSOLE}/events") and scope["method"] == "GET"
        ticket = self.admission.enter(caller.name, end if listens else None)
        connection = scope.get("state", {}).get("connection")
        try:
            if connection is not None:
                self.lobby.use(connection, f"client {caller.name}")
            yield ticket
        finally:
            ticket.let_go()
            if connection is not None:
                self.lobby.rest(connection)

    async def _serve(
        self,
        scope: Scope,
        headers: dict[bytes, list[str]],
        receive: Receive,
        answer: _Answer,
        caller: Caller,
        ticket: Ticket,
    ) -> None:
        body = await self._body(headers, receive, ticket)
        if (turn := ticket.turn()) is not None:
            await _wait(turn, receive)
        if (room := ticket.room(body)) is not None:
            await _wait(room, receive)
        become(caller)
        TICKET.set(ticket)
        inside = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"authorization"]}
        if self.rules.tokens:  # a session is tied to who has opened it
            inside["user"] = AuthenticatedUser(AccessToken(token="", client_id=f"client {caller.name}", scopes=[]))
        await self.inner(inside, _given(body, receive), answer)

    def _check_page(self, scope: Scope, headers: dict[bytes, list[str]]) -> None:
        """Refuse a request for another name, and one from another's page: both are how a web page would reach in."""
        hosts = headers.get(b"host", [])
        match = HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        host = match[1].strip("[]") if match else ""
        if not (host in self.rules.hosts or _same_address(host, scope)):
            raise ConnectionRefused(
                421,
                "this server goes by another name: ask for its address, or add the name to [serve] hosts, "
                "where there are tokens",
            )
        for origin in headers.get(b"origin", []):
            if origin not in self.rules.origins and origin not in (
                f"http://{hosts[0].lower()}",
                f"https://{hosts[0].lower()}",
            ):
                raise ConnectionRefused(
                    403,
                    "a page of another origin may not call this server: add its origin to [serve] origins, "
                    "where there are tokens",
                )

    async def _caller(self, scope: Scope, headers: dict[bytes, list[str]]) -> Caller:
        if self.rules.tokens:
            caller = self._by_token(headers.get(b"authorization", []))
            if caller is None:
                said = (
                    "this token is not known"
                    if headers.get(b"authorization")
                    else "a token is needed: Authorization: Bearer TOKEN"
                )
                raise ConnectionRefused(401, said, **{"www-authenticate": 'Bearer realm="go-ent"'})
            return caller
        client, server = scope.get("client"), scope.get("server")
        if client is None or server is None or not await asyncio.to_thread(is_own, tuple(client), tuple(server)):
            raise ConnectionRefused(
                403,
                "without a token this server is for programs of the user who has started it: start it with --token-env",
            )
        return REMOTE

    def _by_token(self, given: list[str]) -> Caller | None:
        """Whose token a request has; of several, none counts."""
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        return self.rules.tokens.whose(token) if scheme.lower() == "bearer" else None

    async def _body(self, headers: dict[bytes, list[str]], receive: Receive, ticket: Ticket) -> bytes:
        """All that a request brings, if it is not too much and comes in time."""
        too_much = ConnectionRefused(
            413, f"a request may have at most {self.rules.max_bytes} bytes: [serve] max_request_bytes"
        )
        length = headers.get(b"content-length", [])
        if length and (whole(length[0][:20], 20) or 0) > self.rules.max_bytes:
            raise too_much
        body = bytearray()
        try:
            async with asyncio.timeout(self.rules.read_s):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise ConnectionRefused(400, "the request was cut off")
                    part = message.get("body", b"")
                    if len(body) + len(part) > self.rules.max_bytes:
                        raise too_much
                    ticket.grow(len(part))
                    body += part
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise ConnectionRefused(408, f"the request did not come within {self.rules.read_s:g} s") from None


def _headers(scope: Scope) -> dict[bytes, list[str]]:
    """Those that matter here, by name."""
    found: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        if name in (b"host", b"origin", b"authorization", b"content-length"):
            found.setdefault(name, []).append(value.decode("latin-1"))
    return found


def _same_address(host: str, scope: Scope) -> bool:
    """Whether *host* is the very address that the connection came to."""
    server = scope.get("server")
    if not host or server is None:
        return False
    try:
        return ipaddress.ip_address(host) == ipaddress.ip_address(server[0])
    except ValueError:
        return False


def _given(body: bytes, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """A `receive` that gives what was read already, and then says when the other end is gone."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return left.pop() if left else await receive()

    return give


async def _wait(turn: asyncio.Future[None], receive: Receive) -> None:
    """Wait for a request's turn as long as its sender is there, once it has sent all of it."""
    gone: asyncio.Future[Any] = asyncio.ensure_future(receive())
    try:
        await first_of(turn, gone, timeout_s=WAIT_S)
        if gone.done() and not turn.done():
            raise ConnectionRefused(400, "the request was cut off")
        if not turn.done():
            raise Busy(f"there was no room for this request within {WAIT_S:g} s: retry later, or send less at a time")
    finally:
        turn.cancel()
        gone.cancel()


async def _drain(request: _Request) -> None:
    """Hear a refused request out, if it is short: a connection that is closed while somebody sends takes the answer
    with it.
    """
    read = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while not request.whole and read <= DRAIN_BYTES:
                read += len((await request()).get("body", b""))


async def _say(send: Send, status: int, said: dict[str, object], method: str, **headers: str) -> None:
    await _send(send, status, json.dumps(said).encode(), "application/json", method, **headers)


async def _send(send: Send, status: int, body: bytes, kind: str, method: str, **headers: str) -> None:
    pairs = {"content-type": kind, "content-length": str(len(body)), "cache-control": "no-store", **headers}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in pairs.items()],
        }
    )
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})
