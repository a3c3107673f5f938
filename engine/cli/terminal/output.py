"""Text for people. What comes from elsewhere never reaches a terminal as it is: it could move its cursor, or worse.

A terminal gets tables, trees and colours; a pipe, a file and `TERM=dumb` get plain text. `NO_COLOR` takes the colours
away,
`FORCE_COLOR` gives a pipe what a terminal gets.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Literal, Protocol, TextIO

Style = Literal["green", "red", "yellow", "cyan", "bold", "dim"]
CODES: dict[Style, int] = {"green": 32, "red": 31, "yellow": 33, "cyan": 36, "bold": 1, "dim": 2}
STYLES: dict[str, Style] = {
    "completed": "green",
    "ok": "green",
    "running": "cyan",
    "active": "cyan",
    "pending": "cyan",
    "failed": "red",
    "error": "red",
    "FAILED": "red",
    "NO": "red",
    "BROKEN": "red",
    "paused": "yellow",
    "waiting": "yellow",
    "interrupted": "yellow",
    "cancelled": "dim",
}


class Live(Protocol):
    """Something at the end of the terminal that makes way for what is written."""

    def aside(self) -> contextlib.AbstractContextManager[None]: ...


class _Screen:
    """What is live on this process's terminal: there is one."""

    live: Live | None = None
    open = False  # the cursor is behind words of a line that has not ended: an agent's, or a question


screen = _Screen()


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it through a terminal that can do more than print."""
    return tty(stream) and os.environ.get("TERM", "") != "dumb"


def tty(stream: TextIO) -> bool:
    """Whether it is a terminal, of whatever kind."""
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def is_rich(stream: TextIO) -> bool:
    """Whether it gets tables and trees."""
    return is_terminal(stream) or bool(os.environ.get("FORCE_COLOR"))


def has_colours(stream: TextIO) -> bool:
    return is_rich(stream) and not os.environ.get("NO_COLOR")


def is_utf8(stream: TextIO) -> bool:
    with contextlib.suppress(LookupError):
        return codecs.lookup(getattr(stream, "encoding", None) or "ascii").name == "utf-8"
    return False


def paint(text: str, style: Style | None, stream: TextIO | None = None) -> str:
    """Text in a colour, where there are colours. It must be plain already."""
    where = sys.stdout if stream is None else stream
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if style is not None and has_colours(where) else text


def plain(text: object) -> str:
    """Text without anything that a terminal would obey, save new lines and tabs."""
    lines = str(text).replace("\r\n", "\n")
    return "".join(char if char in "\n\t" or char.isprintable() else "�" for char in lines)


def short(text: object) -> str:
    """Its first line, plain, and no longer than a person reads."""
    line = plain(text).strip().partition("\n")[0]
    return line if len(line) <= 300 else line[:299] + "…"


def said_once(status: str | None, text: str) -> str:
    """Why something has that status, where the status itself stands before it."""
    return text.removeprefix(f"{status}: ")


def age(at: float) -> str:
    """How long it has been, in the one unit that matters."""
    seconds = max(0, round(time.time() - at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def ago(at: float) -> str:
    return f"{age(at)} ago"


def took(seconds: float) -> str:
    """How long something took, as exactly as matters."""
    if seconds < 0.1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """While this lasts nothing is live on the terminal: it can be written to."""
    if screen.live is None:
        yield
    else:
        with screen.live.aside():
            yield


def say(text: object, *, err: bool = False, end: str = "\n", style: Style | None = None) -> None:
    """Print words for a person, plain. A terminal that is gone does not end the work: what is told on stderr may be
    lost.
    """
    stream = sys.stderr if err else sys.stdout
    said = paint(plain(text), style, stream)
    with aside():
        screen.open = not said.endswith("\n") and end != "\n"
        if not err:
            print(said, end=end)
            return
        with contextlib.suppress(OSError):
            print(said, file=sys.stderr, end=end, flush=True)


def show(text: str) -> None:
    """Print a result: as it is, and plain only on a terminal."""
    with aside():
        print(plain(text) if tty(sys.stdout) else text)


def show_json(value: Any, *, indent: int | None = None) -> None:
    """Print one JSON document: on one line, whatever the stream can encode."""
    from pydantic_core import to_json

    try:
        text = value if isinstance(value, str) else to_json(value, indent=indent, inf_nan_mode="null").decode()
    except (
        ValueError
    ):  # a file's name that is not UTF-8: its bytes are surrogates, which JSON can have as escapes alone
        finite = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
        text = json.dumps(finite, indent=indent, separators=None if indent else (",", ":"))
    if not is_utf8(sys.stdout):
        text = "".join(char if char.isascii() else _escaped(char) for char in text)
    show(text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def not_strict() -> None:
    """What a stream can't encode is escaped, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
