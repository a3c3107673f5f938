"""What in the cache can be relied on: this user's own files, closed to others, that are exactly what was written.

Loading a compiled artefact runs it, so this is looked at before each use. Links lead nowhere, and what another user
made, or could have changed, is not read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from go_ent.files import locked, write_whole
from go_ent.sandbox.errors import ImageError

log = logging.getLogger("go_ent.sandbox.images")
MAX_RECORD = 1 << 20  # bytes of what is written down of an image, or of a sealed file


def private_folder(folder: Path) -> Path:
    """*folder*, made if needed; refused if somebody else owns it, closed to others if it is open to them."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.stat()
    if status.st_uid != os.getuid():
        raise ImageError(f"the cache folder {folder} belongs to another user; set GO_ENT_CACHE to one of your own")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def distrust(status: os.stat_result) -> str | None:
    """Why something in the cache, which is not a link, can't be relied on; None if it can."""
    if status.st_uid != os.getuid():
        return "it belongs to another user"
    return "writable by others" if status.st_mode & 0o022 else None


def foreign(folder: Path) -> str | None:
    """Why a folder inside the cache can't be relied on: somebody else may have made it, or put something there."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return None
    return distrust(status) if stat.S_ISDIR(status.st_mode) else "it is not a folder"


def fresh_folder(folder: Path) -> Path:
    """An empty folder in the cache, whatever was in its place."""
    try:
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink(missing_ok=True)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ImageError(f"{folder} is in the way and can't be removed: {error.strerror}") from None
    return folder


@contextlib.contextmanager
def own_file(path: Path) -> Iterator[int]:
    """A file of the cache, opened; ValueError if it is not this user's own, or not a file. A link is not followed."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a file")
        if problem := distrust(status):
            raise ValueError(problem)
        yield file
    finally:
        os.close(file)


def read_record(path: Path) -> Any:
    """What is written in a JSON file of the cache."""
    with own_file(path) as file:
        data = os.read(file, MAX_RECORD + 1)
    if len(data) > MAX_RECORD:
        raise ValueError(f"more than {MAX_RECORD} bytes")
    return json.loads(data)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Held by one process at a time; ends with it. Its folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(path):
        yield


def seal(path: Path, extra: dict[str, Any]) -> None:
    """Record what the file at *path* is, so that it can be recognised."""
    with own_file(path) as file:
        record = {**extra, **_marks(os.fstat(file)), "sha256": _digest(file)}
    write_whole(_seal_of(path), json.dumps(record, indent=1).encode(), mode=0o600)


def _marks(status: os.stat_result) -> dict[str, int]:
    """What changes when a file does. Its `ctime` nobody can set: who writes to it, or puts another in its place,
    leaves that.
    """
    return {
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "ctime_ns": status.st_ctime_ns,
        "inode": status.st_ino,
    }


def _seal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def sealed(path: Path, extra: dict[str, Any]) -> bool:
    """Whether *path* is the very file that was sealed. Anything else is named in the log and not trusted."""
    if not os.path.lexists(path):
        return False
    try:
        record = read_record(_seal_of(path))
        if any(record.get(name) != value for name, value in extra.items()):
            raise ValueError("made for something else")
        with own_file(path) as file:
            marks = _marks(os.fstat(file))
            if marks["size"] != record["size"]:
                raise ValueError(f"{marks['size']} bytes instead of {record['size']}")
            untouched = all(record.get(name) == value for name, value in marks.items())
            if not untouched and _digest(file) != record["sha256"]:
                raise ValueError("its content has changed")
        if not untouched:
            seal(path, extra)
        return True
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("%s is not to be trusted (%s): it is made again", path, error)
        return False


def digest_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(file: int) -> str:
    with open(file, "rb", closefd=False) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
