"""Who a process is: its number may be another's later, with the time it began it is its own."""

from __future__ import annotations

import os

from go_ent.composer.project.numbers import whole

VARIABLE = "GO_ENT_OWNER"  # in the environment of what a process starts for itself: whose it is


def identity(pid: int) -> str | None:
    """One name for one process, for ever; None if there is none of that number, or it is dead and not yet buried."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read(4096).rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return None
        return f"{pid}-{int(fields[19])}-{_namespace()}"
    except (OSError, ValueError, IndexError):
        return None


def own_identity() -> str:
    return identity(os.getpid()) or f"{os.getpid()}-0-{_namespace()}"


def pid_of(name: str) -> int:
    """The number in an identity; 0 if it is none."""
    return whole(name.partition("-")[0], 11) or 0


def is_dead(name: str) -> bool:
    """Whether that process is known to be gone. One of another container can't be seen from here, and may live."""
    return name.endswith(f"-{_namespace()}") and identity(pid_of(name)) != name


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
