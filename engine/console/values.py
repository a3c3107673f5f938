"""A value as people look at it: a table, a tree, text, or raw. How it is shown follows from what it is."""

from __future__ import annotations

import json
from dataclasses import field
from typing import Any, Literal

from go_ent.dataclass import dataclass

MOST_ROWS = 500
MOST_COLUMNS = 40
MOST_DEPTH = 12
MOST_CHILDREN = 200  # of one node
MOST_NODES = 2000  # of one tree
MOST_TEXT = 2000  # characters of a text in a tree or a table


@dataclass(slots=True)
class Shape:
    """A value, ready to be shown. *views* are the ways it can be, the best first."""

    value: Any
    views: tuple[Literal["table", "tree", "text", "markdown", "raw"], ...]
    columns: list[str] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)  # None: there is none
    more_rows: int = 0
    more_columns: int = 0
    tree: Node | None = None


@dataclass(slots=True)
class Node:
    """One value in a tree."""

    name: str
    kind: str  # object, list, text, number, true or false, null
    said: str = ""
    children: list[Node] = field(default_factory=list)
    more: int = 0  # children that are left out
    cut: int = 0  # characters that are left out


def shape_of(value: Any) -> Shape:
    """How a value is shown best."""
    if isinstance(value, str):
        return Shape(value, ("markdown", "text") if looks_like_markdown(value) else ("text",))
    if not isinstance(value, dict | list) or not value:
        return Shape(value, ("raw",))
    made = Shape(value, ("tree", "raw"), tree=tree_of(value))
    if isinstance(value, list) and all(isinstance(row, dict) and row for row in value):
        names = list(dict.fromkeys(str(name) for row in value[:MOST_ROWS] for name in row))
        made.columns, made.more_columns = names[:MOST_COLUMNS], max(0, len(names) - MOST_COLUMNS)
        for row in value[:MOST_ROWS]:
            known = {str(name): cell for name, cell in row.items()}
            made.rows.append([plain(known[name]) if name in known else None for name in made.columns])
        made.more_rows = max(0, len(value) - MOST_ROWS)
        made.views = ("table", "tree", "raw")
    return made


def looks_like_markdown(text: str) -> bool:
    """Whether somebody has written it as Markdown: that is a guess, and the other view is one click away."""
    lines = text[:20_000].splitlines()
    signs = ("# ", "## ", "### ", "- ", "* ", "1. ", "```", "> ", "| ")
    return len(lines) > 1 and sum(line.startswith(signs) for line in lines) >= 2


def plain(value: Any) -> str:
    """A value on its own: text as it is, anything else as JSON, and not too much of it."""
    text = value if isinstance(value, str) else _json(value)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


def tree_of(value: Any, name: str = "") -> Node:
    """A value as a tree of bounded size."""
    return _node(name, value, 0, [MOST_NODES])


def _node(name: str, value: Any, depth: int, room: list[int]) -> Node:
    room[0] -= 1
    if isinstance(value, dict | list):
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        kind = "object" if isinstance(value, dict) else "list"
        node = Node(name, kind, f"{len(items)}")
        if depth >= MOST_DEPTH:
            node.more = len(items)
            return node
        for key, child in items[:MOST_CHILDREN]:
            if room[0] <= 0:
                break
            node.children.append(_node(str(key), child, depth + 1, room))
        node.more = len(items) - len(node.children)
        return node
    if isinstance(value, str):
        return Node(name, "text", value[:MOST_TEXT], cut=max(0, len(value) - MOST_TEXT))
    if value is None:
        return Node(name, "null", "null")
    return Node(name, "bool" if isinstance(value, bool) else "number", _json(value))


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return repr(value)[:MOST_TEXT]
