"""The ways to reach an MCP server: a child process, an address, an object in this process. What it sends is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from go_ent.composer.sources.fastmcp_loading import load_fastmcp
from go_ent.composer.sources.logins import Callback, LoginStore, NotLoggedIn, TokenStorage, auth_for
from go_ent.composer.sources.mcp_link import GRACE_S, Connector, ServerLink, session_class, statuses_met
from go_ent.composer.sources.replies import Awaited, as_answer
from go_ent.composer.sources.server_config import (
    INHERITED,
    Scrubber,
    ServerConfig,
    SourceOptions,
    kept_back,
    referred,
    resolve,
)
from go_ent.sandbox.children.proc import OWNER, own_identity
from go_ent.sandbox.children.programs import program_to_start, with_safe_path

if TYPE_CHECKING:  # their import takes a second: it waits until a server is started
    import ssl

    import httpx2
    from mcp import ClientSession

MAX_MESSAGE = 16 << 20  # what one message of a server may take before it is even parsed
REFUSED = {401: ", its token is missing, wrong or expired", 403: ", its token does not allow it"}


def connector(config: SourceOptions, environ: Mapping[str, str] | None, ask: Callback | None = None) -> Connector:
    """How to reach a server of that configuration. The environment is read, and references resolved, at each start.
    With *ask*, a person is asked to log in, whatever login there is.
    """
    if not isinstance(config, ServerConfig):
        raise TypeError("a source needs a ServerConfig")
    if config.url is None:
        return lambda link: _over_stdio(config, os.environ if environ is None else environ, link)
    return lambda link: _over_http(config, os.environ if environ is None else environ, link, ask)


@contextlib.asynccontextmanager
async def in_memory(server: Any, link: ServerLink, secrets: Iterable[str]) -> AsyncIterator[ClientSession]:
    load_fastmcp()
    from fastmcp.client.transports import FastMCPTransport
    from fastmcp.client.transports.base import TransportOptions

    link.scrub = Scrubber(secrets)
    options = TransportOptions(session_class=session_class())
    async with FastMCPTransport(server).connect_session(
        transport_options=options, **link.session_settings()
    ) as session:
        yield session


@contextlib.asynccontextmanager
async def _over_http(
    config: ServerConfig, environ: Mapping[str, str], link: ServerLink, ask: Callback | None
) -> AsyncIterator[ClientSession]:
    from mcp.client.streamable_http import streamable_http_client

    assert config.url is not None
    texts = [config.url, config.token or "", *config.headers.values()]
    url = resolve(config.url, environ, "url")
    headers = {name: resolve(value, environ, f"headers.{name}") for name, value in config.headers.items()}
    link.scrub, link.hide = Scrubber(referred(texts, environ) | set(headers.values())), kept_back(texts, environ)
    auth: httpx2.Auth | None = None
    if config.token is not None:
        headers["Authorization"] = f"Bearer {resolve(config.token, environ, 'token')}"
    elif config.auth == "oauth":
        auth = await _login(url, link, ask)

    async def note(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            statuses_met.get([]).append(response.status_code)
            if not link.opened:
                link.exit = f"HTTP {response.status_code}" + REFUSED.get(response.status_code, "")

    client = bounded_client(headers=headers, auth=auth, read_s=max(300.0, config.timeout_s + 30))
    client.event_hooks["response"] += [note, _answers_its_request]
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as (read, write),
        session_class()(link.sifted(read), write, **link.session_settings()) as session,
    ):
        yield session


async def _answers_its_request(response: httpx2.Response) -> None:
    """Have the reader of an answer in JSON find one to its own request."""
    import httpx2

    class Whole(httpx2.AsyncByteStream):
        def __init__(self, stream: Any, request_id: int | str) -> None:
            self._stream, self._request_id = stream, request_id

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield as_answer(b"".join([chunk async for chunk in self._stream]), self._request_id)

        async def aclose(self) -> None:
            await self._stream.aclose()

    if response.is_success and response.headers.get("content-type", "").lower().startswith("application/json"):
        try:
            asked = json.loads(response.request.content or b"null")
        except ValueError:  # a form, as a login sends
            return
        request_id = asked.get("id") if isinstance(asked, dict) and "method" in asked else None
        if request_id is not None:
            response.stream = Whole(response.stream, request_id)


async def _login(url: str, link: ServerLink, ask: Callback | None) -> httpx2.Auth:
    """The login to an address, refreshed as needed. What it holds is kept out of what is said and answered."""
    storage = TokenStorage(url, LoginStore(), anew=ask is not None)
    if (await storage.load()).tokens is None and ask is None:
        raise NotLoggedIn("nobody is logged in")

    def heard() -> None:
        link.scrub, link.hide = (one.adding(storage.login.secrets) for one in (link.scrub, link.hide))

    def refused(why: str) -> None:
        link.needs_login = why

    storage.heard, storage.refused = heard, refused
    heard()
    return auth_for(storage, ask)


@cache
def _trusted(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """Who is trusted over TLS, read once: it takes longer than all else of connecting, also where there is no TLS."""
    import httpx2

    return httpx2.create_ssl_context()  # which looks at the two variables


def bounded_client(
    *,
    headers: Mapping[str, str],
    read_s: float,
    auth: httpx2.Auth | None = None,
    base_url: str = "",
    kind: type[httpx2.AsyncClient] | None = None,
) -> httpx2.AsyncClient:
    """An HTTP client that gives up on an answer of more than `MAX_MESSAGE` bytes. It follows no redirect: headers may
    be secrets.

    A stream of events may go on for ever, and is left to the reader of its events.
    """
    import httpx2

    class Counted(httpx2.AsyncByteStream):
        def __init__(self, stream: Any, left: int, why: str) -> None:
            self._stream, self._left, self._why = stream, left, why

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                self._left -= len(chunk)
                if self._left < 0:
                    raise httpx2.StreamError(self._why)
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            response.stream = Counted(response.stream, 0, "the answer is compressed, which was not asked for")
        elif not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = Counted(response.stream, MAX_MESSAGE, f"the answer is longer than {MAX_MESSAGE} bytes")

    return (kind or httpx2.AsyncClient)(
        headers={**headers, "accept-encoding": "identity"},  # else a small answer could unfold into a large one
        auth=auth,
        base_url=base_url,
        timeout=httpx2.Timeout(min(30.0, read_s), read=read_s),
        event_hooks={"response": [bound]},
        follow_redirects=False,
        verify=_trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
    )


def child_environment(environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What a server's process finds in its environment: what any program needs, and what its configuration says."""
    kept = {name: value for name, value in environ.items() if name in INHERITED or name.startswith("LC_")}
    return with_safe_path({**kept, **own})


@contextlib.asynccontextmanager
async def _over_stdio(
    config: ServerConfig, environ: Mapping[str, str], link: ServerLink
) -> AsyncIterator[ClientSession]:
    """A child process, spoken to over its stdin and stdout.

    The SDK's own does not bound a message, adds to the environment, and gives stderr a file only: hence this one.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    assert config.command is not None
    own = {name: resolve(value, environ, f"env.{name}") for name, value in config.env.items()}
    command = [resolve(config.command, environ, "command"), *(resolve(arg, environ, "args") for arg in config.args)]
    cwd = None if config.cwd is None else resolve(config.cwd, environ, "cwd")
    written = {
        value for value in config.env.values() if len(value) >= 8
    }  # a secret that was not given by reference is one too
    texts = [config.command, *config.args, config.cwd or "", *config.env.values()]
    link.scrub, link.hide = Scrubber(referred(texts, environ) | written), kept_back(texts, environ)

    env = {**child_environment(environ, own), OWNER: own_identity()}
    child = await asyncio.create_subprocess_exec(
        program_to_start(command[0], env.get("PATH"), Path(cwd or ".")),
        *command[1:],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
        cwd=cwd,
        limit=MAX_MESSAGE,
        start_new_session=True,  # a group of its own: it ends with all that it started, and no Ctrl-C reaches it
    )
    link.has_ended = lambda: _has_ended(child.pid)
    stdin, stdout, stderr = child.stdin, child.stdout, child.stderr
    assert stdin is not None
    assert stdout is not None
    assert stderr is not None
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    awaited = Awaited()

    async def receive() -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            try:
                while line := await stdout.readline():
                    for message in awaited.read(line):
                        await to_session.send(SessionMessage(message))
            except ValueError:
                link.exit = f"it sent a message of more than {MAX_MESSAGE} bytes"
        to_session.close()
        link.gone.set()

    async def send() -> None:
        with contextlib.suppress(OSError):
            async for sent in from_session:
                line = awaited.to_send(sent.message)
                if not isinstance(line, bytes):
                    await to_session.send(SessionMessage(line))
                    continue
                stdin.write(line)
                await stdin.drain()
            return
        to_session.close()  # it may live on, but it no longer listens: who waits for an answer must hear of that
        link.gone.set()

    async def keep_stderr() -> None:
        while data := await stderr.read(1 << 14):
            link.wrote(data)

    pipes = [asyncio.create_task(work()) for work in (receive, send, keep_stderr)]
    try:
        async with session_class()(link.sifted(read), write, **link.session_settings()) as session:
            yield session
    finally:
        await _end(child, link, pipes)
        for stream in (to_session, read, write, from_session):
            stream.close()


async def _end(child: asyncio.subprocess.Process, link: ServerLink, pipes: list[asyncio.Task[None]]) -> None:
    """End a child and its group: its stdin is closed, then SIGTERM, then SIGKILL. Ends in bounded time."""
    assert child.stdin is not None
    asked = not link.gone.is_set()
    grace = (
        GRACE_S if link.opened and asked else GRACE_S / 10
    )  # one that never answered, or hung up, has nothing to finish
    pipes[1].cancel()
    child.stdin.close()
    try:
        if not await _exited(child, grace):
            _signal_group(child, signal.SIGTERM)
            await _exited(child, grace)
        await asyncio.wait({pipes[2]}, timeout=0.1)  # the last words, which come with the end of the pipe
    finally:
        _signal_group(child, signal.SIGKILL)  # in any case: what it started may have outlived it
        await _exited(child, GRACE_S)
        for pipe in pipes:
            pipe.cancel()
        await asyncio.wait(pipes)
        transport: Any = getattr(child, "_transport", None)  # it stays open while anybody else holds a pipe
        transport.close()
        code = child.returncode
        if not asked and not link.exit and code is not None:
            link.exit = (
                f"its process was ended by signal {-code}" if code < 0 else f"its process ended with exit code {code}"
            )
        await asyncio.sleep(0)  # the loop closes the pipes in its next round


def _has_ended(pid: int) -> bool:
    """Whether a child is dead, whichever process collects it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


async def _exited(child: asyncio.subprocess.Process, within_s: float) -> bool:
    """Whether it ends in time. Not by `child.wait()`: that also waits until nobody holds its pipes."""
    until = time.monotonic() + within_s
    while child.returncode is None:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.01)
    return True


def _signal_group(child: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
