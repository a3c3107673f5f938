"""The tools of an MCP server as a source: started when first needed, kept, and started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextvars import Context, ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from composer.errors import BadName, CallError, Collision, ConfigError, ToolNotFound, Unavailable
from composer.servers import Scrubber, ServerConfig, SourceOptions, ToolOptions, parse_rate, referred, resolve
from composer.spec import ANYTHING, CallContext, Hints, Schema, ToolSpec, check_namespace, part_of

if TYPE_CHECKING:  # their import takes a second: it waits until a server is started
    import httpx2
    from mcp import ClientSession
    from mcp_types import CallToolResult, ContentBlock, Tool

MAX_TOOLS = 2_000
MAX_PAGES = 250
MAX_DESCRIPTION = 4 << 10
MAX_SCHEMA = 256 << 10
MAX_ERROR = 2 << 10
MAX_TAIL = 4 << 10
MAX_RESULT = 4 << 20
MAX_MESSAGE = 16 << 20  # what one message of a server may take before it is even parsed

INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TERM")  # and LC_*: all that a child needs of ours
GRACE_S = 2.0  # for a child to leave by itself, and again after SIGTERM
STEADY_S = 30.0  # a server that lived this long did not die of its start
FIRST_DELAY_S, LONGEST_DELAY_S = 0.25, 60.0
PATIENCE_S = 2.0  # a call waits this long for the next start; past that it is told why at once

T = TypeVar("T")
log = logging.getLogger(__name__)

# The HTTP statuses that one request met: the transport reports them as errors that don't say which.
_statuses: ContextVar[list[int]] = ContextVar("_statuses")


Connector = Callable[["Link"], "contextlib.AbstractAsyncContextManager[ClientSession]"]


class McpSource:
    """The tools of one MCP server. Belongs to one event loop: the one that first uses it.

    Many calls share the one connection. When it breaks, the calls under way fail with `Unavailable` (or are tried again,
    if the tool may run twice), and the next call connects anew, after a delay that grows while the server keeps dying.
    """

    def __init__(
        self,
        namespace: str,
        config: ServerConfig | SourceOptions,
        environ: Mapping[str, str] | None = None,
        *,
        connect: Connector | None = None,
        origin: str = "",
    ) -> None:
        """*environ* is what references are resolved from: this process's own, unless given. *connect* is for `from_server`."""
        self.namespace = check_namespace(namespace)
        self.origin = origin or f"MCP server {namespace}"
        self.on_change: Callable[[], None] | None = None  # called when its tools may have become others
        self.notes: list[str] = []  # what of its tools could not be offered, for people
        self.starts = 0
        self._options = config
        self._connect = connect or _connector(config, environ)
        self._bucket = Bucket.of(config.rate)
        self._tool_buckets = {name: Bucket.of(tool.rate) for name, tool in config.tools.items()}
        self._link: Link | None = None
        self._starting: asyncio.Task[Link] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._deaths = 0
        self._not_before = 0.0
        self._last_reason = ""
        self._closed = False
        self._listed: _Listing | None = None
        self._listings = 0  # counts what made a listing stale, so that one under way is not kept
        self._list_lock = asyncio.Lock()

    @classmethod
    def from_server(
        cls, namespace: str, server: Any, options: SourceOptions | None = None, *, origin: str = "", secrets: Iterable[str] = ()
    ) -> McpSource:
        """The tools of a fastmcp server object in this process. *secrets* are kept out of its messages."""
        hidden = list(secrets)
        return cls(namespace, options or SourceOptions(), connect=lambda link: in_memory(server, link, hidden), origin=origin)

    def __repr__(self) -> str:
        return f"<McpSource {self.origin}>"

    async def tools(self) -> list[ToolSpec]:
        """Its tools now; the same list as before while nothing has changed."""
        return (await self._listing_now()).specs

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        entry = (await self._listing_now()).entries.get(name)
        if entry is None:
            raise ToolNotFound(f"{self.origin} has no tool {name}")
        options = self._tool_options(entry)
        timeout = options.timeout_s or self._options.timeout_s
        again = options.retries if entry.spec.hints.read_only or entry.spec.hints.idempotent else 0
        while True:
            for bucket in (self._bucket, self._tool_buckets.get(entry.upstream) or self._tool_buckets.get(entry.part)):
                if bucket is not None:
                    await bucket.take()
            link = await self._connected()
            try:
                result = await self._ask(link, lambda session: session.call_tool(entry.upstream, arguments), timeout)
                return _answer(result, entry, link.scrub)
            except TimeoutError:
                raise CallError(f"{name} timed out after {timeout:g} s") from None
            except _Refused as refused:
                raise CallError(cut(link.scrub(str(refused)), MAX_ERROR)) from None
            except _Lost as lost:
                reason = await self._lost(link, lost)
                if again <= 0:
                    raise Unavailable(f"{self.origin} was lost during the call of {name}, which may have run: {reason}") from None
                again -= 1

    async def close(self) -> None:
        """End the server, and whatever was under way with it. It can't be used after."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._link is not None:
            self._drop(self._link)
        if self._ending:
            await asyncio.wait(self._ending)

    # Its tools

    async def _listing_now(self) -> _Listing:
        link = await self._connected()
        if self._listed is not None:
            return self._listed
        async with self._list_lock:
            if self._listed is not None:
                return self._listed
            before = self._listings
            try:
                found = await self._ask(link, _list_tools, self._options.timeout_s)
            except TimeoutError:
                raise Unavailable(f"{self.origin} did not list its tools within {self._options.timeout_s:g} s") from None
            except _Refused as refused:
                raise Unavailable(f"{self.origin} did not list its tools: {cut(link.scrub(str(refused)), MAX_ERROR)}") from None
            except _Lost as lost:
                raise Unavailable(f"{self.origin} was lost: {await self._lost(link, lost)}") from None
            listing = self._offered(found)
            if before == self._listings and link is self._link:
                self._listed = listing
            return listing

    def _offered(self, found: list[Tool]) -> _Listing:
        self.notes = [f"only the first {MAX_TOOLS} of its tools are offered"] if len(found) > MAX_TOOLS else []
        entries: dict[str, _Entry] = {}
        for tool in found[:MAX_TOOLS]:
            try:
                entry = _entry(self.namespace, tool, self.origin)
            except BadName as error:
                self.notes.append(str(error))
                continue
            full = entry.spec.name
            if full in entries:
                raise Collision(full, f"{entries[full].upstream!r} of {self.origin}", f"{tool.name[:80]!r} of {self.origin}")
            entries[full] = entry
        known = {name for entry in entries.values() for name in (entry.upstream, entry.part)}
        self.notes += [f"there are options for {name!r}, which is none of its tools" for name in self._options.tools if name not in known]
        return _Listing(entries, [entry.spec for entry in entries.values()])

    def _tool_options(self, entry: _Entry) -> ToolOptions:
        options = self._options.tools
        return options.get(entry.upstream) or options.get(entry.part) or ToolOptions()

    def _changed(self) -> None:
        self._listed = None
        self._listings += 1
        if self.on_change is not None:
            try:
                self.on_change()
            except Exception:
                log.exception("on_change of %s failed", self.origin)

    # Its connection

    async def _connected(self) -> Link:
        if self._closed:
            raise Unavailable(f"{self.origin} is closed")
        if self._link is not None:
            if self._link.alive:
                return self._link
            await self._lost(self._link, None)
        if self._starting is None:  # one start for all who wait; it goes on when the first of them is cancelled
            self._starting = asyncio.create_task(self._start(), context=Context())
            self._starting.add_done_callback(_seen)
        starting, me = self._starting, asyncio.current_task()
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if starting.cancelled() and me is not None and not me.cancelling():  # close() ended the start, not the caller
                raise Unavailable(f"{self.origin} is closed") from None
            raise

    async def _start(self) -> Link:
        try:
            wait = self._not_before - time.monotonic()
            if wait > PATIENCE_S:
                raise Unavailable(f"{self.origin} failed {self._deaths} times; it is tried again in {wait:.0f} s: {self._last_reason}")
            if wait > 0:
                await asyncio.sleep(wait)
            link = Link(self._connect, self._changed)
            self.starts += 1
            try:
                await link.open(self._options.start_timeout_s)
            except ConfigError as error:
                raise Unavailable(f"{self.origin}: {error}") from error
            except _Lost as lost:
                self._died(str(lost))
                raise Unavailable(f"{self.origin} can't be started: {lost}") from None
            self._link = link
            if self.starts > 1:
                self._changed()
            return link
        finally:
            self._starting = None

    async def _lost(self, link: Link, lost: _Lost | None) -> str:
        """Why the connection ended; the next call makes another."""
        first = self._link is link
        if first:
            self._drop(link)
        reason = await link.reason() or (link.scrub(str(lost)) if lost else "the connection ended")
        if first:
            self._died(reason, lived=time.monotonic() - link.since)
        return cut(reason, MAX_TAIL + 200)

    def _died(self, reason: str, lived: float = 0.0) -> None:
        self._deaths = 1 if lived >= STEADY_S else self._deaths + 1
        delay = 0.0 if lived >= STEADY_S else min(FIRST_DELAY_S * 2 ** (self._deaths - 1), LONGEST_DELAY_S)
        self._not_before = time.monotonic() + delay
        self._last_reason = reason

    def _drop(self, link: Link) -> None:
        self._link = self._listed = None
        self._listings += 1
        task = asyncio.create_task(link.close(), context=Context())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _ask(self, link: Link, ask: Callable[[ClientSession], Coroutine[Any, Any, T]], timeout_s: float) -> T:
        """A request's answer. Given up when the caller is cancelled or the time is over, which the server is told.

        It runs in a context of its own: what the caller is in the middle of (an HTTP request to us, say, whose headers
        fastmcp would pass on) is not the server's business.
        """
        context, statuses = Context(), list[int]()
        context.run(_statuses.set, statuses)
        request = asyncio.create_task(ask(link.session), context=context)
        try:
            await asyncio.wait({request, link.task}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if request.done() and not request.cancelled():
                return request.result()
            if request.done() or link.task.done():
                raise _Lost("the connection ended")
            raise TimeoutError
        except Exception as error:
            raise _kind(error, statuses) from None
        finally:
            if not request.done():
                request.cancel()
                await asyncio.wait({request}, timeout=GRACE_S)
            request.add_done_callback(_seen)


class _Lost(Exception):
    """The connection broke: nobody knows whether the request was carried out."""


class _Refused(Exception):
    """The server answered, and the answer is an error of the protocol."""


def _kind(error: Exception, statuses: list[int]) -> Exception:
    """Whether a failed request broke the connection, or was answered with an error."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

    if isinstance(error, _Lost | TimeoutError):
        return error
    if isinstance(error, MCPError):
        status = statuses[-1] if statuses else 200
        if error.code == CONNECTION_CLOSED or (status >= 401 and error.code != METHOD_NOT_FOUND):
            return _Lost(f"HTTP {status}: {error}" if status >= 400 else str(error))
        return _Refused(str(error) or "the server refused the call")
    if isinstance(error, ValidationError):
        return _Refused("the server's answer does not follow the protocol")
    if isinstance(error, RuntimeError) and "InputRequired" in str(error):
        return _Refused("the tool asks for more input, which can't be given here")
    return _Lost(words(error))


def words(error: BaseException) -> str:
    """An exception in words; of a group, the first that is one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if type(error).__name__ == "MCPError":
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # whoever waits for it has it; without a waiter nobody need hear of it


class Link:
    """One connection, held by a task of its own: the scopes of a transport must be left by the task that entered them."""

    def __init__(self, connect: Connector, changed: Callable[[], None]) -> None:
        self.session: ClientSession
        self.task: asyncio.Task[None]
        self.since = time.monotonic()
        self.gone = asyncio.Event()  # set by a transport whose other end has gone
        self.scrub = Scrubber()
        self.exit = ""  # how a child ended
        self.tail = bytearray()  # the last of what a child wrote to stderr
        self._connect, self._changed = connect, changed
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._failed: BaseException | None = None

    @property
    def alive(self) -> bool:
        return not self.task.done() and not self.gone.is_set()

    @property
    def opened(self) -> bool:
        return self._ready.is_set()

    async def open(self, timeout_s: float) -> None:
        self.task = asyncio.create_task(self._hold(), context=Context())
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({self.task, ready}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not self.opened:
                late = not self.task.done()
                await self.close()
                if isinstance(self._failed, ConfigError):
                    raise self._failed
                reason = f"no answer within {timeout_s:g} s" if late else ""
                raise _Lost("; ".join(filter(None, (reason, await self.reason()))) or "the connection ended")
        except asyncio.CancelledError:
            await self.close()
            raise
        finally:
            ready.cancel()

    async def close(self) -> None:
        """End it: nicely if that goes quickly, and in any case with no process left."""
        self._stop.set()
        if not self.opened:
            self.task.cancel()
        await asyncio.wait({self.task}, timeout=4 * GRACE_S)
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=4 * GRACE_S)

    async def reason(self) -> str:
        """Why it ended, as far as can be known: how its process exited, and the last that it wrote."""
        await asyncio.wait({self.task}, timeout=GRACE_S)
        failed = "" if self._failed is None or isinstance(self._failed, asyncio.CancelledError) else words(self._failed)
        wrote = self.scrub(self.tail.decode("utf-8", "replace")).strip()[-MAX_TAIL:]
        return "; ".join(filter(None, (self.exit or self.scrub(failed), f"it last wrote: {wrote}" if wrote else "")))

    def wrote(self, data: bytes) -> None:
        self.tail += data
        del self.tail[: -(MAX_TAIL + 4 * self.scrub.reach)]

    async def _hold(self) -> None:
        try:
            async with self._connect(self) as session:
                await _handshake(session)
                self.session = session
                self._ready.set()
                waits = [asyncio.create_task(event.wait()) for event in (self._stop, self.gone)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
        except Exception as error:
            self._failed = error
        except asyncio.CancelledError as error:
            self._failed = error
            raise
        finally:
            self.gone.set()

    def session_settings(self) -> dict[str, Any]:
        from mcp_types import Implementation, ToolListChangedNotification

        async def heard(message: Any) -> None:  # progress, logs and the rest are nobody's concern
            if isinstance(message, ToolListChangedNotification):
                self._changed()

        return {"message_handler": heard, "client_info": Implementation(name="go-ent", version="1")}


async def _handshake(session: ClientSession) -> None:
    """The handshake that nearly every server knows, and whose servers say when their tools change; else the newer one.

    Neither sampling nor elicitation is offered: a server that asks all the same is declined.
    """
    from mcp import MCPError
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

    try:
        await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


@cache
def _session_class() -> type[ClientSession]:
    from mcp import ClientSession

    class Session(ClientSession):
        async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
            """Results are checked by the composer, in the shape that the caller gets."""

    return Session


def _connector(config: SourceOptions, environ: Mapping[str, str] | None) -> Connector:
    """How to reach a server of that configuration. The environment is read, and references resolved, at each start."""
    if not isinstance(config, ServerConfig):
        raise TypeError("a source needs a ServerConfig")
    if config.url is None:
        return lambda link: _over_stdio(config, os.environ if environ is None else environ, link)
    logins: dict[str, httpx2.Auth] = {}  # kept: a connection that is made again is no reason to ask a person again
    return lambda link: _over_http(config, os.environ if environ is None else environ, link, logins)


@contextlib.asynccontextmanager
async def in_memory(server: Any, link: Link, secrets: Iterable[str]) -> AsyncIterator[ClientSession]:
    from fastmcp.client.transports import FastMCPTransport
    from fastmcp.client.transports.base import TransportOptions

    link.scrub = Scrubber(secrets)
    options = TransportOptions(session_class=_session_class())
    async with FastMCPTransport(server).connect_session(transport_options=options, **link.session_settings()) as session:
        yield session


@contextlib.asynccontextmanager
async def _over_http(
    config: ServerConfig, environ: Mapping[str, str], link: Link, logins: dict[str, httpx2.Auth]
) -> AsyncIterator[ClientSession]:
    from mcp.client.streamable_http import streamable_http_client

    assert config.url is not None
    texts = [config.url, config.token or "", *config.headers.values()]
    url = resolve(config.url, environ, "url")
    headers = {name: resolve(value, environ, f"headers.{name}") for name, value in config.headers.items()}
    link.scrub = Scrubber(referred(texts, environ) | set(headers.values()))
    auth: httpx2.Auth | None = None
    if config.token is not None:
        headers["Authorization"] = f"Bearer {resolve(config.token, environ, 'token')}"
    elif config.auth == "oauth":
        auth = logins.get(url) or logins.setdefault(url, _login(url))

    async def note(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            _statuses.get([]).append(response.status_code)
            if not link.opened:
                link.exit = f"HTTP {response.status_code}"

    client = bounded_client(headers=headers, auth=auth, read_s=max(300.0, config.timeout_s + 30))
    client.event_hooks["response"].append(note)
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as (read, write),
        _session_class()(read, write, **link.session_settings()) as session,
    ):
        yield session


def _login(url: str) -> httpx2.Auth:
    from fastmcp.client.auth import OAuth

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that tokens are kept in memory only is what is wanted
        return OAuth(url)


def bounded_client(
    *,
    headers: Mapping[str, str],
    read_s: float,
    auth: httpx2.Auth | None = None,
    base_url: str = "",
    kind: type[httpx2.AsyncClient] | None = None,
) -> httpx2.AsyncClient:
    """An HTTP client that gives up on an answer of more than `MAX_MESSAGE` bytes. It follows no redirect: headers may be secrets.

    A stream of events may go on for ever, and is left to whoever reads its events.
    """
    import httpx2

    class Counted(httpx2.AsyncByteStream):
        def __init__(self, stream: Any, left: int, why: str) -> None:
            self._stream, self._left, self._why = stream, left, why

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                self._left -= len(chunk)
                if self._left < 0:
                    raise httpx2.StreamError(self._why)
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            response.stream = Counted(response.stream, 0, "the answer is compressed, which was not asked for")
        elif not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = Counted(response.stream, MAX_MESSAGE, f"the answer is longer than {MAX_MESSAGE} bytes")

    return (kind or httpx2.AsyncClient)(
        headers={**headers, "accept-encoding": "identity"},  # else a small answer could unfold into a large one
        auth=auth,
        base_url=base_url,
        timeout=httpx2.Timeout(min(30.0, read_s), read=read_s),
        event_hooks={"response": [bound]},
        follow_redirects=False,
    )


def child_environment(environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What a server's process finds in its environment: what any program needs, and what its configuration says."""
    kept = {name: value for name, value in environ.items() if name in INHERITED or name.startswith("LC_")}
    return {**kept, **own}


@contextlib.asynccontextmanager
async def _over_stdio(config: ServerConfig, environ: Mapping[str, str], link: Link) -> AsyncIterator[ClientSession]:
    """A child process, spoken to over its stdin and stdout.

    The SDK's own does not bound a message, adds to the environment, and gives stderr a file only: hence this one.
    """
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    assert config.command is not None
    own = {name: resolve(value, environ, f"env.{name}") for name, value in config.env.items()}
    command = [resolve(config.command, environ, "command"), *(resolve(arg, environ, "args") for arg in config.args)]
    cwd = None if config.cwd is None else resolve(config.cwd, environ, "cwd")
    link.scrub = Scrubber(referred([config.command, *config.args, config.cwd or "", *config.env.values()], environ))

    child = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=child_environment(environ, own),
        cwd=cwd,
        limit=MAX_MESSAGE,
        start_new_session=True,  # a group of its own: it ends with all that it started, and no Ctrl-C reaches it
    )
    stdin, stdout, stderr = child.stdin, child.stdout, child.stderr
    assert stdin is not None
    assert stdout is not None
    assert stderr is not None
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            try:
                while line := await stdout.readline():
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        continue  # a line that is no message: servers do print to their stdout
                    await to_session.send(SessionMessage(message))
            except ValueError:
                link.exit = f"it sent a message of more than {MAX_MESSAGE} bytes"
        to_session.close()
        link.gone.set()

    async def send() -> None:
        with contextlib.suppress(OSError):
            async for message in from_session:
                stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()
            return
        to_session.close()  # it may live on, but it no longer listens: who waits for an answer must hear of that
        link.gone.set()

    async def keep_stderr() -> None:
        while data := await stderr.read(1 << 14):
            link.wrote(data)

    pipes = [asyncio.create_task(work()) for work in (receive, send, keep_stderr)]
    try:
        async with _session_class()(read, write, **link.session_settings()) as session:
            yield session
    finally:
        await _end(child, link, pipes)
        for stream in (to_session, read, write, from_session):
            stream.close()


async def _end(child: asyncio.subprocess.Process, link: Link, pipes: list[asyncio.Task[None]]) -> None:
    """End a child and its group: its stdin is closed, then SIGTERM, then SIGKILL. Ends in bounded time."""
    assert child.stdin is not None
    asked = not link.gone.is_set()
    grace = GRACE_S if link.opened and asked else GRACE_S / 10  # one that never answered, or hung up, has nothing to finish
    pipes[1].cancel()
    child.stdin.close()
    try:
        if not await _exited(child, grace):
            _signal_group(child, signal.SIGTERM)
            await _exited(child, grace)
        await asyncio.wait({pipes[2]}, timeout=0.1)  # the last words, which come with the end of the pipe
    finally:
        _signal_group(child, signal.SIGKILL)  # in any case: what it started may have outlived it
        await _exited(child, GRACE_S)
        for pipe in pipes:
            pipe.cancel()
        await asyncio.wait(pipes)
        transport: Any = getattr(child, "_transport", None)  # it stays open while anybody else holds a pipe
        transport.close()
        code = child.returncode
        if not asked and not link.exit and code is not None:
            link.exit = f"its process was ended by signal {-code}" if code < 0 else f"its process ended with exit code {code}"
        await asyncio.sleep(0)  # the loop closes the pipes in its next round


async def _exited(child: asyncio.subprocess.Process, within_s: float) -> bool:
    """Whether it ends in time. Not by `child.wait()`: that also waits until nobody holds its pipes."""
    until = time.monotonic() + within_s
    while child.returncode is None:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.01)
    return True


def _signal_group(child: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


class Bucket:
    """So many calls in so many seconds; who comes too early waits, in the order of coming."""

    def __init__(
        self,
        count: int,
        per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._count, self._rate, self._clock, self._sleep = float(count), count / per_s, clock, sleep
        self._left, self._at = self._count, clock()

    @classmethod
    def of(cls, rate: str | None) -> Bucket | None:
        return None if rate is None else cls(*parse_rate(rate))

    async def take(self) -> None:
        now = self._clock()
        self._left = min(self._count, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left -= 1  # below nothing, it is a place in the queue
        if self._left >= 0:
            return
        try:
            await self._sleep(-self._left / self._rate)
        except asyncio.CancelledError:
            self._left += 1
            raise


@dataclass(frozen=True, slots=True)
class _Entry:
    spec: ToolSpec
    upstream: str  # the server's own name for it
    part: str
    wrapped: bool  # its results come as {"result": …}


@dataclass(frozen=True, slots=True)
class _Listing:
    entries: dict[str, _Entry]  # by full name
    specs: list[ToolSpec]


async def _list_tools(session: ClientSession) -> list[Tool]:
    """All tools, page by page; one more than can be offered, if there are more."""
    from mcp_types import PaginatedRequestParams

    found: list[Tool] = []
    cursors: set[str] = set()
    params = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=params)
        found += page.tools
        if page.next_cursor is None or page.next_cursor in cursors or len(found) > MAX_TOOLS:
            break
        cursors.add(page.next_cursor)
        params = PaginatedRequestParams(cursor=page.next_cursor)
    return found


def _entry(namespace: str, tool: Tool, origin: str) -> _Entry:
    part = part_of(tool.name)
    given = tool.annotations
    hints = Hints(given.read_only_hint, given.destructive_hint, given.idempotent_hint, given.open_world_hint) if given else Hints()
    output = _bounded(tool.output_schema)
    wrapped = output is not None and output.get("x-fastmcp-wrap-result") is True
    spec = ToolSpec(
        name=f"{namespace}.{part}",
        description=cut(tool.description or tool.title or "", MAX_DESCRIPTION),
        input_schema=_bounded(tool.input_schema) or ANYTHING,
        output_schema=_unwrapped(output) if wrapped and output is not None else output,
        hints=hints,
        origin=origin,
    )
    return _Entry(spec, tool.name, part, wrapped)


def _bounded(schema: Schema | None) -> Schema | None:
    if schema is None:
        return None
    try:
        return schema if len(to_json(schema)) <= MAX_SCHEMA else None
    except (PydanticSerializationError, ValueError, RecursionError):
        return None


def _unwrapped(schema: Schema) -> Schema | None:
    """The schema of the `result` inside, with the definitions that it may refer to."""
    inner = schema.get("properties", {}).get("result")
    if not isinstance(inner, Mapping) or not inner:
        return None
    return {**inner, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}


def _answer(result: CallToolResult, entry: _Entry, scrub: Scrubber) -> Any:
    if result.is_error:
        said = "\n".join(block.text for block in result.content if block.type == "text")
        raise CallError(cut(scrub(said).strip(), MAX_ERROR) or "the tool says that it failed, and nothing more")
    value = value_of(result, entry.wrapped)
    try:
        size = len(to_json(value))
    except (PydanticSerializationError, ValueError, RecursionError):
        raise CallError(f"the result of {entry.spec.name} can't be encoded as JSON") from None
    if size > MAX_RESULT:
        raise CallError(f"the result of {entry.spec.name} is {size} bytes long; {MAX_RESULT} are allowed")
    return value


def value_of(result: CallToolResult, wrapped: bool) -> Any:
    """What a caller gets of a result.

    - Structured content, where there is any; out of the `{"result": …}` that fastmcp puts around what is no object.
    - Else what the one block holds; of several blocks a list; of none, None.
    - A text is itself, unless the whole of it is a JSON object or array: then that.
    - Images and audio are `{"type", "mime_type", "data"}` with base64; links and resources are objects, too.
    """
    structured = result.structured_content
    if structured is not None:
        return structured["result"] if wrapped and isinstance(structured, dict) and set(structured) == {"result"} else structured
    values = [_block(block) for block in result.content]
    return values[0] if len(values) == 1 else values or None


def _block(block: ContentBlock) -> Any:
    if block.type == "text":
        return _parsed(block.text)
    if block.type == "image" or block.type == "audio":  # noqa: PLR1714 - mypy narrows by this form alone
        return {"type": block.type, "mime_type": block.mime_type, "data": block.data}
    if block.type == "resource_link":
        said = {"uri": str(block.uri), "name": block.name, "description": block.description, "mime_type": block.mime_type}
    else:
        held = block.resource
        said = {"uri": str(held.uri), "mime_type": held.mime_type, "text": getattr(held, "text", None), "data": getattr(held, "blob", None)}
    return {"type": block.type, **{key: value for key, value in said.items() if value is not None}}


def _parsed(text: str) -> Any:
    inner = text.strip()
    if inner[:1] + inner[-1:] not in ("{}", "[]"):
        return text

    def no_number(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(inner, parse_constant=no_number)
    except (ValueError, RecursionError):
        return text


def cut(text: str, limit: int) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates can't go on
    return text if len(text) <= limit else f"{text[:limit]}… [cut]"
