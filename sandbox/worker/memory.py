"""A guest's linear memory, as the process's memory map shows it: wasmtime's API for components does not tell.

It starts as a private mapping of the compiled artefact, so it can be found by the artefact's path, or as one of the
snapshot that is mapped over it. It ends where its writable pages end, and never shrinks: its size is its peak.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct

SNAPSHOT = "go-ent-snapshot"
# struct procmap_query of Linux 6.11: one system call instead of formatting the whole map.
_QUERY = struct.Struct("@9Q4I2Q")
_PROCMAP_QUERY = 0xC0000000 | _QUERY.size << 16 | ord("f") << 8 | 17
_WRITABLE, _OR_NEXT, _FILE_BACKED = 0x02, 0x10, 0x20


def size_from_map(path: str, text: bytes) -> int:
    """The size of the guest's memory in a memory map, of this process or another; 0 if there is no guest in it."""
    names = (path, f"/memfd:{SNAPSHOT} (deleted)")
    first = last = 0
    within = False
    for line in text.decode("utf-8", "replace").splitlines():
        head, slash, name = line.partition("/")
        span, flags, *_ = head.split()
        start, end = (int(address, 16) for address in span.split("-"))
        if not flags.startswith("rw") or start != last:
            if within:
                break
            first = start
        if flags.startswith("rw"):
            last = end
            within = within or slash + name in names
    return last - first if within else 0


def map_of(pid: int) -> bytes:
    """The memory map of another process."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        return file.read()


class MemoryMap:
    """This process's memory map, asked one mapping at a time; the whole of it is formatted only by older kernels."""

    def __init__(self) -> None:
        self._file: int | None = None
        self.can_query = True
        self._name = ctypes.create_string_buffer(4096)

    def open(self) -> int:
        """The descriptor of the map: once a worker is shut in it can't open one any more."""
        if self._file is None:
            self._file = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
        return self._file

    def text(self) -> bytes:
        file, text = self.open(), b""
        while part := os.pread(file, 1 << 16, len(text)):
            text += part
        return text

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

    def bounds(self, path: str) -> tuple[int, int]:
        """Where the memory of the one guest in this process starts and ends; (0, 0) if the kernel can't be asked."""
        address, wanted = 0, os.fsencode(path)
        try:
            while self.can_query and (mapping := self._query(address, _WRITABLE | _OR_NEXT | _FILE_BACKED)) is not None:
                first, address, name = mapping
                if name == wanted:
                    while (below := self._query(first - 1, _WRITABLE)) is not None:
                        first = below[0]
                    return first, self.end(address)
        except OSError:
            self.can_query = False
        return 0, 0

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
    """Measures the memory of the one guest of this process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.first, self.end = own_map.bounds(path)

    def size(self) -> int:
        if not self.end:
            return size_from_map(self._path, own_map.text())
        self.end = own_map.end(self.end)
        return self.end - self.first


own_map = MemoryMap()
os.register_at_fork(after_in_child=own_map.after_fork)
