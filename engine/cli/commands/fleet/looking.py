"""`go-ent fleet status` and `fleet drain`."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.fleet.opening import configured
from go_ent.engine.cli.commands.shared import JsonFlag
from go_ent.engine.cli.terminal.output import say, show_json
from go_ent.engine.cli.terminal.tables import table

if TYPE_CHECKING:
    from go_ent.engine.fleet.dbos_adapter import Queues
    from go_ent.engine.fleet.execution_storage import PostgresStorage

WORKERS = """
select m.id, m.name, m.host, m.info, extract(epoch from now() - m.since)::float8 from $.members m
where m.kind = 'worker' order by m.id
"""
CONNECTIONS = """
select count(*), (select setting::int from pg_settings where name = 'max_connections') from pg_stat_activity
where datname = current_database() and application_name = 'go-ent'
"""


def status_command(
    *,
    watch: Annotated[bool, Parameter(negative="", help="Show it again every second, until Ctrl-C.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Show the fleet's workers with their labels and slots, what waits in its queues and why, and its connections."""
    project, config = configured()
    from go_ent.engine.fleet.dbos_adapter import Queues
    from go_ent.engine.fleet.opening import open_fleet

    storage, _, _ = open_fleet(project, config.fleet)
    queues = Queues(storage.database.address)
    try:
        while True:
            found = _looked(storage, queues)
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


def _looked(storage: PostgresStorage, queues: Queues) -> dict[str, Any]:
    from go_ent.engine.fleet.images import FleetImages
    from go_ent.engine.fleet.queue import NeedingQueues

    seen = {one.id: one for one in storage.members.look()}
    waiting = queues.waiting()
    running = Counter(executor for _, status, _, executor in waiting if status == "PENDING")
    workers = []
    for number, name, host, info, since in storage.database.ask(WORKERS):
        one = seen.get(number)
        state = "dead" if one is None or not one.alive else "draining" if one.draining else "alive"
        about = info if isinstance(info, dict) else {}
        workers.append(
            {
                "name": str(name),
                "host": str(host),
                "state": state,
                "labels": [str(label) for label in about.get("labels", ())],
                "slots": about.get("slots"),
                "running": running[name],
                "version": str(about.get("version", "")),
                "names": [str(name) for name in about.get("names", ())],
                "since_s": round(since),
            }
        )
    needs = {queue: (label, names) for queue, _, label, names in NeedingQueues(storage.database).listed()}
    rows = Counter((queue, version) for queue, status, version, _ in waiting if status == "ENQUEUED")
    ((used, most),) = storage.database.ask(CONNECTIONS)
    return {
        "workers": workers,
        "queues": [
            {
                "queue": queue,
                "waiting": count,
                "version": version,
                "why": why_waiting((queue, version), workers, needs),
            }
            for (queue, version), count in sorted(rows.items())
        ],
        "images": [
            {"digest": digest, "language": language, "bytes": size}
            for digest, language, size in FleetImages(storage.database).listed()
        ],
        "connections": {"used": used, "most": most},
    }


def why_waiting(
    what: tuple[str, str], workers: list[dict[str, Any]], needs: dict[str, tuple[str | None, tuple[str, ...]]]
) -> str:
    """Why something waits in a queue, for a version, as far as that can be seen."""
    queue, version = what
    label, names = needs.get(queue) or (queue.partition(":")[2], ())
    alive = [one for one in workers if one["state"] == "alive"]
    fit = [one for one in alive if not label or label in (*one["labels"], one["host"])]
    if not fit:
        return f"no worker has the label {label}" if label else "no worker is there"
    fit = [one for one in fit if set(names) <= set(one["names"])]
    if not fit:
        return f"no worker has the environment variables {', '.join(names)}"
    if not any(one["version"] == version for one in fit):
        return f"no worker has go-ent {version}"
    return "all workers are busy"


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
