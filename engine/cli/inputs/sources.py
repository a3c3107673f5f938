"""What `--each` runs a tool over: the JSON values of a stream as they arrive, or files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.inputs.reading import read_file

MAX_LINE = 32 << 20
LINES = (".jsonl", ".ndjson")  # files with a value a line
QUOTE, BACKSLASH = ord('"'), ord("\\")
OPENING, CLOSING = frozenset(b"{["), frozenset(b"}]")


class Item(tuple[int, bytes, str]):
    """A value: its number, its bytes, and the file that it is, if it is one."""

    __slots__ = ()

    @property
    def number(self) -> int:
        return self[0]

    @property
    def data(self) -> bytes:
        return self[1]

    @property
    def file(self) -> str:
        return self[2]

    @property
    def name(self) -> str:
        """What people call it."""
        return self.file or f"line {self.number}"


class Source(Protocol):
    """Where items come from. `read` blocks: it is called in a thread."""

    total: int | None

    def read(self) -> list[Item]:
        """Some more, one at the least; nothing at the end."""


class Lines:
    """The values of a stream, one a line, with the numbers of their lines, as they arrive. Empty lines are left out.

    JSON that was printed over several lines is one value: it begins with a line that ends within it. The next may begin
    where it ends, as in files that have no new line at their end.
    """

    total: int | None = None

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._rest: list[bytes] = []
        self._held = 0
        self._number = 0
        self._values = Values()

    def read(self) -> list[Item]:
        found: list[Item] = []
        while not found:
            data = self._stream.raw.read(1 << 16) or b""  # not the buffer: its lock outlives a thread that is given up
            head, *tail = data.split(b"\n")
            self._rest.append(head)
            self._held += len(head)
            whole = []
            if tail or not data:
                *more, last = tail or [b""]
                whole = [b"".join(self._rest), *more]
                self._rest, self._held = [last], len(last)
            if self._held + self._values.held > MAX_LINE:
                raise UsageError(f"line {self._number + 1} of stdin is longer than {MAX_LINE} bytes")
            for line in whole:
                self._number += 1
                found += self._values.add(self._number, line)
            if not data:
                found += self._values.end()
                break
        return found


class Values:
    """Puts the lines of a value together."""

    def __init__(self) -> None:
        self.held = 0
        self._lines: list[bytes] = []
        self._first = 0
        self._depth = 0
        self._in_text = False

    def add(self, number: int, line: bytes) -> list[Item]:
        """The values that are whole with this line."""
        text = line.strip()
        if not self._lines:
            if not text:
                return []
            if not text.endswith((b"{", b"[", b",")) or not text.startswith((b"{", b"[")):
                return [Item((number, line, ""))]
            self._first, self._depth, self._in_text = number, 0, False
        elif self._lines[0].lstrip().startswith(b"{") and text.startswith(b"{") and _is_whole(text):
            broken = self.end()  # the value was never ended: this one is another
            return [*broken, Item((number, line, ""))]
        end = self._scan(line)
        self._lines.append(line[:end])
        self.held += len(line[:end])
        if end is None:
            return []
        # Files that end without a new line, put together by cat: the next value begins where the last has ended.
        return [*self.end(), *self.add(number, line[end:])]

    def end(self) -> list[Item]:
        """What is held, whole or not."""
        if not self._lines:
            return []
        made = Item((self._first, b"\n".join(self._lines), ""))
        self._lines, self.held = [], 0
        return [made]

    def _scan(self, line: bytes) -> int | None:
        """Where in the line the value ends, by its brackets, but for those in texts; None if it goes on."""
        at = 0
        while at < len(line):
            byte = line[at]
            if self._in_text:
                if byte == BACKSLASH:
                    at += 1
                elif byte == QUOTE:
                    self._in_text = False
            elif byte == QUOTE:
                self._in_text = True
            elif byte in OPENING:
                self._depth += 1
            elif byte in CLOSING:
                self._depth -= 1
                if self._depth <= 0:
                    return at + 1
            at += 1
        self._in_text = False  # a text does not go over a line's end
        return None


def _is_whole(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class Files:
    """Files, one value each; those that hold a value a line have as many."""

    def __init__(self, paths: Sequence[str]) -> None:
        for path in paths:
            if Path(path).is_dir():
                raise UsageError(f"{path}: it is a folder; name its files, like {os.path.relpath(path)}/*")
            if not Path(path).is_file():
                raise UsageError(f"{path}: there is no such file")
        self._paths = list(paths)
        self._number = 0
        self.total: int | None = None if any(path.endswith(LINES) for path in paths) else len(paths)

    def read(self) -> list[Item]:
        found: list[Item] = []
        while self._paths and not found:
            path = self._paths.pop(0)
            try:
                data = read_file(Path(path), MAX_LINE)
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror}") from None
            lines = [line for line in data.split(b"\n") if line.strip()] if path.endswith(LINES) else [data]
            for line in lines:
                self._number += 1
                found.append(Item((self._number, line, path)))
        return found
