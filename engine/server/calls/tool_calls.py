"""`tools/call`: the one way of every call of a tool, from the protocol's request to its answer.

fastmcp's own takes as long as all of ours: it asks each provider for the tool in a task of its own, and makes a context
and a chain of middleware for each call. Ours are found here, and run. What else a program may add to the server is
called in fastmcp's way.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from fastmcp.exceptions import FastMCPError
from fastmcp.exceptions import ValidationError as BadArguments
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY, CallToolRequestParams
from pydantic import ValidationError

from go_ent.composer import Composer
from go_ent.composer.catalogue.reserved import is_reserved
from go_ent.engine.server.calls import request
from go_ent.engine.server.calls.request import ToolRequest
from go_ent.engine.server.calls.results import failed
from go_ent.engine.server.calls.unknown_tools import say_unknown
from go_ent.sandbox.messages.validation import misfits

if TYPE_CHECKING:
    from fastmcp import FastMCP

log = logging.getLogger("go_ent.engine.server")
Find = Callable[[str], Awaitable[Tool | None]]
Handler = Callable[[ServerRequestContext[Any, Any], CallToolRequestParams], Awaitable[HandlerResult]]


class ToolCalls:
    """The calls of one server. *finders* know the tools that come and go; *called* hears of each that went well;
    *hold* says that a request is worked on.
    """

    def __init__(
        self,
        server: FastMCP,
        composer: Composer,
        finders: tuple[Find, ...],
        *,
        called: Callable[[str], Awaitable[None]],
        hold: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._server, self._composer, self._finders = server, composer, finders
        self._called, self._hold = called, hold
        self._theirs: set[str] = set()  # names of tools that are not ours
        self.otherwise: Handler | None = None  # what answers for those
        self._own: dict[str, Tool] = {}

    async def answer(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> HandlerResult:
        """Answer one request."""
        with self._hold():
            request.begin(ToolRequest(context, params))
            await self._composer.live_config.follow()  # it goes by the grants of now
            name = params.name
            if name not in self._theirs:
                if (tool := await self._find(name)) is not None:
                    return _on_the_wire(await self._run(tool, params))
                if await self._server.get_tool(name) is not None:
                    self._theirs.add(name)
            if name in self._theirs and self.otherwise is not None:
                return await self.otherwise(context, params)
            return _on_the_wire(await say_unknown(name, self._server, self._composer))

    async def _find(self, name: str) -> Tool | None:
        """One of our tools."""
        if is_reserved(name):
            if name not in self._own and (found := await self._server.local_provider.get_tool(name)) is not None:
                self._own[name] = found
            return self._own.get(name)
        for find in self._finders:
            if (tool := await find(name)) is not None:
                return tool
        return None

    async def _run(self, tool: Tool, params: CallToolRequestParams) -> ToolResult:
        """What a tool answers; what it raises is an error that the model can act on."""
        try:
            result = await tool.run(params.arguments or {})
        except FastMCPError as error:
            if isinstance(error, BadArguments) and isinstance(error.__cause__, ValidationError):
                log.warning("Invalid arguments for tool %r", params.name)
                names = list(tool.parameters.get("properties", {}))
                return failed(f"the arguments of {params.name} do not fit: {misfits(error.__cause__, names)}")
            return failed(str(error))
        except MCPError as error:
            if error.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY:  # the protocol's own error, and no answer
                raise
            return _broken(params.name, error)
        except Exception as error:
            return _broken(params.name, error)
        if not result.is_error:
            await self._called(params.name)
        return result


def _broken(name: str, error: Exception) -> ToolResult:
    log.error("%s failed", name, exc_info=error)
    return failed(f"Error calling tool {name!r}: {error}")


def _on_the_wire(result: ToolResult) -> HandlerResult:
    """A result as the protocol has it: mcp checks it, and leaves out what the client's version has no word for."""
    if isinstance(result, InputRequiredToolResult):
        return result.input_required
    made: dict[str, Any] = {
        "content": [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in result.content],
        "isError": result.is_error,
        "resultType": "complete",
    }
    if result.structured_content is not None:
        made["structuredContent"] = result.structured_content
    if result.meta is not None:
        made["_meta"] = result.meta
    return made
