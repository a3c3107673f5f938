# /// tool
# name = "summarise_table"
# ///
# /// examples
# {
#  "inputs": {"rows": [{"city": "Oslo", "visits": 3}, {"city": "Rome", "visits": 5}, {"city": "Oslo", "visits": null}]},
#  "result": {
#   "rows": 3,
#   "columns": [
#    {
#     "name": "city",
#     "type": "text",
#     "missing": 0,
#     "distinct": 2,
#     "minimum": "Oslo",
#     "maximum": "Rome",
#     "mean": null,
#     "top": [{"value": "Oslo", "count": 2}, {"value": "Rome", "count": 1}]
#    },
#    {
#     "name": "visits",
#     "type": "integer",
#     "missing": 1,
#     "distinct": 2,
#     "minimum": 3,
#     "maximum": 5,
#     "mean": 4.0,
#     "top": [{"value": 3, "count": 1}, {"value": 5, "count": 1}]
#    }
#   ]
#  }
# }
# {
#  "inputs": {"rows": [{"note": ""}, {"tags": ["a"]}, {"tags": true}], "top": 0},
#  "result": {
#   "rows": 3,
#   "columns": [
#    {
#     "name": "note",
#     "type": "empty",
#     "missing": 3,
#     "distinct": 0,
#     "minimum": null,
#     "maximum": null,
#     "mean": null,
#     "top": []
#    },
#    {
#     "name": "tags",
#     "type": "mixed",
#     "missing": 1,
#     "distinct": 2,
#     "minimum": null,
#     "maximum": null,
#     "mean": null,
#     "top": []
#    }
#   ]
#  }
# }
# {"inputs": {"rows": []}, "result": {"rows": 0, "columns": []}}
# {"inputs": {"rows": [], "top": -1}, "error": "top must be 0 or more"}
# ///
import json
from collections import Counter
from typing import Any, Literal, TypedDict

Kind = Literal["text", "integer", "number", "boolean", "list", "object", "mixed", "empty"]
KINDS: dict[type, Kind] = {str: "text", int: "integer", float: "number", bool: "boolean", list: "list", dict: "object"}
LONGEST = 80


class TopValue(TypedDict):
    """A value, and how often it occurs."""

    value: Any
    count: int


class Column(TypedDict):
    """One column. Minimum and maximum are of numbers and texts, the mean is of numbers."""

    name: str
    type: Kind
    missing: int
    distinct: int
    minimum: int | float | str | None
    maximum: int | float | str | None
    mean: float | None
    top: list[TopValue]


class Summary(TypedDict):
    """A table, column by column."""

    rows: int
    columns: list[Column]


def summarise_table(rows: list[dict[str, Any]], top: int = 5) -> Summary:
    """Summarise a table of records: each column's type, missing and distinct values, range, mean and top values.

    A value is missing when the field is absent, null or an empty text. Long values are shortened.

    Args:
        rows: The records of the table. They need not all have the same fields.
        top: How many of the most frequent values to list for each column.
    """
    if top < 0:
        raise ValueError("top must be 0 or more")
    names = dict.fromkeys(name for row in rows for name in row)
    return {"rows": len(rows), "columns": [summarise_column(name, rows, top) for name in names]}


def summarise_column(name: str, rows: list[dict[str, Any]], top: int) -> Column:
    values = [row[name] for row in rows if row.get(name) not in (None, "")]
    counts = Counter(map(as_json, values))
    kind = common_kind(values)
    is_number = kind in ("integer", "number")
    is_ordered = is_number or kind == "text"
    return {
        "name": name,
        "type": kind,
        "missing": len(rows) - len(values),
        "distinct": len(counts),
        "minimum": shortened(min(values)) if is_ordered else None,
        "maximum": shortened(max(values)) if is_ordered else None,
        "mean": sum(values) / len(values) if is_number else None,
        "top": [{"value": shortened(json.loads(text)), "count": count} for text, count in counts.most_common(top)],
    }


def common_kind(values: list[Any]) -> Kind:
    """The type that all the values have; whole numbers among others are numbers."""
    kinds = {KINDS[type(value)] for value in values}
    if not kinds:
        return "empty"
    if kinds == {"integer", "number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "mixed"


def as_json(value: Any) -> str:
    """A text that is the same for equal values, lists and objects included."""
    return json.dumps(value, sort_keys=True)


def shortened(value: Any) -> Any:
    """Numbers and short texts as they are, anything longer cut."""
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]}…"
    return value
