"""The definitions of the server's own tools, as short as they can be: clients send all of them with every request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastmcp.server.middleware import CallNext, MiddlewareContext
from fastmcp.tools import FunctionTool, Tool
from mcp_types import ListToolsRequest

from go_ent.engine.server.calls.middleware import OnLists

UNSAID = frozenset({"additionalProperties", "minimum", "maximum"})


class Lean(OnLists):
    """Lists an optional argument without its null type. null is accepted."""

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        return [
            tool.model_copy(update={"parameters": lean(tool.parameters)}) if isinstance(tool, FunctionTool) else tool
            for tool in await call_next(context)
        ]


def lean(schema: dict[str, Any]) -> dict[str, Any]:
    """What a call may say; what it may not say besides, the server tells."""
    properties = {name: _open(_optional(one)) for name, one in schema.get("properties", {}).items()}
    return {
        **{key: value for key, value in schema.items() if key != "additionalProperties"},
        "properties": properties,
    }


def _open(schema: Any) -> Any:
    """Without what members an object may have besides, how large a number may be, and defaults that are empty: a
    client that gets that wrong is told.
    """
    if isinstance(schema, list):
        return [_open(one) for one in schema]
    if isinstance(schema, dict):
        return {
            key: _open(value)
            for key, value in schema.items()
            if key not in UNSAID and not (key == "default" and value == "")
        }
    return schema


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    """Without null and the default of it, where that says no more than that it may be left out."""
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(kinds) == len(schema.get("anyOf", ())) or "default" not in schema or schema["default"] is not None:
        return schema
    rest = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
    return {**kinds[0], **rest} if len(kinds) == 1 else {"anyOf": kinds, **rest}
