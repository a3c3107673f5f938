"""The library as other programs use it: small, typed, sync and async, without global state, also where an event loop
runs already.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

import go_ent
from go_ent import composer, engine, sandbox
from go_ent.composer import BlockingComposer
from go_ent.engine import BlockingEngine, GuestOrder, parse_plan
from go_ent.sandbox import Sandbox

TOOL = '''
# /// tool
# name = "double"
# ///
def double(n: int) -> int:
    """Twice a number."""
    return 2 * n
'''

EXPORTS = json.loads((Path(__file__).parent / "exports.json").read_text())


@pytest.mark.parametrize("package", [go_ent, sandbox, composer, engine])
def test_what_a_package_exports_changes_only_on_purpose(package: ModuleType) -> None:
    """A name that is added or removed here is one that programs can rely on, or no longer: `tests/exports.json` says
    which.
    """
    assert package.__all__ == EXPORTS[package.__name__]


def test_the_package_is_typed() -> None:
    assert (Path(go_ent.__file__).parent / "py.typed").exists()


def test_without_awaiting(project: Path) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    with BlockingComposer(project, tools=[add], workers=1) as tools:
        assert tools.execute("await tools.add(a=x, b=1)", {"x": 41}).result == 42
        assert tools.compose(TOOL).version == 1
        assert tools.call("double", n=4) == 8
        assert tools.tools.double(n=4) == tools.tools.double(4) == tools.tools["double"](n=4) == 8
        assert tools.run("double", {"n": "no"}).status == "error"
        assert [tool.name for tool, _ in tools.tools()] == ["double"]
        assert tools.compose(TOOL.replace("2 * n", "n + n")).version == 2
        assert tools.rollback("double", 1).number == 3
        assert [version.number for version in tools.history("double")] == [1, 2, 3]
        with BlockingEngine(project, composer=None) as works:
            run = works.run(GuestOrder(tool="double", inputs={"n": 5}))
            assert (run.status, run.result) == ("completed", 10)
            result = works.execute(parse_plan({"task": [{"id": "a", "tool": "double", "inputs": {"n": 6}}]}))
            assert (result.status, result.output) == ("COMPLETE", "12")
            assert works.status(run.id).status == "completed"
            assert works.wait(works.start(parse_plan({"task": [{"id": "a", "code": "7"}]}))).output == "7"
            assert works.budget().day.spent_tokens == 0
        assert tools.remove("double") == "project"


async def test_where_a_loop_runs_already(project: Path) -> None:
    """A notebook's cell, or a handler of a web framework: sync code inside a running loop."""

    with Sandbox() as box:
        plain = box.run_sync("1 + 1").result
    with BlockingComposer(project, workers=1) as tools:
        code = tools.execute("2 + 2").result
    with BlockingEngine(project) as works:
        run = works.run(GuestOrder(code="3 + 3")).result
    assert (plain, code, run) == (2, 4, 6)


def test_a_web_application_s_handlers_share_one_sandbox() -> None:
    """One sandbox, many requests at once, on the loop of the application."""
    starlette = pytest.importorskip("starlette.applications")
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from starlette.testclient import TestClient

    with Sandbox() as box:

        async def handler(request: Request) -> JSONResponse:
            run = await box.run("n * n", inputs={"n": int(request.query_params["n"])})
            return JSONResponse({"status": run.status, "result": run.result})

        client = TestClient(starlette.Starlette(routes=[Route("/square", handler)]))
        assert [client.get(f"/square?n={n}").json()["result"] for n in range(5)] == [0, 1, 4, 9, 16]


def test_two_projects_in_one_process_share_nothing(tmp_path: Path, project: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with BlockingComposer(project, workers=1) as one, BlockingComposer(other, workers=1) as two:
        one.compose(TOOL)
        assert [tool.name for tool, _ in two.tools()] == []
        assert two.execute("await tools.double(n=1)").status == "error"
