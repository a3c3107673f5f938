"""Checking values against JSON Schemas that may come from anywhere.

The schemas of upstream servers are not ours, and even an ordinary type can describe a check that takes for ever:
nothing they refer to is fetched, patterns are matched in linear time, and a check that may take long is made in a
process of its own, shut in like a guest's, which is ended if it does.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import subprocess
from pathlib import Path
from typing import Any

import go_ent
from go_ent.composer.catalogue.spec import Schema
from go_ent.sandbox.children.python import run_python
from go_ent.sandbox.media.marks import as_text
from go_ent.sandbox.messages.validation import no_such

log = logging.getLogger("go_ent.composer")
MAX_PROBLEMS = 5
MAX_TEXT = 200
MAX_NODES = 5_000  # of a schema, with what it refers to written out
MANY = 1000  # values: of more, only the first that is wrong is told
MAX_WORK = 5_000_000  # nodes of a schema times those of a value
ASIDE_S = 3.0
COMBINE = ("anyOf", "oneOf", "allOf")
PACKAGES = str(Path(go_ent.__file__).parents[1])
ASIDE = """
import json, os, sys
import jsonschema_rs as rs
sys.path.append(sys.argv[1])
from go_ent.sandbox.hardening.seccomp import Doors
from go_ent.sandbox.hardening.walls import shut_in
shut_in(Doors(read=0, write=1))
order = b""
while part := os.read(0, 1 << 20):
    order += part
schema, value, most = json.loads(order)
found = []
validator = rs.validator_for(schema, offline=True)
if not validator.is_valid(value):
    for error in validator.iter_errors(value):
        found.append([list(error.instance_path), error.message])
        if len(found) == most:
            break
text = json.dumps(found).encode()
while text:
    text = text[os.write(1, text):]
os._exit(0)
"""


class BadSchema(ValueError):
    """Internal: raised when a schema is not one. Who has asked for the check says whose it is."""


class Checker:
    """Checks values against one schema. Made once, used often."""

    def __init__(self, schema: Schema) -> None:
        import jsonschema_rs as rs

        self._schema = dict(schema)
        self._nodes = Measure(self._schema).nodes
        self._validator: Any = None
        try:
            self._validator = rs.validator_for(
                self._schema, offline=True, pattern_options=rs.RegexOptions(size_limit=1 << 20)
            )
        except (rs.ValidationError, rs.ReferencingError, ValueError, RecursionError) as error:
            reason = str(getattr(error, "message", None) or error)
            if "regex" not in reason:  # one that only a matcher which may take for ever knows: checked aside
                raise BadSchema(f"not a JSON Schema: {reason.splitlines()[0][:MAX_TEXT]}") from None

    def problems(self, value: Any) -> list[str]:
        """What is wrong with *value*, one phrase each, with the place; none if it fits. May take `ASIDE_S`.

        Bytes are text to a schema: base64.
        """
        problems = self._problems(value)
        return self._problems(text) if problems and (text := as_text(value)) is not value else problems

    async def check(self, value: Any) -> list[str]:
        """`problems`, for a loop that must not wait."""
        problems = await self._check(value)
        return await self._check(text) if problems and (text := as_text(value)) is not value else problems

    def _problems(self, value: Any) -> list[str]:
        return self._aside(value) if self._may_take_long(value) else self._here(value)

    async def _check(self, value: Any) -> list[str]:
        return await asyncio.to_thread(self._aside, value) if self._may_take_long(value) else self._here(value)

    def _may_take_long(self, value: Any) -> bool:
        if self._validator is None or self._nodes is None:
            return True
        return self._nodes > 100 and size(value, MAX_WORK // self._nodes) is None

    def _here(self, value: Any) -> list[str]:
        import jsonschema_rs as rs

        try:
            if self._validator.is_valid(value):
                return []
            if size(value, MANY) is None:  # all errors of a large value are made before the first is told
                self._validator.validate(value)
            errors = itertools.islice(self._validator.iter_errors(value), MAX_PROBLEMS)
            return [_phrase(error.instance_path, error.message) for error in errors]
        except rs.ValidationError as error:
            return [_phrase(error.instance_path, error.message)]
        except (ValueError, RecursionError, OverflowError, TypeError) as error:
            return [
                f"it can't be checked: {str(error).splitlines()[0][:MAX_TEXT] if str(error) else type(error).__name__}"
            ]

    def _aside(self, value: Any) -> list[str]:
        """In a process of its own. What can't be found out in time does not fit."""
        try:
            order = json.dumps([self._schema, value, MAX_PROBLEMS])
            done = run_python(["-c", ASIDE, PACKAGES], env={}, timeout_s=ASIDE_S, text=order)
            done.check_returncode()
            return [_phrase(path, message) for path, message in json.loads(done.stdout)]
        except subprocess.TimeoutExpired:
            return [f"whether it fits its schema could not be found out within {ASIDE_S:g} s"]
        except (subprocess.SubprocessError, OSError, ValueError, RecursionError) as error:
            log.warning("a schema could not be checked: %s", type(error).__name__)
            return ["whether it fits its schema could not be found out"]


def _phrase(path: Any, message: str) -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    text = message if len(message) <= MAX_TEXT else f"{message[: MAX_TEXT // 2]} … {message[-MAX_TEXT // 2 :]}"
    return f"{where[:MAX_TEXT]}: {text}" if where else text


_MISSING = re.compile(r'(.*: )?"(\w+)" is a required property', re.DOTALL)
_UNEXPECTED = re.compile(r"Additional properties are not allowed \((.*) (?:was|were) unexpected\)", re.DOTALL)


def of_arguments(problems: list[str], schema: Schema) -> list[str]:
    """What is wrong with arguments, in a caller's words instead of JSON Schema's. *schema* is that of the
    parameters.
    """
    properties = schema.get("properties")
    names = [name for name in properties if isinstance(name, str)] if isinstance(properties, dict) else []
    said: list[str] = []
    for problem in problems:
        if missing := _MISSING.fullmatch(problem):
            said.append(f"{missing[1] or ''}{missing[2]} is required")
        elif unexpected := _UNEXPECTED.fullmatch(problem):
            said += [
                no_such("parameter", name, names) for name in re.findall(r"'([^']*)'", unexpected[1])[:MAX_PROBLEMS]
            ] or [problem]
        else:
            said.append(problem)
    return said


def size(value: Any, most: int) -> int | None:
    """How many nodes a value has, counting no further than *most*: None if it has more."""
    count, waiting = 0, [value]
    while waiting:
        found = waiting.pop()
        count += 1
        if isinstance(found, dict):
            waiting.extend(found.values())
        elif isinstance(found, list | tuple):
            waiting.extend(found)
        elif isinstance(found, str):
            count += len(found) // 1000
        if count + len(waiting) > most:
            return None
    return count


class Measure:
    """How large a schema is with what it refers to written out; `nodes` is None if that has no end in sight.

    A schema that refers to itself is as long as the value it checks, unless two members of a union do: then each level
    of a value may be looked at twice as often as the one above.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._definitions: dict[str, Any] = {}
        for key in ("$defs", "definitions"):
            found = schema.get(key)
            if isinstance(found, dict):
                self._definitions |= {f"#/{key}/{name}": part for name, part in found.items()}
        self._sizes: dict[str, int] = {}
        self._recursive: set[str] = set()
        self._open: list[str] = []
        try:
            total = self._count(schema)
            self.nodes: int | None = None if total > MAX_NODES or self._doubles(schema) else total
        except RecursionError:
            self.nodes = None

    def _count(self, node: Any) -> int:
        total = 1
        if isinstance(node, dict):
            ref = node.get("$ref")
            if isinstance(ref, str):
                total += self._referred(ref)
            if "$dynamicRef" in node or "$recursiveRef" in node:
                return MAX_NODES + 1
            for key, part in node.items():
                if key not in ("$defs", "definitions"):
                    total += self._count(part)
                    if total > MAX_NODES:
                        break
        elif isinstance(node, list):
            for part in node:
                total += self._count(part)
                if total > MAX_NODES:
                    break
        return total

    def _referred(self, ref: str) -> int:
        if ref == "#" or ref in self._open:
            self._recursive.add(ref)
            return 0
        if ref not in self._sizes:
            if ref not in self._definitions:
                return MAX_NODES + 1 if ref.startswith("#") else 0  # somewhere inside: who knows
            self._open.append(ref)
            self._sizes[ref] = self._count(self._definitions[ref])
            self._open.pop()
        return self._sizes[ref]

    def _doubles(self, schema: dict[str, Any]) -> bool:
        if not self._recursive:
            return False
        reach = {ref: self._refs(part) for ref, part in self._definitions.items()}
        recursive = {ref for ref in reach if self._reaches(ref, reach)} | (self._recursive & {"#"})
        for node in _walk([schema, *self._definitions.values()]):
            for key in COMBINE:
                members = node.get(key)
                if isinstance(members, list) and sum(bool(self._refs(member) & recursive) for member in members) > 1:
                    return True
        return False

    @staticmethod
    def _refs(node: Any) -> set[str]:
        return {found["$ref"] for found in _walk([node]) if isinstance(found.get("$ref"), str)}

    @staticmethod
    def _reaches(start: str, reach: dict[str, set[str]]) -> bool:
        """Whether a definition comes back to itself, or leads to one that does."""
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for ref in reach.get(waiting.pop(), ()):
                if ref == start:
                    return True
                if ref not in seen:
                    seen.add(ref)
                    waiting.append(ref)
        return any(ref in reach.get(ref, ()) for ref in seen)


def _walk(nodes: list[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    waiting = list(nodes)
    while waiting and len(found) <= 50_000:
        node = waiting.pop()
        if isinstance(node, dict):
            found.append(node)
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found
