"""The operations of an HTTP API as tools, from its OpenAPI document.

fastmcp makes the tools, on a server in this process, whose listing is kept. Calls go through a client of ours, which
bounds answers and says plainly what went wrong: they need neither fastmcp nor the document.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator
from pydantic_core import to_json

from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.errors import CallError, ConfigError, Unavailable
from go_ent.composer.project.items import apart
from go_ent.composer.project.problems import Where
from go_ent.composer.sources.fastmcp_loading import load_fastmcp
from go_ent.composer.sources.listing import Keeper, ListingStore, identity_of
from go_ent.composer.sources.mcp import McpSource
from go_ent.composer.sources.mcp_answers import MAX_ERROR, MAX_NAME, bounded, cut, no_constant, parsed
from go_ent.composer.sources.mcp_link import ServerLink, words
from go_ent.composer.sources.mcp_transports import bounded_client, in_memory
from go_ent.composer.sources.openapi_document import MAX_DOCUMENT, address_of, load_document
from go_ent.composer.sources.openapi_requests import Route, Style, request_of
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
from go_ent.sandbox.media.kinds import UNKNOWN, mime_type_of
from go_ent.sandbox.media.marks import mark

if TYPE_CHECKING:
    import httpx2
    from mcp import ClientSession

BINARY = ("image/", "audio/", "video/", "font/", "application/octet-stream", "application/pdf", "application/zip")
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


class OpenApiSource(McpSource):
    """The operations of one API. Listing them takes fastmcp and the document; what is kept of that is all that calls
    need, and it is exact: another document is another identity.
    """

    takes_bytes = True

    def __init__(
        self,
        namespace: str,
        document: Mapping[str, Any] | Path | str,
        *,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        options: SourceOptions | None = None,
        environ: Mapping[str, str] | None = None,
        store: ListingStore | None = None,
    ) -> None:
        origin = f"API {namespace}"
        self._document, self._base_url, self._headers = document, base_url, dict(headers or {})
        self._environ = environ
        self._client: httpx2.AsyncClient | None = None
        self._scrub, self._hide = Scrubber(), Scrubber()
        keeper = None if store is None else Keeper(store, namespace, origin, self._identity)
        super().__init__(namespace, options or SourceOptions(), connect=self._listed_by, origin=origin, keeper=keeper)

    async def live_tools(self) -> list[ToolSpec]:
        """The same as `tools`: no API tells its operations, its document does."""
        return await self.tools()

    async def close(self) -> None:
        await super().close()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        entry = self._entry(await self._listing(), name, arguments)
        assert entry.route is not None
        timeout = self._tool_options(entry).timeout_s or self._options.timeout_s
        try:
            client = self._client or await self._open()
            request = request_of(entry.route, arguments, client)
        except ConfigError as error:
            raise Unavailable(f"{self.origin}: {error}") from None
        except (ValueError, TypeError) as error:
            raise CallError(f"{name} can't be requested: {cut(self._scrub(str(error)), MAX_ERROR)}") from None
        await self._take_turn(entry)
        try:
            async with asyncio.timeout(timeout):
                value = await _answer(client, request)
        except TimeoutError:
            raise CallError(f"{name} timed out after {timeout:g} s") from None
        except CallError as error:
            raise CallError(cut(self._scrub(str(error)).strip(), MAX_ERROR)) from None
        return self._hide.through(bounded(value, name))

    async def _open(self) -> httpx2.AsyncClient:
        """The client for all calls. References are resolved now."""
        headers, address = self._resolved()
        if not address:
            copy = await self.copy()
            address = (self._link.address if self._link is not None else "") or ("" if copy is None else copy.address)
        self._client = bounded_client(headers=headers, base_url=address, read_s=self._options.timeout_s + 30)
        return self._client

    def _resolved(self) -> tuple[dict[str, str], str]:
        """The headers and the address, the latter "" if the document names it; and what of them is kept secret."""
        environ = os.environ if self._environ is None else self._environ
        headers = {name: resolve(value, environ, f"headers.{name}") for name, value in self._headers.items()}
        texts = [self._base_url or "", *self._headers.values()]
        self._scrub = Scrubber(referred(texts, environ) | set(headers.values()))
        self._hide = kept_back(texts, environ)
        return headers, "" if self._base_url is None else resolve(self._base_url, environ, "base_url")

    def _identity(self) -> str:
        document = self._document
        if isinstance(document, Path):
            document = read_text(document, MAX_DOCUMENT)
        text = document if isinstance(document, str) else json.dumps(document, sort_keys=True, default=str)
        return identity_of("openapi", hashlib.sha256(text.encode()).hexdigest(), version("fastmcp"))

    @contextlib.asynccontextmanager
    async def _listed_by(self, link: ServerLink) -> AsyncIterator[ClientSession]:
        """A session with a server that lists the operations. They are not called by it."""
        _, address = self._resolved()
        link.scrub, link.hide = self._scrub, self._hide
        document = await asyncio.to_thread(load_document, self._document)  # a large one takes seconds
        link.address = "" if address else address_of(document)
        async with bounded_client(headers={}, base_url=address or link.address, read_s=1.0) as client:
            server = await asyncio.to_thread(_server, document, client, link)
            async with in_memory(server, link, ()) as session:
                link.scrub = self._scrub
                yield session


def openapi_source(
    namespace: str,
    document: Mapping[str, Any] | Path | str,
    *,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    options: SourceOptions | None = None,
    environ: Mapping[str, str] | None = None,
) -> OpenApiSource:
    """The operations of an API as tools, named by their operationId.

    *document* is the document itself, its text, or the path of its file; it is read when the source is first used.
    *base_url* and *headers* may hold `${env:NAME}`. An answer with a status from 300 on is a `CallError`.
    """
    return OpenApiSource(namespace, document, base_url=base_url, headers=headers, options=options, environ=environ)


def source_of(
    namespace: str,
    config: OpenApiConfig,
    environ: Mapping[str, str] | None = None,
    store: ListingStore | None = None,
) -> OpenApiSource:
    """The source for a configured API."""
    return OpenApiSource(
        namespace,
        config.document,
        base_url=config.base_url,
        headers=config.headers,
        options=config,
        environ=environ,
        store=store,
    )


async def _answer(client: httpx2.AsyncClient, request: httpx2.Request) -> Any:
    """What an API answers: JSON as data, pictures and the like as bytes, anything else as text. `CallError` in a line
    for all that is no answer.
    """
    import httpx2

    what = f"{request.method} {request.url.path}"
    try:
        response = await client.send(request)
    except (httpx2.RequestError, httpx2.StreamError, httpx2.InvalidURL) as error:
        raise CallError(f"{what}: {words(error)}") from None
    if response.status_code >= 300:
        said = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        body = response.text[: 2 * MAX_ERROR].strip()
        raise CallError(f"{said}: {body}" if body else said)
    said = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said.startswith(BINARY):
        return mark(response.content, cut(said, MAX_NAME)) if response.content else None
    try:
        value = json.loads(response.content, parse_constant=no_constant)
        if b"\\u" in response.content:
            to_json(value)  # it may have halves of characters
    except (json.JSONDecodeError, UnicodeDecodeError):
        is_text = said.startswith("text/") or mime_type_of(response.content) != UNKNOWN
        return parsed(response.text) if is_text else mark(response.content, cut(said, MAX_NAME))
    except (ValueError, RecursionError) as error:
        raise CallError(f"{what}: the answer can't be read: {cut(words(error), MAX_ERROR)}") from None
    return value


def _server(document: dict[str, Any], client: httpx2.AsyncClient, link: ServerLink) -> Any:
    """A server with the document's operations. *link* is told how each is requested, and which can't be used, and so
    are left out.
    """
    unusable = link.unusable
    load_fastmcp()
    from fastmcp import FastMCP
    from mcp_types import ToolAnnotations

    def hint(route: Any, component: Any) -> None:
        if component.annotations is None:
            component.annotations = ToolAnnotations.model_validate(
                {"open_world_hint": True, **_HINTS.get(route.method.upper(), {})}
            )
        with apart(component.name, unusable):
            link.routes[component.name] = _route(route)

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


def _route(route: Any) -> Route:
    """What a call needs of an operation, from what fastmcp made of it."""
    body, media = route.request_body, None
    named: Mapping[str, Any] = {}
    if body is not None and body.content_schema:
        media, schema = next(iter(body.content_schema.items()))
        named = schema.get("properties") or {}
    places = {name: (where["location"], where["openapi_name"]) for name, where in route.parameter_map.items()}
    parts = [own for place, own in places.values() if place == "body"]
    return Route(
        method=route.method.upper(),
        path=route.path,
        places=places,
        query={
            one.name: Style(style=one.style, explode=one.explode)
            for one in route.parameters
            if one.location == "query" and (one.style is not None or one.explode is not None)
        },
        media=media,
        whole=len(parts) == 1 and parts[0] not in named,
        encoding=body.encoding.get(media, {}) if body is not None and media is not None else {},
    )
