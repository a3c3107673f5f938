"""Reading JSON that came from outside: bounded before it is parsed, and without a garbage collection in between."""

from __future__ import annotations

import gc
from typing import Any

from pydantic_core import from_json

LARGE = 1 << 16


def parse(data: bytes, most: int | None) -> Any:
    """The value of *data*; ValueError if it is longer than *most* bytes, nests too deep or is not JSON."""
    if most is not None and len(data) > most:
        raise ValueError(f"{len(data)} bytes; at most {most} are accepted")
    if len(data) < LARGE or not gc.isenabled():
        return from_json(data)
    # A million small containers would start the collector hundreds of times, each time over all of them.
    gc.disable()
    try:
        return from_json(data)
    finally:
        gc.enable()
