"""Over HTTP: a real server, real clients of both protocol eras, each with what its token allows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.subscriptions import listen

from go_ent.composer.errors import ConfigError
from go_ent.engine.budget import Budget, Prices
from go_ent.engine.budget.sqlite_ledger import SCHEMA_1
from go_ent.engine.core.config import BudgetConfig, ClientConfig
from go_ent.engine.core.errors import BudgetExceeded
from go_ent.engine.core.models import BudgetLimit, Tokens
from go_ent.engine.server.calls.callers import REMOTE
from go_ent.engine.server.http.serve import parse_address
from go_ent.engine.server.http.tokens import read_tokens
from tests.engine.server.test_changes import connected
from tests.support.rows import each
from tests.support.serving import ERAS, MODES, Mode, Served, ask, say, serving, talk
from tests.support.shell import go_ent

NARROW, WIDE, POOR, PLAIN = (f"{name}-token-0123456789abcdef" for name in ("narrow", "wide", "poor", "plain"))
TOKENS = {"NARROW": NARROW, "WIDE": WIDE, "POOR": POOR}
AGENT = "import json; print(json.dumps({'said': 'done', 'cost': 1.0}))"
CONFIG = f"""
[grants]
approve = ["pay"]
[engine]
command = "agent"
[commands.agent]
argv = [{json.dumps(sys.executable)}, "-c", {json.dumps(AGENT)}]
stdin = true
format = "json"
path = "said"
cost_usd = "cost"
max_cost_usd = 1.0
[serve.clients.narrow]
token_env = "NARROW"
allow = ["double"]
[serve.clients.wide]
token_env = "WIDE"
allow = ["*"]
compose = true
engine = true
[serve.clients.poor]
token_env = "POOR"
engine = true
budget = {{ usd = 1.0 }}
"""


def tool(name: str, body: str, parameters: str = "n: int") -> str:
    return (
        f'# /// tool\n# name = "{name}"\n# ///\nasync def {name}({parameters}) -> int:\n    """Made for a '
        f'test."""\n    {body}\n'
    )


def write(project: Path, config: str) -> Path:
    (project / ".go-ent").mkdir(parents=True)
    (project / ".go-ent" / "config.toml").write_text(config)
    return project


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = write(tmp_path_factory.mktemp("http") / "project", CONFIG)
    with serving(folder, "--token-env", "PLAIN", env={**TOKENS, "PLAIN": PLAIN}) as server:
        for made in (tool("double", "return 2 * n"), tool("treble", "return 3 * n"), tool("pay", "return n")):
            assert ask(server, "tool_compose", token=WIDE, source=made)[0] is False
        yield server


class TestServing:
    def test_it_says_where_it_listens_and_who_may_call(self, served: Served) -> None:
        assert re.fullmatch(r"http://127\.0\.0\.1:[1-9][0-9]*/mcp", served.url)
        assert (
            f"serving {served.project} to clients with a token: that of --token-env, narrow, wide, poor"
            in served.log.read_text()
        )

    @pytest.mark.parametrize("mode", ERAS)
    def test_a_client_of_either_era_lists_and_calls(self, served: Served, mode: Mode) -> None:
        async def work(client: Client[Any]) -> None:
            assert {"code_execute", "tool_run", "double", "treble"} <= {one.name for one in await client.list_tools()}
            assert (await say(client, "double", n=4))[1] == {"result": 8}
            failed, run = await say(client, "code_execute", code="await tools.double(n=21)")
            assert (failed, run["result"]) == (False, 42)

        talk(served, work, token=WIDE, mode=mode)

    @pytest.mark.parametrize("mode", ERAS)
    async def test_who_listens_hears_when_a_tool_that_it_may_call_is_changed_by_another(
        self, served: Served, mode: Mode
    ) -> None:
        transport = StreamableHttpTransport(served.url, auth=NARROW)
        async with connected(transport, mode) as (client, ear):
            changed = tool("double", "return 2 * n").replace("Made for a test.", f"Twice as much, says {mode}.")
            assert (await asyncio.to_thread(ask, served, "tool_compose", token=WIDE, source=changed))[0] is False
            await ear.news()
            assert f"Twice as much, says {mode}." in {one.description for one in await client.list_tools()}
        told = re.search(r"^go_ent_list_changed_notifications_total ([0-9.]+)$", _metrics(served, WIDE), re.MULTILINE)
        assert told is not None
        assert float(told[1]) >= 1

    @pytest.mark.parametrize("mode", ERAS)
    async def test_a_long_call_tells_how_it_goes_and_its_client_is_asked(self, served: Served, mode: Mode) -> None:
        asked: list[str] = []
        told: list[str] = []

        async def decide(message: str, *_: Any) -> dict[str, bool]:
            asked.append(message)
            return {"approve": True}

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append(message or "")

        transport = StreamableHttpTransport(served.url, auth=WIDE)
        async with Client(transport, mode=mode, elicitation_handler=decide, progress_handler=hear) as client:
            code = "import time\ntime.sleep(0.5)\nawait tools.pay(n=3)"
            failed, run = await say(client, "code_execute", code=code)
            assert (failed, run["result"]) == (False, 3)
            assert any(run["execution_id"] in one for one in told)
        assert len(asked) == 1
        assert asked[0].startswith('May pay be called?\n{\n "n": 3\n}')

    @pytest.mark.parametrize("mode", ERAS)
    def test_a_client_that_is_gone_loses_nothing(self, served: Served, mode: Mode) -> None:
        """One of the new protocol has thereby cancelled its call, which can be resumed; one of an older has not, and
        it goes on.
        """
        program = GONE.format(url=served.url, token=WIDE, mode=mode)
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.DEVNULL)

        async def work(client: Client[Any]) -> None:
            found = await until_it_is(client, "running", mode)
            process.kill()
            process.wait()
            if mode == "auto":
                await until_it_is(client, "interrupted", mode)
                failed, run = await say(client, "engine_resume", execution_id=found)
                assert (failed, run["result"]) == (False, mode)
            await until_it_is(client, "completed", mode)
            assert (await say(client, "engine_status", execution_id=found))[1]["output"] == mode

        try:
            talk(served, work, token=WIDE)
        finally:
            process.kill()
            process.wait()

    def test_nothing_is_said_on_stdout(self, served: Served) -> None:
        assert served.log.with_suffix(".out").read_text() == ""

    def test_health_is_told_to_anybody_and_says_little(self, served: Served) -> None:
        with urllib.request.urlopen(served.url.replace("/mcp", "/healthz")) as answer:
            assert json.load(answer).keys() == {"ok", "version"}

    @each(
        ("text", "host", "port", "loopback"),
        [
            ("127.0.0.1:8000", "127.0.0.1", 8000, True),
            ("8000", "127.0.0.1", 8000, True),
            (":8000", "127.0.0.1", 8000, True),
            ("[::1]:0", "::1", 0, True),
            ("127.9.9.9:1", "127.9.9.9", 1, True),
            ("0.0.0.0:1", "0.0.0.0", 1, False),
            ("[::]:1", "::", 1, False),
            ("[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1", 1, False),
        ],
    )
    def test_an_address_is_a_host_and_a_port(self, text: str, host: str, port: int, loopback: bool) -> None:
        found = parse_address(text)
        assert (found.host, found.port, found.is_loopback) == (host, port, loopback)

    @pytest.mark.parametrize(
        "text", ["", "here", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:-1", "a b:1", "http://127.0.0.1:1", "::1:80"]
    )
    def test_what_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match="--http"):
            parse_address(text)
        assert go_ent("serve", "--http", text).returncode == 2


class TestClients:
    """Two tokens, two clients: each has its own grants, executions, sessions and money."""

    @pytest.mark.parametrize("mode", ERAS)
    def test_a_client_may_call_what_it_is_granted_and_nothing_else(self, served: Served, mode: Mode) -> None:
        async def work(client: Client[Any]) -> None:
            names = {one.name for one in await client.list_tools()}
            assert "double" in names
            assert "treble" not in names
            assert (await say(client, "code_execute", code="await tools.double(n=2)"))[1]["result"] == 4
            failed, run = await say(client, "code_execute", code="await tools.treble(n=2)")
            assert failed
            assert "granted" in run["error"]
            assert (await say(client, "tool_run", name="treble", inputs={"n": 1}))[0]

        talk(served, work, token=NARROW, mode=mode)

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("tool_compose", {"source": tool("mine", "return n")}),
            ("tool_delete", {"name": "double"}),
            ("engine_execute", {"task": "spend"}),
            ("engine_approve", {"execution_id": "0199"}),
            ("tool_suggest", {}),
        ],
    )
    def test_what_its_token_does_not_allow_is_refused_with_the_setting(
        self, served: Served, name: str, arguments: dict[str, Any]
    ) -> None:
        failed, said = ask(served, name, token=NARROW, **arguments)
        assert failed
        assert "[serve.clients.narrow] has no" in said

    @pytest.mark.parametrize("mode", ERAS)
    def test_executions_belong_to_who_began_them(self, served: Served, mode: Mode) -> None:
        _, run = ask(served, "code_execute", token=NARROW, mode=mode, code="1")
        mine = run["execution_id"]
        assert mine in str(ask(served, "engine_status", token=NARROW, mode=mode)[1])
        assert mine not in str(ask(served, "engine_status", token=WIDE, mode=mode)[1])
        failed, said = ask(served, "engine_status", token=WIDE, mode=mode, execution_id=mine)
        assert failed
        assert said.startswith(f"there is no execution {mine}")
        assert ask(served, "engine_status", token=PLAIN, mode=mode, execution_id=mine)[1]["execution_id"] == mine, (
            "the project's user sees all"
        )
        row = json.loads(go_ent("status", mine, "--json", cwd=served.project).stdout)
        assert row["client"] == "narrow"

    def test_variables_of_a_session_are_met_by_its_own_client_alone(self, served: Served) -> None:
        ask(served, "code_execute", token=WIDE, session="notes", code="secret = 7")
        assert ask(served, "code_execute", token=WIDE, session="notes", code="secret")[1]["result"] == 7
        assert "NameError" in ask(served, "code_execute", token=NARROW, session="notes", code="secret")[1]["error"]

    def test_the_token_of_the_command_line_may_what_the_project_may(self, served: Served) -> None:
        assert ask(served, "tool_compose", token=PLAIN, source=tool("fourfold", "return 4 * n"))[0] is False
        assert ask(served, "fourfold", token=PLAIN, n=2)[1] == {"result": 8}

    def test_what_waits_for_approval_is_decided_by_who_may(self, served: Served) -> None:
        _, run = ask(served, "code_execute", token=WIDE, code="await tools.pay(n=5)")
        assert run["status"] == "paused"
        assert ask(served, "engine_approve", token=POOR, execution_id=run["execution_id"])[1].startswith(
            "there is no execution"
        )
        assert ask(served, "engine_approve", token=WIDE, execution_id=run["execution_id"])[0] is False
        assert ask(served, "engine_resume", token=WIDE, execution_id=run["execution_id"])[1]["result"] == 5
        state = json.loads(go_ent("status", run["execution_id"], "--json", cwd=served.project).stdout)
        assert state["client"] == "wide", "resumed, it is still the same client's"


class TestMoney:
    def test_a_client_spends_its_own_budget_and_not_more(self, served: Served) -> None:
        failed, first = ask(served, "engine_execute", token=POOR, task="one")
        assert (failed, first["status"], first["metrics"]["cost_usd"]) == (False, "COMPLETE", 1.0)
        failed, second = ask(served, "engine_execute", token=POOR, task="two")
        assert failed
        assert "the budget of the client poor for today does not hold this: $1.00 spent or reserved" in str(second)
        assert ask(served, "engine_execute", token=WIDE, task="three")[0] is False, "another client has its own"
        _, mine = ask(served, "engine_budget", token=POOR)
        assert (mine["day"]["spent_usd"], mine["day"]["limit_usd"]) == (1.0, 1.0)
        assert mine.keys() == {"day"}, "what others spend is not theirs to see"

    def test_the_project_s_user_sees_what_each_has_spent(self, served: Served) -> None:
        report = json.loads(go_ent("budget", "--json", cwd=served.project).stdout)
        assert report["clients"]["poor"]["limit_usd"] == 1.0
        assert "poor" in go_ent("budget", cwd=served.project).stdout.decode()

    @pytest.fixture
    def budget(self, tmp_path: Path) -> Budget:
        config = BudgetConfig(day=BudgetLimit(usd=10.0), reserve_usd=0.5)
        return Budget(
            tmp_path, config, Prices(), mode="mcp", clients={"ci": BudgetLimit(usd=1.0), "few": BudgetLimit(tokens=100)}
        )

    async def test_a_client_s_limit_is_not_let_pass_with_a_warning(self, budget: Budget) -> None:
        """Where the project's own limits are: it was given to somebody else."""

        async def spend(key: str, client: str, usd: float) -> None:
            estimate = budget.estimate(model=None, prompt_tokens=10, limit=BudgetLimit(usd=usd), client=client)
            held = await budget.reserve(key, estimate, execution_id=key, task_id=key, client=client, ask=_yes)
            await budget.settle(held, runtime="cli", model=None, role=None, tokens=Tokens(input=10), usd=usd)

        await spend("1", "ci", 0.75)
        with pytest.raises(BudgetExceeded, match="the budget of the client ci for today"):
            await spend("2", "ci", 0.5)
        await spend("3", "", 0.5)
        await spend("4", "other", 9.5)  # over the day's limit, which only warns
        with pytest.raises(BudgetExceeded, match=r"client few for today.*100 tokens"):
            await spend("5", "few", 0.1)
        report = await budget.report()
        assert report.clients["ci"].spent_usd == 0.75
        assert report.clients["other"].limit_usd is None
        assert report.day.spent_usd == 10.75

    async def test_an_account_of_the_version_before_is_gone_on_with(self, tmp_path: Path) -> None:
        (tmp_path / ".go-ent").mkdir()
        database = sqlite3.connect(tmp_path / ".go-ent" / "budget.db")
        database.execute("PRAGMA journal_mode = WAL")
        for statement in SCHEMA_1.values():
            database.execute(statement)
        row = ("a/b/1", "a", "b", "cli", None, None, 0.25, 7, 0, 0, 0.25, 7, 0, 4e9)
        database.execute(f"INSERT INTO spends VALUES ({', '.join('?' * len(row))})", row)
        database.execute("PRAGMA user_version = 1")
        database.commit()
        database.close()
        budget = Budget(
            tmp_path, BudgetConfig(), Prices(), mode="mcp", clock=lambda: 4e9, clients={"ci": BudgetLimit(usd=1.0)}
        )
        report = await budget.report()
        assert (report.day.spent_usd, report.clients["ci"].spent_usd) == (0.25, 0.0)


async def _yes(_: BudgetExceeded) -> bool:
    return True


class TestTokens:
    def test_each_is_found_by_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(f"{WIDE}\n")
        (tmp_path / "token").chmod(0o600)
        clients = {
            "a": ClientConfig(token_env="A", allow=("x.*",)),
            "b": ClientConfig(token_file="token", compose=True),
        }
        found = read_tokens(clients, tmp_path, {"A": NARROW, "ALL": PLAIN}, everything_env="ALL")
        one, two = found.whose(NARROW), found.whose(WIDE)
        assert one is not None
        assert (one.name, one.allow, one.may_compose, one.may_run_agents) == ("a", ("x.*",), False, False)
        assert two is not None
        assert (two.name, two.allow, two.may_compose) == ("b", (), True)
        assert found.whose(PLAIN) == REMOTE
        assert found.whose("") is None
        assert NARROW not in repr(found)

    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            ({}, r"\[serve.clients.a\]: the environment variable A is not set"),
            ({"A": "short"}, "has 24 to 1000 characters, and this one has 5"),
            ({"A": "with a space in it, and long"}, "ASCII without spaces"),
            ({"A": WIDE, "B": WIDE}, "have the same token"),
        ],
    )
    def test_one_that_will_not_do_is_refused_and_not_quoted(
        self, tmp_path: Path, environ: dict[str, str], message: str
    ) -> None:
        clients = {"a": ClientConfig(token_env="A"), **({"b": ClientConfig(token_env="B")} if "B" in environ else {})}
        with pytest.raises(ConfigError, match=message) as caught:
            read_tokens(clients, tmp_path, environ)
        assert all(value not in str(caught.value) for value in environ.values())

    @pytest.mark.parametrize("mode", [0o620, 0o602, 0o640, 0o604])
    def test_a_file_that_is_open_to_others_is_refused(self, tmp_path: Path, mode: int) -> None:
        (tmp_path / "token").write_text(WIDE)
        (tmp_path / "token").chmod(mode)
        with pytest.raises(ConfigError, match="chmod 600"):
            read_tokens({"a": ClientConfig(token_file="token")}, tmp_path, {})


class TestTheEnd:
    def test_a_signal_interrupts_what_runs_answers_who_waits_and_ends(self, tmp_path: Path) -> None:
        """A call under way is answered, a stream that is open is closed, and the execution can be resumed."""
        with serving(tmp_path / "project") as server:
            heard: list[tuple[bool, Any]] = []

            async def wait(mode: Mode) -> None:
                async with (
                    Client(StreamableHttpTransport(server.url), mode=mode) as client,
                    listen(client.session, tools_list_changed=True)
                    if mode == "auto"
                    else contextlib.nullcontext(),  # or it has a stream
                ):
                    heard.append(await say(client, "code_execute", code="while True: pass"))

            async def main() -> None:
                both = [asyncio.create_task(wait(mode)) for mode in MODES]
                while "go_ent_executions_running 2" not in await asyncio.to_thread(_metrics, server):
                    assert not any(one.done() for one in both)
                server.process.send_signal(signal.SIGTERM)
                await asyncio.gather(*both)

            asyncio.run(main())
            assert server.process.wait(20) == 128 + signal.SIGTERM
            for failed, run in heard:
                assert (failed, run["status"]) == (True, "interrupted")
                state = json.loads(go_ent("status", run["execution_id"], "--json", cwd=server.project).stdout)
                assert (state["status"], state["client"]) == ("interrupted", "")
            assert "Traceback" not in server.said()
            assert "ASGI" not in server.said()


GONE = """
import asyncio
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

async def main():
    async with Client(StreamableHttpTransport({url!r}, auth={token!r}), mode={mode!r}) as client:
        code = "# gone {mode}\\nimport asyncio\\nfor n in range(20):\\n    await asyncio.sleep(0.1)\\n    checkpoint('at', n)\\n'{mode}'"
        await client.call_tool("code_execute", dict(code=code))

asyncio.run(main())
"""  # noqa: E501


async def until_it_is(client: Client[Any], status: str, mode: Mode) -> str:
    """The id of the execution whose client is to go away, once it has come that far."""
    async with asyncio.timeout(60):
        while True:
            _, said = await say(client, "engine_status")
            for one in said["executions"]:
                if one["title"] == f"code: # gone {mode}" and one["status"] == status:
                    _, state = await say(client, "engine_status", execution_id=one["execution_id"])
                    if state.get("checkpoints"):  # its guest runs
                        return str(one["execution_id"])
            await asyncio.sleep(0.02)


def _metrics(server: Served, token: str = "") -> str:
    asked = urllib.request.Request(server.url.replace("/mcp", "/metrics"), headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked) as answer:
        return answer.read().decode()  # type: ignore[no-any-return]
