"""The journal of an execution: one JSON object a line, each with a checksum, appended and never changed."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from go_ent.engine.core import crash_points
from go_ent.engine.executions.storage import Record
from go_ent.engine.storage.marks import Mark, changed, digest_of, new_digest
from go_ent.engine.storage.records import (
    MAX_JOURNAL,
    MAX_LINE,
    MAX_SEQ,
    Scan,
    check_journal,
    decode,
    encode,
    lost,
    read_records,
)
from go_ent.engine.storage.repair import quarantine

__all__ = ["MAX_JOURNAL", "MAX_LINE", "Journal", "read_records"]


class Journal:
    """Appends records: to memory until it is begun or opened, then to its file. Thread-safe.

    What a process that was killed leaves behind of a file is a prefix of what it appended.
    """

    def __init__(self, path: Path | str, on_synced: Callable[[Mark], None] | None = None) -> None:
        """*on_synced* is told after each sync how far the journal is on disk, before anybody relies on it."""
        self._path = path
        self._on_synced = on_synced
        self._digest = new_digest()
        self._lock = threading.Lock()  # for appending
        self._syncing = threading.Lock()  # for bringing to disk: appending goes on meanwhile
        self._handle: int | None = None
        self._waiting: list[bytes] | None = []  # lines that are in no file yet
        self._seq = 0
        self._size = 0
        self._synced = 0
        self._broken: OSError | None = None

    @cached_property
    def path(self) -> Path:
        """Its file. Most small ones never have one."""
        return Path(self._path)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self._seq

    @property
    def waiting(self) -> bytes | None:
        """All of it, while it is in memory alone; None once it has a file."""
        return None if self._waiting is None else b"".join(self._waiting)

    def begin(self) -> None:
        """Make its file, which is not there yet, with what was appended so far."""
        with self._lock:
            handle = self._open(os.O_EXCL)
            try:
                if self._waiting:
                    lines = b"".join(self._waiting)
                    self._write(handle, lines)
                    self._digest.update(lines)
            except BaseException:
                os.close(handle)
                raise
            self._handle, self._waiting = handle, None

    def open(self, each: Callable[[Record], None] | None = None, *, known: int = 0) -> bool:
        """Begin to append, after giving *each* the records that there are. For the owner alone: what is wrong is
        mended, and noted.

        A torn last line, from a crash, is cut off. A file with damage is kept aside, under another name. *known* is the
        number of a record that was there: if this ends before, the others are lost. Whether nothing was damaged, nor
        lost.
        """
        handle = self._open()
        try:
            scan = Scan(self.path)
            for record in scan:
                if each is not None:
                    each(record)
            notes = []
            if scan.torn:
                notes.append(f"the last record was torn by a crash and cut off: {scan.torn} bytes")
            if scan.gaps or (scan.torn and scan.ended):
                kept = quarantine(self.path)
                notes.append(f"the journal was damaged, and is kept as it was in {kept}")
                os.close(handle)
                handle = -1
                handle = self._open()
            elif scan.torn:
                os.ftruncate(handle, scan.size)
            self._size = check_journal(handle, self.path)
            self._digest = digest_of(self.path, self._size) or new_digest()
        except BaseException:
            if handle >= 0:
                os.close(handle)
            raise
        self._handle, self._waiting, self._seq = handle, None, scan.seq or 0
        missing = self._go_on_after(known)
        if missing is not None and each is not None:
            each(missing)
        for text in notes:
            self.append("note", {"text": text}, sync=True)
        return missing is None and not scan.gaps

    def _open(self, more: int = 0) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | more
        return os.open(self._path, flags, 0o600)

    def _go_on_after(self, seq: int) -> Record | None:
        """Number the next record above *seq*, if this ends before: a state may outlive records that never came to
        disk. The note of it.
        """
        if self._seq >= seq:
            return None
        ended, data = self._seq, lost(self._seq + 1, seq)
        self._seq = seq
        try:
            return {"seq": self.append("note", data, sync=True), "at": time.time(), "kind": "note", **data}
        except BaseException:
            self._seq = ended
            raise

    def note_change(self, seq: int) -> Record:
        """Note that the records up to *seq* are not those that were synced."""
        data = changed(seq)
        return {"seq": self.append("note", data, sync=True), "at": time.time(), "kind": "note", **data}

    def append(
        self, kind: str, data: Mapping[str, Any], *, sync: bool = False, raw: Mapping[str, bytes] | None = None
    ) -> int:
        """Append a record, and give its number; with *sync* it is on disk when this returns. The *raw* members are
        JSON already.
        """
        crash_points.point("journal-before-append")
        with self._lock:
            seq = self._seq + 1
            line = encode(seq, time.time(), kind, data, raw)
            if self._size + len(line) > MAX_JOURNAL or seq >= MAX_SEQ:
                raise OSError(errno.EFBIG, f"the journal of an execution may have {MAX_JOURNAL} bytes")
            if self._waiting is not None:
                self._waiting.append(line)
            else:
                handle = self._usable()
                try:
                    self._write(handle, line)
                except BaseException:
                    self._cut(handle)
                    raise
                self._digest.update(line)
            self._seq, self._size = seq, self._size + len(line)
        crash_points.point("journal-after-append")
        if sync:
            self.sync()
        return seq

    def _usable(self) -> int:
        if self._broken is not None:
            raise OSError(self._broken.errno, f"the journal can't be written any more: {self._broken.strerror}")
        if self._handle is None:
            raise ValueError("the journal is closed")
        return self._handle

    def _write(self, handle: int, line: bytes) -> None:
        crash_points.writing(handle, line)
        written = os.write(handle, line)
        while written < len(line):
            written += os.write(handle, memoryview(line)[written:])

    def _cut(self, handle: int) -> None:
        """Half a record would hide all that follow: if it can't be taken away, there are none."""
        try:
            os.ftruncate(handle, self._size)
        except OSError as error:
            self._broken = error

    def sync(self) -> None:
        """All that was appended is on disk when this returns. One sync serves all who wait for one."""
        wanted = self._size
        with self._syncing:
            if self._synced >= wanted:
                return
            with self._lock:
                handle, covered = self._usable(), self._size
                mark = Mark(seq=self._seq, size=covered, digest=self._digest.hexdigest())
            crash_points.point("journal-before-sync")
            try:
                os.fdatasync(handle)
            except OSError as error:
                self._broken = error  # a second sync may succeed without having brought anything to disk
                raise
            self._synced = covered
            crash_points.point("journal-after-sync")
            if self._on_synced is not None:
                self._on_synced(mark)
                crash_points.point("mark-after-write")

    def records(self) -> Iterator[Record]:
        """All records, read back. Where some are lost, a note says which."""
        waiting = self._waiting
        if waiting is None:
            return iter(Scan(self.path))
        return (found[0] for line in list(waiting) if (found := decode(line)) is not None)

    def close(self) -> None:
        with self._syncing, self._lock:
            self._waiting = None
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
