"""Measuring on a noisy machine: what is compared is taken in turns, and only ratios are reported."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass
class Row:
    """One figure: a ratio to a baseline that was measured in the same minutes."""

    name: str
    mode: str
    value: float
    unit: str
    baseline: float
    must: float | None = None
    goal: float | None = None
    better: str = "low"  # or "high"
    baseline_name: str = "subprocess"
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.value / self.baseline

    def _meets(self, bound: float | None) -> bool:
        return bound is None or (self.ratio <= bound if self.better == "low" else self.ratio >= bound)

    @property
    def verdict(self) -> str:
        if not self._meets(self.must):
            return "MISSED"
        return "goal" if self.goal is not None and self._meets(self.goal) else "ok"


def bare_subprocess() -> float:
    """What it costs to run `1+1` in a new Python, in milliseconds."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", "print(1+1)"], capture_output=True, check=True)
    return (time.perf_counter() - started) * 1e3


async def in_turns(rounds: int, *actions: Callable[[], Awaitable[float]]) -> list[list[float]]:
    """Each action once a round, so that all see the same weather. Returns each one's samples."""
    samples: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, kept in zip(actions, samples, strict=True):
            kept.append(await action())
    return samples


median = statistics.median


def table(rows: list[Row]) -> str:
    """The rows as a markdown table."""
    lines = ["| what | mode | measured | baseline | ratio | must | goal | |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        sign = "≤" if row.better == "low" else "≥"
        must = f"{sign} {row.must:.3g}" if row.must is not None else "–"
        goal = f"{sign} {row.goal:.3g}" if row.goal is not None else "–"
        lines.append(
            f"| {row.name} | {row.mode} | {row.value:.3g} {row.unit} | {row.baseline:.3g} {row.unit} ({row.baseline_name}) "
            f"| {row.ratio:.3g} | {must} | {goal} | {row.verdict}{' – ' + row.note if row.note else ''} |"
        )
    return "\n".join(lines)
