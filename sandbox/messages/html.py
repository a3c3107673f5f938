"""Values as HTML, for notebooks. What is shown comes from elsewhere: all of it is escaped, bounded and plain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

MOST_CHARS = 20_000  # of a text, or of a value as JSON
MOST_ROWS, MOST_COLUMNS, MOST_CELL = 50, 12, 200
CELL = "text-align:left;vertical-align:top"


def plain(text: object) -> str:
    """Text for an element's content or an attribute. Marks that reorder or hide text are shown as what they are not."""
    shown = "".join(char if char in "\n\t" or char.isprintable() else "\ufffd" for char in str(text))
    import html  # all of its entities: for who shows nothing, for nothing

    return html.escape(shown, quote=True)


def preformatted(text: object) -> str:
    """Text with its own line breaks; the beginning of one that is long, and how much is missing."""
    whole = str(text)
    rest = f"\n… {len(whole) - MOST_CHARS:,} characters more" if len(whole) > MOST_CHARS else ""
    return f"<pre>{plain(whole[:MOST_CHARS] + rest)}</pre>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts."""
    head = "".join(f'<th style="{CELL}">{plain(column)}</th>' for column in columns)
    cells = (("".join(f'<td style="{CELL}">{plain(_cut(cell))}</td>' for cell in row)) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def value(given: Any) -> str:
    """A JSON value: a list of records as a table, a text as it is, anything else as JSON."""
    if columns := _columns(given):
        rows = [[_cell(record.get(column, "")) for column in columns] for record in given[:MOST_ROWS]]
        more = len(given) - MOST_ROWS
        return table(columns, rows) + (f"<p>and {more:,} more</p>" if more > 0 else "")
    return preformatted(given if isinstance(given, str) else json.dumps(given, indent=2, ensure_ascii=False))


def _columns(given: Any) -> list[str]:
    """The keys of a list of records, if that is what it is and a table can hold them."""
    if not isinstance(given, list) or not given or not all(isinstance(record, dict) for record in given):
        return []
    columns: dict[str, None] = {}
    for record in given[:MOST_ROWS]:
        columns |= dict.fromkeys(record)
        if len(columns) > MOST_COLUMNS:
            return []
    return list(columns)


def _cell(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _cut(cell: object) -> str:
    text = str(cell)
    return text if len(text) <= MOST_CELL else f"{text[: MOST_CELL - 1]}…"
