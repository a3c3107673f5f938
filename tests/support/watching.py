"""Whether somebody was told of a change, and of nothing else."""

from __future__ import annotations

import os
import queue
from pathlib import Path

Told = queue.Queue[None]


def heard(told: Told) -> None:
    told.get(timeout=60)


def settle(told: Told, folder: Path, *, most: int | None = None) -> None:
    """Wait until somebody was told of a change that is made now: not more than *most* times. They come in order."""
    while not told.empty():
        told.get_nowait()
    os.rename(_made(folder), folder / "sentinel")
    heard(told)
    if most is not None:
        assert told.qsize() < most


def _made(folder: Path) -> Path:
    path = folder.parent / "made"
    path.write_text("x")
    return path
