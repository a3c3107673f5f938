"""Editing one entry of somebody's TOML file: comments, order and layout of the rest stay."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from typing import Any

from go_ent.engine.setup.json_edit import Json, NotEditable


def read_toml(text: str) -> Json:
    """What is in a text."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotEditable(f"it is not TOML: {str(error)[:200]}") from None


def put_toml(text: str, path: tuple[str, str], value: Json) -> str:
    """The text with the table `[path[0].path[1]]` set to *value*."""

    def change(document: Any) -> None:
        import tomlkit

        is_new = path[0] not in document
        if is_new:
            document.add(path[0], tomlkit.table(is_super_table=True))
        section = document[path[0]]
        if path[1] in section:
            entry = section[path[1]]
            for key in [key for key in entry if key not in value]:
                del entry[key]
            entry.update(value)
        else:
            entry = tomlkit.table()
            entry.update(value)
            if not is_new:
                entry.add(tomlkit.nl())
            section[path[1]] = entry

    return _edited(text, change, lambda found: found.setdefault(path[0], {}).__setitem__(path[1], value))


def drop_toml(text: str, path: tuple[str, str]) -> str:
    """The text without `[path[0].path[1]]`; a section that is left empty goes too."""

    def change(found: Any) -> None:
        if path[1] in found.get(path[0], {}):
            del found[path[0]][path[1]]
            if not found[path[0]]:
                del found[path[0]]

    return _edited(text, change, change)


def as_toml(path: tuple[str, str], value: Json) -> str:
    """A table by itself, as a person would put it in."""
    return put_toml("", path, value).strip("\n")


def _edited(text: str, change: Callable[[Any], None], plain: Callable[[Json], None]) -> str:
    """Make a change in the text and in what it says, and see that they agree."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    wanted = copy.deepcopy(read_toml(text))
    plain(wanted)
    try:
        document = tomlkit.parse(text)
        change(document)
        made = tomlkit.dumps(document)
    except (TOMLKitError, TypeError, AttributeError, KeyError, ValueError, RecursionError):
        made = ""
    if read_toml(made) != wanted or _lost(text, made):
        raise NotEditable("it can't be edited without changing something else in it")
    return made


def _lost(before: str, after: str) -> bool:
    """Whether a comment is gone."""
    return any(line.strip().startswith("#") and line not in after for line in before.splitlines())
