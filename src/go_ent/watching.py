"""Being told when something in a folder changes: by the kernel, so that nobody has to look."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger("go_ent")
EVENT = struct.Struct("iIII")  # which watch, what, a cookie, the bytes of the name
IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x2, 0x8, 0x80, 0x100, 0x200
IN_OVERFLOW, IN_IGNORED, IN_ONLYDIR, IN_DONT_FOLLOW = 0x4000, 0x8000, 0x1000000, 0x2000000
MASK = IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ONLYDIR | IN_DONT_FOLLOW
LOCK = b"lock"
FALLBACK_S = 1.0


class FolderWatch:
    """Calls *told*, in a thread of its own, after something in one of some folders has changed, and once after each
    `follow`. Folders need not be there yet. What only a reader of an SQLite database does is no change; that a lock is
    let go of is one. Where the kernel watches nothing more for this user, *told* is called every second instead.

    Links are not followed, and what is below a folder is not watched.
    """

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told
        self._lock = threading.Lock()
        self._wanted: set[Path] = set()
        self._watched: dict[int, Path] = {}
        self._library = ctypes.CDLL(None, use_errno=True)
        self._handle: int = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle < 0:
            log.warning("folders are looked at every second: inotify: %s", os.strerror(ctypes.get_errno()))
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._over = False
        self._thread = threading.Thread(target=self._run, name="folder watch", daemon=True)
        self._thread.start()

    def follow(self, folders: Iterable[Path]) -> None:
        """Watch these folders instead of those before."""
        with self._lock:
            if self._over:
                return
            self._wanted = set(folders)
            self._arm()
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """*told* is not called any more when this returns."""
        with self._lock:
            if self._over:
                return
            self._over = True
        os.eventfd_write(self._wake, 1)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _arm(self) -> None:
        """Watch what is wanted; instead of what is not there, the nearest folder above that is."""
        if self._handle < 0:
            return
        needed: dict[int, Path] = {}
        for folder in self._wanted:
            for place in (folder, *folder.parents):
                number = self._library.inotify_add_watch(self._handle, os.fsencode(place), MASK)
                if number >= 0:
                    needed[number] = place
                    break
        for number in self._watched.keys() - needed.keys():
            self._library.inotify_rm_watch(self._handle, number)
        self._watched = needed

    def _run(self) -> None:
        poll = select.poll()
        for handle in (self._wake, *([self._handle] if self._handle >= 0 else [])):
            poll.register(handle, select.POLLIN)
        try:
            while True:
                ready = poll.poll(None if self._handle >= 0 else FALLBACK_S * 1000)
                changed = not ready
                for handle, _ in ready:
                    changed = (self._read() if handle == self._handle else self._woken()) or changed
                if self._over:
                    return
                if changed:
                    self._told()
        finally:
            for handle in (self._handle, self._wake):
                with contextlib.suppress(OSError):
                    os.close(handle)

    def _woken(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        return True

    def _read(self) -> bool:
        """Whether a wanted folder has changed, or has come or gone."""
        changed = False
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._handle, 1 << 16)
            with self._lock:
                at, moved = 0, False
                while at < len(data):
                    number, mask, _, length = EVENT.unpack_from(data, at)
                    name = data[at + EVENT.size : at + EVENT.size + length].rstrip(b"\0")
                    at += EVENT.size + length
                    here = self._watched.get(number)
                    if mask & IN_IGNORED or (mask & (IN_CREATE | IN_MOVED_TO) and here is not None):
                        moved = moved or mask & IN_IGNORED > 0 or here not in self._wanted or self._awaited(here, name)
                    changed = changed or mask & IN_OVERFLOW > 0 or (here in self._wanted and _matters(mask, name))
                if moved:
                    before = set(self._watched.values())
                    self._arm()
                    changed = changed or set(self._watched.values()) != before
        return changed

    def _awaited(self, here: Path | None, name: bytes) -> bool:
        return here is not None and here / os.fsdecode(name) in self._wanted


def _matters(mask: int, name: bytes) -> bool:
    if name.endswith(b"-shm"):
        return False
    if name.endswith(b"-wal"):
        return mask & IN_MODIFY > 0
    return mask & ~IN_CLOSE_WRITE & 0xFFF > 0 or name == LOCK
