"""The tables of the index, and its longer queries."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from go_ent.engine.core.ids import SHORT
from go_ent.engine.storage import marks
from go_ent.engine.storage.index_totals import TABLES

VERSION = 5
MOST_ROWS = 100_000

SCHEMA = MappingProxyType(
    {
        "filled": "CREATE TABLE filled (id INTEGER PRIMARY KEY CHECK (id = 0), whole INTEGER NOT NULL, by TEXT NOT NULL) "  # noqa: E501
        "STRICT",
        "executions": (
            "CREATE TABLE executions (id TEXT PRIMARY KEY, parent TEXT, kind TEXT NOT NULL, status TEXT NOT "
            "NULL, title TEXT NOT NULL, "
            "strategy TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, finished REAL, spent_usd REAL, "
            "spent_tokens INTEGER NOT NULL, image TEXT NOT NULL, resumable INTEGER NOT NULL, client TEXT NOT "
            "NULL, size INTEGER NOT NULL, "
            "seq INTEGER NOT NULL, file INTEGER, offset INTEGER NOT NULL) STRICT, WITHOUT ROWID"
        ),
        # How far each file of packed executions was read; an execution in one has its number and place.
        "packed": "CREATE TABLE packed (file INTEGER PRIMARY KEY, size INTEGER NOT NULL) STRICT",
        "by_file": "CREATE INDEX by_file ON executions (file) WHERE file IS NOT NULL",
        "by_short": "CREATE INDEX by_short ON executions (substr(id, -8))",  # what people type
        "by_status": "CREATE INDEX by_status ON executions (status, id)",
        "by_kind": "CREATE INDEX by_kind ON executions (kind, status, id)",
        "of_kind": "CREATE INDEX of_kind ON executions (kind, id)",
        "by_parent": "CREATE INDEX by_parent ON executions (parent, id) WHERE parent IS NOT NULL",
        "by_client": "CREATE INDEX by_client ON executions (client, id) WHERE client != ''",
        "by_image": "CREATE INDEX by_image ON executions (image) WHERE resumable",
        **TABLES,
        **marks.TABLES,
    }
)
STORED = (
    "id, parent, kind, status, title, strategy, created, updated, finished, spent_usd, spent_tokens, image, "
    "resumable, client, size"
)
COLUMNS = f"{STORED}, file IS NOT NULL AS packed"
NAMES = (*STORED.split(", "), "packed")
# Who comes late with an older state changes nothing; a size is that of the state it was measured with.
PUT = f"""
INSERT INTO executions ({STORED}, seq, file, offset) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, kind = excluded.kind, status = excluded.status, title = excluded.title,
  strategy = excluded.strategy, created = excluded.created, updated = excluded.updated, finished = excluded.finished,
  spent_usd = excluded.spent_usd, spent_tokens = excluded.spent_tokens, image = excluded.image, resumable = excluded.resumable,
  client = excluded.client, size = CASE WHEN excluded.seq = seq AND excluded.size = 0 THEN size ELSE excluded.size END,
  seq = excluded.seq, file = excluded.file, offset = excluded.offset
WHERE excluded.seq >= seq
"""  # noqa: E501, S608


# Executions that ran a tool, or called it; and those with a try on a runtime. A value is given once.
OF_TOOL = (
    "(SELECT ?) IN (SELECT tool FROM tries WHERE execution = id UNION SELECT tool FROM tool_calls WHERE execution = id)"
)
OF_RUNTIME = "(SELECT ?) IN (SELECT runtime FROM tries WHERE execution = id)"


def like(text: str) -> str:
    """A pattern that fits what has *text* in it."""
    return "%" + text.translate({ord(char): f"!{char}" for char in "%_!"}).replace("\0", "") + "%"


def find_query(text: str) -> tuple[str, tuple[Any, ...]]:
    """The ids that begin with *text*, or whose short form does; a longer text may be the end of one."""
    short, after = (text, f"{text}g") if len(text) <= SHORT else (text[-SHORT:], f"{text[-SHORT:]}0")
    return (
        "SELECT id FROM executions WHERE id >= ? AND id < ? UNION "
        "SELECT id FROM executions WHERE substr(id, -8) >= ? AND substr(id, -8) < ? ORDER BY id LIMIT 100",
        (text, f"{text}g", short, after),
    )  # g: after all of an id


def rows_query(
    limit: int,
    *,
    status: str | None = None,
    kind: str | None = None,
    parent: str | None = None,
    since: float | None = None,
    before: float | None = None,
    client: str | None = None,
    text: str | None = None,
    tool: str | None = None,
    runtime: str | None = None,
    below: str | None = None,
) -> tuple[str, tuple[Any, ...]]:
    """Ids sort by the time they were made, so a time is a range of them."""
    wanted: list[tuple[str, Any]] = [("status = ?", status), ("kind = ?", kind), ("parent = ?", parent)]
    if client:  # said in so many words, so that its index is used
        wanted += [("client != '' AND client = ?", client)]
    wanted += [
        ("id >= ?", None if since is None else first_id(since)),
        ("id < ?", None if before is None else first_id(before)),
        ("id < ?", below),
        ("title LIKE ? ESCAPE '!'", None if text is None else like(text)),
        (OF_TOOL, tool),
        (OF_RUNTIME, runtime),
    ]
    given = [(term, value) for term, value in wanted if value is not None]
    where = f" WHERE {' AND '.join(term for term, _ in given)}" if given else ""
    query = f"SELECT {COLUMNS} FROM executions{where} ORDER BY id DESC LIMIT ?"  # noqa: S608
    return query, (*(value for _, value in given), min(max(0, limit), MOST_ROWS))


def first_id(at: float) -> str:
    """Not after any id of that time, and after all before it."""
    text = f"{int(min(max(0.0, at * 1000), (1 << 48) - 1)):012x}"
    return f"{text[:8]}-{text[8:]}"
