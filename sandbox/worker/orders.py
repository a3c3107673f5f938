"""What a zygote is told when it starts."""

from __future__ import annotations

from go_ent.dataclass import dataclass
from go_ent.sandbox.hardening.wall import WALLS


@dataclass(frozen=True)
class Orders:
    """One zygote serves all sandboxes with the same orders, so they can be compared and hashed."""

    artefact: str
    fuel: bool = False
    walls: tuple[str, ...] = WALLS
    remade: str = ""  # why its guests are made anew for each run instead of reset, if they are
    compare: tuple[tuple[int, ...], ...] = ()  # globals that must be the same after a reset; tests ask for that
