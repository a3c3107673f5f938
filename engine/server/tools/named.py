"""Composed tools under their own names: what an agent has composed is a tool like any other, from then on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import ContentBlock, TextContent
from pydantic import PrivateAttr
from pydantic_core import to_json

from go_ent.composer import Composer, ComposerError, StoreError
from go_ent.composer.catalogue.reserved import is_reserved
from go_ent.composer.codemode.codemode import CodeRun
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.source import Composed
from go_ent.composer.project.items import apart, reason
from go_ent.engine.engine import Engine
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.server.calls.callers import Caller, current
from go_ent.engine.server.calls.long_calls import run_guest
from go_ent.engine.server.calls.media import blocks
from go_ent.engine.server.calls.record_tables import as_text
from go_ent.engine.server.calls.results import answering, cut, failed, of_run
from go_ent.engine.server.tools import definitions

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from fastmcp.utilities.versions import VersionSpec

    from go_ent.sandbox.images import Image

log = logging.getLogger("go_ent.engine.server")
MAX_FILES = 1_000  # of one store: past that its tools are run by tool_run alone, for to look at them all takes long
IMAGE_S = 3.0  # that lists wait for the sandbox image, all of them together
SHARE = 1_000  # characters of a definition, on average: a long one takes the place of several
META = "go-ent/run"
LONG = (
    "It ran to its end: don't run it again for this. Its result is too long to be given as what the tool says it "
    "returns: "
)


def add(server: FastMCP, composer: Composer, engine: Engine) -> NamedTools:
    """Offer the composed tools under their own names."""
    tools = NamedTools(composer, engine)
    server.add_provider(tools)
    return tools


class NamedTool(Tool):
    """A composed tool; a call of it is a run like any other, on record."""

    _composer: Composer = PrivateAttr()
    _engine: Engine = PrivateAttr()
    _tool: Composed | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, tool: Composed, composer: Composer, engine: Engine) -> NamedTool:
        parameters = definitions.parameters(tool.interface.input_schema)
        made = cls(
            name=tool.name,
            description=definitions.description(tool, open_schema=parameters is definitions.OPEN),
            parameters=parameters,
            output_schema=definitions.output(tool.interface.output_schema),
            annotations=definitions.effects(tool, composer),
        )
        made._composer, made._engine, made._tool = composer, engine, tool
        return made

    @property
    def size(self) -> int:
        """How much of a model's context it takes, in characters."""
        return len(self.name) + len(self.description or "") + len(to_json(self.parameters))

    def order(self, arguments: dict[str, Any]) -> GuestOrder:
        """What a call of it runs."""
        return GuestOrder(tool=self.name, inputs=arguments)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return await _run(self, arguments)

    def answer(self, run: CodeRun) -> ToolResult:
        """A run as an answer of the tool's own: what it returned, as its output schema says; how it went stands beside
        it.

        Anything but a result is an error without structured content: clients hold that to the output schema, errors
        too.
        """
        whole = of_run(run)
        told = dict(whole.structured_content or {})
        beside: dict[str, Any] = {
            META: {key: told[key] for key in ("execution_id", "status", "stdout", "usage") if key in told}
        }
        if run.status != "completed":
            return ToolResult(content=whole.content, meta=beside, is_error=True)
        shown = self.output_schema or {}
        if run.result_truncated and not definitions.takes_text(shown):
            return ToolResult(content=LONG + str(run.result), meta=beside, is_error=True)
        content: list[ContentBlock] = [TextContent(text=as_text(run.result)), *blocks(run)]
        if definitions.WRAPPED not in shown and isinstance(run.result, dict):
            return ToolResult(content=content, structured_content=run.result, meta=beside)
        return ToolResult(
            content=content,
            structured_content={"result": run.result},
            meta={**beside, "fastmcp": {"wrap_result": True}},
        )


@answering()
async def _run(tool: NamedTool, arguments: dict[str, Any]) -> ToolResult:
    order = tool.order(arguments)
    return await run_guest(order, tool._composer, tool._engine, present=tool.answer, tool=tool._tool)


class BrokenTool(Tool):
    """A file that is no tool now: its callers learn why."""

    reason: str

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return failed(self.reason)


class NamedTools(Provider):
    """The granted composed tools, as MCP tools. Only so many are listed; each can be called."""

    def __init__(self, composer: Composer, engine: Engine) -> None:
        super().__init__()
        self.composer = composer
        self._engine = engine
        self._key: object = None
        self._made: dict[str, tuple[tuple[str, int, int], NamedTool]] = {}
        self._order: list[str] = []
        self._lock = asyncio.Lock()
        self._finding: asyncio.Task[Image] | None = None
        self._patience = 0.0  # when lists no longer wait for it
        self.unlisted: dict[str, str] = {}  # tools that can't be shown to a client, and why
        self.late = 0  # times that a list was made without them, and they are there now

    async def _list_tools(self) -> Sequence[Tool]:
        return await self.listing(current())

    async def listing(self, caller: Caller) -> list[NamedTool]:
        """What *caller* finds listed: the newest and the most used. It changes when a tool does, not with each use."""
        most = self._engine.config.serve.listed
        if not await self._has_image():
            return []
        try:
            order = await self._ranked()
        except Exception as error:
            log.warning("composed tools can't be listed: %s", reason(error, "the list of composed tools"))
            return []
        grants = caller.grants(self.composer)
        listed: list[NamedTool] = []
        room = most * SHARE
        for name in order:
            tool = self.composer.composed.found.get(name)
            if len(listed) == most or room <= 0:
                break
            if tool is not None and not is_reserved(name) and len(name) <= definitions.MAX_NAME and grants.allows(name):
                with apart(name, self.unlisted):
                    made = self._tool(tool)
                    room -= made.size
                    listed.append(made)
        return listed

    async def required(self, caller: Caller) -> frozenset[str]:
        """The tools that those which *caller* finds listed call."""
        found = self.composer.composed.found
        names = [tool.name for tool in await self.listing(caller)]
        return frozenset(one for name in names if name in found for one in found[name].interface.requires)

    def _tool(self, tool: Composed) -> NamedTool:
        """A tool as it is listed and called: made once, until it or any that it may call is another."""
        key = tool.file.digest, self.composer.composed.version, self.composer.catalogue.version
        kept = self._made.get(tool.name)
        if kept is None or kept[0] != key:
            if len(self._made) > MAX_FILES:
                self._made.clear()
            self._made[tool.name] = kept = key, NamedTool.of(tool, self.composer, self._engine)
        return kept[1]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        return await self.find(name)

    async def find(self, name: str) -> Tool | None:
        """One of them that the caller may call, by its name."""
        if is_reserved(name) or not toolfile.NAME.fullmatch(name) or not current().grants(self.composer).allows(name):
            return None
        composed = self.composer.composed
        try:
            return self._tool(await composed.get(name))
        except ComposerError:
            reason = composed.why_not(name)
            return BrokenTool(name=name, parameters=definitions.OPEN, reason=cut(reason)) if reason else None

    async def _has_image(self) -> bool:
        """Whether a guest can say what the tools take. A client that is new to this machine does not wait until one
        can.
        """
        if self.composer.box.has_image:
            return True
        if not await asyncio.to_thread(stamps_of, self.composer):
            return False  # there are no tools either
        if self._finding is None:
            self._finding = asyncio.create_task(asyncio.to_thread(lambda: self.composer.box.image))
            self._finding.add_done_callback(self._found)
            self._patience = time.monotonic() + IMAGE_S
        await asyncio.wait([self._finding], timeout=max(0.0, self._patience - time.monotonic()))
        return self.composer.box.has_image

    def _found(self, finding: asyncio.Task[Image]) -> None:
        self._finding = None
        self.late += 1
        if not finding.cancelled() and (error := finding.exception()) is not None:
            log.warning("composed tools can't be listed: %s", error)

    async def _ranked(self) -> list[str]:
        """The tools by rank, which is found anew only when one of them has changed."""
        composed = self.composer.composed
        stamps = await asyncio.to_thread(stamps_of, self.composer)
        for store in self.composer.stores:
            if sum(scope == store.scope for scope, _ in stamps) > MAX_FILES:
                raise StoreError(f"{store.where} has more than {MAX_FILES} files")
        await composed.load()
        async with self._lock:
            key = {name: tool.file.digest for name, tool in composed.found.items()}
            if key != self._key:
                calls = await asyncio.to_thread(self._calls)
                found = composed.found
                newest = sorted(found, key=lambda name: (-stamps.get((found[name].scope, name), (0,))[0], name))
                used = [
                    (scope_name, count)
                    for scope_name, count in calls.items()
                    if count and found.get(scope_name[1]) is not None
                ]
                most_used = sorted(
                    {name: count for (scope, name), count in used if found[name].scope == scope}.items(), key=_by_use
                )
                self._order = list(_alternating(newest, [name for name, _ in most_used]))
                self._key = key
            return self._order

    def _calls(self) -> dict[tuple[str, str], int]:
        return {
            (scope, name): used.calls
            for scope, usage in self.composer.usage.items()
            for name, used in usage.all().items()
        }


def _by_use(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _alternating(*lists: Iterable[str]) -> dict[str, None]:
    """One of each in turn, each once: so there is room for what is new, and for what has proved useful."""
    return dict.fromkeys(name for turn in zip_longest(*lists) for name in turn if name is not None)


def stamps_of(composer: Composer) -> dict[tuple[str, str], tuple[int, int, int]]:
    """The tools' files as they are now: another stamp, another file. Blocks."""
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for store in composer.stores:
        try:
            found |= {(store.scope, name): file.stamp for name, file in store.scan().items()}
        except StoreError:  # who asks for the tools is told
            found[store.scope, ""] = (0, 0, 0)
    return found
