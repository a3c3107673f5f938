"""A connection to an MCP server: opened, asked, and ended, with what is known of why it ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from go_ent.composer.errors import ConfigError
from go_ent.composer.sources.logins import NotLoggedIn
from go_ent.composer.sources.openapi_requests import Route
from go_ent.composer.sources.replies import Sifted
from go_ent.composer.sources.server_config import Scrubber
from go_ent.waiting import first_of

if TYPE_CHECKING:  # their import takes a second: it waits until a server is started
    from mcp import ClientSession
    from mcp_types import CallToolResult

MAX_TAIL = 4 << 10  # of what a child wrote
MAX_SERVER = 200
GRACE_S = 2.0  # for a child to leave by itself, and again after SIGTERM

T = TypeVar("T")

# The HTTP statuses that one request met: the transport reports them as errors that don't say which.
statuses_met: ContextVar[list[int]] = ContextVar("statuses_met")

Connector = Callable[["ServerLink"], "contextlib.AbstractAsyncContextManager[ClientSession]"]


class Lost(Exception):
    """Internal: raised when the connection broke: nobody knows whether the request was carried out."""


class CallRefused(Exception):
    """Internal: raised when the server's answer is an error of the protocol."""


class ServerLink:
    """One connection, held by a task of its own: the scopes of a transport must be left by the task that entered
    them.
    """

    def __init__(self, connect: Connector, changed: Callable[[], None]) -> None:
        self.session: ClientSession
        self.task: asyncio.Task[None]
        self.since = time.monotonic()
        self.gone = asyncio.Event()  # set by a transport whose other end has gone
        self.scrub = Scrubber()  # for what is said of it
        self.hide = Scrubber()  # for what it answers
        self.exit = ""  # how a child ended
        self.tail = bytearray()  # the last of what a child wrote to stderr
        self.unusable: dict[str, str] = {}  # tools that can't be made of what is connected to, for as long as it is
        self.dropped: dict[str, str] = {}  # tools that the last listing had, and that don't follow the protocol
        self.has_ended: Callable[[], bool] = lambda: False  # whether its process is dead, before its pipes tell
        self.needs_login = ""  # why a person must log in, if one must
        self.server = ""  # what the server calls itself, with its version
        self.routes: dict[str, Route] = {}  # of an HTTP API: how each of its operations is requested
        self.address = ""  # of an HTTP API whose document names its server
        self._connect, self._changed = connect, changed
        self._ready, self._stop = asyncio.Event(), asyncio.Event()
        self._failed: BaseException | None = None

    @property
    def alive(self) -> bool:
        return not self.task.done() and not self.gone.is_set() and not self.has_ended()

    @property
    def opened(self) -> bool:
        return self._ready.is_set()

    async def open(self, timeout_s: float) -> None:
        self.task = asyncio.create_task(self._hold(), context=Context())
        try:
            await first_of(self.task, self._ready, timeout_s=timeout_s)
            if not self.opened:
                late = not self.task.done()
                await self.close()
                if self.needs_login:
                    raise NotLoggedIn(self.needs_login)
                if isinstance(self._failed, ConfigError):
                    raise self._failed
                reason = f"no answer within {timeout_s:g} s" if late else ""
                raise Lost("; ".join(filter(None, (reason, await self.reason()))) or "the connection ended")
        except asyncio.CancelledError:
            await self.close()
            raise

    async def ask(self, ask: Callable[[ClientSession], Coroutine[Any, Any, T]], timeout_s: float) -> T:
        """A request's answer. Given up when the caller is cancelled or the time is over, which the server is told.

        It runs in a context of its own: what the caller is in the middle of (an HTTP request to us, say, whose headers
        fastmcp would pass on) is not the server's business.
        """
        context, statuses = Context(), list[int]()
        context.run(statuses_met.set, statuses)
        request = asyncio.create_task(ask(self.session), context=context)
        try:
            await first_of(request, self.task, timeout_s=timeout_s)
            if request.done() and not request.cancelled():
                return request.result()
            if request.done() or self.task.done():
                raise Lost("the connection ended")
            raise TimeoutError
        except Exception as error:
            raise _kind(error, statuses) from None
        finally:
            if not request.done():
                request.cancel()
                await asyncio.wait({request}, timeout=GRACE_S)
            request.add_done_callback(seen)

    async def close(self) -> None:
        """End it: nicely if that goes quickly, and in any case with no process left."""
        self._stop.set()
        if not self.opened:
            self.task.cancel()
        await asyncio.wait({self.task}, timeout=4 * GRACE_S)
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=4 * GRACE_S)

    @property
    def stderr(self) -> str:
        """The last that its process wrote there, without secrets."""
        return self.scrub(self.tail.decode("utf-8", "replace")).strip()[-MAX_TAIL:]

    async def reason(self) -> str:
        """Why it ended, as far as can be known: how its process exited, and the last that it wrote."""
        await asyncio.wait({self.task}, timeout=GRACE_S)
        failed = "" if self._failed is None or isinstance(self._failed, asyncio.CancelledError) else words(self._failed)
        if self.needs_login:
            return self.needs_login
        wrote = self.stderr
        return "; ".join(
            filter(None, (self.exit or self.scrub(failed)[:MAX_TAIL], f"it last wrote: {wrote}" if wrote else ""))
        )

    def wrote(self, data: bytes) -> None:
        self.tail += data
        del self.tail[: -(MAX_TAIL + 4 * self.scrub.reach)]

    async def _hold(self) -> None:
        try:
            async with self._connect(self) as session:
                self.server = await _handshake(session)
                self.session = session
                self._ready.set()
                await first_of(self._stop, self.gone)
        except Exception as error:
            self._failed = error
        except asyncio.CancelledError as error:
            self._failed = error
            raise
        finally:
            self.gone.set()

    def sifted(self, messages: Any) -> Sifted:
        """A transport's messages, without what would spoil a listing."""
        return Sifted(
            messages, self.dropped.__setitem__, lambda: self.session.protocol_version if self.opened else None
        )

    def session_settings(self) -> dict[str, Any]:
        from mcp_types import Implementation, ToolListChangedNotification

        async def heard(message: Any) -> None:  # progress, logs and the rest are nobody's concern
            if isinstance(message, ToolListChangedNotification):
                self._changed()

        return {"message_handler": heard, "client_info": Implementation(name="go-ent", version="1")}


def _kind(error: Exception, statuses: list[int]) -> Exception:
    """Whether a failed request broke the connection, or was answered with an error."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

    if isinstance(error, Lost | TimeoutError):
        return error
    if isinstance(error, MCPError):
        status = statuses[-1] if statuses else 200
        if error.code == CONNECTION_CLOSED or (status >= 401 and error.code != METHOD_NOT_FOUND):
            return Lost(f"HTTP {status}: {error}" if status >= 400 else str(error))
        return CallRefused(str(error) or "the server refused the call")
    if isinstance(error, ValueError | RecursionError):  # pydantic's are ValueErrors
        return CallRefused("the server's answer does not follow the protocol")
    if isinstance(error, RuntimeError) and "InputRequired" in str(error):
        return CallRefused("the tool asks for more input, which can't be given here")
    return Lost(words(error))


def words(error: BaseException) -> str:
    """An exception in words; of a group, the first that is one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if type(error).__name__ == "MCPError":
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # a caller that waits has it; without one it is of no interest


async def _handshake(session: ClientSession) -> str:
    """The handshake that nearly every server knows, and whose servers say when their tools change; else the newer one.
    What the server calls itself.

    Neither sampling nor elicitation is offered: a server that asks anyway is declined.
    """
    from mcp import MCPError
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

    answer: Any
    try:
        answer = await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        answer = await session.discover()
    told = getattr(answer, "server_info", None)
    said = f"{getattr(told, 'name', '')} {getattr(told, 'version', '')}".encode("utf-8", "replace").decode()
    return "".join(char for char in said if char.isprintable())[:MAX_SERVER].strip()


@cache
def session_class() -> type[ClientSession]:
    from mcp import ClientSession

    class Session(ClientSession):
        async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
            """Results are checked by the composer, in the shape that the caller gets."""

    return Session
