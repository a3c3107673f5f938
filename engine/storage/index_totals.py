"""What executions came to, in tables of the index, and summed up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from go_ent.composer.project.items import apart
from go_ent.engine.executions.history import UNKNOWN, CallTotals, ExecutionRecord, Grouping, Totals
from go_ent.engine.executions.totals import LONGEST_TEXT

TABLES = MappingProxyType(
    {
        "tries": (
            "CREATE TABLE tries (execution TEXT NOT NULL, number INTEGER NOT NULL, runtime TEXT, model TEXT, "
            "role TEXT, strategy TEXT, "
            "tool TEXT, day TEXT NOT NULL, success INTEGER NOT NULL, tokens INTEGER, cost_usd REAL, "
            "duration_ms INTEGER NOT NULL, "
            "at REAL NOT NULL, PRIMARY KEY (execution, number)) STRICT, WITHOUT ROWID"
        ),
        "tries_at": "CREATE INDEX tries_at ON tries (at)",
        "tool_calls": (
            "CREATE TABLE tool_calls (execution TEXT NOT NULL, tool TEXT NOT NULL, calls INTEGER NOT NULL, "
            "failures INTEGER NOT NULL, "
            "ms REAL NOT NULL, at REAL NOT NULL, PRIMARY KEY (execution, tool)) STRICT, WITHOUT ROWID"
        ),
        "tool_calls_at": "CREATE INDEX tool_calls_at ON tool_calls (at)",
    }
)
SUMS = "count(*), sum(success), coalesce(sum(tokens), 0), sum(cost_usd), count(cost_usd), sum(duration_ms)"


def note(
    database: sqlite3.Connection, execution_id: str, records: Iterable[ExecutionRecord], calls: Mapping[str, CallTotals]
) -> None:
    """Keep what an execution came to, instead of what was kept of it."""
    database.execute("DELETE FROM tries WHERE execution = ?", (execution_id,))
    database.execute("DELETE FROM tool_calls WHERE execution = ?", (execution_id,))
    tries = []
    for number, one in enumerate(records):
        labels = [storable(text) for text in (one.runtime, one.model, one.role, one.strategy, one.tool, one.day)]
        tries.append((execution_id, number, *labels, one.success, one.tokens, one.cost_usd, one.duration_ms, one.at))
    database.executemany("INSERT INTO tries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", tries)
    made = [(execution_id, storable(tool), one.calls, one.failures, one.ms, one.at) for tool, one in calls.items()]
    database.executemany("INSERT OR REPLACE INTO tool_calls VALUES (?, ?, ?, ?, ?, ?)", made)


def totals(database: sqlite3.Connection, by: Grouping, since: float | None) -> dict[str, Totals]:
    """The sums of what is kept; by tool the calls count too."""
    given = () if since is None else (since,)
    recent = "" if since is None else " WHERE at >= ?"
    found: dict[str, Totals] = {}
    wrong: dict[str, str] = {}
    query = f"SELECT coalesce({by}, '{UNKNOWN}'), {SUMS} FROM tries{recent} GROUP BY 1"  # noqa: S608
    for name, count, successes, tokens, cost, known, took in database.execute(query, given):
        with apart(f"the totals of {str(name)[:80]}", wrong):
            found[str(name)] = Totals(
                count=count,
                successes=successes,
                tokens=tokens,
                cost_usd=cost,
                costs_known=known,
                costs_unknown=count - known,
                duration_ms=took,
            )
    query = f"SELECT tool, sum(calls), sum(failures), sum(ms) FROM tool_calls{recent} GROUP BY 1"  # noqa: S608
    for name, made, failures, ms in database.execute(query, given) if by == "tool" else ():
        with apart(f"the calls of {str(name)[:80]}", wrong):
            found[str(name)] = found.get(name, Totals()).with_calls(CallTotals(made, failures, ms))
    return dict(sorted(found.items()))


def storable(text: str | None) -> str | None:
    """Text that a database takes, and not too much of it."""
    return None if text is None else text[:LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8").replace("\0", "")
