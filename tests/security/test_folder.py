"""A folder that nobody has trusted: nothing in it but go-ent's own data is opened, imported, executed or obeyed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.security.corpus import attack
from tests.security.trapped import STATE, Driver, Install, Watcher, built, environment, set_traps, stand_ins

PATIENCE_S = 60
STAYS = (["serve"], ["console"])  # commands that end only when they are told to; they have tests of their own
# What a command legitimately opens in a folder that nobody has trusted, and why.
OPENS = {
    "trust": ({".mcp.json"}, "a person who is asked sees the servers of the files that mcp_json names"),
    "config check": (
        {".mcp.json", "openapi.json"},
        "the user asked what is wrong with the files that the settings name",
    ),
    "config show": ({".mcp.json"}, "the user asked what the settings name, and hears that it is not in force"),
    "config get": ({".mcp.json"}, "as config show"),
    "install": ({".mcp.json"}, "the user asked for an entry in the file of a client in this folder"),
    "uninstall": ({".mcp.json"}, "the user asked for that entry to be removed"),
    "server import": ({".mcp.json", "opencode.json"}, "the user asked for the servers of clients; none is started"),
}
# Arguments that lead further than none do. A command that is not here is run without any, then with ones that mean
# nothing.
ARGUMENTS = {
    "exec": ["-c", "print(1)"],
    "run": ["Do it.", "--quiet"],
    "loop": ["Do it.", "--check", "true", "--max-iterations", "1"],
    "install": ["claude", "--dry-run"],
    "uninstall": ["claude", "--dry-run"],
    "init": ["--quiet"],
    "completion show": ["bash"],
    "tool show": ["double"],
    "tool run": ["double", "--input", '{"n": 2}'],
    "tool call": ["double", "n=2"],
    "tool save": ["--name", "saved"],
    "server add": ["added", "--", "./program"],
    "server tools": ["evil"],
    "server login": ["evil"],
    "server logout": ["evil"],
    "server remove": ["added"],
    "grant": ["evil.*"],
    "revoke": ["evil.*"],
    "tool history": ["double"],
    "tool rollback": ["double", "1"],
    "tool learn": ["double"],
    "tool search": ["double"],
    "tool add": ["rank_groups"],
    "tool rm": ["rank_groups"],
    "workflow start": ["--plan", "{workflow}"],
    "plan check": ["{workflow}"],
    "plan graph": ["{workflow}"],
}
WORKS = (
    "exec",
    "tool run",
    "tool list",
    "init",
    "config show",
    "doctor",
    "workflow start",
    "image list",
    "ps",
    "status",
)
LAST = ("tool rm",)
OF_EXECUTIONS = (
    "tool save",
    "status",
    "interrupt",
    "resume",
    "logs",
    "approve",
    "reject",
    "checkpoint",
    "context",
    "summarize",
)
SANDBOX = "from go_ent.sandbox import Sandbox\nwith Sandbox() as box: said = box.run_sync('2 + 2').result"
COMPOSER = """
import asyncio
from go_ent.composer import Composer
async def main():
    async with Composer.open(".") as composer:
        run = await composer.code.execute("await tools.double(n=2)")
        await composer.catalogue.load()
        return [run.result, composer.trusted, composer.box.limits.memory_mb, list(composer.box.image.packages)]
said = asyncio.run(main())
"""
ENGINE = """
import asyncio
from go_ent.engine import Engine
async def main():
    async with Engine.open(".") as engine:
        return sorted(await engine.runtimes())
said = asyncio.run(main())
"""
WORKFLOW = '[[step]]\nid = "one"\ntool = "double"\ninputs = { n = 2 }\n'


@dataclass
class Place:
    """The folder, an install of go-ent, and what is known of what happened there."""

    folder: Path
    install: Install
    env: dict[str, str]
    owned: Path
    started: Path
    watcher: Watcher

    def wrong(self, allowed: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
        """What has happened since the last time that must not."""
        wrong = [f"{path} was opened" for path in self.watcher.opened() - allowed]
        for event in self.install.events():
            if event["event"] == "child":
                wrong += self._wrong_child(**{name: event[name] for name in ("program", "argv", "cwd", "env")})
            elif os.path.relpath(os.path.join(self.folder, event["path"]), self.folder) not in allowed:
                wrong.append(f"{event['event']}: {event['path']}")
        if self.owned.exists():
            wrong += [f"{line} ran" for line in self.owned.read_text().splitlines()]
            self.owned.unlink()
        return wrong

    def _wrong_child(self, program: str, argv: list[str], cwd: str | None, env: dict[str, str] | None) -> Iterator[str]:
        if not os.path.isabs(program):
            yield f"{program} was looked up by the system"
        if cwd is None or Path(cwd).is_relative_to(self.folder):
            yield f"{argv} was started in {cwd or 'the current folder'}"
        if env is None:
            yield f"{argv} was started with the whole environment"
        elif any(name.startswith("PYTHON") for name in env) and os.path.basename(program) != "editor":  # the user's
            yield f"{argv} was started with {env}"
        elif not all(map(os.path.isabs, env.get("PATH", "/").split(os.pathsep))):
            yield f"{argv} was started with PATH={env['PATH']}"
        if "python" in os.path.basename(program) and "-I" not in argv[1:2]:
            yield f"{argv} is not isolated"
        if "pip" in argv:
            yield f"{argv} is pip"


@pytest.fixture(scope="module", params=["editable", pytest.param("wheel", marks=pytest.mark.more)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base = tmp_path_factory.mktemp(request.param).resolve()
    folder, owned, started = base / "folder", base / "owned", base / "started"
    folder.mkdir()
    set_traps(folder, owned)
    (base / "home").mkdir()
    wheel, source = built(request.param, base)
    install = Install(base / "env", wheel, folder, source)
    env = environment(base, stand_ins(base / "programs", started))
    watcher = Watcher(folder)
    yield Place(folder, install, env, owned, started, watcher)
    watcher.close()


@pytest.fixture
def driver(place: Place) -> Iterator[Driver]:
    driver = Driver(place.install, place.folder, place.env)
    yield driver
    driver.close()


def arguments_of(command: str, driver: Driver, workflow: Path) -> list[list[str]]:
    if command in OF_EXECUTIONS:
        _, out, _ = driver.ask("run", ["ps", "--json"])
        return [[json.loads(out)[0]["id"], *ARGUMENTS.get(command, [])]]
    if command in ARGUMENTS:
        return [[argument.replace("{workflow}", str(workflow)) for argument in ARGUMENTS[command]]]
    return [[], ["something"], ["something", "1"]]


@pytest.mark.more
@attack("folder", "every command, in a folder full of traps")
def test_no_command_opens_runs_or_obeys_what_is_in_the_folder(place: Place, driver: Driver, tmp_path: Path) -> None:
    workflow = tmp_path / "workflow.toml"
    workflow.write_text(WORKFLOW)
    commands = [" ".join(path) for path in driver.ask("tree") if path not in STAYS]
    assert len(commands) > 40
    wrong: dict[str, list[str]] = {"starting": place.wrong()}
    codes: dict[str, int] = {}
    for command in sorted(commands, key=lambda name: (name in LAST, name != "exec", name in OF_EXECUTIONS)):
        allowed, _ = OPENS.get(command, (set(), ""))
        for arguments in arguments_of(command, driver, workflow):
            codes[command], _, err = driver.ask("run", [*command.split(), *arguments])
            wrong.setdefault(command, []).extend(place.wrong(allowed))
            if "--help" not in err:
                break
        assert "--help" not in err, f"{command} needs arguments here: {err}"
    opened = [f"{command}: {told}" for command, lines in wrong.items() for told in lines]
    assert not opened, "\n".join(opened)
    assert {name: codes[name] for name in WORKS if codes[name]} == {}, codes
    for line in place.started.read_text().splitlines():  # the user's own agents, asked for their versions
        name, where, path = line.split(" ", 2)
        assert (name in ("claude", "opencode"), where) == (True, "/")
        assert all(map(os.path.isabs, path.split(os.pathsep))), path


@pytest.mark.long
@attack("folder", "every command, in a process of its own, below a folder full of traps")
def test_nor_does_a_command_that_is_started_in_a_folder_below(place: Place, driver: Driver, tmp_path: Path) -> None:
    workflow = tmp_path / "workflow.toml"
    workflow.write_text(WORKFLOW.replace("one", "another"))
    assert driver.ask("run", ["exec", "-c", "1"])[0] == 0
    wrong: list[str] = []
    for path in driver.ask("tree"):
        if path == ["console"]:  # it would stay: see `test_a_console`
            continue
        command = " ".join(path)
        allowed, _ = OPENS.get(command, (set(), ""))
        arguments = arguments_of(command, driver, workflow)[0] if command != "serve" else []
        place.wrong()
        argv = [str(place.install.bin / "go-ent"), *path, *arguments]
        where = place.folder if command == "init" else place.folder / "src"  # which it would make a project of
        subprocess.run(argv, cwd=where, env=place.env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        wrong += [f"{command}: {told}" for told in place.wrong(allowed)]
    assert wrong == []


@attack("folder", "a library that is opened in it")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(SANDBOX, 4, marks=pytest.mark.more),  # the other two have one
        (COMPOSER, [4, False, 128, []]),
        pytest.param(ENGINE, ["claude-code", "cli", "open-code"], marks=pytest.mark.more),
    ],
)
def test_a_program_that_opens_the_library_there(place: Place, driver: Driver, code: str, said: Any) -> None:
    assert driver.ask("library", code) == said
    assert place.wrong() == []


REQUESTS = (
    {
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    },
    {"method": "tools/list", "params": {}},
    {"method": "tools/call", "params": {"name": "code_execute", "arguments": {"code": "await tools.double(n=2)"}}},
    {"method": "resources/list", "params": {}},
)


@attack("folder", "a server over stdin and stdout that is started in it")
def test_a_server_over_stdio(place: Place) -> None:
    pipe = subprocess.PIPE
    command = [str(place.install.bin / "go-ent"), "serve"]
    with subprocess.Popen(command, cwd=place.folder, env=place.env, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        answers = []
        for number, request in enumerate(REQUESTS):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, **request}).encode() + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            while answer.get("id") != number:
                answer = json.loads(server.stdout.readline())
            answers.append(answer)
            if not number:
                server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        server.stdin.close()
        said = server.stderr.read().decode()
        assert server.wait(PATIENCE_S) == 0
    assert place.wrong() == []
    assert answers[2]["result"]["structuredContent"]["result"] == 4, answers[2]
    assert "await tools.double" not in said, "code was logged"
    assert "go-ent trust" in said


@pytest.mark.more
@attack("folder", "a server over HTTP that is started in it")
def test_a_server_over_http(place: Place) -> None:
    import http.client

    command = [str(place.install.bin / "go-ent"), "serve", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        command, cwd=place.folder, env=place.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        line = next(line for line in server.stderr if line.startswith("listening on "))
        host, _, port = line.split("//")[1].split("/")[0].partition(":")
        for method, path, body in (
            ("GET", "/healthz", None),
            ("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 0, **REQUESTS[0]})),
        ):
            with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)) as connection:
                accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
                connection.request(method, path, body, accept if body else {})
                assert connection.getresponse().status == 200
        server.send_signal(signal.SIGTERM)
        server.stderr.read()
        assert server.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert place.wrong() == []


@pytest.mark.more
@attack("folder", "a console that is started in it")
def test_a_console(place: Place) -> None:
    import http.client

    command = [str(place.install.bin / "go-ent"), "console", "--no-open"]
    with subprocess.Popen(
        command, cwd=place.folder, env=place.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        line = next(line for line in server.stderr if "http://" in line)
        host, _, path = line.split("http://")[1].strip().partition("/")
        cookie = {"host": host}
        for page in (path, "console/runs", "console/plans", "console/tools", "console/health"):
            with contextlib.closing(http.client.HTTPConnection(host, timeout=PATIENCE_S)) as connection:
                connection.request("GET", f"/{page}", headers=cookie)
                answer = connection.getresponse()
                assert answer.status == (303 if page == path else 200), page
                if page == path:
                    cookie["cookie"] = str(answer.getheader("set-cookie")).partition(";")[0]
        server.send_signal(signal.SIGTERM)
        server.stderr.read()
        server.wait(PATIENCE_S)
    assert place.wrong() == []


@attack("folder", "a relative name on sys.path, by an editable install or a wheel")
def test_an_install_has_no_relative_path(place: Place) -> None:
    code = "import json, sys; print(json.dumps(sys.path))"
    for flag in ("-I", "-P"):
        command = [str(place.install.bin / "python"), flag, "-c", code]
        done = subprocess.run(command, cwd=place.folder, env=place.env, capture_output=True, text=True, check=True)
        path = json.loads(done.stdout)
        assert all(os.path.isabs(entry) and not Path(entry).is_relative_to(place.folder) for entry in path), path
    assert place.wrong() == []


@attack("folder", "the command itself, started in it")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["exec", "-c", "1"]])
def test_the_command_as_it_is_installed(place: Place, arguments: list[str]) -> None:
    command = [str(place.install.bin / "go-ent"), *arguments]
    done = subprocess.run(
        command, cwd=place.folder, env=place.env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert place.wrong() == []


def test_the_traps_would_be_seen(place: Place) -> None:
    """What the tests above look with does see: a read, an import, a program, a child's import."""
    python = str(place.install.bin / "python")
    trapped = f"import sys; sys.path.insert(0, {str(place.folder)!r}); import pip"
    for command, seen in (
        (["/bin/cat", ".env"], ".env was opened"),
        ([python, "-I", "-c", trapped], "pip.py was opened"),
        ([python, "-I", "-c", trapped], f"{place.folder}/pip.py ran"),
        ([str(place.folder / "bin" / "claude")], "bin/claude was opened"),
        ([python, "-I", "-c", "import subprocess; subprocess.run(['true'])"], "true was looked up by the system"),
        ([python, "-I", "-c", "import os; os.listdir('.')"], "os.listdir: ."),
    ):
        subprocess.run(command, cwd=place.folder, env={"PATH": "/usr/bin:/bin"}, check=False, capture_output=True)
        assert seen in place.wrong()
    assert (place.folder / STATE).is_dir()
