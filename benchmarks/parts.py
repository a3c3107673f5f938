"""Where the time of a short run and of a tool call goes: CPU time of the parts, each alone in a loop, and of the whole.

The parts alone are what the instructions cost. The whole costs more, because its parts find each other's data in the
caches, or nobody's after a pause: the difference is what a page of figures can't show otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.measure import Row, median
from go_ent.sandbox import Limits, Sandbox
from go_ent.sandbox.host.broker import Broker
from go_ent.sandbox.host.tools import Toolset
from go_ent.sandbox.images import ensure_image
from go_ent.sandbox.worker.machine import THREAD_STACK_BYTES, Guest, Machine
from go_ent.sandbox.worker.snapshot import PAGE, Unsupported

T = TypeVar("T")
PACE_S = 0.02
CALLS = 300
CALLING = f"for i in range({CALLS}): await tools.plain(n=i)"


def plain(n: int) -> int:
    return n


@dataclass(frozen=True)
class Spent:
    """CPU time, in µs."""

    worker: float
    host: float

    @property
    def both(self) -> float:
        return self.worker + self.host


@dataclass(frozen=True)
class Parts:
    """What was found: of a fresh `1+1` and of a tool call, in µs."""

    guest: float
    reset: float
    pages: int
    guest_call: float
    host_call: float
    in_a_row: Spent
    paced: Spent
    call: Spent

    def table(self) -> str:
        def shown(us: float) -> str:
            return f"{us:.0f}"

        rows = [
            ("a fresh `1+1`: the guest's run, alone in a loop", shown(self.guest), "–"),
            (f"its reset ({self.pages} pages copied back), alone in a loop", shown(self.reset), "–"),
            ("the same run in the product, back to back", shown(self.in_a_row.worker), shown(self.in_a_row.host)),
            ("the same, a fiftieth of a second after the last", shown(self.paced.worker), shown(self.paced.host)),
            ("a tool call: checks, validation, the function, the answer, alone in a loop", "–", shown(self.host_call)),
            ("the guest's side of it, alone in a loop", shown(self.guest_call), "–"),
            ("a tool call in the product, plain function", shown(self.call.worker), shown(self.call.host)),
        ]
        head = ["| µs of CPU | worker | host |", "|---|---|---|"]
        return "\n".join(head + [f"| {what} | {worker} | {host} |" for what, worker, host in rows])

    def rows(self) -> list[Row]:
        """The host's CPU beside what is measured by the clock: that is what a server has to share among its clients."""
        return [
            Row("host's CPU of a fresh 1+1, back to back", "process", self.in_a_row.host / 1e3, "ms"),
            Row("host's CPU of a fresh 1+1, paced", "process", self.paced.host / 1e3, "ms"),
            Row("host's CPU of one awaited tool call, plain function", "process", self.call.host, "µs"),
        ]


class Echo:
    """A port that answers every call at once."""

    def exchange(self, message: bytes) -> bytes:
        _, _, body = message.partition(b"\n")
        calls = json.loads(body)[0] if body else []
        return b"1.0\n" + json.dumps([[call[0], 1, 1] for call in calls]).encode()

    def write(self, text: bytes) -> None:
        pass

    def keep(self, code: bytes) -> None:
        pass


def least_us(action: Callable[[], object], times: int, rounds: int = 15) -> float:
    """CPU time of this thread for one *action*: what others at work disturb least is the least of some rounds."""
    found = []
    for _ in range(rounds):
        before = time.thread_time_ns()
        for _ in range(times):
            action()
        found.append((time.thread_time_ns() - before) / times / 1e3)
    return min(found)


class Alone:
    """A guest in this process, with nothing around it. Raises `Unsupported` where guests are not reset."""

    def __init__(self, language: str = "python") -> None:
        self.guest: Guest = Machine(str(ensure_image(language=language).artefact("plain"))).guest()
        self.guest.take_snapshot()
        assert self.guest.snapshot is not None
        self.snapshot, self.port = self.guest.snapshot, Echo()
        self.snapshot.open()
        self.snapshot.warm_up()

    def once(self, text: bytes, *, unmoved: bool) -> None:
        assert self.guest.run(text, self.port, memory_bytes=None).answer is not None
        self.snapshot.restore(unmoved=unmoved)

    def times(self) -> tuple[float, float, int]:
        """The smallest run of its image, its reset, and the pages of that."""
        request = self.guest._requests[0]
        self.once(request, unmoved=False)
        both = least_us(lambda: self.once(request, unmoved=True), 100)
        reset = least_us(lambda: self.snapshot.restore(unmoved=True), 100)
        return both - reset, reset, sum(end - start for start, end in self.snapshot._hot) // PAGE


def of_guest() -> tuple[float, float, int, float]:
    """A guest's run, its reset and the pages of that; its side of a call. Raises `Unsupported`."""
    alone = Alone()
    run, reset, pages = alone.times()
    calling = json.dumps({**json.loads(alone.guest._requests[-1]), "source": CALLING}).encode()
    echo = least_us(lambda: alone.port.exchange(b'-1\n[[[1,"plain",[],{"n":1}]],[]]'), 1000)
    calls = least_us(lambda: alone.once(calling, unmoved=False), 1) / CALLS - echo
    return run, reset, pages, calls


def in_a_guest_s_thread(look: Callable[[], T]) -> T | None:
    """What *look* finds, in a thread with a stack for a guest; None where guests are not reset."""
    found: list[T] = []

    def inside() -> None:
        with contextlib.suppress(Unsupported):
            found.append(look())

    before = threading.stack_size(THREAD_STACK_BYTES)
    thread = threading.Thread(target=inside)
    thread.start()
    threading.stack_size(before)
    thread.join()
    return found[0] if found else None


def of_broker(loop: asyncio.AbstractEventLoop, box: Sandbox) -> float:
    """The host's side of a plain call, without the socket."""
    numbers = iter(range(1, 1 << 40))
    broker = Broker(Toolset([plain]), box.limits, loop, box._threads, lambda _: None, lambda _: None, lambda: 0)

    def once() -> None:
        call = broker.receive(b'[[[%d,"plain",[],{"n":5}]],[]]' % next(numbers))
        assert call is not None
        broker.make(call)

    return least_us(once, 1000)


async def spent(box: Sandbox, act: Callable[[], Awaitable[object]], times: int, rounds: int) -> Spent:
    """CPU time of worker and host for one *act*, the median of some rounds."""
    (worker,) = box._pools["plain", 0]._all
    workers, hosts = [], []
    for _ in range(rounds):
        before = worker.cpu_ns(), time.process_time_ns()
        for _ in range(times):
            await act()
        workers.append((worker.cpu_ns() - before[0]) / times / 1e3)
        hosts.append((time.process_time_ns() - before[1]) / times / 1e3)
    return Spent(median(workers), median(hosts))


async def find(rounds: int = 9) -> Parts | None:
    """The parts; None where guests are not reset."""
    async with Sandbox([plain], Limits(max_tool_calls=None), workers=1) as box:

        async def run(code: str = "1+1") -> None:
            assert (await box.run(code)).ok

        async def paced() -> None:
            await asyncio.sleep(PACE_S)
            await run()

        for _ in range(20):
            await run()
        in_a_row = await spent(box, run, 100, rounds)
        after_a_pause = await spent(box, paced, 10, rounds)
        calls = await spent(box, lambda: run(CALLING), 1, rounds)
        broker = of_broker(asyncio.get_running_loop(), box)
    found = await asyncio.to_thread(in_a_guest_s_thread, of_guest)
    if found is None:
        return None
    guest, reset, pages, guest_call = found
    call = Spent((calls.worker - in_a_row.worker) / CALLS, (calls.host - in_a_row.host) / CALLS)
    return Parts(guest, reset, pages, guest_call, broker, in_a_row, after_a_pause, call)


if __name__ == "__main__":
    parts = asyncio.run(find())
    print("guests are not reset here" if parts is None else parts.table())
