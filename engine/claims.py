"""Claims: which process runs something. A claim dies with its process, so there is no lease to wait for."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import Self

from engine.errors import ExecutionConflict


class Claim:
    """The right to run something: of one process at a time, and nobody's when that process dies."""

    def __init__(self, path: Path, what: str) -> None:
        self._path, self._what = path, what
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._released = False

    def take(self) -> Self:
        """Take it, or `ExecutionConflict` with the process that has it. In a thread whose waiter has gone, it is not taken."""
        with self._lock:
            if self._released:
                return self
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            for _ in range(20):  # a look at who holds it takes the lock for a moment
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.005)
                else:
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, str(os.getpid()).encode(), 0)
                    self._handle = handle
                    return self
            said = os.pread(handle, 20, 0).decode("ascii", "replace")
            os.close(handle)
            raise ExecutionConflict(f"{self._what} is being run by process {said or 'unknown'}")

    def release(self) -> None:
        with self._lock:
            self._released = True
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None

    def __enter__(self) -> Self:
        return self.take()

    def __exit__(self, *_: object) -> None:
        self.release()


def held_by(path: Path) -> int | None:
    """The process that holds the claim on *path*, if one does; 0 if it is not known which."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        said = os.pread(handle, 20, 0)
        return int(said) if said.isdigit() else 0
    finally:
        os.close(handle)
    return None
