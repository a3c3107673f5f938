"""Output schemas that were learned, kept with the project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from go_ent.composer.catalogue.schemas import BadSchema, Checker
from go_ent.composer.project.files import locked, read_bounded, write_whole
from go_ent.composer.project.items import apart

MAX_BYTES = 4 << 20


class LearnedSchemas:
    """A file of schemas by tool. One that can't be read is as good as none: it can be learned again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, Any]:
        try:
            found = json.loads(read_bounded(self._path, MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        known: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        for name, schema in found.items() if isinstance(found, dict) else ():
            with apart(f"{self._path}: the schema of {name[:80]}", wrong):
                if not isinstance(schema, dict):
                    raise BadSchema("it is no object")
                Checker(schema)  # what is no schema is as good as none
                known[name] = schema
        return known

    def save(self, name: str, schema: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path.with_name(f".{self._path.name}.lock")):
            write_whole(self._path, json.dumps({**self.load(), name: schema}, indent=1).encode())
