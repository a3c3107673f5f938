"""Crash points: named places in the commit path where a test can kill the process, or fill its disk.

`GO_ENT_CRASH=NAME` kills it at that point, `NAME:N` when it comes there the N-th time; `full:N` makes the N-th write
to a journal fail as on a full disk. Without the variable a point does nothing.
"""

from __future__ import annotations

import errno
import os
import signal
import threading

from go_ent.composer.project.numbers import whole

NAMES = (
    "create-before-folder",
    "create-after-folder",
    "journal-before-append",
    "journal-mid-line",
    "journal-after-append",
    "journal-before-sync",
    "journal-after-sync",
    "mark-after-write",
    "pack-before-append",
    "pack-after-append",
    "pack-before-sync",
    "pack-after-sync",
    "repair-before-swap",
    "state-before-write",
    "state-before-rename",
    "state-after-rename",
    "call-before-dispatch",
    "call-after-dispatch",
    "step-before-start",
    "step-after-end",
)
FULL = "full"


armed: str | None = None
_at = 0
_times = 0
_lock = threading.Lock()


def _read(said: str) -> tuple[str, int]:
    name, _, number = said.partition(":")
    if name not in (*NAMES, FULL) or (times := whole(number or "1")) is None:
        raise SystemExit(f"GO_ENT_CRASH={said[:80]!r} names no crash point: there are {', '.join((*NAMES, FULL))}")
    return name, times


def arm(said: str | None) -> None:
    """Ask for a crash, as the environment variable does; None: for none."""
    global armed, _at, _times  # noqa: PLW0603
    armed, _at = _read(said) if said else (None, 0)
    _times = 0


def _now(name: str) -> bool:
    """Whether this is the time that was asked for."""
    global _times  # noqa: PLW0603
    if name != armed:
        return False
    with _lock:
        _times += 1
        return _times == _at


def point(name: str) -> None:
    """Die here, if a test has asked for it."""
    if armed is not None and _now(name):
        os.kill(os.getpid(), signal.SIGKILL)


def writing(handle: int, line: bytes) -> None:
    """A line is about to be written: half of it is, and the process dies or the disk is full, if a test has asked
    for it.
    """
    if armed is not None and (_now("journal-mid-line") or _now(FULL)):
        os.write(handle, line[: len(line) // 2])
        if armed == FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("GO_ENT_CRASH"))
