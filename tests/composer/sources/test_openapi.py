"""HTTP APIs as sources, from their OpenAPI documents, against a real server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.catalogue.spec import CallContext, Hints
from go_ent.composer.errors import CallError, ConfigError, Unavailable
from go_ent.composer.sources import mcp_transports, openapi_document
from go_ent.composer.sources.mcp import McpSource
from go_ent.composer.sources.openapi import apis_from_table, openapi_source, source_of
from go_ent.composer.sources.openapi_document import MAX_DOCUMENT, load_document
from go_ent.composer.sources.server_config import SourceOptions, ToolOptions

SECRET = "key-of-the-api-test"
NOBODY = CallContext()


def answers(schema: dict[str, Any]) -> dict[str, Any]:
    return {"200": {"description": "ok", "content": {"application/json": {"schema": schema}}}}


ITEM = {"$ref": "#/components/schemas/Item"}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
WHAT = {"name": "what", "in": "query", "required": True, "schema": {"type": "string"}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "items", "version": "1"},
    "paths": {
        "/items": {
            "get": {
                "operationId": "list-items",
                "summary": "All items",
                "responses": answers({"type": "array", "items": ITEM}),
            },
            "post": {
                "operationId": "add_item",
                "requestBody": {"required": True, "content": {"application/json": {"schema": ITEM}}},
                "responses": answers(ITEM),
            },
        },
        "/items/{id}": {
            "get": {"operationId": "get_item", "parameters": [ID], "responses": answers(ITEM)},
            "put": {"operationId": "set_item", "parameters": [ID], "responses": answers(ITEM)},
            "delete": {"operationId": "remove_item", "parameters": [ID], "responses": {"204": {"description": "gone"}}},
        },
        "/fails": {"get": {"operationId": "fails", "parameters": [WHAT], "responses": {"200": {"description": "ok"}}}},
        "/headers": {"get": {"operationId": "headers", "responses": answers({"type": "object"})}},
    },
    "components": {
        "schemas": {"Item": {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}}
    },
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/items":
            self.answer(200, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        elif path.startswith("/items/"):
            number = int(path.rpartition("/")[2])
            self.answer(
                *((200, {"id": number, "name": "it"}) if number < 10 else (404, {"error": f"no item {number}"}))
            )
        elif path == "/headers":
            self.answer(200, dict(self.headers))
        elif query == "what=secret":
            self.answer(500, {"you sent": self.headers.get("X-Key")})
        elif query == "what=redirect":
            self.answer(302, {}, {"Location": "/headers"})
        elif query == "what=large":
            self.answer(200, "x" * 300_000)
        elif query == "what=compressed":
            self.answer(200, "x", {"Content-Encoding": "gzip"}, gzip.compress(b'"' + b"x" * 100_000 + b'"'))
        elif query == "what=slow":
            self.server.released.wait(30)  # type: ignore[attr-defined]
            self.answer(200, {})

    def do_POST(self) -> None:
        self.answer(200, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def do_DELETE(self) -> None:
        self.answer(204, None, data=b"")

    def answer(self, status: int, value: Any, headers: dict[str, str] | None = None, data: bytes | None = None) -> None:
        body = json.dumps(value).encode() if data is None else data
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            for name, text in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **(headers or {}),
            }.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.released = threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.released.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


class Api:
    """The API as a source, kept for the tests that only use it."""

    def __init__(self, address: str) -> None:
        self.runner = asyncio.Runner()
        options = SourceOptions(tools={"fails": ToolOptions(timeout_s=5)})
        headers = {"X-Key": "${env:API_KEY}"}
        self.source = openapi_source(
            "api", DOCUMENT, base_url=address, headers=headers, options=options, environ={"API_KEY": SECRET}
        )

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.runner.run(self.source.call(f"api.{name}", arguments, NOBODY))


@pytest.fixture(scope="module")
def api(address: str) -> Iterator[Api]:
    api = Api(address)
    yield api
    api.runner.run(api.source.close())
    api.runner.close()


class TestTools:
    def test_names_hints_and_schemas(self, api: Api) -> None:
        specs = {spec.name: spec for spec in api.runner.run(api.source.tools())}
        assert list(specs) == [
            "api.list_items",
            "api.add_item",
            "api.get_item",
            "api.set_item",
            "api.remove_item",
            "api.fails",
            "api.headers",
        ]
        assert specs["api.list_items"].description == "All items"
        assert specs["api.list_items"].hints == Hints(
            read_only=True, destructive=False, idempotent=True, open_world=True
        )
        assert specs["api.remove_item"].hints == Hints(
            read_only=False, destructive=True, idempotent=True, open_world=True
        )
        assert specs["api.set_item"].hints == Hints(read_only=False, destructive=True, idempotent=True, open_world=True)
        assert specs["api.add_item"].hints == Hints(read_only=False, open_world=True)
        assert specs["api.get_item"].input_schema["required"] == ["id"]
        listed = specs["api.list_items"].output_schema
        assert listed is not None
        assert listed["type"] == "array"
        assert specs["api.list_items"].origin == "API api"

    def test_calls(self, api: Api) -> None:
        assert api.call("list_items") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
        assert api.call("get_item", id=3) == {"id": 3, "name": "it"}
        assert api.call("add_item", id=4, name="new") == {"id": 4, "name": "new"}
        assert api.call("remove_item", id=4) in (None, "")

    def test_what_is_sent_is_the_api_s_own_headers(self, api: Api) -> None:
        sent = {name.lower(): value for name, value in api.call("headers").items()}
        assert sent["x-key"] == "[secret]", "it was sent, and does not come back"
        assert sent["accept-encoding"] == "identity"
        assert set(sent) <= {"host", "x-key", "accept", "accept-encoding", "connection", "user-agent", "content-length"}


class TestFailures:
    def test_a_status_that_is_an_error(self, api: Api) -> None:
        with pytest.raises(CallError, match=r'^HTTP 404 Not Found: \{"error": "no item 10"\}$'):
            api.call("get_item", id=10)

    def test_a_redirect_is_not_followed(self, api: Api) -> None:
        with pytest.raises(CallError, match=r"^HTTP 302 Found"):
            api.call("fails", what="redirect")

    def test_no_message_holds_a_secret(self, api: Api) -> None:
        with pytest.raises(CallError, match=r'^HTTP 500 Internal Server Error: \{"you sent": "\[secret\]"\}$'):
            api.call("fails", what="secret")

    def test_nothing_is_logged(
        self, api: Api, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with caplog.at_level(logging.INFO), pytest.raises(CallError):
            api.call("fails", what="secret")
        assert SECRET not in caplog.text
        assert capfd.readouterr() == ("", "")

    def test_an_answer_that_is_too_large_or_compressed(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mcp_transports, "MAX_MESSAGE", 200_000)
        with pytest.raises(CallError, match="GET /fails: StreamError: the answer is longer than 200000 bytes"):
            api.call("fails", what="large")
        with pytest.raises(CallError, match="the answer is compressed, which was not asked for"):
            api.call("fails", what="compressed")

    async def test_an_answer_that_does_not_come(self, address: str) -> None:
        options = SourceOptions(tools={"fails": ToolOptions(timeout_s=0.2)})  # of the call alone, not of the listing
        source = openapi_source("api", DOCUMENT, base_url=address, options=options)
        with pytest.raises(CallError, match=r"^api\.fails timed out after 0\.2 s$"):
            await source.call("api.fails", {"what": "slow"}, NOBODY)
        await source.close()

    async def test_nobody_listens(self) -> None:
        source = openapi_source("api", DOCUMENT, base_url="http://127.0.0.1:1")
        with pytest.raises(CallError, match="GET /items: ConnectError"):
            await source.call("api.list_items", {}, NOBODY)
        await source.close()

    def test_a_missing_variable(self) -> None:
        assert unusable(
            openapi_source("api", DOCUMENT, base_url="http://x", headers={"X-Key": "${env:NOT_SET}"}, environ={})
        ) == ("API api: headers.X-Key: the environment variable NOT_SET is not set")

    def test_no_address(self) -> None:
        assert unusable(openapi_source("api", DOCUMENT)).endswith("names no server with an http address: give base_url")
        relative = {**DOCUMENT, "servers": [{"url": "/v1"}]}
        assert unusable(openapi_source("api", relative)).endswith("names no server with an http address: give base_url")

    def test_a_document_that_is_wrong(self) -> None:
        assert "the OpenAPI document can't be used" in unusable(
            openapi_source("api", {"openapi": "3.1.0"}, base_url="http://x")
        )


def unusable(source: McpSource) -> str:
    async def main() -> str:
        with pytest.raises(Unavailable) as caught:
            await source.tools()
        await source.close()
        return str(caught.value)

    return asyncio.run(main())


class TestDocuments:
    def test_json_and_yaml(self, tmp_path: Path) -> None:
        path = tmp_path / "api.yaml"
        path.write_text(
            "openapi: 3.0.3\npaths:\n  /a:\n    get:\n      responses:\n        200: {description: 2020-01-01}\n"
        )
        loaded = load_document(path)
        assert loaded["paths"]["/a"]["get"]["responses"] == {"200": {"description": "2020-01-01"}}
        assert load_document(json.dumps(DOCUMENT)) == load_document(DOCUMENT) == DOCUMENT

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "it is not JSON"),
            ("a: [", "it is not YAML"),
            ("- 1", "it must be an object"),
            ("!!python/object/apply:os.system [ls]", "it is not YAML"),
            ('{"swagger": "2.0"}', "it is not an OpenAPI 3 document (openapi: None)"),
            (
                '{"openapi": "3.1.0", "a": [{"$ref": "file:///etc/passwd"}]}',
                "it refers to 'file:///etc/passwd'; only references within",
            ),
            (
                '{"openapi": "3.1.0", "a": {"$ref": "http://x/y.json"}}',
                "it refers to 'http://x/y.json'; only references within",
            ),
        ],
    )
    def test_what_is_wrong_is_said(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "api"
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load_document(path)
        assert str(caught.value).startswith(f"{path}: {message}")

    def test_a_few_lines_that_stand_for_billions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(openapi_document, "MAX_NODES", 10_000)
        lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
        with pytest.raises(ConfigError, match="it unfolds to more than"):
            load_document("\n".join(lines))

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "api.json")
        with pytest.raises(ConfigError, match=r"it can't be read: api\.json is not an ordinary file"):
            load_document(tmp_path / "api.json")

    def test_too_large(self, tmp_path: Path) -> None:
        path = tmp_path / "api.json"
        path.write_bytes(b" " * (MAX_DOCUMENT + 1))
        with pytest.raises(ConfigError, match=f"it is larger than {MAX_DOCUMENT} bytes"):
            load_document(path)
        with pytest.raises(ConfigError, match=f"it is larger than {MAX_DOCUMENT} bytes"):
            load_document(" " * (MAX_DOCUMENT + 1))


class TestTable:
    async def test_an_api(self, tmp_path: Path, address: str) -> None:
        (tmp_path / "api.json").write_text(json.dumps({**DOCUMENT, "servers": [{"url": address}]}))
        table = {
            "my-api": {"document": "api.json", "headers": {"X-Key": "${env:KEY}"}, "timeout_s": 5, "rate": "100/s"}
        }
        configs = apis_from_table(table, lambda _: "c.toml", tmp_path)
        assert configs["my_api"].document == tmp_path / "api.json"

        source = source_of("my_api", configs["my_api"], {"KEY": SECRET})
        assert await source.call("my_api.get_item", {"id": 5}, NOBODY) == {"id": 5, "name": "it"}
        await source.close()

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ({}, "c.toml: openapi.x.document: it is required"),
            (
                {"document": "a", "base_url": "ftp://x"},
                "c.toml: openapi.x.base_url: it must begin with http:// or https://",
            ),
            (
                {"document": "a", "header": {}},
                "c.toml: openapi.x.header: there is no such setting; did you mean openapi.x.headers?",
            ),
        ],
    )
    def test_what_is_wrong_is_named(self, table: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            apis_from_table({"x": table}, lambda _: "c.toml", Path())
        assert str(caught.value) == message
