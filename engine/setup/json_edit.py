"""Editing one entry of a JSON file as text: everything else stays as it was, byte for byte."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, TypeAlias

from go_ent.dataclass import dataclass

Json: TypeAlias = dict[str, Any]

SPACE = re.compile(r"[ \t\r\n]*")
INDENT = re.compile(r"\{[ \t]*\r?\n([ \t]+)\"")
# Strings, so that what looks like a comment in one is none; an end of file ends both, so that looking takes one pass.
COMMENT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)
TRAILING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|,(?=[ \t\r\n]*[}\]])', re.S)
BOM = "\ufeff"


class NotEditable(Exception):
    """Internal: raised when a text can't be edited without a risk to what is in it. It becomes CannotInstall."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object, and where in the text it is."""

    key: str
    key_start: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Spot:
    """An object in the text: where its braces are, and what is between them."""

    start: int
    end: int
    members: tuple[Member, ...]

    def find(self, key: str) -> Member | None:
        found = [member for member in self.members if member.key == key]
        if len(found) > 1:
            raise NotEditable(f"{key!r} is in it twice")
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry is, or is to be: *holder* is the object that gets *value* as *key*; *entry* is what it has there.

    Where the section is missing, the holder is the outermost object, and the value a section with the entry in it.
    """

    holder: Spot
    key: str
    value: Json
    entry: Member | None


def place_of(text: str, path: tuple[str, str], value: Json) -> Place:
    """The place of `path[1]` in the object `path[0]`, in a text that is JSON."""
    outer = object_at(text, 0)
    section = outer.find(path[0])
    if section is None:
        return Place(outer, path[0], {path[1]: value}, None)
    inner = object_at(text, section.start)
    return Place(inner, path[1], value, inner.find(path[1]))


def with_entry(found: Json, path: tuple[str, str], value: Json) -> Json:
    """What a text must hold once the entry is in it."""
    return {**found, path[0]: {**found.get(path[0], {}), path[1]: value}}


def without_entry(found: Json, path: tuple[str, str]) -> Json:
    """What a text must hold once the entry is gone."""
    return {**found, path[0]: {key: value for key, value in found[path[0]].items() if key != path[1]}}


def read(text: str) -> tuple[Json, bool]:
    """What is in a text, and whether it has what only JSON with comments may: comments, or commas before a closing
    bracket.
    """
    text = text.removeprefix(BOM)
    if not text.strip():
        return {}, False
    try:
        found, lenient = _load(text), False
    except NotEditable:
        found, lenient = _load(blanked(text)), True
    if not isinstance(found, dict):
        raise NotEditable(f"it holds {_kind(found)}, not an object")
    return found, lenient


def put(text: str, path: tuple[str, str], value: Json) -> str:
    """The text with `path[1]` in the object `path[0]` set to *value*."""
    head, body = _split(text)
    place = place_of(body, path, value)
    holder, entry = place.holder, place.entry
    if entry is None:
        made = _add(body, holder, place.key, place.value)
    else:
        flat = "\n" not in body[entry.start : entry.end] and "\n" not in body[holder.start : holder.end]
        made = body[: entry.start] + dumped(value, body, entry.key_start, flat=flat) + body[entry.end :]
    return head + _checked(made, with_entry(read(body)[0], path, value))


def drop(text: str, path: tuple[str, str]) -> str:
    """The text without `path[1]` in the object `path[0]`; the object stays, if empty."""
    head, body = _split(text)
    place = place_of(body, path, {})
    if place.entry is None:
        return text
    inner = place.holder
    at = inner.members.index(place.entry)
    if at + 1 < len(inner.members):
        cut = inner.members[at].key_start, inner.members[at + 1].key_start
    elif at:
        cut = inner.members[at - 1].end, inner.members[at].end
    else:
        cut = inner.start + 1, inner.end - 1
    return head + _checked(body[: cut[0]] + body[cut[1] :], without_entry(read(body)[0], path))


def _split(text: str) -> tuple[str, str]:
    """What stays before the object, and the object; an empty text holds an empty one."""
    head = BOM if text.startswith(BOM) else ""
    body = text[len(head) :]
    return head, body if body.strip() else "{}\n"


def _checked(made: str, wanted: Json) -> str:
    """What was edited, if reading it gives just what it should."""
    if read(made) != (wanted, False):
        raise NotEditable("it can't be edited without changing something else in it")
    return made


def _load(text: str) -> Any:
    try:
        return _decoder().decode(text)
    except json.JSONDecodeError as error:
        raise NotEditable(f"it is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise NotEditable(f"it is not JSON: {error}") from None
    except RecursionError:
        raise NotEditable("it is nested too deep") from None


def _decoder() -> json.JSONDecoder:
    # Numbers as they are written: none is changed, and none is too long.
    return json.JSONDecoder(parse_constant=_no_constant, parse_int=str, parse_float=str)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def blanked(text: str) -> str:
    """JSON with comments as JSON of the same length: what is not of JSON is blank."""

    def blank(found: re.Match[str]) -> str:
        return (
            found[0]
            if found[0].startswith('"')
            else " " * len(found[0])
            if found[0] == ","
            else re.sub(r"[^\n]", " ", found[0])
        )

    return TRAILING.sub(blank, COMMENT.sub(blank, text))


def object_at(text: str, start: int) -> Spot:
    """The object that begins at *start*, or after the space there. The text was read once: it is JSON."""
    decoder, at = _decoder(), _after(text, start)
    if text[at] != "{":
        raise NotEditable(f"line {text.count(chr(10), 0, at) + 1} holds no object where one must be")
    begin, members = at, []
    at = _after(text, at + 1)
    while text[at] != "}":
        key, end = decoder.raw_decode(text, at)
        value = _after(text, _after(text, end) + 1)
        _, after = decoder.raw_decode(text, value)
        members.append(Member(key, at, value, after))
        at = _after(text, after)
        if text[at] == ",":
            at = _after(text, at + 1)
    return Spot(begin, at + 1, tuple(members))


def _after(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


def _add(text: str, spot: Spot, key: str, value: Json) -> str:
    """A member more, at the end."""
    name = json.dumps(key)
    if spot.members and "\n" not in text[spot.start : spot.end]:
        at = spot.members[-1].end
        return f"{text[:at]}, {name}: {json.dumps(value)}{text[at:]}"
    newline, unit = _newline(text), _unit(text)
    if spot.members:
        last = spot.members[-1]
        # Below the first, which is where a reader looks for its indentation.
        lead = lead_of(text, spot.members[0].key_start)
        return (
            f"{text[: last.end]},{newline}{lead}{name}: "
            f"{dumped(value, text, spot.members[0].key_start)}{text[last.end :]}"
        )
    outer = lead_of(text, spot.start)
    made = json.dumps({key: value}, indent=unit, ensure_ascii=False).replace("\n", newline + outer)
    return text[: spot.start] + made + text[spot.end :]


def dumped(value: Json, text: str, at: int, *, flat: bool = False) -> str:
    """A value as the text around *at* is written."""
    if flat:
        return json.dumps(value, ensure_ascii=False)
    made = json.dumps(value, indent=_unit(text), ensure_ascii=False)
    return made.replace("\n", _newline(text) + lead_of(text, at))


def lead_of(text: str, at: int) -> str:
    """The white space that the line of *at* begins with."""
    line = text.rfind("\n", 0, at) + 1
    found = re.compile(r"[ \t]*").match(text, line, at)
    return found[0] if found else ""


def _unit(text: str) -> str:
    found = INDENT.search(text)
    return found[1] if found else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _kind(value: object) -> str:
    return {list: "a list", str: "a text or a number", bool: "true or false"}.get(type(value), "null")
