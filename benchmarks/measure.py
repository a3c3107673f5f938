"""Measuring on a noisy machine: what is compared is taken in turns, and ratios are what counts."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # with bytecode
BASE: str = getattr(sys, "_base_executable", sys.executable)
Better = Literal["lower", "higher"]


@dataclass
class Row:
    """One figure. With a baseline, which was measured in the same minutes, it is a ratio; without, it is an absolute one.

    `must` and `goal` are of the ratio, if there is one, unless `bound_on` says otherwise. Only a ratio is ever compared with
    that of another day, and not even that if `gated` is False. What is compared is `steady`, where there is one: see `Row.of`.
    """

    name: str
    mode: str  # where or how it was measured; may be empty
    value: float
    unit: str
    baseline: float | None = None
    must: float | None = None
    goal: float | None = None
    better: Better = "lower"
    baseline_name: str = "subprocess"
    note: str = ""
    bound_on: Literal["ratio", "value"] = "ratio"
    gated: bool = True
    steady: float | None = None

    @classmethod
    def of(
        cls, name: str, mode: str, samples: Sequence[float], unit: str, baseline: Sequence[float], **more: Any
    ) -> Row:
        """A row of what was taken in turns: the medians; and, to compare with another day, the ratio of what the quickest tenth of each
        came to, which others at work on the machine disturb least: of processor time, where both have it, for that even less."""
        better: Better = more.get("better", "lower")
        steady = quickest(samples, better) / quickest(baseline, better)
        if isinstance(samples, Samples) and isinstance(baseline, Samples):
            steady = quickest(samples.cpu) / quickest(baseline.cpu)
        return cls(name, mode, median(samples), unit, median(baseline), steady=steady, **more)

    @property
    def key(self) -> str:
        """What it is called among the rows of its benchmark."""
        return f"{self.name} ({self.mode})" if self.mode else self.name

    @property
    def ratio(self) -> float | None:
        return None if self.baseline is None else self.value / self.baseline

    @property
    def compared(self) -> float | None:
        """The ratio that is held to that of another day; None if none is."""
        return (self.steady or self.ratio) if self.gated else None

    @property
    def bounded(self) -> float:
        """What the bounds are of."""
        return self.value if self.ratio is None or self.bound_on == "value" else self.ratio

    def _meets(self, bound: float | None) -> bool:
        return bound is None or (self.bounded <= bound if self.better == "lower" else self.bounded >= bound)

    @property
    def met(self) -> bool | None:
        """Whether it keeps its bound; None if it has none."""
        return None if self.must is None else self._meets(self.must)

    @property
    def verdict(self) -> str:
        if self.met is None:
            return ""
        if not self.met:
            return "MISSED"
        return "goal" if self.goal is not None and self._meets(self.goal) else "ok"

    def data(self) -> dict[str, Any]:
        """It as JSON: the same fields for every benchmark."""
        return {
            "name": self.key,
            "value": self.value,
            "unit": self.unit,
            "ratio": self.ratio,
            "baseline": self.baseline,
            "baseline_name": self.baseline_name if self.baseline is not None else None,
            "bound": self.must,
            "bound_on": "value" if self.ratio is None else self.bound_on,
            "goal": self.goal,
            "met": self.met,
            "better": self.better,
            "compared": self.compared,
            "note": self.note,
        }


def bare_subprocess() -> float:
    """What it costs to run `1+1` in a new Python, in milliseconds: the base interpreter's, since a virtual
    environment's takes longer to start and would flatter us."""
    started = time.perf_counter()
    subprocess.run([BASE, "-I", "-S", "-c", "print(1+1)"], capture_output=True, check=True)
    return (time.perf_counter() - started) * 1e3


def _turns(rounds: int, count: int) -> Iterator[int]:
    """Each of *count* once a round, in another order each time: what ran just before leaves its caches to the next."""
    order, random = list(range(count)), Random(0)
    for _ in range(rounds):
        random.shuffle(order)
        yield from order


async def in_turns(rounds: int, *actions: Callable[[], Awaitable[float]]) -> list[list[float]]:
    """Each action once a round, so that all see the same weather. Returns each one's samples."""
    samples: list[list[float]] = [[] for _ in actions]
    for turn in _turns(rounds, len(actions)):
        samples[turn].append(await actions[turn]())
    return samples


def by_turns(rounds: int, *actions: Callable[[], float]) -> list[list[float]]:
    """The same for what is not awaited."""
    samples: list[list[float]] = [[] for _ in actions]
    for turn in _turns(rounds, len(actions)):
        samples[turn].append(actions[turn]())
    return samples


class Samples(list[float]):
    """Seconds that passed, and beside them the processor time that this process took in them: for work that is done within it."""

    def __init__(self) -> None:
        self.cpu: list[float] = []

    def add(self, action: Callable[[], object]) -> None:
        cpu, started = time.process_time(), time.perf_counter()
        action()
        self.append(time.perf_counter() - started)
        self.cpu.append(time.process_time() - cpu)


def clocked(rounds: int, *actions: Callable[[], object]) -> list[Samples]:
    """Each action once a round, by both clocks."""
    samples = [Samples() for _ in actions]
    for turn in _turns(rounds, len(actions)):
        samples[turn].add(actions[turn])
    return samples


def timed(action: Callable[[], object]) -> float:
    """How long it takes, in seconds."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


median = statistics.median


def quickest(samples: Sequence[float], better: Better = "lower") -> float:
    """What the quickest tenth of them came to; of rates that is the highest."""
    return sorted(samples, reverse=better == "higher")[len(samples) // 10]


def table(rows: list[Row]) -> str:
    """The rows as a markdown table."""
    lines = ["| what | measured | beside | ratio | bound | goal | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        beside = f"{amount(row.baseline)} {row.unit} ({row.baseline_name})" if row.baseline is not None else ""
        ratio = "" if row.ratio is None else amount(row.ratio)
        told = " – ".join(part for part in (row.verdict, row.note) if part)
        lines.append(
            f"| {row.key} | {amount(row.value)} {row.unit} | {beside} | {ratio} | {bound(row, row.must)} | {bound(row, row.goal)} | {told} |"
        )
    return "\n".join(lines)


def bound(row: Row, most: float | None) -> str:
    if most is None:
        return ""
    unit = f" {row.unit}" if row.ratio is None or row.bound_on == "value" else ""
    return f"{'≤' if row.better == 'lower' else '≥'} {amount(most)}{unit}"


def amount(value: float) -> str:
    """A number that a person reads: three figures, and no powers of ten."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
