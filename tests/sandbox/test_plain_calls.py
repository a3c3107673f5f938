"""Plain functions are called by the thread that reads the worker's messages: without a turn of the loop, and without
holding anybody else up.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextvars import ContextVar

import pytest

from go_ent.sandbox import Limits, Sandbox

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Gate:
    """A tool that answers at once, until it is told to wait."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.called = threading.Event()
        self.entered = threading.Event()
        self.threads: set[int] = set()

    def pass_through(self, wait: bool = False) -> str:
        self.threads.add(threading.get_ident())
        self.called.set()
        if wait:
            self.entered.set()
            assert self.opened.wait(30)
        return "through"

    def open(self) -> str:
        self.opened.set()
        return "open"

    async def later(self) -> str:
        await asyncio.sleep(0)
        return "later"

    def sandbox(self) -> Sandbox:
        tools = {"pass_through": self.pass_through, "open": self.open, "later": self.later}
        return Sandbox(tools, Limits(timeout_s=30))


QUICK = "for _ in range(100): await tools.pass_through()\n"


async def test_calls_are_answered_while_the_event_loop_is_busy() -> None:
    gate = Gate()

    async with gate.sandbox() as box:
        running = asyncio.create_task(box.run(f"{QUICK}await tools.open()"))
        await asyncio.to_thread(gate.called.wait, 20)
        assert gate.opened.wait(20), "no call is answered"  # the loop stands still for as long
        result = (await running).status
    assert result == "completed"
    assert len(gate.threads) == 1
    assert threading.get_ident() not in gate.threads


def test_a_quick_tool_that_waits_for_once_holds_up_none_of_its_own_runs_calls() -> None:
    code = (
        f"import asyncio\n{QUICK}"
        "async def other():\n    await asyncio.sleep(0.02)\n    return [await tools.later(), await tools.open()]\n"
        "[await asyncio.gather(tools.pass_through(True), other()), await tools.pass_through(), await tools.later()]"
    )
    with Gate().sandbox() as box:
        run = box.run_sync(code)
    assert run.result == [["through", ["later", "open"]], "through", "later"], run.error
    assert len(run.calls) == 105


async def test_a_quick_tool_that_waits_for_once_holds_up_no_other_run() -> None:
    gate = Gate()

    async with gate.sandbox() as box:
        waiting = asyncio.create_task(box.run(f"{QUICK}await tools.pass_through(True)"))
        await asyncio.to_thread(gate.entered.wait, 20)
        others = await asyncio.gather(*(box.run(f"{QUICK}await tools.later()") for _ in range(5)))
        assert [run.result for run in others] == ["later"] * 5
        gate.opened.set()
        assert (await waiting).result == "through"


@pytest.mark.parametrize("how", ["interrupted", "timeout", "cancelled"])
async def test_a_run_ends_while_its_tool_does_not(how: str) -> None:
    gate = Gate()

    async with gate.sandbox() as box:
        limits = {"timeout_s": 1} if how == "timeout" else {}
        code = f"{QUICK}await tools.pass_through(True)"
        running = asyncio.create_task(box.run(code, run_id="one", limits=limits))
        await asyncio.to_thread(gate.entered.wait, 20)
        if how == "cancelled":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            if how == "interrupted":
                box.interrupt("one")
            run = await running
            assert run.status == how
            assert run.calls[-1].error == "unfinished when the run ended"
        gate.opened.set()
        assert [(await box.run(f"{QUICK}1")).result for _ in range(3)] == [1, 1, 1]


async def test_a_run_that_is_cancelled_while_its_guest_computes_leaves_no_descriptor() -> None:
    gate = Gate()

    counts = []
    async with gate.sandbox() as box:
        for _ in range(4):
            gate.called.clear()
            running = asyncio.create_task(box.run(f"{QUICK}\nwhile True: pass"))
            await asyncio.to_thread(gate.called.wait, 20)
            await asyncio.sleep(0.05)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert (await box.run("1")).result == 1
            counts.append(await settled())
    assert max(counts[1:]) <= counts[0] + 6, counts  # a worker has three


async def settled() -> int:
    """How many descriptors there are once threads that leave have left."""
    before = -1
    while (count := len(os.listdir("/proc/self/fd"))) != before:
        before = count
        await asyncio.sleep(0.05)
    return count


async def test_tools_run_in_the_context_of_whoever_started_the_run() -> None:
    def who() -> str:
        return WHO.get()

    def change() -> None:
        WHO.set("a tool")

    async def one(box: Sandbox, name: str) -> object:
        WHO.set(name)
        return (await box.run("[[await tools.who(), await tools.change()][0] for _ in range(20)]")).result

    async with Sandbox([who, change]) as box:
        results = await asyncio.gather(*(asyncio.create_task(one(box, name)) for name in "abc"))
    assert results == [[name] * 20 for name in "abc"]
