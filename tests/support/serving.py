"""A real `go-ent serve --http` in a process of its own, and clients of both protocol eras."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from tests.support.forked import Forked

Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")
# A test that both eras can run is run in the older one by `make test-more`.
ERAS = ["auto", pytest.param("legacy", marks=pytest.mark.more)]
PATIENCE_S = 60


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    url: str
    project: Path
    log: Path

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def said(self) -> str:
        """All that it has said on stderr, and on stdout."""
        return self.log.read_text() + self.log.with_suffix(".out").read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def serving(
    project: Path, *arguments: str, env: dict[str, str] | None = None, trusted: bool = True
) -> Iterator[Served]:
    """Serve a folder on a free port, unless *arguments* say where."""
    project.mkdir(parents=True, exist_ok=True)
    log = project.parent / f"{project.name}.err"
    variables = {**os.environ, **({"GO_ENT_TRUST_PROJECT": "1"} if trusted else {}), **(env or {})}
    given = arguments if "--http" in arguments else ("--http", "127.0.0.1:0", *arguments)
    with log.open("wb") as err, log.with_suffix(".out").open("wb") as out:
        process = Forked("serve", *given, cwd=project, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=variables)
        try:
            yield Served(process, _url(process, log), project, log)
        finally:
            process.kill()
            process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        if found := re.search(r"^listening on (http://\S+)$", log.read_text(), re.MULTILINE):
            return found[1]
        time.sleep(0.02)
    raise AssertionError(f"it does not listen: {log.read_text()}")


def talk(
    served: Served,
    work: Callable[[Client[Any]], Coroutine[Any, Any, Any]],
    *,
    token: str | None = None,
    mode: Mode = "auto",
) -> Any:
    """What *work* comes to, with a client."""

    async def main() -> Any:
        async with Client(StreamableHttpTransport(served.url, auth=token, verify=False), mode=mode) as client:  # http
            return await work(client)

    return asyncio.run(main())


def ask(
    served: Served, tool: str, /, *, token: str | None = None, mode: Mode = "auto", **arguments: Any
) -> tuple[bool, Any]:
    """Whether a call failed, and what it said."""
    return talk(served, lambda client: say(client, tool, **arguments), token=token, mode=mode)  # type: ignore[no-any-return]


async def say(client: Client[Any], tool: str, /, **arguments: Any) -> tuple[bool, Any]:
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    said = (
        result.structured_content if result.structured_content is not None else getattr(result.content[0], "text", "")
    )
    return result.is_error, said
