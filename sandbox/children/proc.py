"""Processes as `/proc` shows them, and who they are: a number may be another's later, with the time it began it is its
own.

An identity, `<pid>-<started>-<namespace>`, is written to files and environments, and read by other processes.
"""

from __future__ import annotations

import contextlib
import os
import re

from go_ent.dataclass import dataclass

OWNER = "GO_ENT_OWNER"  # in the environment of what a process starts for itself: whose it is
ENVIRON_BYTES = 8 << 20  # the kernel allows 6 MiB of arguments and environment
_NUMBER = re.compile(r"[0-9]{1,11}")


@dataclass(frozen=True, slots=True)
class Stat:
    """A process's `/proc/<pid>/stat`, as far as anybody here needs it."""

    dead: bool  # but its parent has not waited for it
    parent: int
    group: int
    session: int
    flags: int
    started: int  # in ticks since the machine was booted
    environ_end: int  # an address; 0 between two programs


def read_stat(pid: int) -> Stat | None:
    """What the kernel says of a process; None if there is none of that number."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
        # The name in brackets is the process's own choice, brackets and spaces included.
        fields = text.rpartition(b")")[2].split()
        numbers = (int(fields[index]) for index in (1, 2, 3, 6, 19, 48))
        return Stat(fields[0] in (b"Z", b"X"), *numbers)
    except (OSError, ValueError, IndexError):
        return None


def pids() -> set[int]:
    """The processes of this machine, or of this container."""
    with contextlib.suppress(OSError):
        return {int(name) for name in os.listdir("/proc") if _NUMBER.fullmatch(name)}
    return set()


def threads_of(pid: int) -> list[int]:
    """The threads of a process. Raises OSError if it is gone."""
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def children_of(pid: int) -> list[int]:
    """The children of a process; none if it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in threads_of(pid):
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(word) for word in file.read().split()]
    return found


def shows_environment(pid: int) -> bool:
    """Whether the kernel lets us read a process's environment."""
    try:
        os.close(os.open(f"/proc/{pid}/environ", os.O_RDONLY))
    except OSError:
        return False
    return True


def has_variable(pid: int, variable: bytes) -> bool:
    """Whether a process was started with `NAME=value` in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            text = b""
            while len(text) < ENVIRON_BYTES and (more := file.read(64 << 10)):
                text += more
    except OSError:
        return False
    return variable in text.split(b"\0")


def identity(pid: int) -> str | None:
    """One name for one process, for ever; None if there is none of that number, or it is dead and not yet buried."""
    stat = read_stat(pid)
    return None if stat is None or stat.dead else f"{pid}-{stat.started}-{_namespace()}"


def own_identity() -> str:
    return identity(os.getpid()) or f"{os.getpid()}-0-{_namespace()}"


def pid_of(name: str) -> int:
    """The number in an identity; 0 if it is none."""
    number = name.partition("-")[0]
    return int(number) if _NUMBER.fullmatch(number) else 0


def is_dead(name: str) -> bool:
    """Whether that process is known to be gone. One of another container can't be seen from here, and may live."""
    return name.endswith(f"-{_namespace()}") and identity(pid_of(name)) != name


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
