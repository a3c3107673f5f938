"""What a client finds listed: the tools of its profile, and in `code_execute` what code may call.

Where the granted tools fit a number of tokens, `code_execute` says them itself: no search, one call. Else it names the
namespaces, and `tool_search` finds the rest. What is not listed can still be called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastmcp.server.middleware import CallNext, MiddlewareContext
from fastmcp.tools import FunctionTool, Tool
from mcp_types import ListToolsRequest

from go_ent.composer import Composer
from go_ent.composer.catalogue.catalogue import show
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.catalogue.stub_names import clean
from go_ent.engine.core.config import Profile, ServeConfig
from go_ent.engine.server.calls.callers import Caller, current
from go_ent.engine.server.calls.middleware import OnLists

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from go_ent.engine.server.tools.named import NamedTools

CODE = "code_execute"
PROFILES: dict[Profile, frozenset[str]] = {"code": frozenset({"tool_search", CODE, "tool_compose"})}
PATIENCE_S = 0.5  # that servers have to say what they have, before a list is made without them
CHARACTERS = 3.5  # of a token, at the least: the text is names and types
MOST_NAMESPACES = 40
SAID = "\n\nTools that code may call, in their servers' words:\n"
ALSO = "Also (tool_search shows them): "
FIND = "\n\nNamespaces of the tools that code may call (tool_search finds them): "


def add(server: FastMCP, composer: Composer, config: ServeConfig, profile: Profile) -> Offer:
    """List only what belongs to *profile*."""
    offer = Offer(composer, config, profile)
    server.add_middleware(offer)
    return offer


class Offer(OnLists):
    """Of one server."""

    def __init__(self, composer: Composer, config: ServeConfig, profile: Profile) -> None:
        self._composer, self._profile = composer, profile
        self._language = config.language
        self._room = int(config.inline_tokens * CHARACTERS)
        self.composed: NamedTools | None = None
        # By the catalogue's version, the tools' names, and which of them are only named.
        self._made: dict[tuple[int, tuple[str, ...], frozenset[str]], str] = {}

    async def __call__(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Whatever is asked for goes by the grants of now."""
        await self._composer.live_config.follow()
        return await super().__call__(context, call_next)

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        listed = [tool for tool in await call_next(context) if self._lists(tool)]
        more = await self.tools(current()) if any(tool.name == CODE for tool in listed) else ""
        if not more:
            return listed
        return [
            tool.model_copy(update={"description": f"{tool.description or ''}{more}"}) if tool.name == CODE else tool
            for tool in listed
        ]

    def _lists(self, tool: Tool) -> bool:
        if not isinstance(tool, FunctionTool) or self._profile == "full":
            return True  # composed tools are in every profile
        if self._profile == "engine":
            return tool.name.startswith("engine_")
        return tool.name in PROFILES["code"]

    async def tools(self, caller: Caller) -> str:
        """What *caller*'s code may call, for the description of the tool that runs it."""
        grants = caller.grants(self._composer)
        found = await self._composer.catalogue.namespaced(grants, PATIENCE_S)  # composed tools are listed by name
        specs = [spec for spec in found if self._composer.config.exposure(spec.name) != "direct"]
        if not specs:
            return ""
        covered = frozenset() if self.composed is None else await self.composed.required(caller)
        key = self._composer.catalogue.version, tuple(spec.name for spec in specs), covered
        if key not in self._made:
            if len(self._made) > 20:
                self._made.clear()
            self._made[key] = self._described(specs, covered)
        return self._made[key]

    def _described(self, specs: list[ToolSpec], covered: frozenset[str]) -> str:
        """The tools, or only their namespaces.

        Every turn of every conversation pays for each line. So where composed tools are listed, what they call is only
        named, and parameters have no notes (decision 35).
        """
        told = [spec for spec in specs if spec.name not in covered]
        named = [clean(spec.name, 130) for spec in specs if spec.name in covered]
        if 20 * len(specs) <= self._room:  # else they can't fit
            text = show(told, "compact", notes=not covered, language=self._language)
            text += f"{chr(10) if told else ''}{ALSO}{', '.join(named)}" if named else ""
            if len(text) <= self._room:
                return SAID + text
        counts = Counter(clean(spec.namespace.partition(".")[0], 60) for spec in specs)
        spaces = [f"{name} ({count})" for name, count in counts.most_common(MOST_NAMESPACES)]
        return FIND + ", ".join(spaces) + (", …" if len(counts) > MOST_NAMESPACES else "")
