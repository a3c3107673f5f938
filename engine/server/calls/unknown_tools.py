"""A call of a tool that the server does not have: what may have been meant, or how that one is called instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastmcp.tools.base import ToolResult

from go_ent.composer import Composer, ComposerError
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.results import failed
from go_ent.sandbox.messages.near_names import did_you_mean, near

if TYPE_CHECKING:
    from fastmcp import FastMCP

ALIKE = 0.75
MOST_TOLD = 80
PREFIX = "tools."
FIND = "tool_search finds those that code may call, tool_list the composed ones"


async def say_unknown(name: str, server: FastMCP, composer: Composer) -> ToolResult:
    """The answer to a call of a tool that there is not. Of a tool that the caller may not call, it says no more than of
    one that never was.
    """
    inner = name.removeprefix(PREFIX)
    if await _is_for_code(inner, composer):
        return failed(f"{inner} is called by code: code_execute with `await {PREFIX}{inner}(...)`")
    names = [one.name for one in await server.list_tools()]
    meant = did_you_mean(near(name, names, 1, ALIKE))
    return failed(f"there is no tool {name[:MOST_TOLD]}{meant or f'; {FIND}'}")


async def _is_for_code(name: str, composer: Composer) -> bool:
    if "." not in name:  # composed tools are the server's own; one that it does not take as that is not made known here
        return False
    try:
        await composer.catalogue.get(name, current().grants(composer))
    except ComposerError:
        return False
    return True
