"""Editing one entry of JSON with comments, as editors keep their settings: every comment stays where it is.

Comments and commas at ends are blanked out, character for character, so that what is found in the rest is at the same
place in the text.
"""

from __future__ import annotations

import re

from go_ent.engine.setup.json_edit import (
    COMMENT,
    Json,
    NotEditable,
    Spot,
    blanked,
    dumped,
    lead_of,
    place_of,
    read,
    with_entry,
    without_entry,
)

EMPTY_LINE = re.compile(r"\r?\n[ \t]*(?=\r?\n|\Z)")


def put_commented(text: str, path: tuple[str, str], value: Json) -> str:
    """The text with `path[1]` in the object `path[0]` set to *value*."""
    place = place_of(blanked(text), path, value)
    entry = place.entry
    if entry is None:
        made = _added(text, place.holder, place.key, place.value)
    elif _comments(text[entry.start : entry.end]):
        raise NotEditable("it has comments within the entry, which would be lost")
    else:
        made = text[: entry.start] + dumped(value, text, entry.key_start) + text[entry.end :]
    return _checked(made, with_entry(read(text)[0], path, value), _comments(text))


def drop_commented(text: str, path: tuple[str, str]) -> str:
    """The text without `path[1]` in the object `path[0]`; comments within the entry go with it."""
    place = place_of(blanked(text), path, {})
    inner, entry = place.holder, place.entry
    if entry is None:
        return text
    at = inner.members.index(entry)
    after = inner.members[at + 1].key_start if at + 1 < len(inner.members) else inner.end - 1
    comma = _comma(text, entry.end, after)
    end = entry.end if comma is None else comma + 1
    made = text[: entry.key_start] + text[end:]
    if comma is None and at:  # it was the last: the comma before it would be left over
        before = _comma(text, inner.members[at - 1].end, entry.key_start)
        assert before is not None
        made = made[:before] + made[before + 1 :]
    line = made.rfind("\n", 0, entry.key_start - (comma is None and at > 0))
    line -= made[line - 1 : line] == "\r"
    if line >= 0 and (empty := EMPTY_LINE.match(made, line)):
        made = made[:line] + made[empty.end() :]
    kept = _comments(text[: entry.start]) + _comments(text[entry.end :])
    return _checked(made, without_entry(read(text)[0], path), kept)


def _added(text: str, spot: Spot, key: str, value: Json) -> str:
    """A member more, at the end of an object: behind its last comment."""
    close = spot.end - 1
    newline = "\r\n" if "\r\n" in text else "\n"
    first = spot.members[0].key_start if spot.members else None
    lead = lead_of(text, close) + "  " if first is None else lead_of(text, first)
    head = text[:close].rstrip(" \t\r\n")
    ends = ""
    if spot.members:
        last = spot.members[-1].end
        if _comma(text, last, close) is None:
            head = head[:last] + "," + head[last:]
        else:
            ends = ","  # as the others end
    member = dumped({key: value}, text, close)[1:-1].strip(" \t\r\n")
    indented = newline.join(
        lead + line.strip() if number == 0 else line for number, line in enumerate(member.split(newline))
    )
    return f"{head}{newline}{indented}{ends}{newline}{lead_of(text, close)}{text[close:]}"


def _comma(text: str, start: int, end: int) -> int | None:
    """Where the comma between two places is: not one in a comment."""
    at = _without_comments(text[start:end]).find(",")
    return None if at < 0 else start + at


def _without_comments(text: str) -> str:
    return COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else " " * len(found[0]), text)


def _comments(text: str) -> list[str]:
    return [found[0] for found in COMMENT.finditer(text) if not found[0].startswith('"')]


def _checked(made: str, wanted: Json, comments: list[str]) -> str:
    """What was edited, if it says just what it should, and has every comment that it had."""
    if read(made)[0] != wanted or _comments(made) != comments:
        raise NotEditable("it can't be edited without changing something else in it")
    return made
