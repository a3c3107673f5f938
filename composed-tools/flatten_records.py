# /// tool
# name = "flatten_records"
# ///
# /// examples
# {
#  "inputs": {"records": [{"id": 1, "user": {"login": "ann", "team": {"name": "red"}}, "labels": ["bug", "ui"]}]},
#  "result": [{"id": 1, "user.login": "ann", "user.team.name": "red", "labels.0": "bug", "labels.1": "ui"}]
# }
# {
#  "inputs": {
#   "records": [{"user": {"login": "ann"}, "labels": ["bug", 2], "parts": [{"n": 1}]}],
#   "separator": "_",
#   "lists": "join"
#  },
#  "result": [{"user_login": "ann", "labels": "bug, 2", "parts": "{\"n\": 1}"}]
# }
# {
#  "inputs": {"records": [{"a": {}, "b": [], "c": null}, {}]},
#  "result": [{"a": null, "b": null, "c": null}, {}]
# }
# {
#  "inputs": {"records": [{"a": {"b": 1}, "a.b": 2}]},
#  "error": "two values of a record would both be called a.b"
# }
# ///
import json
from collections.abc import Iterator
from typing import Any, Literal

Record = dict[str, Any]
Lists = Literal["index", "join", "keep"]


def flatten_records(records: list[Record], separator: str = ".", lists: Lists = "index") -> list[Record]:
    """Flatten nested records into records of plain values, as a table needs them.

    A field inside nested objects is named by all the names that lead to it. An empty list or object becomes null.

    Args:
        records: The records to flatten.
        separator: What stands between the names that lead to a value.
        lists: Give each item of a list a field of its own, join the items into one text, or keep lists as they are.
    """
    return [flattened(record, separator, lists) for record in records]


def flattened(record: Record, separator: str, lists: Lists) -> Record:
    flat: Record = {}
    for path, value in leaves(record, (), lists):
        name = separator.join(path)
        if name in flat:
            raise ValueError(f"two values of a record would both be called {name}: use another separator")
        flat[name] = value
    return flat


def leaves(value: Any, path: tuple[str, ...], lists: Lists) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every plain value below, with the names that lead to it."""
    if isinstance(value, dict) and (value or not path):
        for name, part in value.items():
            yield from leaves(part, (*path, name), lists)
    elif isinstance(value, list) and value and lists == "index":
        for index, part in enumerate(value):
            yield from leaves(part, (*path, str(index)), lists)
    elif isinstance(value, list) and value and lists == "join":
        yield path, ", ".join(map(as_text, value))
    else:
        yield path, None if value in ({}, []) else value


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
