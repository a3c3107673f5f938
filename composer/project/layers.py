"""A project's settings: what its `.go-ent/config.toml` says, then what the environment says; and where each comes from.

`GO_ENT__BUDGET__DAY__USD=5` is `budget.day.usd`. A part stands for the key that is there but for case, `-`, `.` and
`_`, and for itself in small letters where there is none; below `env`, `set` and `headers` it stands for itself. A value
is TOML or JSON where it is one of them, and else a text; it replaces what the file says of that setting.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from go_ent.composer.project.toml_lines import MAX_PARTS, TOO_LONG, lines_of
from go_ent.dataclass import dataclass

CONFIG = Path(".go-ent") / "config.toml"
PREFIX = "GO_ENT__"
MAX_BYTES = 1 << 20
MAX_DEPTH = 8
AS_WRITTEN = frozenset({"env", "set", "headers"})
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_AT = re.compile(r" \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)$")

Names = Mapping[str, Iterable[str]]  # by section: what may be named in it, beside what the file names


class UnreadableSettings(Exception):
    """Internal: raised when a file or a variable can't be read at all. It becomes ConfigError or PackageError."""


@dataclass(frozen=True)
class Layers:
    """What is in force (`table`), what the file alone says (`of_file`), and the variable that set each setting of
    the environment's.
    """

    file: Path
    table: dict[str, Any]
    of_file: dict[str, Any]
    text: str = ""
    variables: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    @cached_property
    def _lines(self) -> dict[tuple[str | int, ...], int]:
        return lines_of(self.text)

    @cached_property
    def _shown(self) -> str:
        return shown(self.file)

    def variable(self, path: Sequence[str | int]) -> str | None:
        """The variable that a setting comes from, if it is one."""
        found = (self.variables.get(tuple(map(str, path[:end]))) for end in range(len(path), 0, -1))
        return next((name for name in found if name is not None), None)

    def where(self, path: Sequence[str | int]) -> str:
        """Where a setting is, or would be: its variable, or file and line, or the file alone."""
        if name := self.variable(path):
            return name
        for end in range(len(path), 0, -1):
            key = tuple(path[:end])
            if key in self._lines:
                return f"{self._shown}:{self._lines[key]}"
            if name := next((name for other, name in self.variables.items() if other[:end] == key), None):
                return name
        return self._shown

    def has(self, path: Sequence[str | int]) -> bool:
        """Whether the file or the environment says anything of a setting."""
        here: Any = self.table
        for part in path:
            if not (
                part in here
                if isinstance(here, dict)
                else isinstance(here, list) and isinstance(part, int) and part < len(here)
            ):
                return False
            here = here[part]
        return True


def read_layers(file: Path, environ: Mapping[str, str] | None = None, names: Names | None = None) -> Layers:
    """All settings, from *file* (none, if it is not there) and the environment."""
    text = _text(file)
    if TOO_LONG.search(text):
        raise UnreadableSettings(f"{shown(file)}: it has a key of {MAX_PARTS} parts or more")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableSettings(_not_toml(file, text, str(error))) from None
    except RecursionError:
        raise UnreadableSettings(f"{shown(file)}: it is not valid TOML: it is nested too deeply") from None
    except ValueError:  # which Python has for a number of thousands of digits
        raise UnreadableSettings(
            f"{shown(file)}: it is not valid TOML: a number or a date in it is out of bounds"
        ) from None
    merged, variables = _overlaid(table, os.environ if environ is None else environ, names or {})
    return Layers(file, merged, table, text, variables)


def shown(file: Path) -> str:
    """A file's name for people: as short as it can be from where they are."""
    try:
        return str(file.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(file)


def dotted(path: Iterable[str | int]) -> str:
    """A setting's name as TOML would have it, of bounded length, without anything that a terminal would obey."""
    return ".".join(_part(str(part)) for part in path)


def literal(text: str) -> Any:
    """What a variable's text stands for."""
    try:
        found = tomllib.loads(f"value = {text}") if not TOO_LONG.search(text) else {}
        if found.keys() == {"value"}:
            return found["value"]
    except (ValueError, RecursionError):  # no TOML, or a number of thousands of digits
        pass
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of an environment, for a go-ent that somebody else gets to use: not those that may hold a secret."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(PREFIX) and not _may_be_secret(name, literal(value))
    }


def _may_be_secret(name: str, value: Any) -> bool:
    if isinstance(value, dict):
        return any(_may_be_secret(f"{name}__{key}", one) for key, one in value.items())
    return isinstance(value, str) and bool(AS_WRITTEN & set(name.removeprefix(PREFIX).lower().split("__")))


def _text(file: Path) -> str:
    try:
        # Not of a pipe, nor of a device, whose end may never come.
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as opened:
            if not os.path.isfile(f"/proc/self/fd/{opened.fileno()}"):
                raise UnreadableSettings(f"{shown(file)}: it can't be read: it is not an ordinary file")
            data = opened.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise UnreadableSettings(f"{shown(file)}: it can't be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise UnreadableSettings(f"{shown(file)}: it is larger than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableSettings(f"{shown(file)}:{line}: it is not valid TOML: it is not UTF-8") from None


def _not_toml(file: Path, text: str, said: str) -> str:
    at = _AT.search(said)
    line = (at and at[1]) or str(len(text.rstrip().split("\n")))
    column = f" (column {at[2]})" if at and at[2] else ""
    return f"{shown(file)}:{line}: it is not valid TOML: {_AT.sub('', said)[:300]}{column}"


def _overlaid(
    table: dict[str, Any], environ: Mapping[str, str], names: Names
) -> tuple[dict[str, Any], dict[tuple[str, ...], str]]:
    """*table* with the environment's settings, and which variable each of these is from. *table* itself stays as it
    is.
    """
    ours = sorted(name for name in environ if name.startswith(PREFIX))
    variables: dict[tuple[str, ...], str] = {}
    for name in sorted(ours, key=lambda name: name.count("__")):  # a table first, then what is set in it
        parts = name.removeprefix(PREFIX).split("__")
        if not all(map(_NAME.fullmatch, parts)) or len(parts) > MAX_DEPTH:
            raise UnreadableSettings(
                f"{name[:200]!r}: it names no setting: write GO_ENT__SECTION__SETTING, as in GO_ENT__BUDGET__DAY__USD=5"
            )
        path = _path(table, parts, names)
        if path in variables:
            raise UnreadableSettings(f"{name}: {variables[path]} sets {dotted(path)} too; keep one of them")
        changed = _with(table, path, literal(environ[name]))
        if changed is not None:
            table, variables[path] = changed, name
    return table, variables


def _path(table: dict[str, Any], parts: list[str], names: Names) -> tuple[str, ...]:
    path: list[str] = []
    here: Any = table
    for part in parts:
        there = list(here) if isinstance(here, dict) else []
        if len(path) == 1:
            there += names.get(path[0], ())
        key = part if path and path[-1] in AS_WRITTEN else _key(part, there)
        path.append(key)
        here = here.get(key) if isinstance(here, dict) else None
    return tuple(path)


def _key(part: str, there: list[str]) -> str:
    if part in there:
        return part
    alike = [name for name in there if _alike(name) == _alike(part)]
    return alike[0] if alike else part.lower()


def _alike(name: str) -> str:
    return re.sub(r"[-._ ]", "_", name).lower()


def _with(table: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any] | None:
    """A copy with that setting; None where the file has something else than a table on the way, which is wrong
    anyway.
    """
    made = dict(table)
    first, *rest = path
    if not rest:
        made[first] = value
        return made
    below = made.get(first, {})
    inner = _with(below, tuple(rest), value) if isinstance(below, dict) else None
    return None if inner is None else made | {first: inner}


def _part(text: str) -> str:
    text = text if len(text) <= 80 else text[:79] + "…"
    if re.fullmatch(r"[A-Za-z0-9_-]+…?", text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else "".join(f"\\u{ord(one):04x}" for one in char) for char in quoted)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
