"""The pool of workers: shared zygotes, growing and shrinking, and a broken worker among good ones."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from go_ent.sandbox import Image, ImageError, Limits, Sandbox, SandboxClosed, warm
from go_ent.sandbox.host import pool as pool_module
from go_ent.sandbox.host.pool import Pool
from go_ent.sandbox.host.process import WorkerProcess
from go_ent.sandbox.host.threads import Threads
from go_ent.sandbox.images import ensure_image, list_images, prune_images
from go_ent.sandbox.images.cache import BuildProgress, images_folder
from go_ent.sandbox.images.seals import private_folder
from tests.support import ROOT


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def workers(box: Sandbox) -> set[int]:
    return {worker.pid for pool in box._pools.values() for worker in pool._all if worker.pid is not None}


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if _is_alive(pid)}


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # also one that ends while it is looked at
        return False


def zygote_of(box: Sandbox) -> int:
    pid = box._zygotes["plain"].pid
    assert pid is not None
    return pid


class TestTenants:
    def test_share_a_zygote_and_nothing_else(self) -> None:
        before = {child.pid for child in psutil.Process().children()}
        boxes = [Sandbox(limits=Limits(timeout_s=30)).open() for _ in range(32)]
        try:
            assert [box.run_sync("n = 1\nn").result for box in boxes] == [1] * 32
            made = {child.pid for child in psutil.Process().children()} - before
            assert len({zygote_of(box) for box in boxes}) == 1
            assert made <= {zygote_of(boxes[0])}
            own = [workers(box) for box in boxes]
            assert sum(map(len, own)) == len(set().union(*own)), "a worker of two sandboxes"
        finally:
            for box in boxes[1:]:
                box.close()
        until(lambda: not alive(set().union(*own[1:])))
        assert boxes[0].run_sync("2").result == 2
        pid, zygote = zygote_of(boxes[0]), boxes[0]._zygotes["plain"]
        mine, others = workers(boxes[0]), zygote._users - 1  # the tests keep one, and a sandbox of another test may too
        boxes[0].close()
        until(lambda: not alive(mine))
        assert zygote._users == others
        assert bool(others) == bool(alive({pid}))

    def test_that_close_take_their_sessions_workers_along(self, box: Sandbox) -> None:
        with Sandbox() as other:
            session = other.session()
            assert session.run_sync("n = 5\nn").result == 5
            own = workers(other)
            assert own
            assert zygote_of(box) == zygote_of(other)
        until(lambda: not alive(own))
        assert box.run_sync("1").result == 1

    def test_have_zygotes_of_their_own_walls_and_limits(self, box: Sandbox) -> None:
        assert box.run_sync("1", limits={"fuel": 10**9}).result == 1
        assert box._zygotes["fuel"].pid != box._zygotes["plain"].pid

    def test_of_a_forked_child_have_its_own(self) -> None:
        script = (
            "import os\nfrom go_ent.sandbox import Sandbox\n"
            "with Sandbox() as box:\n"
            "    assert box.run_sync('1').result == 1\n"
            "    if os.fork() == 0:\n"
            "        with Sandbox() as own:\n"
            "            ok = own.run_sync('2').result == 2\n"
            "            ok = ok and own._zygotes['plain'].pid != box._zygotes['plain'].pid\n"
            "        os._exit(0 if ok else 1)\n"
            "    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\n"
            "    assert box.run_sync('3').result == 3\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script], timeout=60, check=False, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")


class TestSize:
    async def test_the_next_worker_is_made_before_it_is_needed(self) -> None:
        async def begun() -> None:
            started.put_nowait(None)
            await asyncio.sleep(1000)

        started: asyncio.Queue[None] = asyncio.Queue()
        async with Sandbox([begun], workers=4) as box:
            pool = box._pools["plain", 0]
            warm = len(pool)
            runs = [asyncio.create_task(box.run("await tools.begun()")) for _ in range(warm)]
            for _ in runs:
                await started.get()
            await asyncio.to_thread(until, lambda: len(pool) == warm + 1)
            box.interrupt_all()
            await asyncio.gather(*runs)

    def test_workers_that_nobody_needs_are_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool_module, "IDLE_S", 0.0)
        with Sandbox() as box:
            pool = box._pools["plain", 0]
            assert box.run_sync("1").result == 1
            pool._retire()
            assert len(pool) == pool.warm
            monkeypatch.setattr(pool_module, "QUIET_S", 0.0)
            pool._retire()
            assert len(pool) == 1
            assert box.run_sync("2").result == 2


class Broken(WorkerProcess):
    """A worker that can be made, and nothing else."""

    def __init__(self, breaks: bool) -> None:
        self.alive, self.ready, self.stuck, self.idle_since, self.flight = True, True, False, 0.0, None
        self.breaks = breaks

    def catch_up(self) -> None:
        if self.breaks:
            raise OSError("can't be read")

    def close(self) -> None:
        self.alive = False
        if self.breaks:
            raise OSError("can't be closed")


def pool_of(*breaks: bool) -> tuple[Pool, list[Broken]]:
    made = [Broken(one) for one in breaks]
    waiting = iter(made)
    pool = Pool(lambda: next(waiting), Threads("test").start, most=len(made), warm=len(made))
    pool.prepare()
    return pool, made


class TestABrokenOneAmongGoodOnes:
    @pytest.mark.parametrize("order", [(True, False, False), (False, True, False), (False, False, True)])
    def test_keeps_no_other_from_being_closed(self, order: tuple[bool, ...], caplog: pytest.LogCaptureFixture) -> None:
        pool, made = pool_of(*order)
        pool.close()
        assert [worker.alive for worker in made] == [False] * 3
        assert len(pool) == 0
        assert "a worker can't be ended" in caplog.text

    def test_does_not_stop_others_from_being_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pool, made = pool_of(True, False, True, False)
        monkeypatch.setattr(pool_module, "IDLE_S", 0.0)
        monkeypatch.setattr(pool_module, "QUIET_S", 0.0)
        pool._retire()
        assert len(pool) == 1
        assert sum(worker.alive for worker in made) == 1

    def test_is_not_given_to_a_run(self) -> None:
        pool, made = pool_of(True, False, True)
        assert pool.take() is made[1]

    @pytest.mark.parametrize(
        ("error", "told"),
        [(OSError("no more descriptors"), True), (SandboxClosed("nobody wants one any more"), False)],
    )
    def test_that_can_not_be_made_is_one_less(
        self, error: Exception, told: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        def make() -> WorkerProcess:
            if made:
                raise error
            made.append(Broken(False))
            return made[0]

        made: list[Broken] = []
        pool = Pool(make, Threads("test").start, most=4, warm=3)
        pool.prepare()
        assert len(pool) == 1
        assert ("one more worker could not be made" in caplog.text) is told

    def test_of_the_parts_of_a_sandbox_leaves_none_open(self, caplog: pytest.LogCaptureFixture) -> None:
        class Part:
            def __init__(self) -> None:
                self.closed = False

            def close(self) -> None:
                self.closed = True
                raise OSError("it can't be closed")

            stop = close

        box, bad = Sandbox().open(), Part()
        bad.stop = lambda reason: bad.close()  # type: ignore[assignment, misc]
        assert box.run_sync("1").result == 1
        own = workers(box)
        box._pools = {("bad", 0): bad, **box._pools}  # type: ignore[dict-item]
        box._zygotes = {"bad": bad, **box._zygotes}  # type: ignore[dict-item]
        box._flights["bad"] = bad  # type: ignore[assignment]
        box.close()
        until(lambda: not alive(own))
        assert bad.closed
        assert box._background is not None
        assert box._background._loop.is_closed()
        assert caplog.text.count("can't be closed") >= 2


class TestTheImageCache:
    @pytest.fixture
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("GO_ENT_CACHE", str(tmp_path / "cache"))
        return tmp_path / "cache"

    def test_a_folder_that_can_not_be_removed_keeps_no_other(
        self, cache: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        keys = [f"{n:032x}" for n in range(3)]
        for key in keys:
            (images_folder() / key).mkdir()
            (images_folder() / key / "component.wasm").write_bytes(b"12345")
            (private_folder(cache / "compiled") / key).mkdir()
        bad = keys[1]
        for link in (images_folder() / f".{bad}.lock", cache / "compiled" / bad / ".plain.lock"):
            link.symlink_to("/dev/null")  # a lock that can't be taken
        with caplog.at_level(logging.WARNING):
            assert prune_images(set()) == ([keys[0], keys[2]], 10)
        assert [folder.name for folder in sorted(images_folder().iterdir()) if folder.is_dir()] == [bad]
        assert [folder.name for folder in (cache / "compiled").iterdir()] == [bad]
        assert caplog.text.count("can't be removed") == 2

    def test_what_is_no_image_hides_no_image(self, cache: Path) -> None:
        (images_folder() / ("1" * 32)).write_text("a file")
        (images_folder() / ("2" * 32)).symlink_to("2" * 32)
        (images_folder() / ("3" * 32)).mkdir()
        (images_folder() / ("3" * 32) / "image.json").mkdir()
        (images_folder() / ("4" * 32)).symlink_to(os.devnull)
        assert list_images() == []
        assert prune_images(set())[0] == ["3" * 32]


def test_a_worker_that_has_much_to_put_back_says_when_it_can_run_the_next() -> None:
    with Sandbox(workers=1) as box:
        assert box.run_sync("len(bytearray(2 << 20))").ok
        (worker,) = box._pools["plain", 0]._all
        assert not worker.ready

        def is_ready() -> bool:
            worker.poll()
            return worker.ready

        until(is_ready)
        if not box.remade:  # a new process takes page faults of its own in its first runs
            until(lambda: box.run_sync("1 + 1").ok and worker.ready)


class TestWarming:
    def test_a_zygote_that_was_started_ahead_is_the_first_sandboxs(self, box: Sandbox) -> None:
        """In a process of its own, where there is no other."""
        code = (
            "from go_ent.sandbox import Sandbox, warm\n"
            "from go_ent.sandbox.host.zygote import zygotes\n"
            "from go_ent.sandbox.images import ensure_image\n"
            "warm(ensure_image()); warm(ensure_image())\n"
            "(ahead,) = zygotes._ahead.values()\n"
            "first = ahead.pid\n"
            "with Sandbox() as box, Sandbox() as other:\n"
            "    assert box.run_sync('1 + 1').result == other.run_sync('2').result == 2\n"
            "    assert box._zygotes['plain'].pid == other._zygotes['plain'].pid == first\n"
            "    warm(ensure_image())  # there is one\n"
            "assert not zygotes._ahead and ahead.pid is None, 'it ends with those who use it'\n"
            "warm(ensure_image())\n"  # nobody comes: it ends with this process
        )
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)

    def test_a_zygote_that_can_not_start_is_the_first_runs_problem(self) -> None:
        image = ensure_image()
        broken = _Uncompiled(**{field.name: getattr(image, field.name) for field in dataclasses.fields(image)})
        warm(broken)
        with Sandbox(image=broken) as box:
            run = box.run_sync("1")
        assert run.status == "crashed"
        assert run.error is not None
        assert "its worker could not start" in run.error.message

    def test_warm_returns_before_anything_is_made_and_tells_of_no_problem(self) -> None:
        found, asked = threading.Event(), threading.Event()

        def late() -> Image:
            asked.set()
            assert found.wait(30)
            return ensure_image()

        with contextlib.closing(Sandbox(image=late).warm()) as box:
            assert asked.wait(30)
            assert box.started == 0
            found.set()
            assert box.run_sync("1 + 1").result == 2
        with contextlib.closing(Sandbox(image=_none).warm()) as box, pytest.raises(ImageError, match="no image"):
            box.run_sync("1")
        with pytest.raises(SandboxClosed):
            box.run_sync("1")


class _Uncompiled(Image):
    """An image whose compiled form is taken for there, and is not."""

    def is_compiled(self, kind: str) -> bool:
        return True

    def artefact(self, kind: str = "plain", progress: BuildProgress | None = None) -> Path:
        return Path("/nowhere/at-all.cwasm")


def _none() -> Image:
    raise ImageError("no image")


async def test_a_worker_has_its_next_run_before_the_outcome_of_the_last_is_read() -> None:
    events: list[str] = []
    async with Sandbox(workers=1) as box:
        await box.run("1")
        (pool,) = box._pools.values()
        release = pool.release

        def noted(worker: WorkerProcess) -> None:
            release(worker)
            events.append("released")

        pool.release = noted  # type: ignore[method-assign]

        async def one(name: str) -> None:
            await box.run(f"'{name}'", run_id=name)
            events.append(f"{name} ended")

        await asyncio.gather(one("a"), one("b"))
    assert events == ["released", "a ended", "released", "b ended"]


async def test_a_task_that_is_cancelled_when_its_worker_is_free_already_leaves_the_worker_alone() -> None:
    async with Sandbox(workers=1) as box:
        await box.run("1")
        (pool,) = box._pools.values()
        before, release, loop = workers(box), pool.release, asyncio.get_running_loop()

        def cancelling(worker: WorkerProcess) -> None:
            pool.release = release  # type: ignore[method-assign]
            release(worker)
            loop.call_soon(task.cancel)  # comes before the task hears that its run is over

        pool.release = cancelling  # type: ignore[method-assign]
        task = asyncio.create_task(box.run("'a'"))
        await asyncio.sleep(0)
        other = await box.run("'b'")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert other.result == "b"
        assert (await box.run("'c'")).result == "c"
        assert workers(box) == before
        assert box.running == []
