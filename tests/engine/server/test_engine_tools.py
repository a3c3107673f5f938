"""The engine over MCP: in memory in both protocol eras, with what a client may not do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client

from go_ent.composer import Composer
from go_ent.engine import Tokens
from go_ent.engine.server import make_server
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool
from tests.engine.server.test_server import say
from tests.support.scripted import Scripted, engine_of, fails, says
from tests.support.serving import ERAS

ENGINE = {
    "engine_execute",
    "engine_status",
    "engine_budget",
    "engine_interrupt",
    "engine_resume",
    "engine_approve",
    "engine_summarize",
}


def talk(
    project: Path,
    box: Sandbox,
    work: Callable[[Client[Any]], Awaitable[None]],
    *runners: Scripted,
    mode: Literal["auto", "legacy"] = "auto",
    config: dict[str, Any] | None = None,
) -> None:
    async def main() -> None:
        async with Composer(project, box=box) as composer:
            engine = engine_of(project, *runners, config=config, mode="mcp", composer=composer)
            async with engine, Client(make_server(composer, engine), mode=mode) as client:
                await work(client)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ERAS)
def test_a_task_its_status_and_the_budget(project: Path, box: Sandbox, mode: Literal["auto", "legacy"]) -> None:
    runner = Scripted("claude-code", says("the answer", cost_usd=0.5, tokens=Tokens(input=3, output=4)))

    async def work(client: Client[Any]) -> None:
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert set(listed) >= ENGINE
        assert all(
            listed[name].description and listed[name].output_schema and listed[name].annotations for name in ENGINE
        )
        failed, said = await say(client, "engine_execute", task="do it", role="developer", access="read")
        assert (failed, said["status"], said["output"]) == (False, "COMPLETE", "the answer")
        assert said["metrics"] == {"tokens_used": 7, "duration_ms": said["metrics"]["duration_ms"], "cost_usd": 0.5}
        assert said["steps"][0]["reason"] == "it is the first that is available"
        failed, state = await say(client, "engine_status", execution_id=said["execution_id"][:20])
        assert (failed, state["status"], state["output"], state["spent_usd"]) == (False, "completed", "the answer", 0.5)
        failed, listing = await say(client, "engine_status")
        assert [one["execution_id"] for one in listing["executions"]] == [said["execution_id"]]
        failed, report = await say(client, "engine_budget")
        assert (failed, report["day"]["spent_usd"]) == (False, 0.5)

    talk(project, box, work, runner, mode=mode)


def test_a_graph_with_tools_and_agents(project: Path, box: Sandbox) -> None:
    runner = Scripted(
        "claude-code", lambda request: {"status": "completed", "output": f"[{request.prompt.strip().splitlines()[-1]}]"}
    )
    plan = [{"id": "a", "code": "6 * 7"}, {"id": "b", "prompt": "about ${a.output}"}]

    async def work(client: Client[Any]) -> None:
        for given in (plan, {"task": plan}):
            failed, said = await say(client, "engine_execute", plan=given)
            assert (failed, said["status"], said["output"]) == (False, "COMPLETE", "[about 42]")
        assert said["strategy"].startswith("parallel")

    talk(project, box, work, runner)


def test_failures_are_errors_that_say_why(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any]) -> None:
        failed, said = await say(client, "engine_execute", task="x")
        assert (failed, said["status"]) == (True, "BLOCKED")
        assert "it broke" in said["error"]
        for arguments, message in (
            ({}, "a task needs a description"),
            ({"task": "x", "role": "chef"}, "the roles are architect"),
            ({"task": "x", "runtime": "gpt"}, "there are: claude-code, open-code, cli"),
            ({"task": "x", "budget": {"usd": -1}}, "budget.usd"),
            ({"task": "x", "strategy": "parallel"}, "give a plan"),
            ({"task": "x", "plan": [{"id": "a", "code": "1"}]}, "a plan is a graph of its own"),
            ({"plan": [{"id": "a", "code": "1", "depends_on": ["a"]}]}, "it depends on itself"),
            ({"plan": []}, "task"),
        ):
            failed, said = await say(client, "engine_execute", **arguments)
            assert failed
            assert message in str(said)
        for name in ("engine_status", "engine_interrupt", "engine_resume"):
            failed, said = await say(client, name, execution_id="../x")
            assert failed
            assert "is not the id of an execution" in str(said)

    talk(project, box, work, Scripted("claude-code", fails("task", "it broke")))


def test_a_client_names_no_program(project: Path, box: Sandbox) -> None:
    config = {"commands": {"hello": {"argv": ["echo", "hello"]}}}

    async def work(client: Client[Any]) -> None:
        failed, said = await say(client, "engine_execute", plan=[{"id": "a", "command": ["touch", "made"]}])
        assert failed
        assert "name it under [commands.NAME]" in str(said)
        failed, said = await say(client, "engine_execute", command="hello")
        assert (failed, said["output"].strip()) == (False, "hello")
        failed, said = await say(client, "engine_execute", command="touch made")
        assert failed
        assert "there is no command touch made in the configuration; there are: hello" in str(said)

    talk(project, box, work, config=config)
    assert not (project / "made").exists()


def test_an_argv_in_a_person_s_execution_is_not_resumed_by_a_client(project: Path, box: Sandbox) -> None:
    async def begin() -> str:
        from go_ent.engine import Task

        async with engine_of(project) as engine:
            return (await engine.execute(Task(command=("sh", "-c", "echo x >> ran; false")))).execution_id

    execution_id = asyncio.run(begin())

    async def work(client: Client[Any]) -> None:
        failed, said = await say(client, "engine_resume", execution_id=execution_id)
        assert failed
        assert "name it under [commands.NAME]" in str(said)

    talk(project, box, work)
    assert (project / "ran").read_text() == "x\n"


def test_interrupt_and_resume(project: Path, box: Sandbox) -> None:
    runner = Scripted("claude-code", says("whole"))

    async def work(client: Client[Any]) -> None:
        runner.hold = asyncio.Event()
        failed, said = await say(client, "engine_execute", task="long", wait=False)
        assert (failed, said["status"]) == (False, "running")
        await runner.begun()
        failed, state = await say(client, "engine_interrupt", execution_id=said["execution_id"])
        assert (failed, state["status"]) == (False, "interrupted")
        runner.hold = None
        failed, again = await say(client, "engine_resume", execution_id=said["execution_id"])
        assert (failed, again["status"], again["output"]) == (False, "COMPLETE", "whole")
        failed, refused = await say(client, "engine_interrupt", execution_id=said["execution_id"])
        assert failed
        assert "has finished" in str(refused)

    talk(project, box, work, runner)


@pytest.mark.parametrize("hard", [False, True])
def test_a_budget_that_does_not_hold_warns_or_refuses(project: Path, box: Sandbox, hard: bool) -> None:
    runner = Scripted("claude-code", says("done", cost_usd=0.9))

    async def work(client: Client[Any]) -> None:
        await say(client, "engine_execute", task="x", budget={"usd": 0.9})
        failed, said = await say(client, "engine_execute", task="x", budget={"usd": 0.9})
        assert failed is hard
        told = said["error"] if hard else " ".join(said["observations"])
        assert (
            "the budget of the day does not hold this: $0.90 spent or reserved, $0.90 wanted, the limit is $1.00"
            in told
        )

    talk(project, box, work, runner, config={"budget": {"day": {"usd": 1.0}, "hard": hard}})


def test_an_agent_of_ours_starts_no_agents(project: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_ENT_RUN", "e/t/1")

    async def work(client: Client[Any]) -> None:
        names = {tool.name for tool in await client.list_tools()}
        assert names & ENGINE == {"engine_status", "engine_budget"}

    talk(project, box, work)


@pytest.mark.parametrize(("approve", "result"), [(True, "dropped b"), (False, "no: the call was not approved")])
def test_a_call_that_waits_is_decided_and_the_run_goes_on(
    project: Path, box: Sandbox, approve: bool, result: str
) -> None:
    (project / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["drop"]\n')
    drop = tool("drop", 'def drop(name: str) -> str:\n    """Drop."""\n    return f"dropped {name}"\n')

    async def work(client: Client[Any]) -> None:
        assert not (await say(client, "tool_compose", source=drop))[0]
        code = "try:\n    a = await tools.drop(name='b')\nexcept ToolError as error:\n    a = 'no: ' + error.message\na"
        failed, said = await say(client, "code_execute", code=code)
        assert (failed, said["status"], said["pending"][0]["tool"]) == (False, "paused", "drop")
        failed, state = await say(client, "engine_status", execution_id=said["execution_id"])
        assert [(one["call"], one["tool"], one["arguments"]) for one in state["pending"]] == [
            ("run/1", "drop", {"name": "b"})
        ]
        failed, state = await say(client, "engine_approve", execution_id=said["execution_id"], approve=approve)
        assert (failed, state["status"]) == (False, "paused")
        failed, said = await say(client, "engine_resume", execution_id=said["execution_id"])
        assert (failed, said["status"], said["result"]) == (False, "completed", result)
        failed, said = await say(client, "engine_approve", execution_id=said["execution_id"])
        assert failed

    talk(project, box, work)
