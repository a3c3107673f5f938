"""Changes to a project's `.go-ent/config.toml` that leave the rest as it is written: comments, order, layout.

Nothing is written unless the file then says what it said before and the change, and nothing else.
"""

from __future__ import annotations

import copy
import difflib
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from go_ent.composer.config import check_owner, read_settings
from go_ent.composer.errors import StoreError
from go_ent.composer.project.files import STATE, check_folder, locked, write_whole
from go_ent.composer.project.layers import CONFIG, MAX_BYTES, dotted, shown

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

PATIENCE_S = 10.0
Table = dict[str, Any]


def set_entry(project: Path, section: str, name: str, entry: Mapping[str, Any]) -> list[str]:
    """Write `[section.name]`, which is not there yet; the lines that were added."""

    def plain(table: Table) -> None:
        table.setdefault(section, {})[name] = dict(entry)

    def written(document: TOMLDocument) -> None:
        import tomlkit

        made = tomlkit.table()
        for key, value in entry.items():
            if isinstance(value, Mapping):
                inline = tomlkit.inline_table()
                inline.update(value)
                made.add(key, inline)
            else:
                made.add(key, value)
        if section in document:
            made.add(tomlkit.nl())
            table: Any = document[section]
            table[name] = made
        else:
            outer = tomlkit.table(is_super_table=True)
            outer.add(name, made)
            document.add(section, outer)

    return _edit(project, plain, written)


def remove_entry(project: Path, section: str, name: str) -> list[str]:
    """Remove `[section.name]`; the lines that are gone."""

    def plain(table: Table) -> None:
        del table[section][name]
        if not table[section]:
            del table[section]

    return _edit(project, plain, plain)


def set_list(project: Path, section: str, name: str, items: list[str]) -> list[str]:
    """Have the list `name` of `[section]` hold those texts: those that are there stay where they are. The lines that
    changed.
    """

    def plain(table: Table) -> None:
        table.setdefault(section, {})[name] = list(items)

    def written(document: TOMLDocument) -> None:
        import tomlkit

        if section not in document:
            document.add(section, tomlkit.table())
        table: Any = document[section]
        if name not in table:
            table[name] = []
        there = table[name]
        for at in reversed([at for at, item in enumerate(there) if item not in items]):
            del there[at]
        for item in items:
            if item not in there:
                there.append(item)

    return _edit(project, plain, written)


def set_value(project: Path, path: list[str], text: str) -> list[str]:
    """Set one setting, by the names of its tables and its own. A text that is no TOML value is a text. The lines that
    changed; `ConfigError` or `StoreError` if it can't be set, and nothing is written then.
    """
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    if len(path) < 2:
        raise StoreError(f"{'.'.join(path)} is a section: name a setting of it, like limits.timeout_s")

    def plain(table: Table) -> None:
        inner = table
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise StoreError(f"{name} is no table, so it has no {path[-1]}")
        inner[path[-1]] = value
        _check(project, table)

    def written(document: TOMLDocument) -> None:
        import tomlkit

        inner: Any = document
        for name in path[:-1]:
            if name not in inner:
                inner.add(name, tomlkit.table(is_super_table=name != path[-2]))
            inner = inner[name]
        inner[path[-1]] = value

    return _edit(project, plain, written)


def _check(project: Path, table: Table) -> None:
    """Refuse settings that could not be read."""
    from pydantic import ValidationError

    from go_ent.engine.core.explain import explain
    from go_ent.engine.settings.schema import whole

    try:
        whole().model_validate(table)
    except ValidationError as error:
        raise StoreError(f"that can't be set: {explain(error)}") from None


def _edit(project: Path, plain: Callable[[Table], None], written: Callable[[Any], None]) -> list[str]:
    """Make a change in the file and in what it says, and see that they agree."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    state, path = project / STATE, project / CONFIG
    if not state.is_dir():
        raise StoreError(f"{project} is no project: it has no {STATE} folder; go-ent init makes one")
    try:
        check_folder(state)
        if path.is_symlink():
            raise StoreError(f"{path} is a link: edit what it leads to")
        check_owner(path)
        with locked(state / ".lock", patience_s=PATIENCE_S):
            layers = read_settings(project, environ={})
            wanted = copy.deepcopy(layers.of_file)
            plain(wanted)
            try:
                document = tomlkit.parse(layers.text)
                written(document)
                text = f"{tomlkit.dumps(document).rstrip()}\n"
                agrees = tomllib.loads(text) == wanted
            except (TOMLKitError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
                agrees = False
            if not agrees:
                raise StoreError(f"{shown(path)} can't be changed without changing more of it: edit it by hand")
            try:
                data = text.encode()
            except UnicodeEncodeError:  # a word of a command that is not UTF-8
                raise StoreError("that can't be set: it is not valid Unicode") from None
            if len(data) > MAX_BYTES:
                raise StoreError(f"{shown(path)} would be larger than {MAX_BYTES} bytes")
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            write_whole(path, data, mode=mode)
    except OSError as error:
        raise StoreError(f"{path} can't be written: {error.strerror or error}") from None
    diff = difflib.unified_diff(layers.text.splitlines(), text.splitlines(), n=0, lineterm="")
    return [line for line in diff if line[:1] in "+-" and line[:3] not in ("+++", "---") and line[1:].strip()]


def spelled(project: Path, section: str, namespace: str) -> str | None:
    """How the file spells the entry whose tools have that namespace; None if the file has none."""
    from go_ent.composer.sources.server_config import namespace_of

    table = read_settings(project, environ={}).of_file.get(section, {})
    return next((name for name in table if namespace_of(name) == namespace), None) if isinstance(table, dict) else None


def header(section: str, name: str) -> str:
    """The name of an entry as its table has it."""
    return f"[{dotted((section, name))}]"
