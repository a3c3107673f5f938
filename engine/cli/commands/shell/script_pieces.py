"""Where a piece of JavaScript or TypeScript ends, told by its text alone, as `pieces.py` does for Python."""

from __future__ import annotations

import re

OPENS, CLOSES = "([{", ")]}"
GOES_ON = re.compile(r"(?:[=+\-*/%&|^?:,.<>!~]|=>|\b(?:in|of|instanceof|typeof|new|return|extends|else|do))$")
CONTINUES = re.compile(r"(?:[.:&|+*/=,)\]}]|-(?!-)|else\b|catch\b|finally\b|while\b|instanceof\b|//)|[ \t]")
ENDS = re.compile(r"[)\]}`\w$'\"]$")


class ScriptPiece:
    """Lines that belong together, so far. A line that may end a statement waits in a pipe for the next one, which may
    go on with it: `else`, or `.then(…)`.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_block = False
        self._stack: list[str] = []  # brackets, and templates whose text is open
        self._comment = False
        self._code = ""

    def add(self, line: str) -> None:
        self.lines.append(line)
        code = self._scan(line)
        if code.strip():
            self._code = code.rstrip()
        self.is_block = ENDS.search(self._code) is not None

    @property
    def inside(self) -> bool:
        """Whether the next line goes on with this one, whatever it is."""
        goes_on = GOES_ON.search(self._code) is not None and not self._code.endswith(("++", "--"))
        return bool(self._stack) or self._comment or goes_on

    @property
    def expects(self) -> bool:
        return False

    @staticmethod
    def belongs(line: str) -> bool:
        """Whether a line can belong to the statement above it."""
        return not line.strip() or CONTINUES.match(line) is not None

    def _scan(self, line: str) -> str:
        """Follow brackets, strings, templates, patterns and comments; the line without what they hold."""
        code: list[str] = []
        at = 0
        while at < len(line):
            at = self._step(line, at, code)
        return "".join(code)

    def _step(self, line: str, at: int, code: list[str]) -> int:
        """What stands at a place; where the next thing begins."""
        char = line[at]
        if self._comment:
            end = line.find("*/", at)
            self._comment = end < 0
            return len(line) if end < 0 else end + 2
        if self._stack and self._stack[-1] == "`":
            return self._in_template(line, at, code)
        if line.startswith("//", at):
            return len(line)
        if line.startswith("/*", at):
            self._comment = True
            return at + 2
        if char in "'\"" or (char == "/" and not re.search(r"[\w$)\]]\s*$", "".join(code))):
            found = re.compile(rf"{char}(?:\\.|\[(?:\\.|[^\]\\])*\]|[^\\{char}])*{char}").match(line, at)
            code.append("'")
            return found.end() if found else at + 1
        if char in OPENS or char == "`":
            self._stack.append(char)
        elif char in CLOSES and self._stack:
            self._stack.pop()
        code.append(char)
        return at + 1

    def _in_template(self, line: str, at: int, code: list[str]) -> int:
        if line[at] == "\\":
            return at + 2
        if line[at] == "`":
            self._stack.pop()
            code.append("`")
        elif line.startswith("${", at):
            self._stack.append("{")
            return at + 2
        return at + 1
