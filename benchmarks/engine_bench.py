"""The engine's figures: what it adds to a task that does nothing, to a graph of them, to going on with one, and to paying for it."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import contention, resuming, svg
from benchmarks.idle import Idle
from benchmarks.measure import Row, by_turns, clocked
from benchmarks.report import Report, command, scratch
from go_ent.engine import Engine, EngineConfig, Task
from go_ent.engine.core.models import RunResult
from go_ent.engine.core.step import Step
from go_ent.engine.strategies import parallel, parse_plan

CONCURRENCY = 8
BOUND_S = 3.0
MEMORY = Path("/dev/shm")  # noqa: S108 - where it is there: a disk that nothing waits for
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
    return [
        task | ({"reads": ["src/"]} if number % 2 else {"writes": [f"src/{number}"]})
        for number, task in enumerate(wide(size))
    ]


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
    results = asyncio.run(
        parallel.run(parse_plan({"task": tasks}), no_op, execution_id="bench", concurrency=CONCURRENCY)
    )
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


def graphs(size: int, times: int) -> list[Row]:
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
        base, took = clocked(times, lambda: plain(size), lambda: graph(tasks))  # noqa: B023 - called at once
        more = {
            "must": BOUND_S,
            "bound_on": "value",
            "baseline_name": "asyncio alone",
            "note": f"slowest {max(took):.2f} s",
        }
        rows.append(Row.of(f"{size:,} no-op tasks: {name}", "", took, "s", base, **more))
    return rows


async def dispatched(folder: Path, size: int) -> float:
    """Seconds for each task of a graph that goes through the engine, with every step recorded before it begins and after it ends."""
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    async with Engine(folder, config=EngineConfig(), runners={"cli": Idle()}, trusted=True) as engine:
        started = time.perf_counter()
        result = await engine.execute(parse_plan({"task": wide(size)}), concurrency=CONCURRENCY)
        assert result.ok
        return (time.perf_counter() - started) / size


async def single(folder: Path, times: int) -> list[float]:
    """Seconds from a task to its result, each an execution of its own."""
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    async with Engine(folder, config=EngineConfig(), runners={"cli": Idle()}, trusted=True) as engine:
        took = []
        for _ in range(times):
            started = time.perf_counter()
            assert (await engine.execute(Task(command=("true",)))).ok
            took.append(time.perf_counter() - started)
        return took


def write_and_sync(path: Path) -> float:
    """Seconds for 200 bytes to be on the disk."""
    with path.open("ab", buffering=0) as file:
        started = time.perf_counter()
        file.write(b"x" * 200)
        os.fdatasync(file.fileno())
        return time.perf_counter() - started


def dispatch(size: int, times: int) -> list[Row]:
    rows = []
    with scratch(synced=True) as disk:
        tasks = iter(range(times * 2))

        def on_disk() -> float:
            return asyncio.run(dispatched(Path(disk) / f"graph{next(tasks)}", size)) * 1e3

        def sync() -> float:
            return min(write_and_sync(Path(disk) / "bare") for _ in range(20)) * 1e3

        took, base = by_turns(times, on_disk, sync)
        rows.append(
            Row.of(
                f"each of {size:,} no-op tasks of a graph, recorded on disk",
                "",
                took,
                "ms",
                base,
                baseline_name="a write and a sync",
            )
        )
        alone = [each * 1e3 for each in asyncio.run(single(Path(disk) / "single", 30))]
        rows.append(
            Row.of(
                "a no-op task by itself, from order to result",
                "",
                alone,
                "ms",
                base,
                baseline_name="a write and a sync",
            )
        )
    if MEMORY.is_dir():
        with tempfile.TemporaryDirectory(dir=MEMORY) as memory:
            folders = iter(range(times * 2))

            def in_memory() -> float:
                return asyncio.run(dispatched(Path(memory) / f"graph{next(folders)}", size)) * 1e6

            took, base = by_turns(times, in_memory, lambda: plain(size) / size * 1e6)
        rows.append(
            Row.of(
                f"each of {size:,} no-op tasks of a graph, recorded in memory",
                "",
                took,
                "µs",
                base,
                baseline_name="asyncio alone",
            )
        )
    return rows


def memory(size: int, times: int) -> Row:
    """Whether a graph leaves anything behind: resident memory after the second run, and after all of them."""
    tasks = layered(size)
    sizes = []
    for _ in range(times + 2):
        graph(tasks)
        gc.collect()
        sizes.append(resident())
    growth = max(0.0, (sizes[-1] - sizes[1]) / 1e6)
    note = f"more than after the second ({sizes[1] / 1e6:.0f} MB)"
    return Row(f"{size:,} no-op tasks, again and again: memory", "", growth, "MB", must=BOUND_GROWTH_MB, note=note)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


INTRO = """\
What the engine adds to work: tasks that do nothing, alone and in graphs of 10,000; going on with an execution, against how much it
has on record; and calls that are paid for, in several processes at once. Made by `make bench`. A graph is measured from the plan's
data to its results, 8 tasks at a time. What a journal's records take is with the [executions](executions.md), how fast tokens are
counted with [contexts](context.md)."""


def measure(quick: bool) -> Report:
    times, size = (5, 3_000) if quick else (5, 10_000)
    resumed, series = resuming.rows(quick)
    rows = [
        *dispatch(1_000 if quick else 5_000, times),
        *graphs(size, times),
        memory(size, times),
        *resumed,
        *contention.rows(quick),
    ]
    title = "The engine"
    plots = {
        "": svg.ratios(rows, title),
        "resume": svg.lines("Going on with an execution", series, "calls or tasks on record", "ms"),
    }
    return Report("engine", title, INTRO, rows, quick, plots=plots, more={"resume_ms": series})


if __name__ == "__main__":
    command(measure, __doc__)
