"""The inspector's command line as a client: it lists our tools, and calls each of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.e2e.programs import Programs
from tests.e2e.serving import GO_ENT, TWICE, Called, Project, ask_inspector

pytestmark = pytest.mark.real

FAILED = 5  # the inspector's exit code for a tool's own error
CONFIG = """
[grants]
approve = ["guarded"]
"""
GUARDED = TWICE.replace("twice", "guarded")
Ask: TypeAlias = Callable[..., Called]


@pytest.fixture(params=["stdio-legacy", "http-modern"])
def ask(request: pytest.FixtureRequest, programs: Programs, tmp_path: Path) -> Iterator[Ask]:
    """The inspector, connected in one of two ways. Over stdio each request starts a server of its own."""
    transport, era = request.param.split("-")
    project = Project.make(tmp_path, CONFIG)

    def asking(*target: str) -> Ask:
        def made(*options: str) -> Called:
            return ask_inspector(programs.node, programs.inspector, target, project, "--protocol-era", era, *options)

        return made

    if transport == "stdio":
        yield asking(*GO_ENT, "serve", "--project", str(project.folder))
        return
    with project.over_http() as address:
        yield asking(address)


class Calls:
    """Calls of tools, and which tools were called."""

    def __init__(self, ask: Ask) -> None:
        self._ask, self.called = ask, set[str]()

    def __call__(self, tool: str, /, *, fails: bool = False, **arguments: Any) -> Called:
        self.called.add(tool)
        made = self._ask("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        assert made.code == (FAILED if fails else 0), (tool, made)
        assert bool(made.said.get("isError")) is fails, (tool, made)
        return made


def test_it_lists_every_tool_and_finds_no_fault_with_the_schemas(ask: Ask) -> None:
    listed = ask("--method", "tools/list", "--strict")
    assert listed.code == 0, listed.errors
    for tool in listed.said["tools"]:
        assert tool["description"], tool["name"]
        assert tool["outputSchema"]["type"] == "object", tool["name"]
        assert "annotations" in tool, tool["name"]


def test_it_calls_every_tool(ask: Ask) -> None:
    call = Calls(ask)
    call("tool_compose", source=TWICE)
    call("tool_compose", source=GUARDED)
    call("tool_compose", source="no tool", fails=True)
    assert "twice" in call("tool_search", words="doubled").text
    assert "x: int" in call("tool_schema", names=["twice"]).text
    assert "twice" in call("tool_list").text
    assert "return 2 * x" in call("tool_show", name="twice").text
    call("tool_show", name="none", fails=True)
    assert "ok" in call("tool_test", name="twice").text
    assert call("twice", x=1).structured["result"] == 2
    assert call("tool_run", name="twice", inputs={"x": 21}).structured["result"] == 42
    assert call("code_execute", code="await tools.twice(x=x)", inputs={"x": 4}).structured["result"] == 8
    call("code_execute", code="1 / 0", fails=True)
    assert "version 1" in call("tool_history", name="twice").text
    call("tool_rollback", name="twice", version=1)
    call("tool_suggest")
    done = call("engine_execute", task='composed:twice {"x": 3}').structured
    assert (done["status"], done["output"]) == ("COMPLETE", "6")
    assert call("engine_status", execution_id=done["execution_id"]).structured["status"] == "completed"
    call("engine_budget")
    paused = call("code_execute", code="await tools.guarded(x=5)").structured
    assert paused["status"] == "paused"
    call("engine_interrupt", execution_id=paused["execution_id"])
    call("engine_approve", execution_id=paused["execution_id"])
    assert call("engine_resume", execution_id=paused["execution_id"]).structured["result"] == 10
    call("engine_resume", execution_id=paused["execution_id"], fails=True)
    call("engine_summarize", execution_id=done["execution_id"])
    call("tool_delete", name="twice")
    call("tool_delete", name="twice", fails=True)
    listed = {tool["name"] for tool in ask("--method", "tools/list").said["tools"]}
    assert call.called - {"twice"} == listed - {"guarded"}
