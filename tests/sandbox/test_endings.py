"""However a run ends, it is told as what it was: one bad exception, stream, tool or number is that one's trouble."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from go_ent.sandbox import ApprovalRequired, Limits, Run, Sandbox

SMALL = {"memory_mb": 64, "cpu_s": 10, "timeout_s": 30}


class TestGuest:
    @pytest.mark.parametrize(
        "raised", ["KeyboardInterrupt", "SystemExit", "GeneratorExit", "MemoryError", "RecursionError"]
    )
    @pytest.mark.parametrize("where", ["__notes__", "args", "line", "__name__"])
    def test_an_exception_whose_report_raises_is_an_error(self, box: Sandbox, where: str, raised: str) -> None:
        code = (
            f"class M(type):\n    @property\n    def __name__(self): raise {raised}\n"
            f"class E(Exception, metaclass=M):\n    @property\n    def {where}(self): raise {raised}\n"
            f"    def __str__(self): raise {raised}\n"
        )
        with box.session() as session:
            run = session.run_sync(f"{code}kept = 7\nraise E")
            assert run.error is not None
            assert (run.status, run.error.kind) == ("error", "E")
            assert session.run_sync("kept").result == 7

    @pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit(3)", "GeneratorExit", "MemoryError"])
    def test_a_stream_whose_flush_raises_costs_nothing(self, box: Sandbox, raised: str) -> None:
        code = (
            "import sys\nclass S:\n    def write(self, text): return len(text)\n    def flush(self): raise "
            f"{raised}\nsys.stdout = S()\n"
        )
        with box.session() as session:
            assert session.run_sync(f"{code}7").result == 7
            run = session.run_sync("raise ValueError('x')")
            assert run.error is not None
            assert (run.status, run.error.kind) == ("error", "ValueError")

    @pytest.mark.parametrize(
        "code",
        [
            "d, n = {}, 0\nwhile True:\n    d[n] = str(n)\n    n += 1",
            "class M(MemoryError):\n    def __str__(self): raise KeyboardInterrupt\nraise M",
            "class M(MemoryError):\n    __traceback__ = 5\nraise M",
            "import json\njson.held = []\nwhile True: json.held.append('x' * 50)",
            "import sys\ntexts = []\nwhile True:\n    texts.append(str(len(texts)) * 1000)\n    "
            "sys.stdout.write('y' * 100)",
        ],
    )
    def test_memory_that_runs_out_is_a_memory_limit(self, box: Sandbox, code: str) -> None:
        run = box.run_sync(code, limits=SMALL)
        assert run.error is not None
        assert (run.status, run.error.kind) == ("memory_limit", "memory_limit")

    @pytest.mark.parametrize(
        "code", ["while True: x = [x]", "while True:\n    new = ValueError()\n    new.__cause__ = x\n    x = new"]
    )
    def test_what_is_too_deep_to_be_let_go_is_an_error(self, box: Sandbox, code: str) -> None:
        """Memory runs out, and then the stack, when a chain of a million links is let go of: both are the code's
        own.
        """
        run = box.run_sync(f"x = None\n{code}", limits=SMALL)
        assert run.error is not None
        assert (run.status, run.error.kind) in [("memory_limit", "memory_limit"), ("error", "RecursionError")]

    def test_an_interpreter_that_prints_by_itself_ends_nothing(self, box: Sandbox) -> None:
        """The C library's descriptors are closed: what it writes there is dropped, and the guest goes on."""
        code = (
            "import asyncio, operator\nmodules = operator.attrgetter('base_events.sys.modules')(asyncio)\n"
            "modules['faulthandler'].dump_traceback(2)\nsaid = []\nfor n in (0, 1, 2):\n    try:\n"
            "        modules['posix'].write(n, b'x' * 9000)\n    except OSError as error:\n"
            "        said.append(error.strerror)\nsaid"
        )
        with box.session() as session:
            run = session.run_sync(code)
            assert (run.status, run.result, run.stdout) == ("completed", ["Bad file descriptor"] * 3, ""), run.error
            assert session.run_sync("len(code)", {"code": "abc"}).result == 3


class Unnamed(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise KeyboardInterrupt


class Nameless(Exception, metaclass=Unnamed):
    pass


class Faceless(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise SystemExit


class Unreasonable(ApprovalRequired):
    def __init__(self) -> None:
        class Reason:
            def __str__(self) -> str:
                raise KeyboardInterrupt

        super().__init__(Reason())  # type: ignore[arg-type]


def plain(which: str) -> object:
    return _do(which)


async def later(which: str) -> object:
    if which == "cancels itself":
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
    if which == "waits":
        await asyncio.sleep(60)
    if which == "cancels the other":
        while not (  # noqa: ASYNC110
            others := [task for task in asyncio.all_tasks() - {asyncio.current_task()} if "_run_task" in repr(task)]
        ):
            await asyncio.sleep(0.01)  # until it is there
        others[0].cancel()
        return "done"
    return _do(which)


def _do(which: str) -> object:
    if which == "number":
        return {"deep": [10**5000]}
    if which == "digits":
        return "9" * 5000
    raise {"nameless": Nameless, "faceless": Faceless, "unreasonable": Unreasonable}[which]()


@pytest.fixture(scope="module")
def tooled() -> Iterator[Sandbox]:
    with Sandbox([plain, later], Limits(timeout_s=10)) as box:
        yield box


def called(box: Sandbox, call: str, which: str) -> Run:
    code = (
        "import asyncio\nasync def one():\n    try:\n        return await tools.{call}('{which}')\n"
        "    except ToolError as error:\n        return f'{{error.kind}}: {{error.message}}'\n"
        "[await one(), *await asyncio.gather(one(), tools.plain('digits'))]"
    )
    return box.run_sync(code.format(call=call, which=which))


class TestTools:
    @pytest.mark.parametrize("call", ["plain", "later"])
    @pytest.mark.parametrize(
        ("which", "message"),
        [
            ("nameless", "Nameless: Nameless"),
            ("faceless", "Faceless: Faceless"),
            ("unreasonable", "KeyboardInterrupt: KeyboardInterrupt"),
            ("number", "ResultNotEncodable: its result holds a number of more than 4300 digits: return it as a text"),
        ],
    )
    def test_a_tool_that_fails_in_a_way_of_its_own_is_a_tool_error(
        self, tooled: Sandbox, call: str, which: str, message: str
    ) -> None:
        run = called(tooled, call, which)
        assert (run.status, run.result) == ("completed", [message, message, "9" * 5000]), run.error
        assert [call.ok for call in run.calls].count(False) == 2

    def test_a_tool_that_cancels_its_own_task_is_a_tool_error(self, tooled: Sandbox) -> None:
        run = called(tooled, "later", "cancels itself")
        assert (run.status, run.result) == ("completed", ["Cancelled: cancelled"] * 2 + ["9" * 5000]), run.error

    @pytest.mark.parametrize("begun", [False, True])
    def test_a_call_whose_task_another_tool_cancels_is_a_tool_error(self, tooled: Sandbox, begun: bool) -> None:
        calls = ["tools.later('cancels the other')", "tools.later('waits')"]
        code = (
            f"import asyncio\nout = await asyncio.gather({', '.join(calls[::-1] if begun else calls)}, "
            "return_exceptions=True)\nsorted(str(one)[:30] for one in out)"
        )
        run = tooled.run_sync(code)
        assert (run.status, run.result) == ("completed", ["done", "later: cancelled"]), run.error
        assert sorted((call.ok, call.error) for call in run.calls) == [(False, "Cancelled: cancelled"), (True, None)]


FORKED = """
import os, sys, threading
from go_ent.sandbox import Sandbox, SandboxClosed
with Sandbox() as box:
    assert box.run_sync("1").result == 1
    session = box.session()
    assert session.run_sync("n = 5").status == "completed"
    pid = os.fork()
    if pid == 0:
        import asyncio
        said = []
        for use in (lambda: box.run_sync("1"), lambda: session.run_sync("1"), box.open, box.session, lambda: asyncio.run(box.run("1"))):
            try:
                use()
            except SandboxClosed as error:
                said.append(str(error))
        session.close()
        box.close()
        with Sandbox() as own:
            said.append(own.run_sync("6 * 7").result)
        print(said, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    print([box.run_sync("2").result, session.run_sync("n").result], flush=True)
"""  # noqa: E501


def test_a_forked_child_is_told_that_the_sandbox_is_its_parents() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert child.count("a fork of it: make a sandbox of its own in the child") == 5
    assert child.endswith(", 42]")
    assert parent == "[2, 5]"
