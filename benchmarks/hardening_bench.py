"""What the walls around worker processes cost: the same work with all of them and with none, in turns: `make bench`."""

from __future__ import annotations

import asyncio
import select
import time

from benchmarks.measure import Row, in_turns, median, quickest
from benchmarks.report import Report, command
from go_ent.sandbox import Sandbox
from go_ent.sandbox.hardening.wall import WALLS
from go_ent.sandbox.host.process import WorkerProcess
from go_ent.sandbox.host.threads import Threads
from go_ent.sandbox.host.zygote import Zygote
from go_ent.sandbox.images import ensure_image
from go_ent.sandbox.worker.orders import Orders

PACE_S = 0.02
BOUND_MS = 0.3
WITHOUT = "without walls"
CALLS = (
    "import time\nt = time.perf_counter()\nfor i in range(100): await tools.plain(n=i)\n(time.perf_counter() - t) * 1e4"
)


def plain(n: int) -> int:
    return n


def bare() -> Sandbox:
    """A sandbox whose workers nothing holds but WebAssembly. Nobody else has a reason to make one."""
    box = Sandbox([plain])
    box._walls = ()
    return box


async def one_run(box: Sandbox) -> float:
    await asyncio.sleep(PACE_S)
    started = time.perf_counter()
    run = await box.run("1+1")
    took = (time.perf_counter() - started) * 1e3
    assert run.result == 2, run.error
    return took


async def one_call(box: Sandbox) -> float:
    """Microseconds of one of a hundred calls of a tool."""
    run = await box.run(CALLS)
    assert isinstance(run.result, float), run.error
    return run.result


async def run_rows(rounds: int) -> list[Row]:
    async with Sandbox([plain]) as walled, bare() as open_box:
        for _ in range(5):
            await one_run(walled)
            await one_run(open_box)
        assert all(wall.stands for wall in walled.walls), walled.walls
        assert not any(wall.stands for wall in open_box.walls), open_box.walls
        # There and back, so that neither always comes first.
        samples = await in_turns(
            rounds, *(lambda box=box: one_run(box) for box in (walled, open_box, open_box, walled))
        )
        behind, beside = samples[0] + samples[3], samples[1] + samples[2]
        called, freely = await in_turns(rounds // 4, lambda: one_call(walled), lambda: one_call(open_box))
    note = "the difference of the two, where they ran one after the other"
    added = median([one - other for one, other in zip(behind, beside, strict=True)])
    least = quickest(behind) - quickest(beside)
    return [
        Row.of("1+1 from the pool, p50", "", behind, "ms", beside, baseline_name=WITHOUT, gated=False),
        Row("added to 1+1 from the pool, p50", "", added, "ms", must=BOUND_MS, note=note),
        Row("added to 1+1 from the pool, quickest tenth", "", least, "ms", must=BOUND_MS),
        Row.of("one tool call", "", called, "µs", freely, baseline_name=WITHOUT, gated=False),
    ]


def start_row(rounds: int) -> Row:
    """A new worker, from asking the zygote to the worker's first word. The walls are raised in between."""
    artefact, threads = str(ensure_image().artefact("plain")), Threads("bench")
    zygotes = [Zygote(Orders(artefact, walls=walls)) for walls in (WALLS, ())]

    async def start(zygote: Zygote) -> float:
        started = time.perf_counter()
        worker = WorkerProcess(zygote, threads)
        readable = select.poll()
        readable.register(worker.sock, select.POLLIN)
        while worker.pid is None:
            assert readable.poll(10_000)
            worker.poll()
        took = (time.perf_counter() - started) * 1e3
        worker.close()
        return took

    async def all_of_them() -> list[list[float]]:
        for zygote in zygotes:
            await start(zygote)
        return await in_turns(rounds, *(lambda zygote=zygote: start(zygote) for zygote in zygotes))

    try:
        walled, open_one = asyncio.run(all_of_them())
    finally:
        for zygote in zygotes:
            zygote.close()
        threads.close()
    return Row.of("a new worker, to its first word", "", walled, "ms", open_one, baseline_name=WITHOUT, gated=False)


INTRO = """\
What the kernel's walls around worker processes cost: no privileges, limits, landlock, and a list of system calls (seccomp). The same
work with all of them and with none, in turns. Made by `make bench`."""


def measure(quick_look: bool) -> Report:
    rounds = 60 if quick_look else 400
    return Report("hardening", "Hardening", INTRO, [*asyncio.run(run_rows(rounds)), start_row(rounds // 4)], quick_look)


if __name__ == "__main__":
    command(measure, __doc__)
