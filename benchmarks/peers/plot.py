"""The peers as an SVG: how long a fresh run takes, what can be run, what is survived."""

from __future__ import annotations

import math

from benchmarks.peers.measuring import Figures
from benchmarks.svg import OURS, THEIRS, bar, picture, text

LEFT, BAR, GAP, ROW, TOP = 130, 210, 70, 30, 56
LEAST_MS, MOST_MS = 0.05, 2000.0


def plot(figures: dict[str, Figures]) -> str:
    width, height = LEFT + 3 * (BAR + GAP), TOP + ROW * len(figures) + 16
    parts: list[str] = []
    titles = ("a fresh 1 + 1 (log; shorter is better)", "everyday programs run", "hostile programs survived")
    for column, title in enumerate(titles):
        parts.append(text(LEFT + column * (BAR + GAP), 28, title, weight="bold"))
    for row, (name, found) in enumerate(figures.items()):
        y = TOP + row * ROW
        parts.append(text(LEFT - 10, y + 15, name, anchor="end", weight="bold" if name == "go-ent" else "normal"))
        bars = [
            (
                log_share(found.fresh_ms),
                "–"
                if found.fresh_ms is None
                else f"{found.fresh_ms:.2g} ms"
                if found.fresh_ms < 100
                else f"{found.fresh_ms:.0f} ms",
            )
        ]
        for outcomes in (found.everyday, found.hostile):
            good = sum(not why for why in outcomes.values())
            bars.append((good / max(len(outcomes), 1), f"{good} of {len(outcomes)}"))
        for column, (share, label) in enumerate(bars):
            x, length = LEFT + column * (BAR + GAP), max(share * BAR, 2.0)
            colour = OURS if name == "go-ent" else THEIRS
            parts.append(bar(x, y, length, ROW - 10, colour))
            parts.append(text(x + length + 5, y + 15, label))
    return picture(width, height, parts)


def log_share(milliseconds: float | None) -> float:
    within = min(max(milliseconds or LEAST_MS, LEAST_MS), MOST_MS)
    return math.log(within / LEAST_MS) / math.log(MOST_MS / LEAST_MS)
