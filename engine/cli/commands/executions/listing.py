"""`go-ent ps`: the executions of a project; and one of them as a row, or as the command that resumes it."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter

from go_ent.composer.project.files import STATE, find_project
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.choosing import meant
from go_ent.engine.cli.commands.shared import JsonFlag, dollars, table
from go_ent.engine.cli.terminal.completion_values import execution_ids
from go_ent.engine.cli.terminal.output import age, say, short, show_json, took
from go_ent.engine.core.ids import short_id
from go_ent.engine.core.models import ExecutionKind
from go_ent.engine.executions.state import ExecutionState, ExecutionStatus
from go_ent.engine.executions.storage import Row
from go_ent.engine.storages import open_store

NAMES = tuple("id parent kind status title strategy created updated finished spent_usd spent_tokens".split())


def ps_command(
    *,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], help="How many to list.")] = 20,
    status: Annotated[ExecutionStatus | None, Parameter(help="Only executions with this status.")] = None,
    kind: Annotated[ExecutionKind | None, Parameter(help="Only executions of this kind.")] = None,
    parent: Annotated[
        str | None, Parameter(help="Only executions started by this one.", completer=execution_ids)
    ] = None,
    json_: JsonFlag = False,
) -> int:
    """The executions of this project, the newest first. Their short ids can be typed wherever an id is wanted; --json
    has the long ones.

    Example: go-ent ps --status failed
    """
    if limit < 1:
        raise UsageError(f"--limit is how many are listed: 1 or more, not {limit}")
    store = open_store(find_project("."))
    above = None if parent is None else meant(parent, store)
    found = store.rows(limit=limit, status=status, kind=kind, parent=above)
    for name, why in store.index.missing().items():
        say(f"{name} can't be used: {why}", err=True)
    if json_:
        show_json([row_of(row) for row in found])
        return 0
    if not found:
        nothing = "nothing was run here yet: try go-ent exec -c '1 + 1', or go-ent run TASK"
        say("no executions of that kind" if status or kind or parent else nothing, err=True)
        if not (find_project(".") / STATE).is_dir():
            say(
                "this folder is no project, and what runs outside of one is not on record: go-ent init makes it one",
                err=True,
            )
        return 0
    shared = store.index.shared()
    rows = [_cells(row, row.id[-12:] if short_id(row.id) in shared else short_id(row.id)) for row in found]
    table(
        rows,
        ["id", "status", "age", "took", "cost", "kind", "title"],
        right=("age", "took", "cost"),
        spare=("kind", "cost", "took"),
    )
    return 0


def _cells(row: Row, name: str) -> list[str]:
    alive = row.status in ("running", "pending")
    until = time.time() if alive else row.finished or row.updated
    return [
        name,
        row.status,
        age(row.created),
        took(until - row.created) if until > row.created else "-",  # a process that was killed did not say
        dollars(row.spent_usd or None),
        row.kind,
        short(row.title).removeprefix(f"{row.kind}: "),
    ]


def row_of(found: Row | ExecutionState) -> dict[str, Any]:
    """An execution as JSON has it."""
    return {**{name: getattr(found, name) for name in NAMES}, "resumable": found.resumable}


def to_go_on(state: ExecutionState) -> str:
    """The command that resumes it; one over the lines of stdin needs them again."""
    order = state.work.get("guest")
    lines = " < LINES" if isinstance(order, dict) and order.get("each") and not order.get("each_files") else ""
    return f"go-ent resume {short_id(state.id)}{lines}"
