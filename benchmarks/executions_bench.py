"""What it costs to record executions, and to find one among many."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from benchmarks.measure import Row, by_turns, in_turns, median, timed
from benchmarks.report import Report, command, scratch
from go_ent.composer import Composer, FunctionSource, Grants, Hints
from go_ent.engine import Engine, GuestOrder
from go_ent.engine.core.ids import new_id
from go_ent.engine.executions.state import Environment, ExecutionState, digest_of
from go_ent.engine.executions.tape import Tapes
from go_ent.engine.storage.index import Index
from go_ent.engine.storages import open_store
from go_ent.sandbox.worker.tape import Start

BOUND_MS = 5.0
ROUNDS = 50
FEW = 1_000
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
    for state in states:
        index.put(state)
    index.close()
    return states


def questions(index: Index, picked: list[ExecutionState]) -> dict[str, Callable[[int], object]]:
    """What is asked of an index, about some of what is in it."""
    day = 86_400.0
    return {
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


def look_ups(size: int) -> list[Row]:
    """Look-ups in an index of that size, beside the same in one of `FEW`."""
    with tempfile.TemporaryDirectory() as temporary:
        asked = []
        indexes = []
        for each in (FEW, size):
            folder = Path(temporary) / str(each) / ".go-ent" / "executions"
            states = filled(folder, each)
            indexes.append(Index(folder))
            asked.append(questions(indexes[-1], random.Random(2).sample(states, ROUNDS)))
        few, many = asked
        rows = []
        for name in few:
            base, took = [], []
            for number in range(ROUNDS):
                base.append(timed(partial(few[name], number)) * 1e3)
                took.append(timed(partial(many[name], number)) * 1e3)
            note = f"worst {max(took):.2f} ms"
            more = {"must": BOUND_MS, "bound_on": "value", "baseline_name": f"among {FEW:,}", "note": note}
            rows.append(Row.of(f"look-up among {size:,}: {name}", "", took, "ms", base, **more))
        for index in indexes:
            index.close()
    return rows


def recording(times: int) -> list[Row]:
    """Records, syncs and snapshots, beside what the disk itself takes."""
    with scratch(synced=True) as temporary:
        bare = os.open(Path(temporary) / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def write() -> None:
            os.write(bare, b"x" * 200)

        def write_and_sync() -> None:
            os.write(bare, b"x" * 200)
            os.fdatasync(bare)

        def beside(
            base: Callable[[], object], action: Callable[[], object], count: int
        ) -> tuple[list[float], list[float]]:
            base_s, took = by_turns(count, lambda: timed(base) * 1e6, lambda: timed(action) * 1e6)
            return took, base_s

        store = open_store(Path(temporary))

        def whole() -> None:
            held = store.create(
                state_of(random.Random(), time.time(), None).model_copy(update={"id": new_id(), "status": "running"}),
                sync=False,
            )
            held.move("completed")
            held.release()

        every = beside(write_and_sync, whole, times // 2)
        state = state_of(random.Random(1), time.time(), None).model_copy(update={"id": new_id(), "status": "running"})
        with store.create(state) as held:
            record = {"path": "run/1", "tool": "github.search_issues", "digest": "0" * 64, "heard": "[1234567,[1]],[]"}
            plain = beside(
                write, lambda: held.append("call", record, raw={"arguments": b'[[],{"query":"is:open"}]'}), times * 10
            )
            synced = beside(
                write_and_sync, lambda: held.append("begun", {"path": "run/1", "retry": False}, sync=True), times
            )
            snapshot = beside(write_and_sync, held.write, times)
            tape, numbers = Tapes(held, replay=False).tape("run"), itertools.count(1)
            tape.begin(Start(bytes(32), 1, False, "image", "source"))

            def call_and_answer() -> None:
                number = next(numbers)
                tape.calls([(number, "github.search_issues", [], {"query": "is:open"})], [], b"[1234567,[1]],[]")
                tape.answered(number, b'[%d,1,{"total":3}]' % number)

            whole_call = beside(write, call_and_answer, times * 10)
        store.close()
        os.close(bare)
    w, ws, on_value = "a bare write", "a bare write and sync", {"bound_on": "value"}
    a_call = "a read-only call from a guest: its records, of the call and the answer"
    return [
        Row.of("a record", "", plain[0], "µs", plain[1], must=25, baseline_name=w, **on_value),
        Row.of(a_call, "", whole_call[0], "µs", whole_call[1], must=50, baseline_name=w, **on_value),
        Row.of("a record, synced", "", synced[0], "µs", synced[1], must=300, baseline_name=ws, **on_value),
        Row.of("a snapshot of the state", "", snapshot[0], "µs", snapshot[1], must=1500, baseline_name=ws, **on_value),
        Row.of("an execution begun and ended, synced at the end", "", every[0], "µs", every[1], baseline_name=ws),
    ]


async def look(n: int) -> int:
    """Only look."""
    return n


async def calls(times: int) -> list[Row]:
    """A read-only call from a guest, recorded and not, in turns: by what 600 calls more take."""
    few, many = 200, 800
    with scratch(synced=True) as temporary:
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
            samples = await in_turns(times, *actions)
            _, _, bare_few, kept_few, bare_many, kept_many = map(median, samples)
    without, with_ = (bare_many - bare_few) / (many - few), (kept_many - kept_few) / (many - few)
    name = "a read-only call from a guest, from end to end, recorded"
    return [
        Row.of(
            f"{many} read-only calls from a guest, recorded",
            "",
            samples[5],
            "µs",
            samples[4],
            baseline_name="not recorded",
        ),
        Row(
            name,
            "",
            with_,
            "µs",
            without,
            baseline_name="not recorded",
            gated=False,
            note="a difference of differences: never gated",
        ),
        Row.of("1 + 1 as an execution", "", samples[1], "µs", samples[0], baseline_name="not recorded"),
    ]


INTRO = """\
What it costs to have an execution on record, and to find one among many. Made by `make bench`; medians, each beside what the disk
alone takes, the same without a record, or the same among few. How long it takes to go on with an execution is with the
[engine](engine.md)."""


def measure(quick: bool) -> Report:
    rows = [
        *recording(100 if quick else 500),
        *asyncio.run(calls(5 if quick else 11)),
        *look_ups(10_000 if quick else 100_000),
    ]
    return Report("executions", "Executions", INTRO, rows, quick)


if __name__ == "__main__":
    command(measure, __doc__)
