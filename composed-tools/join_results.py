# /// tool
# name = "join_results"
# requires = ["*"]
# limits = { max_tool_calls = 2 }
# ///
# /// examples
# {
#  "inputs": {
#   "left": [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}],
#   "right": [{"id": 1, "name": "A. Smith", "age": 30}],
#   "key": "id",
#   "how": "left"
#  },
#  "result": {
#   "records": [{"id": 1, "name": "Ann", "name_right": "A. Smith", "age": 30}, {"id": 2, "name": "Bob"}],
#   "matched": 1,
#   "only_left": 1,
#   "only_right": 0
#  }
# }
# {
#  "inputs": {
#   "left": {"tool": "list_users"},
#   "right": {"tool": "list_orders", "arguments": {"year": 2024}, "items": "data.orders"},
#   "key": "id",
#   "right_key": "user",
#   "how": "outer"
#  },
#  "result": {"records": [{"id": 1, "total": 5}, {"id": 9, "total": 7}], "matched": 1, "only_left": 0, "only_right": 1},
#  "calls": [
#   {"tool": "list_users", "arguments": {}, "result": [{"id": 1}]},
#   {
#    "tool": "list_orders",
#    "arguments": {"year": 2024},
#    "result": {"data": {"orders": [{"user": 1, "total": 5}, {"user": 9, "total": 7}]}}
#   }
#  ]
# }
# {
#  "inputs": {"left": [], "right": [], "key": "id"},
#  "result": {"records": [], "matched": 0, "only_left": 0, "only_right": 0}
# }
# {
#  "inputs": {"left": {"tool": "list_users"}, "right": [], "key": "id"},
#  "error": "list_users: not signed in",
#  "calls": [{"tool": "list_users", "error": "not signed in"}]
# }
# ///
import asyncio
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

Record = dict[str, Any]


@dataclass
class ToolCall:
    """A tool to call for the records."""

    tool: Annotated[str, 'The tool\'s full name, such as "github.list_issues".']
    arguments: Annotated[Record, "What to call it with."] = field(default_factory=dict)
    items: Annotated[str, 'Where in the result the list is, such as "data.items"; empty if the result is the list.'] = (
        ""
    )


class Joined(TypedDict):
    """The joined records, and how many records of each side found a partner or none."""

    records: list[Record]
    matched: int
    only_left: int
    only_right: int


async def join_results(
    left: list[Record] | ToolCall,
    right: list[Record] | ToolCall,
    key: str,
    right_key: str | None = None,
    how: Literal["inner", "left", "outer"] = "inner",
    suffix: str = "_right",
) -> Joined:
    """Join two lists of records, or the results of two tools, by a key.

    A record is joined with every record of the other side that has the same value in the key; one without a value there
    has no partner. Of a field that both sides have, the right one gets a suffix.

    Args:
        left: Records, or the tool that returns them.
        right: Records, or the tool that returns them.
        key: The field whose values must be equal.
        right_key: What that field is called on the right, if not the same.
        how: "inner" keeps records with a partner, "left" all of the left side, "outer" all of both.
        suffix: What to add to the names of the right side's fields that the left side has too.
    """
    lefts, rights = await asyncio.gather(records_of(left), records_of(right))
    right_key = right_key or key
    names = right_names(lefts, rights, key, suffix) | {right_key: key}
    partners = by_key(rights, right_key)
    found: set[str] = set()
    joined: list[Record] = []
    only_left = 0
    for record in lefts:
        value = key_of(record, key)
        if value in partners:
            found.add(value)
            joined += [{**record, **renamed(partner, names)} for partner in partners[value]]
            continue
        only_left += 1
        if how != "inner":
            joined.append(record)
    alone = [record for record in rights if key_of(record, right_key) not in found]
    if how == "outer":
        joined += [renamed(record, names) for record in alone]
    return {"records": joined, "matched": len(lefts) - only_left, "only_left": only_left, "only_right": len(alone)}


async def records_of(side: list[Record] | ToolCall) -> list[Record]:
    if isinstance(side, list):
        return side
    found = await tools[side.tool](**side.arguments)
    for part in filter(None, side.items.split(".")):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise ValueError(f"{side.tool} did not return a list of records; where it is in the result is said with items")
    return found


def right_names(lefts: list[Record], rights: list[Record], key: str, suffix: str) -> dict[str, str]:
    """What each field of the right side is called in a joined record."""
    taken = {key, *(name for record in lefts for name in record)}
    return {name: f"{name}{suffix}" if name in taken else name for record in rights for name in record}


def renamed(record: Record, names: dict[str, str]) -> Record:
    return {names[name]: value for name, value in record.items()}


def by_key(records: list[Record], key: str) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        value = key_of(record, key)
        if value is not None:
            found.setdefault(value, []).append(record)
    return found


def key_of(record: Record, key: str) -> str | None:
    """The key's value as a text that is the same for equal values, or None without one."""
    value = record.get(key)
    return None if value is None else json.dumps(value, sort_keys=True)
