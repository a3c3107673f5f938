"""A small MCP server for the tests: over stdio, or, as `example_server.py http PORT TOKEN`, over HTTP; it prints its
port.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

from fastmcp import Context, FastMCP
from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Image
from mcp_types import (
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
    ToolListChangedNotification,
)
from pydantic import BaseModel, Field

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)
READ_ONLY = ToolAnnotations(read_only_hint=True)

mcp = FastMCP("example")


class Person(BaseModel):
    name: str
    age: int


@mcp.tool(annotations=READ_ONLY)
def add(a: int, b: Annotated[int, Field(description="what is added")] = 1) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool
def person(name: str) -> Person:
    return Person(name=name, age=7)


@mcp.tool
def people() -> list[Person]:
    return [Person(name="a", age=1), Person(name="b", age=2)]


@mcp.tool(output_schema=None)
def text(value: str) -> ToolResult:
    return ToolResult(content=value)


@mcp.tool(output_schema=None)
def blocks() -> ToolResult:
    return ToolResult(
        content=[
            TextContent(type="text", text='{"a": [1]}'),
            TextContent(type="text", text="plain"),
            ResourceLink(type="resource_link", uri="file:///x.txt", name="x", mime_type="text/plain"),
            EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///y.txt", text="why")),
        ]
    )


@mcp.tool(output_schema=None)
def nothing() -> ToolResult:
    return ToolResult(content=[])


@mcp.tool
def picture() -> Image:
    return Image(data=PIXEL, format="png")


@mcp.tool
def fails(message: str) -> str:
    raise ValueError(message)


@mcp.tool(annotations=ToolAnnotations(idempotent_hint=True))
def fails_and_counts(file: str) -> str:
    """Fails, and leaves a mark: retrying an answered call would leave two."""
    with Path(file).open("a") as log:
        log.write("x")
    raise ValueError("no")


@mcp.tool
async def sleeps(seconds: float, file: str = "") -> str:
    """Sleeps; if it is cancelled, says so in a file."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if file:
            Path(file).write_text("cancelled")  # noqa: ASYNC240 - it is cancelled: no thread could be waited for
        raise
    return "slept"


@mcp.tool
async def dozes(seconds: float, file: str) -> str:
    """As above, for a test that gives it less time than others."""
    return await sleeps(seconds, file)


@mcp.tool(annotations=ToolAnnotations(destructive_hint=True, open_world_hint=False))
def exits(code: int = 3) -> str:
    print("I am leaving", file=sys.stderr, flush=True)
    os._exit(code)


@mcp.tool(annotations=READ_ONLY)
def pid() -> int:
    return os.getpid()


@mcp.tool
def variable(name: str) -> str | None:
    return os.environ.get(name)


@mcp.tool
def variables() -> list[str]:
    return sorted(os.environ)


@mcp.tool
def complains(name: str) -> str:
    """Fails with the value of a variable in its message, and writes it to stderr."""
    print(f"the value is {os.environ[name]}", file=sys.stderr, flush=True)
    raise ValueError(f"refused with {os.environ[name]}")


@mcp.tool
def large(size: int) -> str:
    return "x" * size


@mcp.tool
async def asks(ctx: Context) -> str:
    answer = await ctx.elicit("your name?", str)
    return f"got {answer.action}"


@mcp.tool
async def grows(name: str, ctx: Context) -> str:
    """Adds a tool, and says that the list has changed."""

    def grown() -> str:
        return "new"

    mcp.tool(grown, name=name)
    await ctx.send_notification(ToolListChangedNotification())
    return "grown"


@mcp.tool(name="with-dash.and dot")
def odd() -> str:
    return "odd"


def over_http(port: int, token: str) -> None:
    import uvicorn
    from starlette.types import Receive, Scope, Send

    inner: Any = mcp.http_app(path="/mcp")

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", [])).get(b"authorization", b"")
        if scope["type"] == "http" and given != b"Bearer " + token.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await inner(scope, receive, send)

    config = uvicorn.Config(checked, log_level="critical", timeout_graceful_shutdown=1)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        print(listening.getsockname()[1], flush=True)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        over_http(int(sys.argv[2]), sys.argv[3])
    else:
        mcp.run(show_banner=False)
