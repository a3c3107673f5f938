"""Make the objects of a snapshot immortal: a run that only reads them then writes to none of their pages.

CPython takes an object whose reference count is very high for immortal and neither counts nor frees it. The guest lists
the addresses of its objects (`sandbox.guest.census`); here their counts are set in the data segments of the component.
Code that has loaded a constant while it was mortal would go on to count it, so its instruction is replaced as well.
Nothing of the guest's is run or believed: an address counts only if what lies there looks like an object.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from go_ent.sandbox.errors import ImageError
from go_ent.sandbox.images.wasm_binary import COMPONENT, CORE_MODULE, DATA, number, sections

# These as in the guest, where the mark is spelt backwards.
MARK = b"census of the snapshot: here is everyone"
WORDS = 12 << 20
HEAD = struct.Struct("<IHHBBB256s")
# CPython 3.14 on a 32-bit machine: Include/refcount.h.
IMMORTAL = 5 << 28
# More than any count, less than any address of the heap: what is free holds the address of the next free block here.
LARGEST_COUNT = 100_000
SIZE, CONSTANTS = 8, 12  # where code has the number of its units, and its tuple of constants
LARGEST_CODE = 1 << 20

I32_CONST = 0x41


class Segment(NamedTuple):
    """Some bytes of the component that are the guest's memory at an address."""

    address: int
    size: int
    place: int


class Layout(NamedTuple):
    """What the guest says of its code: see `HEAD` there."""

    code_type: int
    instructions: int
    items: int
    mortal: int
    immortal: int
    extended: int
    caches: bytes


class Snapshot:
    """The guest's memory as it lies, in segments, in a component."""

    def __init__(self, component: bytearray) -> None:
        self._bytes = component
        self._segments = sorted(_segments(component, 0, len(component)))
        self._starts = [segment.address for segment in self._segments]

    def place(self, address: int) -> int | None:
        """Where the word at that address is in the component. None: it is zero, or not there at all."""
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        segment = self._segments[at]
        return segment.place + address - segment.address if address + 4 <= segment.address + segment.size else None

    def word(self, address: int) -> int:
        place = self.place(address)
        return 0 if place is None else int(struct.unpack_from("<I", self._bytes, place)[0])

    def set_word(self, address: int, value: int) -> None:
        place = self.place(address)
        assert place is not None
        struct.pack_into("<I", self._bytes, place, value)

    def read(self, address: int, size: int) -> bytearray:
        """The bytes there; what no segment holds is zero."""
        found = bytearray(size)
        at = max(0, bisect_right(self._starts, address) - 1)
        for start, length, place in self._segments[at:]:
            if start >= address + size:
                break
            first, last = max(start, address), min(start + length, address + size)
            if first < last:
                found[first - address : last - address] = self._bytes[place + first - start : place + last - start]
        return found

    def set_byte(self, address: int, value: int) -> None:
        """Set a byte that is not zero now."""
        start, _, place = self._segments[bisect_right(self._starts, address) - 1]
        self._bytes[place + address - start] = value

    def marked(self, address: int, size: int) -> Iterator[int]:
        """The addresses whose bits are set in the bitmap of that many bytes there."""
        for segment, first, last in self._parts(address, size):
            shift = segment.address - segment.place - address
            for place in range(first, last):
                bits = self._bytes[place]
                while bits:
                    lowest = bits & -bits
                    yield 4 * (8 * (place + shift) + lowest.bit_length() - 1)
                    bits ^= lowest

    def wipe(self, address: int, size: int) -> None:
        for _, first, last in self._parts(address, size):
            self._bytes[first:last] = bytes(last - first)

    def _parts(self, address: int, size: int) -> Iterator[tuple[Segment, int, int]]:
        """The segments that hold some of that memory, and which bytes of the component are it."""
        for segment in self._segments:
            first, last = max(segment.address, address), min(segment.address + segment.size, address + size)
            if first < last:
                yield segment, segment.place + first - segment.address, segment.place + last - segment.address

    def find(self, mark: bytes) -> int:
        """The address of a mark that is there once."""
        place = self._bytes.find(mark)
        if place < 0 or self._bytes.find(mark, place + 1) >= 0:
            raise ImageError("the image has no census of its objects, or more than one")
        for segment in self._segments:
            if segment.place <= place < segment.place + segment.size:
                return segment.address + place - segment.place
        raise ImageError("the census of the image's objects isn't in its memory")


def make_immortal(component: bytearray) -> int:
    """Set the counts of the objects in its census; how many there were. The census is wiped."""
    snapshot = Snapshot(component)
    start = snapshot.find(MARK)
    bits = start + len(MARK) + HEAD.size
    known = set(snapshot.marked(bits, WORDS // 8))
    made = 0
    for address in known:
        kind = snapshot.word(address + 4)
        # An object that lived only while the census was taken may have made room for something else since.
        if kind in known and snapshot.word(kind + 4) in known and 0 < snapshot.word(address) < LARGEST_COUNT:
            snapshot.set_word(address, IMMORTAL)
            made += 1
    layout = Layout(*HEAD.unpack(snapshot.read(start + len(MARK), HEAD.size)))
    for address in known:
        if snapshot.word(address + 4) == layout.code_type:
            _load_immortals(snapshot, address, layout)
    snapshot.wipe(start, bits - start + WORDS // 8)
    return made


def _load_immortals(snapshot: Snapshot, code: int, layout: Layout) -> None:
    """Have the code load its immortal constants without counting them."""
    size = snapshot.word(code + SIZE)
    if size > LARGEST_CODE:
        return
    start, constants = code + layout.instructions, snapshot.word(code + CONSTANTS) + layout.items
    units = snapshot.read(start, 2 * size)
    at = wide = 0
    while at < len(units):
        opcode, argument = units[at], units[at + 1] | wide
        wide = argument << 8 if opcode == layout.extended else 0
        if opcode == layout.mortal and snapshot.word(snapshot.word(constants + 4 * argument)) == IMMORTAL:
            snapshot.set_byte(start + at, layout.immortal)
        at += 2 + 2 * layout.caches[opcode]


def _segments(data: bytearray, start: int, end: int) -> Iterator[Segment]:
    """The data segments of a component's, or core module's, modules."""
    for kind, at, stop in sections(data, start, end):
        if kind == CORE_MODULE:
            yield from _module_segments(data, at, stop)
        elif kind == COMPONENT:
            yield from _segments(data, at, stop)


def _module_segments(data: bytearray, start: int, end: int) -> Iterator[Segment]:
    for kind, at, _ in sections(data, start, end):
        if kind == DATA:
            count, place = number(data, at)
            for _ in range(count):
                flags, place = number(data, place)
                if flags != 0 or data[place] != I32_CONST:
                    raise ImageError("the image's memory isn't laid out as expected: a newer componentize-py?")
                address, place = number(data, place + 1)  # signed there, and never negative
                length, place = number(data, place + 1)
                yield Segment(address, length, place)
                place += length
