"""Pictures, sounds and files over MCP: content that a client can show, and resources that it can read."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.tools.base import ToolResult
from mcp_types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink

from go_ent.composer import Composer
from go_ent.composer.config import Config
from go_ent.composer.sources.mcp import McpSource
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.engine.server.calls.media import shown_name
from go_ent.sandbox import Sandbox
from tests.sandbox.test_media import PNG, SVG

WAV = b"RIFF\0\0\0\0WAVEfmt " + bytes(range(64))
studio = FastMCP("studio")


BLOCK = {"type": "object", "required": ["type", "data", "mimeType"], "additionalProperties": False} | {
    "properties": {name: {"type": "string"} for name in ("type", "data", "mimeType")}
}


def photo_block() -> ImageContent:
    return ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")


@studio.tool(output_schema=None)
def photo() -> ImageContent:
    return photo_block()


@studio.tool(output_schema=None)
def sound() -> AudioContent:
    return AudioContent(data=base64.b64encode(WAV).decode(), mime_type="audio/wav")


@studio.tool(output_schema=None)
def paper() -> EmbeddedResource:
    blob = base64.b64encode(b"%PDF-1.7\xff").decode()
    return EmbeddedResource(
        resource=BlobResourceContents(uri="file:///papers/offer.pdf", mime_type="application/pdf", blob=blob)
    )


@studio.tool(output_schema={"type": "object", "properties": {"content": {"type": "array", "items": BLOCK}}})
def both() -> ToolResult:
    """As a server that says its blocks twice: as content, and structured."""
    block = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    return ToolResult(content=[photo_block()], structured_content={"content": [block]})


@studio.tool
def weigh(data: str) -> int:
    return len(base64.b64decode(data))


def serve(project: Path, box: Sandbox, work: Callable[[Client[Any], Composer], Awaitable[None]]) -> None:
    async def main() -> None:
        source = McpSource.from_server("studio", studio)
        composer = Composer(project, config=Config(allow=("studio.*",)), sources=[source], box=box, trusted=True)
        async with (
            composer,
            Engine(project, composer=composer, trusted=True) as engine,
            Client(make_server(composer, engine)) as client,
        ):
            await work(client, composer)

    asyncio.run(main())


async def read(client: Client[Any], uri: str) -> Any:
    return (await client.read_resource(uri))[0]


async def run(client: Client[Any], code: str) -> tuple[dict[str, Any], list[Any]]:
    result = await client.call_tool("code_execute", {"code": code})
    assert result.structured_content is not None
    text, *rest = result.content
    shown = json.loads(getattr(text, "text", ""))
    assert {name: value for name, value in result.structured_content.items() if name != "usage"} == shown
    return result.structured_content, rest


def test_what_a_tool_gives_comes_back_as_content(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], composer: Composer) -> None:
        told, (image, link) = await run(client, "await tools.studio.photo()")
        assert told["result"] == {"file": "result.png", "bytes": len(PNG)}
        assert told["files"] == [{"name": "result.png", "mime_type": "image/png", "bytes": len(PNG)}]
        assert (image.type, image.mime_type, base64.b64decode(image.data)) == ("image", "image/png", PNG)
        assert (link.mime_type, link.size) == ("image/png", len(PNG))
        told, (audio, _) = await run(client, "await tools.studio.sound()")
        assert (audio.type, audio.mime_type) == ("audio", "audio/wav")
        told, (link,) = await run(client, "p = await tools.studio.paper()\n[p.name, p.mime_type, p]")
        assert told["result"][:2] == ["offer.pdf", "application/pdf"]
        assert link.mime_type == "application/pdf"
        told, (image, _) = await run(client, "await tools.studio.both()")
        assert told["result"] == {"content": [{"file": "result.png", "bytes": len(PNG)}]}
        assert image.mime_type == "image/png"
        result = await client.call_tool("tool_run", {"name": "studio.photo"})
        assert [block.type for block in result.content] == ["text", "image", "resource_link"]
        told, rest = await run(client, "p = await tools.studio.photo()\nawait tools.studio.weigh(data=p)")
        assert (told["result"], rest) == (len(PNG), [])

    serve(project, box, work)


def test_files_are_resources(project: Path, box: Sandbox) -> None:
    code = (
        "import os\nos.mkdir('out')\n"
        f"open('out/my chart.svg', 'wb').write({SVG!r})\nopen('a.csv', 'w').write('a,b')\nopen('b', 'wb').write(b'\\0')"
    )

    async def work(client: Client[Any], composer: Composer) -> None:
        told, links = await run(client, code)
        assert [link.type for link in links] == ["resource_link"] * 3  # a picture that is a program is no image
        assert all(isinstance(link, ResourceLink) for link in links)
        svg, table, other = [await read(client, link.uri) for link in links]
        assert (svg.mime_type, base64.b64decode(svg.blob)) == ("image/svg+xml", SVG)
        assert (table.mime_type, table.text) == ("text/csv", "a,b")
        assert (other.mime_type, base64.b64decode(other.blob)) == ("application/octet-stream", b"\0")
        assert [link.description for link in links] == ["a drawing", None, None]
        assert told["hint"] == f"go-ent output {told['execution_id'][-8:]} --out DIR saves the files"
        assert links[0].uri == f"go-ent://executions/{told['execution_id']}/files/out/my%20chart.svg"

    serve(project, box, work)


def test_a_composed_tool_that_draws(project: Path, box: Sandbox) -> None:
    draws = '# /// tool\n# name = "draws"\n# ///\nasync def draws() -> bytes:\n    """A picture."""\n'
    source = f"{draws}    return await tools.studio.photo()\n"
    uses = '# /// tool\n# name = "uses"\n# ///\nasync def uses() -> int:\n    """Its size."""\n'
    takes = '# /// tool\n# name = "takes"\n# ///\ndef takes(data: bytes) -> int:\n    """Its size."""\n'

    async def work(client: Client[Any], composer: Composer) -> None:
        await composer.compose(source)
        await composer.compose(f"{uses}    return len(await tools.draws())\n")
        await composer.compose(f"{takes}    return len(data)\n")
        result = await client.call_tool("draws", {})
        assert [block.type for block in result.content] == ["text", "image", "resource_link"]
        assert result.structured_content == {"result": {"file": "result.png", "bytes": len(PNG)}}
        assert (await client.call_tool("uses", {})).data == len(PNG)
        told, _ = await run(client, "await tools.takes(data=await tools.draws())")
        assert told["result"] == len(PNG)

    serve(project, box, work)


def test_many_and_large_files_are_bounded(project: Path, box: Sandbox) -> None:
    code = (
        "p = b'\\x89PNG\\r\\n\\x1a\\n'\nfor n in range(30): open(f'{n}.png', 'wb').write(p + bytes([n]))\n"
        "open('large.png', 'wb').write(p + bytes(4_000_000))"
    )

    async def work(client: Client[Any], composer: Composer) -> None:
        told, blocks = await run(client, code)
        kinds = [block.type for block in blocks]
        assert (kinds.count("image"), kinds.count("resource_link")) == (8, 20)
        assert told["files"][-1] == {"name": "… and 11 more"}
        uri = f"go-ent://executions/{told['execution_id']}/files/large.png"
        large = await read(client, uri)
        assert len(base64.b64decode(large.blob)) == 4_000_008

    serve(project, box, work)


def test_names_are_shown_plainly() -> None:
    assert shown_name("a\x1b[31m\u202eb\n.png") == "a�[31m�b�.png"
    assert len(shown_name("x" * 255)) == 100
