"""Clients with tokens in one server: what each keeps, starts and changes is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from go_ent.composer import Composer, Config
from go_ent.engine import Engine, GuestOrder
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.server import make_server
from go_ent.engine.server.calls.callers import Caller, become
from go_ent.sandbox import Limits, Run, Sandbox
from tests.engine.server.test_server import say
from tests.security.corpus import attack
from tests.support.scripted import Scripted, engine_of

CONFIG: dict[str, Any] = {
    "serve": {
        "clients": {
            "alice": {"token_env": "A", "allow": ["*"]},
            "bob": {"token_env": "B", "allow": ["mine"], "compose": True},
        }
    }
}
ALICE, BOB = Caller("alice", ("*",), may_run_agents=False), Caller("bob", ("mine",), may_run_agents=False)
TOOL = '# /// tool\n# name = "{0}"\n# ///\ndef {0}(n: int) -> int:\n    """Made for a test."""\n    return n\n'
LONG = "'x' * 30_000"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(limits=Limits(timeout_s=20, cpu_s=10), workers=8) as made:
        yield made


def serve(project: Path, box: Sandbox, work: Callable[[Composer, Engine, Scripted], Awaitable[None]]) -> None:
    agent = Scripted("claude-code")

    async def main() -> None:
        async with Composer(project, box=box, config=Config(allow=("engine.*",))) as composer:
            assert EngineConfig.model_validate(CONFIG).serve.clients
            async with engine_of(project, agent, config=CONFIG, composer=composer, mode="mcp") as engine:
                await work(composer, engine, agent)

    asyncio.run(main())


@attack("http", "agents started by code of a client who may not")
@pytest.mark.parametrize("session", [None, "mine"])
def test_code_starts_no_agents_for_who_may_not(project: Path, box: Sandbox, session: str | None) -> None:
    async def work(composer: Composer, engine: Engine, agent: Scripted) -> None:
        order = GuestOrder(code="await tools.engine.execute(task='x')", session=session)
        run = await engine.guests.run(order, client="alice")
        assert (run.status, agent.seen) == ("error", [])
        assert "may start no agents" in str(run.error)
        assert (await engine.guests.run(order)).status == "completed"  # the project's own user may

    serve(project, box, work)


@attack("http", "another's account, looked at by code")
@pytest.mark.parametrize("session", [None, "mine"])
def test_code_sees_its_own_account_alone(project: Path, box: Sandbox, session: str | None) -> None:
    async def work(composer: Composer, engine: Engine, agent: Scripted) -> None:
        run = await engine.guests.run(GuestOrder(code="await tools.engine.budget()", session=session), client="alice")
        assert run.status == "completed"
        assert isinstance(run.result, dict)
        assert list(run.result) == ["day"]

    serve(project, box, work)


async def as_(composer: Composer, engine: Engine, caller: Caller, work: Callable[[Client[Any]], Awaitable[Any]]) -> Any:
    """What a client gets done, in a context of its own."""

    async def connected() -> Any:
        become(caller)
        async with Client(make_server(composer, engine)) as client:
            return await work(client)

    return await asyncio.create_task(connected())


@attack("http", "another client's kept result")
def test_results_that_were_cut_are_kept_for_who_made_them(project: Path, box: Sandbox) -> None:
    async def work(composer: Composer, engine: Engine, agent: Scripted) -> None:
        async def make(client: Client[Any]) -> str:
            return str((await say(client, "code_execute", code=LONG))[1]["execution_id"])

        made = await as_(composer, engine, ALICE, make)
        code = f"len(await tools.results.read(id={made!r}))"

        async def read(client: Client[Any]) -> Any:
            return await say(client, "code_execute", code=code)

        assert (await as_(composer, engine, ALICE, read))[1]["result"] == 30_000
        failed, said = await as_(composer, engine, BOB, read)
        assert failed
        assert "no result of a run" in str(said)

    serve(project, box, work)


@attack("http", "another client's named sessions, pushed out")
def test_sessions_of_one_are_not_ended_by_another(project: Path, box: Sandbox) -> None:
    async def work(composer: Composer, engine: Engine, agent: Scripted) -> None:
        async def begin(client: Client[Any]) -> None:
            await say(client, "code_execute", code="x = 7", session="mine")

        async def many(client: Client[Any]) -> None:
            for number in range(20):
                await say(client, "code_execute", code="x = 0", session=f"s{number}")

        async def again(client: Client[Any]) -> Any:
            return (await say(client, "code_execute", code="x", session="mine"))[1]["result"]

        await as_(composer, engine, ALICE, begin)
        await as_(composer, engine, BOB, many)
        assert await as_(composer, engine, ALICE, again) == 7

    serve(project, box, work)


@attack("grants", "a tool changed by who may not call it")
def test_who_may_not_call_a_tool_does_not_change_it(project: Path, box: Sandbox) -> None:
    async def work(composer: Composer, engine: Engine, agent: Scripted) -> None:
        await composer.compose(TOOL.format("deploy"))

        async def compose(client: Client[Any]) -> Any:
            changed = await say(client, "tool_compose", source=TOOL.format("deploy").replace("return n", "return 666"))
            own = await say(client, "tool_compose", source=TOOL.format("mine"))
            return changed[0], own[0]

        assert await as_(composer, engine, BOB, compose) == (True, False)
        run: Run = await composer.run("deploy", {"n": 3})
        assert run.result == 3

    serve(project, box, work)


@attack("grants", "what a tool was working on, told when it fails")
def test_a_tool_that_fails_does_not_tell_what_it_was_working_on(project: Path, box: Sandbox) -> None:
    async def work(composer: Composer, engine: Engine, agent: Scripted) -> None:
        await composer.compose(TOOL.format("mine").replace("return n", "salary = 70000 + 1234\n    return salary // n"))

        async def fail(client: Client[Any]) -> Any:
            return [
                await say(client, "mine", n=0),
                await say(client, "tool_run", name="mine", inputs={"n": 0}),
                await say(client, "code_execute", code="await tools.mine(n=0)"),
            ]

        answers = await as_(composer, engine, BOB, fail)
        assert [failed for failed, _ in answers] == [True, True, True]
        assert all("ZeroDivisionError" in str(said) for _, said in answers)
        assert "71234" not in str(answers)

    serve(project, box, work)


@attack("http", "what others have run, suggested")
def test_what_others_have_run_is_not_suggested(project: Path, box: Sandbox) -> None:
    async def work(composer: Composer, engine: Engine, agent: Scripted) -> None:
        for number in range(3):
            await engine.guests.run(GuestOrder(code="password + 'hush'", inputs={"password": f"hunter{number}"}))
        failed, said = await as_(composer, engine, BOB, lambda client: say(client, "tool_suggest"))
        assert failed
        assert "hunter" not in str(said)

    serve(project, box, work)


@attack("grants", "limits widened by a resume")
def test_a_resume_does_not_widen_the_project_s_limits(project: Path, box: Sandbox) -> None:
    async def work(composer: Composer, engine: Engine, agent: Scripted) -> None:
        async def resume(client: Client[Any]) -> Any:
            run = await say(client, "code_execute", code="while True: pass", limits={"timeout_s": 0.5})
            return await say(client, "engine_resume", execution_id=run[1]["execution_id"], timeout_s=3000)

        failed, said = await as_(composer, engine, BOB, resume)
        assert failed
        assert "timeout_s can be at most 20" in str(said)

    serve(project, box, work)
