"""No guest sees another: not at the same time, not before, not after."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from go_ent.sandbox import LimitError, Run, RunNotFound, Sandbox, SandboxClosed
from tests.conftest import TOOLS


class TestConcurrent:
    def test_32_runs_at_once_each_with_its_own_outcome(self) -> None:
        kinds: list[tuple[str, str, dict[str, float]]] = [
            ("completed", "import time\nmine = [n]\ntime.sleep(0.05)\n[mine, await tools.add(n, 1000)]", {}),
            ("error", "raise ValueError(n)", {}),
            ("cpu_limit", "while True: pass", {"cpu_s": 0.15}),
            ("memory_limit", "x = 'x' * 10**9", {"memory_mb": 64}),
            ("refused", "import socket", {}),
            ("timeout", "import time\ntime.sleep(100)", {"timeout_s": 0.3}),
            ("call_limit", "while True: await tools.add(1, 1)", {"max_tool_calls": 3}),
            ("result_limit", "'x' * 10**4", {"max_result_bytes": 1000}),
        ]

        async def main() -> list[Run]:
            async with Sandbox(TOOLS) as box:
                jobs = [(kinds[n % len(kinds)], n) for n in range(32)]
                return await asyncio.gather(
                    *(box.run(code, {"n": n}, limits=limits, run_id=str(n)) for (_, code, limits), n in jobs)
                )

        for n, run in enumerate(asyncio.run(main())):
            assert run.id == str(n)
            assert run.status == kinds[n % len(kinds)][0], run.error
            if run.status == "completed":
                assert run.result == [[n], n + 1000]
            if run.status == "error":
                assert run.error is not None
                assert run.error.message == str(n)

    async def test_a_hog_starves_nobody(self) -> None:
        async with Sandbox(workers=8) as box:
            hogs = [
                asyncio.create_task(box.run("while True: pass", limits={"timeout_s": 20}, run_id=f"hog {n}"))
                for n in range(4)
            ]
            await asyncio.sleep(0.2)
            runs = await asyncio.gather(*(box.run("n", {"n": n}) for n in range(20)))
            for n in range(4):
                box.interrupt(f"hog {n}")
            runs = [*runs, *await asyncio.gather(*hogs)]
        assert [run.result for run in runs[:20]] == list(range(20))
        assert [run.status for run in runs[20:]] == ["interrupted"] * 4

    def test_more_runs_than_workers(self) -> None:
        async def main() -> list[Run]:
            async with Sandbox(workers=2) as box:
                return await asyncio.gather(*(box.run("n", {"n": n}) for n in range(50)))

        assert [run.result for run in asyncio.run(main())] == list(range(50))

    def test_completions_never_reach_another_run(self, box: Sandbox) -> None:
        """A tool that outlives its run answers into the void, not into the next run's call of the same number."""
        for n in range(10):
            late = box.run_sync("await tools.nap(0.15)", limits={"timeout_s": 0.05})
            assert late.status == "timeout"
            assert box.run_sync(f"await tools.echo('{n}', delay=0.12)").result == str(n)


class TestBetweenRuns:
    MARKS = (
        "x = 1",
        "import json\njson.loads = None",
        "import random\nrandom.seed(1)",
        "import sys\nsys.setrecursionlimit(50)",
        "open('left', 'w').write('x')",
        "len = None",
        "import asyncio\nasyncio.sleep = None",
        "class int(int): pass",
        "import decimal\ndecimal.getcontext().prec = 2",
        "import logging\nlogging.getLogger().setLevel(50)\nlogging.left = 1",
        "import atexit\natexit.register(lambda: open('later', 'w'))",
        "import collections\ncollections.abc.Sized.register(str)",
        "import warnings\nwarnings.simplefilter('error')",
        "import sys\nsys.stdout = None",
    )
    LOOK = (
        "import json, random, sys, os, asyncio, decimal, logging\n"
        "[json.loads('[1]'), sys.getrecursionlimit() > 500, os.listdir('.'), len('ab'), "
        "callable(asyncio.sleep), int('7'),"
        " decimal.getcontext().prec, hasattr(logging, 'left'), 'x' in dir()]"
    )

    def test_nothing_is_left(self, box: Sandbox) -> None:
        clean = box.run_sync(self.LOOK).result
        for mark in self.MARKS:
            assert box.run_sync(mark).status in ("completed", "error")
            assert box.run_sync(self.LOOK).result == clean

    @pytest.mark.parametrize(
        "code",
        [
            "import random\nrandom.random()",
            "import random\nrandom.Random().random()",
            "import uuid\nstr(uuid.uuid4())",
            "import secrets\nsecrets.token_hex(8)",
            "import os\nos.urandom(8).hex()",
            "import random\nrandom.SystemRandom().random()",
            "import tempfile\ntempfile.NamedTemporaryFile().name",
        ],
    )
    def test_randomness_never_repeats(self, box: Sandbox, code: str) -> None:
        values = [str(box.run_sync(code).result) for _ in range(4)]
        assert len(set(values)) == 4

    def test_time_is_real(self, box: Sandbox) -> None:
        import time

        run = box.run_sync(
            "import time, datetime\n[time.time(), datetime.datetime.now(datetime.timezone.utc).timestamp()]"
        )
        assert isinstance(run.result, list)
        for value in run.result:
            assert abs(float(str(value)) - time.time()) < 5

    def test_environment_does_not_reach_a_guest(self, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GO_ENT_SECRET", "hidden")
        run = box.run_sync("import os\ndict(os.environ)")
        assert run.result is not None
        assert "hidden" not in str(run.result)
        assert os.environ["GO_ENT_SECRET"] not in str(run)


class TestSession:
    def test_keeps_names_and_files(self, box: Sandbox) -> None:
        with box.session() as session:
            assert session.run_sync("import math\nx = [1]\ndef f(): return len(x)").status == "completed"
            assert session.run_sync("x.append(n)\nopen('a', 'w').write('kept')", {"n": 2}).status == "completed"
            run = session.run_sync("[f(), x, math.pi > 3, open('a').read()]")
            assert run.result == [2, [1, 2], True, "kept"]

    def test_survives_an_exception(self, box: Sandbox) -> None:
        with box.session() as session:
            session.run_sync("x = 5")
            assert session.run_sync("1/0").status == "error"
            assert session.run_sync("import socket").status == "refused"
            assert session.run_sync("await tools.add(x, 1)").result == 6

    def test_output_and_result_are_each_runs_own(self, box: Sandbox) -> None:
        with box.session() as session:
            assert session.run_sync("print('a')\n1").stdout == "a\n"
            second = session.run_sync("y = 2")
            assert (second.stdout, second.result) == ("", None)

    @pytest.mark.parametrize(
        ("code", "limits"), [("while True: pass", {"cpu_s": 0.2}), ("import time\ntime.sleep(9)", {"timeout_s": 0.1})]
    )
    def test_ends_with_a_limit(self, box: Sandbox, code: str, limits: dict[str, float]) -> None:
        with box.session() as session:
            session.run_sync("x = 1")
            assert session.run_sync(code, limits=limits).status in ("cpu_limit", "timeout")
            with pytest.raises(SandboxClosed, match="the session is over: its last run ended with"):
                session.run_sync("x")
        assert box.run_sync("1").result == 1

    @pytest.mark.parametrize(("code", "limits"), [("x = 'x' * 10**9", {}), ("'x' * 5000", {"max_result_bytes": 1000})])
    def test_every_limit_ends_it(self, box: Sandbox, code: str, limits: dict[str, float]) -> None:
        with box.session() as session:
            assert session.run_sync(code, limits=limits).status in ("memory_limit", "result_limit")
            with pytest.raises(SandboxClosed, match="the session is over"):
                session.run_sync("1")

    def test_closed_during_a_run(self, box: Sandbox) -> None:
        async def main() -> Run:
            session = box.session()
            running = asyncio.create_task(session.run("while True: pass"))
            await asyncio.sleep(0.4)
            session.close()
            run = await asyncio.wait_for(running, 10)
            with pytest.raises(SandboxClosed, match="the session"):
                await session.run("1")
            return run

        assert asyncio.run(main()).status == "interrupted"
        assert box.run_sync("1").result == 1

    async def test_its_guest_is_never_used_again(self, box: Sandbox) -> None:
        """Whatever the moment in which it is interrupted, nobody else gets what it left."""

        for n in range(12):
            session = box.session()
            await session.run("import json\njson.leak = 'secret'")
            running = asyncio.create_task(session.run("1", run_id=f"leak {n}"))
            await asyncio.sleep(0.0003 * n)
            with contextlib.suppress(RunNotFound):
                box.interrupt(f"leak {n}")
            await running
            session.close()
            looks = await asyncio.gather(*(box.run("import json\nhasattr(json, 'leak')") for _ in range(3)))
            assert [look.result for look in looks] == [False] * 3

    def test_fuel_is_for_all_its_runs_or_none(self, box: Sandbox) -> None:
        with box.session() as session:
            session.run_sync("x = 1")
            with pytest.raises(LimitError, match="all with fuel or all without"):
                session.run_sync("x", limits={"fuel": 10**6})
            assert session.run_sync("x").result == 1
        with box.session(limits={"fuel": 10**9}) as session:
            session.run_sync("x = 1")
            assert session.run_sync("x").result == 1

    def test_two_sessions_do_not_meet(self, box: Sandbox) -> None:
        with box.session() as one, box.session() as two:
            one.run_sync("x = 1")
            two.run_sync("x = 2")
            assert [one.run_sync("x").result, two.run_sync("x").result] == [1, 2]
            assert box.run_sync("x").status == "error"
