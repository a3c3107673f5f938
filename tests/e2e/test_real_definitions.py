"""What Claude Code and opencode send a model of our tools, and what the model reads of their answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.model_server import Asked, ModelServer, Reply, Text, ToolUse
from tests.e2e.programs import Programs
from tests.e2e.serving import Project
from tests.e2e.test_real_clients import CONNECTING, claude, opencode

pytestmark = pytest.mark.real

CONFIG = f"""
[grants]
allow = ["shop.*"]

[servers.shop]
command = {json.dumps(sys.executable)}
args = ["-P", {json.dumps(str(Path(__file__).with_name("shop_server.py")))}]

[servers.shop.tools.read_report]
expose = "direct"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project.make(tmp_path, CONFIG)
    made.go_ent("trust", "--yes")
    made.go_ent("server", "refresh")
    return made


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as made:
        yield made


@dataclass
class Using:
    """A model that waits for the server, runs code over a described tool, then calls the one that is exposed."""

    prefix: str
    wait: ToolUse
    definitions: dict[str, str] = field(default_factory=dict)  # what it was told of our tools
    answers: list[str] = field(default_factory=list)
    waited: int = 0
    called: bool = False

    def __call__(self, asked: Asked) -> Reply:
        mine = {name: told for name, told in asked.definitions.items() if name.startswith(self.prefix)}
        if not mine:
            self.waited += 1
            assert self.waited < CONNECTING, "the tools were never offered"
            return self.wait
        self.definitions = mine
        if self.called:
            self.answers.append(asked.last_text)
        calls = [
            ToolUse(f"{self.prefix}code_execute", {"code": '(await tools.shop.get_order(order_id="O-7"))["state"]'}),
            ToolUse(f"{self.prefix}code_execute", {"code": "[{'id': n, 'name': 'order'} for n in range(9)]"}),
            ToolUse(f"{self.prefix}shop_read_report", {"name": "2026"}),
        ]
        self.called = True
        return calls[len(self.answers)] if len(self.answers) < len(calls) else Text("USED")


def check(script: Using) -> None:
    names = {name.removeprefix(script.prefix) for name in script.definitions}
    assert {"tool_search", "code_execute", "tool_compose", "shop_read_report"} <= names
    assert not names & {"tool_history", "engine_execute", "shop_get_order"}  # the profile, and what is not exposed
    code = script.definitions[f"{script.prefix}code_execute"]
    assert "shop.get_order(order_id: str) -> dict[str, str]  # Get one order." in code
    assert "shop.read_report" not in code
    assert "Read a report." in script.definitions[f"{script.prefix}shop_read_report"]
    one, table, report = script.answers
    assert '"result":"open"' in one
    assert "order" in table
    assert "all of 2026" in report


def test_claude_code(programs: Programs, project: Project, model: ModelServer) -> None:
    project.go_ent("install", "claude", "--scope", "user", "--yes")
    script = Using("mcp__go-ent__", ToolUse("Bash", {"command": "sleep 1"}))
    model.play(script)
    options = ["-p", "use", "--output-format", "json", "--allowedTools", "mcp__go-ent,Bash(sleep 1)"]
    said = json.loads(claude(programs, project, model, *options, ENABLE_TOOL_SEARCH="false"))
    assert (said["is_error"], said["result"]) == (False, "USED")
    check(script)


def test_opencode(programs: Programs, project: Project, model: ModelServer) -> None:
    project.go_ent("install", "opencode", "--yes")
    script = Using("go-ent_", ToolUse("bash", {"command": "sleep 1", "description": "wait"}))
    model.play(script)
    said = opencode(programs, project, model, "run", "--format", "json", prompt="use")
    events = [json.loads(line) for line in said.splitlines()]
    assert [event["part"]["text"] for event in events if event["type"] == "text"] == ["USED"]
    check(script)
