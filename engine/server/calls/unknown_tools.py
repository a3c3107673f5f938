"""A call of a tool that the server does not have: what may have been meant, or how that one is called instead."""

from __future__ import annotations

from fastmcp.exceptions import NotFoundError
from fastmcp.server.middleware import CallNext, MiddlewareContext
from fastmcp.tools.base import ToolResult
from mcp_types import CallToolRequestParams

from go_ent.composer import Composer, ComposerError
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.middleware import OnCalls
from go_ent.engine.server.calls.results import failed
from go_ent.sandbox.messages.near_names import did_you_mean, near

ALIKE = 0.75
MOST_TOLD = 80
PREFIX = "tools."
FIND = "tool_search finds those that code may call, tool_list the composed ones"


class Unknown(OnCalls):
    """Answers for the tools that there are not. Of a tool that the caller may not call, it says no more than of one
    that never was.
    """

    def __init__(self, composer: Composer) -> None:
        self._composer = composer

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        try:
            return await call_next(context)
        except NotFoundError:
            name = context.message.name
            server = None if context.fastmcp_context is None else context.fastmcp_context.fastmcp
            if server is None or await server.get_tool(name) is not None:  # it is something else that was not found
                raise
            inner = name.removeprefix(PREFIX)
            if await self._is_for_code(inner):
                return failed(f"{inner} is called by code: code_execute with `await {PREFIX}{inner}(...)`")
            names = [one.name for one in await server.list_tools()]
            meant = did_you_mean(near(name, names, 1, ALIKE))
            return failed(f"there is no tool {name[:MOST_TOLD]}{meant or f'; {FIND}'}")

    async def _is_for_code(self, name: str) -> bool:
        if (
            "." not in name
        ):  # composed tools are the server's own; one that it does not take as that is not to be made known here
            return False
        try:
            await self._composer.catalogue.get(name, current().grants(self._composer))
        except ComposerError:
            return False
        return True
