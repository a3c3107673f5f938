"""`go-ent server import`: the servers of other clients, without their secrets."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.project.trust import is_trusted
from go_ent.sandbox.images.cache import cache_folder
from tests.engine.cli.test_signals import Terminal
from tests.engine.setup.test_install import Desk
from tests.support.shell import Done, go_ent


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.environment["CODEX_HOME"] = ""
    desk.environment["GO_ENT_DATA"] = str(tmp_path / "data")
    return desk


def bring(desk: Desk, *arguments: str) -> Done:
    return go_ent("server", "import", *arguments, cwd=desk.project, env=desk.environment)


def claude(desk: Desk, servers: Any) -> None:
    (desk.home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))


def written(desk: Desk) -> dict[str, Any]:
    path = desk.project / ".go-ent/config.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text())["servers"] if path.exists() else {}
    return found


def test_servers_of_several_clients(desk: Desk) -> None:
    local = {str(desk.project): {"mcpServers": {"mine": {"command": "here"}}}}
    everywhere = {"a-b": {"type": "stdio", "command": "a", "args": ["-x"]}, "off": {"command": "o", "disabled": True}}
    (desk.home / ".claude.json").write_text(json.dumps({"projects": local, "mcpServers": everywhere}))
    (desk.project / ".vscode").mkdir()
    (desk.project / ".vscode/mcp.json").write_text(
        '{// mine\n "servers": {"v": {"type": "http", "url": "http://v/mcp"}},}'
    )
    (desk.home / ".codex").mkdir()
    codex = '[mcp_servers.c]\nurl = "http://c"\nbearer_token_env_var = "C_TOKEN"\n'
    (desk.home / ".codex/config.toml").write_text(codex)
    (desk.project / "opencode.json").write_text('{"mcp": {"o": {"type": "local", "command": ["o", "{env:O_HOME}"]}}}')
    done = bring(desk, "--yes")
    assert done.returncode == 0, done.stderr
    assert written(desk) == {
        "mine": {"command": "here"},
        "a_b": {"command": "a", "args": ["-x"]},
        "c": {"url": "http://c", "headers": {"Authorization": "Bearer ${env:C_TOKEN}"}},
        "o": {"command": "o", "args": ["${env:O_HOME}"]},
        "v": {"url": "http://v/mcp"},
    }
    assert not is_trusted(desk.project)
    assert b"nothing was imported" in bring(desk, "--yes").stderr
    assert b"there is a server mine here already" in bring(desk, "mine").stderr


def test_nothing_is_written_without_a_word(desk: Desk) -> None:
    claude(desk, {"a": {"command": "a"}, "b": {"command": "b"}})
    assert (bring(desk).returncode, written(desk)) == (1, {})
    assert (bring(desk, "--dry-run").returncode, written(desk)) == (0, {})
    assert bring(desk, "--yes", "b").returncode == 0
    assert list(written(desk)) == ["b"]
    assert b"did you mean a?" in bring(desk, "aa").stderr or b"there are a, b" in bring(desk, "aa").stderr


@pytest.mark.more
def test_init_asks_two_questions_on_a_terminal(desk: Desk) -> None:
    claude(desk, {"github": {"command": "npx", "env": {"TOKEN": "hunter2"}}})
    env = {**desk.environment, "GO_ENT_CACHE": str(cache_folder())}  # another home has no image
    terminal = Terminal(desk.project, "init", env=env)
    try:
        terminal.until(b"connect which agent programs?")
        terminal.type(b"claude nothing\n")
        terminal.until(b"nothing is not known")
        terminal.until(b"import which of these MCP servers?")
        terminal.type(b"all\n")
        assert terminal.end() == 0
    finally:
        terminal.close()
    assert b"set TOKEN" in terminal.said
    assert "go-ent" in json.loads(desk.file.read_text())["mcpServers"]
    assert written(desk) == {"github": {"command": "npx", "env": {"TOKEN": "${env:TOKEN}"}}}
