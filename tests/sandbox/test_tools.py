"""Tools: granted functions, validated on the host, truly concurrent, their errors catchable."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from go_ent.sandbox import Limits, Sandbox, Tool, ToolDefinitionError, Toolset
from tests.conftest import add, echo


class Address(BaseModel):
    street: str
    number: int


class TestCalls:
    @pytest.mark.parametrize(
        "code",
        [
            "await tools.add(a=1, b=2)",
            "await tools.add(1, 2)",
            "await tools.add(1, b=2)",
            "await tools['add'](a=1, b=2)",
            "await tools.deep.er.add(a=1, b=2)",
            "f = tools.add\nawait f(1, 2)",
            "await tools.add(a='1', b=2.0)",
            "async def go():\n    return await tools.add(1, 2)\nimport asyncio\nawait asyncio.create_task(go())",
            "import asyncio\nasyncio.run(tools.add(1, 2))",
        ],
    )
    def test_ways_to_call(self, box: Sandbox, code: str) -> None:
        run = box.run_sync(code)
        assert run.error is None
        assert run.result == 3

    def test_audit(self, box: Sandbox) -> None:
        run = box.run_sync(
            "await tools.add(1, 2)\ntry:\n    await tools.fail('no')\nexcept ToolError: pass\nawait tools.echo('ä')"
        )
        assert [(call.name, call.ok) for call in run.calls] == [("add", True), ("fail", False), ("echo", True)]
        assert all(call.ms >= 0 and call.argument_bytes > 0 for call in run.calls)
        assert [call.result_bytes for call in run.calls] == [1, 0, 4]
        assert run.usage.tool_calls == 3

    def test_tools_are_listed_not_imported(self, box: Sandbox) -> None:
        run = box.run_sync("[dir(tools), dir(tools.deep)]")
        assert isinstance(run.result, list)
        assert run.result[1] == ["er"]
        assert "add" in str(run.result[0])

    def test_validated_before_the_function_runs(self) -> None:
        ran: list[Any] = []

        def send(to: Address, mode: Literal["slow", "fast"] = "slow", *, copies: int = 1) -> str:
            ran.append((to, mode, copies))
            return to.street

        with Sandbox([send]) as box:
            for code, message in (
                ("await tools.send(to={'street': 'x'})", "to.number is required"),
                ("await tools.send(to={'street': 'x', 'number': 'y'})", "to.number: it should be a whole number"),
                (
                    "await tools.send(to={'street': 'x', 'number': 1}, mode='no')",
                    "mode: it should be 'slow' or 'fast'",
                ),
                (
                    "await tools.send(to={'street': 'x', 'number': 1}, nothing=1)",
                    "there is no argument nothing; it takes to, ",
                ),
                ("await tools.send()", "to is required"),
            ):
                run = box.run_sync(code)
                assert run.status == "error"
                assert run.error is not None
                assert run.error.kind == "ToolError"
                assert message in run.error.message
            assert ran == []
            assert box.run_sync("await tools.send(to={'street': 'x', 'number': 1}, copies=2)").result == "x"
            assert ran == [(Address(street="x", number=1), "slow", 2)]


class TestConcurrency:
    @pytest.mark.parametrize("call", ["tools.echo(str(i), delay=0.2)", "tools.nap(0.2)"])
    def test_gather_is_concurrent(self, box: Sandbox, call: str) -> None:
        run = box.run_sync(f"import asyncio\nlen(await asyncio.gather(*[{call} for i in range(10)]))")
        assert run.result == 10
        assert run.usage.wall_ms < 1500  # one after the other they take 2,000

    def test_asyncio_in_the_guest(self, box: Sandbox) -> None:
        code = (
            "import asyncio\n"
            "out = []\n"
            "async with asyncio.TaskGroup() as group:\n"
            "    a = group.create_task(tools.echo('a', delay=0.02))\n"
            "    b = group.create_task(tools.echo('b', delay=0.01))\n"
            "out.append([a.result(), b.result()])\n"
            "try:\n"
            "    await asyncio.wait_for(tools.echo('late', delay=20), 0.05)\n"
            "except TimeoutError:\n"
            "    out.append('timeout')\n"
            "try:\n"
            "    async with asyncio.timeout(0.05):\n"
            "        await asyncio.sleep(20)\n"
            "except TimeoutError:\n"
            "    out.append('timeout again')\n"
            "async for done in aiter(asyncio.as_completed([tools.echo('slow', delay=0.05), tools.echo('fast', "
            "delay=0)])):\n"
            "    out.append(await done)\n"
            "out"
        )
        run = box.run_sync(code)
        assert run.error is None
        assert run.result == [["a", "b"], "timeout", "timeout again", "fast", "slow"]
        cancelled = [call for call in run.calls if call.error is not None]
        assert [call.name for call in cancelled] == ["echo"]

    def test_a_call_starts_while_the_guest_goes_on(self, box: Sandbox) -> None:
        code = (
            "import asyncio\n"
            "task = asyncio.create_task(tools.nap(0.2))\n"
            "for _ in range(500):\n"
            "    await asyncio.sleep(0.01)\n"
            "    if task.done(): break\n"
            "task.done()"
        )
        assert box.run_sync(code).result is True

    def test_sleep_is_real(self, box: Sandbox) -> None:
        run = box.run_sync("import time\nt = time.monotonic()\ntime.sleep(0.1)\n0.09 < time.monotonic() - t")
        assert run.result is True


class TestErrors:
    def test_can_be_caught(self, box: Sandbox) -> None:
        code = (
            "try:\n    await tools.fail('no such thing')\nexcept ToolError as e:\n    result = [e.name, e.message, "
            "str(e)]\nresult"
        )
        assert box.run_sync(code).result == ["fail", "no such thing", "fail: no such thing"]

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            ("tools.fail('word for word')", "fail: word for word"),
            ("tools.leave()", "leave: SystemExit: 3"),
            ("tools.odd()", "odd: its result can't be encoded as JSON"),
            ("tools.huge(20_000_000)", "huge: its result is 20000000 bytes long; max_call_bytes=4194304"),
            ("tools.nothing()", "nothing: there is no such tool"),
            ("tools.deep.er()", "deep.er: there is no such tool"),
        ],
    )
    def test_reach_the_guest_as_tool_errors(self, box: Sandbox, call: str, message: str) -> None:
        run = box.run_sync(f"await {call}")
        assert run.status == "error"
        assert run.error is not None
        assert run.error.kind == "ToolError"
        assert message in run.error.message
        assert run.error.line == 1

    @pytest.mark.parametrize("call", ["tools.leak()", "tools.blow_up()"])
    def test_never_carry_host_paths(self, box: Sandbox, call: str) -> None:
        run = box.run_sync(f"await {call}")
        text = run.model_dump_json()
        assert run.status == "error"
        assert "/nonexistent" not in text
        assert "conftest" not in text
        assert "site-packages" not in text

    def test_arguments_that_cannot_be_sent(self, box: Sandbox) -> None:
        run = box.run_sync("await tools.add(a=print, b=2)")
        assert run.error is not None
        assert run.error.kind == "NotEncodable"
        assert run.error.message.startswith("arguments of tools.add[3]['a']:")

    @pytest.mark.parametrize("code", ["\ntools.add(1, 2)", "\nx = tools.add(1, 2)\nNone", "\ntools.add(1, 2)\n5"])
    def test_forgotten_await_is_reported(self, box: Sandbox, code: str) -> None:
        run = box.run_sync(code)
        assert run.status == "error"
        assert run.error is not None
        assert run.error.kind == "ForgottenAwait"
        assert "await tools.add(…)" in run.error.message
        assert (run.error.line, "tools.add(1, 2)" in (run.error.source_line or "")) == (2, True)
        assert run.calls == []

    def test_call_from_a_finalizer(self, box: Sandbox) -> None:
        run = box.run_sync("class Late:\n    def __del__(self):\n        tools.add(1, 2)\nlate = Late()\ndel late\n1")
        assert run.error is not None
        assert (run.status, run.error.kind) == ("error", "ForgottenAwait")
        assert box.run_sync("1").result == 1

    def test_arguments_too_large(self, box: Sandbox) -> None:
        run = box.run_sync("await tools.echo('x' * 2000)", limits={"max_call_bytes": 1000})
        assert run.error is not None
        assert "max_call_bytes=1000" in run.error.message


class TestLimits:
    def test_call_limit(self, box: Sandbox) -> None:
        code = (
            "n = 0\nwhile True:\n    try:\n        n = await tools.add(n, 1)\n    except BaseException:\n        pass"
        )
        run = box.run_sync(code, limits={"max_tool_calls": 7})
        assert run.status == "call_limit"
        assert run.usage.tool_calls == 7
        assert run.error is not None
        assert run.error.message == "the run made more tool calls than max_tool_calls=7"

    def test_call_limit_of_a_burst(self, box: Sandbox) -> None:
        run = box.run_sync("import asyncio\nawait asyncio.gather(*[tools.add(i, 1) for i in range(100_000)])")
        assert run.status == "call_limit"
        assert run.usage.tool_calls == 1000

    def test_no_tools_at_all(self) -> None:
        with Sandbox() as box:
            run = box.run_sync("await tools.add(1, 2)")
        assert run.error is not None
        assert run.error.hint == "available: none"

    async def test_a_run_with_fewer_tools(self, box: Sandbox) -> None:
        none = await box.run("await tools.add(1, 2)", tools=Toolset())
        one = await box.run("await tools.add(1, 2)", tools=Toolset([add]))
        result = [none.status, one.status]
        assert result == ["error", "completed"]

    def test_approval_pauses(self, box: Sandbox) -> None:
        run = box.run_sync("a = await tools.guarded(amount=5)\nb = await tools.guarded(amount=50)\na + b")
        assert run.status == "paused"
        assert [(p.tool, p.arguments, p.reason) for p in run.pending] == [("guarded", {"amount": 50}, "more than ten")]

    @pytest.mark.parametrize("call", ["tools.nap(3)", "tools.echo('x', delay=1000)"])
    def test_timeout_while_a_tool_is_awaited(self, box: Sandbox, call: str) -> None:
        run = box.run_sync(f"await {call}", limits={"timeout_s": 0.2})
        assert run.status == "timeout"
        assert [call.error for call in run.calls] == ["unfinished when the run ended"]


class TestDefinition:
    def test_names(self) -> None:
        def twice(n: int) -> int:
            return 2 * n

        assert Toolset({"math": {"twice": twice}}).names == ["math.twice"]
        assert Tool(twice, "a.b").name == "a.b"
        for name in ("a-b", "1a", "a..b", "class", "a.__init__", "a b"):
            with pytest.raises(ToolDefinitionError, match="is not a tool name"):
                Tool(twice, name)
        with pytest.raises(ToolDefinitionError, match="two tools are called 'twice'"):
            Toolset([twice, twice])
        with pytest.raises(ToolDefinitionError, match="both a tool and a namespace"):
            Toolset({"a": twice, "a.b": twice})

    def test_star_args_are_refused(self) -> None:
        def many(*items: int) -> None: ...

        with pytest.raises(ToolDefinitionError, match=r"tool many: \*items can't be offered"):
            Tool(many)

    def test_hints_that_do_not_resolve(self) -> None:
        def lost(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        with pytest.raises(ToolDefinitionError, match="its type hints can't be resolved"):
            Tool(lost)

    def test_schema(self) -> None:
        schema = Tool(add).input_schema
        assert schema["required"] == ["a", "b"]
        assert schema["properties"]["a"] == {"title": "A", "type": "integer"}

    def test_methods_and_callables(self) -> None:
        class Counter:
            def __init__(self) -> None:
                self.n = 0

            def up(self, by: int = 1) -> int:
                self.n += by
                return self.n

            async def __call__(self, x: int) -> int:
                return x

        counter = Counter()
        with Sandbox({"up": counter.up, "same": counter}) as box:
            assert box.run_sync("await tools.up()\nawait tools.up(by=5) + await tools.same(1)").result == 7


async def test_async_tools_run_on_the_callers_loop() -> None:
    loops = []

    async def where() -> int:
        loops.append(asyncio.get_running_loop())
        return 1

    async with Sandbox([where]) as box:
        assert (await box.run("await tools.where()")).result == 1
    assert loops == [asyncio.get_running_loop()]


def test_max_tool_calls_can_be_lifted() -> None:
    with Sandbox([add, echo], Limits(max_tool_calls=None)) as box:
        assert box.run_sync("n = 0\nfor i in range(1500): n = await tools.add(n, 1)\nn").result == 1500
