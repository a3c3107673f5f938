"""How large a guest's linear memory is, read from the process's memory map.

wasmtime's API for components does not tell. The memory starts as a private mapping of the compiled artefact, so it
can be found by the artefact's path, and it ends where its writable pages end. It never shrinks: its size at the end
is its peak.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import threading

# struct procmap_query of Linux 6.11: one system call instead of formatting the whole map.
_QUERY = struct.Struct("@9Q4I2Q")
_PROCMAP_QUERY = 0xC0000000 | _QUERY.size << 16 | ord("f") << 8 | 17
_WRITABLE, _OR_NEXT, _FILE_BACKED = 0x02, 0x10, 0x20


def _mappings(pid: int | str) -> list[tuple[int, int, str, str]]:
    found = []
    for line in (
        (own_map.text() if pid == "self" else _read(f"/proc/{pid}/maps")).decode("utf-8", "replace").splitlines()
    ):
        head, _, name = line.partition("/")
        span, flags, *_ = head.split()
        start, _, end = span.partition("-")
        found.append((int(start, 16), int(end, 16), flags, f"/{name}" if name else ""))
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def size_from_map(path: str, image: int | None = None, pid: int | str = "self") -> int:
    """The size of the linear memory around the mapping that starts at *image* (or the only one there is)."""
    mappings = _mappings(pid)
    at = next(
        (
            index
            for index, (start, _, flags, name) in enumerate(mappings)
            if name == path and flags.startswith("rw") and image in (None, start)
        ),
        None,
    )
    if at is None:
        return 0
    first = last = at
    while first > 0 and mappings[first - 1][1] == mappings[first][0] and mappings[first - 1][2].startswith("rw"):
        first -= 1
    while (
        last + 1 < len(mappings)
        and mappings[last + 1][0] == mappings[last][1]
        and mappings[last + 1][2].startswith("rw")
    ):
        last += 1
    return mappings[last][1] - mappings[first][0]


class MemoryMap:
    """This process's memory map, asked one mapping at a time; the whole of it is formatted only by older kernels."""

    def __init__(self) -> None:
        self._file: int | None = None
        self.can_query = True
        self._name = ctypes.create_string_buffer(4096)
        self.lock = threading.Lock()
        self.claimed: set[int] = set()

    def open(self) -> int:
        """The descriptor of the map: once a worker is shut in it can't open one any more."""
        if self._file is None:
            self._file = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
        return self._file

    def text(self) -> bytes:
        file, found = self.open(), b""
        while part := os.pread(file, 1 << 16, len(found)):
            found += part
        return found

    def _query(self, address: int, flags: int) -> tuple[int, int, bytes] | None:
        """The first mapping at *address* (or after it, with `_OR_NEXT`) that matches: start, end, name."""
        named = flags & _FILE_BACKED
        name_size, name_at = (len(self._name), ctypes.addressof(self._name)) if named else (0, 0)
        query = bytearray(_QUERY.pack(_QUERY.size, flags, address, *[0] * 8, name_size, 0, name_at, 0))
        try:
            fcntl.ioctl(self.open(), _PROCMAP_QUERY, query)
        except FileNotFoundError:
            return None
        fields = _QUERY.unpack(query)
        return fields[3], fields[4], self._name.value if named else b""

    def images(self, path: str) -> set[int]:
        """Where the private writable mappings of the artefact start: one for each live guest."""
        if self.can_query:
            try:
                found, address, wanted = set(), 0, os.fsencode(path)
                while (mapping := self._query(address, _WRITABLE | _OR_NEXT | _FILE_BACKED)) is not None:
                    start, address, name = mapping
                    if name == wanted:
                        found.add(start)
                return found
            except OSError:
                self.can_query = False
        return {start for start, _, flags, name in _mappings("self") if name == path and flags.startswith("rw")}

    def claim(self, path: str) -> int:
        """Where the guest that was just made has its image; 0 if that can't be told. Call it under `lock`."""
        new = self.images(path) - self.claimed
        if not new:  # the map has changed under the questions: other threads' memory comes and goes
            new = self.images(path) - self.claimed
        self.claimed |= new
        return next(iter(new)) if len(new) == 1 else 0

    def bounds(self, image: int) -> tuple[int, int]:
        """The writable memory around *image*: where it starts and ends."""
        middle = self._query(image, _WRITABLE)
        if middle is None:
            return 0, 0
        first, end, _ = middle
        while (below := self._query(first - 1, _WRITABLE)) is not None:
            first = below[0]
        return first, self.end(end)

    def end(self, end: int) -> int:
        """Where memory that once ended at *end* ends now."""
        while (above := self._query(end, _WRITABLE)) is not None:
            end = above[1]
        return end

    def after_fork(self) -> None:
        """The map that was open is the parent's."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class MemoryMeter:
    """Measures the linear memory of one guest, made just now."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._image = own_map.claim(path)
        self._first = self._end = 0

    def size(self) -> int:
        if not self._image:
            return 0
        if not own_map.can_query:
            return size_from_map(self._path, self._image)
        if not self._end:
            self._first, self._end = own_map.bounds(self._image)
        else:
            self._end = own_map.end(self._end)
        return self._end - self._first

    def close(self) -> None:
        own_map.claimed.discard(self._image)


own_map = MemoryMap()
os.register_at_fork(after_in_child=own_map.after_fork)
