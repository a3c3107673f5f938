"""Middleware that sees one kind of request: every other passes it in one step, where fastmcp's way takes a dozen."""

from __future__ import annotations

from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext


class OnLists(Middleware):
    """Sees lists of tools: `on_list_tools`."""

    async def __call__(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        return await (self.on_list_tools if context.method == "tools/list" else _passed)(context, call_next)


async def _passed(context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
    return await call_next(context)
