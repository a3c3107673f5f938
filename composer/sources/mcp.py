"""The tools of an MCP server as a source: started when first needed, kept, and started again when it dies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from go_ent.composer.catalogue.spec import CallContext, ToolSpec, check_namespace
from go_ent.composer.errors import CallError, Collision, ConfigError, ToolNotFound, Unavailable
from go_ent.composer.project.items import apart
from go_ent.composer.sources.listing import (
    FRESH_S,
    MAX_TOOLS,
    Copy,
    Entry,
    Keeper,
    Listing,
)
from go_ent.composer.sources.logins import NotLoggedIn
from go_ent.composer.sources.mcp_answers import MAX_ERROR, answer_of, cut, entry_of, list_tools
from go_ent.composer.sources.mcp_link import MAX_TAIL, CallRefused, Connector, Lost, ServerLink, seen
from go_ent.composer.sources.mcp_transports import connector, in_memory
from go_ent.composer.sources.rate_limit import Bucket
from go_ent.composer.sources.server_config import Scrubber, ServerConfig, SourceOptions, ToolOptions
from go_ent.sandbox.host.spans import span
from go_ent.sandbox.messages.advice import Advice

if TYPE_CHECKING:  # its import takes a second: it waits until a server is started
    from mcp_types import Tool

STEADY_S = 30.0  # a server that lived this long did not die of its start
FIRST_DELAY_S, LONGEST_DELAY_S = 0.25, 60.0
MOST_TOLD = 5  # tools that have changed
PATIENCE_S = 2.0  # a call waits this long for the next start; past that it is told why at once

log = logging.getLogger(__name__)


class McpSource:
    """The tools of one MCP server. Belongs to one event loop: the one that first uses it.

    Many calls share the one connection. When it breaks, the calls under way fail with `Unavailable` (or are tried
    again, if the tool may run twice), and the next call connects anew, after a delay that grows while the server keeps
    dying.

    With a *keeper*, the last listing is kept on disk, and it stands for the server's tools until a call connects to it.
    A call goes by what the server lists then.
    """

    local = False

    def __init__(
        self,
        namespace: str,
        config: ServerConfig | SourceOptions,
        environ: Mapping[str, str] | None = None,
        *,
        connect: Connector | None = None,
        origin: str = "",
        hides: bool = True,
        keeper: Keeper | None = None,
    ) -> None:
        """*environ* is what references are resolved from: this process's own, unless given. *connect* is for
        `from_server`.

        With *hides*, what references stand for is taken out of what the server answers; errors never have it.
        """
        self.namespace = check_namespace(namespace)
        self.origin = origin or f"MCP server {namespace}"
        self.on_change: Callable[[], None] | None = None  # called when its tools may have become others
        self.starts = 0
        self._keeper = keeper
        self._shown: Listing | None = None  # the last that anybody got
        self._stale = ""  # why an old copy had to do
        self._options, self._hides = config, hides
        self._connect = connect or connector(config, environ)
        self._bucket = Bucket.of(config.rate)
        self._tool_buckets = {name: Bucket.of(tool.rate) for name, tool in config.tools.items()}
        self._link: ServerLink | None = None
        self._starting: asyncio.Task[ServerLink] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._deaths = 0
        self._not_before = 0.0
        self._last_reason = ""
        self._closed = False
        self._listed: Listing | None = None
        self._listings = 0  # counts what made a listing stale, so that one under way is not kept
        self._list_lock = asyncio.Lock()

    @classmethod
    def from_server(
        cls,
        namespace: str,
        server: Any,
        options: SourceOptions | None = None,
        *,
        origin: str = "",
        secrets: Iterable[str] = (),
    ) -> McpSource:
        """The tools of a fastmcp server object in this process. *secrets* are kept out of its messages."""
        hidden = list(secrets)
        return cls(
            namespace, options or SourceOptions(), connect=lambda link: in_memory(server, link, hidden), origin=origin
        )

    def __repr__(self) -> str:
        return f"<McpSource {self.origin}>"

    @property
    def notes(self) -> list[str]:
        """What of its tools could not be offered, for people."""
        shown = self._shown
        if shown is None:
            return []
        used = {self._options.key_of(entry.upstream, entry.part) for entry in shown.entries.values()}
        unknown = [name for name in self._options.tools if name not in used]
        return [
            *([self._stale] if self._stale else []),
            *shown.notes,
            *(f"there are options for {name!r}, which is none of its tools" for name in unknown),
        ]

    @property
    def connected(self) -> bool:
        """Whether it is reached now, so that asking it starts nothing."""
        return self._link is not None and self._link.alive

    @property
    def stderr(self) -> str:
        """The last that its process wrote there, while it is connected; why it ended has what it wrote before."""
        return "" if self._link is None else self._link.stderr

    @property
    def last_error(self) -> str:
        """Why its connection last ended; empty if it never did."""
        return self._last_reason

    async def tools(self) -> list[ToolSpec]:
        """Its tools: those of now if it is connected, else those of the copy that is kept; without a copy it is
        connected. The same list as before while nothing has changed.
        """
        return (await self._listing()).specs

    async def live_tools(self) -> list[ToolSpec]:
        """Its tools as it lists them now: it is connected if it is not."""
        return (await self._listing(live=True)).specs

    async def kept_tools(self) -> list[ToolSpec] | None:
        """Its tools, if nothing has to be started to know them."""
        if self.connected and self._listed is not None:
            return self._listed.specs
        copy = await self.copy()
        if copy is None:
            return None
        self._shown = copy.listing
        return copy.listing.specs

    async def copy(self) -> Copy | None:
        """What is kept of it on disk."""
        if self._keeper is None or self._keeper.is_read:
            return self.kept()
        return await asyncio.to_thread(self.kept)

    def kept(self) -> Copy | None:
        """The same, for those who may block."""
        return None if self._keeper is None else self._keeper.current()

    async def refresh(self) -> dict[str, str]:
        """Ask it again, whatever is kept; what has changed since the last time, by the tool's name."""
        self._listed = None
        self._listings += 1
        changes: dict[str, str] = {}
        self._shown, self._stale = await self._listing_now(changes.update), ""
        return changes

    async def _listing(self, *, live: bool = False) -> Listing:
        copy = None if live or self.connected else await self.copy()
        if copy is not None and copy.age_s < FRESH_S:
            self._shown, self._stale = copy.listing, ""
            return copy.listing
        try:
            self._shown = await self._listing_now()
            self._stale = ""
        except Unavailable as error:
            if copy is None:
                raise
            self._shown, self._stale = (
                copy.listing,
                f"its tools are those of {copy.age_s / 86_400:.0f} days ago: {error}",
            )
        return self._shown

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        with span("upstream", "client", tool=name, namespace=self.namespace):
            return await self._call(name, arguments)

    async def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        entry = self._entry(await self._listing(live=True), name, arguments)
        options = self._tool_options(entry)
        timeout = options.timeout_s or self._options.timeout_s
        again = options.retries if entry.spec.hints.read_only or entry.spec.hints.idempotent else 0
        while True:
            await self._take_turn(entry)
            link = await self._connected()
            try:
                result = await link.ask(lambda session: session.call_tool(entry.upstream, arguments), timeout)
                return answer_of(result, entry, link.scrub, self._hidden(link))
            except TimeoutError:
                raise CallError(f"{name} timed out after {timeout:g} s") from None
            except CallRefused as refused:
                raise CallError(cut(link.scrub(str(refused)), MAX_ERROR)) from None
            except Lost as lost:
                reason = await self._lost(link, lost)
                if again <= 0:
                    advice = Advice("login", self.namespace) if link.needs_login else None
                    raise Unavailable(
                        f"{self.origin} was lost during the call of {name}, which may have run: {reason}", advice=advice
                    ) from None
                again -= 1

    def _entry(self, listing: Listing, name: str, arguments: dict[str, Any]) -> Entry:
        entry = listing.entries.get(name)
        if entry is None:
            raise ToolNotFound(self.why_not(name) or f"{self.origin} has no tool {name}")
        try:
            to_json(arguments)
        except (ValueError, RecursionError) as error:
            raise CallError(f"the arguments of {name} can't be sent as JSON: {cut(str(error), MAX_ERROR)}") from None
        return entry

    async def _take_turn(self, entry: Entry) -> None:
        """Wait until the rates of the source and of the tool allow a call."""
        key = self._options.key_of(entry.upstream, entry.part)
        for bucket in (self._bucket, None if key is None else self._tool_buckets[key]):
            if bucket is not None:
                await bucket.take()

    async def close(self) -> None:
        """End the server and all calls in progress. It can't be used afterwards."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._link is not None:
            self._drop(self._link)
        if self._ending:
            await asyncio.wait(self._ending)

    # Its tools

    async def _listing_now(self, hear: Callable[[dict[str, str]], None] | None = None) -> Listing:
        """What it lists now. *hear* gets what has changed since the last time; else that is logged."""
        link = await self._connected()
        if self._listed is not None:
            return self._listed
        async with self._list_lock:
            if self._listed is not None:
                return self._listed
            before = self._listings
            link.dropped.clear()
            try:
                found = await link.ask(list_tools, self._options.timeout_s)
            except TimeoutError:
                raise Unavailable(
                    f"{self.origin} did not list its tools within {self._options.timeout_s:g} s"
                ) from None
            except CallRefused as refused:
                raise Unavailable(
                    f"{self.origin} did not list its tools: {cut(link.scrub(str(refused)), MAX_ERROR)}"
                ) from None
            except Lost as lost:
                raise Unavailable(f"{self.origin} was lost: {await self._lost(link, lost)}") from None
            listing, changes = await self._keep(self._offered(found, self._hidden(link), link), link)
            (hear or self._log)(changes)
            if before == self._listings and link is self._link:
                self._listed = listing
            return listing

    async def _keep(self, listing: Listing, link: ServerLink) -> tuple[Listing, dict[str, str]]:
        """A listing as the server has just made it; the one that is kept, if that is the same. And what has changed."""
        if self._keeper is None:
            return listing, {}
        last = await asyncio.to_thread(self._keeper.last)
        server = "" if link.routes else link.server  # an API's is one of ours
        changes = await asyncio.to_thread(self._keeper.keep, listing, server, link.address)
        return last.listing if last is not None and last.listing == listing else listing, changes

    def _log(self, changes: dict[str, str]) -> None:
        told = [f"{name} {what}" for name, what in changes.items() if what != "is new"]
        if told:
            more = f"; and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
            log.warning("%s: %s%s", self.origin, "; ".join(told[:MOST_TOLD]), more)

    def why_not(self, name: str) -> str | None:
        """Why a tool that the server lists can't be called."""
        return None if self._shown is None else self._shown.refused.get(name)

    def _offered(self, found: list[Tool], hide: Scrubber, link: ServerLink) -> Listing:
        notes = [f"only the first {MAX_TOOLS} of its tools are offered"] if len(found) > MAX_TOOLS else []
        wrong = {**link.unusable, **link.dropped}
        entries: dict[str, Entry] = {}
        clashes: dict[str, str] = {}
        for tool in (one for one in found[:MAX_TOOLS] if one.name not in link.unusable):
            with apart(tool.name[:80], wrong):
                entry = entry_of(self.namespace, tool, self.origin, hide, link.routes.get(tool.name))
                full = entry.spec.name
                if full in entries and entries[full].upstream != tool.name:
                    first, second = (f"{name[:80]!r} of {self.origin}" for name in (entries[full].upstream, tool.name))
                    clashes[full] = str(Collision(full, first, second))
                entries.setdefault(full, entry)
        for full in clashes:  # which of them would be meant, nobody knows
            del entries[full]
        refused = {
            **{f"{self.namespace}.{name}": f"{name} can't be used: {why}" for name, why in wrong.items()},
            **clashes,
        }
        notes += [
            why if why.startswith(repr(name)) else f"{name!r} is not offered: {why}" for name, why in wrong.items()
        ]
        return Listing.of(entries, (*notes, *clashes.values()), refused)

    def _tool_options(self, entry: Entry) -> ToolOptions:
        key = self._options.key_of(entry.upstream, entry.part)
        return ToolOptions() if key is None else self._options.tools[key]

    def _hidden(self, link: ServerLink) -> Scrubber:
        return link.hide if self._hides else Scrubber()

    def _changed(self) -> None:
        self._listed = None
        self._listings += 1
        if self.on_change is not None:
            try:
                self.on_change()
            except Exception:
                log.exception("on_change of %s failed", self.origin)

    # Its connection

    async def _connected(self) -> ServerLink:
        if self._closed:
            raise Unavailable(f"{self.origin} is closed")
        if self._link is not None:
            if self._link.alive:
                return self._link
            await self._lost(self._link, None)
        if self._starting is None:  # one start for all who wait; it goes on when the first of them is cancelled
            self._starting = asyncio.create_task(self._start(), context=Context())
            self._starting.add_done_callback(seen)
        starting, me = self._starting, asyncio.current_task()
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if (
                starting.cancelled() and me is not None and not me.cancelling()
            ):  # close() ended the start, not the caller
                raise Unavailable(f"{self.origin} is closed") from None
            raise

    async def _start(self) -> ServerLink:
        try:
            wait = self._not_before - time.monotonic()
            if wait > PATIENCE_S:
                raise Unavailable(
                    f"{self.origin} failed {self._deaths} times; it is tried again in {wait:.0f} s: {self._last_reason}"
                )
            if wait > 0:
                await asyncio.sleep(wait)
            link = ServerLink(self._connect, self._changed)
            self.starts += 1
            try:
                await link.open(self._options.start_timeout_s)
            except NotLoggedIn as error:
                raise Unavailable(f"{self.origin}: {error}", advice=Advice("login", self.namespace)) from None
            except ConfigError as error:
                raise Unavailable(f"{self.origin}: {error}") from error
            except Lost as lost:
                self._died(str(lost))
                how = "started" if getattr(self._options, "url", None) is None else "reached"
                raise Unavailable(f"{self.origin} can't be {how}: {lost}") from None
            self._link = link
            if self.starts > 1:
                self._changed()
            return link
        finally:
            self._starting = None

    async def _lost(self, link: ServerLink, lost: Lost | None) -> str:
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

    def _drop(self, link: ServerLink) -> None:
        self._link = self._listed = None
        self._listings += 1
        task = asyncio.create_task(link.close(), context=Context())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
