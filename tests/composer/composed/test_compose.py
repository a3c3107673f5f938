"""From code that worked to a tool like any other."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from go_ent.composer import (
    CallError,
    Composer,
    ComposeRefused,
    ComposerError,
    FunctionSource,
    Grants,
    Hints,
    ToolSpec,
)
from go_ent.sandbox import Limits, Sandbox
from tests.composer.conftest import DOUBLE, Open, tool


def search(q: str, top: int = 3) -> list[str]:
    """Find texts."""
    return [f"{q} {index}" for index in range(top)]


TRIAGE = tool(
    "triage",
    '''async def triage(q: str, top: int = 2) -> dict[str, int]:
    """How long the hits are."""
    return {hit: len(hit) for hit in await tools.search(q=q, top=top)}
''',
    examples='{"inputs": {"q": "x"}, "result": {"ab": 2}, '
    '"calls": [{"tool": "search", "arguments": {"q": "x", "top": 2}, "result": ["ab"]}]}',
)


def refused(composer: Composer, source: str) -> list[str]:
    with pytest.raises(ComposeRefused) as caught:
        asyncio.run(composer.compose(source))
    return caught.value.problems


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "code_execute",
            "tool_x",
            "engine_x",
            "engine",
            "results",
            "tools",
            "checkpoint",
            "composer",
            "sandbox",
            "summarize",
        ],
    )
    def test_those_of_the_server_are_its_own(self, open_composer: Open, name: str) -> None:
        composer = open_composer()
        assert "reserved for go-ent itself: choose another" in refused(composer, DOUBLE.replace("double", name))[0]
        assert not composer.stores[0].scan()

    def test_a_tool_of_another_source_is_called_in_code(self, open_composer: Open) -> None:
        composer = open_composer(sources=[FunctionSource([search], "web")])
        with pytest.raises(
            ComposerError, match=r"^web\.search is a tool of .*: call it in code as await tools\.web\.search\(…\)$"
        ):
            asyncio.run(composer.run("web.search"))

    def test_a_tool_of_a_server_is_called_in_code(self, open_composer: Open, project: Path) -> None:
        (project / ".go-ent" / "config.toml").write_text('[servers.files]\ncommand = "nothing"\n')
        with pytest.raises(
            ComposerError, match=r"^files\.read is a tool of the server files: call it in code as await tools"
        ):
            asyncio.run(open_composer().run("files.read"))


class TestInputs:
    @pytest.mark.parametrize(
        ("inputs", "expected"),
        [
            ({"txt": "a"}, "there is no parameter txt; did you mean text?; text is required"),
            (
                {"text": "a", "x": 1, "y": 2},
                "there is no parameter x; it takes text, times; there is no parameter y; it takes text, times",
            ),
            ({"text": 7}, 'text: 7 is not of type "string"'),
        ],
    )
    async def test_wrong_ones_are_named_with_the_signature(
        self, open_composer: Open, inputs: dict[str, Any], expected: str
    ) -> None:
        shout = tool(
            "shout", 'def shout(text: str, times: int = 1) -> str:\n    """Loud."""\n    return text.upper() * times\n'
        )

        async with open_composer() as composer:
            await composer.compose(shout)
            run = await composer.run("shout", inputs)
            assert run.error is not None
            assert run.error.message == f"the inputs do not fit: {expected}\nshout(text: str, times: int = 1)"

    async def test_what_is_said_of_them_is_bounded(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(DOUBLE)
            run = await composer.run("double", {"n": 1} | {f"{'x' * 500}{index}": index for index in range(2000)})
            assert run.error is not None
            assert len(run.error.message) < 3000


class TestCompose:
    async def test_saved_and_called(self, open_composer: Open) -> None:
        async with open_composer(tools=[search]) as composer:
            saved = await composer.compose(TRIAGE)
            assert (saved.name, saved.version, saved.created, saved.examples) == ("triage", 1, True, 1)
            assert saved.interface.requires == ("search",)
            assert await composer.call("triage", q="wasm") == {"wasm 0": 6, "wasm 1": 6}
            again = await composer.compose(TRIAGE)
            assert (again.version, again.created) == (1, False)
            found = await composer.catalogue.search("how long hits", composer.grants)
            assert found[0].name == "triage"
            run = await composer.code.execute("await tools.triage(q='a', top=1)")
            assert run.result == {"a 0": 3}

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (("len(hit)", "len(hit) + 1"), 'example 1: {"ab": 2} was expected; it returned {"ab": 3}'),
            (("q=q, top=top", "q=q"), 'the example has no recorded answer for search with {"q": "x"}'),
            (("tools.search", "tools.serch"), "it requires serch: there is no tool serch; did you mean search?"),
            (
                ("tools.search", "tools.github.search"),
                "it requires github.search: there is no tool github.search; did you mean search?",
            ),
            (("tools.search", "tools.triage"), "it calls itself: triage → triage"),
            (("def triage", "def triag"), "there is no function triage"),
            (("q: str, ", "q, "), "parameter q: it has no type"),
            (('"inputs": {"q": "x"}', '"inputs": {"z": "x"}'), "example 1: error: InputError: the inputs do not fit"),
            (
                ("len(hit)", "str(hit)"),
                'BadResult: the result does not fit what the function says it returns: ab: "ab" is not of type '
                '"integer"',
            ),
        ],
    )
    def test_any_failure_saves_nothing(self, open_composer: Open, change: tuple[str, str], said: str) -> None:
        composer = open_composer(tools=[search])
        assert change[0] in TRIAGE
        assert any(said in problem for problem in refused(composer, TRIAGE.replace(*change)))
        assert composer.stores[0].scan() == {}
        assert not Path(composer.stores[0].where).exists()

    async def test_examples_reach_nothing(self, project: Path, open_composer: Open) -> None:
        """A server that is not there: the recorded answer is enough, by name. By position its names would be needed."""
        (project / ".go-ent" / "config.toml").write_text(
            '[grants]\nallow = ["gone.*"]\n[servers.gone]\ncommand = "no-such-command"\n'
        )
        code = 'async def ask() -> int:\n    """A."""\n    return await tools.gone.find(q="x")\n'
        example = '{"result": 5, "calls": [{"tool": "gone.find", "result": 5}]}'

        async with open_composer() as composer:
            assert (await composer.compose(tool("ask", code, examples=example))).examples == 1
            with pytest.raises(ComposeRefused, match="in an example a tool is called with names"):
                await composer.compose(tool("ask", code.replace("q=", ""), examples=example))

    def test_names_that_are_taken(self, open_composer: Open) -> None:
        composer = open_composer(tools={"double": search}, sources=[FunctionSource({"x": search}, "github")])
        assert refused(composer, DOUBLE) == [
            "double is taken by function double in tests.composer.composed.test_compose: choose another name"
        ]
        source = DOUBLE.replace("double", "github")
        assert refused(composer, source) == [
            "github is the namespace of functions of this program: choose another name"
        ]

    async def test_cycles_are_refused_by_name(self, open_composer: Open) -> None:
        def calling(name: str, other: str) -> str:
            return tool(
                name,
                f'async def {name}(n: int) -> int:\n    """N."""\n    return await tools.{other}(n=n) if n else 0\n',
            )

        async with open_composer() as composer:
            await composer.compose(tool("c", 'def c(n: int) -> int:\n    """N."""\n    return n\n'))
            await composer.compose(calling("b", "c"))
            await composer.compose(calling("a", "b"))
            with pytest.raises(ComposeRefused, match="composed tools can't call themselves: a → b → c → a"):
                await composer.compose(calling("c", "a"))
            # By hand all the same: the run refuses it, by name too.
            (Path(composer.stores[0].where) / "c.py").write_text(calling("c", "a"))
            run = await composer.run("a", {"n": 1})
            assert run.status == "error"
            assert run.error is not None
            assert "a is under way already: a → b → c → a" in run.error.message

    async def test_depth(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(tool("t0", 'def t0() -> int:\n    """N."""\n    return 1\n'))
            for depth in range(1, 8):
                code = f'async def t{depth}() -> int:\n    """N."""\n    return 1 + await tools.t{depth - 1}()\n'
                await composer.compose(tool(f"t{depth}", code))
            assert await composer.call("t7") == 8
            with pytest.raises(ComposeRefused, match="8 deep at most"):
                await composer.compose(
                    tool("t8", 'async def t8() -> int:\n    """N."""\n    return 1 + await tools.t7()\n')
                )

    async def test_a_required_tool_is_not_removed(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(DOUBLE)
            await composer.compose(
                tool("quad", 'async def quad(n: int) -> int:\n    """N."""\n    return await tools.double(n=2 * n)\n')
            )
            with pytest.raises(ComposerError, match="double is required by quad"):
                await composer.remove("double")
            await composer.remove("quad")
            await composer.remove("double")

    async def test_rich_types_arrive_as_they_are_declared(self, open_composer: Open) -> None:
        code = '''from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum

class Kind(Enum):
    A = "a"

@dataclass
class Part:
    day: date
    price: Decimal = Decimal("1.10")

def rich(kind: Kind, parts: list[Part], when: datetime | None, pair: tuple[int, str], seen: set[int], wait: timedelta) -> dict[str, str]:
    """Their types."""
    values = {"kind": kind, "part": parts[0], "day": parts[0].day, "price": parts[0].price, "when": when}
    values |= {"pair": pair, "seen": seen, "wait": wait}
    return {name: type(value).__name__ for name, value in values.items()}
'''  # noqa: E501
        inputs = {
            "kind": "a",
            "parts": [{"day": "2024-01-02"}],
            "when": "2024-01-02T03:04:05Z",
            "pair": [1, "x"],
            "seen": [1, 2],
            "wait": "PT1H30M",
        }

        async with open_composer() as composer:
            await composer.compose(tool("rich", code))
            result = await composer.call("rich", **inputs)
            expected = ["Kind", "Part", "date", "Decimal", "datetime", "tuple", "set", "timedelta"]
            assert list(result.values()) == expected
            run = await composer.run("rich", {**inputs, "parts": [{"day": "tomorrow"}]})
            assert run.error is not None
            assert (run.status, run.error.kind) == ("error", "InputError")


class TestRequires:
    async def test_a_call_outside_is_refused_whatever_the_source_looks_like(self, open_composer: Open) -> None:
        """The metadata lists one tool; the code reaches for another in a way that nobody can read off it."""
        code = '''async def sly(name: str) -> str:
    """Call what it is told."""
    try:
        return str(await tools[name[::-1]](q="x"))
    except ToolError as error:
        return error.kind
'''
        called: list[str] = []

        def secret(q: str) -> str:
            called.append(q)
            return q

        async with open_composer(tools=[search, secret]) as composer:
            await composer.compose(tool("sly", code, head='# requires = ["search"]\n'))
            assert await composer.call("sly", name="hcraes") == "['x 0', 'x 1', 'x 2']"
            assert await composer.call("sly", name="terces") == "NotGranted"
            run = await composer.run("sly", {"name": "hcraes"}, grants=["other"])
            assert run.result == "NotGranted"
        assert called == []

    async def test_a_run_narrows_what_its_tools_may_call(self, open_composer: Open) -> None:
        async with open_composer(tools=[search]) as composer:
            await composer.compose(TRIAGE)
            run = await composer.run("triage", {"q": "x"}, grants=["triage"])
            assert run.error is not None
            assert (run.status, "not granted" in run.error.message) == ("error", True)
            assert (await composer.run("triage", {"q": "x"}, grants=["search"])).status == "completed"

    async def test_what_needs_approval_pauses_until_it_is_answered(self, project: Path, open_composer: Open) -> None:
        (project / ".go-ent" / "config.toml").write_text('[grants]\nallow = ["db.*"]\n')
        dropped: list[str] = []

        def drop(table: str) -> str:
            dropped.append(table)
            return "dropped"

        answers: dict[str, bool | None] = {"wait": None, "yes": True, "no": False}

        async def approver(spec: ToolSpec, arguments: dict[str, Any]) -> bool | None:
            assert spec.name == "db.drop"
            return answers[arguments["table"]]

        code = (
            'async def clear(table: str) -> str:\n    """Clear a table."""\n    return await '
            "tools.db.drop(table=table)\n"
        )

        source = FunctionSource([drop], "db", hints={"drop": Hints(destructive=True)})
        async with open_composer(sources=[source]) as composer:
            await composer.compose(tool("clear", code))
            run = await composer.run("clear", {"table": "x"})
            assert (run.status, run.pending[0].tool, run.pending[0].arguments) == ("paused", "db.drop", {"table": "x"})
            assert run.pending[0].reason == "this tool says that it is destructive"
            assert (await composer.run("clear", {"table": "wait"}, approver=approver)).status == "paused"
            assert dropped == []
            assert (await composer.run("clear", {"table": "yes"}, approver=approver)).result == "dropped"
            run = await composer.run("clear", {"table": "no"}, approver=approver)
            assert run.error is not None
            assert "the call was not approved" in run.error.message
            assert dropped == ["yes"]


class TestLimits:
    CODE = 'def big(n: int) -> int:\n    """N."""\n    return len("x" * n)\n'

    @pytest.mark.parametrize(
        ("limits", "n", "status"),
        [
            ({"memory_mb": 48}, 60_000_000, "memory_limit"),
            ({"max_result_bytes": 1}, 100, "result_limit"),
            ({"fuel": 1000}, 1, "fuel_limit"),
            ({"timeout_s": 5}, 1, "completed"),
        ],
    )
    async def test_each_limit_of_a_run_reaches_the_guest(
        self, open_composer: Open, limits: dict[str, Any], n: int, status: str
    ) -> None:
        async with open_composer() as composer:
            await composer.compose(tool("big", self.CODE))
            assert (await composer.run("big", {"n": n}, limits=limits)).status == status

    async def test_and_those_that_it_calls(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(tool("big", self.CODE))
            run = await composer.code.execute("await tools.big(n=60_000_000)", limits={"memory_mb": 48})
            assert run.error is not None
            assert "memory_mb=48" in run.error.message


class TestNothingIsLost:
    async def test_counts_that_can_not_be_written_cost_no_result(self, project: Path, open_composer: Open) -> None:
        (project / ".go-ent" / "usage.db").write_bytes(b"no database" * 100)

        async with open_composer(tools=[search]) as composer:
            await composer.compose(TRIAGE)
            assert await composer.call("triage", q="a", top=1) == {"a 0": 3}
            ((_, used),) = await composer.tools()
            assert used.calls == 0


class TestNested:
    async def test_an_approval_inside_pauses_the_whole(self, project: Path, open_composer: Open) -> None:
        (project / ".go-ent" / "config.toml").write_text('[grants]\nallow = ["db.*"]\n')

        def drop(table: str) -> str:
            return "dropped"

        inner = 'async def inner(table: str) -> str:\n    """I."""\n    return await tools.db.drop(table=table)\n'
        outer = 'async def outer() -> str:\n    """O."""\n    try:\n        return await tools.inner(table="t")\n'
        outer += "    except ToolError:\n        return 'swallowed'\n"

        async with open_composer(
            sources=[FunctionSource([drop], "db", hints={"drop": Hints(destructive=True)})]
        ) as composer:
            await composer.compose(tool("inner", inner))
            await composer.compose(tool("outer", outer))
            for run in (await composer.run("outer"), await composer.code.execute("await tools.outer()")):
                assert (run.status, [(p.tool, p.arguments) for p in run.pending]) == (
                    "paused",
                    [("db.drop", {"table": "t"})],
                )

    async def test_a_tool_that_was_edited_meanwhile_needs_no_worker_of_its_callers(self, project: Path) -> None:
        """One worker, held by the caller; the tool it calls has to be looked at anew first."""

        async with Composer(project, workers=1) as composer:
            await composer.compose(DOUBLE)
            path = Path(composer.stores[0].where) / "double.py"

            def touch() -> int:
                path.write_text(path.read_text().replace("Twice", "Two times"))
                return 1

            composer.catalogue.add(FunctionSource([touch], "host"))
            composer.code.grants = Grants(["*"])
            run = await composer.code.execute(
                "await tools.host.touch()\nawait tools.double(n=4)", limits={"timeout_s": 20}
            )
            assert (run.status, run.result) == ("completed", 8)

    async def test_never_waits_for_what_its_ancestors_hold(self, project: Path) -> None:
        """Depth 8, 4 wide at each level below the first, on 2 workers."""

        async with Composer(project, workers=2) as composer:
            await composer.compose(tool("t0", 'def t0(n: int) -> int:\n    """N."""\n    return n\n'))
            for depth in range(1, 8):
                wide = 4 if depth in (1, 4, 7) else 1
                code = f'''import asyncio
async def t{depth}(n: int) -> int:
    """N."""
    return sum(await asyncio.gather(*(tools.t{depth - 1}(n=n) for _ in range({wide}))))
'''
                await composer.compose(tool(f"t{depth}", code))
            runs = await asyncio.gather(*(composer.call("t7", n=n) for n in range(1, 4)))
            assert runs == [64, 128, 192]

    async def test_with_the_callers_remaining_time(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(tool("spin", 'def spin() -> int:\n    """N."""\n    while True:\n        pass\n'))
            await composer.compose(
                tool(
                    "outer",
                    'async def outer() -> int:\n    """N."""\n    return await tools.spin()\n',
                    head="# limits = { timeout_s = 20 }\n",
                )
            )
            started = time.monotonic()
            run = await composer.run("outer", limits={"cpu_s": 0.3})
            assert run.status in ("error", "cpu_limit")
            assert run.error is not None
            assert "cpu" in run.error.message
            run = await composer.run("outer", limits={"timeout_s": 0.5})
            assert run.status in ("error", "timeout")
            assert time.monotonic() - started < 15

    async def test_parallel_calls_share_the_cpu_time(
        self, open_composer: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Four that spin at once are ended when they have used together what one of them might."""
        ended: list[str] = []

        async with open_composer() as composer:
            await composer.compose(tool("spin", 'def spin() -> int:\n    """N."""\n    while True:\n        pass\n'))
            code = 'import asyncio\nasync def four() -> list[int]:\n    """N."""\n'
            code += "    return await asyncio.gather(*(tools.spin() for _ in range(4)))\n"
            await composer.compose(tool("four", code))
            end = composer.box.end

            def spy(run_id: str, reason: Literal["interrupted", "cpu_limit", "timeout"]) -> None:
                ended.append(reason)
                end(run_id, reason)

            monkeypatch.setattr(composer.box, "end", spy)
            run = await composer.run("four", limits={"cpu_s": 0.4})
            assert run.status in ("error", "cpu_limit")
            assert "cpu_limit" in ended

    async def test_an_error_inside_says_where(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(tool("inner", 'def inner() -> int:\n    """N."""\n    return 1 // 0\n'))
            await composer.compose(
                tool("outer", 'async def outer() -> int:\n    """N."""\n    return await tools.inner()\n')
            )
            with pytest.raises(CallError, match=r"outer: ToolError: inner: ZeroDivisionError: .*\(line 7\)"):
                await composer.call("outer")


def test_a_project_is_found_from_below(project: Path, shared_box: Sandbox) -> None:
    below = project / "a" / "b"
    below.mkdir(parents=True)
    assert Composer.open(below, box=shared_box).project == project


async def test_nothing_is_made_before_it_is_needed(
    tmp_path: Path, shared_box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))

    async with Composer(tmp_path, box=shared_box) as composer:
        assert await composer.tools() == []
    assert os.listdir(tmp_path) == []


def test_limits_of_the_project(project: Path) -> None:
    (project / ".go-ent" / "config.toml").write_text("[limits]\nmax_tool_calls = 7\n")
    assert Composer(project).box.limits == Limits(max_tool_calls=7)
