"""A wall as the host knows it: its name, whether it stands, and what there is to say of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from go_ent.dataclass import dataclass

NO_NEW_PRIVILEGES: Final = "no new privileges"
NO_CAPABILITIES: Final = "no capabilities"
NO_WRITABLE_CODE: Final = "no writable code"
LANDLOCK: Final = "landlock"
LIMITS: Final = "limits"
SECCOMP: Final = "seccomp"
WALLS: Final = (NO_NEW_PRIVILEGES, NO_CAPABILITIES, NO_WRITABLE_CODE, LANDLOCK, LIMITS, SECCOMP)
MOST_SAID = 200
MOST_TOLD = 4096


@dataclass(frozen=True, slots=True)
class Wall:
    """One of `WALLS` around a worker. *said* is why it does not stand, or its version."""

    name: str
    stands: bool
    said: str = ""


def tell(walls: Iterable[Wall]) -> bytes:
    """The walls in a worker's first message."""
    return json.dumps([[wall.name, wall.stands, wall.said[:MOST_SAID]] for wall in walls]).encode()


def read(told: bytes) -> tuple[Wall, ...]:
    """What a worker has told of its walls; ValueError if it is not of that form."""
    if len(told) > MOST_TOLD:
        raise ValueError("too much is said of walls")
    found = tuple(Wall(name, stands, said) for name, stands, said in json.loads(told))
    if any(wall.name not in WALLS or type(wall.stands) is not bool or type(wall.said) is not str for wall in found):
        raise ValueError("not a wall")
    return found
