"""Cutting a text that is too large for one request, where something in it ends."""

from __future__ import annotations

import re

from engine.context.counting import Counter

_JSON = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
_AHEAD = 20  # characters that a place to cut may look at behind itself
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n(?=diff --git |Index: |={3,} |#{1,6} )",
        r"\n[ \t]*\r?\n(?=@|(?:async|def|class|func|fn|pub|impl|export|function|interface|struct|type)\b)",
        r"\n[ \t]*\r?\n(?=[^\r\n])",
        r"\n",
        r"\s(?=\S)",
    )
)


def pieces(text: str, max_tokens: int, counter: Counter) -> list[str]:
    """*text* in pieces of *max_tokens* at the most, which joined are the text.

    They end where something ends: an element of JSON, a file of a diff, a section, a definition, a paragraph, a line,
    a word; anywhere at last, after one character at the least.
    """
    json = text.lstrip()[:1] in {"[", "{"}
    found, start = [], 0
    while start < len(text):
        width = min(len(text) - start, max_tokens * 4)
        while width > 1 and (tokens := counter.count(text[start : start + width])) > max_tokens:
            width = max(1, min(width - 1, width * max_tokens // tokens))
        end = start + width
        if end < len(text):
            end = (json and _element(text, start, end)) or _place(text, start, end)
        found.append(text[start:end])
        start = end
    return found


def _element(text: str, start: int, end: int) -> int | None:
    """The last end of an outermost element in the second half."""
    depth, best, place = 0, 0, None
    for match in _JSON.finditer(text, start, end):
        sign = match[0]
        depth += (sign in "[{") - (sign in "]}")
        if match.end() > start + (end - start) // 2 and (sign == "," or (sign in "]}" and depth == 0)) and (place is None or depth <= best):
            best, place = depth, match.end()
    return place


def _place(text: str, start: int, end: int) -> int:
    """The last place of the best kind in the second half, or *end*."""
    for kind in _PLACES:
        found = [match.end() for match in kind.finditer(text, start + (end - start) // 2, end + _AHEAD) if match.end() <= end]
        if found:
            return found[-1]
    return end
