"""Rights that a process gives up for good: those it has, and those that a program it starts would have."""

from __future__ import annotations

import mmap
import struct

from go_ent.sandbox.hardening.kernel import prctl, protect, syscall
from go_ent.sandbox.hardening.syscalls import number

PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITY_VERSION_3 = 0x20080522


def no_new_privileges() -> None:
    """No set-uid program gives this thread, or what it starts, rights that it does not have."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def no_capabilities() -> None:
    """A host that runs as root has workers that are root in name alone: they can't raise limits, trace, mount or
    change users.
    """
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    capset = number("capset")
    assert capset is not None
    syscall(capset, struct.pack("@Ii", CAPABILITY_VERSION_3, 0), bytes(24))


def no_writable_code() -> int:
    """Make pages that can be written and executed executable alone; how many mappings there were.

    ctypes keeps its callbacks on such a page where libffi has no other way: whoever can write there could run anything.
    No callback can be made or given up afterwards, in this process or in those that it forks.
    """
    found = 0
    with open("/proc/self/maps", "rb") as lines:
        mappings = [line.split(maxsplit=2) for line in lines.read().splitlines()]
    for span, flags, *_ in mappings:
        if b"w" in flags and b"x" in flags:
            start, _, end = span.partition(b"-")
            at = int(start, 16)
            protect(at, int(end, 16) - at, mmap.PROT_READ | mmap.PROT_EXEC)
            found += 1
    return found
