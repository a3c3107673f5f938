"""Past runs: what is learned and suggested from the record of executions, and from what older versions have listed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from go_ent.composer import Composer, FunctionSource, StoreError
from go_ent.composer.codemode.past_runs import PastRun
from go_ent.engine import Engine, GuestOrder, Task, parse_plan
from go_ent.engine.executions import past_runs as reading
from go_ent.engine.executions import tape
from go_ent.engine.executions.past_runs import Calls, past_runs
from go_ent.engine.storage import file_storage
from go_ent.sandbox import Run, Sandbox
from tests.composer.conftest import tool
from tests.support.executions import FileStore


def search(q: str, top: int = 3) -> list[str]:
    """Find texts."""
    return [f"{q} {index}" for index in range(top)]


def rows(n: int):  # type: ignore[no-untyped-def]
    """Some rows."""
    return [{"id": index, "name": f"r{index}", **({"note": "x"} if index else {})} for index in range(n)]


OUTER = tool(
    "outer",
    'async def outer(n: int) -> int:\n    """O."""\n    return len(await tools.rows(n=n))\n',
    head='# requires = ["rows"]\n',
)


class Place:
    """An engine with its composer, over some functions."""

    def __init__(self, project: Path, box: Sandbox) -> None:
        self.project, self.box = project, box

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Composer]:
        functions = FunctionSource([search, rows])
        composer = Composer(self.project, box=self.box, sources=[functions])
        async with composer, Engine(self.project, composer=composer) as engine:
            self.engine = engine
            yield composer

    async def run(self, code: str | None = None, inputs: dict[str, Any] | None = None, **order: Any) -> Run:
        return await self.engine.guests.run(GuestOrder(code=code, inputs=inputs or {}, **order))

    def past(self) -> list[PastRun]:
        return list(past_runs(FileStore(self.project)))

    def list_old(self, *runs: dict[str, Any], name: str = "runs.jsonl") -> Path:
        path = self.project / ".go-ent" / "journal" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps({"v": 1, "at": 1.0, "ms": 1.0, **run}) + "\n" for run in runs))
        return path


@pytest.fixture
def place(project: Path, box: Sandbox) -> Place:
    return Place(project, box)


SHAPE = """
{v} = await tools.search(q={q!r}, top={top})
lengths = [len(h) for h in {v}]
{{'q': {q!r}, 'longest': max(lengths)}}
"""


class TestSuggestions:
    async def test_code_of_one_shape_is_a_tool_that_can_be_saved(self, place: Place) -> None:
        """Three runs of the same shape, with other names and other values; then others."""
        async with place.open() as composer:
            for variable, q, top in (("hits", "wasm", 2), ("found", "python", 4), ("rows", "tools", 2)):
                assert (await place.run(SHAPE.format(v=variable, q=q, top=top))).status == "completed"
            await place.run("await tools.search(q='other')")
            await place.run(SHAPE.format(v="hits", q="broken", top="'x'"))  # fails: not counted
            (suggestion,) = await composer.suggest(least=2)
            assert (suggestion.name, suggestion.runs) == ("search_tool", 3)
            assert "async def search_tool(q: str, top: int) -> dict[str, Any]:" in suggestion.source
            saved = await composer.compose(suggestion.source)
            assert (saved.examples, saved.interface.requires) == (3, ("search",))
            assert await composer.call("search_tool", q="new", top=1) == {"q": "new", "longest": 5}
            assert await composer.suggest(least=2) == []  # it is saved now, also under another name
            renamed = suggestion.source.replace("search_tool", "longest_hit")
            await composer.remove("search_tool")
            assert len(await composer.suggest(least=2)) == 1
            await composer.compose(renamed)
            assert await composer.suggest(least=2) == []

    @pytest.mark.parametrize("language", ["javascript", "typescript"])
    async def test_code_of_one_shape_in_another_language(self, place: Place, language: Any) -> None:
        async with place.open() as composer:
            for name, q, top in (("hits", "wasm", 2), ("found", "python", 4)):
                code = (
                    f"const {name} = await tools.search({{ q: '{q}', top: {top} }});\n`${{'{q}'}}: ${{{name}.length}}`"
                )
                assert (await place.run(code, language=language)).status == "completed"
            other = "const hits = await tools.search({ q: 'x', top: 1 });\n`${'x'} = ${hits.length}`"
            await place.run(other, language=language)  # another text between
            await place.run("const broken = (", language=language)
            (suggestion,) = await composer.suggest()
            assert (suggestion.name, suggestion.runs, suggestion.language) == ("search_tool", 2, language)
            saved = await composer.compose(suggestion.source)
            assert (saved.language, saved.examples, saved.interface.requires) == (language, 2, ("search",))
            assert await composer.call("search_tool", q="new", top=1) == "new: 1"
            assert await composer.suggest() == []  # it is saved now

    async def test_inputs_are_parameters_and_equal_literals_are_one(self, place: Place) -> None:
        async with place.open() as composer:
            for word, limit in (("a", 1), ("b", 2)):
                code = (
                    f"out = []\nfor item in items:\n    out += await tools.search(q=item + {word!r}, "
                    f"top={limit})\nout[:{limit}]"
                )
                await place.run(code, {"items": [word]})
            (suggestion,) = await composer.suggest()
            assert "(items: list[str], q: str, top: int) -> list[str]:" in suggestion.source
            await composer.compose(suggestion.source)
            assert await composer.call("search_tool", items=["x", "y"], q="!", top=3) == ["x! 0", "x! 1", "x! 2"]

    async def test_arguments_by_position_are_recorded_by_name(self, place: Place) -> None:
        async with place.open() as composer:
            for word in ("a", "b"):
                await place.run(f"hits = await tools.search({word!r}, 2)\nlen(hits)")
            (suggestion,) = await composer.suggest()
            assert (await composer.compose(suggestion.source)).examples == 2

    async def test_a_failure_that_the_code_expected_is_in_its_example(self, place: Place) -> None:
        async with place.open() as composer:
            for word in ("a", "b"):
                code = (
                    f"try:\n    out = await tools.search(q={word!r}, top='x')\nexcept ToolError:\n    out = 'none'\nout"
                )
                assert (await place.run(code)).result == "none"
            (suggestion,) = await composer.suggest()
            assert '"error"' in suggestion.source

    async def test_steps_of_plans_count_with_the_inputs_that_they_were_given(self, place: Place) -> None:
        async with place.open() as composer:
            code = "hits = await tools.search(q=word, top=2)\nsorted(hits)"
            plan = {
                "task": [
                    {"id": "a", "code": code, "inputs": {"word": "x"}},
                    {"id": "b", "code": code, "inputs": {"word": "${a.structured.0}"}},
                ]
            }
            assert (await place.engine.execute(parse_plan(plan))).ok
            assert (await place.engine.execute(Task(code="await tools.rows(n=1)"))).ok
            (suggestion,) = await composer.suggest()
            assert suggestion.runs == 2
            assert (await composer.compose(suggestion.source)).examples == 2
            assert (await composer.learn("rows"))[1] == 1

    async def test_a_retry_has_the_calls_of_the_run_that_completed(self, place: Place) -> None:
        journal = Calls()
        start = {"kind": "guest"}
        journal.add([{**start, "path": "s"}, {"kind": "call", "path": "s/1", "tool": "a", "arguments": [[], {}]}])
        journal.add([{**start, "path": "s#2"}, {"kind": "call", "path": "s#2/1", "tool": "b", "arguments": [[], {}]}])
        assert journal.last == {"s": "s#2"}
        assert {path: [call.name for call in calls] for path, calls in journal.by_run().items()} == {
            "s": ["a"],
            "s#2": ["b"],
        }

    async def test_code_of_a_session_is_not_suggested(self, place: Place) -> None:
        async with place.open() as composer:
            for n in range(3):
                await place.run(f"len(await tools.search(q='{n}'))", session="work")
            assert await composer.suggest() == []

    @pytest.mark.parametrize(
        "codes", [["1 + 1", "2 + 2"], ["def f(:", "def g(:"], ["x = 1", "tools.search(q='a')"], []]
    )
    async def test_nothing_to_suggest(self, place: Place, codes: list[str]) -> None:
        async with place.open() as composer:
            for code in codes:
                await place.run(code)
            assert await composer.suggest() == []

    async def test_a_composer_alone_keeps_no_record(self, place: Place) -> None:
        async with Composer(place.project, box=place.box, sources=[FunctionSource([search])]) as composer:
            for word in ("a", "b"):
                await composer.code.execute(SHAPE.format(v="hits", q=word, top=1))
            assert await composer.suggest() == []
        assert place.past() == []
        assert not (place.project / ".go-ent" / "journal").exists()


class TestLearning:
    async def test_what_a_tool_gave_is_learned_and_kept(self, place: Place) -> None:
        async with place.open() as composer:
            with pytest.raises(StoreError, match="no result of rows is on record: call it from code that runs through"):
                await composer.learn("rows")
            await place.run("await tools.rows(n=2)")
            schema, seen = await composer.learn("rows")
            assert seen == 1
            assert schema["items"]["required"] == ["id", "name"]
        async with place.open() as composer:
            spec = await composer.catalogue.find("rows")
            assert spec.learned
            assert spec.output_schema == schema

    async def test_also_from_sessions_composed_tools_and_lines(self, place: Place) -> None:
        async with place.open() as composer:
            await composer.compose(OUTER)
            await place.run("await tools.rows(n=1)\nawait tools.outer(n=3)", session="work")
            assert (await composer.learn("rows"))[1] == 2
            await place.run(tool="outer", inputs={"n": 2})
            await place.run("await tools.outer(n=1)")
            assert (await composer.learn("rows"))[1] == 4

    async def test_what_failed_is_too_large_or_was_skipped_teaches_nothing(self, place: Place) -> None:
        async with place.open() as composer:
            await place.run("await tools.rows(n='x')")
            await place.run("len(await tools.rows(n=1000))")
            with pytest.raises(StoreError, match="no result"):
                await composer.learn("rows")
        (large, _) = place.past()
        assert [(call.kept, call.result, call.error) for call in large.calls] == [(False, None, None)]
        skipped = Calls()
        skipped.add(
            [
                {"kind": "call", "path": "run/1", "tool": "t", "arguments": [[], {}]},
                {"kind": "unfinished", "path": "run/1", "decided": "skip"},
                {"kind": "answer", "path": "run/1", "answer": [1, 1, None]},
            ]
        )
        assert [call.kept for call in skipped.by_run()["run"]] == [False]


class TestSessions:
    async def test_the_calls_of_a_session_are_in_the_journal(self, place: Place) -> None:
        async with place.open():
            code = "await tools.rows(n=1)\ntry:\n    await tools.github.x()\nexcept ToolError:\n    pass"
            run = await place.run(code, session="work")
            await place.run("1", session="work")
        store = FileStore(place.project)
        (record,) = [record for record in store.records(run.id) if record["kind"] == "calls"]
        assert [(call["name"], call["arguments"], call["error"]) for call in record["calls"]] == [
            ("rows", {"n": 1}, None),
            ("github.x", {}, "not granted"),
        ]

    async def test_they_are_in_the_totals_as_they_are_after_a_rebuild(self, place: Place) -> None:
        async with place.open():
            await place.run("await tools.rows(n=1)\nawait tools.rows(n='x')", session="work")
        store = FileStore(place.project)
        totals = store.index.totals("tool")["rows"]
        assert (totals.count, totals.successes) == (2, 1)
        store.index.rebuild()
        assert store.index.totals("tool")["rows"] == totals

    async def test_they_are_small(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tape, "MAX_NOTED", 2000)
        async with place.open() as composer:
            run = await place.run("for n in range(600):\n    await tools.rows(n=3)", session="work")
            assert run.status == "completed", run.error
            seen = (await composer.learn("rows"))[1]
        (past,) = place.past()
        assert (len(past.calls), sum(call.kept for call in past.calls)) == (500, seen)
        assert 0 < seen < 20

    async def test_they_are_told_also_of_a_run_that_was_stopped(self, place: Place) -> None:
        async with place.open():
            await place.run("await tools.rows(n=1)\nwhile True: pass", session="work", limits={"cpu_s": 0.2})
        (past,) = place.past()
        assert [call.result for call in past.calls] == [rows(1)]


class TestBounds:
    async def test_only_the_newest_executions_are_read(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading, "MOST_EXECUTIONS", 2)
        async with place.open():
            for n in range(3):
                await place.run(f"{n}")
        assert [run.source for run in place.past()] == ["2", "1"]

    async def test_a_journal_is_read_so_far(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was cut makes no example."""
        async with place.open():
            await place.run("1")
            await place.run("await tools.rows(n=1)")
        monkeypatch.setattr(reading, "MOST_OF_ONE", 10)
        assert [(run.source, run.kept) for run in place.past()] == [("await tools.rows(n=1)", False), ("1", True)]
        monkeypatch.setattr(reading, "MOST_BYTES", 10)
        assert len(place.past()) == 1

    async def test_one_that_can_not_be_read_is_passed_over(self, place: Place) -> None:
        async with place.open():
            first, second = await place.run("1"), await place.run("await tools.rows(n=1)")
        folder = place.project / ".go-ent" / "executions" / second.id
        (folder / "state.json").write_bytes(b"nothing")
        (folder / "journal.jsonl").write_bytes(b"nothing\n" * 3)
        assert [run.source for run in place.past()] == ["1"]
        assert first.id != second.id


class TestOlderVersions:
    CODE = MappingProxyType({"kind": "code", "status": "completed", "inputs": {}})

    async def test_what_they_have_listed_is_known(self, place: Place) -> None:
        call = {"name": "rows", "arguments": {"n": 1}, "ok": True, "result": rows(1), "ms": 2.0}
        failed = {"name": "rows", "arguments": {"n": 0}, "ok": False, "error": "no"}
        listed = [
            {**self.CODE, "id": f"{n}", "source": f"found = await tools.rows(n={n})\nlen(found)", "result": 1}
            for n in range(3)
        ]
        place.list_old({**listed[0], "calls": [call, failed]}, name="runs.1.jsonl")
        path = place.list_old(*listed[1:], {**listed[0], "id": "9", "session": "s"}, {"kind": "tool", "status": "x"})
        before = path.read_bytes()
        async with place.open() as composer:
            assert (await composer.learn("rows"))[1] == 1
            (suggestion,) = await composer.suggest()
            assert suggestion.runs == 3
            await place.run("await tools.rows(n=5)")
            assert (await composer.learn("rows"))[1] == 2
        assert path.read_bytes() == before

    async def test_what_is_an_execution_is_not_known_twice(self, place: Place) -> None:
        async with place.open():
            run = await place.run("await tools.rows(n=1)")
        call = {"name": "rows", "arguments": {"n": 1}, "ok": True, "result": rows(1)}
        place.list_old(
            {**self.CODE, "id": run.id, "source": "await tools.rows(n=1)", "calls": [call]},
            {**self.CODE, "id": f"{run.id}/3", "calls": [call]},
        )
        assert len(place.past()) == 1

    async def test_they_are_read_from_the_end_and_not_further(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place.list_old(*({**self.CODE, "id": f"{n}", "source": f"{n}"} for n in range(9)))
        monkeypatch.setattr(file_storage, "OLD_BYTES", 250)
        assert [run.source for run in place.past()] == ["8", "7"]
