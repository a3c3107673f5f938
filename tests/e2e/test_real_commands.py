"""Every command and every tool over four servers at once, by Claude Code and opencode: as a model calls them, timed."""

from __future__ import annotations

import json
import re
import shlex
import time
from dataclasses import dataclass, field

import pytest

from tests.e2e.model_server import Asked, ModelServer, Reply, Text, ToolUse
from tests.e2e.programs import Programs
from tests.e2e.serving import GO_ENT
from tests.e2e.test_real_clients import CONNECTING, claude, opencode
from tests.e2e.test_real_servers import Shell, api, shell

__all__ = ["api", "shell"]  # fixtures
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
COMMAND = shlex.join(GO_ENT)
ROWS = "rows = await tools.pets.listPets(limit=1)\n[row['name'] for row in rows]"
SVG = "open('c.svg', 'w').write('<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>')"


@dataclass(frozen=True)
class Step:
    """A call: of a tool of ours, or of the client's own shell; and what its answer has to say."""

    call: tuple[str, dict[str, object]] | str
    says: tuple[str, ...]


def run(code: str, *says: str) -> Step:
    return Step(("code_execute", {"code": code}), says)


STEPS = (
    Step(("tool_search", {"words": "image"}), ("every.get_tiny_image",)),
    run("await tools.every.echo(message='hi')", "Echo: hi"),
    run("(await tools.search('read file'))[0]['name']", "fs.read"),
    run("tools.describe('pets.setLogo')", "def setLogo"),
    run("[await tools.call('pets.listPets', limit=1), dir(tools.mem)[:2]]", "rex"),
    run("await tools.pets.logo()", "result.png"),
    run(SVG, "c.svg", "image/svg"),
    run("await tools.every.nothing_like_it()", "there is no tool every.nothing_like_it"),
    Step(("tool_run", {"name": "pets.listPets", "inputs": {"limit": 1}}), ("rex",)),
    run(ROWS, "rex"),
    Step("server list", ("every", "fs", "mem", "pets")),
    Step("server tools fs read", ("fs.read_text_file",)),
    Step("server refresh mem", ("mem",)),
    Step("tool search image", ("every.get_tiny_image",)),
    Step("tool show pets.setLogo", ("setLogo",)),
    Step("tool call pets.listPets limit=1", ("rex",)),
    Step("exec -c 'len(await tools.pets.listPets())'", ("1",)),
    Step("tool suggest", ("pets",)),
    Step("output last --files", ("left no files",)),
    Step("revoke 'mem.*'", ("mem",)),
    Step("tool call mem.read_graph || true", ("not granted",)),
    run("await tools.mem.read_graph()", "not granted"),  # the running server follows
    Step("grant 'mem.*'", ("mem",)),
    run("len(await tools.mem.read_graph())", "result"),
    Step("config check", ()),
    Step("doctor || true", ("every",)),
)


@dataclass
class Walking:
    """A model that waits for our server and takes the steps one after the other; then it saves a run and uses it."""

    prefix: str
    shell: str
    told: list[tuple[float, str]] = field(default_factory=list)
    waited: int = 0
    at: int = -1
    began: float = 0.0
    execution: str = ""

    def __call__(self, asked: Asked) -> Reply:
        if self.at < 0 and not self._offered(asked):
            self.waited += 1
            assert self.waited < CONNECTING, "the tools were never offered"
            return ToolUse(self.shell, {"command": "sleep 0.3", "description": "wait"})
        steps = [*STEPS, *self._saving()]
        if self.at >= 0:
            step = steps[self.at]
            attached = asked.last_text.startswith("Attached media")  # opencode shows pictures in a message of their own
            answer = asked.said[-2] if attached else asked.last_text
            self.told.append((time.monotonic() - self.began, str(step.call)[:80]))
            plain = answer.replace("\\", "")
            assert all(word in plain for word in step.says), (step, answer[:2000])
            if step.call == STEPS[9].call:
                found = re.search(r'"execution_id":"([0-9a-f-]+)"', plain)
                assert found, answer
                self.execution = found[1]
        self.at += 1
        self.began = time.monotonic()
        if self.at == len(steps):
            return Text("WALKED")
        call = steps[self.at].call
        if isinstance(call, str):
            return ToolUse(self.shell, {"command": f"{COMMAND} {call} 2>&1", "description": "a command"})
        return ToolUse(self.prefix + call[0], dict(call[1]))

    def _offered(self, asked: Asked) -> bool:
        name = f"{self.prefix}code_execute"
        return name in asked.tools or name in asked.system or any(name in said for said in asked.said)

    def _saving(self) -> list[Step]:
        given: dict[str, object] = {"from_execution": self.execution, "name": "pet_names", "params": {"limit": 1}}
        return [
            Step(("tool_compose", given), ("pet_names",)),
            Step(("pet_names", {"limit": 5}), ("rex",)),  # by its own name, in the same conversation
            Step("tool test pet_names", ("ok     pet_names",)),
            Step("server remove mem", ("mem",)),
        ]


@pytest.mark.parametrize("client", ["claude", "opencode"])
def test_every_command_by_a_client(shell: Shell, programs: Programs, client: str) -> None:
    project = shell.project
    serve = [*GO_ENT, "serve"]  # all tools: clients call no tool that is not listed
    with ModelServer() as model:
        if client == "claude":
            path = project.folder / "mcp.json"
            path.write_text(json.dumps({"mcpServers": {"go-ent": {"command": serve[0], "args": serve[1:]}}}))
            walking = Walking("mcp__go-ent__", "Bash")
            model.play(walking)
            options = ("--mcp-config", str(path), "--strict-mcp-config", "--allowedTools", "mcp__go-ent,Bash")
            said = claude(programs, project, model, "-p", "walk", "--output-format", "json", *options)
        else:
            config = project.home / ".config" / "opencode" / "opencode.json"
            config.parent.mkdir(parents=True)
            config.write_text(json.dumps({"mcp": {"go-ent": {"type": "local", "command": serve, "enabled": True}}}))
            walking = Walking("go-ent_", "bash")
            model.play(walking)
            said = opencode(programs, project, model, "run", "--format", "json", prompt="walk")
    print("\n".join(f"{seconds:6.2f} s  {client}: {call}" for seconds, call in walking.told))
    assert "WALKED" in said, said
