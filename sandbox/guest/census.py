"""The census of a snapshot: the address of every object in it, for the builder to make them immortal.

CPython counts references inside its objects, so that a program which only reads an object writes to its page, and each
page of the snapshot that is written to must be copied. An immortal object isn't counted. Only C code can make one: so
this marks the addresses, and the builder sets the counts in the snapshot itself (`sandbox.images.immortal`).

Code that has run loads a constant by an instruction which takes it for mortal, and counts it whatever its count is. The
builder puts the other one in its place; so this also says what it has to know to walk over instructions.
"""

import gc
import importlib
import opcode
import struct
import types
from typing import Any

# How the builder finds the census. Spelt backwards here, so that it is found only once.
MARK = b"enoyreve si ereh :tohspans eht fo susnec"
opcodes: Any = importlib.import_module("_opcode_metadata")
LINKS = (
    "co_consts co_names co_varnames co_freevars co_cellvars co_filename co_name co_qualname co_linetable "
    "co_exceptiontable"
).split()
WORDS = 12 << 20
# The class of code, where its instructions begin and a tuple's items; the two instructions, and that which extends
# another; then how many units of cache follow each instruction.
HEAD = struct.Struct("<IHHBBB256s")
BLOCK = bytearray(len(MARK) + HEAD.size + WORDS // 8)


def _caches() -> bytes:
    base = {name: name for name in opcodes.opmap}
    for general, special in opcodes._specializations.items():
        base |= dict.fromkeys(special, general)
    units: dict[str, int] = opcode._inline_cache_entries  # type: ignore[attr-defined]
    caches = bytearray(256)
    for name, number in (opcodes.opmap | opcodes._specialized_opmap).items():
        if number < 256:
            caches[number] = units.get(base[name], 0)
    return bytes(caches)


def take() -> None:
    """Set a bit in the block, behind the mark and the head, for each four bytes of memory at which an object begins.

    A set of addresses would be simpler, and would leave the snapshot twice as large.
    """
    start = len(MARK) + HEAD.size
    mortal, immortal = (opcodes._specialized_opmap[f"LOAD_CONST_{kind}"] for kind in ("MORTAL", "IMMORTAL"))
    layout = id(types.CodeType), types.CodeType.__basicsize__, tuple.__basicsize__
    BLOCK[:start] = MARK[::-1] + HEAD.pack(*layout, mortal, immortal, opcode.EXTENDED_ARG, _caches())
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
