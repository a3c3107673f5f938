"""Answers over HTTP that can't be read: those of MCP servers, in JSON and as events, and those of APIs. Each fails
its call at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from go_ent.composer import CallError, ToolNotFound, Unavailable
from go_ent.composer.catalogue.spec import CallContext
from go_ent.composer.sources import mcp
from go_ent.composer.sources.mcp import McpSource
from go_ent.composer.sources.openapi import openapi_source
from go_ent.composer.sources.server_config import ServerConfig, SourceOptions
from tests.security.corpus import attack

NOBODY = CallContext()
LONG_S = 600.0  # who waits that long has not been told at once
WHO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
TEXT = {"content": [{"type": "text", "text": "ok"}]}
Answer = Callable[[int], bytes]
UNREADABLE: list[tuple[Answer, str]] = [
    (lambda i: b'{"jsonrpc":"2.0","id":%d,"result":{"n":%b}}' % (i, b"9" * 5000), "number out of range"),
    (lambda i: b'{"jsonrpc":"2.0","id":%d,"result":{"t":"\\ud800"}}' % i, "unexpected end of hex escape"),
    (
        lambda i: b'{"jsonrpc":"2.0","id":%d,"result":%b%b}' % (i, b"[" * 50_000, b"]" * 50_000),
        "recursion limit exceeded",
    ),
    (lambda i: b'{"jsonrpc":"2.0","id":%d,"result":null}' % i, "it does not follow JSON-RPC"),
    (lambda i: b'{"jsonrpc":"2.0","id":%d,"result":{"t":' % i, "EOF while parsing"),
    (lambda i: b"null", "it does not follow JSON-RPC"),
    (lambda i: b"5", "it does not follow JSON-RPC"),
    (lambda i: b"no JSON", "expected"),
]
ONLY_JSON: list[tuple[Answer, str]] = [
    (lambda i: b'{"jsonrpc":"2.0","id":%d,"result":{"t":"\xff"}}' % i, "invalid unicode code point"),
    (
        lambda i: b'{"jsonrpc":"2.0","id":4711,"result":%b}' % json.dumps(TEXT).encode(),
        "its id is that of another request (4711)",
    ),
    (lambda i: b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}', "what?"),
    (lambda i: b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % i, "it is a request, not an answer"),
    (lambda i: b'{"jsonrpc":"2.0","method":"notifications/x"}', "it is a request, not an answer"),
    (lambda i: b"", "EOF while parsing"),
]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "FIRST_DELAY_S", 0.001)


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    made.daemon_threads = True
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_address[1]}"
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


def mcp_server(
    answers: list[Answer | None], *, events: bool, tools: list[Any] | None = None
) -> type[BaseHTTPRequestHandler]:
    """A server whose calls are answered one after the other; None is a good answer."""
    left = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in message:
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            results = {"initialize": WHO, "tools/list": {"tools": tools or [TOOL]}, "tools/call": TEXT}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}).encode()
            if message["method"] == "tools/call" and (answer := next(left, None)) is not None:
                body = answer(message["id"])
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream" if events else "application/json")
            if events:
                body = b"event: message\ndata: " + body + b"\n\n"
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_response(405)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def called(source: McpSource, *names: str) -> list[Any]:
    async def main() -> list[Any]:
        found: list[Any] = []
        try:
            for name in names:
                try:
                    found.append(await source.call(name, {}, NOBODY))
                except (CallError, ToolNotFound, Unavailable) as error:
                    found.append(error)
        finally:
            await source.close()
        return found

    return asyncio.run(main())


@attack("upstream", "an answer over HTTP that no parser takes")
@pytest.mark.parametrize(
    ("events", "answer", "told"),
    [*((False, *one) for one in [*UNREADABLE, *ONLY_JSON]), *((True, *one) for one in UNREADABLE)],
)
def test_an_answer_over_http_that_can_not_be_read_fails_its_call_at_once(
    events: bool, answer: Answer, told: str
) -> None:
    with serving(mcp_server([answer], events=events)) as url:
        source = McpSource("evil", ServerConfig(url=url, timeout_s=LONG_S))
        error, after = called(source, "evil.t", "evil.t")
    assert isinstance(error, CallError)
    assert told in str(error) if not events else "parse" in str(error), error
    assert after == "ok", "the connection goes on"


@attack("upstream", "one tool of the wrong types in a listing over HTTP")
@pytest.mark.parametrize("events", [False, True])
def test_one_tool_over_http_that_is_none_costs_no_other(events: bool) -> None:
    tools = [TOOL, {"name": "bad", "inputSchema": []}, {**TOOL, "name": "u"}]
    with serving(mcp_server([], events=events, tools=tools)) as url:
        source = McpSource("evil", ServerConfig(url=url, timeout_s=LONG_S))
        good, bad = called(source, "evil.u", "evil.bad")
    assert good == "ok"
    assert isinstance(bad, ToolNotFound)
    assert str(bad).startswith("bad can't be used: inputSchema")
    assert source.notes[0].startswith("'bad' is not offered: inputSchema")


def api(body: bytes, kind: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def operation(name: str, schema: Any = None) -> dict[str, Any]:
    content = {} if schema is None else {"content": {"application/json": {"schema": schema}}}
    return {"operationId": name, "responses": {"200": {"description": "ok", **content}}}


def document(paths: dict[str, Any]) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": paths}


@attack("upstream", "an API's answer that no parser takes")
@pytest.mark.parametrize("schema", [None, {"type": "object"}, {"type": "array", "items": {"type": "integer"}}])
@pytest.mark.parametrize(
    "body",
    [
        b'{"n":' + b"9" * 5000 + b"}",
        b'{"t":"\\ud800"}',
        b'"\\ud800"',
        b"[" * 50_000 + b"]" * 50_000,
        b'{"t":"\xff"}',
        b"null",
        b"NaN",
        b'{"t":',
        b"",
    ],
)
def test_an_apis_answer_that_can_not_be_read_ends_its_call_at_once(body: bytes, schema: Any) -> None:
    """As an error, or as the text that it is: what it must not do is to keep the caller waiting."""
    paths = {"/a": {"get": operation("a", schema)}}
    with serving(api(body, "application/json")) as url:
        source = openapi_source("api", document(paths), base_url=url, options=SourceOptions(timeout_s=LONG_S))
        answers = called(source, "api.a", "api.a")
    for answer in answers:
        assert isinstance(answer, str | dict | list | CallError | None), answer
        assert "timed out" not in str(answer)
        assert "was lost" not in str(answer)


@attack("upstream", "one operation of an API's document that is none")
@pytest.mark.parametrize(
    ("item", "called_as"),
    [
        ([], "/bad"),
        ({"get": 5}, "GET /bad"),
        ({"get": {**operation("bad"), "parameters": 5}}, "bad"),
        ({"get": {**operation("bad"), "parameters": [{"name": "x", "in": "nowhere"}]}}, "bad"),
        ({"get": operation("bad", 5)}, "bad"),
        ({"get": {"operationId": "bad", "responses": []}}, "bad"),
    ],
)
def test_one_operation_that_is_none_costs_no_other(item: Any, called_as: str) -> None:
    paths = {"/good": {"get": operation("good")}, "/bad": item, "/better": {"get": operation("better")}}
    with serving(api(b'{"a": 1}', "application/json")) as url:
        source = openapi_source("api", document(paths), base_url=url, options=SourceOptions(timeout_s=LONG_S))
        first, second, bad = called(source, "api.good", "api.better", "api.bad")
    assert (first, second) == ({"a": 1}, {"a": 1})
    assert isinstance(bad, ToolNotFound)
    assert [note.partition(" is not offered: ")[0] for note in source.notes] == [repr(called_as)]


@attack("upstream", "a document whose every operation is none")
def test_a_document_with_too_many_wrong_operations_is_given_up() -> None:
    paths = {f"/{number}": {"get": 5} for number in range(2000)}
    source = openapi_source(
        "api", document(paths), base_url="http://127.0.0.1:9", options=SourceOptions(timeout_s=LONG_S)
    )
    (error,) = called(source, "api.a")
    assert isinstance(error, Unavailable)
    assert "too many of its operations are wrong" in str(error)
