"""What a fleet's worker processes do: lines of a pipeline against one machine alone, and how soon a dead one's work
goes on. Part of `make bench-fleet`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from go_ent.composer import Composer, FunctionSource, Hints
from go_ent.engine import Engine, Plan
from go_ent.engine.guest_runs.batch import Batch
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.storages import open_storages
from go_ent.sandbox import Run
from tests.composer.conftest import tool
from tests.support.fleet_machines import KEY, Fleet, machines, until
from tests.support.postgres import Postgres

LINES, WAITING = 2000, 100
TURNS = 3
WORK = tool(
    "work",
    'def work(n: int) -> int:\n    """Some arithmetic, about what it takes to look at a line."""\n'
    "    total = 0\n    for k in range(200):\n        total += k * n % 7\n    return total\n",
)
WAIT = tool(
    "wait",
    'async def wait(n: int) -> int:\n    """Waits for something that takes 50 ms, as a request does."""\n'
    '    await tools.effect(key=f"w{n}", ms=50)\n    return n\n',
)
Tell = Callable[[str, str], None]


@contextlib.asynccontextmanager
async def client(project: Path) -> AsyncIterator[tuple[Engine, Composer]]:
    async def effect(key: str, ms: int) -> str:
        """Is there for workers alone."""
        raise AssertionError(key)

    kept = await asyncio.to_thread(lambda: open_storages(project, trusted=True))
    sources = [FunctionSource({"effect": effect}, hints={"effect": Hints(idempotent=True)})]
    composer = await asyncio.to_thread(
        lambda: Composer(project, sources=sources, trusted=True, workers=2, **kept.for_composer)
    )
    async with composer, Engine(project, composer=composer, trusted=True, storages=kept) as engine:
        for each in (WORK, WAIT):
            await composer.compose(each)
        yield engine, composer


async def lines_a_second(
    engine: Engine, composer: Composer, jobs: int, lines: int = LINES, work: str = "work"
) -> float:
    """A pipeline as `tool run --each` runs it: so many lines at once, in this process or in the fleet."""
    send = None if engine.elsewhere is None else engine.elsewhere.lines
    order = GuestOrder(tool=work, each=True, cut=False, jobs=jobs)
    async with await Batch.begin(engine.guests, order, composer, send) as batch:
        began, running = time.monotonic(), set[asyncio.Task[Run]]()
        for number in range(1, lines + 1):
            while len(running) >= (batch.at_once or jobs):
                ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                assert all(one.result().status == "completed" for one in ended)
            running.add(asyncio.create_task(batch.line(number, b"%d" % number, {"n": number}, None)))
        assert all(run.status == "completed" for run in await asyncio.gather(*running))
        await batch.end("completed", f"{lines} lines")
    return lines / (time.monotonic() - began)


async def pipelines(fleet: Fleet, root: Path, writes: Callable[[], int], tell: Tell) -> None:
    """Local, one worker and two workers, in turns; medians of their ratios."""
    (root / "alone" / ".go-ent").mkdir(parents=True)
    each: list[float] = []
    found: dict[str, list[float]] = defaultdict(list)
    async with client(root / "alone") as alone, client(fleet.checkout("sender")) as sender:
        for turn in range(TURNS + 1):  # the first one warms everything up
            before = len(fleet.machines)
            fleet.start(2).ready()
            await lines_a_second(*sender, 2)
            speeds = {"alone": await lines_a_second(*alone, 2)}
            wrote = writes()
            speeds["one worker"] = await lines_a_second(*sender, 2)
            wrote = writes() - wrote
            _stop(fleet, before)
            for count, name in ((1, "one slot"), (1, "two workers")):
                for machine in [fleet.start(1) for _ in range(count)]:
                    machine.ready()
                await lines_a_second(*sender, 1)
                speeds[name] = await lines_a_second(*sender, 1)
                await lines_a_second(*sender, 1, WAITING // 5, "wait")
                speeds[f"{name}, waiting"] = await lines_a_second(*sender, 1, WAITING, "wait")
            _stop(fleet, before)
            if turn:
                each.append(wrote / LINES)
                for name, speed in speeds.items():
                    found[name].append(speed)
    middle = {name: statistics.median(speeds) for name, speeds in found.items()}
    speeds_of = f"{middle['one worker']:.0f} ÷ {middle['alone']:.0f} a second"
    ratio = statistics.median(b / a for a, b in zip(found["alone"], found["one worker"], strict=True))
    tell(f"map over {LINES} lines, one worker ÷ local ({speeds_of})", f"{ratio:.2f}")
    ratio = statistics.median(b / a for a, b in zip(found["one slot"], found["two workers"], strict=True))
    tell("the same, two workers of one slot ÷ one", f"{ratio:.2f}")
    waiting = found["one slot, waiting"], found["two workers, waiting"]
    of = f"{middle['two workers, waiting']:.1f} ÷ {middle['one slot, waiting']:.1f} a second"
    ratio = statistics.median(b / a for a, b in zip(*waiting, strict=True))
    tell(f"map over {WAITING} lines that wait 50 ms each, two workers of one slot ÷ one ({of})", f"{ratio:.2f}")
    tell("writing transactions per line", f"{statistics.median(each):.3f}")


def _stop(fleet: Fleet, since: int) -> None:
    for machine in fleet.machines[since:]:
        if machine.process.poll() is None:
            machine.process.terminate()
    for machine in fleet.machines[since:]:
        machine.process.wait(60)


async def deaths(fleet: Fleet, tell: Tell) -> None:
    """From `kill -9` of the worker that has a graph until another has it, the median."""
    took = []
    async with Engine(fleet.checkout("mourner"), trusted=True) as engine:
        fleet.start(2).ready()
        for turn in range(TURNS):
            fleet.start(2).ready()
            code = f"await tools.effect(key='d{turn}', ms=4000)\n1"
            execution = await engine.start(Plan.model_validate({"task": [{"id": "a", "code": code}]}))
            await until(partial(_is_there, fleet, f"d{turn}"))
            had = fleet.owner(execution)
            victim = next(one for one in fleet.machines if one.name == had)
            began = time.monotonic()
            victim.kill()
            await until(partial(_has_moved, fleet, execution, had))
            took.append(time.monotonic() - began)
            await engine.wait(execution)
    tell("death to recovery, median", f"{statistics.median(took):.1f} s")


def _is_there(fleet: Fleet, key: str) -> bool:
    return key in fleet.effects()


def _has_moved(fleet: Fleet, execution: str, had: str) -> bool:
    return fleet.owner(execution) not in ("", had)


def measure_workers(server: Postgres, root: Path, writes: Callable[[], int], tell: Tell) -> None:
    os.environ |= {"FLEET": server.url, "FLEET_KEY": KEY, "GO_ENT_TRUST_PROJECT": "1"}
    with machines(server, root / "machines") as fleet:
        asyncio.run(deaths(fleet, tell))
        _stop(fleet, 0)
        asyncio.run(pipelines(fleet, root, writes, tell))
