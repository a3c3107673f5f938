"""JavaScript and TypeScript in the sandbox, beside Python in the same sandbox: `make bench`."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import parts
from benchmarks.measure import Row, in_turns
from benchmarks.report import Report, command
from go_ent.sandbox import Sandbox
from go_ent.sandbox.images import javascript
from go_ent.sandbox.worker.languages import Language

INTRO = """\
What JavaScript costs beside Python, and TypeScript beside JavaScript, in the same sandbox, eleven in a row and in turns. Made by
`make bench`. The image of the language is built when its first run comes."""
FUNCTIONS = "\n".join(
    f"function f{n}(a: number, b: string = 'x'): string {{ return `${{a}}${{b}}`; }}" for n in range(19)
)
TYPED = f"{FUNCTIONS}\nf3(1)"
PLAIN = TYPED.replace(": number", "").replace(": string", "")
NAP_S = 0.2
IN_A_ROW = 11  # each language has a worker of its own: by single turns both would be measured after a pause


def add(a: int, b: int) -> int:
    return a + b


async def nap() -> float:
    await asyncio.sleep(NAP_S)
    return NAP_S


async def timed(box: Sandbox, code: str, language: Language) -> float:
    started = time.perf_counter()
    run = await box.run(code, language=language)
    took = (time.perf_counter() - started) * 1e3
    assert run.status == "completed", run.error
    return took


async def in_a_row(box: Sandbox, code: str, language: Language) -> float:
    return sorted([await timed(box, code, language) for _ in range(IN_A_ROW)])[IN_A_ROW // 2]


# What an interrupt ends: nothing of it comes back to the guest's own loop by itself.
ENDLESS = {
    "a loop": "for (;;);",
    "a regular expression": "/^(a+)+$/.test('a'.repeat(40) + 'b')",
    "JSON.parse": "const text = '[' + '1,'.repeat(3e6) + '1]'; for (;;) JSON.parse(text)",
    "a sort": "const xs = Array.from({ length: 2e5 }, (_, i) => (i * 7919) % 200003); for (;;) xs.slice().sort((a, b) => a - b)",
}


def is_under_way(box: Sandbox) -> None:
    """Wait until the run is past what prepares it."""
    while box.cpu_used("endless") < 0.2:
        time.sleep(0.01)


async def interrupted(box: Sandbox, code: str) -> float:
    """How long it takes from the interrupt to the end of the run, in ms."""
    task = asyncio.create_task(box.run(code, language="javascript", run_id="endless"))
    await asyncio.to_thread(is_under_way, box)
    started = time.perf_counter()
    box.interrupt("endless")
    assert (await task).status == "interrupted"
    return (time.perf_counter() - started) * 1e3


async def interrupt_rows(rounds: int) -> list[Row]:
    async with Sandbox() as box:
        return [
            Row(
                f"interrupt to end: {name}",
                "process",
                sorted([await interrupted(box, code) for _ in range(rounds)])[rounds // 2],
                "ms",
                must=50,
                gated=False,
            )
            for name, code in ENDLESS.items()
        ]


async def run_rows(rounds: int) -> list[Row]:
    pairs: list[tuple[str, float, tuple[str, Language], tuple[str, Language]]] = [
        ("fresh 1+2", 0.7, ("1+2", "javascript"), ("1+2", "python")),
        (
            "one awaited tool call",
            1.2,
            ("await tools.add({a: 1, b: 2})", "javascript"),
            ("await tools.add(a=1, b=2)", "python"),
        ),
        ("TypeScript of 20 lines, again", 1.2, (TYPED, "typescript"), (PLAIN, "javascript")),
    ]
    found = []
    async with Sandbox([add, nap]) as box:
        for name, must, ours, base in pairs:
            for _ in range(10):
                await timed(box, *ours)
                await timed(box, *base)
            before, mine = await in_turns(rounds, partial(in_a_row, box, *base), partial(in_a_row, box, *ours))
            beside = {"python": "Python", "javascript": "JavaScript"}[base[1]]
            found.append(Row.of(name, "process", mine, "ms", before, must=must, baseline_name=beside))
        numbers = itertools.count(time.monotonic_ns())
        first = [await timed(box, f"{TYPED} + {next(numbers)}", "typescript") for _ in range(20)]
        found.append(Row("TypeScript of 20 lines, first", "process", sorted(first)[10], "ms", gated=False))
        naps = "await Promise.all([tools.nap(), tools.nap(), tools.nap()])"
        took = sorted([await timed(box, naps, "javascript") for _ in range(5)])[2]
        found.append(
            Row(
                "Promise.all of three tools of 200 ms",
                "process",
                took,
                "ms",
                NAP_S * 1e3,
                must=1.1,
                baseline_name="the slowest",
            )
        )
    return found


def image_rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "component.wasm"
        started = time.perf_counter()
        javascript.build(str(javascript.engine()), str(target))
        took = time.perf_counter() - started
        size = target.stat().st_size / 1e6
    return [
        Row("image: its component is made", "", took, "s", must=3, gated=False),
        Row("image: its size", "", size, "MB", must=10, gated=False),
    ]


AFTER = """\
## Where the time goes

| µs of CPU, alone in a loop | Python, `1+1` | JavaScript, `1+2` |
|---|---|---|
| the guest's run | {python[0]:.0f} | {javascript[0]:.0f} |
| its reset | {python[1]:.0f} | {javascript[1]:.0f} |
| pages that are copied back for it | {python[2]} | {javascript[2]} |

A fresh run is for the most part the way to a worker and back, which is the same for both ([the sandbox](sandbox.md) has its parts);
the reset comes after the answer. So where the bound of a fresh `1+2` is missed, it is because Python's runs have come close."""


def measure(quick_look: bool) -> Report:
    rows = [*asyncio.run(run_rows(10 if quick_look else 40)), *asyncio.run(interrupt_rows(5)), *image_rows()]
    alone = {name: parts.in_a_guest_s_thread(partial(times_of, name)) for name in ("python", "javascript")}
    after = AFTER.format(**alone) if None not in alone.values() else ""
    return Report("javascript", "JavaScript and TypeScript", INTRO, rows, quick_look, after=after)


def times_of(language: str) -> tuple[float, float, int]:
    return parts.Alone(language).times()


if __name__ == "__main__":
    command(measure, __doc__)
