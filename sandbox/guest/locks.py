"""Locks where there is one thread: what would block for ever is an error at once, what has a timeout waits for it."""

import queue
import threading
from typing import Any

from guest.bridge import bridge


class Deadlock(RuntimeError):
    """Raised when the code waits for something that nothing can bring about any more."""


class Lock:
    """`threading.Lock`."""

    def __init__(self) -> None:
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._held:
            self._held = True
            return True
        if not blocking:
            return False
        if timeout < 0:
            raise Deadlock(
                "the code waits for a lock, event or queue that no other thread can release: there are no threads here"
            )
        bridge.sleep(timeout)
        return False

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


def install() -> None:
    """Make threading's locks these. Done once, before the snapshot."""
    library: Any = threading
    library.Lock = library._allocate_lock = Lock
    library.RLock = library._CRLock = library._RLock
    library = queue
    library.SimpleQueue = library._PySimpleQueue
