"""What `go-ent init` asks a person: which agent programs to connect, and which of their servers to import."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from go_ent.composer.errors import ComposerError
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.servers.importing import bring_in, choose, say_next, show_found
from go_ent.engine.cli.terminal.ask import MAX_ANSWER
from go_ent.engine.cli.terminal.output import say
from go_ent.engine.core.errors import CannotInstall
from go_ent.engine.setup.client_servers import servers_of_clients
from go_ent.engine.setup.clients import CLIENTS, TITLES, Client, place_of
from go_ent.engine.setup.install import plan, write
from go_ent.sandbox.children.programs import find_program

PROGRAMS: dict[Client, str] = {"vscode": "code", "claude-desktop": "claude-desktop"}  # others are called as they are


def ask_about_clients(project: Path) -> None:
    """Connect the agent programs that the person names."""
    here = [client for client in CLIENTS if _is_here(client, project)]
    found = f" (found here: {', '.join(here)})" if here else f" ({', '.join(CLIENTS)}; none was found here)"
    for name in _names(f"connect which agent programs?{found}\n  names, all, or Enter for none: ", here):
        if name not in CLIENTS:
            say(f"  {name[:40]} is not known: go-ent install --print is for any other", err=True)
            continue
        client: Client = name
        try:
            made = plan(client, project)
            if made.changes:
                write(made)
            say(f"  {TITLES[client]}: {made.file}")
        except CannotInstall as error:
            say(f"  {TITLES[client]}: {error}", err=True)


def ask_about_servers(project: Path) -> None:
    """Import the servers that the person names. Nothing is asked where there are none."""
    try:
        found, problems = servers_of_clients(project)
        usable = [server for server in choose(project, found) if not server.problem]
        for problem in problems:
            say(f"note: {problem}", err=True)
        if not usable:
            return
        show_found(usable)
        names = _names(
            "import which of these MCP servers?\n  names, all, or Enter for none: ", [s.name for s in usable]
        )
        wanted = choose(project, usable, tuple(names)) if names else []
        if wanted:
            bring_in(project, wanted)
            say_next(project, wanted)
    except (UsageError, ComposerError) as error:
        say(f"  {error}", err=True)


def _names(question: str, every: list[str] | list[Client]) -> list[str]:
    say(question, err=True, end="")
    answer = sys.stdin.readline(MAX_ANSWER).replace(",", " ").split()
    return [str(name) for name in every] if answer == ["all"] else list(dict.fromkeys(answer))


def _is_here(client: Client, project: Path) -> bool:
    """Whether a client seems to be on this machine: its program, or its settings."""
    if find_program(PROGRAMS.get(client, client), os.environ.get("PATH"), project) is not None:
        return True
    place = place_of(client, "user", project, os.environ)
    return place.file.exists() or (place.file.parent != place.base and place.file.parent.is_dir())
