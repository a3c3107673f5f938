"""The binary form of WebAssembly, as far as images are looked into: sections, and numbers."""

from __future__ import annotations

from collections.abc import Iterator

CORE_MODULE, CORE_INSTANCE, COMPONENT, CANON = 1, 2, 4, 8  # sections of a component
CUSTOM, IMPORT, MEMORY, GLOBAL, EXPORT, START, ELEMENT = 0, 2, 5, 6, 7, 8, 9  # of a core module
CODE, DATA, DATA_COUNT, TAG = 10, 11, 12, 13
HEADER = 8  # a magic number, a version


def sections(data: bytes | bytearray, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The sections of the component or module there: what each is, where it starts and ends. IndexError if it is cut
    off.
    """
    at = start + HEADER
    while at < end:
        kind = data[at]
        size, at = number(data, at + 1)
        if at + size > end:
            raise IndexError("a section is longer than what it is in")
        yield kind, at, at + size
        at += size


def number(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """A LEB128 number, as if it had no sign, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
