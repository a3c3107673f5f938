"""What there is a bounded number of, shared out among callers."""

from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest

from go_ent.sandbox import Sandbox
from go_ent.sandbox.host.flight import Flight
from go_ent.sandbox.host.pool import Pool
from go_ent.sandbox.host.process import WorkerProcess
from go_ent.sandbox.host.sharing import CALLER, Shares
from go_ent.sandbox.host.threads import Threads


class Place(WorkerProcess):
    """A worker in which nothing runs: only who gets it, and when, is looked at."""

    def __init__(self) -> None:
        self.alive, self.ready, self.stuck, self.idle_since, self.flight = True, True, False, 0.0, None

    def catch_up(self) -> None: ...

    def place(self, rank: int) -> bool:
        return True

    def kill(self) -> None: ...

    def close(self) -> None:
        self.alive = False


def make_pool(most: int, callers: int) -> Pool:
    return Pool(Place, Threads("test").start, most=most, warm=0, callers=lambda: callers)


def take(pool: Pool, caller: str) -> WorkerProcess | asyncio.Future[WorkerProcess]:
    context = copy_context()
    context.run(CALLER.set, caller)
    return context.run(pool.take)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


async def settle() -> None:
    """Until what was handed over has come."""
    for _ in range(3):
        await asyncio.sleep(0)


class TestShares:
    def test_one_caller_has_all(self) -> None:
        shares = Shares(10, lambda: 1)
        assert (shares.sure, shares.most, shares.room("")) == (10, 10, 10)

    @pytest.mark.parametrize("callers", [2, 3, 5])
    def test_each_has_its_part_whatever_the_others_take(self, callers: int) -> None:
        shares = Shares(30, lambda: callers)
        names = [f"caller {number}" for number in range(callers)]
        for name in names[:-1]:
            shares.take(name, shares.room(name))
        assert shares.room(names[-1]) == shares.sure == 30 // (2 * callers)
        assert shares.held.total() == 30 - shares.sure

    def test_whatever_happens_nobody_s_part_is_gone(self) -> None:
        dice = random.Random(7)
        shares = Shares(24, lambda: 4)
        for _ in range(5_000):
            name = f"caller {dice.randrange(4)}"
            if dice.random() < 0.6 and shares.room(name):
                shares.take(name, dice.randint(1, shares.room(name)))
            elif shares.held[name]:
                shares.give(name, dice.randint(1, shares.held[name]))
            assert shares.held.total() <= shares.total
            for number in range(4):
                held = shares.held[f"caller {number}"]
                assert shares.room(f"caller {number}") >= max(0, shares.sure - held)

    def test_more_callers_than_parts_are_served_while_there_is_any(self) -> None:
        shares = Shares(3, lambda: 10)
        for name in "abc":
            assert shares.room(name) == 1
            shares.take(name)
        assert shares.room("d") == 0


class TestPool:
    def test_one_caller_never_holds_all_of_them(self) -> None:
        async def main() -> None:
            pool = make_pool(8, callers=2)
            greedy = [take(pool, "greedy") for _ in range(60)]
            assert sum(isinstance(one, Place) for one in greedy) == 6
            others = [take(pool, "other") for _ in range(3)]
            assert [isinstance(one, Place) for one in others] == [True, True, False]
            pool.close()

        run(main)

    def test_who_waits_is_served_by_turns_and_each_in_order(self) -> None:
        """Sixty wait before the other comes: the other is not behind them."""

        async def main() -> None:
            pool = make_pool(4, callers=2)
            order: list[str] = []
            held: deque[WorkerProcess] = deque()

            def note(label: str, place: asyncio.Future[WorkerProcess]) -> None:
                if place.exception() is None:
                    order.append(label)
                    held.append(place.result())

            for name in ("greedy", "greedy", "greedy", "other"):
                worker = take(pool, name)
                assert isinstance(worker, Place)
                held.append(worker)
            for name, count in (("greedy", 60), ("other", 5)):
                for number in range(count):
                    place = take(pool, name)
                    assert isinstance(place, asyncio.Future)
                    place.add_done_callback(partial(note, f"{name} {number}"))
            for _ in range(10):
                pool.release(held.popleft())
                await settle()
            assert order == [f"{name} {number}" for number in range(5) for name in ("greedy", "other")]
            pool.close()
            await settle()

        run(main)

    def test_what_nobody_waits_for_any_more_goes_to_the_next(self) -> None:
        async def main() -> None:
            pool = make_pool(2, callers=2)
            mine, theirs = take(pool, "a"), take(pool, "b")
            assert isinstance(mine, Place)
            assert isinstance(theirs, Place)
            gone, waits = take(pool, "a"), take(pool, "a")
            assert isinstance(gone, asyncio.Future)
            assert isinstance(waits, asyncio.Future)
            gone.cancel()
            pool.release(theirs)
            await settle()
            assert not waits.done(), "that one is the other's"
            pool.release(mine)
            await settle()
            assert waits.result() is mine
            assert take(pool, "b") is theirs
            pool.close()

        run(main)


async def test_a_run_of_another_starts_while_one_caller_s_wait() -> None:
    """For real: two workers, one caller whose runs do not end, another whose run does."""

    async with Sandbox(workers=2, callers=2) as box:

        async def as_caller(name: str, code: str, run_id: str) -> Any:
            CALLER.set(name)
            return await box.run(code, run_id=run_id)

        endless = [
            asyncio.create_task(as_caller("greedy", "while True:\n    pass", f"g{number}")) for number in range(5)
        ]
        done = await asyncio.create_task(as_caller("other", "6 * 7", "o"))
        assert done.result == 42
        assert all(not task.done() for task in endless)
        box.interrupt_all()
        assert {run.status for run in await asyncio.gather(*endless)} == {"interrupted"}


def nice_of(pid: int) -> set[int]:
    """Of all its threads: a guest runs in one of its own."""
    return {os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in os.listdir(f"/proc/{pid}/task")}


async def test_the_more_of_a_caller_s_run_the_nicer_each_is() -> None:
    started: asyncio.Queue[str] = asyncio.Queue()

    async def begun(name: str) -> None:
        started.put_nowait(name)
        await asyncio.Event().wait()

    async with Sandbox([begun], workers=8, callers=2) as box:

        async def as_caller(name: str) -> Any:
            CALLER.set(name)
            return await box.run("await tools.begun(name=name)", {"name": name}, run_id=f"{name} {len(box.running)}")

        base = os.getpriority(os.PRIO_PROCESS, 0)
        tasks = []
        for name in ("greedy", "greedy", "greedy", "other"):
            tasks.append(asyncio.create_task(as_caller(name)))
            assert await started.get() == name
        flights = {run_id: box._flights[run_id] for run_id in box.running}
        nice = [nice_of(flight.worker.pid or 0) for flight in flights.values() if isinstance(flight, Flight)]
        assert nice == [{min(19, base + more)} for more in (0, 5, 10, 0)]
        box.interrupt_all()
        await asyncio.gather(*tasks)
