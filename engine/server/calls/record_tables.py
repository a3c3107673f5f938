"""Results as a model reads them: compact JSON, or CSV where the result is a table of records and that is shorter.

Only the text changes: structured content stays as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import to_json

LEAST_RECORDS = 3
MOST_COLUMNS = 50
SPECIAL = re.compile(r'[,"\n\t\u0085\u2028\u2029]')  # a line in a text must not be taken for a record
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")  # which JSON escapes
WORDS = frozenset({"", "true", "false", "null"})  # texts that would be read as something else


def as_text(value: Any) -> str:
    """A value as a model reads it: a text as it is, a table of records as CSV, anything else as JSON."""
    if isinstance(value, str):
        return value
    written = to_json(value, inf_nan_mode="null").decode()
    table = as_table(value)
    return table if table is not None and len(table) < len(written) else written


def as_table(value: Any) -> str | None:
    """Records of the same flat fields as CSV; None of anything else.

    Numbers, true and false stand as they are, null is an empty cell, and a text is quoted where it could be taken for
    one of these: nothing is lost.
    """
    if not isinstance(value, list) or len(value) < LEAST_RECORDS or not isinstance(value[0], dict) or not value[0]:
        return None
    columns = list(value[0])
    if len(columns) > MOST_COLUMNS or not all(isinstance(row, dict) and list(row) == columns for row in value):
        return None
    cells = [row.values() for row in value]
    if not all(cell is None or isinstance(cell, str | int | float) for row in cells for cell in row):
        return None
    if any(isinstance(text, str) and CONTROL.search(text) for row in (columns, *cells) for text in row):
        return None
    head = ",".join(map(_cell, columns))
    return "\n".join([head, *(",".join(map(_cell, row)) for row in cells)])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value)
    if value in WORDS or SPECIAL.search(value) or value != value.strip() or _is_number(value):
        return '"' + value.replace('"', '""') + '"'
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
