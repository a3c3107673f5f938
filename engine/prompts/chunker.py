"""Packing files into chunks of a bounded number of tokens, for a model that can't read them all at once.

Files stay whole where they fit. A larger one is split before a definition or a heading, else at an empty line, else
between lines, else within a line. The parts of a file, joined, are the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask
from go_ent.engine.prompts.fences import label, language, one_line, quoted
from go_ent.engine.tokens import count, decode, encode

ROOM = 24  # tokens of text that a chunk must have room for beside a heading
_AHEAD = 16  # characters that a place to split may look at behind itself
# The best place first: an empty line before something new, any empty line.
_PLACES = (
    re.compile(
        r"\n[ \t]*\r?\n(?=@|#{1,6} |(?:async|def|class|func|fn|pub|impl|export|function|interface|struct|type)\b)"
    ),
    re.compile(r"\n[ \t]*\r?\n(?=[^\r\n])"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or some of it: the lines from `start_line` to `end_line`, counted from 1. An empty file ends at line
    0.
    """

    path: str
    text: str
    start_line: int
    end_line: int

    def block(self) -> str:
        """The text between fences, under a heading that says what it is."""
        lines = "empty" if not self.text else f"lines {self.start_line}-{self.end_line}"
        return f"### {label(self.path)} ({lines})\n\n{quoted(self.text, language(self.path))}\n\n"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Parts that are read together. `tokens` are those of `text()`."""

    parts: tuple[Part, ...]
    tokens: int

    def text(self) -> str:
        """All parts, each under its path."""
        return "".join(part.block() for part in self.parts)


def pack(files: Iterable[tuple[str, str]], *, max_tokens: int) -> list[Chunk]:
    """Pack files, given as pairs of path and text, into chunks of at most *max_tokens* each.

    Their order is kept. `BadTask` if *max_tokens* has no room for a path's heading and a little text.
    """
    chunks: list[Chunk] = []
    parts: list[Part] = []
    used = 0
    for path, text in files:
        for part, tokens in _parts(path, text, max_tokens):
            if parts and used + tokens > max_tokens:
                chunks.append(Chunk(tuple(parts), used))
                parts, used = [], 0
            parts.append(part)
            used += tokens
    return [*chunks, Chunk(tuple(parts), used)] if parts else chunks


def _parts(path: str, text: str, most: int) -> Iterator[tuple[Part, int]]:
    """The file in parts that fit into a chunk each, with the tokens they take there. A block's tokens do not depend
    on its neighbours.
    """
    heading = count(Part(path, "", 1, 0).block())
    if heading + ROOM > most:
        raise BadTask(f"a chunk of {most} tokens has no room for {one_line(path)}: its heading alone takes {heading}")
    start, line = 0, 1
    while True:
        part, tokens = _largest(path, text, start, line, most, heading)
        yield part, tokens
        start += len(part.text)
        line += part.text.count("\n")
        if start >= len(text):
            return


def _largest(path: str, text: str, start: int, line: int, most: int, heading: int) -> tuple[Part, int]:
    """The largest part from *start* on that fits."""
    room = most - heading
    while True:
        end = _reach(text, start, room)
        end = end if end == len(text) else _place(text, start, end)
        piece = text[start:end]
        part = Part(path, piece, line, line + piece.count("\n") - (piece.endswith("\n") or not piece))
        tokens = count(part.block())
        if tokens <= most:
            return part, tokens
        room = max(1, min(room - 1, room * most // tokens))


def _reach(text: str, start: int, room: int) -> int:
    """Where *room* tokens from *start* on end; at least one character further."""
    window = room * 4
    while True:
        piece = text[start : start + window]
        tokens = encode(piece)
        if len(tokens) > room:
            return start + max(1, len(decode(tokens[:room])))
        if start + window >= len(text):
            return len(text)
        window *= 2


def _place(text: str, start: int, end: int) -> int:
    """The best place to split between *start* and *end*, or *end*."""
    for place in _PLACES:
        found = [
            match.end()
            for match in place.finditer(text, start + (end - start) // 2, end + _AHEAD)
            if match.end() <= end
        ]
        if found:
            return found[-1]
    newline = text.rfind("\n", start, end)
    return newline + 1 if newline >= start else end
