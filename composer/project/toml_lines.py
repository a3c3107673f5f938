"""Where a setting stands in a TOML file: `tomllib` gives values, and no lines."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress

Path = tuple[str | int, ...]

MAX_PARTS = 32  # of a key: the time that tomllib takes is the square of it
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
# Also in texts, where nobody writes so long a chain of words and dots. Longer parts are not looked for: of them a file
# has few.
_SHORT = r"""(?:[A-Za-z0-9_-]{1,100}+|"[^"\n]{0,100}+"|'[^'\n]{0,100}+')"""
TOO_LONG = re.compile(rf"""(?<![A-Za-z0-9_-])(?:{_SHORT}[ \t]{{0,9}}+\.[ \t]{{0,9}}+){{{MAX_PARTS}}}""")

_SPACE = re.compile(r"(?:[ \t\n]|#[^\n]*)*+")
_KEY = re.compile(rf"[ \t]*({_PART})[ \t]*")
_TEXT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}' r"|'''(?:[^']|'(?!''))*+'{3,5}" r'|"(?:[^"\\\n]|\\.)*+"' r"|'[^'\n]*+'", re.S
)
_PLAIN = re.compile(r"[^,\]}#\n]++")


def lines_of(text: str) -> dict[Path, int]:
    """The line of every key, table and item of *text*, which is TOML; of what can't be followed, as far as it can.

    A table in braces, and what is in it, has the lines where that stands; one that only longer names make (`a` of
    `[a.b]`) has the line of the first of them.
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    with suppress(_Lost, RecursionError, tomllib.TOMLDecodeError):  # the last for a key with an escape that is none
        scanner.document()
    return scanner.found


class _Lost(Exception):
    """Raised where the text is not what TOML would have there."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._counts: dict[Path, int] = {}  # tables in an array of tables
        self.found: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        while self._skip() < len(self._text):
            if self._take("[["):
                table = self._array_of_tables()
            elif self._take("["):
                table = self._note((), self._key())
                self._need("]")
            else:
                self._pair(table)

    def _array_of_tables(self) -> Path:
        *outer, last = self._key()
        name = (*self._note((), outer), last)
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        line = self._line()
        self.found.setdefault(name, line)
        self.found[*name, number] = line
        self._need("]]")
        return (*name, number)

    def _pair(self, table: Path) -> None:
        path = self._note(table, self._key())
        self._need("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        self._skip()
        if self._take("["):
            number = 0
            while not self._ends_with("]"):
                self.found[*path, number] = self._line()
                self._value((*path, number))
                number += 1
        elif self._take("{"):
            while not self._ends_with("}"):
                self._pair(path)
        elif self._text[self._at : self._at + 1] in ('"', "'"):
            self._match(_TEXT)
        else:
            self._match(_PLAIN)

    def _ends_with(self, bracket: str) -> bool:
        """Past what separates two values: whether there is none any more."""
        self._skip()
        self._take(",")
        self._skip()
        return self._take(bracket)

    def _note(self, table: Path, key: list[str]) -> Path:
        path = table
        line = self._line()
        for part in key:
            path = (*path, part)
            self.found.setdefault(path, line)
            if not table and path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _key(self) -> list[str]:
        parts = [self._part()]
        while self._take("."):
            parts.append(self._part())
            if len(parts) > MAX_PARTS:
                raise _Lost
        return parts

    def _part(self) -> str:
        part = self._match(_KEY)[1]
        if part[0] not in "\"'":
            return part
        return part[1:-1] if part[0] == "'" or "\\" not in part else str(tomllib.loads(f"x = {part}")["x"])

    def _line(self) -> int:
        return bisect_right(self._ends, self._at - 1) + 1

    def _skip(self) -> int:
        self._at = self._match(_SPACE).end()
        return self._at

    def _take(self, what: str) -> bool:
        if not self._text.startswith(what, self._at):
            return False
        self._at += len(what)
        return True

    def _need(self, what: str) -> None:
        if not self._take(what):
            raise _Lost

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _Lost
        self._at = found.end()
        return found
