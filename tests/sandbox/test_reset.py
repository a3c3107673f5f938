"""A guest that was reset is a new one: the same memory, ids, hashes, fuel and tapes, nothing of an earlier run."""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.sandbox import Limits, Run, Sandbox
from go_ent.sandbox.images import ensure_image
from go_ent.sandbox.images.proof import globals_of
from go_ent.sandbox.worker import snapshot
from go_ent.sandbox.worker.comparison import Comparison
from go_ent.sandbox.worker.machine import Guest, Machine
from go_ent.sandbox.worker.memory import own_map
from go_ent.sandbox.worker.snapshot import Unsupported
from tests.conftest import TOOLS
from tests.sandbox.test_tape import EVERYTHING, Memory
from tests.security.breaking import BREAK_OUT
from tests.support import ROOT

LIMITS = Limits(timeout_s=30, cpu_s=20)
# What would tell one guest from another: addresses, hashes, counters, what was imported, allocated or kept.
SELF_PORTRAIT = (
    BREAK_OUT
    + """
class Fresh: pass
gc = modules["gc"]
[id(Fresh()), id([]), hash("text"), hash(3.5), str({"b", "a", "c"}), len(gc.get_objects()), gc.get_count(),
 sorted(modules)[:40], len(modules), interpreter.getrefcount(Fresh), repr(Fresh()), id("x" * 1000),
 modules["posix"].getcwd(), len(interpreter.intern("fresh")), sorted(runner.__dict__)]
""".replace("runner.__dict__", "operator.attrgetter('__dict__')(runner)")
)


UNKNOWN = "try:\n    known = secret\nexcept NameError:\n    known = False\nknown"


class Comparing(Sandbox):
    """All of memory and all globals are compared with the snapshot after each run that is reset."""

    _compare = True


class Remaking(Sandbox):
    """As on a kernel that can't list pages."""

    _remade = "the test asks for it"


@pytest.fixture(scope="module")
def comparing() -> Iterator[Sandbox]:
    with Comparing(TOOLS, LIMITS, workers=1) as box:
        yield box


@pytest.fixture(scope="module")
def remaking() -> Iterator[Sandbox]:
    with Remaking(TOOLS, LIMITS, workers=1) as box:
        yield box


def worker_of(box: Sandbox) -> int:
    """The process of its one worker."""
    (pool,) = (pool for (kind, depth), pool in box._pools.items() if (kind, depth) == ("plain", 0))
    (worker,) = pool._all
    assert worker.pid is not None
    return worker.pid


def completed(run: Run) -> Any:
    assert run.status == "completed", run.error
    return run.result


class TestOneWorker:
    def test_runs_one_guest_after_another(self, comparing: Sandbox) -> None:
        completed(comparing.run_sync("secret = 1"))
        before = worker_of(comparing)
        for _ in range(20):
            assert completed(comparing.run_sync(UNKNOWN)) is False
        assert worker_of(comparing) == before
        assert comparing.remade == ""

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            ("1/0", "error"),
            ("import socket", "refused"),
            ("def f(n): return f(n + 1)\nf(0)", "error"),
            ("def f(:", "error"),
            ("import sys\nsys.exit(3)", "error"),
            ("raise KeyboardInterrupt", "error"),
            ("'x' * 2_000_000", "result_limit"),
            ("print('x' * 3_000_000)", "completed"),
            ("[await tools.add(a=n, b=1) for n in range(30)]", "completed"),
            ("open('a.txt', 'w').write('x')\nopen('a.txt').read()", "completed"),
            ("import time\ntime.sleep(0.01)", "completed"),
        ],
    )
    def test_goes_on_after_an_answer(self, comparing: Sandbox, code: str, status: str) -> None:
        completed(comparing.run_sync("1"))
        before = worker_of(comparing)
        assert comparing.run_sync(code).status == status
        assert completed(comparing.run_sync("1 + 1")) == 2
        assert worker_of(comparing) == before

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            ("while True: pass", "timeout"),
            ("x = bytearray(30 << 20)\nlen(x)", "completed"),
            ("x = []\nwhile True: x.append(bytearray(1 << 20))", "memory_limit"),
            ("import asyncio\nawait asyncio.sleep(60)", "timeout"),
        ],
    )
    def test_is_replaced_after_any_other_end_and_after_growth(self, comparing: Sandbox, code: str, status: str) -> None:
        for _ in range(3):  # by then its code comes compiled, which makes another heap
            portrait = completed(comparing.run_sync(SELF_PORTRAIT))
        before = worker_of(comparing)
        assert comparing.run_sync(code, limits={"timeout_s": 0.5}).status == status
        again = completed(comparing.run_sync(SELF_PORTRAIT))
        assert worker_of(comparing) != before
        assert again == portrait

    def test_is_replaced_after_a_session(self, comparing: Sandbox) -> None:
        completed(comparing.run_sync("1"))
        before = worker_of(comparing)
        with comparing.session() as session:
            completed(session.run_sync("secret = 'of the session'"))
            assert completed(session.run_sync("secret")) == "of the session"
        assert completed(comparing.run_sync(UNKNOWN)) is False
        assert worker_of(comparing) != before

    async def test_runs_nothing_of_a_session_that_is_closed_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its guest is gone: another's would have neither its variables nor a clock and chance of its own."""
        called = []

        async def tool() -> None:
            called.append(1)

        async with Sandbox([tool], LIMITS, workers=1) as box:
            session = box.session()
            assert (await session.run("x = 1")).ok
            find = box._compiled

            async def close(*arguments: Any) -> bytes | None:
                session.close()
                return await find(*arguments)

            monkeypatch.setattr(box, "_compiled", close)
            assert (await session.run("await tools.tool()")).status == "interrupted"
        assert called == []

    async def test_that_can_not_be_sent_to_costs_its_own_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A request that is sent by a thread, where there can be no more threads."""
        async with Sandbox(limits=LIMITS, workers=1) as box:
            assert (await box.run("1")).ok
            start = box._threads.start

            def refuse(*_: object) -> None:
                monkeypatch.setattr(box._threads, "start", start)
                raise RuntimeError("can't start new thread")

            monkeypatch.setattr(box._threads, "start", refuse)
            assert (await box.run("len(x)", {"x": "y" * 200_000})).status == "crashed"
            assert (await box.run("len(x)", {"x": "y" * 200_000})).result == 200_000

    def test_is_not_stopped_by_much_memory_that_was_written_to(self, comparing: Sandbox) -> None:
        """More private pages than are kept: they are dropped, and the usual ones are made private again."""
        completed(comparing.run_sync("1"))
        before = worker_of(comparing)
        for _ in range(3):
            assert completed(comparing.run_sync("x = b'x' * (7 << 20)\nlen(x)")) == 7 << 20
            assert completed(comparing.run_sync("1 + 1")) == 2
        assert worker_of(comparing) == before


class TestTheSameAsANewGuest:
    @pytest.mark.parametrize("code", [SELF_PORTRAIT, EVERYTHING])
    def test_a_recorded_run_is_the_same_in_every_guest(self, code: str, comparing: Sandbox, remaking: Sandbox) -> None:
        """Results, ids, hashes, the order of sets, and the tape: in one reset guest twice, in a guest of another
        process, and in guests that were made anew.
        """
        first = Memory()
        result = completed(run_taped(comparing, code, first))
        with Sandbox(TOOLS, LIMITS, workers=1) as another:
            for box in (comparing, comparing, another, another, remaking, remaking):
                tape = Memory(first.records)
                assert completed(run_taped(box, code, tape)) == result
                assert tape.records == first.records

    def test_fuel(self) -> None:
        used = set()
        for kind in (Comparing, Sandbox, Remaking):
            with kind(limits=LIMITS, workers=1) as box:
                runs = [box.run_sync("sum(n * n for n in range(1000))", limits={"fuel": 10**10}) for _ in range(3)]
                used |= {run.usage.fuel for run in runs}
                assert box.remade == kind._remade
        assert len(used) == 1


def run_taped(box: Sandbox, code: str, tape: Memory) -> Run:
    return box._loop().call(box.run(code, tape=tape))


class TestWhereItCanNotBeDone:
    """Each run has a new guest then, as before."""

    def test_runs_have_new_guests(self, remaking: Sandbox) -> None:
        assert completed(remaking.run_sync("secret = 1\nawait tools.add(a=secret, b=1)")) == 2
        assert completed(remaking.run_sync(UNKNOWN)) is False
        assert remaking.remade == "the test asks for it"

    def test_an_image_whose_facts_do_not_hold(self) -> None:
        image = dataclasses.replace(ensure_image(), remade="the global x is set")
        with Sandbox(limits=LIMITS, image=image) as box:
            assert completed(box.run_sync("1 + 1")) == 2
            assert box.remade == "the global x is set"

    def test_a_kernel_that_can_not_list_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshot, "PAGEMAP_SCAN", 0xC06066FF)
        with pytest.raises(Unsupported, match="PAGEMAP_SCAN"):
            guest().take_snapshot()

    def test_a_kernel_that_can_not_be_asked_for_a_mapping(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(own_map, "can_query", False)
        one = guest()
        assert one.meter.size() > 20 << 20
        with pytest.raises(Unsupported, match="PROCMAP_QUERY"):
            one.take_snapshot()

    def test_a_container_that_hides_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> int:
            raise PermissionError(errno.EACCES, "Permission denied")

        one = guest()
        monkeypatch.setattr(os, "memfd_create", refuse)
        with pytest.raises(Unsupported, match="Permission denied"):
            one.take_snapshot()

    def test_other_page_sizes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mmap, "PAGESIZE", 16384)
        with pytest.raises(Unsupported, match="pages of 16384 bytes"):
            guest().take_snapshot()


def guest() -> Guest:
    return Machine(str(ensure_image().artefact("plain"))).guest()


def test_the_comparison_finds_what_is_not_restored() -> None:
    """Else the tests that rely on it would show nothing. In a process of one thread, as a zygote is."""
    code = f"import {__name__} as tests; tests.tamper()"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def tamper() -> None:
    """Change a byte of memory, then a global of each module: each is found, and found to be put back."""
    one = guest()
    one.take_snapshot()
    assert one.snapshot is not None
    comparison = Comparison(one.snapshot, globals_of(ensure_image().component.read_bytes()))
    assert comparison.difference() == ""
    one.snapshot.warm_up()
    hot, far = one.snapshot._scan(), ctypes.c_char.from_address(one.meter.end - 1)
    assert hot is not None
    near = ctypes.c_char.from_address(hot[0][0])
    assert sum(end - start for start, end in hot) <= snapshot.MOST_HOT * snapshot.PAGE
    for request in one._requests[: snapshot.SHORTEST]:
        one._run_own(request)
        assert one.snapshot._scan() == hot, "a short run writes to a page that is not kept, and takes a fault for it"
        one.snapshot.restore(unmoved=True)
        assert comparison.difference() == ""
    for _ in range(3):
        one.touch()
        assert "memory at" in comparison.difference()
        one.snapshot.restore(unmoved=False)
        assert comparison.difference() == ""
        near.value = bytes([near.value[0] ^ 1])
        assert "memory at" in comparison.difference()
        one.snapshot.restore(unmoved=True)
        assert comparison.difference() == ""
        far.value = b"x"
        one.snapshot.restore(unmoved=True)  # a lie: a page was written to that most runs leave alone
        assert "memory at" in comparison.difference()
        one.snapshot.restore(unmoved=False)
        assert comparison.difference() == ""
        assert one.snapshot._scan() == hot, "which pages a run has written to could be told by the next"
    one.snapshot.give_back()
    one.touch()
    one.snapshot.restore(unmoved=False)
    assert (comparison.difference(), one.snapshot._scan()) == ("", hot)
    assert len(comparison._globals) == 2
    for at, values in comparison._globals:
        last = ctypes.c_uint32.from_address(at + 16 * (len(values) - 1))
        last.value += 1
        assert f"global {len(values) - 1} of module" in comparison.difference()
        last.value -= 1
    assert comparison.difference() == ""


def programs() -> st.SearchStrategy[str]:
    """Programs that build, change, keep, raise and print things of all kinds."""
    names = st.sampled_from(["a", "b", "c", "d"])
    value = st.recursive(
        st.one_of(st.integers(-(10**30), 10**30), st.text(max_size=20), st.floats(), st.booleans(), st.none()).map(
            repr
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]"),
            st.lists(inner, max_size=3).map(lambda items: f"({''.join(f'{item}, ' for item in items)})"),
            st.tuples(inner, inner).map(lambda pair: f"{{{pair[0]!r}: {pair[1]}}}"),
        ),
        max_leaves=6,
    ).map(lambda text: text.replace("inf", "1e999").replace("nan", "0.0"))
    line = st.one_of(
        st.tuples(names, value).map(lambda pair: f"{pair[0]} = {pair[1]}"),
        st.tuples(names, names).map(lambda pair: f"{pair[0]} = [{pair[1]}] * 50"),
        names.map(lambda name: f"class {name.upper()}:\n    kept = []\n    x: int = 1"),
        names.map(lambda name: f"def {name}(*args): return [args, {name}]"),
        names.map(lambda name: f"print({name})"),
        st.sampled_from(
            [
                "import json, re, collections, datetime, decimal, random, functools",
                "a = {n: str(n) for n in range(500)}",
                "b = re.sub('(a|b)+', 'x', 'abab' * 20)",
                "c = json.loads(json.dumps({'k': [1, 2.5, None]}))",
                "d = sorted(random.random() for _ in range(50))",
                "a = datetime.datetime.now().isoformat()",
                "b = decimal.Decimal(1) / 7",
                "c = functools.lru_cache(lambda n: n)(3)",
                "d = collections.Counter('hello').most_common()",
                "with open('f.txt', 'w') as f: f.write('x' * 100)",
                "a = await tools.add(a=1, b=2)",
                "json.kept = a = object",
                "raise ValueError('x')",
                "1 / 0",
                "a = 'x' * 100_000",
                "import string\nstring.ascii_letters = 'changed'",
            ]
        ),
    )
    return st.lists(line, min_size=1, max_size=8).map("\n".join)


class TestGeneratedPrograms:
    @given(code=programs())
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    def test_leave_nothing(self, code: str, comparing: Sandbox) -> None:
        self.leaves_nothing(code, comparing)

    @pytest.mark.more
    @given(code=programs())
    @settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
    def test_leave_nothing_two_thousand_times(self, code: str, comparing: Sandbox) -> None:
        self.leaves_nothing(code, comparing)

    def leaves_nothing(self, code: str, box: Sandbox) -> None:
        run = box.run_sync(code)
        # Some print a list of long texts, which takes more memory than there is: such a guest is thrown away.
        assert run.status in ("completed", "error", "refused", "memory_limit"), run.error
