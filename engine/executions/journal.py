"""The journal of an execution: one JSON object a line, appended, never changed."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from pydantic_core import to_json

MAX_LINE = 64 << 20


class Journal:
    """Appends records. Thread-safe; a record is there wholly or, after a crash, is a torn last line that is cut off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._seq = 0
        self._deferred = False
        self._dirty = False

    def open(self) -> list[dict[str, Any]]:
        """Its records so far. A torn last line, from a crash, is cut off so that the next record is whole."""
        records, whole = read_records(self.path)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(handle).st_size > whole:
            os.ftruncate(handle, whole)
        self._handle = handle
        self._seq = records[-1]["seq"] if records else 0
        return records

    def go_on_after(self, seq: int) -> None:
        """Number the next record above *seq*: a state may have outlived records that were not yet on disk."""
        self._seq = max(self._seq, seq)

    def defer(self, deferred: bool) -> None:
        """Sync only when told to, so that several records cost one sync; then sync them."""
        self._deferred = deferred
        if not deferred:
            self.sync()

    def sync(self) -> None:
        """Bring to disk what was appended to be there."""
        with self._lock:
            if self._dirty and self._handle is not None:
                os.fdatasync(self._handle)
                self._dirty = False

    def append(self, kind: str, data: dict[str, Any], *, sync: bool) -> int:
        """Append a record; with *sync* it is on disk when this returns."""
        with self._lock:
            if self._handle is None:
                raise ValueError("the journal is closed")
            self._seq += 1
            line = to_json({"seq": self._seq, "at": time.time(), "kind": kind, **data}, inf_nan_mode="null") + b"\n"
            size = os.fstat(self._handle).st_size
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(self._handle, view) :]
                self._dirty = self._dirty or sync
                if sync and not self._deferred:
                    os.fdatasync(self._handle)
                    self._dirty = False
            except OSError:
                self._seq -= 1
                os.ftruncate(self._handle, size)  # half a record would hide all that follow
                raise
            return self._seq

    def close(self) -> None:
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None


def read_records(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The whole records of a journal, and how many bytes they take. What follows a damaged line is not taken."""
    records: list[dict[str, Any]] = []
    whole = 0
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return records, whole
    with os.fdopen(handle, "rb") as file:
        if not os.path.isfile(f"/proc/self/fd/{file.fileno()}"):
            return records, whole
        while line := file.readline(MAX_LINE):
            if not line.endswith(b"\n"):
                break
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not isinstance(record, dict) or not isinstance(record.get("seq"), int) or not isinstance(record.get("kind"), str):
                break
            records.append(record)
            whole += len(line)
    return records, whole
