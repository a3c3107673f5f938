"""Raising the walls, in the order in which they can be raised. One that this kernel lacks is left out, and told."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from go_ent.sandbox.hardening.landlock import no_files_no_network
from go_ent.sandbox.hardening.privileges import no_capabilities, no_new_privileges, no_writable_code
from go_ent.sandbox.hardening.rlimits import limit
from go_ent.sandbox.hardening.seccomp import Doors, filter_calls
from go_ent.sandbox.hardening.wall import (
    LANDLOCK,
    LIMITS,
    NO_CAPABILITIES,
    NO_NEW_PRIVILEGES,
    NO_WRITABLE_CODE,
    SECCOMP,
    WALLS,
    Wall,
)


def around_code(wanted: Collection[str] = WALLS) -> list[Wall]:
    """In a process that forks others, or in one that is set up: its code is what it is now."""
    return _raise(wanted, {NO_WRITABLE_CODE: no_writable_code})


def around_thread(wanted: Collection[str] = WALLS) -> list[Wall]:
    """What holds for the thread that asks and for those it starts afterwards: so before any are started."""

    def landlock() -> str:
        return f"version {no_files_no_network()}"

    return _raise(wanted, {NO_NEW_PRIVILEGES: no_new_privileges, NO_CAPABILITIES: no_capabilities, LANDLOCK: landlock})


def around_process(doors: Doors, file_bytes: int, wanted: Collection[str] = WALLS) -> list[Wall]:
    """What holds for the process: once its threads run, for it will never start another. The filter is the last call
    to pass.
    """
    return _raise(wanted, {LIMITS: lambda: limit(file_bytes), SECCOMP: lambda: filter_calls(doors)})


def shut_in(doors: Doors) -> list[Wall]:
    """All of it, for a process of one thread that has imported what it needs: it reads, computes, answers, and
    leaves by `os._exit`.
    """
    return [*around_code(), *around_thread(), *around_process(doors, 0)]


def _raise(wanted: Collection[str], walls: dict[str, Callable[[], object]]) -> list[Wall]:
    raised = []
    for name, build in walls.items():
        if name not in wanted:
            raised.append(Wall(name, False, "left out"))
            continue
        try:
            said = build()
            raised.append(Wall(name, True, said if isinstance(said, str) else ""))
        except (OSError, ValueError) as error:
            raised.append(
                Wall(
                    name, False, os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
                )
            )
    return raised
