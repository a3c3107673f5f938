"""Which way of showing pictures a terminal has: by its environment, or else by asking it, once and briefly.

kitty's and iTerm2's ways are known by the environment alone: a terminal that does not know their questions may print
them. Only the question what kind of terminal it is, which all of them know, is ever sent; its answer tells of sixel.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Mapping
from typing import Literal, TextIO

from go_ent.dataclass import dataclass
from go_ent.engine.cli.terminal.output import is_terminal

Way = Literal["kitty", "iterm2", "sixel"]
VARIABLE = "GO_ENT_PICTURES"
QUESTION = b"\x1b[c"
ANSWER = re.compile(rb"\x1b\[\?([0-9;]{1,100})c")
SIXEL = b"4"  # among the attributes in the answer
PATIENCE_S = 0.5
MOST_ANSWER = 512
USUAL_CELL = (8, 16)  # pixels, where the terminal does not say
KONSOLE = "220400"  # the first version that shows pictures
CHOICES: dict[str, Way | None] = {"kitty": "kitty", "iterm2": "iterm2", "sixel": "sixel", "none": None}
PROGRAMS: dict[str, Way] = {
    "iTerm.app": "iterm2",
    "WezTerm": "iterm2",
    "mintty": "iterm2",
    "ghostty": "kitty",
}


@dataclass(frozen=True, slots=True)
class Area:
    """What there is to draw on: columns and rows of cells, and a cell's pixels."""

    columns: int
    rows: int
    cell: tuple[int, int]

    @property
    def pixels(self) -> tuple[int, int]:
        """Of the whole, less the lines that stay for words."""
        return self.columns * self.cell[0], max(1, self.rows - 3) * self.cell[1]


def way_of(stream: TextIO) -> Way | None:
    """How pictures can be shown on *stream*; None where nobody looks, or they can't be."""
    if not is_terminal(stream):
        return None
    known = way_by_environment(os.environ)
    return _asked(stream.fileno()) if known == "ask" else known


def way_by_environment(environ: Mapping[str, str]) -> Way | Literal["ask"] | None:
    """What the environment says. Inside tmux and screen it is that of another terminal, so it is not believed there."""
    if (chosen := environ.get(VARIABLE, "")) in CHOICES:
        return CHOICES[chosen]
    term = environ.get("TERM", "")
    if "TMUX" in environ or "STY" in environ or term.startswith(("tmux", "screen")):
        return "ask"
    version = environ.get("KONSOLE_VERSION", "")
    konsole = re.fullmatch("[0-9]{6}", version) is not None and version >= KONSOLE
    if konsole or term in ("xterm-kitty", "xterm-ghostty") or "KITTY_WINDOW_ID" in environ:
        return "kitty"
    if environ.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return PROGRAMS.get(environ.get("TERM_PROGRAM", ""), "ask")


@functools.cache
def _asked(fd: int) -> Way | None:
    """Ask the terminal what it is. None if it does not answer in time, if its input is ours to leave alone because
    somebody has typed ahead, or if this is not the process that it talks to.
    """
    with contextlib.suppress(OSError, termios.error):
        own = os.open(os.ttyname(fd), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            if os.tcgetpgrp(own) == os.getpgrp():
                return "sixel" if SIXEL in attributes_of(own) else None
        finally:
            os.close(own)
    return None


def attributes_of(fd: int) -> list[bytes]:
    """What a terminal says that it is; nothing if it says nothing in time."""
    before = termios.tcgetattr(fd)
    silent = termios.tcgetattr(fd)
    silent[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(fd, termios.TCSANOW, silent)
    try:
        if select.select([fd], [], [], 0)[0]:
            return []
        os.write(fd, QUESTION)
        said, until = b"", time.monotonic() + PATIENCE_S
        while len(said) < MOST_ANSWER and (left := until - time.monotonic()) > 0:
            if not select.select([fd], [], [], left)[0]:
                break
            said += os.read(fd, 64)
            if answer := ANSWER.search(said):
                return answer[1].split(b";")
        return []
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


def area_of(stream: TextIO = sys.stdout) -> Area:
    """The size of a terminal, as the kernel knows it."""
    rows = columns = wide = high = 0
    with contextlib.suppress(OSError, ValueError):
        packed = fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, b"\0" * 8)
        rows, columns, wide, high = struct.unpack("HHHH", packed)
    rows, columns = rows or 24, columns or 80
    cell = (wide // columns, high // rows)
    return Area(columns, rows, cell if min(cell) >= 2 else USUAL_CELL)
