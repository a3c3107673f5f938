"""Where the arguments of an operation go, and how they are written there."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from go_ent.composer.sources.openapi_requests import Route, Style, request_of
from go_ent.sandbox.media.marks import mark

CLIENT = httpx2.AsyncClient(base_url="https://x.example/v1")


def sent(arguments: dict[str, Any], **route: Any) -> httpx2.Request:
    return request_of(Route(**{"method": "GET", "path": "/a", **route}), arguments, CLIENT)


def test_each_argument_goes_to_its_place() -> None:
    places = {
        "id": ("path", "id"),
        "q": ("query", "q"),
        "h": ("header", "X-H"),
        "c": ("cookie", "c"),
        "b": ("body", "b"),
    }
    arguments = {"id": 7, "q": True, "h": 1.5, "c": "x", "b": [1], "unknown": 1, "none": None}
    request = sent(arguments, method="POST", path="/a/{id}", places=places, media="application/json")
    assert str(request.url) == "https://x.example/v1/a/7?q=true"
    assert (request.headers["x-h"], request.headers["cookie"]) == ("1.5", "c=x")
    assert json.loads(request.content) == {"b": [1]}
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("value", "style", "query"),
    [
        (["a", "b c"], Style(), "q=a&q=b+c"),
        (["a", True], Style(explode=False), "q=a%2Ctrue"),
        (["a", "b"], Style(style="pipeDelimited"), "q=a%7Cb"),
        (["a", "b"], Style(style="spaceDelimited"), "q=a+b"),
        ({"k": 1}, Style(), "k=1"),
        ({"k": 1}, Style(explode=False), "q=k%2C1"),
        ({"k": 1}, Style(style="deepObject"), "q%5Bk%5D=1"),
        ([], Style(explode=False), ""),
        ({}, Style(explode=False), ""),
    ],
)
def test_lists_and_objects_in_a_query(value: Any, style: Style, query: str) -> None:
    request = sent({"q": value}, places={"q": ("query", "q")}, query={"q": style})
    assert request.url.query.decode() == query


@pytest.mark.parametrize("value", ["..", "../admin", "a/../b", "%2e%2e", "%252e%252e%252fb", "..\\b", "."])
def test_no_argument_leaves_its_segment_of_the_path(value: str) -> None:
    with pytest.raises(ValueError, match="id: it can't hold"):
        sent({"id": value}, path="/a/{id}", places={"id": ("path", "id")})


def test_a_path_is_quoted_and_filled_once() -> None:
    places = {"id": ("path", "id"), "b": ("path", "b")}
    request = sent({"id": "{b}", "b": "x/y?z#w"}, path="/a/{id}/{b}:go", places=places)
    assert request.url.raw_path == b"/v1/a/%7Bb%7D/x%2Fy%3Fz%23w:go"
    with pytest.raises(ValueError, match="the path needs b"):
        sent({"id": 1}, path="/a/{id}/{b}", places=places)
    with pytest.raises(ValueError, match="encoded too often"):
        sent({"id": "%" + "25" * 40, "b": 1}, path="/a/{id}/{b}", places=places)


@pytest.mark.parametrize(
    ("route", "arguments", "content", "media"),
    [
        ({"media": "application/json", "whole": True}, {"b": [1, 2]}, b"[1, 2]", "application/json"),
        ({"media": "application/vnd.x+json"}, {"b": 1}, b'{"b": 1}', "application/vnd.x+json"),
        ({"media": "text/plain", "whole": True}, {"b": True}, b"true", "text/plain"),
        ({"media": "text/plain; charset=latin-1", "whole": True}, {"b": "é"}, b"\xe9", "text/plain; charset=latin-1"),
        (
            {"media": "application/x-www-form-urlencoded"},
            {"b": [1, 2]},
            b"b=1&b=2",
            "application/x-www-form-urlencoded",
        ),
    ],
)
def test_bodies(route: dict[str, Any], arguments: dict[str, Any], content: bytes, media: str) -> None:
    request = sent(arguments, method="POST", places={"b": ("body", "b")}, **route)
    assert (request.content, request.headers["content-type"]) == (content, media)


async def test_a_body_in_parts() -> None:
    request = sent(
        {"b": ["x", "y"], "n": 1},
        method="POST",
        media="multipart/form-data",
        places={"b": ("body", "b"), "n": ("body", "n")},
    )
    data = await request.aread()
    assert data.count(b'name="b"') == 2
    assert b"\r\n\r\n1\r\n" in data


def test_what_can_not_be_sent() -> None:
    with pytest.raises(ValueError, match="a cookie can't hold that"):
        sent({"c": "a; admin=1"}, places={"c": ("cookie", "c")})
    with pytest.raises(ValueError, match="charset that is not known"):
        sent({"b": "x"}, places={"b": ("body", "b")}, media="text/plain; charset=none", whole=True)
    with pytest.raises(ValueError, match="Out of range"):
        sent({"b": float("nan")}, places={"b": ("body", "b")}, media="application/json", whole=True)


def test_bytes_are_sent_as_what_the_document_says() -> None:
    picture = mark(b"\x89PNG\xff", "image/png")
    body = {"places": {"b": ("body", "b")}, "method": "PUT"}
    request = sent({"b": picture}, media="image/png", whole=True, **body)
    assert (request.content, request.headers["content-type"]) == (b"\x89PNG\xff", "image/png")
    request = sent({"b": picture}, media="application/json", **body)
    assert json.loads(request.content) == {"b": "iVBOR/8="}
    request = sent({"b": picture}, media="multipart/form-data", **body)
    assert b"\x89PNG\xff" in request.read()
    assert b'name="b"; filename="b"' in request.content
    assert str(sent({"q": picture}, places={"q": ("query", "q")}).url).endswith("q=iVBOR%2F8%3D")
