"""Pictures as sixel: a guest decodes and encodes them, and what comes back is checked before it is drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from go_ent.engine.cli.pictures.support import Area
from go_ent.sandbox import Limits, Sandbox

ENCODER = Path(__file__).with_name("sixel_encoder.py")
MOST_PIXELS = 2_000_000  # of what is decoded: some seconds
MOST_SIDE = 1000  # pixels of what is drawn: terminals refuse larger ones
MOST_BYTES = 4 << 20
# Nothing else than colours and six pixels a character: no escape sequence fits in.
SOUND = re.compile(rb'\x1bP0;1q"1;1;[0-9]{1,4};[0-9]{1,4}[#;0-9!$?-~-]*\x1b\\')
LIMITS = Limits(timeout_s=20, cpu_s=10, memory_mb=192)


def sixel(data: bytes, size: tuple[int, int], area: Area) -> Iterator[str]:
    """A PNG; nothing if it is of a kind that is not read, or takes too long."""
    if size[0] * size[1] > MOST_PIXELS:
        return
    width, height = (min(side, MOST_SIDE) for side in area.pixels)
    code = (
        f"{ENCODER.read_text('utf-8')}\n"
        "with open('picture', 'rb') as file:\n    made = encode(file.read(), width, height, most_pixels)\n"
        "with open('sixel', 'wb') as file:\n    file.write(made)\n"
    )
    inputs = {"width": width, "height": height, "most_pixels": MOST_PIXELS}
    with Sandbox(limits=LIMITS, workers=1) as box:
        made = box.run_sync(code, inputs, files={"picture": data}).files.get("sixel", b"")
    if len(made) <= MOST_BYTES and SOUND.fullmatch(made):
        yield made.decode("ascii")
