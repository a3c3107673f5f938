"""Claude Code and opencode as clients of our server, with the entry that `go-ent install` has written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.runners.opencode.runner import QUIET
from tests.e2e.desk import opencode_config
from tests.e2e.model_server import Asked, ModelServer, Reply, Text, ToolUse
from tests.e2e.programs import Programs
from tests.e2e.serving import GO_ENT, TWICE, Project

pytestmark = pytest.mark.real

PATIENCE_S = 240
CONNECTING = 60  # turns, before the model gives up waiting for the server
SOON = 0  # a turn: programs ask for the new list while they take the answer to tool_compose


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as made:
        yield made


def claude(programs: Programs, project: Project, model: ModelServer, *arguments: str, **more: str) -> str:
    given = {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "key-of-the-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return _run([str(programs.claude), *arguments], project, {**given, "CLAUDE_CODE_MAX_RETRIES": "0", **more})


def opencode(programs: Programs, project: Project, model: ModelServer, *arguments: str, prompt: str = "") -> str:
    path = project.home / ".config" / "opencode" / "opencode.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **opencode_config(model.url)}))
    return _run(
        [str(programs.opencode), *arguments],
        project,
        {**dict.fromkeys(QUIET, "1"), "npm_config_offline": "true"},
        prompt,
    )


def _run(argv: list[str], project: Project, environment: dict[str, str], stdin: str = "") -> str:
    done = subprocess.run(
        argv,
        cwd=project.folder,
        env={**project.environment, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass
class Composing:
    """A model that waits for the server, composes a tool, and calls it by its own name as soon as it may."""

    prefix: str
    wait: ToolUse  # a call that takes a moment
    offered: Callable[[Asked, str], bool]
    answers: list[str] = field(default_factory=list)  # to compose and to twice
    waited: list[int] = field(default_factory=lambda: [0, 0])
    _called: bool = False

    def __call__(self, asked: Asked) -> Reply:
        if self._called:
            if "No such tool" in asked.last_text:
                return self._wait()
            self.answers.append(asked.last_text)
            self._called = False
        if len(self.answers) == 2:
            return Text("COMPOSED")
        calls: list[tuple[str, dict[str, Any]]] = [("tool_compose", {"source": TWICE}), ("twice", {"x": 21})]
        name, arguments = calls[len(self.answers)]
        if not self.offered(asked, self.prefix + name):
            return self._wait()
        self._called = True
        return ToolUse(self.prefix + name, arguments)

    def _wait(self) -> Reply:
        self._called = False
        self.waited[len(self.answers)] += 1
        assert self.waited[len(self.answers)] < CONNECTING, "the tool was never offered"
        return self.wait


TOKEN = "a-token-of-the-test-that-nobody-guesses"
SERVED = (*GO_ENT, "serve", "--http", "127.0.0.1:0", "--token-env", "GO_ENT_TOKEN")


class TestClaudeCode:
    def test_over_http_it_needs_the_token(self, programs: Programs, project: Project, model: ModelServer) -> None:
        given = replace(project, given={"GO_ENT_TOKEN": TOKEN})
        with given.over_http(SERVED) as address:
            for name, token in (("right", TOKEN), ("wrong", TOKEN[:-1])):
                header = f"Authorization: Bearer {token}"
                claude(
                    programs,
                    project,
                    model,
                    "mcp",
                    "add",
                    "--scope=user",
                    "--transport=http",
                    name,
                    address,
                    "--header",
                    header,
                )
            said = claude(programs, project, model, "mcp", "list")
        assert f"right: {address} (HTTP) - ✔ Connected" in said
        assert "HTTP 401" in said.partition("wrong: ")[2]

    @pytest.mark.parametrize("era", ["auto", "legacy"])
    def test_a_tool_that_was_composed_is_called_by_its_own_name_in_the_same_run(
        self, programs: Programs, project: Project, model: ModelServer, era: str
    ) -> None:
        project.go_ent("install", "claude", "--scope", "user", "--yes")
        # It tells the model of tools by name, or only when asked: what counts is whether it takes the call.
        script = Composing("mcp__go-ent__", ToolUse("Bash", {"command": "sleep 1"}), lambda asked, name: True)
        model.play(script)
        options = [
            "-p",
            "compose",
            "--output-format",
            "stream-json",
            "--verbose",
            "--allowedTools",
            "mcp__go-ent,Bash(sleep 1)",
        ]
        said = [
            json.loads(line)
            for line in claude(programs, project, model, *options, MCP_PROTOCOL_NEGOTIATION=era).splitlines()
        ]
        assert (said[-1]["type"], said[-1]["is_error"], said[-1]["result"]) == ("result", False, "COMPOSED")
        assert said[-1]["permission_denials"] == []
        assert "twice" in script.answers[0]
        assert json.loads(script.answers[1]) == {"result": 42}
        assert script.waited[1] <= SOON

    def test_it_connects_to_what_was_installed_for_the_user(
        self, programs: Programs, project: Project, model: ModelServer
    ) -> None:
        project.go_ent("install", "claude", "--scope", "user", "--yes")
        said = claude(programs, project, model, "mcp", "list", MCP_TIMEOUT="60000")
        assert "go-ent: " in said
        assert "✔ Connected" in said
        project.go_ent("install", "claude", "--scope", "user", "--yes", "--remove")
        assert "go-ent" not in claude(programs, project, model, "mcp", "list")

    def test_it_asks_before_it_starts_what_was_installed_for_the_project(
        self, programs: Programs, project: Project, model: ModelServer
    ) -> None:
        project.go_ent("install", "claude", "--yes")
        assert "Pending approval" in claude(programs, project, model, "mcp", "list")
        settings = project.folder / ".claude" / "settings.local.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"enabledMcpjsonServers": ["go-ent"]}))
        said = claude(programs, project, model, "mcp", "list", MCP_TIMEOUT="60000")
        assert "go-ent: " in said


class TestOpencode:
    @pytest.mark.parametrize("scope", ["project", "user"])
    def test_it_connects_to_what_was_installed(
        self, programs: Programs, project: Project, model: ModelServer, scope: str
    ) -> None:
        project.go_ent("install", "opencode", "--scope", scope, "--yes")
        said = opencode(programs, project, model, "mcp", "list")
        assert "✓ go-ent" in said
        assert "connected" in said

    def test_over_http_it_takes_the_token_from_its_environment(
        self, programs: Programs, project: Project, model: ModelServer
    ) -> None:
        given = replace(project, given={"GO_ENT_TOKEN": TOKEN})
        with given.over_http(SERVED) as address:
            headers = {"Authorization": "Bearer {env:GO_ENT_TOKEN}"}
            entry = {"type": "remote", "url": address, "oauth": False, "headers": headers}
            (project.folder / "opencode.json").write_text(json.dumps({"mcp": {"go-ent": entry}}))
            assert "✓ go-ent" in opencode(programs, given, model, "mcp", "list")
            assert "✓ go-ent" not in opencode(programs, project, model, "mcp", "list")

    def test_a_tool_that_was_composed_is_called_by_its_own_name_in_the_same_run(
        self, programs: Programs, project: Project, model: ModelServer
    ) -> None:
        project.go_ent("install", "opencode", "--yes")
        script = Composing(
            "go-ent_",
            ToolUse("bash", {"command": "sleep 1", "description": "wait"}),
            lambda asked, name: name in asked.tools,
        )
        model.play(script)
        said = opencode(programs, project, model, "run", "--format", "json", prompt="compose")
        events: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
        assert [event["part"]["text"] for event in events if event["type"] == "text"] == ["COMPOSED"]
        assert "twice" in script.answers[0]
        assert "42" in script.answers[1]
        assert script.waited[1] <= SOON
