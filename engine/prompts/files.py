"""The files that a task names: read within its project, and no more of them than a prompt could hold.

A name is a path in the project, a folder (its text files) or a pattern (`src/**/*.py`). What folders and patterns find
is in the order of the names, without hidden files and without what tools keep: `.git`, `.venv`, `node_modules`.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from go_ent.composer.project.files import STATE
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask
from go_ent.engine.prompts.cutting import CHARACTERS, share
from go_ent.engine.prompts.fences import one_line

SKIPPED = frozenset({".git", STATE, ".venv", "node_modules", "__pycache__"})
MAX_FILES = 500
MAX_SEEN = 50_000  # names looked at for one pattern or folder
PROBE = 8192
_SIGNS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class FilePart:
    """What was read of a file. With `missing` bytes between them, `text` is its beginning and `tail` its end.

    A file that is not shown, being binary or a link out of the project, has a `note` that says so and no text.
    """

    path: str
    text: str = ""
    tail: str = ""
    missing: int = 0
    note: str = ""


class _NotShown(Exception):
    """Raised when a file is there but not for a prompt. An error if it was named, a note if it was only found."""


def inside(path: str | Path, root: str | Path) -> bool:
    """Whether *path* is in *root* when all links are followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def read_files(project: Path, names: Iterable[str], budget_tokens: int) -> list[FilePart]:
    """The files of those names, each once. `BadTask` names one that is missing, can't be read or is not in the project.

    What is read is bounded by *budget_tokens*: of files that can't fit, only the beginning and the end. It blocks.
    """
    parts: dict[str, FilePart | int] = {}
    for name in names:
        for path, named in _found(project, name):
            if path not in parts or named:
                parts[path] = _looked_at(project, path, named=named)
                if len(parts) > MAX_FILES:
                    raise BadTask(f"{name}: with it there are more than {MAX_FILES} files; name fewer")
    sizes = {path: size for path, size in parts.items() if isinstance(size, int)}
    rooms = dict(zip(sizes, share([*sizes.values()], max(0, budget_tokens) * CHARACTERS), strict=True))
    return [part if isinstance(part, FilePart) else _read(project, path, rooms[path]) for path, part in parts.items()]


def _found(project: Path, name: str) -> Iterator[tuple[str, bool]]:
    """The paths that a name stands for, and whether it names them or only finds them."""
    path = _checked(project, name)
    full = project / path
    if os.path.isdir(full):
        found = [(one, False) for one in _walk(project, path)]
        if not found:
            raise BadTask(f"{name}: there are no files in that folder")
        yield from found
    elif os.path.lexists(full) or not _SIGNS & set(path):
        yield path, True
    else:
        pattern = path.split("/")
        fixed = next(at for at, part in enumerate(pattern) if _SIGNS & set(part))
        start = "/".join(pattern[:fixed])
        found = [(one, False) for one in _walk(project, start) if _fits(one.split("/"), pattern)]
        if not found:
            raise BadTask(f"{name}: no file fits that")
        yield from found


def _checked(project: Path, name: str) -> str:
    """The name as a path in the project, in its one spelling."""
    if not name.strip() or "\0" in name:
        raise BadTask(f"{name!r} is not the name of a file")
    if name.startswith("/"):
        raise BadTask(f"{name}: files are named by their paths in the project, this one is absolute")
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise BadTask(f"{name}: files are in the project, this name leads out of it with ..")
    path = "/".join(parts)
    try:
        outside = not inside(project / path, project)
    except (OSError, ValueError) as error:
        raise BadTask(f"{name!r} is not the name of a file: {error}") from None
    if outside:
        raise BadTask(f"{name}: it is a link that leads out of the project")
    return path


def _walk(project: Path, start: str) -> list[str]:
    """The files under a folder, by path. Links to folders are not followed."""
    if SKIPPED & set(start.split("/")) or not os.path.isdir(project / start):
        return []
    found: list[str] = []
    folders, seen = [start], 0
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(project / folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_SEEN:
                        raise BadTask(
                            f"{start or '.'}: there are more than {MAX_SEEN} files in that folder; name fewer"
                        )
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.name.startswith(".") or entry.name in SKIPPED:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    elif not os.path.isdir(entry.path):
                        found.append(path)
        except OSError as error:
            raise BadTask(f"{one_line(folder)}: it can't be read: {error.strerror}") from None
    return sorted(found)


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path fits a pattern: `**` is any number of folders, `*`, `?` and `[…]` are within one name."""
    states = _onward({0}, pattern)
    for part in parts:
        stay = {at for at in states if at < len(pattern) and pattern[at] == "**"}
        go = {at + 1 for at in states - stay if at < len(pattern) and fnmatch.fnmatchcase(part, pattern[at])}
        states = _onward(stay | go, pattern)
    return len(pattern) in states


def _onward(states: set[int], pattern: Sequence[str]) -> set[int]:
    """The same, and where one gets from there by taking `**` for nothing."""
    for at in range(len(pattern)):
        if at in states and pattern[at] == "**":
            states.add(at + 1)
    return states


def _looked_at(project: Path, path: str, *, named: bool) -> FilePart | int:
    """The size of a text file, or a part that says why it is not shown."""
    try:
        with _opened(project, path) as file:
            size = os.fstat(file.fileno()).st_size
            if b"\0" in file.read(PROBE):
                return FilePart(path, note=f"binary, {size} bytes")
            return size
    except _NotShown as error:
        if named:
            raise BadTask(f"{path}: {error}") from None
        return FilePart(path, note=str(error))


@contextlib.contextmanager
def _opened(project: Path, path: str) -> Iterator[BinaryIO]:
    """A file of the project, open for reading. It is asked where it is once it is open: till then a name can change
    its meaning.
    """
    real = os.path.realpath(project / path)
    if not inside(real, project):
        raise _NotShown("it is a link that leads out of the project")
    try:
        handle = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP}:
            raise _NotShown("there is no such file in the project") from None
        raise BadTask(f"{path}: it can't be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        if not inside(f"/proc/self/fd/{handle}", project):
            raise _NotShown("it is a link that leads out of the project")
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _NotShown("it is not an ordinary file")
        try:
            yield file
        except OSError as error:
            raise BadTask(f"{path}: it can't be read: {error.strerror}") from None


def _read(project: Path, path: str, room: int) -> FilePart:
    """A text file, or its two ends, *room* bytes of it at the most."""
    try:
        with _opened(project, path) as file:
            size = os.fstat(file.fileno()).st_size
            whole = size <= room
            head, tail = file.read(size if whole else room - room // 2), b""
            if not whole:
                file.seek(size - room // 2)
                tail = file.read(room // 2)
    except _NotShown as error:  # it was a text when it was looked at
        return FilePart(path, note=str(error))
    if b"\0" in head or b"\0" in tail:
        return FilePart(path, note=f"binary, {size} bytes")
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(head, final=whole)
    rest = _from_a_sign(tail).decode("utf-8", "replace")
    if (text.count("\ufffd") + rest.count("\ufffd")) * 10 > len(text) + len(rest):
        return FilePart(path, note=f"not a text in UTF-8, {size} bytes")
    return FilePart(path, text.removeprefix("\ufeff"), rest, size - len(head) - len(tail))


def _from_a_sign(data: bytes) -> bytes:
    """*data* without the rest of a character whose beginning was left out."""
    at = next((at for at, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
    return data[at:]
