"""Where a piece of code ends, told by its text alone: the host parses no code.

Brackets, strings and comments are followed. What begins a block goes on until a blank line when somebody types it, and
in a pipe until a line that is not of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from go_ent.engine.cli.commands.shell.script_pieces import ScriptPiece
from go_ent.sandbox.worker.languages import Language

QUOTES = ("'''", '"""', "'", '"')
CLAUSES = re.compile(r"(?:elif|else|except|finally)\b")
OPENS, CLOSES = "([{", ")]}"


class Piece:
    """Lines that belong together, so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_block = False
        self._depth = 0  # of brackets
        self._quote = ""  # of the string that is open
        self._code = ""  # the last line with code, without its comment

    def add(self, line: str) -> None:
        self.lines.append(line)
        code = self._scan(line)
        if code.strip():
            self._code = code.rstrip()
        self.is_block |= self.expects

    @property
    def inside(self) -> bool:
        """Whether the next line goes on with this one, whatever it is."""
        return self._depth > 0 or len(self._quote) == 3 or self._code.endswith("\\")

    @property
    def expects(self) -> bool:
        """Whether it can't end here: a block, or what is decorated, comes next."""
        return not self.inside and (self._code.endswith(":") or self._code.startswith("@"))

    def _scan(self, line: str) -> str:
        """Follow brackets and strings through a line; the line without its comment and without what strings hold."""
        code: list[str] = []
        at = 0
        while at < len(line):
            char = line[at]
            if self._quote:
                if char == "\\":
                    at += 1
                elif line.startswith(self._quote, at):
                    at += len(self._quote) - 1
                    self._quote = ""
            elif char == "#":
                break
            elif found := next((quote for quote in QUOTES if line.startswith(quote, at)), ""):
                self._quote = found
                at += len(found) - 1
                code.append("'")
            else:
                self._depth = max(0, self._depth + (char in OPENS) - (char in CLOSES))
                code.append(char)
            at += 1
        if len(self._quote) == 1:
            self._quote = ""  # not closed on its line: an error that the sandbox tells
        return "".join(code)

    @staticmethod
    def belongs(line: str) -> bool:
        """Whether a line can belong to the block above it."""
        return not line.strip() or line[0] in " \t#" or CLAUSES.match(line) is not None


def is_open(text: str, language: Language = "python") -> bool:
    """Whether somebody who typed *text* and Enter has more to type."""
    piece = _piece(language)
    for line in text.split("\n"):
        piece.add(line)
    return piece.inside or (language == "python" and piece.is_block and bool(piece.lines[-1].strip()))


def pieces(lines: Iterable[str], language: Language = "python") -> Iterator[str]:
    """The lines of a pipe as pieces, each as soon as it is whole."""
    piece = _piece(language)
    for line in lines:
        if piece.lines and not piece.inside and not piece.expects and not piece.belongs(line):
            yield "\n".join(piece.lines)
            piece = _piece(language)
        if piece.lines or line.strip():
            piece.add(line)
        if piece.lines and not piece.inside and not piece.is_block:
            yield "\n".join(piece.lines)
            piece = _piece(language)
    if piece.lines:
        yield "\n".join(piece.lines)


def _piece(language: Language) -> Piece | ScriptPiece:
    return Piece() if language == "python" else ScriptPiece()
