"""Servers from npm, an HTTP API and servers that misbehave, all at once: every command from a shell, timed, and
pictures through Claude Code and opencode.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.e2e.bad_servers import BAD, Bad
from tests.e2e.model_server import Asked, ModelServer, Reply, Text, ToolUse
from tests.e2e.programs import Programs, installed
from tests.e2e.serving import GO_ENT, Project
from tests.e2e.test_real_clients import CONNECTING, claude, opencode
from tests.sandbox.test_media import PNG
from tests.support.oauth_server import browse, oauth_server

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
SERVERS = Path(__file__).with_name("servers.json")


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
    """Commands in a project, each with how long it took, and the most memory that one process of it had."""

    project: Project
    took: list[tuple[float, int, str]] = field(default_factory=list)
    most_mb: int = 0  # of any command so far

    def __call__(self, *arguments: str, code: int | None = 0, within_s: float = 60.0) -> str:
        started = time.monotonic()
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(
                [*GO_ENT, *arguments],
                cwd=self.project.folder,
                env=self.project.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            hung = threading.Timer(120, process.kill)
            hung.start()
            _, ended, used = os.wait4(process.pid, 0)  # which tells what it took; `Popen.wait` does not
            hung.cancel()
            process.returncode = os.waitstatus_to_exitcode(ended)
            out.seek(0)
            said = out.read().decode()
        seconds, mb = time.monotonic() - started, used.ru_maxrss >> 10
        self.most_mb = max(self.most_mb, mb)
        self.took.append((seconds, mb, " ".join(arguments)[:70].replace("\n", " ")))
        assert code is None or process.returncode == code, said
        assert seconds < within_s, (arguments, seconds)
        return said


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
    print("\n".join(f"{seconds:6.2f} s {mb:4} MB  {words}" for seconds, mb, words in run.took))


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


# Of any process of a command, whatever a server does. What the test itself has when it starts one is counted too, up
# to 150 MB.
MOST_MB = 300


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_one_that_misbehaves_costs_no_other(shell: Shell, bad: Bad) -> None:
    server = shell.project.folder / "bad.py"
    server.write_text(bad.code)
    added = shell("server", "add", bad.name, "--", sys.executable, str(server), code=None)
    assert bad.told in added
    assert bad.name in (shell.project.folder / ".go-ent" / "config.toml").read_text()
    shell("grant", f"{bad.name}.*")
    assert "every.echo" in shell("tool", "search", "echo")
    assert "Echo: hi" in shell("tool", "call", "every.echo", "message=hi")
    assert "rex" in shell("exec", "-c", "(await tools.pets.listPets())[0]['name']")
    if bad.name == "changing":
        code = "import asyncio\nawait tools.changing.first()\nawait asyncio.sleep(0.5)\nawait tools.changing.later()"
        assert "fine" in shell("exec", "-c", code)
    assert shell.most_mb < MOST_MB, shell.took


def log_in(shell: Shell, name: str) -> None:
    """As a person does: by the address that the command prints."""
    with subprocess.Popen(
        [*GO_ENT, "server", "login", name, "--no-browser"],
        cwd=shell.project.folder,
        env=shell.project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as login:
        assert login.stderr is not None
        address = next(word for line in login.stderr for word in line.split() if word.startswith("http://127."))
        browse(address)
        login.stderr.read()
        assert login.wait(60) == 0


def test_an_expired_login_costs_no_other_and_says_what_to_do(shell: Shell) -> None:
    with oauth_server() as server:
        shell("server", "add", "guarded", server.url, "--auth", "oauth", "--grant", "*", code=None)
        log_in(shell, "guarded")
        server.valid.clear()
        assert "you sent [secret]" in shell("tool", "call", "guarded.whoami")  # it is refreshed by itself
        server.valid.clear()
        server.refresh_tokens.clear()
        said = shell("tool", "call", "guarded.whoami", code=1)
        assert "its login has expired; go-ent server login guarded logs in" in said
        assert "-of-test" not in said
        caught = "try:\n    await tools.guarded.whoami()\nexcept Exception as e:\n    print(e)\n"
        said = shell("exec", "-c", f"{caught}(await tools.pets.listPets())[0]['name']")
        assert ("its login has expired" in said, "rex" in said) == (True, True)
        assert "every.echo" in shell("tool", "search", "echo")
        assert "Echo: hi" in shell("tool", "call", "every.echo", "message=hi")
        assert "expired" in shell("server", "refresh", "guarded", code=12)
        log_in(shell, "guarded")
        assert "you sent [secret]" in shell("tool", "call", "guarded.whoami")
    assert shell.most_mb < MOST_MB, shell.took


async def test_a_server_beside_all_of_them_keeps_its_size(shell: Shell) -> None:
    """`go-ent serve` with every bad server at once, for many calls: what it takes is bounded, and does not grow."""
    folder = shell.project.folder
    for bad in BAD:
        path = folder / f"{bad.name}.py"
        path.write_text(bad.code)
        shell("server", "add", bad.name, "--no-ask", "--grant", "*", "--", sys.executable, str(path))
    transport = StdioTransport(GO_ENT[0], [*GO_ENT[1:], "serve"], env=shell.project.environment, cwd=str(folder))
    calls = [
        ("tool_search", {"words": "echo"}),
        ("code_execute", {"code": "await tools.changing.first()\nawait tools.every.echo(message='hi')"}),
        ("code_execute", {"code": "len(await tools.search('t', namespace='many', limit=50))"}),
    ]
    async with Client(transport, timeout=60) as client:

        async def play(times: int) -> int:
            for _ in range(times):
                for name, arguments in calls:
                    done = await client.call_tool(name, arguments)
                    assert not done.is_error
            (served,) = (one for one in psutil.Process().children() if "serve" in one.cmdline())
            return int(served.memory_info().rss) >> 20

        first = await play(5)
        later = await play(20)
    print(f"go-ent serve beside all bad servers: {first} MB, after 20 rounds more {later} MB")
    assert first < MOST_MB
    assert later < first + 30


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
