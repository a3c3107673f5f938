"""What is on record when all is done: every execution, as it ended; nothing half-written; and retention, which removes what it is to."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

from benchmarks.soak.driving import Done
from benchmarks.soak.served import GO_ENT, ROOT, Served
from go_ent.composer.project.files import TEMPORARY
from go_ent.engine.core.ids import ID
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.storage.file_storage import FileStorage
from go_ent.engine.storage.packed import Packed
from go_ent.engine.storage.records import Scan
from go_ent.engine.storage.removal import GONE

ALLOWED = frozenset({"state.json", "journal.jsonl", "lock"})  # of an execution that has ended
KEPT = 100  # executions that are left by pruning, beside those that can be resumed


def check(served: Served, done: list[Done], also: int) -> tuple[list[str], dict[str, int]]:
    """What is wrong with the records of a server that has ended, and how many executions there are of each status.

    *also* is how many executions there are beside those *done*.
    """
    files = FileStorage(served.project)
    store = ExecutionStore(files)
    try:
        rows = {row.id: row.status for row in store.rows(limit=10 * len(done) + 10 * also)}
    finally:
        store.close()
    wrong = []
    for one in done:
        if not one.wrong and rows.get(one.execution_id) != one.order.recorded:
            wrong.append(
                f"{one.order.kind}: execution {one.execution_id} is {rows.get(one.execution_id)}, not {one.order.recorded}"
            )
    if twice := [
        name for name, count in Counter(one.execution_id for one in done if one.execution_id).items() if count > 1
    ]:
        wrong.append(f"{len(twice)} executions answered more than one call")
    folders, packed = _folders(files.folder), _packed(files.folder)
    if sorted([*folders, *packed]) != sorted(rows) or len(rows) != len(done) + also:
        kept = f"{len(folders)} folders, {len(packed)} packed executions and {len(rows)} rows"
        wrong.append(f"there are {kept} of {len(done) + also} executions")
    wrong += _half_written(files.folder, folders, packed)
    return wrong, dict(Counter(rows.values()))


def _folders(folder: Path) -> list[str]:
    """The executions that have a folder."""
    return [name for name in os.listdir(folder) if ID.fullmatch(name)]


def _packed(folder: Path) -> dict[str, Scan]:
    """The journals of those that are in a file with others, and were not removed."""
    packed, found = Packed(folder), {}
    for number in packed.sizes():
        for entry in packed.entries(number):
            if entry.place is not None:
                end = entry.place.offset + entry.place.size
                found[entry.execution_id] = Scan(packed.path(entry.place), offset=entry.place.offset, end=end)
            for name in entry.removed:
                found.pop(name, None)
    return found


def _half_written(folder: Path, folders: list[str], packed: dict[str, Scan]) -> list[str]:
    """Files that nobody needs any more, and journals that do not end where a record does."""
    wrong = []
    for name in folders:
        if other := set(os.listdir(folder / name)) - ALLOWED:
            wrong.append(f"execution {name} has left {sorted(other)}")
    for name, scan in [*((name, Scan(folder / name / "journal.jsonl")) for name in folders), *packed.items()]:
        records = list(scan)
        if scan.torn or scan.gaps or not records or records[-1]["kind"] != "status":
            wrong.append(f"the journal of execution {name} does not end with a status, or has lost something")
    wrong += [f"{name} is left" for name in os.listdir(folder) if name.startswith((GONE, TEMPORARY))]
    return wrong


def prune(served: Served, done: list[Done]) -> list[str]:
    """Have all but the newest removed: what is wrong with what is left."""
    environment = {**os.environ, "GO_ENT_DATA": str(served.folder / "user"), "PYTHONPATH": str(ROOT)}

    def go_ent(*arguments: str) -> str:
        made = subprocess.run(
            [*GO_ENT, *arguments], cwd=served.project, env=environment, check=True, capture_output=True, text=True
        )
        return made.stdout

    before = json.loads(go_ent("ps", "--limit", str(10 * len(done) + 1000), "--json"))
    go_ent("executions", "prune", "--keep", str(KEPT), "--json")
    after = {row["id"] for row in json.loads(go_ent("ps", "--limit", str(10 * len(done) + 1000), "--json"))}
    newest = {row["id"] for row in sorted(before, key=lambda row: str(row["id"]), reverse=True)[:KEPT]}
    expected = newest | {row["id"] for row in before if row["resumable"]}
    folder = served.project / ".go-ent" / "executions"
    folders, packed = _folders(folder), _packed(folder)
    return (
        []
        if after == expected and sorted([*folders, *packed]) == sorted(expected)
        else [
            f"pruning has left {len(after)} of {len(expected)} executions, {len(folders)} folders and {len(packed)} packed"
        ]
    )
