"""`go-ent server login` and `server logout`."""

from __future__ import annotations

import asyncio
import os
import webbrowser
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.sources.logins import LoginStore
from go_ent.engine.cli import SETUP_ERROR
from go_ent.engine.cli.commands.servers.asking import say_answer, with_servers
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.completion_values import ServerName
from go_ent.engine.cli.terminal.output import say, show_json
from go_ent.engine.cli.terminal.progress import QuietFlag
from go_ent.engine.setup.servers import Servers

PATIENCE_S = 300.0
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def login_command(
    name: ServerName,
    /,
    *,
    browser: Annotated[
        bool, Parameter(negative="--no-browser", help="Open the browser; the address is printed in any case.")
    ] = True,
    timeout: Annotated[float, Parameter(help="Seconds that you may take.")] = PATIENCE_S,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Log in to a server that has `auth = "oauth"`. The login is kept for its address, for all your projects, in the
    system's keyring or a file that only you can read, and is refreshed by itself.
    """

    async def show(address: str) -> None:
        say(f"open this address to log in to {name}:\n  {address}", err=True)
        if browser and any(os.environ.get(name) for name in SCREENS):  # else it may be one within the terminal
            await asyncio.to_thread(webbrowser.open, address)

    async def work(servers: Servers) -> int:
        url = servers.address(name)
        answer = await servers.login(name, show, timeout)
        kept = await asyncio.to_thread(LoginStore().load, url) if not answer.problem else None
        where = await asyncio.to_thread(LoginStore().where, url) if kept is not None else None
        if json_:
            show_json({"name": name, "logged_in": kept is not None, "kept": where, "problem": answer.problem})
        elif answer.problem:
            say(f"{name}: {answer.problem}", err=True)
        elif kept is None:
            say(f"{name} asked for no login", err=True)
        else:
            say(f"logged in to {name}; the login is in {where}")
            say_answer(servers, answer)
        return SETUP_ERROR if answer.problem else 0

    return with_servers(work, progress=f"waiting for you to log in to {name}", quiet=quiet or json_)


def logout_command(name: ServerName, /, *, json_: JsonFlag = False) -> int:
    """Forget the login to a server. The server itself is not told."""

    async def work(servers: Servers) -> int:
        there = await asyncio.to_thread(LoginStore().forget, servers.address(name))
        if json_:
            show_json({"name": name, "forgotten": there})
        else:
            say(f"the login to {name} is forgotten" if there else f"nobody was logged in to {name}", err=not there)
        return 0

    return with_servers(work, quiet=json_)
