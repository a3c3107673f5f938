"""How long it takes to go on with an execution, against how much it has on record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from benchmarks.idle import Idle
from benchmarks.measure import Row, in_turns, median
from benchmarks.report import scratch
from go_ent.composer import Composer, FunctionSource, Grants, Hints
from go_ent.engine import Engine, EngineConfig, GuestOrder
from go_ent.engine.strategies import parse_plan
from go_ent.sandbox import Limits, Sandbox

READS = Hints(read_only=True)
CONCURRENCY = 8
Series = dict[str, list[tuple[float, float]]]


class Desk:
    """A tool that only looks, and one that is never done: there the run is interrupted."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def look(self, n: int) -> int:
        """Only look."""
        return n

    async def last(self) -> int:
        """Never answer."""
        self.reached.set()
        await asyncio.Event().wait()
        return 0


async def guest(size: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds until a run has made *size* calls, and until it is there again when it is resumed; of as many runs as *rounds* says."""
    desk = Desk()
    with scratch(synced=True) as folder:
        (Path(folder) / ".go-ent").mkdir()
        source = FunctionSource([desk.look, desk.last], "w", hints={"look": READS, "last": READS})
        limits = Limits(max_tool_calls=None, timeout_s=600, cpu_s=300)
        async with (
            Sandbox(limits=limits) as box,
            Composer(Path(folder), sources=[source], box=box, trusted=True) as composer,
        ):
            composer.grants = composer.code.grants = Grants(["w.*"])
            async with Engine(Path(folder), composer=composer, trusted=True) as engine:
                ids: list[str] = []

                async def reached(work: Coroutine[Any, Any, Any]) -> float:
                    desk.reached.clear()
                    started = time.perf_counter()
                    task, there = asyncio.create_task(work), asyncio.create_task(desk.reached.wait())
                    await asyncio.wait({task, there}, return_when=asyncio.FIRST_COMPLETED)
                    took = time.perf_counter() - started
                    if task.done():
                        raise AssertionError(f"it ended too early: {task.result()}")
                    await engine.interrupt(ids[-1])
                    await task
                    return took

                order = GuestOrder(code=f"for n in range({size}):\n    await tools.w.look(n=n)\nawait tools.w.last()")
                await reached(
                    engine.guests.run(order.model_copy(update={"code": "await tools.w.last()"}), begun=ids.append)
                )
                done, again = await in_turns(
                    rounds,
                    lambda: reached(engine.guests.run(order, begun=ids.append)),
                    lambda: reached(engine.resume_run(ids[-1])),
                )
                return done, again


class FailsAt(Idle):
    """A runtime whose every run is done at once; that of one task has failed."""

    def __init__(self, task_id: str) -> None:
        self.fails = task_id


async def graph(size: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds for a graph of which the last task fails, and for its resume, which runs that one again; of as many graphs."""
    with scratch(synced=True) as folder:
        runner = FailsAt(f"t{size - 1}")
        async with Engine(Path(folder), config=EngineConfig(), runners={"cli": runner}, trusted=True) as engine:
            plan = parse_plan({"task": [{"id": f"t{number}", "command": ["true"]} for number in range(size)]})
            ids: list[str] = []

            async def begun() -> float:
                started = time.perf_counter()
                ids.append((await engine.execute(plan, concurrency=CONCURRENCY)).execution_id)
                return time.perf_counter() - started

            async def resumed() -> float:
                ran, started = runner.runs, time.perf_counter()
                result = await engine.resume(ids[-1])
                took = time.perf_counter() - started
                if (runner.runs - ran, result.ok) != (1, False):
                    raise AssertionError(f"{runner.runs - ran} tasks were run again, and not the one that failed")
                return took

            done, again = await in_turns(rounds, begun, resumed)
            return done, again


def rows(quick: bool) -> tuple[list[Row], Series]:
    """The figures, and for the plot what each size took, in milliseconds."""
    sizes = (100, 500, 2_000) if quick else (100, 1_000, 10_000)
    found: list[Row] = []
    series: Series = {}
    for what, kind in (("a run, by its calls", guest), ("a graph, by its tasks", graph)):
        each: dict[int, list[float]] = {}  # by size, microseconds for each on record
        for size in sizes:
            done, again = asyncio.run(kind(size, 3))
            each[size] = [took / size * 1e6 for took in again]
            series.setdefault(what, []).append((size, median(again) * 1e3))
        first, many = ([took * 1e3 for took in samples] for samples in (done, again))
        name = f"going on with {what}"
        found.append(Row.of(f"{name}: {sizes[-1]:,} on record", "", many, "ms", first, baseline_name="doing it"))
        few = f"each of {sizes[-2]:,}"
        found.append(
            Row.of(f"{name}: each of {sizes[-1]:,}", "", each[sizes[-1]], "µs", each[sizes[-2]], baseline_name=few)
        )
    return found, series
