"""The sandbox's figures, each as a ratio to a baseline of the same run: `make bench`."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.measure import Row, bare_subprocess, in_turns
from benchmarks.programs import CPU, PROGRAMS
from benchmarks.report import Report, command
from go_ent.sandbox import Limits, Sandbox
from go_ent.sandbox.images import ensure_image
from go_ent.sandbox.worker.machine import Machine
from go_ent.sandbox.worker.seam import SEED_BYTES, guest_seed

PACE_S = 0.02
MONTY_CALL_US = 350.0  # one host call of pydantic-monty on a machine like this one, as published with the target


CALLS = "import time\nt = time.perf_counter()\nfor i in range(300): await tools.{name}(n=i)\n(time.perf_counter() - t) / 300"


def plain(n: int) -> int:
    return n


async def quick(n: int) -> int:
    return n


class Nothing:
    """A port for guests that call nothing."""

    def exchange(self, message: bytes) -> bytes:
        raise AssertionError(message)

    def write(self, text: bytes) -> None:
        pass

    def keep(self, code: bytes) -> None:
        pass


async def timed_run(box: Sandbox, code: str) -> float:
    await asyncio.sleep(PACE_S)
    started = time.perf_counter()
    run = await box.run(code)
    took = (time.perf_counter() - started) * 1e3
    assert run.status == "completed", run.error
    return took


async def next_run(box: Sandbox, sources: Iterator[str]) -> float:
    return await timed_run(box, next(sources))


async def subprocess_ms() -> float:
    await asyncio.sleep(PACE_S)
    return bare_subprocess()


async def start_rows(rounds: int) -> list[Row]:
    """A fresh guest for `1+1`, and for programs of forty lines, first time and again."""
    rows = []
    async with Sandbox() as box:
        for _ in range(5):
            await timed_run(box, "1+1")
        fresh = (
            f"{source}\n# {next(itertools.count(time.monotonic_ns()))}" for source in itertools.cycle(PROGRAMS.values())
        )
        again = itertools.cycle(PROGRAMS.values())
        for source in PROGRAMS.values():
            await timed_run(box, source)
        base, one, first, second = await in_turns(
            rounds,
            subprocess_ms,
            lambda: timed_run(box, "1+1"),
            partial(next_run, box, fresh),
            partial(next_run, box, again),
        )
        rows += [
            Row.of("fresh guest, 1+1, p50, paced, from the pool", "process", one, "ms", base, must=1 / 15, goal=1 / 25),
            Row.of("a 40-line program, first run of that source", "process", first, "ms", base, must=1 / 3, goal=1 / 5),
            Row.of("the same source again", "process", second, "ms", one, must=1.5, goal=1.2, baseline_name="1+1"),
        ]
    return rows


async def no_pool_row(rounds: int) -> Row:
    machine = Machine(str(ensure_image().artefact("plain")))
    fields = {
        "source": "1+1",
        "code": None,
        "keep": False,
        "fresh": True,
        "session": False,
        "entry": None,
        "examine": None,
        "cut": False,
        "call_bytes": None,
        "seed": guest_seed(bytes(SEED_BYTES)),
        "stdout": 1000,
    }
    request = json.dumps(
        {**fields, "inputs": {}, "files": {}, "tools": [], "result_bytes": None, "file_bytes": None}
    ).encode()

    async def cold() -> float:
        started = time.perf_counter()
        guest = machine.guest()
        end = guest.run(request, Nothing(), memory_bytes=128 << 20)
        took = (time.perf_counter() - started) * 1e3
        guest.close()
        assert end.answer == b'{"status":"completed"}\x002\x00', end
        return took

    await cold()
    base, made = await in_turns(rounds, subprocess_ms, cold)
    return Row.of("fresh guest, 1+1, no pool", "machine", made, "ms", base, must=1 / 5, goal=1 / 7)


async def throughput_row(seconds: float) -> Row:
    cores = os.cpu_count() or 1

    def spawn(until: float) -> int:
        count = 0
        while time.perf_counter() < until:
            bare_subprocess()
            count += 1
        return count

    async def processes() -> float:
        until = time.perf_counter() + seconds
        counts = await asyncio.gather(*(asyncio.to_thread(spawn, until) for _ in range(cores)))
        return sum(counts) / seconds

    async with Sandbox(workers=cores) as box:
        await box.run("1+1")

        async def lane(until: float) -> int:
            count = 0
            while time.perf_counter() < until:
                run = await box.run("1+1")
                assert run.ok
                count += 1
            return count

        async def runs() -> float:
            until = time.perf_counter() + seconds * 2
            return sum(await asyncio.gather(*(lane(until) for _ in range(cores + 1)))) / (seconds * 2)

        base, made = await in_turns(3, processes, runs)
    return Row.of(
        "fresh runs per second, all cores, sustained", "process", made, "/s", base, must=5, goal=8, better="higher"
    )


def monty_call_us() -> float | None:
    """One host call of pydantic-monty, from a worker of its pool; None where it is not installed."""
    try:
        from pydantic_monty import Monty
    except ImportError:
        return None
    with Monty() as pool, pool.checkout() as session:
        session.feed_run("f(1)", external_lookup={"f": plain})
        started = time.perf_counter()
        session.feed_run("x = 0\nfor i in range(300):\n    x = f(i)\nx", external_lookup={"f": plain})
        return (time.perf_counter() - started) / 300 * 1e6


async def call_rows() -> list[Row]:
    musts = {"plain": 0.5, "quick": 0.7}
    rows = []
    async with Sandbox([plain, quick], limits=Limits(max_tool_calls=None)) as box:

        async def ours(name: str, box: Sandbox = box) -> float:
            run = await box.run(CALLS.format(name=name))
            assert run.ok, run.error
            return float(str(run.result)) * 1e6

        async def theirs() -> float:
            return await asyncio.to_thread(monty_call_us) or MONTY_CALL_US

        base, plain_us, async_us = await in_turns(9, theirs, partial(ours, "plain"), partial(ours, "quick"))
    installed = monty_call_us() is not None
    name = "monty" if installed else "monty, published"
    for kind, samples, must in (("plain", plain_us, musts["plain"]), ("async", async_us, musts["quick"])):
        what = f"one awaited tool call, {kind} function"
        rows.append(Row.of(what, "process", samples, "µs", base, must=must, baseline_name=name, gated=installed))
    return rows


async def interrupt_row() -> list[Row]:
    """From `interrupt` to the result, in a tight loop; the bound is 50 ms."""
    rows = []
    async with Sandbox() as box:
        samples = []
        for n in range(15):
            task = asyncio.create_task(box.run("while True: pass", run_id=str(n)))
            await asyncio.sleep(0.1)
            started = time.perf_counter()
            box.interrupt(str(n))
            assert (await task).status == "interrupted"
            samples.append((time.perf_counter() - started) * 1e3)
        rows.append(Row("interrupting a tight loop, slowest of 15", "process", max(samples), "ms", must=50))
    return rows


async def session_row() -> Row:
    async with Sandbox() as box:

        async def ten() -> float:
            async with box.session() as session:
                await session.run("x = 0")
                started = time.perf_counter()
                for _ in range(10):
                    run = await session.run("x += 1\nx")
                assert run.result == 10
                return (time.perf_counter() - started) * 1e3

        await ten()
        base, made = await in_turns(9, subprocess_ms, ten)
    return Row.of("10 commands in one session", "process", made, "ms", base, must=1 / 5)


def pss(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


async def memory_row() -> Row:
    """Guests made and touched in one process, as a pool holds them; the whole process's PSS, divided."""
    machine = Machine(str(ensure_image().artefact("plain")))
    guests = [machine.guest() for _ in range(2)]
    for guest in guests:
        guest.touch()
    before = pss(os.getpid())
    more = [machine.guest() for _ in range(16)]
    for guest in more:
        guest.touch()
    each = (pss(os.getpid()) - before) / len(more) / 1e6
    for guest in guests + more:
        guest.close()
    return Row("memory added per idle pooled guest (PSS)", "machine", each, "MB", must=3, goal=1)


async def cpu_rows() -> list[Row]:
    rows = []
    musts = {"fib(24)": 2.3, "1,000 json round trips": 3.7, "a 1e6 integer loop": 5.0}
    async with Sandbox() as box:
        for name, source in CPU.items():
            compiled = compile(source, name, "exec")

            async def guest(source: str = source) -> float:
                run = await box.run(f"import time\nt = time.perf_counter()\n{source}\n(time.perf_counter() - t) * 1000")
                assert run.ok, run.error
                return float(str(run.result))

            async def host(compiled: object = compiled) -> float:
                started = time.perf_counter()
                exec(compiled, {})  # type: ignore[arg-type]
                return (time.perf_counter() - started) * 1e3

            made, base = await in_turns(25, guest, host)
            version = f"CPython {sys.version_info.major}.{sys.version_info.minor}, host"
            must = musts[name]
            rows.append(Row.of(f"CPU-bound: {name}", "process", made, "ms", base, must=must, baseline_name=version))
    return rows


async def first_result_row() -> Row:
    code = "from go_ent.sandbox import Sandbox\nwith Sandbox() as box: assert box.run_sync('1+1').result == 2"

    async def start(code: str = code) -> float:
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        assert await process.wait() == 0
        return (time.perf_counter() - started) * 1e3

    await start()
    base, made = await in_turns(7, subprocess_ms, start)
    return Row.of("new process to first sandbox result", "process", made, "ms", base, must=500, bound_on="value")


async def rows(quick_look: bool) -> list[Row]:
    rounds = 40 if quick_look else 60
    ensure_image()
    return [
        *await start_rows(rounds),
        await no_pool_row(rounds),
        await throughput_row(1.0 if quick_look else 3.0),
        *await call_rows(),
        await session_row(),
        await memory_row(),
        *await interrupt_row(),
        *await cpu_rows(),
        await first_result_row(),
    ]


INTRO = """\
What it costs to run code in the sandbox, beside what it costs to start a Python process for it, to call a function out of
pydantic-monty, or to compute without a sandbox. Made by `make bench`; what is compared was measured in turns. `process`: the guest
is in a worker process, as usual; `machine`: straight on the machine, without a pool."""


def measure(quick_look: bool) -> Report:
    return Report("sandbox", "The sandbox", INTRO, asyncio.run(rows(quick_look)), quick_look)


if __name__ == "__main__":
    command(measure, __doc__)
