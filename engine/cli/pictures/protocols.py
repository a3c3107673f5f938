"""Pictures as sequences of kitty and iTerm2: the file as it is, in base64, which can hold no other sequence."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from go_ent.engine.cli.pictures.support import Area, Way

# What each shows as it is. Sixel has no file formats: what becomes sixel is decoded in a guest.
KINDS: dict[Way, frozenset[str]] = {
    "kitty": frozenset(("image/png",)),
    "iterm2": frozenset(("image/png", "image/jpeg", "image/gif")),
    "sixel": frozenset(("image/png",)),
}
CHUNK = 4096  # bytes of base64 in one sequence of kitty's


def kitty(data: bytes, size: tuple[int, int], area: Area) -> Iterator[str]:
    """A PNG. `q=2`: the terminal is not to answer, which would be typed into what reads next."""
    text = base64.b64encode(data).decode("ascii")
    head = "a=T,f=100,q=2" + "".join(f",{name}={cells}" for name, cells in _fitted(size, area, ("c", "r")))
    for at in range(0, len(text), CHUNK):
        more = int(at + CHUNK < len(text))
        keys = f"{head},m={more}" if at == 0 else f"q=2,m={more}"
        yield f"\x1b_G{keys};{text[at : at + CHUNK]}\x1b\\"


def iterm2(data: bytes, size: tuple[int, int], area: Area) -> Iterator[str]:
    """A PNG, JPEG or GIF, without its name."""
    fitted = "".join(f";{name}={cells}" for name, cells in _fitted(size, area, ("width", "height")))
    text = base64.b64encode(data).decode("ascii")
    yield f"\x1b]1337;File=inline=1;size={len(data)}{fitted};preserveAspectRatio=1:{text}\a"


def _fitted(size: tuple[int, int], area: Area, names: tuple[str, str]) -> Iterator[tuple[str, int]]:
    """The cells of the side that does not fit, if one does not; the terminal keeps the proportions."""
    wide, high = (side / room for side, room in zip(size, area.pixels, strict=True))
    if max(wide, high) > 1:
        yield (names[0], area.columns) if wide >= high else (names[1], max(1, area.rows - 3))
