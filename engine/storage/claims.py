"""Claims: which process runs something. A claim dies with its process, so there is no lease to wait for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Self

from go_ent.engine.core.errors import ExecutionConflict
from go_ent.sandbox.children.proc import is_dead, own_identity, pid_of

GLANCE_S = 0.1
DEAD_S = 1.0  # that what a dead process has forked may take to run a program of its own


class Claim:
    """The right to run something: of one process at a time, and nobody's when that process dies."""

    def __init__(self, path: Path | str, what: str) -> None:
        self._path, self._what = path, what
        self._lock = threading.Lock()
        self._handle: int | None = None
        self.released = False
        self.before: str | None = None  # the identity of the process that had it, and died

    def take(self) -> Self:
        """Take it, or `ExecutionConflict` with the process that has it. In a thread whose waiter has gone, it is not
        taken.
        """
        with self._lock:
            if self.released:
                return self
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                said = self._lock_file(handle)
                mine = _identity_of(os.getpid())
                if os.fstat(handle).st_size > len(mine):
                    os.ftruncate(handle, len(mine))
                os.pwrite(handle, mine, 0)
            except BaseException:  # also a full disk: a claim that is open is taken, whatever its file says
                os.close(handle)
                raise
            self.before = said if is_dead(said) else None
            self._handle = handle
            return self

    def _lock_file(self, handle: int) -> str:
        """Lock it; who had it before. A look at who holds it takes the lock for a moment, and so does what a process
        that was killed has forked, until it runs its own program."""
        until = time.monotonic() + GLANCE_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return _said(handle)
            except BlockingIOError:
                said = _said(handle)
                if time.monotonic() > until + (DEAD_S if is_dead(said) else 0.0):
                    raise ExecutionConflict(
                        f"{self._what} is being run by process {pid_of(said) or 'unknown'}"
                    ) from None
                time.sleep(0.005)

    def release(self) -> None:
        with self._lock:
            self.released = True
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
        said = _said(handle)
        return (
            None if is_dead(said) else pid_of(said)
        )  # what a dead one has forked may still have it open: that runs nothing
    finally:
        os.close(handle)
    return None


@contextlib.contextmanager
def nobodys(path: Path) -> Iterator[None]:
    """While nobody can take the claim on *path*; `BlockingIOError` if somebody has it. Whose it was is not changed."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@cache
def _identity_of(_: int) -> bytes:
    """This process's identity, by its number: a fork has another."""
    return own_identity().encode()


os.register_at_fork(after_in_child=_identity_of.cache_clear)


def _said(handle: int) -> str:
    return os.pread(handle, 60, 0).decode("ascii", "replace")
