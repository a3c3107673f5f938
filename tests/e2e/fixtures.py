"""The tools, resources and prompts that the conformance suite calls by name, for a server that is ours in all else."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.prompts import Message
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.types import Audio, Image

from go_ent.composer import Composer
from go_ent.engine.core.config import Profile
from go_ent.engine.engine import Engine

DOT = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SOUND = (
    b"RIFF\x24\x00\x00\x00WAVEfmt "
    b"\x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00"
)
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
TITLED = [
    {"const": f"value{number}", "title": f"{word} Option"}
    for number, word in enumerate(("First", "Second", "Third"), 1)
]
OPTIONS = [f"option{number}" for number in (1, 2, 3)]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


def add(server: FastMCP) -> None:
    _add_contents(server)
    _add_talking(server)
    _add_resources(server)
    _add_prompts(server)


def _embedded(uri: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type="text/plain", text=text))


def _add_contents(server: FastMCP) -> None:
    @server.tool
    def test_simple_text() -> str:
        """A text."""
        return "This is a simple text response for testing."

    @server.tool
    def test_image_content() -> Image:
        """An image."""
        return Image(data=DOT, format="png")

    @server.tool
    def test_audio_content() -> Audio:
        """A sound."""
        return Audio(data=SOUND, format="wav")

    @server.tool
    def test_embedded_resource() -> ToolResult:
        """A resource in a result."""
        return ToolResult(content=[_embedded("test://embedded-resource", "This is an embedded resource content.")])

    @server.tool
    def test_multiple_content_types() -> ToolResult:
        """A text, an image and a resource."""
        image = types.ImageContent(data=base64.b64encode(DOT).decode(), mime_type="image/png")
        resource = _embedded("test://mixed-content-resource", json.dumps({"test": "data"}))
        return ToolResult(content=[types.TextContent(text="Multiple content types test:"), image, resource])

    @server.tool
    def test_error_handling() -> str:
        """It fails."""
        raise ValueError("This tool intentionally returns an error for testing")


def _add_talking(server: FastMCP) -> None:
    """Those that talk to the client before they answer."""

    @server.tool
    async def test_tool_with_logging(context: Context) -> str:
        """It logs."""
        for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.info(said)
            await asyncio.sleep(0.05)
        return "logged"

    @server.tool
    async def test_tool_with_progress(context: Context) -> str:
        """It says how far it is."""
        for done in (0, 50, 100):
            await context.report_progress(done, 100)
            await asyncio.sleep(0.05)
        return "done"

    @server.tool
    async def test_sampling(prompt: str, context: Context) -> str:
        """It asks the client's model."""
        message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
        answer = await context.session.create_message([message], max_tokens=100, related_request_id=context.request_id)
        return f"LLM response: {answer.content}"

    async def elicit(context: Context, message: str, properties: dict[str, Any], *required: str) -> str:
        schema = {"type": "object", "properties": properties, "required": list(required)}
        answer = await context.session.elicit_form(message, schema, context.request_id)
        return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"

    @server.tool
    async def test_elicitation(message: str, context: Context) -> str:
        """It asks the client's user."""
        text = {"type": "string", "description": "User's response"}
        return await elicit(context, message, {"username": text, "email": text}, "username", "email")

    @server.tool
    async def test_elicitation_sep1034_defaults(context: Context) -> str:
        """It asks, with answers proposed."""
        return await elicit(context, "Review", DEFAULTS)

    @server.tool
    async def test_elicitation_sep1330_enums(context: Context) -> str:
        """It asks, with answers to choose from."""
        return await elicit(context, "Choose", ENUMS)


def _add_resources(server: FastMCP) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image."""
        return DOT

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        """A text."""
        return "It changes."

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        """A text for an id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(server: FastMCP) -> None:
    @server.prompt
    def test_simple_prompt() -> str:
        """A prompt."""
        return "This is a simple prompt for testing."

    @server.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A prompt with arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
        """A prompt with a resource."""
        embedded = _embedded(resourceUri, "Embedded resource content for testing.")
        return [Message(embedded), Message("Please process the embedded resource above.")]

    @server.prompt
    def test_prompt_with_image() -> list[Message]:
        """A prompt with an image."""
        image = types.ImageContent(data=base64.b64encode(DOT).decode(), mime_type="image/png")
        return [Message(image), Message("Please analyze the image above.")]


def main() -> None:
    """`go-ent serve --http 127.0.0.1:0`, with the fixtures beside our own tools."""
    from go_ent.engine import server
    from go_ent.engine.cli.commands.serve import serve_command

    plain = server.make_server

    def make_server(composer: Composer, engine: Engine, *, profile: Profile | None = None) -> FastMCP:
        server = plain(composer, engine, profile=profile)
        add(server)
        return server

    server.make_server = make_server
    raise SystemExit(serve_command(http="127.0.0.1:0"))
