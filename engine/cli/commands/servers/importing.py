"""`go-ent server import`: the MCP servers that other clients have already."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.config import read_config
from go_ent.composer.errors import StoreError
from go_ent.composer.project.files import find_project
from go_ent.composer.project.trust import is_trusted
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.ask import MAX_ANSWER, at_terminal, is_yes
from go_ent.engine.cli.terminal.output import say, show_json
from go_ent.engine.settings.edit import set_entry
from go_ent.engine.setup.client_servers import Found, servers_of_clients
from go_ent.engine.setup.clients import Client
from go_ent.sandbox.messages.near_names import did_you_mean, near


def import_command(
    *names: Annotated[str, Parameter(help="Which servers; without names, all that are found.")],
    from_: Annotated[
        list[Client] | None, Parameter(name="--from", help="Look at this client only; repeatable.")
    ] = None,
    dry_run: Annotated[bool, Parameter(negative="", help="Show what would be written, and write nothing.")] = False,
    yes: Annotated[bool, Parameter(negative="", help="Don't ask.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Add the MCP servers that Claude Code, Cursor, VS Code and other clients have already to this project.

    Nothing is started, trusted or granted by this. Secrets stay where they are: the project's file gets references to
    environment variables instead, and you are told which to set.

    Example: go-ent server import github --from claude
    """
    project = find_project(".")
    found, problems = servers_of_clients(project, from_ or ())
    for problem in problems:
        say(f"note: {problem}", err=True)
    chosen = choose(project, found, names)
    wanted = [server for server in chosen if not server.problem]
    if not json_:
        show_found(chosen)
    if not wanted:
        if json_:
            show_json([])
        say("nothing was imported: no server that is not here already was found", err=True)
        return 1 if names else 0
    if dry_run or not (yes or _agrees(len(wanted))):
        if json_:
            show_json([_row(server, written=False) for server in wanted])
        asks = dry_run or at_terminal()
        say("nothing was imported" + ("" if asks else ": pass --yes to skip the question"), err=True)
        return 0 if dry_run else 1
    bring_in(project, wanted)
    if json_:
        show_json([_row(server, written=True) for server in wanted])
    else:
        say_next(project, wanted)
    return 0


def choose(project: Path, found: list[Found], names: tuple[str, ...] = ()) -> list[Found]:
    """Those of these names, or all, without what the project has already. `UsageError` for a name that is none."""
    config = read_config(project)
    there = {*config.servers, *config.apis}
    known = {server.name: server for server in found}
    for name in names:
        if name not in known:
            meant = did_you_mean(near(name, known)) or f"; there are {', '.join(known) or 'none'}"
            raise UsageError(f"no client has a server {name[:80]}{meant}")
        if name in there:
            raise UsageError(f"there is a server {name} here already: go-ent server remove {name} first")
    return [server for server in found if server.name not in there and (not names or server.name in names)]


def show_found(found: list[Found]) -> None:
    for server in found:
        if server.problem:
            say(f"{server.name}: can't be used: {server.problem} ({server.title})", err=True)
            continue
        say(f"{server.name}: {server.reached}  ({server.title}, {server.file})")
        if server.variables:
            say(f"  secrets stay there; set in your environment: {', '.join(server.variables)}")
        for note in server.notes:
            say(f"  {note}")


def bring_in(project: Path, servers: list[Found]) -> None:
    """Write servers to the project's file, each by itself."""
    for server in servers:
        try:
            set_entry(project, "servers", server.name, server.entry)
        except StoreError as error:
            raise StoreError(f"{server.name} was not imported: {error}") from None


def say_next(project: Path, servers: list[Found]) -> None:
    """What was done, and what to type now."""
    names = [server.name for server in servers]
    say(f"imported to .go-ent/config.toml: {', '.join(names)}")
    variables = list(dict.fromkeys(variable for server in servers for variable in server.variables))
    if variables:
        say(f"set {', '.join(variables)}: their values are in the files above, and nowhere here")
    say("nothing was started, trusted or granted. next:")
    if not is_trusted(project):
        say("  go-ent trust")
    say(f"  go-ent server tools {names[0]}")
    say(f"  go-ent grant '{names[0]}.*'")


def _agrees(count: int) -> bool:
    if not at_terminal():
        return False
    say(f"import {'it' if count == 1 else f'these {count}'}? [y/N] ", err=True, end="")
    return is_yes(sys.stdin.readline(MAX_ANSWER))


def _row(server: Found, *, written: bool) -> dict[str, object]:
    about = {"name": server.name, "client": server.client, "file": str(server.file), "entry": server.entry}
    return {**about, "variables": list(server.variables), "notes": list(server.notes), "written": written}
