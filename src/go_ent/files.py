"""Files that are there wholly or not at all, locks among processes, and reading of ordinary files alone."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".tmp-"


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that it is there wholly or not at all, and stays there: temp file, sync, rename, sync."""
    with _temporary(path, data, mode) as temporary:
        os.replace(temporary, path)
    sync_folder(path.parent)


def write_new(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """The same, of a file that is not there yet. `FileExistsError` for one that is, or a link that leads nowhere."""
    with _temporary(path, data, mode) as temporary:
        os.link(temporary, path, follow_symlinks=False)
    sync_folder(path.parent)


@contextlib.contextmanager
def _temporary(path: Path, data: bytes, mode: int) -> Iterator[str]:
    """A file beside *path* with that in it, on disk, until it was put in its place or left."""
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, *, patience_s: float | None = None) -> Iterator[None]:
    """Alone, among all processes that lock the same file. A process that dies lets go. `OSError` when *patience_s*
    have passed.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if patience_s is None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        else:
            _lock_within(handle, path, patience_s)
        yield
    finally:
        os.close(handle)


def _lock_within(handle: int, path: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise OSError(errno.EBUSY, f"{path} is locked by another process") from None
            time.sleep(0.005)


def read_bounded(path: Path, most: int, *, links: bool = False) -> bytes:
    """A file's bytes, *most* + 1 of them at the most, and only if it is an ordinary file. A link is one only with
    *links*.
    """
    with open_ordinary(path, links=links) as file:
        return file.read(most + 1)


def open_ordinary(path: Path, *, links: bool = False) -> BinaryIO:
    """A file, open for reading, if it is an ordinary one: the end of a pipe or a device may never come."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(f"{path.name} is not an ordinary file")
    return file
