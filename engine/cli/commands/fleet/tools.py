"""`go-ent fleet push` and `fleet pull`: composed tools of this folder, and the fleet's."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from go_ent.engine.cli import SETUP_ERROR
from go_ent.engine.cli.commands.fleet.opening import configured
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.output import say, show_json


def push_command(
    *names: Annotated[str, Parameter(help="The tools; by default all that the fleet has not changed meanwhile.")],
    json_: JsonFlag = False,
) -> int:
    """Give the fleet the composed tools of this folder, for example those of a checkout. One that the fleet has changed
    meanwhile is left alone unless it is named; the fleet keeps every version.
    """
    project, config = configured()
    from go_ent.engine.fleet.opening import open_fleet

    storage, _, (store, _) = open_fleet(project, config.fleet)
    try:
        told = store.push(list(names) or None)
    finally:
        storage.close()
    return _tell(told, "nothing to push", json_=json_)


def pull_command(*, json_: JsonFlag = False) -> int:
    """Bring the composed tools of this folder up to date. What was edited here is never written over: it is told."""
    project, config = configured()
    from go_ent.engine.fleet.opening import open_fleet

    storage, _, (store, _) = open_fleet(project, config.fleet)
    try:
        conflicts = store.pull()
    finally:
        storage.close()
    _tell(conflicts, "up to date", json_=json_)
    return SETUP_ERROR if conflicts else 0


def _tell(told: dict[str, str], nothing: str, *, json_: bool) -> int:
    if json_:
        show_json(told)
        return 0
    for name, said in told.items():
        say(f"{name}: {said}" if not said.startswith(name) else said)
    if not told:
        say(nothing)
    return 0
