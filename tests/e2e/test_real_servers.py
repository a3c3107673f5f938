"""Servers from npm, an HTTP API and servers that misbehave, all at once: every command from a shell, timed, and
pictures through Claude Code and opencode.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.model_server import Asked, ModelServer, Reply, Text, ToolUse
from tests.e2e.programs import Programs, installed
from tests.e2e.serving import GO_ENT, Project
from tests.e2e.test_real_clients import CONNECTING, claude, opencode
from tests.sandbox.test_media import PNG

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
SERVERS = Path(__file__).with_name("servers.json")
# Servers that misbehave, as lines of Python: what each says to a line that it hears.
SPEAK = """
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def tool(name, schema=None): return {"name": name, "inputSchema": schema or {"type": "object"}}
for line in sys.stdin:
    heard = json.loads(line)
    method, number = heard.get("method"), heard.get("id")
    if method == "initialize":
        told = {"tools": {"listChanged": True}}
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": told,
                               "serverInfo": {"name": "bad", "version": "1"}})
    elif method == "tools/list": TOOLS
    elif method == "tools/call": CALL
    elif number is not None: say(id=number, error={"code": -32601, "message": "no such method"})
"""
ANSWERS = 'say(id=number, result={"content": [{"type": "text", "text": "fine"}]})'
SILENT = "import time\nprint('starting', file=__import__('sys').stderr, flush=True)\ntime.sleep(3000)"
MANY = SPEAK.replace("TOOLS", 'say(id=number, result={"tools": [tool(f"t{n}") for n in range(5000)]})')
WRONG = SPEAK.replace(
    "TOOLS",
    'say(id=number, result={"tools": [tool("good"), {"name": "bad", "inputSchema": 5}, '
    'tool("odd", {"type": "object", "properties": {"x": {"type": "strng"}}})]})',
)
CHANGING = SPEAK.replace("TOOLS", 'say(id=number, result={"tools": [tool(n) for n in names]})').replace(
    "CALL", ANSWERS + '; names.append("later"); say(method="notifications/tools/list_changed")'
)


class Api(BaseHTTPRequestHandler):
    """A picture that can be fetched and replaced."""

    def _answer(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/logo":
            self._answer("image/png", PNG)
        else:
            self._answer("application/json", b'[{"id": 1, "name": "rex"}]')

    def do_PUT(self) -> None:
        given = self.rfile.read(int(self.headers["content-length"]))
        self._answer("application/json", json.dumps({"same": given == PNG}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def document(address: str) -> str:
    picture = {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}}
    ok = {"200": {"description": "ok"}}
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
    paths = {
        "/pets": {"get": {"operationId": "listPets", "parameters": [limit], "responses": ok}},
        "/logo": {
            "get": {"operationId": "logo", "responses": {"200": {"description": "a picture", **picture}}},
            "put": {"operationId": "setLogo", "requestBody": picture, "responses": ok},
        },
    }
    made = {
        "openapi": "3.0.0",
        "info": {"title": "pets", "version": "1"},
        "servers": [{"url": address}],
        "paths": paths,
    }
    return json.dumps(made)


@dataclass
class Shell:
    """Commands in a project, each with how long it took."""

    project: Project
    took: list[tuple[float, str]] = field(default_factory=list)

    def __call__(self, *arguments: str, code: int = 0, within_s: float = 60.0) -> str:
        started = time.monotonic()
        done = subprocess.run(
            [*GO_ENT, *arguments],
            cwd=self.project.folder,
            env=self.project.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        seconds = time.monotonic() - started
        self.took.append((seconds, " ".join(arguments)[:70].replace("\n", " ")))
        assert done.returncode == code, done.stdout + done.stderr
        assert seconds < within_s, (arguments, seconds)
        return done.stdout + done.stderr


@pytest.fixture
def shell(tmp_path: Path, api: str) -> Iterator[Shell]:
    """A project with all four of them, granted."""
    bins = installed(SERVERS) / "node_modules" / ".bin"
    project = Project.make(tmp_path)
    (project.folder / "api.json").write_text(document(api))
    (project.folder / "files").mkdir()
    (project.folder / "files" / "p.png").write_bytes(PNG)
    run = Shell(project)
    run("server", "add", "every", "--", str(bins / "mcp-server-everything"))
    run("server", "add", "fs", "--", str(bins / "mcp-server-filesystem"), str(project.folder / "files"))
    run("server", "add", "mem", "--", str(bins / "mcp-server-memory"))
    run("server", "add", "pets", "api.json")
    run("grant", "every.*", "fs.*", "mem.*", "pets.*")
    yield run
    print("\n".join(f"{seconds:6.2f} s  {words}" for seconds, words in run.took))


def test_every_command(shell: Shell) -> None:
    listed = shell("server", "list")
    assert all(name in listed for name in ("every", "fs", "mem", "pets")), listed
    assert "fs.read_text_file" in shell("server", "tools", "fs", "read")
    assert "every.get_tiny_image" in shell("tool", "search", "image")
    assert "pets.setLogo" in shell("tool", "show", "pets.setLogo")
    assert '"name":"rex"' in shell("tool", "call", "pets.listPets", "limit=1")
    assert "Echo: hi" in shell("tool", "call", "every.echo", "message=hi")
    assert "rex" in shell("exec", "-c", "(await tools.pets.listPets(limit=1))[0]['name']")
    for words in (
        ("tool", "call", "every.get_tiny_image"),
        ("tool", "call", "pets.logo"),
        ("tool", "call", "fs.read_media_file", f"path={shell.project.folder / 'files' / 'p.png'}"),
        ("exec", "-c", "open('logo.png', 'wb').write(await tools.pets.logo())"),
    ):
        said = shell(*words)
        assert "image/png" in said
        assert "iVBORw0K" not in said  # no base64 where people read
    handed_on = "await tools.pets.setLogo(body=await tools.pets.logo())"
    assert '"same":true' in shell("exec", "--yes", "-c", handed_on)
    name = uuid.uuid4().hex  # the server keeps what it is told beside its program
    made = f"await tools.mem.create_entities(entities=[{{'name': {name!r}, 'entityType': 'y', 'observations': []}}])"
    assert name in shell("exec", "--yes", "-c", made)
    assert "deleted" in shell("exec", "--yes", "-c", f"await tools.mem.delete_entities(entityNames=[{name!r}])")
    shell("exec", "-c", "rows = await tools.pets.listPets(limit=1)\n[row['name'] for row in rows]")
    assert "1 example passed" in shell("tool", "save", "last", "--name", "pet_names", "--param", "limit=1")
    assert "rex" in shell("tool", "call", "pet_names", "limit=5")
    shell("tool", "test", "pet_names")
    shell("server", "refresh")
    shell("revoke", "mem.*")
    assert "not granted" in shell("tool", "call", "mem.read_graph", code=12)
    shell("server", "remove", "mem")
    assert "mem " not in shell("server", "list")


@dataclass
class Bad:
    """A server that misbehaves: what it is, and what is told of it."""

    name: str
    code: str
    told: str


@pytest.mark.parametrize(
    "bad",
    [
        Bad("silent", SILENT, "silent"),
        Bad("many", MANY.replace("CALL", ANSWERS), "only the first"),
        Bad("wrong", WRONG.replace("CALL", ANSWERS), "'bad' is not offered"),
        Bad("changing", f"names = ['first']\n{CHANGING}", "changing: 1 tool"),
    ],
    ids=lambda bad: bad.name,
)
def test_one_that_misbehaves_costs_no_other(shell: Shell, bad: Bad) -> None:
    config = shell.project.folder / ".go-ent" / "config.toml"
    server = shell.project.folder / "bad.py"
    server.write_text(bad.code)
    added = [*GO_ENT, "server", "add", bad.name, "--", sys.executable, str(server)]
    done = subprocess.run(
        added,
        cwd=shell.project.folder,
        env=shell.project.environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert bad.told in done.stdout + done.stderr
    assert bad.name in config.read_text()
    shell("grant", f"{bad.name}.*")
    assert "every.echo" in shell("tool", "search", "echo")
    assert "Echo: hi" in shell("tool", "call", "every.echo", "message=hi")
    assert "rex" in shell("exec", "-c", "(await tools.pets.listPets())[0]['name']")
    if bad.name == "changing":
        code = "import asyncio\nawait tools.changing.first()\nawait asyncio.sleep(0.5)\nawait tools.changing.later()"
        assert "fine" in shell("exec", "-c", code)


PICTURE = "await tools.every.get_tiny_image()"


@dataclass
class Looking:
    """A model that waits for our server, runs code that gives a picture, and looks at what comes back."""

    prefix: str
    wait: ToolUse
    seen: Any = None
    turns: int = 0

    def __call__(self, asked: Asked) -> Reply:
        self.turns += 1
        name = f"{self.prefix}code_execute"
        if self.seen == "":
            self.seen = json.dumps(asked.messages)
            return Text("SEEN")
        offered = name in asked.tools or name in asked.system or any(name in said for said in asked.said)
        if not offered:
            assert self.turns < CONNECTING, "the tool was never offered"
            return self.wait
        self.seen = ""
        return ToolUse(name, {"code": PICTURE})


@pytest.mark.parametrize("client", ["claude", "opencode"])
def test_a_picture_reaches_the_model_as_one(shell: Shell, programs: Programs, client: str) -> None:
    project = shell.project
    with ModelServer() as model:
        if client == "claude":
            path = project.folder / "mcp.json"
            path.write_text(
                json.dumps({"mcpServers": {"go-ent": {"command": GO_ENT[0], "args": [*GO_ENT[1:], "serve"]}}})
            )
            looking = Looking("mcp__go-ent__", ToolUse("Bash", {"command": "sleep 0.3", "description": "wait"}))
            model.play(looking)
            options = ("--mcp-config", str(path), "--strict-mcp-config", "--allowedTools", "mcp__go-ent,Bash")
            said = claude(programs, project, model, "-p", "look", "--output-format", "json", *options)
        else:
            command = {"type": "local", "command": [*GO_ENT, "serve"], "enabled": True}
            config = project.home / ".config" / "opencode" / "opencode.json"
            config.parent.mkdir(parents=True)
            config.write_text(json.dumps({"mcp": {"go-ent": command}}))
            looking = Looking("go-ent_", ToolUse("bash", {"command": "sleep 0.3", "description": "wait"}))
            model.play(looking)
            said = opencode(programs, project, model, "run", "--format", "json", prompt="look")
    assert "SEEN" in said, said
    seen = looking.seen or ""
    assert "result.png" in seen
    assert base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()[:10] in seen  # the picture itself, beside the text
