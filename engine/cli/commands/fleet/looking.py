"""`go-ent fleet status` and `fleet drain`."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.fleet.opening import configured
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.output import say, show_json
from go_ent.engine.cli.terminal.tables import table


def status_command(
    *,
    watch: Annotated[bool, Parameter(negative="", help="Show it again every second, until Ctrl-C.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Show the fleet's workers with their labels and slots, what waits in its queues and why, and its connections."""
    project, config = configured()
    from go_ent.engine.fleet.dbos_adapter import Queues
    from go_ent.engine.fleet.opening import open_fleet
    from go_ent.engine.fleet.sending import overview

    storage, _, _ = open_fleet(project, config.fleet)
    queues = Queues(storage.database.address)
    try:
        while True:
            found = overview(storage, queues)
            if json_:
                show_json(found)
            else:
                _show(found)
            if not watch:
                return 0
            time.sleep(1.0)
    finally:
        queues.close()
        storage.close()


def _show(found: dict[str, Any]) -> None:
    if found["workers"]:
        head = ("worker", "state", "labels", "running", "slots", "version", "host")
        rows = [
            (
                one["name"],
                one["state"],
                ",".join(one["labels"]) or "-",
                str(one["running"]),
                str(one["slots"]),
                one["version"],
                one["host"],
            )
            for one in found["workers"]
        ]
        table(rows, head, right=("running", "slots"))
    else:
        say("no workers: start go-ent worker on each machine")
    for one in found["queues"]:
        say(f"{one['waiting']} waiting in {one['queue']}: {one['why']}")
    for one in found["images"]:
        say(f"image {one['digest'][:12]}: {one['language']}, {one['bytes'] / 1e6:.0f} MB")
    say(f"{found['connections']['used']} of {found['connections']['most']} connections")
    if not found["up_to_date"]:
        say("the queues are of an older go-ent, and are polled: run go-ent fleet init")


def drain_command(
    name: Annotated[str, Parameter(help="The worker, as `fleet status` calls it.")], /, *, json_: JsonFlag = False
) -> int:
    """Have a worker take nothing more. It ends once what it runs is done; others take what waits."""
    project, config = configured()
    from go_ent.engine.fleet.opening import open_fleet

    storage, _, _ = open_fleet(project, config.fleet)
    try:
        query = "update $.members set draining = true where name = %s and kind = 'worker'"
        if not storage.database.tell(query, (name,)):
            there = ", ".join(one.name for one in storage.members.look() if one.kind == "worker") or "none"
            raise UsageError(f"there is no worker {name}; there are: {there}")
    finally:
        storage.close()
    if json_:
        show_json({"worker": name, "draining": True})
    else:
        say(f"{name} takes nothing more, and ends once it is done")
    return 0
