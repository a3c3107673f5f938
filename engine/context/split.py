"""Cutting a text that is too large for one request, where something in it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic_core import from_json

from go_ent.engine.tokens import count, decode, encode

_JSON = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
MOST_JSON = 32 << 20  # characters
_AHEAD = 20  # characters that a place to cut may look at behind itself
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n(?=diff --git |Index: |={3,} )",
        r"\n[ \t]*\r?\n(?=#{1,6} )",
        r"\n[ \t]*\r?\n(?=@|(?:async|def|class|func|fn|pub|impl|export|function|interface|struct|type)\b)",
        r"\n[ \t]*\r?\n(?=[^\r\n])",
        r"\n",
        r"\s(?=\S)",
    )
)


def pieces(text: str, max_tokens: int) -> list[str]:
    """*text* in pieces of *max_tokens* at the most, which joined are the text."""
    return list(cuts(text, max_tokens))


def cuts(text: str, max_tokens: int) -> Iterator[str]:
    """The same, one after the other.

    They end where something ends: an element of JSON, a file of a diff, a section, a definition, a paragraph, a line,
    a word; anywhere at last, after one character at the least.
    """
    json = _is_json(text)
    start = 0
    while start < len(text):
        end = start + _width(text[start : start + max_tokens * 4], max_tokens)
        if end < len(text):
            end = (json and _element(text, start, end)) or _place(text, start, end)
        yield text[start:end]
        start = end


def _width(text: str, most: int) -> int:
    """How many characters of the beginning of a text are *most* tokens; one at the least."""
    found = encode(text)
    if len(found) <= most:
        return len(text)
    width = len(decode(found[:most]))
    while width > 1 and count(text[:width]) > most:  # what is cut in two may count for more
        width = width * 9 // 10
    return max(1, width)


def _is_json(text: str) -> bool:
    """Whether all of it is JSON: a log may begin with a bracket, too."""
    if text.lstrip()[:1] not in {"[", "{"} or len(text) > MOST_JSON:
        return False
    try:
        from_json(text)
    except ValueError:
        return False
    return True


def _element(text: str, start: int, end: int) -> int | None:
    """The last end of an outermost element in the second half."""
    depth, best, place = 0, 0, None
    for match in _JSON.finditer(text, start, end):
        sign = match[0]
        depth += (sign in "[{") - (sign in "]}")
        if (
            match.end() > start + (end - start) // 2
            and (sign == "," or (sign in "]}" and depth == 0))
            and (place is None or depth <= best)
        ):
            best, place = depth, match.end()
    return place


def _place(text: str, start: int, end: int) -> int:
    """The last place of the best kind in the second half, or *end*."""
    for kind in _PLACES:
        found = [
            match.end() for match in kind.finditer(text, start + (end - start) // 2, end + _AHEAD) if match.end() <= end
        ]
        if found:
            return found[-1]
    return end
