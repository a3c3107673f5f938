"""Hostile configurations of other MCP clients, on their way into a project's file."""

from __future__ import annotations

import json
import os
import tomllib
from typing import Any

import pytest

from go_ent.engine.setup.client_servers import servers_of_clients
from tests.engine.setup.test_client_servers import bring, claude, desk, written
from tests.engine.setup.test_install import Desk
from tests.security.corpus import attack
from tests.support.shell import go_ent

__all__ = ["desk"]  # a fixture


@attack("secrets", "secrets in a client's configuration, imported into a project's file")
def test_secrets_stay_where_they_are(desk: Desk) -> None:
    env = {"TOKEN": "hunter2", "ORG": "hunter2", "PLAIN": "debug", "REF": "${OTHER:-x}", "ASKED": "${input:key}"}
    headers = {"Authorization": "Bearer hunter2", "X-Key": "hunter2"}
    claude(
        desk,
        {
            "s": {"command": "s", "args": ["--token", "hunter2", "--key=hunter2", "pg://u:hunter2@h/d"], "env": env},
            "h": {"type": "http", "url": "https://h/mcp", "headers": headers},
            "q": {"type": "http", "url": "https://h/mcp?k=hunter2"},
            "p": {"type": "http", "url": "https://h/mcp/sk-hunter2hunter2hunter2/x"},
            "u": {"type": "http", "url": "https://u:hunter2@h/mcp"},
        },
    )
    for done in (bring(desk, "--dry-run"), bring(desk, "--dry-run", "--json"), bring(desk, "--yes", "--json")):
        assert b"hunter2" not in done.stdout + done.stderr
    assert "hunter2" not in (desk.project / ".go-ent/config.toml").read_text()
    found = written(desk)
    assert found["s"]["args"] == ["--token", "${env:S_ARG_2}", "--key=${env:S_ARG_3}", "${env:S_ARG_4}"]
    assert found["s"]["env"] == {
        "TOKEN": "${env:TOKEN}",
        "ORG": "${env:ORG}",
        "PLAIN": "debug",
        "REF": "${env:OTHER:-x}",
        "ASKED": "${env:ASKED}",
    }
    assert found["h"]["headers"] == {"Authorization": "Bearer ${env:H_TOKEN}", "X-Key": "${env:H_X_KEY}"}
    assert [found[name]["url"] for name in "qpu"] == ["${env:Q_URL}", "${env:P_URL}", "${env:U_URL}"]
    told = go_ent("config", "check", cwd=desk.project, env=desk.environment)
    assert b"S_ARG_2 is not set" in told.stdout
    assert b"hunter2" not in told.stdout + told.stderr


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (7, "it is not an object"),
        ({"command": True}, "command is not a text"),
        ({"command": []}, "command is not a text"),
        ({}, "command is not a text"),
        ({"command": "x", "args": "y"}, "args is not a list"),
        ({"command": "x", "args": ["y"] * 101}, "more than 100 arguments"),
        ({"command": "x", "env": ["A"]}, "env is not an object"),
        ({"command": "x", "env": {"A": {"B": "C"}}}, "env is not a text"),
        ({"command": "x" * 5000}, "at most 4000 characters"),
        ({"command": "x\x00"}, "NUL"),
        ({"type": "sse", "url": "http://x/sse"}, "SSE"),
        ({"type": "http", "url": "file:///etc/passwd"}, "http"),
        ({"type": "http", "url": "http://[x"}, "its address is none"),
    ],
)
@attack("upstream", "a client's configuration of the wrong types")
def test_what_can_t_be_used_is_told_and_the_others_are_imported(desk: Desk, entry: Any, why: str) -> None:
    claude(desk, {"bad": entry, "good": {"command": "g"}})
    found, problems = servers_of_clients(desk.project, ["claude"], desk.environment)
    told = {server.name: server.problem for server in found}
    assert (why in told["bad"], told["good"], problems) == (True, "", [])


@attack("upstream", "names in a client's configuration that would be other tables, or control a terminal")
def test_names_are_made_plain(desk: Desk) -> None:
    names = ['x"]\n[grants]\nallow=["*"]', "\x1b[31m", "engine", "a.b", "A" * 5000]
    claude(desk, {name: {"command": "c", "args": ["\x1b]0;x\x07"]} for name in names})
    done = bring(desk, "--yes")
    assert b"\x1b" not in done.stdout + done.stderr
    assert all(name.isidentifier() for name in written(desk))
    assert "grants" not in tomllib.loads((desk.project / ".go-ent/config.toml").read_text())


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param("link", marks=attack("paths", "a client's configuration that is a link out of the project")),
        pytest.param("pipe", marks=attack("paths", "a client's configuration that is a pipe")),
        pytest.param("huge", marks=attack("resources", "a client's configuration without end")),
        pytest.param("deep", marks=attack("resources", "a client's configuration that nests without end")),
        pytest.param("many", marks=attack("resources", "a client's configuration with servers without end")),
    ],
)
def test_a_hostile_file_is_told_or_passed_over(desk: Desk, plant: str) -> None:
    file = desk.project / ".mcp.json"
    if plant == "link":
        (desk.folder / "secret.json").write_text('{"mcpServers": {"x": {"command": "hunter2"}}}')
        file.symlink_to(desk.folder / "secret.json")
    elif plant == "pipe":
        os.mkfifo(file)
    elif plant == "huge":
        with file.open("wb") as sparse:
            sparse.truncate(1 << 40)
    elif plant == "deep":
        file.write_text('{"mcpServers": ' + "[" * 200_000)
    else:
        file.write_text(json.dumps({"mcpServers": {f"s{number}": {"command": "x"} for number in range(5000)}}))
    found, problems = servers_of_clients(desk.project, ["claude"], desk.environment)
    assert len(found) == (200 if plant == "many" else 0)
    assert len(problems) == (0 if plant in ("many", "pipe") else 1)
