"""The operations of an HTTP API as tools, from its OpenAPI document.

fastmcp makes the tools, on a server in this process; the requests go through a client of ours, which bounds answers and
says plainly what went wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator
from pydantic_core import to_json

from go_ent.composer.errors import ConfigError
from go_ent.composer.project.problems import Where
from go_ent.composer.sources.fastmcp_loading import load_fastmcp
from go_ent.composer.sources.mcp import McpSource
from go_ent.composer.sources.mcp_answers import MAX_ERROR, cut
from go_ent.composer.sources.mcp_link import ServerLink, words
from go_ent.composer.sources.mcp_transports import bounded_client, in_memory
from go_ent.composer.sources.server_config import (
    Referring,
    Scrubber,
    SourceOptions,
    configs_from_table,
    kept_back,
    read_text,
    referred,
    resolve,
)

if TYPE_CHECKING:
    import httpx2
    from mcp import ClientSession

MAX_DOCUMENT = 8 << 20
MAX_NODES = 2_000_000  # what a document may unfold to: in YAML a few lines can stand for billions
UNFOLDING = 10  # values for each character at the most: without aliases a text has fewer than one

MOST_TRIES = 200  # to find the operations of a document that can't be used

PARSER = logging.getLogger("fastmcp.utilities.openapi.parser")

_Operation = tuple[str, str | None]

# By HTTP's own definition; what POST does, nobody knows.
_HINTS: dict[str, dict[str, bool]] = {
    "GET": {"read_only_hint": True, "destructive_hint": False, "idempotent_hint": True},
    "HEAD": {"read_only_hint": True, "destructive_hint": False, "idempotent_hint": True},
    "OPTIONS": {"read_only_hint": True, "destructive_hint": False, "idempotent_hint": True},
    "PUT": {"read_only_hint": False, "destructive_hint": True, "idempotent_hint": True},
    "PATCH": {"read_only_hint": False, "destructive_hint": True},
    "DELETE": {"read_only_hint": False, "destructive_hint": True, "idempotent_hint": True},
    "POST": {"read_only_hint": False},
}


class OpenApiConfig(SourceOptions):
    """One API: where its document is, where its server is, and the headers that each request gets."""

    document: Path = Field(description="its OpenAPI 3 document, relative to the project", examples=["api/openapi.json"])
    base_url: Referring | None = Field(
        default=None, repr=False, description="its URL; by default the first server in the document"
    )
    headers: dict[str, Referring] = Field(
        default_factory=dict, repr=False, description="headers to send with every request"
    )

    @model_validator(mode="after")
    def _an_address(self) -> OpenApiConfig:
        if self.base_url is not None and not re.match(r"https?://|\$\{env:", self.base_url):
            raise ValueError("base_url: it must begin with http:// or https://")
        return self


def apis_from_table(table: Any, where: Where, folder: Path) -> dict[str, OpenApiConfig]:
    """The APIs of a file's `[openapi.NAME]` tables, by namespace. A document's path is taken from *folder*."""
    found = configs_from_table(table, where, "openapi", OpenApiConfig)
    return {name: config.model_copy(update={"document": folder / config.document}) for name, config in found.items()}


def openapi_source(
    namespace: str,
    document: Mapping[str, Any] | Path | str,
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    options: SourceOptions | None = None,
    environ: Mapping[str, str] | None = None,
) -> McpSource:
    """The operations of an API as tools, named by their operationId.

    *document* is the document itself, its text, or the path of its file; it is read when the source is first used.
    *base_url* and *headers* may hold `${env:NAME}`. An answer with a status from 300 on is a `CallError`.
    """
    options = options or SourceOptions()

    def connect(link: ServerLink) -> contextlib.AbstractAsyncContextManager[ClientSession]:
        return _connect(
            link, document, base_url, dict(headers or {}), options, os.environ if environ is None else environ
        )

    return McpSource(namespace, options, connect=connect, origin=f"API {namespace}")


def source_of(namespace: str, config: OpenApiConfig, environ: Mapping[str, str] | None = None) -> McpSource:
    """The source for a configured API."""
    return openapi_source(
        namespace, config.document, base_url=config.base_url, headers=config.headers, options=config, environ=environ
    )


@contextlib.asynccontextmanager
async def _connect(
    link: ServerLink,
    document: Mapping[str, Any] | Path | str,
    base_url: str | None,
    headers: dict[str, str],
    options: SourceOptions,
    environ: Mapping[str, str],
) -> AsyncIterator[ClientSession]:
    resolved = {name: resolve(value, environ, f"headers.{name}") for name, value in headers.items()}
    secrets = referred([base_url or "", *headers.values()], environ) | set(resolved.values())
    link.scrub, link.hide = Scrubber(secrets), kept_back([base_url or "", *headers.values()], environ)
    loaded = await asyncio.to_thread(load_document, document)  # a large one takes seconds
    address = _address(loaded) if base_url is None else resolve(base_url, environ, "base_url")
    async with bounded_client(
        headers=resolved, base_url=address, read_s=options.timeout_s + 30, kind=_client_class()
    ) as client:
        server = await asyncio.to_thread(_server, loaded, client, link.unusable)
        async with in_memory(server, link, secrets) as session:
            yield session


def _server(document: dict[str, Any], client: httpx2.AsyncClient, unusable: dict[str, str]) -> Any:
    """A server with the document's operations. One that can't be used is left out, and told in *unusable*."""
    load_fastmcp()
    from fastmcp import FastMCP
    from mcp_types import ToolAnnotations

    def hint(route: Any, component: Any) -> None:
        if component.annotations is None:
            component.annotations = ToolAnnotations.model_validate(
                {"open_world_hint": True, **_HINTS.get(route.method.upper(), {})}
            )

    def build(operations: Sequence[_Operation]) -> Any:
        if next(tries) > MOST_TRIES:
            raise ConfigError(
                "the OpenAPI document can't be used: too many of its operations are wrong: "
                f"{', '.join([*unusable][:5])}"
            )
        return FastMCP.from_openapi(
            {**document, "paths": _paths(document, operations)}, client, name="api", mcp_component_fn=hint
        )

    def usable(operations: Sequence[_Operation]) -> list[_Operation]:
        try:
            build(operations)
            return [*operations]
        except ConfigError:
            raise
        except Exception as error:
            if len(operations) == 1:
                unusable[_called(document, operations[0])] = cut(words(error), 300)
                return []
            half = len(operations) // 2
            return usable(operations[:half]) + usable(operations[half:])

    tries = itertools.count(1)
    PARSER.setLevel(logging.CRITICAL)  # it logs each failure at length, and in colours; what is wrong is told by us
    try:
        return FastMCP.from_openapi(document, client, name="api", mcp_component_fn=hint)
    except Exception as error:
        try:
            build([])
        except Exception:  # then it is none of the operations
            raise ConfigError(f"the OpenAPI document can't be used: {cut(words(error), 500)}") from None
        return build(usable(list(_operations(document))))


def _operations(document: Mapping[str, Any]) -> Iterator[_Operation]:
    """Every operation, as its path and its method; a path that has none of them that can be told apart is one
    itself.
    """
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, Mapping) else ():
        methods = [name for name in item if name.upper() in {*_HINTS, "TRACE"}] if isinstance(item, Mapping) else []
        yield from ((path, method) for method in methods or [None])


def _paths(document: Mapping[str, Any], operations: Sequence[_Operation]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for path, method in operations:
        item = document["paths"][path]
        if method is None:
            chosen[path] = item
        else:
            shared = {name: value for name, value in item.items() if name.upper() not in {*_HINTS, "TRACE"}}
            chosen[path] = {**chosen.get(path, shared), method: item[method]}
    return chosen


def _called(document: Mapping[str, Any], operation: _Operation) -> str:
    path, method = operation
    if method is None:
        return path
    found = document["paths"][path][method]
    name = found.get("operationId") if isinstance(found, Mapping) else None
    return name if isinstance(name, str) and name else f"{method.upper()} {path}"


def _client_class() -> type[httpx2.AsyncClient]:
    load_fastmcp()
    import httpx2
    from fastmcp.exceptions import ToolError

    class Client(httpx2.AsyncClient):
        """Fails as a tool fails, in a line: fastmcp would log a traceback to stderr for each."""

        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            try:
                response = await super().send(request, **options)
            except (httpx2.RequestError, httpx2.StreamError) as error:
                raise ToolError(
                    f"{request.method} {request.url.path}: {words(error)}", log_level=logging.DEBUG
                ) from None
            if response.status_code < 300:
                if (wrong := _unreadable(response)) is not None:
                    said = f"{request.method} {request.url.path}: the answer can't be read: {wrong}"
                    raise ToolError(said, log_level=logging.DEBUG)
                return response
            said = f"HTTP {response.status_code} {response.reason_phrase}".strip()
            body = response.text[: 2 * MAX_ERROR].strip()
            raise ToolError(f"{said}: {body}" if body else said, log_level=logging.DEBUG)

    return Client


def _unreadable(response: httpx2.Response) -> str | None:
    """What keeps an answer from being JSON data; what is no JSON at all is text, and None of this function's
    business.
    """
    if "json" not in response.headers.get("content-type", "").lower():
        return None
    try:
        value = json.loads(response.content)
        if b"\\u" in response.content:
            to_json(value)  # it may have halves of characters
    except json.JSONDecodeError:
        return None
    except (ValueError, RecursionError) as error:
        return cut(words(error), MAX_ERROR)
    return None


def load_document(document: Mapping[str, Any] | Path | str) -> dict[str, Any]:
    """An OpenAPI 3 document, of bounded size, all in one piece: it may refer to no other file and no address."""
    name, most = "the OpenAPI document", MAX_NODES
    if isinstance(document, Path):
        name, document = str(document), read_text(document, MAX_DOCUMENT)
    if isinstance(document, str):
        if len(document) > MAX_DOCUMENT:
            raise ConfigError(f"{name}: it is larger than {MAX_DOCUMENT} bytes")
        most = min(most, UNFOLDING * len(document))
        document = _parsed(document, name)
    if not isinstance(document, Mapping):
        raise ConfigError(f"{name}: it must be an object")
    for count, node in enumerate(_nodes(document)):
        if count > most:
            raise ConfigError(f"{name}: it unfolds to more than {most} values")
        reference = node.get("$ref") if isinstance(node, Mapping) else None
        if isinstance(reference, str) and not reference.startswith("#"):
            raise ConfigError(
                f"{name}: it refers to {reference[:200]!r}; only references within the document are followed"
            )
    version = document.get("openapi")
    if not isinstance(version, str) or not version.startswith("3."):
        raise ConfigError(f"{name}: it is not an OpenAPI 3 document (openapi: {str(version)[:40]})")
    try:
        # Through JSON: YAML has dates, and numbers as keys (200:), where OpenAPI has texts.
        made: dict[str, Any] = json.loads(json.dumps(document, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{name}: it can't be written as JSON: {error}") from None
    return made


def _parsed(text: str, name: str) -> Any:
    if text.lstrip()[:1] == "{":
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{name}: it is not JSON: {error}") from None
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise ConfigError(f"{name}: it is not JSON, and YAML needs the package PyYAML") from None
    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: it is not YAML: {str(error)[:300]}") from None


def _nodes(document: Any) -> Iterator[Any]:
    """Every value in it, again each time that it is reached by another way."""
    left = [document]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, Mapping):
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)


def _address(document: Mapping[str, Any]) -> str:
    """The first server that the document names."""
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    url = first.get("url") if isinstance(first, Mapping) else None
    if isinstance(first, Mapping) and isinstance(url, str):
        variables = first.get("variables")
        for name, variable in variables.items() if isinstance(variables, Mapping) else ():
            if isinstance(variable, Mapping):
                url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
    if not isinstance(url, str) or not re.match(r"https?://", url):
        raise ConfigError("the OpenAPI document names no server with an http address: give base_url")
    return url
