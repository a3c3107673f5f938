"""A real server over HTTP with tokens, and requests to it byte by byte."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.serving import Served, ask, serving

ALICE, BOB, CAROL = (f"{name}-has-this-secret-0123456789" for name in ("alice", "bob", "carol"))
MORE = {f"MORE{number}": f"one-more-has-secret-{number}-0123456789" for number in range(4)}
CLIENTS = 3 + len(MORE)
MOST = 64 << 10
CONNECTIONS = 40
SESSIONS = 40
CONFIG = f"""
[grants]
allow = ["broken.*"]
approve = ["guarded"]
[servers.broken]
command = "/no/such/program"
[serve]
max_request_bytes = {MOST}
read_timeout_s = 1.0
max_connections = {CONNECTIONS}
max_sessions = {SESSIONS}
origins = ["https://app.example"]
[serve.clients.alice]
token_env = "ALICE"
allow = ["*"]
compose = true
engine = true
[serve.clients.bob]
token_file = "../bob.token"
allow = ["plain"]
compose = true
engine = true
[serve.clients.carol]
token_env = "CAROL"
"""
CONFIG += "".join(f'[serve.clients.{name}]\ntoken_env = "{name}"\n' for name in MORE)
TOOL = '# /// tool\n# name = "{0}"\n# ///\nasync def {0}(n: int) -> int:\n    """Made for a test."""\n    return {1}\n'
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
MODERN = "2026-07-28"
META = {"protocolVersion": MODERN, "clientCapabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@contextlib.contextmanager
def guarded(folder: Path, extra: str = "", *, most: int = MOST) -> Iterator[Served]:
    """A project with three tools, served to Alice, Bob, Carol and some more; of requests up to *most* bytes."""
    (folder / ".go-ent").mkdir(parents=True)
    (folder / ".go-ent" / "config.toml").write_text(CONFIG.replace(f"= {MOST}", f"= {most}") + extra)
    (folder.parent / "bob.token").write_text(BOB + "\n")
    (folder.parent / "bob.token").chmod(0o600)
    with serving(folder, env={"ALICE": ALICE, "CAROL": CAROL, **MORE}) as server:
        for name, body in (("plain", "n"), ("secret", "42"), ("guarded", "n")):
            failed, said = ask(server, "tool_compose", token=ALICE, source=TOOL.format(name, body))
            assert not failed, said
        yield server


class Raw:
    """An answer, byte by byte as it came."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.head, _, self.body = data.partition(b"\r\n\r\n")

    @property
    def status(self) -> int:
        match = re.match(rb"HTTP/1\.1 ([0-9]{3}) ", self.head)
        return int(match[1]) if match else 0

    def header(self, name: str) -> str:
        match = re.search(rf"^{name}: (.*?)\r?$".encode(), self.head, re.MULTILINE | re.IGNORECASE)
        return match[1].decode() if match else ""


def connect(served: Served) -> socket.socket:
    return socket.create_connection(served.address, timeout=20)


def exchange(served: Served, request: bytes) -> Raw:
    """Send bytes, and read until the other end closes."""
    with connect(served) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request)
        return Raw(read(connection))


def read(connection: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            data += part
    return data


def request(
    served: Served,
    method: str = "POST",
    path: str = "/mcp",
    *,
    token: str | None = None,
    body: Any = None,
    host: str | None = None,
    headers: dict[str, str] | None = None,
) -> Raw:
    sent = b"" if body is None else json.dumps(body).encode() if not isinstance(body, bytes) else body
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {host if host is not None else ':'.join(map(str, served.address))}",
        "Connection: close",
    ]
    lines += [] if token is None else [f"Authorization: Bearer {token}"]
    lines += [
        f"Content-Length: {len(sent)}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
    ]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return exchange(served, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + sent)
