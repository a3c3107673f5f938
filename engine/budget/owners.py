"""Which process made a reservation, and whether it still runs."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from go_ent.composer.project.numbers import whole


def this_process() -> str:
    """A name for this process that no other ever has: boot, pid and when it was started."""
    pid = os.getpid()
    return f"{_boot()}:{pid}:{_started(pid)}"


def is_alive(owner: str) -> bool:
    """Whether the process of that name runs here. One in another container or on another machine can't be seen, so
    it does not.
    """
    boot, _, rest = owner.partition(":")
    number, _, started = rest.partition(":")
    pid = whole(number, 11)
    return boot == _boot() and pid is not None and started != "" and _started(pid) == started


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _started(pid: int) -> str:
    """When a process was started, in ticks since boot; "" if it is not there, or only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()  # its name, in brackets, may have anything in it
    return "" if len(fields) < 20 or fields[0] in "ZX" else fields[19]
