"""What a server's answers mean: which tools it has, and what a caller gets of a call. All of it is bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_json

from go_ent.composer.catalogue.spec import ANYTHING, Hints, Schema, ToolSpec, part_of
from go_ent.composer.errors import CallError
from go_ent.composer.sources.listing import MAX_TOOLS, Entry
from go_ent.composer.sources.openapi_requests import Route
from go_ent.composer.sources.server_config import Scrubber
from go_ent.sandbox.media.marks import mark

if TYPE_CHECKING:  # their import takes a second: it waits until a server is started
    from mcp import ClientSession
    from mcp_types import CallToolResult, ContentBlock, Tool

MAX_PAGES = 250
MAX_DESCRIPTION = 4 << 10
MAX_SCHEMA = 256 << 10
MAX_ERROR = 2 << 10
MAX_RESULT = 4 << 20
BINARY = ("image", "audio")
MAX_NAME = 100  # characters of a file's name, or of a MIME type


async def list_tools(session: ClientSession) -> list[Tool]:
    """All tools, page by page; one more than can be offered, if there are more."""
    from mcp_types import PaginatedRequestParams

    found: list[Tool] = []
    cursors: set[str] = set()
    params = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=params)
        found += page.tools
        if page.next_cursor is None or page.next_cursor in cursors or len(found) > MAX_TOOLS:
            break
        cursors.add(page.next_cursor)
        params = PaginatedRequestParams(cursor=page.next_cursor)
    return found


def entry_of(namespace: str, tool: Tool, origin: str, hide: Scrubber, route: Route | None = None) -> Entry:
    part = part_of(tool.name)
    given = tool.annotations
    hints = (
        Hints(given.read_only_hint, given.destructive_hint, given.idempotent_hint, given.open_world_hint)
        if given
        else Hints()
    )
    output = hide.through(_bounded(tool.output_schema))
    wrapped = output is not None and output.get("x-fastmcp-wrap-result") is True
    spec = ToolSpec(
        name=f"{namespace}.{part}",
        description=cut(hide(tool.description or tool.title or ""), MAX_DESCRIPTION),
        input_schema=hide.through(_bounded(tool.input_schema)) or ANYTHING,
        output_schema=_unwrapped(output) if wrapped and output is not None else output,
        hints=hints,
        origin=origin,
    )
    return Entry(spec, tool.name, part, wrapped, route)


def _bounded(schema: Schema | None) -> Schema | None:
    if schema is None:
        return None
    try:
        return schema if len(to_json(schema)) <= MAX_SCHEMA else None
    except (PydanticSerializationError, ValueError, RecursionError):
        return None


def _unwrapped(schema: Schema) -> Schema | None:
    """The schema of the `result` inside, with the definitions that it may refer to."""
    inner = schema.get("properties", {}).get("result")
    if not isinstance(inner, Mapping) or not inner:
        return None
    return {**inner, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}


def answer_of(result: CallToolResult, entry: Entry, scrub: Scrubber, hide: Scrubber) -> Any:
    if result.is_error:
        said = "\n".join(block.text for block in result.content if block.type == "text")
        raise CallError(cut(scrub(said).strip(), MAX_ERROR) or "the tool says that it failed, and nothing more")
    return hide.through(bounded(value_of(result, entry.wrapped), entry.spec.name))


def bounded(value: Any, name: str) -> Any:
    """What the tool *name* answered, if it is JSON and not too long."""
    try:
        size = len(to_json(value))
    except (PydanticSerializationError, ValueError, RecursionError):
        raise CallError(f"the result of {name} can't be encoded as JSON") from None
    if size > MAX_RESULT:
        raise CallError(f"the result of {name} is {size} bytes long; {MAX_RESULT} are allowed: ask it for less")
    return value


def value_of(result: CallToolResult, wrapped: bool) -> Any:
    """What a caller gets of a result.

    - Structured content, where there is any; out of the `{"result": …}` that fastmcp puts around what is no object.
    - Else what the one block holds; of several blocks a list; of none, None.
    - A text is itself, unless the whole of it is a JSON object or array: then that.
    - Images, audio and embedded files are bytes (a mark, until they are in a guest); links are objects.
    """
    structured = result.structured_content
    if structured is not None and any(block.type in BINARY for block in result.content):
        try:
            structured = _without_base64(structured)
        except RecursionError:
            raise CallError("its result nests too deep to be used") from None
    if structured is not None:
        return (
            structured["result"]
            if wrapped and isinstance(structured, dict) and set(structured) == {"result"}
            else structured
        )
    values = [_block(block) for block in result.content]
    return values[0] if len(values) == 1 else values or None


def _without_base64(value: Any) -> Any:
    """Structured content that repeats the blocks of its answer: pictures and sounds in it are bytes, too."""
    match value:
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(mime_type)}:
            return mark(data, cut(mime_type, MAX_NAME)) | {"type": kind}
        case dict():
            return {key: _without_base64(item) for key, item in value.items()}
        case list():
            return [_without_base64(item) for item in value]
    return value


def _block(block: ContentBlock) -> Any:
    if block.type == "text":
        return parsed(block.text)
    if block.type == "image" or block.type == "audio":  # noqa: PLR1714 - mypy narrows by this form alone
        return mark(block.data, cut(block.mime_type, MAX_NAME))
    if block.type == "resource_link":
        said = {
            "uri": str(block.uri),
            "name": block.name,
            "description": block.description,
            "mime_type": block.mime_type,
        }
    else:
        held = block.resource
        if (blob := getattr(held, "blob", None)) is not None:
            name = str(held.uri).rstrip("/").rpartition("/")[2]
            return mark(blob, cut(held.mime_type or "", MAX_NAME), cut(name, MAX_NAME))
        said = {"uri": str(held.uri), "mime_type": held.mime_type, "text": getattr(held, "text", None)}
    return {"type": block.type, **{key: value for key, value in said.items() if value is not None}}


def no_constant(name: str) -> None:
    """For `parse_constant` of `json.loads`: NaN and the infinities are no JSON."""
    raise ValueError(f"{name} is not JSON")


def parsed(text: str) -> Any:
    """A text, or what it says if the whole of it is a JSON object or array."""
    inner = text.strip()
    if inner[:1] + inner[-1:] not in ("{}", "[]"):
        return text

    try:
        return json.loads(inner, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return text


def cut(text: str, limit: int) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates can't go on
    return text if len(text) <= limit else f"{text[:limit]}… [cut]"
