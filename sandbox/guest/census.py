"""The census of a snapshot: the address of every object in it, for the builder to make them immortal.

CPython counts references inside its objects, so that a program which only reads an object writes to its page, and each
page of the snapshot that is written to must be copied. An immortal object isn't counted. Only C code can make one: so
this marks the addresses, and the builder sets the counts in the snapshot itself (`sandbox.images.immortal`).
"""

import gc
import types

# How the builder finds the census. Spelt backwards here, so that it is found only once.
MARK = b"enoyreve si ereh :tohspans eht fo susnec"
LINKS = (
    "co_consts co_names co_varnames co_freevars co_cellvars co_filename co_name co_qualname co_linetable "
    "co_exceptiontable"
).split()
WORDS = 12 << 20
BLOCK = bytearray(len(MARK) + WORDS // 8)


def take() -> None:
    """Set a bit in the block, behind the mark, for each four bytes of memory at which an object begins.

    A set of addresses would be simpler, and would leave the snapshot twice as large.
    """
    start = len(MARK)
    BLOCK[:start] = MARK[::-1]
    waiting = gc.get_objects()
    while waiting:
        found = waiting.pop()
        word = id(found) >> 2
        place, bit = start + (word >> 3), 1 << (word & 7)
        if word >= WORDS or BLOCK[place] & bit:
            continue
        BLOCK[place] |= bit
        waiting += (
            [getattr(found, name) for name in LINKS] if type(found) is types.CodeType else gc.get_referents(found)
        )
