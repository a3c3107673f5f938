"""Worker processes: one that dies costs its run and nothing else; none outlives its host."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from go_ent.sandbox import Limits, Run, Sandbox
from tests.sandbox.test_interrupt import quiet


def children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child.is_running() and child.status() != psutil.STATUS_ZOMBIE
    ]


def workers() -> list[int]:
    """The pids of all workers: children of a zygote, which is a child of ours."""
    found = []
    for child in children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end meanwhile
            parent = child.parent()
            if parent is not None and parent.pid != os.getpid():
                found.append(child.pid)
    return found


def cpu_of(pid: int) -> float:
    """CPU seconds of a worker; an idle one may be retired at any moment."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


async def spinning() -> int:
    """The worker that spins, once one does."""
    before = {pid: cpu_of(pid) for pid in workers()}
    async with asyncio.timeout(60):
        while True:
            for pid in workers():
                if cpu_of(pid) - before.setdefault(pid, cpu_of(pid)) > 0.3:
                    return pid
            await asyncio.sleep(0.05)


class TestDeath:
    def test_a_killed_worker_costs_only_its_run(self) -> None:
        async def main() -> tuple[Run, list[Run], Run]:
            reached, killed = asyncio.Event(), asyncio.Event()

            async def hold() -> str:
                reached.set()
                await killed.wait()
                return "fine"

            async with Sandbox([hold], Limits(timeout_s=60, cpu_s=60), workers=4) as box:
                other = asyncio.create_task(box.run("await tools.hold()"))
                await reached.wait()
                victim = asyncio.create_task(box.run("print('started')\nwhile True: pass"))
                os.kill(await spinning(), signal.SIGKILL)
                lost = await victim
                killed.set()
                after = [await box.run("n", {"n": n}) for n in range(5)]
                return lost, after, await other

        lost, after, other = asyncio.run(main())
        assert lost.status == "crashed"
        assert lost.stdout == "started\n"
        assert lost.error is not None
        assert lost.error.message == "the run was lost: its worker died"
        assert [run.result for run in after] == list(range(5))
        assert other.result == "fine"

    async def test_an_idle_worker_that_dies_is_replaced(self) -> None:
        async with Sandbox() as box:
            assert (await box.run("1")).result == 1
            for pid in workers():
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.1)
            assert [(await box.run("2")).status for _ in range(6)] == ["completed"] * 6

    async def test_a_killed_zygote_is_replaced(self) -> None:
        async with Sandbox() as box:
            assert (await box.run("1")).result == 1
            psutil.Process(box._zygotes["plain"].pid).kill()
            await asyncio.sleep(0.3)
            assert [(await box.run("2")).result for _ in range(6)] == [2] * 6

    @pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(100)", "1"])
    def test_workers_end_with_their_host(self, code: str) -> None:
        script = (
            "import asyncio, sys\nfrom go_ent.sandbox import Sandbox\n"
            "async def main():\n"
            "    async with Sandbox() as box:\n"
            "        await box.run('1')\n"
            f"        task = asyncio.create_task(box.run({code!r}))\n"
            "        await asyncio.sleep(0.3)\n"
            "        print('ready', flush=True)\n"
            "        await asyncio.sleep(100)\n"
            "asyncio.run(main())\n"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as host:
            assert host.stdout is not None
            assert host.stdout.readline() == b"ready\n"
            family = psutil.Process(host.pid).children(recursive=True)
            assert len(family) >= 2
            host.kill()
            _, alive = psutil.wait_procs(family, timeout=5)
        assert alive == []


class TestPool:
    def test_workers_are_bounded_and_closed(self) -> None:
        async def main() -> None:
            async with Sandbox(workers=3) as box:
                await asyncio.gather(*(box.run("import time\ntime.sleep(0.05)") for _ in range(12)))
                assert len(set(children()) - before) <= 5  # three workers, one that compiles, and the zygote

        before = set(children())
        asyncio.run(main())
        assert psutil.wait_procs(set(children()) - before, timeout=60)[1] == []

    async def test_idle_workers_use_no_cpu(self, box: Sandbox) -> None:
        await box.run("1")
        assert workers()
        await quiet()

    def test_workers_have_no_environment_and_few_descriptors(self, box: Sandbox) -> None:
        box.run_sync("1")
        looked_at = 0
        for pid in workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                worker = psutil.Process(pid)
                seen = worker.environ(), worker.num_fds() <= 8, worker.cwd()
                assert seen == ({}, True, "/")
                looked_at += 1
        assert looked_at

    def test_several_loops_share_a_sandbox(self) -> None:
        """Four threads, each with a loop after a loop, on two workers."""

        async def some(box: Sandbox, n: int) -> list[object]:
            return [run.result for run in await asyncio.gather(*(box.run("n", {"n": n + k}) for k in range(5)))]

        with Sandbox(workers=2) as box, concurrent.futures.ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda n: asyncio.run(some(box, n)), range(20)))
        assert results == [list(range(n, n + 5)) for n in range(20)]

    async def test_a_berth_that_comes_free_in_the_moment_of_asking(self) -> None:
        """With one worker, each run starts in the very tick in which the one before it lands."""

        async with Sandbox(workers=1) as box:
            results: list[object] = []

            async def chain(n: int) -> None:
                results.append((await box.run("n", {"n": n})).result)
                if n < 30:
                    await asyncio.gather(chain(n + 10), box.run("0"))

            await asyncio.wait_for(asyncio.gather(*(chain(n) for n in range(3))), 60)
        assert len(results) == 12

    def test_limits_hold_in_a_forked_child(self, box: Sandbox) -> None:
        box.run_sync("while True: pass", limits={"cpu_s": 0.1})  # the watchdog's thread is running now
        script = (
            "import os, sys\nfrom go_ent.sandbox import Limits, Sandbox\n"
            "with Sandbox() as box: box.run_sync('while True: pass', limits={'cpu_s': 0.1})\n"
            "if os.fork() == 0:\n"
            "    with Sandbox(limits=Limits(cpu_s=0.3, timeout_s=5)) as box:\n"
            "        status = box.run_sync('while True: pass').status\n"
            "    os._exit(0 if status == 'cpu_limit' else 1)\n"
            "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        )
        assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0

    def test_close_ends_what_another_thread_waits_for(self) -> None:
        box = Sandbox()
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(box.run_sync, "while True: pass")
            while not box.running:
                time.sleep(0.01)
            time.sleep(0.2)
            box.close()
            assert waiting.result(timeout=10).status == "interrupted"

    def test_a_closed_sandbox_says_so(self) -> None:
        from go_ent.sandbox import SandboxClosed

        box = Sandbox()
        with box:
            assert box.run_sync("1").result == 1
        box.close()
        with pytest.raises(SandboxClosed, match="the sandbox is closed"):
            box.run_sync("1")
