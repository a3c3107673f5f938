"""Tells connected clients when the tools they find listed change: by any process, and in any way.

Clients of the 2026-07-28 protocol subscribe; those of older ones are told over their connection. The stores' folders
are looked at twice a second while somebody listens: that works on every file system, and for folders that are not there
yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from fastmcp.server.providers import Provider
from mcp.server.context import CallNext as Next
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from go_ent.composer.project.items import apart
from go_ent.engine.adapters.fastmcp_adapter import lowlevel_of
from go_ent.engine.adapters.mcp_adapter import connection_of
from go_ent.engine.server.calls.callers import Caller, current
from go_ent.engine.server.tools.direct import DirectTools
from go_ent.engine.server.tools.named import NamedTools, stamps_of
from go_ent.engine.server.tools.offer import Offer

if TYPE_CHECKING:
    from fastmcp import FastMCP

log = logging.getLogger("go_ent.engine.server")
PAUSE_S = 0.5
RELIST_S = 0.5  # that a client has to ask for the list that it was told of, before its own call is answered
SETTLE_S = 0.1  # to take it in
REST = 20  # times as long as a look has computed: so that a huge folder takes no more than a twentieth of a core
STUBS = "go-ent://stubs"  # the resource that tells of the same tools
CHANGING = frozenset({"tool_compose", "tool_rollback", "tool_delete"})

Context = ServerRequestContext[Any, Any]
Tell = Callable[[], None]


def add(server: FastMCP, tools: NamedTools, direct: DirectTools, offer: Offer) -> Changes:
    """Advertise that the list changes, and say so when it does, for as long as *server* runs."""
    changes = Changes(tools, direct, offer)
    server.add_provider(changes)
    lowlevel = lowlevel_of(server)
    lowlevel.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, changes.listen)
    lowlevel.middleware.append(changes.connected)
    return changes


class Changes(Provider):
    """Watches what is listed. It provides nothing itself: as a provider it lives exactly as long as the server."""

    def __init__(self, tools: NamedTools, direct: DirectTools, offer: Offer) -> None:
        super().__init__()
        self._tools, self._direct, self._offer = tools, direct, offer
        self._audience: dict[object, tuple[Caller, Tell]] = {}
        self.told = 0  # times that somebody was told
        self._somebody = asyncio.Event()
        self._relisted: dict[Caller, asyncio.Event] = {}  # of those who keep a list: they have asked for it before
        self._lock = asyncio.Lock()
        self._stamps: object = None
        self._shown: dict[Caller, bytes] = {}
        self._took_s = 0.0
        self._handler = ListenHandler(_Subscriptions(self))

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._handler.close()
            watching.cancel()
            await asyncio.wait([watching])

    # -- who listens

    @property
    def watching(self) -> bool:
        """Whether the folders are looked at: somebody listens."""
        return self._somebody.is_set()

    def join(self, caller: Caller, tell: Tell) -> Tell:
        """Have *tell* called when what *caller* finds listed changes; what is returned ends that."""
        key = object()
        self._audience[key] = caller, tell
        self._somebody.set()

        def leave() -> None:
            self._audience.pop(key, None)
            if not any(other == caller for other, _ in self._audience.values()):
                self._shown.pop(caller, None)
            if not self._audience:
                self._somebody.clear()

        return leave

    async def listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """A subscription of the 2026-07-28 protocol."""
        await self._begin()
        return await self._handler(context, params)

    async def connected(self, ctx: Context, call_next: Next) -> HandlerResult:
        """Sees every message: a client of an older protocol listens from its handshake on."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            if ctx.method == "initialize":
                await self._begin()
            elif ctx.method == "notifications/initialized":
                self._tell_connection(ctx)
        answer = await call_next(ctx)
        if ctx.method == "tools/list":
            self._relisted.setdefault(current(), asyncio.Event()).set()
        return answer

    def _tell_connection(self, context: Context) -> None:
        session, connection = context.session, connection_of(context.session)
        if not connection.has_standalone_channel or connection.state.get("go-ent/changes"):
            return
        connection.state["go-ent/changes"] = True
        due = asyncio.Event()

        async def forward() -> None:
            """In a task of its own: a client that does not read what it is sent keeps nobody else waiting."""
            while True:
                await due.wait()
                due.clear()
                await session.send_tool_list_changed()

        telling = asyncio.get_running_loop().create_task(forward(), context=contextvars.Context())
        leave = self.join(current(), due.set)

        async def gone() -> None:
            leave()
            telling.cancel()
            await asyncio.wait([telling])

        connection.exit_stack.push_async_callback(gone)

    # -- what has changed

    async def _begin(self) -> None:
        """Before the first one listens: whatever changes from now on is news to it."""
        if not self._audience:
            stamps = await self._scan()
            if not self._audience:
                self._stamps = stamps

    async def _scan(self) -> object:
        await self._tools.composer.live_config.follow()
        late = self._tools.late, self._tools.composer.catalogue.version

        def scan() -> object:
            started = time.thread_time()
            stamps = stamps_of(self._tools.composer), late
            self._took_s = time.thread_time() - started
            return stamps

        return await asyncio.to_thread(scan)

    async def look(self) -> None:
        """Look now whether anything has changed that somebody who listens finds listed, and tell those."""
        async with self._lock:
            if not self._audience:
                return
            stamps = await self._scan()
            touched = stamps != self._stamps
            changed = set()
            for caller in {caller for caller, _ in self._audience.values()}:
                if not touched and caller in self._shown:
                    continue
                now = await self._visible(caller)
                if touched and self._shown.get(caller) != now:
                    changed.add(caller)
                elif not touched and await self._scan() != stamps:
                    continue  # it has changed meanwhile: the next look finds that it has
                self._shown[caller] = now
            self._stamps = stamps  # not before: a look that fails is made again
            for caller, tell in list(self._audience.values()):
                if caller in changed:
                    self.told += 1
                    with apart("a client that listens", {}):
                        tell()

    async def called(self, tool: str) -> None:
        """A tool was called and has answered. What a client changes itself is told before its call is answered: the
        model may want the new tool next.
        """
        if tool in CHANGING:
            try:
                await self._look_for(current())
            except Exception:  # what was saved is saved
                log.exception("clients could not be told of a change")

    async def _look_for(self, caller: Caller) -> None:
        """Look, and let *caller* ask for the new list: programs build a model's next request from the one that they
        have.
        """
        relisted, told = self._relisted.get(caller), self.told
        if relisted is not None:
            relisted.clear()
        await self.look()
        if relisted is not None and self.told > told:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELIST_S):
                    await relisted.wait()
                    await asyncio.sleep(SETTLE_S)

    async def _visible(self, caller: Caller) -> bytes:
        """What *caller* finds listed, in short."""
        digest = hashlib.sha256()
        for tool in (*await self._tools.listing(caller), *await self._direct.listing(caller)):
            digest.update(tool.to_mcp_tool().model_dump_json().encode() + b"\n")
        digest.update((await self._offer.tools(caller)).encode())
        return digest.digest()

    async def _watch(self) -> None:
        while True:
            await self._somebody.wait()
            try:
                await self.look()
            except Exception:
                log.exception("composed tools can't be watched now")
            await asyncio.sleep(max(PAUSE_S, REST * self._took_s))


class _Subscriptions(InMemorySubscriptionBus):
    """Subscriptions of the 2026-07-28 protocol: each hears of changes to what its own caller finds listed."""

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        def tell() -> None:
            for event in (ToolsListChanged(), ResourceUpdated(uri=STUBS)):  # it gets what it has asked for
                listener(event)

        leave = self._changes.join(current(), tell)
        unsubscribe = super().subscribe(listener)

        def end() -> None:
            leave()
            unsubscribe()

        return end
