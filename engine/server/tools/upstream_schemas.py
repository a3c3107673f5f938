"""The schema of a server's tool in the words that every client knows. What is left out only widens it: the catalogue
holds arguments and results to the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from go_ent.composer.catalogue.stub_names import clean

MAX_NODES = 500
MAX_DEPTH = 20
MAX_TEXT = 200
KEPT = frozenset(
    {"type", "enum", "const", "default", "required", "minItems", "maxItems", "uniqueItems", "minimum", "maximum"}
    | {"minLength", "maxLength"}
)


class _TooLarge(Exception):
    """Internal: raised when a schema, with all that it refers to, has too many parts to be shown."""


def plainer(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """A schema without references, and without the words that some clients refuse; None if it is too large."""
    try:
        return _Reading(schema).node(schema, 0)
    except _TooLarge:
        return None


class _Reading:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root, self._nodes = root, 0

    def node(self, node: Any, depth: int) -> dict[str, Any]:
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise _TooLarge
        if not isinstance(node, Mapping):
            return {}
        if "$ref" in node:
            return self.node(self._referred(node["$ref"]), depth + 1)
        made = {word: node[word] for word in KEPT if word in node}
        if isinstance(text := node.get("description"), str) and text:
            made["description"] = clean(text, MAX_TEXT)
        if isinstance(properties := node.get("properties"), Mapping):
            made["properties"] = {str(name): self.node(part, depth + 1) for name, part in properties.items()}
        for word in ("items", "additionalProperties"):
            if isinstance(inner := node.get(word), Mapping):
                made[word] = self.node(inner, depth + 1)
        if node.get("additionalProperties") is False:
            made["additionalProperties"] = False
        branches = node.get("anyOf") or node.get("oneOf")
        if isinstance(branches, list) and branches:
            made["anyOf"] = [self.node(branch, depth + 1) for branch in branches]
        return self._one_type(self._merged(made, node, depth))

    def _merged(self, made: dict[str, Any], node: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """With what `allOf` adds, where that is one schema; several are left out."""
        every = node.get("allOf")
        return {**self.node(every[0], depth + 1), **made} if isinstance(every, list) and len(every) == 1 else made

    @staticmethod
    def _one_type(made: dict[str, Any]) -> dict[str, Any]:
        """A list of types as branches, which more clients know."""
        kinds = made.get("type")
        if not isinstance(kinds, list):
            return made
        rest = {word: value for word, value in made.items() if word not in ("type", "description", "default")}
        said: dict[str, Any] = {word: made[word] for word in ("description", "default") if word in made}
        branches = [{"type": kind} if kind == "null" else {**rest, "type": kind} for kind in kinds]
        return {**said, **(branches[0] if len(branches) == 1 else {"anyOf": branches})}

    def _referred(self, name: Any) -> Any:
        here: Any = self._root
        if not isinstance(name, str) or not name.startswith("#"):
            return {}  # nothing is fetched
        for part in name[1:].strip("/").split("/") if len(name) > 1 else ():
            here = here.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(here, Mapping) else None
        return here if isinstance(here, Mapping) else {}
