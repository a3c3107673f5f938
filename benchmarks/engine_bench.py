"""The engine's figures: what it costs to run a graph of tasks that do nothing."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import Availability, Engine, EngineConfig
from engine.models import RunRequest, RunResult
from engine.runners.base import Emit
from engine.strategies import Step, parallel, parse_plan

CONCURRENCY = 8
BOUND_S = 3.0
BOUND_GROWTH_MB = 4.0
Shape = Callable[[int], list[dict[str, Any]]]


def wide(size: int) -> list[dict[str, Any]]:
    return [{"id": f"t{number}", "command": ["true"]} for number in range(size)]


def chain(size: int) -> list[dict[str, Any]]:
    return [task | {"depends_on": [f"t{number - 1}"] if number else []} for number, task in enumerate(wide(size))]


def layered(size: int) -> list[dict[str, Any]]:
    """Layers of 100; each task depends on three of the layer before."""
    chance = random.Random(1)
    tasks = wide(size)
    for number in range(100, size):
        start = (number // 100 - 1) * 100
        tasks[number]["depends_on"] = [f"t{chance.randrange(start, start + 100)}" for _ in range(3)]
    return tasks


def hazards(size: int) -> list[dict[str, Any]]:
    """Every other task writes a file of a folder, the others read the folder: each must wait for all writers before it."""
    return [task | ({"reads": ["src/"]} if number % 2 else {"writes": [f"src/{number}"]}) for number, task in enumerate(wide(size))]


def references(size: int) -> list[dict[str, Any]]:
    """A chain in which each takes the output of the one before as an argument."""
    tasks = wide(size)
    for number in range(1, size):
        tasks[number]["command"] = ["echo", f"${{t{number - 1}.output}}"]
    return tasks


async def no_op(step: Step) -> RunResult:
    return RunResult(execution_id="bench", task_id=step.id, status="completed", output="done")


def graph(tasks: list[dict[str, Any]]) -> float:
    """From the data of a plan to its results."""
    started = time.perf_counter()
    results = asyncio.run(parallel.run(parse_plan({"task": tasks}), no_op, execution_id="bench", concurrency=CONCURRENCY))
    took = time.perf_counter() - started
    assert len(results) == len(tasks)
    assert all(result.ok for result in results)
    return took


def plain(size: int) -> float:
    """The same number of no-ops with asyncio alone: a task each, behind a semaphore."""

    async def main() -> None:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def one(number: int) -> RunResult:
            async with slots:
                return await no_op(Step(str(number), task))

        task = parse_plan({"task": wide(1)}).task[0]
        assert len(await asyncio.gather(*(one(number) for number in range(size)))) == size

    started = time.perf_counter()
    asyncio.run(main())
    return time.perf_counter() - started


def row(what: str, measured: str, bound: str, met: bool) -> str:
    return f"| {what} | {measured} | {bound} | {'ok' if met else 'MISSED'} |"


def graphs(size: int, times: int) -> list[str]:
    rows = []
    shapes: dict[str, Shape] = {
        "nothing depends on anything": wide,
        "a chain": chain,
        "layers of 100, three dependencies each": layered,
        "writers and readers of one folder": hazards,
        "a chain of references": references,
    }
    for name, shape in shapes.items():
        tasks = shape(size)
        took, base = [], []
        for _ in range(times):
            base.append(plain(size))
            took.append(graph(tasks))
        median, ratio = statistics.median(took), statistics.median(took) / statistics.median(base)
        measured = f"{median:.2f} s ({ratio:.1f} × asyncio alone; slowest {max(took):.2f} s)"
        rows.append(row(f"{size:,} no-op tasks: {name}", measured, f"≤ {BOUND_S:.0f} s", max(took) <= BOUND_S))
    return rows


class Nothing:
    """A runtime whose every run is done at once."""

    name = family = "cli"

    async def available(self) -> Availability:
        return Availability(True)

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        return RunResult(execution_id=request.execution_id, task_id=request.task_id, status="completed", output="done", runtime="cli")

    async def interrupt(self, run_id: str) -> bool:
        return False

    async def close(self) -> None:
        pass


def recorded(size: int) -> list[str]:
    """The same through the engine, with every step on disk before it begins and after it ends."""

    async def main() -> float:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            async with Engine(Path(folder), config=EngineConfig(), runners={"cli": Nothing()}, trusted=True) as engine:
                started = time.perf_counter()
                result = await engine.execute(parse_plan({"task": wide(size)}), concurrency=CONCURRENCY)
                assert result.ok
                return time.perf_counter() - started

    took = asyncio.run(main())
    return [f"| {size:,} no-op tasks through the engine, on disk | {took:.1f} s, {took / size * 1000:.2f} ms each | – | |"]


def memory(size: int, times: int) -> list[str]:
    """Whether a graph leaves anything behind: resident memory after the second run, and after all of them."""
    tasks = layered(size)
    sizes = []
    for _ in range(times + 2):
        graph(tasks)
        gc.collect()
        sizes.append(resident())
    growth = max(0.0, (sizes[-1] - sizes[1]) / 1e6)
    text = f"{growth:.1f} MB more than after the second ({sizes[1] / 1e6:.0f} MB)"
    return [row(f"{size:,} no-op tasks, {times} times more: memory", text, f"≤ {BOUND_GROWTH_MB:.0f} MB", growth <= BOUND_GROWTH_MB)]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    times = 1 if options.quick else 5
    rows = graphs(10_000, times) + memory(10_000, times) + recorded(2_000 if options.quick else 10_000)
    table = "\n".join(["| what | measured | bound | |", "|---|---|---|---|", *rows])
    version = ".".join(map(str, sys.version_info[:3]))
    text = f"{table}\n\nFrom the plan's data to its results, {CONCURRENCY} at a time. {os.cpu_count()} cores, Python {version}\n"
    print(text)
    if options.save:
        (Path(__file__).parents[1] / "docs" / "benchmarks" / "engine.md").write_text(f"# The engine's figures\n\n{text}")


if __name__ == "__main__":
    main()
