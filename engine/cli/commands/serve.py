"""`go-ent serve`: the MCP server of this folder's project, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import Parameter

from go_ent.composer import Composer
from go_ent.composer.known_tools import unmatched_grants
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.terminal.output import say, tty
from go_ent.engine.cli.terminal.signals import on_signals
from go_ent.engine.core.config import Profile
from go_ent.engine.core.logs import take_over
from go_ent.sandbox import SandboxError
from go_ent.sandbox.host.zygote import zygotes
from go_ent.waiting import first_of

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from go_ent.engine.console.app import Console
    from go_ent.engine.engine import Engine
    from go_ent.engine.server.calls.callers import Caller

log = logging.getLogger("go_ent.engine")


def serve_command(
    *,
    http: Annotated[
        str | None, Parameter(help="Serve over HTTP at HOST:PORT, or at a port of 127.0.0.1; port 0 picks a free one.")
    ] = None,
    token_env: Annotated[
        str | None,
        Parameter(help="With --http: the environment variable that holds a token with all of the project's rights."),
    ] = None,
    project: Annotated[
        Path | None, Parameter(help="The project's folder, if the client starts go-ent elsewhere.")
    ] = None,
    profile: Annotated[
        Profile | None,
        Parameter(help="The tools that clients find listed: for code, the engine's, or all. Others can be called."),
    ] = None,
) -> int:
    """Serve this project to an MCP client over stdin and stdout, or over HTTP. Logs go to stderr.

    Over HTTP, on loopback, this user's programs may call it. Anybody else needs a token: that of --token-env, or one of
    the clients that `[serve.clients.NAME]` in `.go-ent/config.toml` names, each with grants and a budget of its own.
    """
    if token_env is not None and http is None:
        raise UsageError("--token-env is for --http: over stdin and stdout there is nobody else")
    if project is not None:
        os.chdir(project)  # so that all is as if it was started there
    if http is None and tty(sys.stdin) and tty(sys.stdout):
        say(
            "serving over stdin and stdout: an MCP client starts this command and speaks JSON-RPC to it\n"
            "  to add it to a client:  go-ent install claude (or cursor, vscode, ...)\n"
            "  to serve over HTTP:     go-ent serve --http 8765\n"
            "waiting for a client on stdin; Ctrl-C ends it",
            err=True,
        )
    over = partial(_over_http, (http, token_env)) if http is not None else _over_stdio
    return asyncio.run(_serve(partial(over, profile=profile)))


Serve = Callable[[Composer, "Engine", asyncio.Event], Awaitable[None]]


async def _over_stdio(composer: Composer, engine: Engine, stop: asyncio.Event, *, profile: Profile | None) -> None:
    from go_ent.engine.server import stdio
    from go_ent.engine.server.calls.long_calls import end_calls

    server = _server(composer, engine, profile)
    _settle()
    serving = asyncio.create_task(stdio.serve(server))
    try:
        await first_of(serving, stop)
        if not serving.done():
            await end_calls(engine)
    finally:
        if not serving.done():
            serving.cancel()
    if not stop.is_set():
        await serving


async def _over_http(
    where: tuple[str, str | None], composer: Composer, engine: Engine, stop: asyncio.Event, *, profile: Profile | None
) -> None:
    """*where* is the address, and the environment variable with the token."""
    from go_ent.engine.server.http.serve import listen, parse_address, read_rules, serve, url_of, who

    address, token_env = where
    found = await asyncio.to_thread(parse_address, address)
    rules = await asyncio.to_thread(
        read_rules, engine.config.serve, found, engine, version("go-ent"), os.environ, token_env
    )
    if engine.config.serve.clients and not engine.trusted:
        say("the clients of [serve.clients] are not let in: nobody has trusted this folder (go-ent trust)", err=True)
    with listen(found) as made:

        def started() -> None:
            _settle()
            say(f"listening on {url_of(made)}", err=True)
            say(f"serving {engine.project} {who(rules.tokens)}", err=True)
            if not found.is_loopback:
                say("tokens and answers travel as they are: have something in front of this that speaks TLS", err=True)

        site = _console(composer, engine, rules.tokens.whose)
        await serve(_server(composer, engine, profile), composer, engine, made, rules, stop, started, site)


def _console(composer: Composer, engine: Engine, whose: Callable[[str], Caller | None]) -> Console | None:
    """The console, if a client may use it: nobody else pays for its import."""
    if not any(client.console for client in engine.config.serve.clients.values()):
        return None
    from go_ent.engine.console.pages import all_pages
    from go_ent.engine.console.serving import clients_console

    return clients_console(engine, composer, all_pages(), whose)


def _server(composer: Composer, engine: Engine, profile: Profile | None) -> FastMCP:
    """The server, with all that its libraries log in the one log: they quote their clients, and have handlers of
    their own.
    """
    from go_ent.engine.server import make_server

    server = make_server(composer, engine, profile=profile)
    take_over("fastmcp", "mcp", "uvicorn", "uvicorn.error", "uvicorn.access")
    return server


async def _serve(serve: Serve) -> int:
    """Serve until stdin ends, or a signal comes: then what was started is ended too. The second signal waits for
    nothing.
    """
    gc.disable()  # until `_settle`: what is imported stays, and looking for garbage in it takes a tenth of the start
    from go_ent.composer.project.files import find_project
    from go_ent.engine.engine import Engine
    from go_ent.engine.storages import open_storages

    asked: list[signal.Signals] = []
    stop = asyncio.Event()

    def heard(number: signal.Signals) -> None:
        if asked:
            _leave(number)
        asked.append(number)
        stop.set()

    with on_signals(heard):
        kept = await asyncio.to_thread(open_storages, find_project("."))
        composer = await asyncio.to_thread(lambda: Composer.open(".", build=False, **kept.for_composer))
        for one in await asyncio.to_thread(unmatched_grants, composer.project, composer.config):
            log.warning("grants: %s", one)
        threading.Thread(target=_prepare, args=(composer,), name="image", daemon=True).start()
        async with composer:
            engine = await asyncio.to_thread(Engine, composer.project, mode="mcp", composer=composer, storages=kept)
            async with engine:
                await serve(composer, engine, stop)
        if asked:
            _leave(asked[0])
        return 0


def _prepare(composer: Composer) -> None:
    """The sandbox image, if this machine does not have it yet, and the first workers, while the rest is imported.
    Clients connect meanwhile: they give up on a server that takes long.
    """
    with contextlib.suppress(SandboxError, OSError):  # the first run tells why
        composer.box.open()
    zygotes.drop_ahead()  # which were started for another image than it came to be


def _settle() -> None:
    """What was made by starting stays: a collection that looks at all of it holds everybody up for a tenth of a
    second, so none does, not even one.
    """
    gc.freeze()
    gc.enable()


def _leave(number: signal.Signals) -> NoReturn:
    """End now. Not through `sys.exit`: that waits for the thread that reads stdin."""
    os._exit(128 + number)
