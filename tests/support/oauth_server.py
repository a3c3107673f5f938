"""An MCP server over HTTP that wants a login, and its own authorization server: whoever opens the page is let in."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

TOOLS = [{"name": "whoami", "inputSchema": {"type": "object"}}]


class OAuthServer:
    """What it knows, and how it behaves: tests change it while it runs."""

    def __init__(self) -> None:
        self.address = ""
        self.expires_in: int | None = 3600
        self.refreshes = True
        self.authorization: str | None = None  # the address of its page, if not the usual one
        self.refuses = ""
        self.valid: set[str] = set()
        self.refresh_tokens: set[str] = set()
        self.asked: list[str] = []  # the paths of all requests
        self._count = 0

    @property
    def url(self) -> str:
        return f"{self.address}/mcp"

    def issue(self) -> dict[str, Any]:
        self._count += 1
        access, refresh = f"access-token-{self._count}-of-test", f"refresh-token-{self._count}-of-test"
        self.valid, self.refresh_tokens = {access}, {refresh}
        found: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.expires_in is not None:
            found["expires_in"] = self.expires_in
        return found | ({"refresh_token": refresh} if self.refreshes else {})

    def get(self, path: str) -> tuple[int, Any, dict[str, str]]:
        parts = urlsplit(path)
        if parts.path.startswith("/.well-known/oauth-protected-resource"):
            return 200, {"resource": self.url, "authorization_servers": [self.address]}, {}
        if parts.path.startswith("/.well-known/oauth-authorization-server"):
            return 200, self._metadata(), {}
        if parts.path == "/let/me/in":
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            answer = {"error": self.refuses} if self.refuses else {"code": "the-code"}
            where = f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}"
            return 302, None, {"Location": where}
        return (405 if parts.path == "/mcp" else 404), None, {}

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.address,
            "authorization_endpoint": self.authorization or f"{self.address}/let/me/in",
            "token_endpoint": f"{self.address}/tokens/are/here",
            "registration_endpoint": f"{self.address}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }

    def post(self, path: str, body: bytes, token: str) -> tuple[int, Any, dict[str, str]]:
        if path == "/register":
            return 201, {**json.loads(body), "client_id": "client-of-test"}, {}
        if path == "/tokens/are/here":
            given = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            if given.get("grant_type") == "refresh_token" and given.get("refresh_token") not in self.refresh_tokens:
                return 400, {"error": "invalid_grant"}, {}
            return 200, self.issue(), {}
        if path != "/mcp" or token not in self.valid:
            return 401, {"error": "invalid_token"}, {"WWW-Authenticate": "Bearer"}
        return self._mcp(json.loads(body), token)

    def _mcp(self, message: dict[str, Any], token: str) -> tuple[int, Any, dict[str, str]]:
        if "id" not in message:
            return 202, None, {}
        result: dict[str, Any] = {"content": [{"type": "text", "text": f"you sent {token}"}]}
        if message["method"] == "initialize":
            server = {"name": "guarded", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
        elif message["method"] == "tools/list":
            result = {"tools": TOOLS}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, {}


@contextlib.contextmanager
def oauth_server() -> Iterator[OAuthServer]:
    """A server of that kind, in a thread."""
    state = OAuthServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*state.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self._answer(*state.post(self.path, body, token))

        def _answer(self, status: int, value: Any, headers: dict[str, str]) -> None:
            state.asked.append(self.path.partition("?")[0])
            data = b"" if value is None else json.dumps(value).encode()
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                for name, text in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


def browse(address: str) -> str:
    """What a person's browser does with the address: it goes there, and back."""
    try:
        page = urllib.request.urlopen(address, timeout=20)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise
    with page:
        text: str = page.read().decode()
        return text
