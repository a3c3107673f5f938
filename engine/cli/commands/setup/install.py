"""`go-ent install`: this project's server in the configuration of an MCP client."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer.project.files import find_project
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.terminal.ask import MAX_ANSWER, at_terminal, is_yes
from go_ent.engine.cli.terminal.output import Style, say, show, show_json
from go_ent.engine.core.errors import CannotInstall
from go_ent.engine.setup.clients import CLIENTS, Client, Scope
from go_ent.engine.setup.install import InstallPlan, command, entry_for, plan, write

ScopeFlag = Annotated[
    Scope | None,
    Parameter(
        help="For this project's folder, or for your user everywhere; by default the project, if the client can."
    ),
]
NameFlag = Annotated[str, Parameter(help="The server's name in the client.")]
DryFlag = Annotated[bool, Parameter(negative="", help="Show the change and write nothing.")]
YesFlag = Annotated[bool, Parameter(negative="", help="Don't ask.")]
JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


def install_command(
    client: Annotated[Client | None, Parameter(help="The MCP client to configure.")] = None,
    /,
    *,
    scope: ScopeFlag = None,
    name: NameFlag = "go-ent",
    dry_run: DryFlag = False,
    yes: YesFlag = False,
    remove: Annotated[bool, Parameter(negative="", help="Remove the entry, as go-ent uninstall does.")] = False,
    print_: Annotated[
        bool, Parameter(name="--print", negative="", help="Print the entry, for any client, and write nothing.")
    ] = False,
    json_: JsonFlag = False,
) -> int:
    """Write this project's server into the configuration of an MCP client, after showing the change and asking.

    Nothing else in the file is changed, comments stay, and a copy of it is kept beside it. Where that can't be done
    with care, the entry to put in is printed.

    Example: go-ent install claude --yes
    """
    if print_:
        return _print(client, name)
    if client is None:
        raise UsageError(f"which client? {', '.join(CLIENTS)}; for any other: go-ent install --print")
    return _change(client, scope, name, dry_run=dry_run, yes=yes, remove=remove, json_=json_)


def uninstall_command(
    client: Annotated[Client, Parameter(help="The MCP client to change.")],
    /,
    *,
    scope: ScopeFlag = None,
    name: NameFlag = "go-ent",
    dry_run: DryFlag = False,
    yes: YesFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Remove what `go-ent install` wrote from the configuration of an MCP client; the rest of the file stays as it is.

    An entry that starts something else, or that is for another project, is left alone.

    Example: go-ent uninstall claude --yes
    """
    return _change(client, scope, name, dry_run=dry_run, yes=yes, remove=True, json_=json_)


def _print(client: Client | None, name: str) -> int:
    """The entry alone, on stdout: as the client has it, or as most do."""
    project = find_project(".")
    if client is not None:
        show(plan(client, project, name=name).paste())
        return 0
    entry = entry_for(None, command(), project)
    show_json({"mcpServers": {name: entry}}, indent=2)
    return 0


def _change(
    client: Client, scope: Scope | None, name: str, *, dry_run: bool, yes: bool, remove: bool, json_: bool
) -> int:
    try:
        made = plan(client, find_project("."), scope=scope, name=name, remove=remove)
    except CannotInstall as error:
        return _by_hand(error, remove=remove, json_=json_)
    if not made.changes:
        also = f", with what is not of this program: {', '.join(made.kept())}" if made.kept() else ""
        return _tell(made, "unchanged", f"{name} is {'not' if remove else 'already'} in {made.file}{also}", json_=json_)
    if made.link is not None:
        say(f"{made.link} is a link to {made.file}", err=True)
    if not json_:
        _print_diff(made.diff())
    if dry_run:
        return _tell(made, "would change", f"nothing was changed: {made.file} would be", json_=json_)
    if not yes and not _agrees(made, shown=not json_):
        _tell(made, "not changed", "", json_=json_)
        say(
            "nothing was changed" + ("" if at_terminal() else ": pass --yes to skip the question"),
            err=True,
        )
        return 1
    try:
        backup = write(made)
    except CannotInstall as error:
        return _by_hand(error, remove=remove, json_=json_)
    kept = f"; as it was: {backup.name}" if backup else ""
    said = f"{name} was {'removed from' if remove else 'written to'} {made.file}{kept}"
    return _tell(
        made, "removed" if remove else "written", said, json_=json_, backup=None if backup is None else str(backup)
    )


def _agrees(made: InstallPlan, *, shown: bool) -> bool:
    if not at_terminal():
        return False
    if not shown:
        say("\n".join(made.diff()), err=True)
    say(f"change {made.file}? [y/N] ", err=True, end="")
    return is_yes(sys.stdin.readline(MAX_ANSWER))


def _tell(made: InstallPlan, state: str, said: str, *, json_: bool, backup: str | None = None) -> int:
    if json_:
        about = {"client": made.client, "scope": made.scope, "name": made.name, "file": str(made.file), "state": state}
        show_json({**about, "backup": backup, "entry": made.entry, "kept": made.kept(), "diff": made.diff()})
    elif said:
        say(said)
    return 0


def _by_hand(error: CannotInstall, *, remove: bool, json_: bool) -> int:
    """What to do where no program should: the reason, and the entry."""
    say(f"go-ent: {error}", err=True)
    if error.plan is None:
        return SETUP_ERROR
    if json_:
        _tell(error.plan, "by hand", "", json_=True)
        return SETUP_ERROR
    if remove:
        say(f"take {error.plan.name} out of {error.plan.section!r} yourself", err=True)
        return SETUP_ERROR
    say("put this in yourself:", err=True)
    say(error.plan.paste())
    return SETUP_ERROR


def _print_diff(lines: list[str]) -> None:
    styles: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        say(line, style="bold" if line.startswith(("---", "+++")) else styles.get(line[:1]))
