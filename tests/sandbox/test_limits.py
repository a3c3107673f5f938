"""Each limit is enforced, and its error says which one it was."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from go_ent.sandbox import LimitError, Limits, Sandbox
from go_ent.sandbox.host.limits import MIN_MEMORY_MB
from tests.support.rows import each

SPINS = {
    "loop": "while True: pass",
    "catch-all": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "sum": "sum(range(10**12))",
    "regex": "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')",
    "power": "10 ** 10 ** 8",
    "digits": "import sys\nsys.set_int_max_str_digits(0)\nstr(7 ** 5_000_000)",
    "recursion": "def f():\n    try:\n        f()\n    finally:\n        f()\nf()",
    "generator": "any(x for x in iter(int, 1))",
    "clock": "import time\nwhile time.time() < 1e12: pass",
    "tasks": "import asyncio\nwhile True: await asyncio.sleep(0)",
}
WAITS = {
    "sleep": "import time\ntime.sleep(1000)",
    "asyncio.sleep": "import asyncio\nawait asyncio.sleep(1000)",
    "tool": "await tools.echo('x', delay=1000)",
    "gather": "import asyncio\nawait asyncio.gather(*[tools.echo('x', delay=1000) for _ in range(20)], "
    "asyncio.sleep(1000))",
    "shielded": "import asyncio\nwhile True:\n    try:\n        await asyncio.sleep(1000)\n    except BaseException: "
    "pass",
}


class TestTime:
    @pytest.mark.parametrize("name", SPINS)
    def test_cpu_limit(self, box: Sandbox, name: str) -> None:
        run = box.run_sync(SPINS[name], limits={"cpu_s": 0.2})
        assert run.error is not None
        assert (run.status, run.error.kind) == ("cpu_limit", "cpu_limit")
        assert run.error.message == "the run used more CPU than cpu_s=0.2"
        assert run.error.hint
        assert run.usage.cpu_ms > 180

    @pytest.mark.parametrize("name", [*SPINS, *WAITS])
    def test_timeout(self, box: Sandbox, name: str) -> None:
        code = {**SPINS, **WAITS}[name]
        started = time.monotonic()
        run = box.run_sync(code, limits={"timeout_s": 0.25})
        assert run.error is not None
        assert run.status == "timeout"
        assert run.error.message == "the run took longer than timeout_s=0.25"
        assert time.monotonic() - started > 0.2
        assert box.run_sync("1").result == 1

    async def test_cpu_time_is_the_guests_own(self, box: Sandbox) -> None:
        """Five spinning guests on fewer cores: each gets its full share before it is stopped."""

        result = await asyncio.gather(*(box.run("while True: pass", limits={"cpu_s": 0.2}) for _ in range(5)))
        for run in result:
            assert run.status == "cpu_limit"
            assert run.usage.cpu_ms > 190

    def test_waiting_costs_no_cpu(self, box: Sandbox) -> None:
        run = box.run_sync("import time\ntime.sleep(0.4)\nawait tools.nap(0.2)", limits={"cpu_s": 0.2})
        assert run.status == "completed", run.error
        assert run.usage.cpu_ms < 100

    def test_a_tools_cpu_is_not_the_guests(self) -> None:
        def burn() -> int:
            end = time.thread_time() + 0.3
            while time.thread_time() < end:
                pass
            return 1

        with Sandbox([burn]) as box:
            run = box.run_sync("await tools.burn()", limits={"cpu_s": 0.2})
        assert run.status == "completed", run.error
        assert run.usage.cpu_ms < 100


class TestMemory:
    @pytest.mark.parametrize(
        "code",
        [
            "x = 'x' * 10**9",
            "x = []\nwhile True: x.append('a' * 1000)",
            "x = []\nwhile True: x.append(object())",
            "x = {}\nwhile True: x[len(x)] = [len(x)]",
            "x = bytearray()\nwhile True: x += bytes(10**6)",
            "x = 'ab'\nwhile True: x = x + x",
            "[0] * 10**9",
        ],
    )
    def test_memory_limit(self, box: Sandbox, code: str) -> None:
        run = box.run_sync(code, limits={"memory_mb": 64})
        assert run.error is not None
        assert run.status == "memory_limit"
        assert run.error.message == "the run needed more memory than memory_mb=64"
        assert run.usage.memory_peak_bytes <= 64 << 20

    def test_memory_error_can_be_caught(self, box: Sandbox) -> None:
        assert box.run_sync("try:\n    x = 'x' * 10**9\nexcept MemoryError:\n    x = 'caught'\nx").result == "caught"

    def test_peak_is_reported(self, box: Sandbox) -> None:
        small = box.run_sync("1").usage.memory_peak_bytes
        large = box.run_sync("len(bytes(40 << 20))").usage.memory_peak_bytes
        assert 20 << 20 < small < MIN_MEMORY_MB << 20
        assert 38 << 20 < large - small < 60 << 20

    def test_holds_over_a_session(self, box: Sandbox) -> None:
        with box.session(limits={"memory_mb": 64}) as session:
            statuses = [session.run_sync(f"x{n} = bytes(8 << 20)").status for n in range(2)]
            last = session.run_sync("y = [bytes(8 << 20) for _ in range(10)]")
        assert statuses == ["completed"] * 2
        assert last.status == "memory_limit"


class TestStack:
    @pytest.mark.parametrize(
        "code",
        [
            "def f(): return f()\nf()",
            "import sys\nsys.setrecursionlimit(10**6)\nf = lambda n: [f(n + 1)]\nf(0)",
            "x = []\nfor _ in range(100_000): x = [x]\nrepr(x)",
            "import json\njson.loads('[' * 100_000)",
            "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
            "class A:\n    def __getattr__(self, name): return getattr(self, name)\nA().x",
            "import copy\nx = []\nfor _ in range(100_000): x = [x]\ncopy.deepcopy(x)",
        ],
    )
    def test_exhaustion_is_a_recursion_error(self, box: Sandbox, code: str) -> None:
        run = box.run_sync(code)
        assert run.status == "error"
        assert run.error is not None
        assert run.error.kind == "RecursionError"
        assert box.run_sync("1").result == 1


class TestSize:
    def test_result_limit(self, box: Sandbox) -> None:
        run = box.run_sync("'x' * 2000", limits={"max_result_bytes": 1000})
        assert run.status == "result_limit"
        assert run.result is None
        assert run.error is not None
        assert run.error.message == "the result is 2002 bytes of JSON; max_result_bytes=1000"

    def test_result_just_fits(self, box: Sandbox) -> None:
        assert box.run_sync("'x' * 998", limits={"max_result_bytes": 1000}).status == "completed"


class TestSettings:
    @each(
        ("values", "message"),
        [
            ({"memory_mb": 10}, "memory_mb=10: the image itself needs more; at least"),
            ({"memory_mb": 10**6}, "memory_mb=1000000: it should be less than or equal to 4096"),
            ({"cpu_s": 0}, "cpu_s=0: it should be greater than 0"),
            ({"timeout_s": -1}, "timeout_s=-1: it should be greater than 0"),
            ({"timeout_s": float("nan")}, "timeout_s=nan"),
            ({"timeout_s": float("inf")}, "timeout_s=inf: it should be a finite number"),
            ({"max_tool_calls": -1}, "max_tool_calls=-1"),
            ({"fuel": 0}, "fuel=0"),
            ({"fuel": True}, "fuel: a number is needed, not True"),
            ({"cpu_s": "many"}, "cpu_s='many'"),
            ({"memory": 5}, "memory: there is no such limit; did you mean memory_mb?"),
            ({"speed": 5}, "speed: there is no such limit; there are memory_mb, cpu_s"),
        ],
    )
    def test_wrong_values_are_refused(self, values: dict[str, float], message: str) -> None:
        with pytest.raises(LimitError) as caught:
            Limits(**values)
        assert str(caught.value).startswith(message)

    def test_a_sandbox_takes_a_mapping(self) -> None:
        assert Sandbox(limits={"cpu_s": 5}).limits == Limits(cpu_s=5)
        assert Sandbox().limits == Sandbox(limits={}).limits == Limits()

    @pytest.mark.parametrize("wrong", [5, "cpu_s=5", [("cpu_s", 5)], {5: 1}])
    def test_what_is_no_mapping_is_refused_with_what_is_wanted(self, wrong: Any) -> None:
        with pytest.raises(LimitError) as caught:
            Sandbox(limits=wrong)
        assert str(caught.value).startswith(
            "limits: Limits(cpu_s=5), or a mapping of names like {'cpu_s': 5}, is needed"
        )

    def test_defaults(self) -> None:
        assert Limits().model_dump() == {
            "memory_mb": 128,
            "cpu_s": 30.0,
            "timeout_s": 60.0,
            "fuel": None,
            "max_tool_calls": 1000,
            "max_call_bytes": 4 << 20,
            "max_result_bytes": 1 << 20,
            "max_stdout_bytes": 256 << 10,
            "max_file_bytes": 16 << 20,
        }

    def test_a_run_can_only_narrow(self, box: Sandbox) -> None:
        assert box.limits.narrowed({"timeout_s": 1}).timeout_s == 1
        assert box.limits.narrowed(Limits(cpu_s=1)).timeout_s == box.limits.timeout_s
        for wider in ({"timeout_s": 100}, {"memory_mb": 256}, {"cpu_s": None}):
            with pytest.raises(LimitError, match="is wider than the sandbox's"):
                box.run_sync("1", limits=wider)

    def test_none_lifts(self) -> None:
        none = dict.fromkeys(Limits.model_fields)
        with Sandbox(limits=Limits(**none)) as box:
            run = box.run_sync("print('x' * 10**6)\n'y' * 2_000_000")
        assert run.status == "completed"
        assert len(run.stdout) == 10**6 + 1
        assert len(str(run.result)) == 2_000_000


class TestFuel:
    CODE = "total = 0\nfor i in range(1000):\n    total += i\ntotal"

    def test_same_code_same_fuel(self, box: Sandbox) -> None:
        runs = [box.run_sync(self.CODE, limits={"fuel": 10**9}) for _ in range(4)]
        assert [run.result for run in runs] == [499500] * 4
        counts = {run.usage.fuel for run in runs}
        assert len(counts) == 1
        assert 10**5 < (counts.pop() or 0) < 10**8

    def test_fuel_limit(self, box: Sandbox) -> None:
        run = box.run_sync("while True: pass", limits={"fuel": 10**7})
        assert run.status == "fuel_limit"
        assert run.usage.fuel == 10**7
        assert run.error is not None
        assert run.error.message == "the run used up fuel=10000000"

    def test_no_fuel_without_a_cap(self, box: Sandbox) -> None:
        assert box.run_sync("1").usage.fuel is None
