"""Which user of this machine is at the other end of a connection over loopback, as the kernel says."""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path

ESTABLISHED = "01"
LOCAL, REMOTE, STATE, UID = 1, 2, 3, 7  # columns


def is_own(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the program that has connected from *client* to *server* is one of this user's, or root's. Blocks.

    A connection that the kernel does not list comes from somewhere else, and is nobody's here.
    """
    table = "tcp6" if ":" in server[0] else "tcp"
    wanted = _hex(*client), _hex(*server)
    try:
        with Path(f"/proc/self/net/{table}").open() as lines:
            for line in lines:
                columns = line.split()
                if len(columns) > UID and columns[STATE] == ESTABLISHED and (columns[LOCAL], columns[REMOTE]) == wanted:
                    return int(columns[UID]) in (os.getuid(), 0)
    except OSError:
        return False
    return False


def _hex(host: str, port: int) -> str:
    """An address as the kernel's table has it: words of four bytes, each in the machine's own order."""
    packed = ipaddress.ip_address(host).packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
