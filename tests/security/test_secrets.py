"""Secrets: they reach the program that is named beside them, and nothing else, however much that program talks.

One project has a server and a command that say their keys wherever they can. Everything that can be said about it is
said once, and then looked through.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from fastmcp import Client

from go_ent.composer import CallError, Composer, ConfigError, Unavailable
from go_ent.composer.catalogue.spec import CallContext
from go_ent.composer.config import read_config
from go_ent.composer.project.layers import without_secrets
from go_ent.composer.sources.mcp import McpSource
from go_ent.composer.sources.server_config import ServerConfig, servers_from_mcp_json
from go_ent.engine import Engine, parse_plan
from go_ent.engine.core.config import ClientConfig, CommandConfig, RunnerConfig
from go_ent.engine.core.models import RunRequest, RunResult
from go_ent.engine.runners.base.runner import Progress
from go_ent.engine.runners.claude.headless import Asked, flags
from go_ent.engine.runners.claude.runner import ClaudeRunner
from go_ent.engine.runners.cli.commands import run_command
from go_ent.engine.server import make_server
from go_ent.engine.server.http.metrics import Metrics
from go_ent.engine.server.http.tokens import read_tokens
from go_ent.engine.settings.show import masked_arguments, settings_in_force
from go_ent.sandbox import Limits, Sandbox
from tests.security.corpus import attack
from tests.support import ROOT
from tests.support.scripted import Scripted, engine_of
from tests.support.shell import go_ent

KEY = 'hush/4711 "of\\the" server é'
TOKEN = "a-token-of-a-client-0123456789"
COMMAND_KEY = "hush-4712-of-the-command"
HIDDEN = "[secret]"
SERVER = r"""
import base64, json, os, sys, urllib.parse
KEY = os.environ["KEY"]
def out(message): sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
def tool(name, **more): return {"name": name, "inputSchema": {"type": "object"}, **more}
NAMES = ("text", "data", "quoted", "json_text", "error", "refuses", "dies", "notes", "lines", "encoded", "read_environ")
TOOLS = [tool(name) for name in NAMES]
TOOLS.append(tool("described", description="Its key is " + KEY,
    inputSchema={"type": "object", "properties": {"k": {"type": "string", "default": KEY, "description": KEY}}},
    outputSchema={"type": "object", "title": KEY}))
def text(words, **more): return {"content": [{"type": "text", "text": words}], **more}
def answer(name):
    if name == "text": return text("it is " + KEY + "!")
    if name == "data": return text("", structuredContent={KEY: [KEY, {"a": KEY}], "n": 1})
    if name == "quoted": return text("https://x/?k=" + urllib.parse.quote(KEY, safe=""))
    if name == "json_text": return text(json.dumps({"k": KEY}))
    if name == "error": return text("no: " + KEY, isError=True)
    if name == "dies": sys.stderr.write("my key was " + KEY); sys.stderr.flush(); os._exit(3)
    if name == "encoded": return text(base64.b64encode(KEY.encode()).decode())
    if name == "read_environ": return text(json.dumps(sorted(os.environ)))
    if name == "notes":
        out({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": KEY}})
        out({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1, "message": KEY}})
        return text("noted")
    return text("\n".join(KEY))
for line in sys.stdin:
    m = json.loads(line)
    method, result, error = m.get("method"), None, None
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    elif method == "tools/list": result = {"tools": TOOLS}
    elif method == "tools/call" and m["params"]["name"] == "refuses": error = {"code": -32000, "message": "refused: " + KEY}
    elif method == "tools/call": result = answer(m["params"]["name"])
    else: continue
    out({"jsonrpc": "2.0", "id": m["id"], **({"error": error} if error else {"result": result})})
"""  # noqa: E501
CONFIG = """
[grants]
allow = ["leaky.*"]
[servers.leaky]
command = "{python}"
args = ["-S", "-E", "{script}"]
env = {{ KEY = "${{env:LEAKY_KEY}}" }}
[commands.leaks]
argv = ["{python}", "-I", "-S", "-c", "import os; print(os.environ['COMMAND_KEY'])"]
env = ["COMMAND_KEY"]
[serve.clients.ci]
token_env = "CI_TOKEN"
"""
CODE = """
told = []
for name in ("text", "data", "quoted", "json_text", "error", "refuses", "notes"):
    try:
        told.append(await tools.leaky[name]())
    except Exception as error:
        told.append(str(error))
told
"""


@dataclass
class Scene:
    """The project after everything was said about it."""

    project: Path
    user: Path
    told: dict[str, bytes] = field(default_factory=dict)
    heard: list[Any] = field(default_factory=list)

    def kept(self, *folders: str) -> bytes:
        """All that was written, in the project's state or in one of its folders; SQLite keeps text as it is."""
        found = [
            path
            for name in folders or (".",)
            for path in (self.project / ".go-ent" / name).rglob("*")
            if path.is_file()
        ]
        assert found
        return b"\n".join(path.read_bytes() for path in found if path.name != "config.toml")


def leaks(data: bytes | str) -> bool:
    """Whether one of the secrets is in there, in a usual spelling."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    forms = [
        form
        for key in (KEY, COMMAND_KEY, TOKEN)
        for form in (key, json.dumps(key)[1:-1], repr(key)[1:-1], quote(key, safe=""))
    ]
    return any(form in text for form in [*forms, json.dumps(KEY, ensure_ascii=False)[1:-1]])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("secrets")
    project = folder / "project"
    (project / ".go-ent").mkdir(parents=True)
    (folder / "server.py").write_text(SERVER)
    (project / ".go-ent" / "config.toml").write_text(CONFIG.format(python=sys.executable, script=folder / "server.py"))
    made = Scene(project, folder / "user")
    variables = {
        "LEAKY_KEY": KEY,
        "COMMAND_KEY": COMMAND_KEY,
        "CI_TOKEN": TOKEN,
        "GO_ENT_TRUST_PROJECT": "1",
        "GO_ENT_DATA": str(made.user),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        for words in (
            ("exec", "--json", "-c", CODE),
            ("exec", "-c", CODE.replace("told\n", "told, 1\n")),
            ("exec", "-c", "await tools.leaky.dies()"),
            ("exec", "--json", "--quiet", "-c", "import os\ndict(os.environ)"),
            ("tool", "search", "--detail", "full"),
            ("tool", "search", "--detail", "full", "--json"),
            ("tool", "suggest", "--json"),
            ("tool", "learn", "leaky.data", "--json"),
            ("config", "show", "--json"),
            ("config", "check"),
            ("run", "--plan", "plan.toml", "--json"),
            ("ps", "--json"),
        ):
            (project / "plan.toml").write_text('[[task]]\nid = "a"\ncommand = "leaks"\n')
            done = go_ent(*words, cwd=project)
            made.told[" ".join(words[:3])] = done.stdout + done.stderr
        ids = [row["id"] for row in json.loads(made.told["ps --json"])]
        for one in ids:
            for words in (("logs", one), ("logs", one, "--json"), ("status", one), ("status", one, "--json")):
                done = go_ent(*words, cwd=project)
                made.told[" ".join(words)] = done.stdout + done.stderr
        made.heard = json.loads(made.told["exec --json -c"].splitlines()[0]).get("result") or []
        yield made


class TestAServerThatTellsItsKey:
    def test_it_has_its_key_and_really_tells_it(self, scene: Scene) -> None:
        """So that the tests below can fail."""
        text, data, quoted, json_text, error, refusal, notes = scene.heard
        assert text == f"it is {HIDDEN}!"
        assert notes == "noted"
        assert HIDDEN in str([data, quoted, json_text, error, refusal])

    @attack("secrets", "a key in a server's answer")
    def test_a_guest_gets_its_answer_without_the_key(self, scene: Scene) -> None:
        assert scene.heard[0] == f"it is {HIDDEN}!"

    @attack("secrets", "a key in a server's data, as a name and as a value")
    def test_nor_as_data(self, scene: Scene) -> None:
        assert scene.heard[1] == {HIDDEN: [HIDDEN, {"a": HIDDEN}], "n": 1}

    @attack("secrets", "a key in an address, encoded for it")
    def test_nor_in_an_address(self, scene: Scene) -> None:
        assert scene.heard[2] == f"https://x/?k={HIDDEN}"

    @attack("secrets", "a key in text that becomes data")
    def test_nor_in_text_that_is_taken_for_data(self, scene: Scene) -> None:
        assert scene.heard[3] == {"k": HIDDEN}

    @attack("secrets", "a key in a server's errors")
    def test_nor_in_an_error(self, scene: Scene) -> None:
        assert scene.heard[4].endswith(f"no: {HIDDEN}")
        assert scene.heard[5].endswith(f"refused: {HIDDEN}")

    @attack("secrets", "a key in a server's last words")
    def test_nor_when_it_dies(self, scene: Scene) -> None:
        said = scene.told["exec -c await tools.leaky.dies()"].decode()
        assert f"it last wrote: my key was {HIDDEN}" in said
        assert not leaks(said)

    @attack("secrets", "a key in a tool's description and schemas")
    def test_nor_in_what_it_lists(self, scene: Scene) -> None:
        assert not leaks(scene.told["tool search --detail"])
        assert b"Its key is [secret]" in scene.told["tool search --detail"]

    @attack("secrets", "a key in a server's logs and progress")
    def test_nor_in_its_notes(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        config = read_config(scene.project).servers["leaky"]

        async def main() -> Any:
            source = McpSource("leaky", config)
            try:
                return await source.call("leaky.notes", {}, CallContext())
            finally:
                await source.close()

        with caplog.at_level("DEBUG"):
            assert asyncio.run(main()) == "noted"
        assert not leaks(caplog.text)

    def test_what_it_encodes_otherwise_is_not_noticed_as_the_guide_says(self, scene: Scene) -> None:
        guide = (ROOT / "docs" / "guides" / "security.md").read_text()
        assert "encodes" in guide.partition("## Secrets")[2]
        config = read_config(scene.project).servers["leaky"]

        async def main() -> list[Any]:
            source = McpSource("leaky", config)
            try:
                return [await source.call(f"leaky.{name}", {}, CallContext()) for name in ("encoded", "lines")]
            finally:
                await source.close()

        assert asyncio.run(main()) == [base64.b64encode(KEY.encode()).decode(), "\n".join(KEY)]

    @attack("secrets", "the environment of a server's process")
    def test_a_server_gets_its_own_variables_and_no_others(self, scene: Scene) -> None:
        config = read_config(scene.project).servers["leaky"]

        async def main() -> tuple[Any, list[str]]:
            source = McpSource("leaky", config)
            try:
                named = await source.call("leaky.read_environ", {}, CallContext())
                (child,) = [one for one in psutil.Process().children() if "server.py" in " ".join(one.cmdline())]
                return named, child.cmdline()
            finally:
                await source.close()

        named, arguments = asyncio.run(main())
        assert not {"LEAKY_KEY", "COMMAND_KEY", "CI_TOKEN", "GO_ENT_TRUST_PROJECT"} & set(named)
        assert "KEY" in named
        assert not leaks(" ".join(arguments)), "the list of processes is everybody's"


class TestWhatIsKept:
    @attack("secrets", "a key in the journal of an execution")
    def test_executions_hold_none(self, scene: Scene) -> None:
        kept = scene.kept("executions")
        assert HIDDEN.encode() in kept
        assert not leaks(kept)

    @attack("secrets", "a key in what is suggested from past runs")
    def test_no_suggestion_has_one(self, scene: Scene) -> None:
        assert not leaks(scene.told["tool suggest --json"])

    @attack("secrets", "a key in a learned schema, or anywhere in the state")
    def test_nothing_else_in_the_state_holds_one(self, scene: Scene) -> None:
        assert not leaks(scene.told["tool learn leaky.data"])
        assert not leaks(scene.kept())
        assert not any(leaks(path.read_bytes()) for path in scene.user.rglob("*") if path.is_file())

    @attack("secrets", "a key in what the command line says")
    def test_no_command_says_one(self, scene: Scene) -> None:
        assert {words for words, said in scene.told.items() if leaks(said)} == set()
        assert len(scene.told) > 20

    @attack("secrets", "the host's environment, in a guest's")
    def test_a_guest_has_no_environment(self, scene: Scene) -> None:
        said = json.loads(scene.told["exec --json --quiet"].splitlines()[0])
        assert (said["status"], said["result"]) == ("completed", {})

    @attack("secrets", "a key that a command prints as its answer")
    def test_a_commands_answer_is_scrubbed_too(self, scene: Scene) -> None:
        said = scene.told["run --plan plan.toml"]
        assert HIDDEN.encode() in said
        assert not leaks(said)


class TestCommands:
    def ask(self, tmp_path: Path, code: str, told: list[Progress], **fields: Any) -> RunResult:
        config = CommandConfig(argv=(sys.executable, "-I", "-S", "-c", code), env=("COMMAND_KEY",), **fields)
        request = RunRequest(execution_id="e", task_id="t", prompt="p", cwd=str(tmp_path), command="c")
        host = {"PATH": os.environ["PATH"], "COMMAND_KEY": COMMAND_KEY}
        return asyncio.run(run_command(config, request, told.append, host_env=host, stop=asyncio.Event()))

    @attack("secrets", "a key in a command's answer while it grows")
    def test_what_is_shown_while_it_runs_is_scrubbed(self, tmp_path: Path) -> None:
        told: list[Progress] = []
        result = self.ask(tmp_path, "import os; print('it is', os.environ['COMMAND_KEY'])", told)
        assert (result.status, result.output) == ("completed", f"it is {HIDDEN}")
        assert "".join(one.text for one in told) == f"it is {HIDDEN}\n"

    @attack("secrets", "a key in a command's data")
    def test_data_is_scrubbed_as_well(self, tmp_path: Path) -> None:
        code = "import json, os; k = os.environ['COMMAND_KEY']; print(json.dumps({'a': {k: [k]}}))"
        result = self.ask(tmp_path, code, [], format="json", path="a")
        assert (result.structured, result.output) == (
            {HIDDEN: [HIDDEN]},
            json.dumps({HIDDEN: [HIDDEN]}, separators=(",", ":")),
        )

    @attack("secrets", "a key on its way into the next prompt")
    def test_the_next_agent_is_not_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMMAND_KEY", COMMAND_KEY)
        agent = Scripted("claude-code")
        argv = [sys.executable, "-I", "-S", "-c", "import os; print(os.environ['COMMAND_KEY'])"]

        async def main() -> None:
            made = parse_plan(
                {
                    "task": [
                        {"id": "a", "command": "leaks"},
                        {"id": "b", "prompt": "What is ${a.output}?", "runtime": "claude-code"},
                    ]
                }
            )
            config = {"commands": {"leaks": {"argv": argv, "env": ["COMMAND_KEY"]}}}
            async with engine_of(tmp_path, agent, config=config) as engine:
                await engine.execute(made)

        asyncio.run(main())
        (request,) = agent.seen
        assert HIDDEN in request.prompt
        assert not leaks(request.prompt + request.system)

    @attack("secrets", "an agent's key on its command line")
    def test_keys_of_agents_are_in_no_argument(self, tmp_path: Path) -> None:
        host = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": COMMAND_KEY, "GO_ENT__SERVERS__X__ENV__KEY": KEY}
        runner = ClaudeRunner(RunnerConfig(set={"MY_TOKEN": TOKEN}), project=tmp_path, host_env=host)
        request = RunRequest(
            execution_id="e", task_id="t", prompt="p", cwd=str(tmp_path), access="edit", serve_tools=True
        )
        made = flags(
            Asked(request, ("claude",), (), runner._environment(request), runner._own, tmp_path, runner._scrub),
            tmp_path,
        )
        assert not leaks(" ".join(made))
        (file,) = [flag.partition("=")[2] for flag in made if flag.startswith("--mcp-config=")]
        assert not leaks(Path(file).read_text()), "nor does the server that it starts get those of others"
        assert os.stat(file).st_mode & 0o077 == 0


class TestSettings:
    @attack("secrets", "settings in the environment that hold keys")
    def test_who_gets_our_settings_gets_no_keys(self) -> None:
        given = {
            "GO_ENT__SERVERS__X__ENV__KEY": KEY,
            "GO_ENT__SERVERS__X__HEADERS": json.dumps({"A": KEY}),
            "GO_ENT__RUNNERS__CLAUDE_CODE__SET__K": KEY,
            "GO_ENT__BUDGET__DAY__USD": "5",
            "OTHER": KEY,
        }
        assert without_secrets(given) == {"GO_ENT__BUDGET__DAY__USD": "5"}

    @attack("secrets", "keys written into a configuration, shown")
    def test_what_is_written_there_is_shown_as_hidden(self, tmp_path: Path) -> None:
        (tmp_path / ".go-ent").mkdir()
        config = f"""
[servers.a]
command = "x"
args = ["--api-key", "{COMMAND_KEY}", "--token={COMMAND_KEY}", "https://u:{COMMAND_KEY}@h/p?k={COMMAND_KEY}", "-H", "X: {COMMAND_KEY}"]
env = {{ A = "{COMMAND_KEY}" }}
[runners.claude-code]
set = {{ K = "{COMMAND_KEY}" }}
"""  # noqa: E501
        (tmp_path / ".go-ent" / "config.toml").write_text(config)
        shown = settings_in_force(tmp_path)
        assert not leaks(str(shown))
        assert not leaks(repr(read_config(tmp_path)))
        assert not leaks(
            str(
                masked_arguments(
                    ["curl", "-u", f"me:{COMMAND_KEY}", "-b", f"s={COMMAND_KEY}", f"-HAuthorization: {COMMAND_KEY}"]
                )
            )
        )

    @attack("secrets", "keys quoted by what is wrong with a configuration")
    @pytest.mark.parametrize(
        "text",
        [
            f'[servers.a]\ncommand = "x"\nenv = {{ A = ["{COMMAND_KEY}"] }}\n',
            f'[servers.a]\nurl = "{COMMAND_KEY}"\n',
            f'[servers.a]\nurl = "https://x"\ntoken = "{COMMAND_KEY}"\n',
            f'[servers.a]\ncommand = "x"\nenv = {{ A = "{COMMAND_KEY}\n',
            f'[servers.a]\ncommand = "x"\nenv = {{ A = "${{env:{COMMAND_KEY}" }}\n',
            f'[servers.a]\ncommand = "x"\nheaders = {{ A = "{COMMAND_KEY}" }}\n',
        ],
    )
    def test_an_error_names_the_setting_and_not_its_value(self, tmp_path: Path, text: str) -> None:
        (tmp_path / ".go-ent").mkdir()
        (tmp_path / ".go-ent" / "config.toml").write_text(text)
        with pytest.raises(ConfigError) as caught:
            read_config(tmp_path)
        assert not leaks(str(caught.value))

    @attack("secrets", "keys quoted by what is wrong with a server of another program's file")
    def test_nor_does_what_is_told_of_a_server_that_can_not_be_used(self, tmp_path: Path) -> None:
        (tmp_path / ".go-ent").mkdir()
        (tmp_path / ".go-ent" / "config.toml").write_text('mcp_json = ["m.json"]\n')
        (tmp_path / "m.json").write_text(
            f'{{"mcpServers": {{"a": {{"command": 5, "env": {{"K": "{COMMAND_KEY}"}}}}}}}}'
        )
        unusable = read_config(tmp_path).unusable
        assert "mcpServers.a.command: it should be text" in unusable["a"]
        assert not leaks(str(unusable))

    @attack("secrets", "keys in a client's file that is broken")
    @pytest.mark.parametrize("end", ["", '"}}}}', "}"])
    def test_a_broken_file_of_a_client_is_not_quoted(self, tmp_path: Path, end: str) -> None:
        (tmp_path / "m.json").write_text(
            f'{{"mcpServers": {{"a": {{"command": ["x"], "env": {{"K": "{COMMAND_KEY}{end}'
        )
        with pytest.raises(ConfigError) as caught:
            servers_from_mcp_json(tmp_path / "m.json")
        assert not leaks(str(caught.value))

    @attack("secrets", "a token that will not do, quoted by the reason")
    @pytest.mark.parametrize(
        "token", ["hush-4713", "hush-4713 " * 10, "hush-4713" * 200, "hush-4713-é-0123456789012345"]
    )
    def test_why_a_token_will_not_do_is_said_without_it(self, tmp_path: Path, token: str) -> None:
        (tmp_path / "t").write_text(token)
        (tmp_path / "t").chmod(0o600)
        for client in (ClientConfig(token_env="T"), ClientConfig(token_file="t")):
            with pytest.raises(ConfigError) as caught:
                read_tokens({"a": client}, tmp_path, {"T": token})
            assert "hush-4713" not in str(caught.value)

    @attack("secrets", "a server that can't be started, with its key in its command")
    def test_what_can_not_be_started_is_told_without_its_key(self) -> None:
        async def main(config: ServerConfig) -> str:
            source = McpSource("x", config, {"K": KEY, "PATH": os.environ["PATH"]})
            try:
                with pytest.raises((Unavailable, CallError)) as caught:
                    await source.tools()
                return f"{caught.value!r} {source!r} {config!r}"
            finally:
                await source.close()

        for config in (
            ServerConfig(command="/nowhere/${env:K}"),
            ServerConfig(command=sys.executable, args=["-c", "import sys; sys.exit(sys.argv[1])", "${env:K}"]),
            ServerConfig(command="true", cwd="/nowhere/${env:K}"),
            ServerConfig(url="http://127.0.0.1:1/${env:K}", headers={"X": "${env:K}"}),
        ):
            assert not leaks(asyncio.run(main(config)))


class TestOverMcp:
    @attack("secrets", "a key in an answer over MCP, in stubs and in figures")
    def test_a_client_is_told_none(self, scene: Scene) -> None:
        async def main() -> str:
            with Sandbox(limits=Limits(timeout_s=30, cpu_s=20)) as box:
                async with (
                    Composer(scene.project, box=box, trusted=True) as composer,
                    Engine(scene.project, composer=composer, trusted=True) as engine,
                ):
                    server = make_server(composer, engine)
                    async with Client(server) as client:
                        said = [
                            await client.call_tool("code_execute", {"code": CODE}, raise_on_error=False),
                            await client.call_tool("tool_schema", {"names": ["leaky.described"]}, raise_on_error=False),
                            await client.call_tool("tool_search", {"words": "key"}, raise_on_error=False),
                            await client.read_resource("go-ent://stubs"),
                            await client.read_resource("go-ent://executions"),
                        ]
                    figures = await Metrics(server, composer, engine, "1").text()
                    return "\n".join(map(str, said)) + figures

        told = asyncio.run(main())
        assert HIDDEN in told
        assert not leaks(told)
