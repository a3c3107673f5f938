"""`--json` on every command that prints data: one document, or one a line, and nothing else on stdout."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cyclopts import App

from go_ent.engine.cli import app
from tests.engine.cli.test_run import Shell, shell
from tests.engine.cli.test_signals import ENVIRONMENT

__all__ = ["shell"]

WITHOUT = {
    **dict.fromkeys(("completion bash", "completion zsh", "completion fish"), "a script for a shell"),
    "shell": "a person types there",
    "stubs": "a Python module",
    "serve": "its stdout is the protocol",
    "console": "it runs until it is stopped",
    "worker": "it runs until it is stopped",
}
TOOL = '# /// tool\n# name = "double"\n# ///\ndef double(n: int) -> int:\n    """Twice."""\n    return 2 * n\n'


def leaves(parent: App, above: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    for name in parent:
        if name.startswith("-"):
            continue
        found = parent[name]
        below = (*above, name)
        if found.default_command is not None:
            yield " ".join(below), found
        yield from leaves(found, below)


LEAVES = dict(leaves(app))


def test_the_walk_finds_the_commands() -> None:
    assert {"exec", "run", "tool run", "image prune", "executions totals", "workflow start", "doctor"} <= set(LEAVES)


def test_every_command_has_it() -> None:
    for name in LEAVES.keys() - WITHOUT.keys():
        assert "--json" in {
            option for argument in LEAVES[name].assemble_argument_collection() for option in argument.names
        }


def test_every_command_says_what_it_does() -> None:
    assert [name for name, command in LEAVES.items() if not command.help] == []


class TestDocuments:
    """Each in a project that has a tool, a finished execution, one that waits for approval, and a workflow."""

    @pytest.fixture
    def project(self, shell: Shell) -> Shell:
        (shell.folder / "double.py").write_text(TOOL)
        (shell.folder / "w.toml").write_text('[[step]]\nid = "a"\nwait = "go on?"\ncode = "1"\n')
        shell.text("tool", "add", "double.py")
        return shell

    def test_of_tools(self, project: Shell) -> None:
        assert project.json("tool", "add", "double.py")[0] == {
            "file": "double.py",
            "name": "double",
            "language": "python",
            "version": 1,
            "created": False,
            "examples": 0,
            "scope": "project",
            "saved": True,
        }
        (project.folder / "double.py").write_text(TOOL.replace("2 * n", "n + n"))
        assert project.json("tool", "add", "double.py")[0]["version"] == 2
        (project.folder / "bad.py").write_text("1")
        refused = project.json("tool", "add", "bad.py", code=1)[0]
        assert (refused["saved"], bool(refused["problems"])) == (False, True)
        assert project.json("tool", "list")[0]["name"] == "double"
        assert project.json("tool", "show", "double")["version"] == 2
        assert project.json("tool", "test")[0]["ok"]
        assert [one["version"] for one in project.json("tool", "history", "double")] == [1, 2]
        assert project.json("tool", "rollback", "double", "1")["version"] == 3
        assert project.json("tool", "search", "double")[0]["name"] == "double"
        assert project.json("tool", "search", "double", "--detail", "full")[0]["input_schema"]["required"] == ["n"]
        exported = project.text("tool", "export", "--json")
        assert exported.count("\n") == 1
        (project.folder / "bundle.json").write_text(exported)
        assert project.json("tool", "import", "bundle.json")[0]["created"] is False
        assert project.json("tool", "run", "double", "--input", '{"n": 3}')["result"] == 6
        lines = project("tool", "run", "double", "--each", "--json", stdin="1\n2\n").stdout.splitlines()
        assert [json.loads(line)["result"] for line in lines] == [2, 4]
        assert isinstance(project.json("tool", "suggest"), list)
        assert project.json("tool", "rm", "double") == [{"name": "double", "scope": "project"}]
        assert project.json("tool", "list") == []

    def test_of_executions(self, project: Shell) -> None:
        done = project.json("run", "--plan", "plan.toml")
        identity = done["execution_id"]
        assert project.json("ps")[0]["id"] == identity
        assert project.json("status", identity)["tree"][0]["name"] == "load"
        records = [json.loads(line) for line in project.text("logs", identity, "--json").splitlines()]
        assert records[0]["kind"] == "created"
        assert project.json("context", identity)["id"] == identity
        assert project.json("executions", "totals")["cli"]["count"] == 2
        assert project.json("executions", "reindex") == {"executions": 1}
        assert project.json("executions", "prune", "--dry-run")["removed"] == []
        assert project.json("run", "Buy milk", "--dry-run")[0]["prompt"].endswith("Buy milk\n")
        assert project.json("exec", "-c", "1 + 1")["result"] == 2
        (project.folder / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["double"]\n')
        waiting = project.json("exec", "-c", "await tools.double(n=2)", code=10)["id"]
        assert project.json("checkpoint", waiting)[-1]["label"] == "by hand"
        assert project.json("approve", waiting)["approved"] is True
        assert project.json("resume", waiting)["result"] == 4
        again = project.json("exec", "-c", "await tools.double(n=2)", code=10)["id"]
        assert project.json("reject", again)["approved"] is False
        assert project.json("interrupt", again, "--cancel")["status"] == "cancelled"

    def test_of_the_rest(self, project: Shell) -> None:
        assert project.json("budget")["day"]["spent_usd"] == 0
        assert project.json("doctor")[0]["name"] == "go-ent"
        assert project.json("trust", "--yes")["trusted"] is True
        assert project.json("trust", "--list") == [str(project.folder)]
        assert project.json("image", "list")[0]["digest"]
        assert project.json("image", "info")["current"] is True
        assert project.json("image", "build")["current"] is True
        assert project.json("completion", "show", "bash")["script"].startswith("#")
        assert project.json("config", "schema")["title"] == ".go-ent/config.toml"
        assert project.json("config", "check")["ok"] is True
        assert project.json("config", "show", "budget.hard")[0]["value"] is False
        assert project.json("loop", "--list") == []
        assert project.json("workflow", "start", "--plan", "w.toml", code=10)["status"] == "waiting"
        assert project.json("workflow", "status", "w")["name"] == "w"
        assert project.json("workflow", "status")[0]["status"] == "waiting"
        assert project.json("workflow", "approve", "w")["status"] == "completed"

    def test_what_fails_leaves_stdout_empty(self, project: Shell) -> None:
        for command in (
            ["status", "0123abcd"],
            ["tool", "show", "dubel"],
            ["run", "--plan", "nowhere.toml"],
            ["workflow", "status", "x"],
        ):
            done = project(*command, "--json")
            assert (done.returncode != 0, done.stdout, bool(done.stderr)) == (True, b"", True)


def loaded(*arguments: str) -> set[str]:
    """The packages that a command imports; what stands in for a module of one is none."""
    code = (
        "import sys, json\nsys.argv[0] = 'go-ent'\nfrom go_ent.engine.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(json.dumps(sorted(name for name in sys.modules if '.' not in name)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=ENVIRONMENT, capture_output=True, check=True)
    found: Any = json.loads(done.stderr.splitlines()[-1])
    return set(found)


@pytest.mark.parametrize("arguments", [["--help"], ["tool"], ["--version"]])
def test_help_imports_nothing_that_it_does_not_need(arguments: list[str]) -> None:
    heavy = {"wasmtime", "fastmcp", "mcp", "tiktoken", "pydantic", "asyncio", "composer", "sandbox", "jinja2"}
    assert loaded(*arguments) & heavy == set()


def test_exec_imports_no_runner() -> None:
    assert loaded("exec", "-c", "1") & {"fastmcp", "mcp", "tiktoken", "jinja2", "yaml", "rich", "wasmtime"} == set()
