"""`go-ent console`: a local web page of this folder's project."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import webbrowser
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer import Composer
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.terminal.output import say, tty
from go_ent.engine.cli.terminal.signals import on_signals
from go_ent.engine.core.logs import take_over


def console_command(
    *,
    port: Annotated[int, Parameter(help="The port on 127.0.0.1; 0 picks a free one.")] = 0,
    no_open: Annotated[
        bool, Parameter(name="--no-open", negative="", help="Only print the address; open no browser.")
    ] = False,
) -> int:
    """Look at runs, decide about calls and try tools in a browser. It listens on loopback, for you alone.

    The address that it prints opens one session, once, for five minutes. Enter prints another one; Ctrl-C ends it.

    Example: go-ent console --port 8080
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"--port is a number from 0 to 65535, not {port}")
    return asyncio.run(_serve(port, browser=not no_open))


async def _serve(port: int, *, browser: bool) -> int:
    from go_ent.engine.console.pages import all_pages
    from go_ent.engine.console.serving import listen, local_console, serve
    from go_ent.engine.engine import Engine
    from go_ent.engine.server.calls.callers import LOCAL

    stop = asyncio.Event()
    asked: list[signal.Signals] = []

    def heard(number: signal.Signals) -> None:
        if asked:
            os._exit(128 + number)
        asked.append(number)
        stop.set()

    with on_signals(heard), listen(port) as made:
        composer = await asyncio.to_thread(Composer.open, ".", build=False)
        async with composer:
            engine = await asyncio.to_thread(Engine, composer.project, mode="cli", composer=composer)
            async with engine:
                take_over("uvicorn", "uvicorn.error", "uvicorn.access")
                console = local_console(engine, composer, all_pages(), made.getsockname()[1])

                def started(address: str) -> None:
                    gc.freeze()  # what starting made stays: a look through it for garbage takes as long as a page
                    say(f"the console of {engine.project} is at {address}", err=True)
                    say("the address is good once, for five minutes; Ctrl-C ends the console", err=True)
                    if browser and tty(sys.stderr):
                        webbrowser.open(address)
                    if tty(sys.stdin):
                        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), again, address.partition("?")[0])

                def again(base: str) -> None:
                    if not os.read(sys.stdin.fileno(), 4096):
                        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
                        return
                    say(f"{base.removesuffix('/console/enter')}{console.invite(LOCAL)}", err=True)

                await serve(console, made, stop, started)
    return 0 if not asked else 128 + asked[0]
