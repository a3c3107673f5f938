"""`go-ent server`, `grant`, `revoke` and `tool call`, as a person uses them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.composer.sources.test_openapi import DOCUMENT, address
from tests.support.file_server import FileServer, tool
from tests.support.forked import Forked
from tests.support.oauth_server import browse, oauth_server
from tests.support.shell import go_ent

__all__ = ["address"]  # a fixture
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
FIND = {**tool("find", "Finds texts.", q=TEXT, top=NUMBER), "annotations": {"readOnlyHint": True}}
WIPE = {**tool("wipe", "Removes a text."), "annotations": {"destructiveHint": True}}


class Project:
    """Runs `go-ent` in a project of its own, as a user of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.code, self.out, self.err = folder / "project", 0, "", ""
        (self.folder / ".go-ent").mkdir(parents=True)
        self.environment = {**os.environ, "GO_ENT_DATA": str(folder / "user")}
        self.environment.pop("GO_ENT_TRUST_PROJECT", None)

    def __call__(self, *arguments: str, code: int = 0, **env: str) -> str:
        done = go_ent(*arguments, cwd=self.folder, env={**self.environment, **env})
        self.code, self.out, self.err = done.returncode, done.stdout.decode(), done.stderr.decode()
        assert self.code == code, self.out + self.err
        return self.out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    @property
    def config(self) -> str:
        return (self.folder / ".go-ent" / "config.toml").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> FileServer:
    return FileServer(tmp_path, FIND, WIPE)


@pytest.fixture
def added(project: Project, server: FileServer) -> Project:
    project("server", "add", "texts", "--", *server.command)
    return project


class TestAdding:
    def test_a_command(self, project: Project, server: FileServer) -> None:
        (project.folder / ".go-ent" / "config.toml").write_text("# Mine.\n[grants]  # who may what\nallow = []\n")
        out = project("server", "add", "texts", "--env", "HOME", "--env", "A=b", "--", *server.command)
        assert out.startswith("added [servers.texts] to .go-ent/config.toml:\n  +[servers.texts]\n  +command = ")
        assert '+env = {HOME = "${env:HOME}", A = "b"}' in out
        assert out.endswith("texts: 2 tools, 0 granted (file 1)\n")
        assert "to let code call them: go-ent grant 'texts.*'" in project.err
        assert project.config.startswith("# Mine.\n[grants]  # who may what\n")
        project("server", "add", "texts", "--", "x", code=2)
        assert "there is a server texts already: go-ent server remove texts first" in project.err

    def test_an_address(self, project: Project) -> None:
        project("server", "add", "web", "https://x.example/mcp", "--token-env", "T", "--no-ask")
        assert '[servers.web]\nurl = "https://x.example/mcp"\ntoken = "${env:T}"\n' in project.config

    def test_a_document_and_its_grants(self, project: Project, address: str) -> None:
        (project.folder / "api.json").write_text(json.dumps(DOCUMENT))
        out = project("server", "add", "items", "api.json", "--base-url", address, "--grant", "get_item")
        assert "items: 7 tools, 1 granted\n" in out
        assert f'[openapi.items]\ndocument = "api.json"\nbase_url = "{address}"\n' in project.config
        assert project("tool", "call", "items.get_item", "id=3") == '{"id":3,"name":"it"}\n'
        project("tool", "call", "items.get_item", "id=30", code=1)
        assert project.err == 'ToolError: items.get_item: HTTP 404 Not Found: {"error": "no item 30"}\n'

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ([], "what is to be added?"),
            (["nothing.yaml"], "there is no file nothing.yaml"),
            (["https://x.example", "--env", "A=b"], "--env does not go with https://x.example"),
            (["--base-url", "https://x", "--", "x"], "--base-url does not go with x"),
            (["https://x.example", "--header", "A"], "write NAME=VALUE"),
        ],
    )
    def test_what_can_not_be_added(self, project: Project, arguments: list[str], said: str) -> None:
        project("server", "add", "x", *arguments, code=2)
        assert said in project.err
        assert not (project.folder / ".go-ent" / "config.toml").exists()

    def test_a_name_that_can_be_none(self, project: Project) -> None:
        for name in ("1st", "engine", "class"):
            project("server", "add", name, "--", "x", code=12)
            assert "servers." in project.err

    def test_json(self, project: Project, server: FileServer) -> None:
        found = project.json("server", "add", "texts", "--no-ask", "--json", "--", *server.command[:1])
        assert (found["name"], found["section"], found["trusted"]) == ("texts", "servers", True)


class TestLooking:
    def test_list_says_what_is_known_and_starts_nothing(self, added: Project, server: FileServer) -> None:
        added("grant", "texts.find")
        (row,) = added.json("server", "list")
        assert (row["name"], row["kind"], row["tools"], row["granted"]) == ("texts", "stdio", 2, 1)
        assert "listed" in row["state"]
        assert "1 of 2" in added("server", "list")
        added("trust", "--remove")
        assert added.json("server", "list")[0]["state"] == "not trusted"
        assert server.starts == 1

    def test_tools_with_grants_and_effects(self, added: Project, server: FileServer) -> None:
        added("grant", "texts.find")
        assert added("server", "tools", "texts") == (
            "texts.find  granted      read-only    Finds texts.\n"
            "texts.wipe  not granted  destructive  Removes a text.\n"
        )
        assert [row["name"] for row in added.json("server", "tools", "texts", "removes")] == ["texts.wipe"]
        added("server", "tools", "texts", "nothing like it", code=1)
        added("server", "tools", "text", code=2)
        assert "there is no server text; did you mean texts?" in added.err
        assert server.starts == 1

    def test_refresh_tells_what_has_changed(self, added: Project, server: FileServer) -> None:
        server.say({**FIND, "inputSchema": {"type": "object"}}, tool("late"))
        out = added("server", "refresh")
        assert "texts: 2 tools, 0 granted (file 1)\n" in out
        assert "  texts.wipe is gone\n" in out
        assert "  texts.find has changed: what it takes\n" in out
        assert "  texts.late is new\n" in out
        assert "texts.find" not in added.err  # once is enough
        assert added("server", "refresh", "texts") == "texts: 2 tools, 0 granted (file 1)\n"

    def test_one_that_fails_is_told_with_its_last_words_and_what_to_do(
        self, added: Project, server: FileServer
    ) -> None:
        added("server", "add", "gone", "--", "no-such-program-at-all", code=12)
        assert "gone: can't be started: " in added.err
        assert "fix: install no-such-program-at-all, or correct command in [servers.gone]" in added.err
        server.say(stderr="line one\nno licence\n", exit=3)
        added("server", "refresh", code=12)
        assert "exit code 3; it last wrote: line one\nno licence\n" in added.err
        assert "fix: run it by hand to see more: " in added.err
        rows = {row["name"]: row for row in added.json("server", "refresh", code=12)}
        assert rows["texts"]["problem"].endswith("no licence")
        assert not rows["gone"]["ok"]

    def test_one_that_never_answers_keeps_nobody_from_the_others(self, added: Project, server: FileServer) -> None:
        (added.folder / "silent.py").write_text("import sys\nfor line in sys.stdin: pass\n")
        entry = f'[servers.silent]\ncommand = "{server.command[0]}"\nargs = ["silent.py"]\nstart_timeout_s = 0.3\n'
        (added.folder / ".go-ent" / "config.toml").write_text(added.config + entry)
        out = added("server", "refresh", code=12)
        assert "texts: 2 tools" in out
        assert "silent: can't be started: no answer within 0.3 s" in added.err
        assert "raise start_timeout_s in [servers.silent]" in added.err

    def test_remove(self, added: Project) -> None:
        added("grant", "texts.*")
        out = added("server", "remove", "texts")
        assert out.startswith("removed [servers.texts] from .go-ent/config.toml:\n  -[servers.texts]\n")
        assert "grants that are left: texts.*; go-ent revoke 'texts.*'" in added.err
        assert added.json("server", "list") == []
        added("server", "remove", "texts", code=2)


class TestGrants:
    def test_grant_and_revoke(self, added: Project) -> None:
        assert added("grant", "texts.find", "texts.*") == (
            '.go-ent/config.toml:\n  +[grants]\n  +allow = ["texts.find", "texts.*"]\n'
        )
        assert added("grant", "texts.find") == "nothing was changed: it is granted already\n"
        added("grant", "texts.wipe", "--approve")
        assert 'approve = ["texts.wipe"]' in added.config
        added("revoke", "texts.wipe")
        assert "approve = []" in added.config
        assert added.err == ""
        added("grant", "mine", "--approve")
        added("revoke", "mine")
        assert "mine: composed tools need no grant; code may still call it, now without approval" in added.err
        added("revoke", "texts.find", "texts.*")
        assert "allow = []" in added.config
        added("revoke", "texts.find", code=2)
        assert added.err == "go-ent: texts.find is not granted\n"
        added("grant", "texts.*")
        added("revoke", "texts.find", code=2)
        assert "is not granted by itself, but by texts.*" in added.err
        added("grant", "a b", code=2)

    def test_a_grant_that_fits_nothing_is_told_everywhere(self, added: Project) -> None:
        wrong = "texts.fnd: there is no tool texts.fnd; did you mean texts.find?"
        added("grant", "texts.fnd")
        assert added.err == f"note: {wrong}\n"
        added("exec", "-c", "1")
        assert f"note: grants: {wrong}\n" in added.err
        added("exec", "--quiet", "-c", "1")
        assert added.err == ""
        added("exec", "--grant", "txts.*", "-c", "1")
        assert "note: grants: txts.*: there is no source txts; did you mean texts?\n" in added.err
        added("serve")  # until the end of stdin
        assert f"grants: {wrong}\n" in added.err
        added("config", "check")
        assert f"note: grants: {wrong}" in added.err
        assert any(check["said"] == wrong for check in added.json("doctor") if check["name"] == "grant")

    def test_a_variable_that_replaces_the_file_is_told(self, added: Project) -> None:
        added("grant", "texts.find", GO_ENT__GRANTS__ALLOW='["texts.*"]')
        assert "GO_ENT__GRANTS__ALLOW is set, and replaces what the file grants" in added.err


class TestCalling:
    def test_a_servers_tool_by_its_name(self, added: Project, server: FileServer) -> None:
        added("tool", "call", "texts.find", "q=a", code=12)
        assert "texts.find is not granted here" in added.err
        added("grant", "texts.*")
        assert added("tool", "call", "texts.find", "q=7", "top=3") == '{"q":"7","top":3}\n'
        assert added("tool", "call", "texts.find", "--input", '{"q": "x"}', "top=1") == '{"q":"x","top":1}\n'
        assert added("tool", "run", "texts.find", "--input", '{"q": "x", "top": 1}') == '{"q":"x","top":1}\n'
        added("tool", "call", "texts.find", "q=a", "top=b", code=2)
        assert added.err == "go-ent: top: 'b' is not a whole number\n"
        assert added("tool", "call", "texts.find", "x", "top=1") == '{"top":1,"q":"x"}\n'
        for arguments in (["q", "r"], ["z=x"], ["q=a", "q=b"]):
            added("tool", "call", "texts.find", *arguments, code=2)
        added("tool", "call", "texts.fnd", code=2)
        assert "there is no tool texts.fnd; did you mean texts.find?" in added.err
        assert added.json("ps")[0]["title"] == "code: texts.find", "it is on record"

    def test_a_call_that_needs_approval_waits_on_record(self, added: Project) -> None:
        added("grant", "texts.*")
        added("tool", "call", "texts.wipe", code=10)
        assert "waits for approval: texts.wipe" in added.err
        assert added("tool", "call", "texts.wipe", "--yes") == "{}\n"

    def test_show_and_search_tell_what_is_granted(self, added: Project, server: FileServer) -> None:
        added("grant", "texts.find")
        out = added("tool", "show", "texts.find")
        assert out.startswith("texts.find (MCP server texts), granted\neffects: read-only\n")
        assert added("tool", "show", "texts.wipe").startswith(
            "texts.wipe (MCP server texts), not granted: go-ent grant texts.wipe\n"
        )
        found = added.json("tool", "show", "texts.wipe")
        assert (found["granted"], found["destructive"]) == (False, True)
        added("tool", "show", "texts.find", "--source", code=2)
        out = added("tool", "search", "text")
        assert out.startswith("texts.find(q: str, top: int)")
        assert "\nnot granted (go-ent grant NAME lets code call it):\ntexts.wipe()" in out
        rows = added.json("tool", "search")
        assert [(row["name"], row["granted"]) for row in rows] == [("texts.find", True), ("texts.wipe", False)]
        assert len(added.json("tool", "search", "--limit", "1")) == 1
        assert "and 1 more" in (added("tool", "search", "--limit", "1"), added.err)[1]
        assert server.starts == 1

    def test_none_granted_is_said_only_when_it_is_true(self, project: Project, server: FileServer) -> None:
        project("tool", "search", code=1)
        assert "no tool is granted here yet: go-ent tool add FILE, or go-ent server add and go-ent grant" in project.err
        server.say(stderr="no licence", exit=3)
        project("server", "add", "texts", "--grant", "*", "--", *server.command, code=12)
        project("tool", "search", code=1)
        assert "none of the granted tools can be reached now: texts.*" in project.err
        assert "no tool is granted" not in project.err

    def test_an_error_names_the_granted_tools(self, added: Project) -> None:
        added("grant", "texts.find")
        added("exec", "-c", "await tools.nothing()", code=1)
        assert "available: tools.texts.find" in added.err


COMPOSED = '''# /// tool
# name = "first"
# ///
# /// examples
# {"inputs": {"q": "a"}, "result": "b",
#  "calls": [{"tool": "texts.find", "arguments": {"q": "a", "top": 1}, "result": "b"}]}
# ///
def first(q: str) -> str:
    """The first text."""
    return await tools.texts.find(q=q, top=1)
'''.replace("def first", "async def first")


def test_a_composed_tool_is_flagged_when_what_it_requires_changes(added: Project, server: FileServer) -> None:
    added("grant", "texts.find")
    (added.folder / "first.py").write_text(COMPOSED)
    added("tool", "add", "first.py")
    assert added.json("tool", "list")[0]["changed"] == []
    server.say({**FIND, "outputSchema": {"type": "object"}}, WIPE)
    added("server", "refresh")
    assert added.json("tool", "list")[0]["changed"] == ["texts.find"]
    added("tool", "list")
    assert "first requires texts.find, which changed since: go-ent tool test first" in added.err
    added("tool", "show", "first")
    assert "texts.find has changed since" in added.err
    added("config", "check")
    assert "first requires texts.find, which has changed" in added.err
    added("tool", "test", "first", code=1)
    assert added.json("tool", "list")[0]["changed"] == ["texts.find"], "its recording no longer fits"
    server.say({**FIND, "description": "Finds."}, WIPE)
    added("server", "refresh")
    added("tool", "test", "first")
    assert added.json("tool", "list")[0]["changed"] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_three_servers_from_npm(project: Project, tmp_path: Path) -> None:
    """The protocol's own servers: added, searched without starting one, called; the others are not started for it."""
    npm = shutil.which("npm")
    assert npm, "npm is needed for this test"
    packages = [f"@modelcontextprotocol/server-{name}" for name in ("everything", "filesystem", "memory")]
    install = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path / "npm"), *packages]
    subprocess.run(install, check=True, capture_output=True)
    programs = tmp_path / "npm" / "node_modules" / ".bin"
    for name in ("everything", "filesystem", "memory"):
        arguments = ["."] if name == "filesystem" else []
        out = project("server", "add", name, "--grant", "*", "--", str(programs / f"mcp-server-{name}"), *arguments)
        assert f"{name}: " in out
    (programs / "mcp-server-everything").unlink()  # whoever starts it from now on fails
    assert "filesystem.read_text_file" in project("tool", "search", "read", "a", "file")
    assert "everything.echo" in project("tool", "search", "echo")
    (project.folder / "note.txt").write_text("hello")
    assert json.loads(project("tool", "call", "filesystem.read_text_file", "path=note.txt")) == {"content": "hello"}
    assert project.json("tool", "call", "memory.read_graph")["status"] == "completed"
    project("tool", "call", "everything.echo", "message=hi", code=1)
    assert "everything" in project.err


def test_login_prints_the_address_and_logout_forgets(project: Project) -> None:
    with oauth_server() as server:
        project("server", "add", "guarded", server.url, "--auth", "oauth", "--grant", "*")
        assert "log in with: go-ent server login guarded" in project.err
        assert project.json("server", "list")[0]["state"] == "not logged in, not listed yet"
        project("server", "refresh", code=12)
        assert "nobody is logged in" in project.err
        assert "fix: go-ent server login guarded" in project.err
        pipe = subprocess.PIPE
        with Forked(
            "server", "login", "guarded", "--no-browser", cwd=project.folder, env=project.environment,
            stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
        ) as login:  # fmt: skip
            assert login.stderr is not None
            assert login.stdout is not None
            login.stderr.readline()
            browse(login.stderr.readline().decode().strip())
            out = login.stdout.read().decode()
            assert login.wait(30) == 0
        assert out.startswith("logged in to guarded; the login is in ")
        assert out.endswith("guarded: 1 tool, 1 granted (guarded 1)\n")
        assert project("tool", "call", "guarded.whoami") == "you sent [secret]\n"
        assert project.json("server", "list")[0]["state"].startswith("logged in, listed ")
        assert project("server", "logout", "guarded") == "the login to guarded is forgotten\n"
        project("tool", "call", "guarded.whoami", code=1)
        assert "nobody is logged in" in project.err
        project("server", "logout", "guarded")
        project("server", "login", "nothing", code=2)
