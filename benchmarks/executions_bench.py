"""What it costs to record executions, and to find one among many."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.measure import in_turns
from composer import Composer, FunctionSource, Grants, Hints
from engine import Engine, GuestOrder
from engine.executions.ids import new_id
from engine.executions.index import Index
from engine.executions.state import Environment, ExecutionState, digest_of
from engine.executions.store import ExecutionStore
from engine.executions.tape import Tapes
from sandbox.tape import Start

BOUND_MS = 5.0
ROUNDS = 50
STATUSES = ("completed",) * 90 + ("failed",) * 8 + ("interrupted", "paused")
KINDS = ("task",) * 50 + ("code",) * 40 + ("tool",) * 8 + ("chain", "graph")


def state_of(chance: random.Random, at: float, parent: str | None) -> ExecutionState:
    stamp, rest = f"{int(at * 1000):012x}", f"{chance.getrandbits(60):015x}"
    work = {"tasks": [{"description": "x"}], "one": True}
    return ExecutionState.model_construct(
        id=f"{stamp[:8]}-{stamp[8:]}-7{rest[:3]}-8{rest[3:6]}-{rest[3:]}",
        parent=parent,
        kind=chance.choice(KINDS),
        title="find what is slow, and say why",
        status=chance.choice(STATUSES),
        strategy="single",
        work=work,
        work_digest=digest_of(work),
        environment=Environment(go_ent="0", python="3", image="a" * 64),
        created=at,
        updated=at,
        finished=at,
        spent_tokens=1000,
    )


def filled(folder: Path, size: int) -> list[ExecutionState]:
    """An index of *size* executions, told of them one by one."""
    chance, now = random.Random(1), time.time()
    states: list[ExecutionState] = []
    for number in range(size):
        parent = states[number - number % 20].id if number % 20 else None
        states.append(state_of(chance, now - (size - number) * 60, parent))
    index = Index(folder)
    started = time.perf_counter()
    for state in states:
        index.put(state)
    print(f"{size:,} executions: {(time.perf_counter() - started) / size * 1e6:.0f} us to tell it of one")
    index.close()
    return states


def measured(ask: Callable[[int], object]) -> tuple[float, float]:
    """The median and the worst of some, in milliseconds."""
    took = []
    for number in range(ROUNDS):
        started = time.perf_counter()
        ask(number)
        took.append((time.perf_counter() - started) * 1e3)
    return statistics.median(took), max(took)


def look_ups(size: int) -> list[str]:
    """Look-ups in an index of that size."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / ".go-ent" / "executions"
        states = filled(folder, size)
        index = Index(folder)
        picked = random.Random(2).sample(states, ROUNDS)
        day = 86_400.0
        questions: dict[str, Callable[[int], object]] = {
            "by id": lambda number: index.find(picked[number].id),
            "by prefix": lambda number: index.find(picked[number].id[:16]),
            "the newest 50": lambda number: index.rows(),
            "50 by status": lambda number: index.rows(status="paused"),
            "50 by kind": lambda number: index.rows(kind="graph"),
            "50 by kind and status": lambda number: index.rows(kind="graph", status="paused"),
            "50 by parent": lambda number: index.rows(parent=picked[number].parent),
            "50 by time": lambda number: index.rows(since=picked[number].created, before=picked[number].created + day),
            "images needed": lambda number: index.needs_image(),
        }
        rows = []
        for name, ask in questions.items():
            median, worst = measured(ask)
            rows.append(row(f"look-up among {size:,}: {name}", f"{median:.2f} ms, worst {worst:.2f}", median, BOUND_MS, "5 ms"))
        index.close()
    return rows


def row(what: str, said: str, value: float, bound: float | None, shown: str) -> str:
    verdict = "" if bound is None else "ok" if value <= bound else "MISSED"
    return f"| {what} | {said} | {shown} | {verdict} |"


def middle(action: Callable[[], object], times: int) -> float:
    """The median of some, in microseconds."""
    took = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        took.append((time.perf_counter() - started) * 1e6)
    return statistics.median(took)


def recording(times: int) -> list[str]:
    """Records, syncs and snapshots, beside what the disk itself takes."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as temporary:
        bare = os.open(Path(temporary) / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def write_and_sync() -> None:
            os.write(bare, b"x" * 200)
            os.fdatasync(bare)

        disk = middle(write_and_sync, times)
        os.close(bare)
        store = ExecutionStore(Path(temporary))

        def whole() -> None:
            held = store.create(
                state_of(random.Random(), time.time(), None).model_copy(update={"id": new_id(), "status": "running"}), sync=False
            )
            held.move("completed")
            held.release()

        every = middle(whole, times // 2)
        state = state_of(random.Random(1), time.time(), None).model_copy(update={"id": new_id(), "status": "running"})
        with store.create(state) as held:
            record = {"path": "run/1", "tool": "github.search_issues", "digest": "0" * 64, "heard": "[1234567,[1]],[]"}
            plain = middle(lambda: held.append("call", record, raw={"arguments": b'[[],{"query":"is:open"}]'}), times * 10)
            synced = middle(lambda: held.append("begun", {"path": "run/1", "retry": False}, sync=True), times)
            snapshot = middle(held.write, times)
            tape, numbers = Tapes(held, replay=False).tape("run"), itertools.count(1)
            tape.begin(Start(bytes(32), 1, False, "image", "source"))

            def call_and_answer() -> None:
                number = next(numbers)
                tape.calls([(number, "github.search_issues", [], {"query": "is:open"})], [], b"[1234567,[1]],[]")
                tape.answered(number, b'[%d,1,{"total":3}]' % number)

            whole_call = middle(call_and_answer, times * 10)
        store.index.close()
    return [
        row("a record", f"{plain:.0f} us", plain, 25, "25 us: two of them a call"),
        row("a read-only call from a guest: its records, of the call and the answer", f"{whole_call:.0f} us", whole_call, 50, "50 us"),
        row("a record, synced (the disk alone: a write and a sync)", f"{synced:.0f} us ({disk:.0f} us)", synced, 300, "300 us"),
        row("a snapshot of the state", f"{snapshot:.0f} us", snapshot, 1500, "1,500 us"),
        row("an execution begun and ended, synced at the end", f"{every / 1e3:.1f} ms", every, None, ""),
    ]


async def look(n: int) -> int:
    """Only look."""
    return n


async def calls(times: int) -> list[str]:
    """A read-only call from a guest, recorded and not, in turns: by what 600 calls more take."""
    few, many = 200, 800
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as temporary:
        (Path(temporary) / ".go-ent").mkdir()
        source = FunctionSource([look], "w", hints={"look": Hints(read_only=True)})
        composer = Composer(Path(temporary), sources=[source], trusted=True)
        composer.grants = composer.code.grants = Grants(["w.*"])
        async with composer, Engine(Path(temporary), composer=composer, trusted=True) as engine:

            async def took(code: str, on_record: bool) -> float:
                started = time.perf_counter()
                run = await (engine.guests.run(GuestOrder(code=code)) if on_record else composer.code.execute(code))
                assert run.ok, run.error
                return (time.perf_counter() - started) * 1e6

            def action(size: int, on_record: bool) -> Callable[[], Awaitable[float]]:
                code = f"for i in range({size}):\n    await tools.w.look(n=i)" if size else "1 + 1"
                return lambda: took(code, on_record)

            actions = [action(size, on_record) for size in (0, few, many) for on_record in (False, True)]
            await in_turns(2, *actions)
            bare, kept, bare_few, kept_few, bare_many, kept_many = map(statistics.median, await in_turns(times, *actions))
    without, with_ = (bare_many - bare_few) / (many - few), (kept_many - kept_few) / (many - few)
    more = with_ - without
    return [
        row("a read-only call from a guest, from end to end: what recording adds", f"{more:.0f} us to {without:.0f} us", more, None, ""),
        row("1 + 1 as an execution, and without a record", f"{kept / 1e3:.1f} ms, {bare / 1e3:.1f} ms", kept, None, ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the executions")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    rows = recording(100 if options.quick else 500)
    rows += asyncio.run(calls(5 if options.quick else 11))
    rows += look_ups(10_000 if options.quick else 100_000)
    text = "\n".join(["| what | measured | bound | |", "|---|---|---|---|", *rows])
    version = ".".join(map(str, sys.version_info[:3]))
    text += f"\n\nMedians. {os.cpu_count()} cores, Python {version}\n"
    print(text)
    if options.save:
        (Path(__file__).parents[1] / "docs" / "benchmarks" / "executions.md").write_text(f"# The figures of executions\n\n{text}")


if __name__ == "__main__":
    main()
