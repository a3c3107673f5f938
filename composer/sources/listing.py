"""What a source lists, and the copy of it that is kept on disk: a command starts only the servers whose tools it calls.

A copy is a server's own text, so it is bounded, and checked when it is read. It lies in the user's own folder, where no
project can put one (decision 30).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from go_ent.composer.catalogue.spec import Hints, Schema, ToolSpec, part_of
from go_ent.composer.errors import BadName, ConfigError
from go_ent.composer.project.files import TEMPORARY, read_bounded, write_whole
from go_ent.composer.sources.kept_names import listings_folder
from go_ent.composer.sources.openapi_requests import Route
from go_ent.dataclass import dataclass

FORMAT = 1
MAX_TOOLS = 2_000
MAX_KEPT = 16 << 20  # bytes of one copy; a longer listing is not kept
MAX_NOTES = 200
FRESH_S = 7 * 86_400.0  # an older copy is used only if the server can't be asked
AGAIN_S = 3_600.0  # how old a copy gets before an equal listing is worth a write

OLD_S = 3600.0  # of a file that nobody can be writing any more
log = logging.getLogger("go_ent.composer")


@dataclass(frozen=True, slots=True)
class Entry:
    spec: ToolSpec
    upstream: str  # the server's own name for it
    part: str
    wrapped: bool = False  # its results come as {"result": …}
    route: Route | None = None  # of an HTTP API's operation: how it is requested

    @property
    def interface(self) -> str:
        """A digest of all that a caller depends on. What it says of itself in words is not part of that."""
        spec = self.spec
        route = None if self.route is None else self.route.model_dump(mode="json")
        return _digest([spec.input_schema, spec.output_schema, _hints(spec.hints), self.wrapped, route])


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a source by full name, what of its tools is not offered, and why each can't be called."""

    entries: dict[str, Entry]
    specs: list[ToolSpec]
    notes: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, entries: dict[str, Entry], notes: tuple[str, ...] = (), refused: Mapping[str, str] | None = None
    ) -> Listing:
        return cls(entries, [entry.spec for entry in entries.values()], notes[:MAX_NOTES], refused or {})


@dataclass(frozen=True, slots=True)
class Copy:
    """A listing as it was kept: of which server, and when."""

    listing: Listing
    identity: str  # of what was asked: another command or document is another server
    listed: float
    server: str = ""  # what the server calls itself, with its version
    address: str = ""  # of an API whose document names its server
    changed: Mapping[str, float] = field(default_factory=dict)  # tools whose interface became another, and when

    @property
    def age_s(self) -> float:
        return max(0.0, time.time() - self.listed)


def changes(before: Listing, now: Listing) -> dict[str, str]:
    """The tools that are not what they were: by name, what has become of each."""
    found = {name: "is gone" for name in before.entries if name not in now.entries}
    for name, entry in now.entries.items():
        old = before.entries.get(name)
        if old is None:
            found[name] = "is new"
        elif old is not entry and old.interface != entry.interface:
            parts = {
                "what it takes": old.spec.input_schema != entry.spec.input_schema or old.route != entry.route,
                "what it returns": old.spec.output_schema != entry.spec.output_schema or old.wrapped != entry.wrapped,
                "what it says of its effects": old.spec.hints != entry.spec.hints,
            }
            found[name] = f"has changed: {', '.join(part for part, is_other in parts.items() if is_other)}"
    return found


Text = Annotated[str, Field(max_length=8 << 10)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class _Tool(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    upstream: Annotated[str, Field(min_length=1, max_length=1000)]
    description: Text
    input: Digest
    output: Digest | None = None
    hints: Annotated[list[bool | None], Field(min_length=4, max_length=4)]
    wrapped: bool = False
    route: Route | None = None


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    version: Literal[1]
    identity: Digest
    listed: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
    server: Annotated[str, Field(max_length=200)] = ""
    address: Text = ""
    tools: Annotated[list[_Tool], Field(max_length=MAX_TOOLS)]
    schemas: dict[Digest, dict[str, Any]]
    notes: Annotated[list[Text], Field(max_length=MAX_NOTES)] = []
    refused: Annotated[dict[Text, Text], Field(max_length=MAX_TOOLS)] = {}
    changed: Annotated[dict[Text, float], Field(max_length=4 * MAX_TOOLS)] = {}


class ListingStore:
    """The copies that are kept for one project, a file for each of its sources."""

    def __init__(self, project: Path) -> None:
        self.folder = listings_folder(project)

    def load(self, namespace: str, origin: str) -> Copy | None:
        """The copy of a source's listing; None if there is none, or what is there is none of ours."""
        try:
            data = self._read(f"{namespace}.json")
            return None if data is None else read_copy(data, namespace, origin)
        except (ValidationError, BadName, KeyError, ValueError, RecursionError) as error:
            log.info("the kept tools of %s can't be used: %s", namespace, type(error).__name__)
            return None

    def save(self, namespace: str, copy: Copy) -> None:
        """Keep a copy. One that can't be kept is no reason to fail: the server is asked again then."""
        data = write_copy(copy)
        if len(data) <= MAX_KEPT:
            self._write(f"{namespace}.json", data)
        else:
            self.forget(namespace)

    def forget(self, namespace: str) -> None:
        with contextlib.suppress(OSError):
            (self.folder / f"{namespace}.json").unlink()

    def reviewed(self) -> dict[str, float]:
        """When composed tools were last found to work with what they require, by name."""
        try:
            data = self._read(".reviewed.json")
            return {} if data is None else TypeAdapter(dict[str, float]).validate_json(data)
        except ValueError:
            return {}

    def review(self, name: str) -> None:
        """A composed tool was found to work with what it requires now."""
        before = self.reviewed()
        before[name] = time.time()
        newest = sorted(before.items(), key=lambda item: -item[1])[: 4 * MAX_TOOLS]
        self._write(".reviewed.json", to_json(dict(newest)))

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        try:
            data = read_bounded(path, MAX_KEPT)
            mine = path.stat().st_uid == os.getuid()
        except OSError:
            return None
        return data if mine and len(data) <= MAX_KEPT else None

    def _write(self, name: str, data: bytes) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self.folder / name, data, mode=0o600)
            self._sweep()
        except OSError as error:
            log.info("%s can't be kept: %s", name, error.strerror or error)

    def _sweep(self) -> None:
        """Remove what writers that were killed left behind; others may be writing now, so only what is old."""
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if (
                    entry.name.startswith(TEMPORARY)
                    and entry.stat(follow_symlinks=False).st_mtime < time.time() - OLD_S
                ):
                    os.unlink(entry.path)


class Keeper:
    """The copy of one source: read when it is first asked for, written when the source has listed something else."""

    def __init__(self, store: ListingStore, namespace: str, origin: str, identity: Callable[[], str]) -> None:
        """*identity* tells what is asked from what may have been asked before. It may read a file."""
        self._store, self._namespace, self._origin = store, namespace, origin
        self._identity = cache(identity)
        self._copy: Copy | None = None
        self.is_read = False

    def last(self) -> Copy | None:
        """The last copy, even if what it was made of is not what the configuration names now. Blocks."""
        if not self.is_read:
            self._copy = self._store.load(self._namespace, self._origin)
            self.is_read = True
        return self._copy

    def current(self) -> Copy | None:
        """The copy that stands for the source. Blocks."""
        last = self.last()
        try:
            return last if last is not None and last.identity == self._identity() else None
        except ConfigError:  # a document that can't be read: connecting tells why
            return None

    def keep(self, listing: Listing, server: str = "", address: str = "") -> dict[str, str]:
        """Keep what was listed just now; what has changed since the last copy. Blocks while it writes."""
        last, now, identity = self.last(), time.time(), self._identity()
        found = {} if last is None else changes(last.listing, listing)
        told = identity, server, address
        is_same = last is not None and last.listing == listing and (last.identity, last.server, last.address) == told
        if last is not None and is_same and last.age_s < AGAIN_S:
            return {}
        changed = dict(last.changed) if last is not None else {}
        changed |= {name: now for name, what in found.items() if what != "is new"}
        changed = {name: at for name, at in changed.items() if name.startswith(f"{self._namespace}.")}
        self._copy = Copy(listing, identity, now, server, address, changed)
        self._store.save(self._namespace, self._copy)
        return found


def identity_of(*parts: Any) -> str:
    """A digest that tells one server, or one document, from another."""
    return _digest([FORMAT, *parts])


def write_copy(copy: Copy) -> bytes:
    """A copy as the bytes of its file: each schema once, by its digest."""
    schemas: dict[str, Schema] = {}

    def kept(schema: Schema | None) -> str | None:
        if schema is None:
            return None
        digest = _digest(schema)
        schemas[digest] = schema
        return digest

    tools = [
        {
            "upstream": entry.upstream,
            "description": entry.spec.description,
            "input": kept(entry.spec.input_schema),
            "output": kept(entry.spec.output_schema),
            "hints": _hints(entry.spec.hints),
            "wrapped": entry.wrapped,
            "route": entry.route,
        }
        for entry in copy.listing.entries.values()
    ]
    return to_json(
        {
            "version": FORMAT,
            "identity": copy.identity,
            "listed": copy.listed,
            "server": copy.server,
            "address": copy.address,
            "tools": tools,
            "schemas": schemas,
            "notes": list(copy.listing.notes),
            "refused": dict(copy.listing.refused),
            "changed": dict(copy.changed),
        }
    )


def read_copy(data: bytes, namespace: str, origin: str) -> Copy:
    """A copy from the bytes of its file. `ValueError` or `KeyError` for what is none."""
    kept = _Kept.model_validate_json(data)
    entries: dict[str, Entry] = {}
    for tool in kept.tools:
        part = part_of(tool.upstream)
        output = None if tool.output is None else kept.schemas[tool.output]
        spec = ToolSpec(
            f"{namespace}.{part}", tool.description, kept.schemas[tool.input], output, Hints(*tool.hints), origin
        )
        entries[spec.name] = Entry(spec, tool.upstream, part, tool.wrapped, tool.route)
    listing = Listing.of(entries, tuple(kept.notes), kept.refused)
    return Copy(listing, kept.identity, kept.listed, kept.server, kept.address, kept.changed)


def _hints(hints: Hints) -> list[bool | None]:
    return [hints.read_only, hints.destructive, hints.idempotent, hints.open_world]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]
