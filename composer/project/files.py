"""Where a project keeps its state, and how files are written so that a crash loses nothing."""

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

from go_ent.sandbox.worker.paths import users_folder

STATE = ".go-ent"
TEMPORARY = ".tmp-"


def find_project(start: Path | str = ".") -> Path:
    """The nearest folder at or above *start* with a `.go-ent` in it; *start* itself if there is none."""
    start = Path(start).resolve()
    return next((folder for folder in (start, *start.parents) if (folder / STATE).is_dir()), start)


def user_data() -> Path:
    """The user's own folder, for what is not a project's."""
    return users_folder("GO_ENT_DATA", "XDG_DATA_HOME", ".local/share")


# Of a state folder, what is not to be committed with its project: everything but tools, settings, prompts and skills.
IGNORED = ("journal/", "executions/", "workflows/", "loops/", "*.db*", ".*.db*", ".lock", ".*.lock", ".tmp-*")


def ignore_state(state: Path) -> bool:
    """Keep what is not to be committed out of a project's repository, if nobody has said what that is. Whether that
    was done now.
    """
    path = state / ".gitignore"
    if state.name != STATE or os.path.lexists(path):
        return False
    try:
        with open(path, "x", opener=_not_through_links) as file:
            file.write("".join(f"{line}\n" for line in IGNORED))
        return True
    except OSError:
        return False


def _not_through_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_EXCL, 0o644)


def check_database(path: Path) -> None:
    """Refuse a database of ours that somebody else has made up: before SQLite opens it, it obeys what lies beside it.

    Ours are always in WAL mode. A rollback journal can name any file for SQLite to delete.
    """
    if os.path.lexists(f"{path}-journal"):
        raise OSError(f"{path}-journal is none of ours: remove it")
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):  # the latter two come and go with connections
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(name.lstat().st_mode):
                raise OSError(f"{name} is not an ordinary file")
    with contextlib.suppress(FileNotFoundError):
        if read_bounded(path, 19)[18:20] != b"\x02\x02":
            raise OSError(f"{path} is not a database of ours: move it away")


def check_folder(folder: Path) -> None:
    """Refuse a folder of a project's state that is a link, or in one: a project comes from elsewhere, and a link may
    lead anywhere.
    """
    if folder.is_symlink() or folder.parent.is_symlink():
        raise OSError(errno.ELOOP, f"{folder} is a link, or in one, and state is written only where it is")


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that it is there wholly or not at all, and stays there: temp file, sync, rename, sync."""
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


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
