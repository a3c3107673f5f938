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
from go_ent.engine.storage.journal import read_records
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
    folders = [name for name in os.listdir(files.folder) if ID.fullmatch(name)]
    if sorted(folders) != sorted(rows) or len(rows) != len(done) + also:
        wrong.append(f"there are {len(folders)} folders and {len(rows)} rows of {len(done) + also} executions")
    wrong += _half_written(files.folder, folders)
    return wrong, dict(Counter(rows.values()))


def _half_written(folder: Path, names: list[str]) -> list[str]:
    """Files that nobody needs any more, and journals that do not end where a record does."""
    wrong = []
    for name in names:
        if other := set(os.listdir(folder / name)) - ALLOWED:
            wrong.append(f"execution {name} has left {sorted(other)}")
        found = read_records(folder / name / "journal.jsonl")
        if found.torn or found.gaps or not found.records or found.records[-1]["kind"] != "status":
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
    folders = {name for name in os.listdir(served.project / ".go-ent" / "executions") if ID.fullmatch(name)}
    return (
        []
        if after == expected == folders
        else [f"pruning has left {len(after)} of {len(expected)} executions, and {len(folders)} folders"]
    )
