# /// tool
# name = "page_through"
# requires = ["*"]
# ///
# /// examples
# {
#  "inputs": {
#   "source": "list_items",
#   "style": "page",
#   "arguments": {"tag": "new"},
#   "size_parameter": "per_page",
#   "page_size": 2,
#   "key": "id"
#  },
#  "result": {"records": [{"id": 1}, {"id": 2}], "pages": 2, "duplicates": 1, "stopped": "end", "error": null},
#  "calls": [
#   {
#    "tool": "list_items",
#    "arguments": {"tag": "new", "page": 1, "per_page": 2},
#    "result": [{"id": 1}, {"id": 2}]
#   },
#   {"tool": "list_items", "arguments": {"tag": "new", "page": 2, "per_page": 2}, "result": [{"id": 2}]}
#  ]
# }
# {
#  "inputs": {"source": "list_items", "style": "cursor", "items": "items", "next_cursor": "meta.next"},
#  "result": {"records": ["a", "b"], "pages": 2, "duplicates": 0, "stopped": "end", "error": null},
#  "calls": [
#   {"tool": "list_items", "arguments": {}, "result": {"items": ["a"], "meta": {"next": "x1"}}},
#   {"tool": "list_items", "arguments": {"cursor": "x1"}, "result": {"items": ["b"], "meta": {"next": null}}}
#  ]
# }
# {
#  "inputs": {"source": "list_items", "style": "offset"},
#  "result": {"records": [], "pages": 1, "duplicates": 0, "stopped": "end", "error": null},
#  "calls": [{"tool": "list_items", "arguments": {"offset": 0}, "result": []}]
# }
# {
#  "inputs": {"source": "list_items", "style": "offset"},
#  "result": {"records": ["a", "b"], "pages": 1, "duplicates": 0, "stopped": "failed", "error": "too many requests"},
#  "calls": [
#   {"tool": "list_items", "arguments": {"offset": 0}, "result": ["a", "b"]},
#   {"tool": "list_items", "arguments": {"offset": 2}, "error": "too many requests"}
#  ]
# }
# {
#  "inputs": {"source": "list_items", "style": "page"},
#  "error": "list_items did not return a list",
#  "calls": [{"tool": "list_items", "result": {"items": []}}]
# }
# ///
import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

Style = Literal["page", "offset", "cursor"]


class Pages(TypedDict):
    """All records of all pages, and why there are no more: "end" says that they are complete."""

    records: list[Any]
    pages: int
    duplicates: int
    stopped: Literal["end", "max_pages", "repeated", "failed"]
    error: str | None


@dataclass
class Collected:
    """The records so far, each key once."""

    key: str | None
    records: list[Any] = field(default_factory=list)
    duplicates: int = 0
    keys: set[str] = field(default_factory=set)

    def add(self, page: list[Any]) -> bool:
        """Take a page's records; whether there was a new one."""
        before = len(self.records)
        for record in page:
            value = record.get(self.key) if self.key is not None and isinstance(record, dict) else None
            seen = None if value is None else json.dumps(value, sort_keys=True)
            if seen is None:
                self.records.append(record)
            elif seen in self.keys:
                self.duplicates += 1
            else:
                self.keys.add(seen)
                self.records.append(record)
        return len(self.records) > before


async def page_through(
    source: str,
    style: Style,
    arguments: dict[str, Any] | None = None,
    parameter: str | None = None,
    first: int | None = None,
    size_parameter: str | None = None,
    page_size: int = 100,
    items: str = "",
    next_cursor: str = "next_cursor",
    max_pages: int = 50,
    key: str | None = None,
) -> Pages:
    """Call a tool that lists things page by page until there are no more, and collect all the records.

    A page that is empty, or shorter than was asked for, is the last one; with cursors, the one that names no next cursor.
    If a later page fails, what was collected until then is returned with the error.

    Args:
        source: The tool's full name, such as "github.list_issues".
        style: How a page is asked for: by its number, by how many records come before it, or by a cursor.
        arguments: What else to call the tool with.
        parameter: The parameter that says which page; if not given it is called like the style.
        first: The number of the first page, 1 if not given; or the first offset, 0 if not given.
        size_parameter: The parameter that says how many records to a page, if the tool has one.
        page_size: How many records to ask for, if there is a parameter for it.
        items: Where in a result the list is, such as "data.items"; empty if the result is the list.
        next_cursor: Where in a result the next page's cursor is, such as "meta.next".
        max_pages: How many pages to get at most.
        key: The field that says which records are the same; later ones are left out. Without it all are kept.
    """
    if max_pages < 1 or page_size < 1:
        raise ValueError("max_pages must be 1 or more, and so must page_size")
    collected = Collected(key)
    asked = dict(arguments or {})
    if size_parameter is not None:
        asked[size_parameter] = page_size
    position: Any = starting_position(style, first)
    for number in range(1, max_pages + 1):
        if position is not None:
            asked[parameter or style] = position
        try:
            result = await tools[source](**asked)
        except ToolError as error:
            if number == 1:
                raise
            return pages(collected, number - 1, "failed", error.message)
        page = list_in(source, result, items)
        has_new = collected.add(page)
        following = next_position(style, position, page, value_at(result, next_cursor))
        is_short = size_parameter is not None and len(page) < page_size
        if following is None or (style != "cursor" and is_short):
            return pages(collected, number, "end")
        if following == position or (page and not has_new):
            return pages(collected, number, "repeated")
        position = following
    return pages(collected, max_pages, "max_pages")


def starting_position(style: Style, first: int | None) -> int | None:
    if style == "cursor":
        return None  # the first page is the one without a cursor
    if first is not None:
        return first
    return 1 if style == "page" else 0


def next_position(style: Style, position: Any, page: list[Any], cursor: Any) -> Any:
    """Where the next page is, or None after the last one."""
    if style == "cursor":
        return cursor or None
    if not page:
        return None
    return position + (1 if style == "page" else len(page))


def pages(
    collected: Collected,
    count: int,
    stopped: Literal["end", "max_pages", "repeated", "failed"],
    error: str | None = None,
) -> Pages:
    return {
        "records": collected.records,
        "pages": count,
        "duplicates": collected.duplicates,
        "stopped": stopped,
        "error": error,
    }


def list_in(source: str, result: Any, items: str) -> list[Any]:
    found = value_at(result, items)
    if not isinstance(found, list):
        raise TypeError(f"{source} did not return a list; where it is in the result is said with items")
    return found


def value_at(value: Any, path: str) -> Any:
    """The value at a path of names into nested objects; None if there is none."""
    for part in filter(None, path.split(".")):
        value = value.get(part) if isinstance(value, dict) else None
    return value
