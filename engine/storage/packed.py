"""Small executions that have ended, many to a file: each is a header and its whole journal, appended in one write.

Files are numbered, and the last one is appended to. What is removed is named in a later line; the oldest file goes when
little of it is left. Several processes append at once, without a lock that one which hangs could keep.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from go_ent.composer.project.files import ignore_state, sync_folder
from go_ent.composer.project.numbers import whole
from go_ent.engine.core import crash_points
from go_ent.engine.core.ids import ID
from go_ent.engine.storage.records import check_journal, decode, encode, open_journal

FOLDER = "packed"
FILE = re.compile(r"([0-9]{6})\.jsonl")
MAX_FILE = 4 << 20  # from there on the next one is begun
MAX_PACKED = 64 << 10  # bytes of a journal: a larger one has a folder of its own
MOST_REMOVED = 500  # that one line names
MOST_FILES = 999_999


class Place(NamedTuple):
    """Where a packed journal is: its bytes begin at *offset* of a file."""

    number: int
    offset: int
    size: int


class Entry(NamedTuple):
    """What a file has next: the journal of an execution, ids of some that were removed, or damage."""

    end: int
    execution_id: str = ""
    place: Place | None = None
    removed: tuple[str, ...] = ()
    damaged: int = 0  # bytes


class Packed:
    """The packed executions in *folder*, that of all executions. Thread-safe. `append` does not wait for the disk;
    the others block.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._number = 0
        self._ended = 0  # where what was appended last ends
        self._dirty = False

    def append(self, execution_id: str, journal: bytes) -> tuple[int, Place]:
        """Keep a journal: where its entry begins, and where it is itself.

        Who is killed afterwards has kept it; a machine that stops may lose it until `sync`. `OSError` if it can't be
        kept.
        """
        said = {"id": execution_id, "bytes": len(journal), "body": f"{zlib.crc32(journal):08x}"}
        header = encode(1, time.time(), "packed", said)
        number, end = self._append(header + journal)
        return end - len(header) - len(journal), Place(number, end - len(journal), len(journal))

    def remove(self, ids: Iterable[str]) -> None:
        """They are gone, and stay so, when this returns."""
        ids = list(ids)
        for start in range(0, len(ids), MOST_REMOVED):
            self._append(encode(1, time.time(), "removed", {"ids": ids[start : start + MOST_REMOVED]}))
        self.sync()

    def _append(self, data: bytes) -> tuple[int, int]:
        """The file that *data* is in now, and where it ends."""
        crash_points.point("pack-before-append")
        with self._lock:
            for _ in range(3):
                handle = self._open()
                size = os.fstat(handle).st_size
                if size < MAX_FILE:
                    break
                self._close()
                self._number += 1
            # What was torn by a full disk takes no other line with it.
            whole = size in (0, self._ended) or os.pread(handle, 1, size - 1) == b"\n"
            begun, self._ended = b"" if whole else b"\n", -1
            crash_points.writing(handle, data)
            if os.write(handle, begun + data) < len(begun) + len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._dirty = True
            number, end = self._number, os.lseek(handle, 0, os.SEEK_CUR)
            self._ended = end
        crash_points.point("pack-after-append")
        return number, end

    def _open(self) -> int:
        if self._handle is not None:
            return self._handle
        try:
            number = max(self._number, *self.sizes(), 1)
            self._handle = self._open_file(number)
        except FileNotFoundError:
            self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            ignore_state(self.folder.parents[1])
            number, self._handle = 1, self._open_file(1)
        self._number = number
        return self._handle

    def _open_file(self, number: int) -> int:
        if any(folder.is_symlink() for folder in (self.folder, *self.folder.parents[:2])):
            raise OSError(errno.ELOOP, f"{self.folder} is reached by a link, and state is written only where it is")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(self._path(number), flags, 0o600)
        try:
            check_journal(handle, self._path(number))
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.jsonl"

    def sync(self) -> None:
        """All that was appended here is on disk when this returns."""
        with self._lock:
            if not self._dirty or self._handle is None:
                return
            handle, self._dirty = os.dup(self._handle), False
        crash_points.point("pack-before-sync")
        try:
            os.fdatasync(handle)
            sync_folder(self.folder)
        finally:
            os.close(handle)
        crash_points.point("pack-after-sync")

    def close(self) -> None:
        """Let go of the file. The next use opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._handle is not None:
            if self._dirty:
                os.fdatasync(self._handle)
                self._dirty = False
            os.close(self._handle)
            self._handle, self._ended = None, 0

    # -- reading

    def sizes(self) -> dict[int, int]:
        """The files there are, by number, and how large each is."""
        found: dict[int, int] = {}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.folder) as entries:
            for entry in entries:
                if (named := FILE.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
                    found[whole(named[1]) or 0] = entry.stat(follow_symlinks=False).st_size
        return dict(sorted(found.items()))

    def entries(self, number: int, offset: int = 0) -> Iterator[Entry]:
        """What a file has from *offset* on, where an entry begins. A last one that is not whole is not among them."""
        file = open_journal(self._path(number))
        if file is None:
            return
        with file:
            at = bad = offset
            file.seek(offset)
            while line := file.readline(MAX_PACKED):
                at += len(line)
                entry = self._entry(file, number, line, at)
                if entry is None:
                    file.seek(at)
                    continue
                if bad < at - len(line):
                    yield Entry(at - len(line), damaged=at - len(line) - bad)
                at = bad = entry.end
                yield entry
            if bad < at and line.endswith(b"\n"):
                yield Entry(at, damaged=at - bad)

    def _entry(self, file: BinaryIO, number: int, line: bytes, at: int) -> Entry | None:
        """The entry whose first line this is; None if it is none, or not whole."""
        if line == b"\n":
            return Entry(at)
        found = decode(line) if line.startswith(b'{"at":') else None
        record = {} if found is None else found[0]
        if record.get("kind") == "removed" and isinstance(ids := record.get("ids"), list):
            return Entry(at, removed=tuple(one for one in ids if isinstance(one, str) and ID.fullmatch(one)))
        execution_id, size = record.get("id"), record.get("bytes")
        if record.get("kind") != "packed" or type(size) is not int or not 0 < size <= MAX_PACKED:
            return None
        if not isinstance(execution_id, str) or not ID.fullmatch(execution_id):
            return None
        journal = file.read(size)
        if len(journal) < size or f"{zlib.crc32(journal):08x}" != record.get("body"):
            return None
        return Entry(at + size, execution_id, Place(number, at, size))

    def path(self, place: Place) -> Path:
        """The file that a journal is in."""
        return self._path(place.number)

    def read(self, place: Place) -> bytes:
        """A journal as it is; `OSError` if its file is gone, or ends before."""
        file = open_journal(self._path(place.number))
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path(place.number)))
        with file:
            file.seek(place.offset)
            journal = file.read(min(place.size, MAX_PACKED))
        if len(journal) < place.size:
            raise OSError(errno.EIO, f"{self._path(place.number).name} was cut")
        return journal

    def drop(self, number: int) -> None:
        """Delete a file that nobody needs. Never the last two: somebody may be appending there."""
        if number + 1 < max(self.sizes(), default=0):
            self._path(number).unlink(missing_ok=True)
