"""Interrupts and cancellation end a run at once, and its CPU use with it."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import psutil
import pytest

from go_ent.sandbox import Run, RunNotFound, Sandbox
from tests.sandbox.test_limits import SPINS, WAITS

PLACES = {
    **SPINS,
    **WAITS,
    "blocking tool": "await tools.nap(1.5)",
    "queue": "import queue\nqueue.Queue().get(timeout=1000)",
    "query": "import sqlite3\nsqlite3.connect(':memory:').execute("
    "'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c').fetchone()",
}
del PLACES["digits"]


def guest_cpu() -> float:
    """CPU seconds of this process and of every worker below it."""
    total = time.process_time()
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
            total += times.user + times.system
        except psutil.NoSuchProcess:
            pass
    return total


async def quiet() -> None:
    """Until nothing uses CPU: what was ended may be cleaned up first, and the next guest made."""
    async with asyncio.timeout(60):
        used = -1.0
        while guest_cpu() - used > 0.05:
            used = guest_cpu()
            await asyncio.sleep(0.2)


async def started(box: Sandbox, code: str, name: str) -> asyncio.Task[Run]:
    task = asyncio.create_task(box.run(code, run_id=name))
    await asyncio.sleep(0.15)
    return task


class TestInterrupt:
    @pytest.mark.parametrize("place", PLACES)
    async def test_ends_the_run(self, box: Sandbox, place: str) -> None:
        task = await started(box, PLACES[place], f"interrupt {place}")
        box.interrupt(f"interrupt {place}")
        run = await task
        assert run.status == "interrupted"
        assert run.error is not None
        assert run.error.message == "the run was interrupted"

    @pytest.mark.parametrize("place", ["loop", "sum", "regex", "catch-all", "tasks"])
    async def test_cpu_use_really_stops(self, box: Sandbox, place: str) -> None:
        task = await started(box, PLACES[place], f"stop {place}")
        box.interrupt(f"stop {place}")
        assert (await task).status == "interrupted"
        await quiet()

    async def test_others_go_on(self, box: Sandbox) -> None:
        tasks = [
            asyncio.create_task(box.run(f"x = 0\nfor i in range(10**6): x += {n}\nx", run_id=f"sibling {n}"))
            for n in range(3)
        ]
        victim = await started(box, "while True: pass", "victim")
        box.interrupt("victim")
        assert (await victim).status == "interrupted"
        assert [(await task).result for task in tasks] == [0, 10**6, 2 * 10**6]

    async def test_while_waiting_for_a_worker(self) -> None:
        async with Sandbox(workers=1) as box:
            first = await started(box, "while True: pass", "first")
            second = await started(box, "1", "second")
            assert sorted(box.running) == ["first", "second"]
            box.interrupt("second")
            assert (await second).status == "interrupted"
            box.interrupt("first")
            assert (await first).status == "interrupted"
            assert (await box.run("2")).result == 2

    def test_of_a_run_that_has_ended(self, box: Sandbox) -> None:
        box.run_sync("1", run_id="ended")
        with pytest.raises(RunNotFound, match="no run 'ended' is under way"):
            box.interrupt("ended")

    def test_from_another_thread(self, box: Sandbox) -> None:
        threading.Timer(0.2, lambda: box.interrupt("from a thread")).start()
        assert box.run_sync("while True: pass", run_id="from a thread").status == "interrupted"


class TestCancel:
    @pytest.mark.parametrize("place", ["loop", "sleep", "tool", "gather", "sum"])
    async def test_cancelling_the_task_ends_the_run(self, box: Sandbox, place: str) -> None:
        task = await started(box, PLACES[place], f"cancel {place}")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert f"cancel {place}" not in box.running
        assert (await box.run("1")).result == 1
        await quiet()

    async def test_tools_under_way_are_cancelled(self) -> None:
        ended = []

        async def forever() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(os.getpid())

        async with Sandbox([forever]) as box:
            run = await box.run("await tools.forever()", limits={"timeout_s": 0.5})
            assert run.status == "timeout"
            assert [call.error for call in run.calls] == ["unfinished when the run ended"]
            await asyncio.sleep(0)
        assert ended == [os.getpid()]
