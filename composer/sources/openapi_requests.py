"""An operation of an HTTP API as a request: where each argument goes, and how it is written there.

fastmcp reads the documents; this is all of an operation that a call needs, so that a call imports neither fastmcp nor
mcp, which takes a second.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict, Field

from go_ent.sandbox.media.marks import as_text, revived

if TYPE_CHECKING:
    import httpx2

MAX_DECODINGS = 32
DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|"}
JSON = re.compile(r"application/json|.*\+json")
NO_ENCODING: dict[str, Any] = {
    "style": "form",
    "explode": True,
    "contentType": "text/plain",
    "allowReserved": False,
    "headers": {},
}

Name = Annotated[str, Field(max_length=1000)]
Place = Literal["path", "query", "header", "cookie", "body"]


class Style(BaseModel):
    """How a list or an object is written into a query."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    style: Name | None = None
    explode: bool | None = None


class Route(BaseModel):
    """One operation. `places` says of each argument where it goes, and what it is called there."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"]
    path: Annotated[str, Field(max_length=8 << 10)]
    places: dict[Name, tuple[Place, Name]] = {}
    query: dict[Name, Style] = {}
    media: Name | None = None  # the content type of its body
    whole: bool = False  # the one argument of the body is the body itself
    encoding: dict[Name, dict[str, Any]] = {}  # of the parts of a multipart body


def request_of(route: Route, arguments: dict[str, Any], client: httpx2.AsyncClient) -> httpx2.Request:
    """The request that calls an operation. `ValueError` for an argument that can't be sent."""
    sent: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "cookie": {}, "body": {}}
    for name, value in arguments.items():
        if value is not None and name in route.places:
            place, own = route.places[name]
            sent[place][own] = value if place == "body" else as_text(value)
    headers = {name: _scalar(value) for name, value in sent["header"].items()}
    body, media = _body(route, sent["body"])
    if media is not None:
        headers["Content-Type"] = media
    if sent["cookie"]:
        headers["Cookie"] = "; ".join(f"{name}={_cookie(name, value)}" for name, value in sent["cookie"].items())
    base = str(client.base_url).rstrip("/")
    return client.build_request(
        route.method,
        f"{base}/{_path(route.path, sent['path']).lstrip('/')}",
        params=_query(route, sent["query"]) or None,
        headers=headers,
        **body,
    )


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cookie(name: str, value: Any) -> str:
    text = _scalar(value)
    if not re.fullmatch(r"[!#-+\--:<-\[\]-~]*", text):
        raise ValueError(f"{name}: a cookie can't hold that")
    return text


def _path(template: str, values: dict[str, Any]) -> str:
    """The path with its parameters filled in. None of them can leave its segment."""
    missing = [name for name in dict.fromkeys(re.findall(r"\{([^{}]+)\}", template)) if name not in values]
    if missing:
        raise ValueError(f"the path needs {', '.join(missing)}")

    def filled(match: re.Match[str]) -> str:
        decoded = _scalar(values[match[1]])
        for _ in range(MAX_DECODINGS):
            if {".", ".."} & set(decoded.replace("\\", "/").split("/")):
                raise ValueError(f"{match[1]}: it can't hold . or .. as a part of a path")
            if (once_more := unquote(decoded)) == decoded:
                return quote(_scalar(values[match[1]]), safe="").replace(".", "%2E")
            decoded = once_more
        raise ValueError(f"{match[1]}: it is encoded too often")

    return re.sub(r"\{([^{}]+)\}", filled, template)


def _query(route: Route, values: dict[str, Any]) -> httpx2.QueryParams:
    """As OpenAPI's `style` and `explode` have it; by default a list repeats its name."""
    import httpx2

    pairs: list[tuple[str, Any]] = []
    for name, value in values.items():
        how = route.query.get(name, Style())
        style = how.style or "form"
        explode = how.explode if how.explode is not None else not (isinstance(value, list) and style in DELIMITERS)
        between = DELIMITERS.get(style, ",")
        if isinstance(value, dict):
            inner = [(str(key), _scalar(one)) for key, one in value.items()]
            if explode:
                pairs += [(f"{name}[{key}]" if style == "deepObject" else key, one) for key, one in inner]
            elif inner:
                pairs.append((name, between.join(part for pair in inner for part in pair)))
        elif isinstance(value, list):
            if explode:
                pairs += [(name, _scalar(one)) for one in value]
            elif value:
                pairs.append((name, between.join(map(_scalar, value))))
        else:
            pairs.append((name, _scalar(value)))
    return httpx2.QueryParams(pairs)


def _body(route: Route, values: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """What httpx takes for the body, and its content type where httpx would not say it so."""
    if not values:
        return {}, None
    body: Any = next(iter(values.values())) if route.whole and len(values) == 1 else values
    kind = (route.media or "application/json").partition(";")[0].strip().lower()
    if kind == "multipart/form-data" and isinstance(body, dict):
        parts: list[tuple[str, tuple[str | None, str | bytes]]] = []
        for name, given in body.items():
            if isinstance(data := revived(given), bytes):
                parts.append((name, (name, data)))
                continue
            value = as_text(given)
            several = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
            plain = all(NO_ENCODING.get(key, ...) == said for key, said in route.encoding.get(name, {}).items())
            parts += [(name, (None, _scalar(one))) for one in (value if several and plain else [value])]
        return {"files": parts}, None
    if kind == "application/x-www-form-urlencoded" and isinstance(body, dict):
        body = as_text(body)
        form = {
            name: [*map(_scalar, value)] if isinstance(value, list) else _scalar(value) for name, value in body.items()
        }
        return {"data": form}, None
    if isinstance(data := revived(body), bytes) and not JSON.fullmatch(kind):
        return {"content": data}, route.media
    body = as_text(body)
    if isinstance(body, dict | list) or JSON.fullmatch(kind):
        media = route.media if route.media is not None and "json" in kind else "application/json"
        return {"content": json.dumps(body, allow_nan=False, ensure_ascii=False).encode()}, media
    charset = re.search(r"charset=\"?([A-Za-z0-9_-]+)", route.media or "")
    try:
        return {"content": _scalar(body).encode(charset[1] if charset else "utf-8")}, route.media
    except LookupError:
        raise ValueError(f"its content type names a charset that is not known: {charset and charset[1]}") from None
