"""Landlock: no path can be opened, no port reached, no process outside signalled. What is open already stays open."""

from __future__ import annotations

import os
import struct

from go_ent.sandbox.hardening.kernel import syscall

CREATE_RULESET, RESTRICT_SELF = 444, 446  # on every architecture
ASK_VERSION = 1

# Every access to files that a version of the interface knows of: there is no rule, so none of them is allowed.
_FILES = {1: 13, 2: 14, 3: 15, 5: 16}
_TCP = 0b11  # bind, connect
_SCOPE = 0b11  # abstract unix sockets, signals


def version() -> int:
    """The version of the kernel's landlock; OSError if it has none, or if it was switched off."""
    return syscall(CREATE_RULESET, None, 0, ASK_VERSION)


def no_files_no_network() -> int:
    """Shut this thread, and all that it will start, in; the version that it is shut in by. It needs
    `no_new_privileges`.
    """
    found = version()
    files = (1 << max(bits for since, bits in _FILES.items() if found >= since)) - 1
    rules = struct.pack("@Q", files)
    if found >= 4:
        rules += struct.pack("@Q", _TCP)
    if found >= 6:
        rules += struct.pack("@Q", _SCOPE)
    ruleset = syscall(CREATE_RULESET, rules, len(rules), 0)
    try:
        syscall(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return found
