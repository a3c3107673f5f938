"""Where a project keeps its state, and how files are written so that a crash loses nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

STATE = ".go-ent"
TEMPORARY = ".tmp-"


def find_project(start: Path | str = ".") -> Path:
    """The nearest folder at or above *start* with a `.go-ent` in it; *start* itself if there is none."""
    start = Path(start).resolve()
    return next((folder for folder in (start, *start.parents) if (folder / STATE).is_dir()), start)


def user_data() -> Path:
    """The user's own folder, for what is not a project's."""
    base = os.environ.get("GO_ENT_DATA")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "go-ent"


def ignore_state(state: Path) -> None:
    """What is not to be committed with a project: everything in its state folder but tools and configuration."""
    path = state / ".gitignore"
    if state.name == STATE and not path.exists():
        with contextlib.suppress(OSError):
            path.write_text("journal/\nusage.db*\n.usage.db*\n.lock\n.tmp-*\n")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there wholly or not at all, and stays there: temp file, sync, rename, sync."""
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
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
def locked(path: Path) -> Iterator[None]:
    """Alone, among all processes that lock the same file. A process that dies lets go."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_bounded(path: Path, most: int) -> bytes:
    """A file's bytes, *most* + 1 of them at the most, and only if it is an ordinary file."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as file:
        if not os.path.isfile(f"/proc/self/fd/{file.fileno()}"):
            raise OSError(f"{path.name} is not an ordinary file")
        return file.read(most + 1)
