"""Text for people. What comes from elsewhere never reaches a terminal as it is: it could move its cursor, or worse."""

from __future__ import annotations

import contextlib
import sys


def plain(text: object) -> str:
    """Text without anything that a terminal would obey, save new lines and tabs."""
    lines = str(text).replace("\r\n", "\n")
    return "".join(char if char in "\n\t" or char.isprintable() else "�" for char in lines)


def short(text: object) -> str:
    """Its first line, plain, and no longer than a person reads."""
    line = plain(text).strip().partition("\n")[0]
    return line if len(line) <= 300 else line[:299] + "…"


def say(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Print words for a person, plain. A terminal that is gone does not end the work: what is told on stderr may be lost."""
    if not err:
        print(plain(text), end=end)
        return
    with contextlib.suppress(OSError):
        print(plain(text), file=sys.stderr, end=end, flush=True)


def show(text: str) -> None:
    """Print a result: as it is, and plain only on a terminal."""
    print(plain(text) if sys.stdout.isatty() else text)
