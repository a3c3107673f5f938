"""Whether a guest is what it was before its run: all of its memory, and all of its globals. For tests of the reset.

wasmtime does not show a component's globals, so they are looked for in this process's memory, by their values, once.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from go_ent.sandbox.worker.memory import SNAPSHOT, own_map
from go_ent.sandbox.worker.snapshot import Snapshot

APART = 16  # bytes from one global of an instance to the next
LARGEST = 1 << 30


class Comparison:
    def __init__(self, snapshot: Snapshot, modules: Sequence[Sequence[int]]) -> None:
        """*modules*: for each core module that has globals which can change, the values of all it defines."""
        self._snapshot = snapshot
        self._globals = [(_find(values), values) for values in modules]

    def difference(self) -> str:
        """What is not as it was; "" if all is."""
        for module, (at, values) in enumerate(self._globals):
            for index, value in enumerate(values):
                now = ctypes.c_uint32.from_address(at + APART * index).value
                if now != value:
                    return f"global {index} of module {module} is {now:#x}, not {value:#x}"
        return self._snapshot.difference()


def _find(values: Sequence[int]) -> int:
    """Where the globals of a module are: at the one place with all of their values."""
    places = []
    first = struct.pack("<I", max(values))
    offset = APART * values.index(max(values))
    for line in own_map.text().splitlines():
        span, flags, *_ = line.split()
        start, end = (int(address, 16) for address in span.split(b"-"))
        if not flags.startswith(b"rw") or end - start > LARGEST or SNAPSHOT.encode() in line:
            continue
        memory = ctypes.string_at(start, end - start)
        at = memory.find(first)
        while at >= 0:
            here = at - offset
            if (
                here >= 0
                and here % 8 == 0
                and all(
                    memory[here + APART * index : here + APART * index + 4] == struct.pack("<I", value)
                    for index, value in enumerate(values)
                )
            ):
                places.append(start + here)
            at = memory.find(first, at + 1)
    if len(places) != 1:
        raise LookupError(f"the globals of the guest are at {len(places)} places")
    return places[0]
