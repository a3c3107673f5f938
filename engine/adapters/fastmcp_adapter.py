"""fastmcp's private parts that we use: the protocol's own server, which takes handlers and middleware; its store."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from go_ent.composer.sources.fastmcp_loading import load_fastmcp

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from fastmcp import FastMCP
    from mcp.server import Server
    from mcp.server.context import HandlerResult
    from pydantic import BaseModel

    Handler = Callable[[Any, Any], Awaitable[HandlerResult]]

STORE = "_FastMCP__state_store"
PARSER = "parse_docstring"


class NoState:
    """Stands in for the store of what sessions keep, which fastmcp asks for each call: here they keep nothing.

    fastmcp's own takes a fifth of a second to import, at the first call.
    """

    async def get(self, key: str) -> None:
        return None

    async def put(self, key: str, value: object, ttl: float | None = None) -> None:
        raise NotImplementedError("sessions keep nothing in this server")

    async def delete(self, key: str) -> bool:
        return False


def keep_no_state(server: FastMCP) -> None:
    """Have a server's sessions keep nothing. Fails if fastmcp has its store elsewhere."""
    if getattr(server, STORE, NoState) is not None:
        raise AttributeError(f"fastmcp keeps its sessions' state elsewhere than in {STORE}")
    setattr(server, STORE, NoState())


@contextmanager
def plain_docstrings() -> Iterator[None]:
    """Take the docstrings of the tools that are added meanwhile as they are: nothing in them is about a parameter.

    The parser that fastmcp asks takes a twentieth of a server's start to import.
    """
    load_fastmcp()
    from fastmcp.prompts import function_prompt
    from fastmcp.tools import function_parsing
    from fastmcp.utilities.docstring_parsing import ParsedDocstring, parse_docstring

    def plain(function: Callable[..., Any]) -> ParsedDocstring:
        return ParsedDocstring(inspect.getdoc(function))

    def use(parser: Callable[..., ParsedDocstring]) -> None:
        for module in (function_prompt, function_parsing):
            setattr(module, PARSER, parser)

    use(plain)
    try:
        yield
    finally:
        use(parse_docstring)


def lowlevel_of(server: FastMCP) -> Server[Any]:
    """The server of the mcp library that a FastMCP is built on."""
    return server._mcp_server


def take_over(server: FastMCP, method: str, params: type[BaseModel], handler: Handler) -> Handler:
    """Have *handler* answer the requests of a method; the one that has answered them so far."""
    lowlevel = lowlevel_of(server)
    entry = lowlevel.get_request_handler(method)
    if entry is None:
        raise AttributeError(f"fastmcp does not answer {method} any more")
    lowlevel.add_request_handler(method, params, handler)
    return entry.handler
