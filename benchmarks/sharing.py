"""What one client of an HTTP server gets while another takes all it may: `python -m benchmarks.sharing [CALLS]`.

Two clients of one server, on this machine. The first makes calls one after another; the second does nothing, or one of several things as
hard as it can. Each line has the first one's times, and how `/healthz` was answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

MODERN = "2026-07-28"
TOKENS = {"CALM": "calm-has-this-secret-0123456789", "GREEDY": "greedy-has-this-secret-0123456789"}
CONFIG = "".join(f'[serve.clients.{name.lower()}]\ntoken_env = "{name}"\nallow = ["*"]\n' for name in TOKENS)
GREEDY = 160  # requests at one time: ten more than it may have
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def call(token: str, tool: str, **arguments: object) -> bytes:
    meta = {"protocolVersion": MODERN, "clientCapabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    params = {
        "name": tool,
        "arguments": arguments,
        "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    return (
        head(
            "POST",
            token,
            len(body),
            f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nMcp-Protocol-Version: {MODERN}\r\n",
        )
        + body
    )


def head(method: str, token: str, length: int, more: str = "", path: str = "/mcp") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n"
        f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{more}\r\n"
    ).encode()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The status line of an answer, after all of it was read."""
    start = await reader.readuntil(b"\r\n\r\n")
    if length := re.search(rb"content-length: (\d+)", start, re.IGNORECASE):
        await reader.readexactly(int(length[1]))
    else:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    return start.partition(b"\r\n")[0]


class Client:
    """Requests on a connection that is opened again when it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pair: Pair | None = None

    async def ask(self, request: bytes) -> bytes:
        if self._pair is None:
            self._pair = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._pair
        try:
            writer.write(request)
            await writer.drain()
            return await answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return b""

    def close(self) -> None:
        if self._pair is not None:
            self._pair[1].close()
        self._pair = None


async def again_and_again(port: int, request: bytes) -> None:
    client = Client(port)
    while True:
        if b" 200 " not in await client.ask(request):
            client.close()
            await asyncio.sleep(1)  # as it was told


async def streams(port: int) -> None:
    """Streams that only listen."""
    token = TOKENS["GREEDY"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode()
    writer.write(head("POST", token, len(body)) + body)
    opened = re.search(rb"mcp-session-id: (\S+)", await reader.readuntil(b"\r\n\r\n"), re.IGNORECASE)
    assert opened is not None
    more = f"Mcp-Session-Id: {opened[1].decode()}\r\nMcp-Protocol-Version: 2025-06-18\r\n"
    await again_and_again(port, head("GET", token, 0, more))


def calling(tool: str, **arguments: object) -> Callable[[int], Awaitable[None]]:
    request = call(TOKENS["GREEDY"], tool, **arguments)
    return lambda port: again_and_again(port, request)


GREEDS: dict[str, Callable[[int], Awaitable[None]]] = {
    "streams that only listen": streams,
    "runs that sleep": calling("code_execute", code="import time\ntime.sleep(20)"),
    "runs that compute": calling("code_execute", code="while True:\n    pass"),
    "short runs": calling("code_execute", code="1"),
    "searches": calling("tool_search", words="x"),
    "4 MB of {}": calling(
        "code_execute", code="import time\ntime.sleep(20)", inputs={"x": [{} for _ in range(1_000_000)]}
    ),
}


async def be_greedy(kind: str, port: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(GREEDY):
            group.create_task(_always(GREEDS[kind], port))


async def _always(work: Callable[[int], Awaitable[None]], port: int) -> None:
    while True:
        with contextlib.suppress(OSError, AssertionError, asyncio.IncompleteReadError):
            await work(port)
        await asyncio.sleep(0.1)


async def measure(port: int, calls: int) -> tuple[list[float], list[float], int]:
    """The times of *calls* calls, those of as many questions to /healthz, and how many were not answered."""
    request, health = call(TOKENS["CALM"], "code_execute", code="6 * 7"), head("GET", "", 0, path="/healthz")
    client, failed = Client(port), 0
    times: list[float] = []
    healthy: list[float] = []
    for _ in range(calls):
        for asked, spent, by in ((request, times, client), (health, healthy, Client(port))):
            started = time.perf_counter()
            failed += b" 200 " not in await by.ask(asked)
            spent.append((time.perf_counter() - started) * 1e3)
            if by is not client:
                by.close()
    return times, healthy, failed


@contextlib.contextmanager
def serving() -> Iterator[tuple[int, int]]:
    """A server's port and process id."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".go-ent").mkdir()
        (Path(folder) / ".go-ent" / "config.toml").write_text(CONFIG)
        command = [sys.executable, "-m", "engine.cli", "serve", "--http", "127.0.0.1:0"]
        command[1:3] = ["-c", "from go_ent.engine.cli import main; main()"]
        env = {**os.environ, **TOKENS, "GO_ENT_TRUST_PROJECT": "1"}
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, env=env, text=True) as server:
            assert server.stderr is not None
            line = next(line for line in server.stderr if line.startswith("listening on"))
            try:
                yield urlsplit(line.split()[-1]).port or 0, server.pid
            finally:
                server.kill()


def memory_mb(pid: int) -> float:
    match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1024 if match else 0.0


def figures(times: list[float]) -> tuple[float, float]:
    return statistics.median(times), sorted(times)[max(0, round(len(times) * 0.99) - 1)]


def main() -> None:
    if sys.argv[1:2] == ["greedy"]:
        asyncio.run(be_greedy(sys.argv[2], int(sys.argv[3])))
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{'the other client has':28} {'p50':>8} {'p99':>8}  p99/idle  {'/healthz p99':>12}  failed  memory")
    idle = 0.0
    for kind in (None, *GREEDS):
        with serving() as (port, pid):
            asyncio.run(measure(port, 20))
            greedy = (
                None
                if kind is None
                else subprocess.Popen([sys.executable, "-m", "benchmarks.sharing", "greedy", kind, str(port)])
            )
            try:
                if greedy is not None:
                    time.sleep(3)
                times, healthy, failed = asyncio.run(measure(port, calls))
            finally:
                if greedy is not None:
                    greedy.kill()
                    greedy.wait()
            p50, p99 = figures(times)
            idle = idle or p99
            print(
                f"{kind or 'nothing':28} {p50:6.1f}ms {p99:6.1f}ms  {p99 / idle:7.1f}x  {figures(healthy)[1]:10.1f}ms  {failed:6}  {memory_mb(pid):.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
