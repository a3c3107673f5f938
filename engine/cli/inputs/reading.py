"""Where a value is read from: what was typed, `@FILE`, or `-` for stdin. All of it is bounded."""

from __future__ import annotations

import array
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.terminal.output import say, tty

MOST_READ = 32 << 20  # bytes of a file, or of stdin


def read_inputs(text: str) -> dict[str, Any]:
    """The JSON object after --input."""
    inputs = read_input(text)
    if not isinstance(inputs, dict):
        raise UsageError(f"--input must be a JSON object like '{{\"name\": 1}}', not {type(inputs).__name__}")
    return inputs


def read_input(text: str) -> Any:
    """The JSON value after --input: as it stands there, in a file or on stdin."""
    if text.startswith("@") or text == "-":
        named, text = text, as_text(read_named(text, "--input"), f"--input {text}")
        if not text.strip():
            raise UsageError(f"--input {named} is empty: it must be JSON")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--input is not JSON: {error}") from None


def read_named(text: str, option: str) -> bytes:
    """What `@FILE` or `-` names."""
    if text == "-":
        return read_stdin()
    try:
        return read_file(Path(text[1:]))
    except OSError as error:
        raise UsageError(f"{option} {text}: {error.strerror}") from None


def read_file(path: Path, most: int = MOST_READ) -> bytes:
    """All of a file that somebody has named; not more than *most*."""
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UsageError(f"{path} is larger than {most >> 20} MB")
    return data


def read_stdin(most: int = MOST_READ) -> bytes:
    """All of stdin, not more than *most*. On a terminal somebody is told that it is waited for."""
    if tty(sys.stdin):
        say("reading stdin; Ctrl-D ends it", err=True)
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise UsageError(f"stdin is larger than {most >> 20} MB")
    return data


def as_text(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} is not UTF-8: {error.reason} at byte {error.start}") from None


def refuse_ignored(how: str) -> None:
    """Refuse what waits on stdin, where nothing would read it. *how* is how it would be read.

    Only a pipe is looked at: a script that runs commands in a loop over a file hands each of them that file.
    """
    import fcntl
    import termios

    try:
        number = sys.stdin.fileno()
        if not stat.S_ISFIFO(os.fstat(number).st_mode):
            return
        waiting = array.array("i", [0])
        fcntl.ioctl(number, termios.FIONREAD, waiting)
    except (OSError, ValueError, AttributeError):
        return
    if waiting[0]:
        raise UsageError(f"stdin has data that nothing would read: {how}, or give it nothing with < /dev/null")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
