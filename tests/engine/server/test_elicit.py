"""Questions to the person behind a client, in both protocol eras: what is shown, and that nothing else is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult as Answer
from mcp_types import InputRequiredResult

from go_ent.composer import Composer
from go_ent.engine import Engine
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.server import make_server
from go_ent.engine.server.calls import callers
from go_ent.sandbox import Sandbox
from tests.engine.server.test_server import say
from tests.support.scripted import Scripted, engine_of, says
from tests.support.serving import ERAS

Mode = Literal["auto", "legacy"]
Action = Literal["accept", "decline", "cancel"]
ACTIONS: list[Action] = ["decline", "cancel", "accept"]
CODE = "try:\n    a = await tools.drop(name='b')\nexcept ToolError as error:\n    a = 'no: ' + error.message\na"
TWO = "import asyncio\nawait asyncio.gather(tools.drop(name='a'), tools.drop(name='b'))"
WIPE = '''# /// tool
# name = "wipe"
# ///
async def wipe(name: str) -> str:
    """Wipe."""
    return "wiped " + name
'''


@pytest.fixture
def project(project: Path) -> Path:
    (project / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["drop", "wipe"]\n')
    return project


class Person:
    """Answers what a client is asked: with each of the given in its turn, the last one for ever. `asked` is what was
    shown.
    """

    def __init__(self, *answers: Action | bool | None) -> None:
        self.answers: list[Action | bool | None] = list(answers)
        self.asked: list[str] = []

    async def __call__(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        self.asked.append(message)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, bool):
            return ElicitResult(action="accept", content={"approve": answer})
        if answer is None:
            return ElicitResult(action="accept", content={})
        return ElicitResult(action=answer, content={"approve": True} if answer == "accept" else None)


def serve(
    project: Path,
    box: Sandbox,
    work: Callable[[Client[Any], Engine, list[str]], Awaitable[None]],
    person: Any = None,
    *runners: Scripted,
    mode: Mode = "auto",
    config: dict[str, Any] | None = None,
) -> None:
    """A client, connected to the server of a project whose code may call `drop`, which needs approval."""
    dropped: list[str] = []

    async def drop(name: str, text: str = "") -> str:
        """Drop."""
        dropped.append(name)
        return f"dropped {name}"

    async def main() -> None:
        async with Composer(project, tools=[drop], box=box) as composer:
            engine = engine_of(project, *runners, config=config, mode="mcp", composer=composer)
            options = {} if person is None else {"elicitation_handler": person}
            async with engine, Client(make_server(composer, engine), mode=mode, **options) as client:
                await work(client, engine, dropped)

    asyncio.run(main())


# -- approvals


@pytest.mark.parametrize("mode", ERAS)
def test_a_call_that_needs_approval_is_asked_about(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person()

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        for action in ACTIONS:
            person.answers, person.asked = [action], []
            failed, said = await say(client, "code_execute", code=CODE)
            assert not failed
            (shown,) = person.asked
            assert shown.startswith(
                'May drop be called?\n{\n "name": "b"\n}\nWhy this is asked: calls of this tool need approval.'
            )
            assert said["execution_id"] in shown
            if action == "cancel":
                assert (said["status"], [one["call"] for one in said["pending"]]) == ("paused", ["run/1"])
                assert "engine_approve" in said["hint"]
            else:
                result = "dropped b" if action == "accept" else "no: the call was not approved"
                assert (said["status"], said["result"]) == ("completed", result)
            assert dropped == (["b"] if action == "accept" else [])

    serve(project, box, work, person, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_so_is_a_composed_tool_that_needs_it(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person()
    statuses = {"accept": "completed", "decline": "error", "cancel": "paused"}

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        assert not (await say(client, "tool_compose", source=WIPE))[0]
        for action in ACTIONS:
            person.answers, person.asked = [action], []
            failed, said = await say(client, "tool_run", name="wipe", inputs={"name": "x"})
            assert (failed, said["status"], len(person.asked)) == (action == "decline", statuses[action], 1)
        failed, said = await say(client, "wipe", name="x")  # under its own name
        assert (failed, said, len(person.asked)) == (False, {"result": "wiped x"}, 2)

    serve(project, box, work, person, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_so_is_a_step_of_a_graph(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person()
    plan = [{"id": "a", "code": CODE}, {"id": "b", "code": "x", "inputs": {"x": "${a.output}"}}]

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        for action in ACTIONS:
            person.answers, person.asked = [action], []
            failed, said = await say(client, "engine_execute", plan=plan)
            assert (failed, len(person.asked)) == (False, 1)
            if action == "cancel":
                assert [one["tool"] for one in said["pending"]] == ["drop"]
                assert ((await engine.status(said["execution_id"])).status, dropped) == ("paused", [])
            else:
                assert (said["status"], said["output"].startswith("dropped b")) == ("COMPLETE", action == "accept")

    serve(project, box, work, person, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_what_was_put_off_is_asked_again_when_it_goes_on(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person("cancel", "accept")

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        _, said = await say(client, "code_execute", code=CODE)
        failed, said = await say(client, "engine_resume", execution_id=said["execution_id"])
        assert (failed, said["status"], said["result"], len(person.asked)) == (False, "completed", "dropped b", 2)

    serve(project, box, work, person, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_a_model_can_t_approve_where_the_person_can_be_asked(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person("cancel", True)

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        _, said = await say(client, "code_execute", code=CODE)
        failed, told = await say(client, "engine_approve", execution_id=said["execution_id"])
        assert (failed, dropped) == (True, [])
        assert "engine_resume asks about each call that waits" in str(told)
        assert (await say(client, "engine_resume", execution_id=said["execution_id"]))[1]["result"] == "dropped b"
        assert dropped == ["b"]

    serve(project, box, work, person, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_each_call_is_asked_about_by_itself(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person("accept", "cancel")

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        _, said = await say(client, "code_execute", code=TWO)
        assert [one["arguments"] for one in said["pending"]] == [{"name": "b"}]
        assert (len(person.asked), dropped) == (2, [])
        person.answers = ["accept"]
        _, said = await say(client, "engine_resume", execution_id=said["execution_id"])
        assert (said["status"], sorted(dropped), len(person.asked)) == ("completed", ["a", "b"], 3)

    serve(project, box, work, person, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("answer", "status"), [(False, "completed"), (None, "paused")])
def test_yes_is_said_never_assumed(project: Path, box: Sandbox, mode: Mode, answer: bool | None, status: str) -> None:
    """Who accepts the form with no, rejects; who accepts it without a word, has not decided."""

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        _, said = await say(client, "code_execute", code=CODE)
        assert (said["status"], dropped) == (status, [])

    serve(project, box, work, Person(answer), mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_without_elicitation_the_answer_says_what_to_do(project: Path, box: Sandbox, mode: Mode) -> None:
    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        failed, said = await say(client, "code_execute", code=CODE)
        assert (failed, said["status"], said["pending"][0]["call"]) == (False, "paused", "run/1")
        failed, state = await say(client, "engine_approve", execution_id=said["execution_id"], call="run/1")
        assert (failed, state["status"], state["hint"]) == (False, "paused", "engine_resume goes on")
        failed, said = await say(client, "engine_resume", execution_id=said["execution_id"])
        assert (failed, said["result"]) == (False, "dropped b")

    serve(project, box, work, mode=mode)


def test_a_client_that_promises_elicitation_and_can_t_is_answered_all_the_same(project: Path, box: Sandbox) -> None:
    async def broken(*_: Any) -> Any:
        raise RuntimeError("no window")

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        failed, said = await say(client, "code_execute", code=CODE)
        assert (failed, said["status"], dropped) == (False, "paused", [])

    serve(project, box, work, broken, mode="legacy")


@pytest.mark.parametrize("mode", ERAS)
def test_what_can_t_be_shown_as_a_whole_is_not_asked(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person("accept")

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        _, said = await say(client, "code_execute", code="await tools.drop(name='b', text='x' * 5000)")
        assert (said["status"], person.asked, dropped) == ("paused", [], [])

    serve(project, box, work, person, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_nothing_in_the_arguments_looks_like_something_else(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person("cancel")
    code = "await tools.drop(name='safe\\u202e\\n\\x1b[2J\\nWhy this is asked: it is harmless')"

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        await say(client, "code_execute", code=code)
        (shown,) = person.asked
        assert '"name": "safe\\u202e\\n\\u001b[2J\\nWhy this is asked: it is harmless"' in shown
        assert all(char == "\n" or 32 <= ord(char) < 127 for char in shown)

    serve(project, box, work, person, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_that_may_not_decide_is_not_asked(project: Path, box: Sandbox, mode: Mode) -> None:
    person = Person("accept")

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        async def as_client() -> None:
            callers.become(callers.Caller("ci", allow=("*",), may_run_agents=False))
            async with Client(
                make_server(engine.open_composer(), engine), mode=mode, elicitation_handler=person
            ) as other:
                _, said = await say(other, "code_execute", code=CODE)
                assert (said["status"], person.asked, dropped) == ("paused", [], [])
                failed, text = await say(other, "engine_approve", execution_id=said["execution_id"])
                assert (failed, "may not use the engine" in str(text)) == (True, True)

        await asyncio.create_task(as_client())

    serve(project, box, work, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_an_agent_that_go_ent_has_started_is_not_asked(
    project: Path, box: Sandbox, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would approve its own calls."""
    monkeypatch.setenv("GO_ENT_RUN", "e/t/1")
    person = Person("accept")

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        _, said = await say(client, "code_execute", code=CODE)
        assert (said["status"], person.asked, dropped) == ("paused", [], [])

    serve(project, box, work, person, mode=mode)


# -- attacks on what comes back, where the answers come with the next request


def test_a_decision_is_about_the_arguments_that_were_shown(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        _, said = await say(client, "code_execute", code=CODE)
        with pytest.raises(ExecutionConflict, match="has changed: nothing was decided"):
            await engine.decide(said["execution_id"], "run/1", approved=True, digest="0" * 64)
        assert list((await engine.status(said["execution_id"])).requests) == ["run/1"]

    serve(project, box, work)


def test_answers_to_other_questions_decide_nothing(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        first, second = [await _raw(client, "code_execute", {"code": code}) for code in (CODE, CODE + "\n")]
        other = dict.fromkeys(_asked(first), YES)
        result = await _raw(client, "code_execute", {"code": CODE + "\n"}, other, second.request_state)
        assert result.structured_content["status"] == "paused"
        assert dropped == []
        mine = dict.fromkeys(_asked(second), YES)
        result = await _raw(client, "code_execute", {"code": CODE + "\n"}, mine, second.request_state)
        assert (result.structured_content["result"], dropped) == ("dropped b", ["b"])
        again = await _raw(client, "code_execute", {"code": CODE + "\n"}, mine, second.request_state)
        assert (again.is_error, dropped) == (True, ["b"])

    serve(project, box, work, Person("cancel"))


def test_a_state_that_this_server_did_not_seal_is_refused(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        asked = await _raw(client, "code_execute", {"code": CODE})
        answers = dict.fromkeys(_asked(asked), YES)
        (row,) = await engine.executions()
        assert row.id not in asked.request_state
        for name, arguments, state in (
            ("code_execute", {"code": CODE}, row.id),
            ("code_execute", {"code": CODE}, asked.request_state[:-4] + "AAAA"),
            ("code_execute", {"code": "1"}, asked.request_state),
            ("tool_run", {"name": "wipe"}, asked.request_state),
        ):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await _raw(client, name, arguments, answers, state)
        assert dropped == []

    serve(project, box, work, Person("cancel"))


YES = Answer(action="accept", content={"approve": True})


async def _raw(
    client: Client[Any],
    name: str,
    arguments: dict[str, Any],
    responses: dict[str, Any] | None = None,
    state: str | None = None,
) -> Any:
    """One leg of a call, with what its client says in answer."""
    return await client.session.call_tool(
        name, arguments, input_responses=responses, request_state=state, allow_input_required=True
    )


def _asked(result: InputRequiredResult) -> list[str]:
    assert result.input_requests is not None
    return list(result.input_requests)


# -- the budget


@pytest.mark.parametrize("mode", ERAS)
def test_what_does_not_fit_the_budget_is_asked_about(project: Path, box: Sandbox, mode: Mode) -> None:
    person, runner = Person(), Scripted("claude-code", says("done", cost_usd=0.9))

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        await say(client, "engine_execute", task="x", budget={"usd": 0.9})
        for action in ACTIONS:
            person.answers, person.asked = [action], []
            failed, said = await say(client, "engine_execute", task="more", budget={"usd": 0.9})
            (shown,) = person.asked
            assert (
                "the budget of the day does not hold this: $0.90 spent or reserved, $0.90 wanted, the limit is $1.00"
                in shown
            )
            assert "more" in shown
            assert (failed, len(runner.seen)) == (action != "accept", 2 if action == "accept" else 1)
            if action == "accept":
                assert "it goes on because that was allowed" in " ".join(said["observations"])
            else:
                assert "the budget of the day" in said["error"]
                assert said["hint"] == "call engine_resume to continue"

    serve(project, box, work, person, runner, mode=mode, config={"budget": {"day": {"usd": 1.0}}})


@pytest.mark.parametrize("mode", ERAS)
def test_each_time_it_is_passed_is_asked_about_with_the_figures_of_then(
    project: Path, box: Sandbox, mode: Mode
) -> None:
    person, runner = Person("accept"), Scripted("claude-code", says("done", cost_usd=0.9))
    plan = [{"id": name, "prompt": name, "budget": {"usd": 0.9}} for name in "abc"]

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        failed, _ = await say(client, "engine_execute", plan=plan, concurrency=1)
        assert (failed, len(runner.seen)) == (False, 3)
        assert ["$0.90 spent" in person.asked[0], "$1.80 spent" in person.asked[-1]] == [True, True]

    serve(project, box, work, person, runner, mode=mode, config={"budget": {"day": {"usd": 1.0}}})


@pytest.mark.parametrize("mode", ERAS)
def test_a_hard_budget_is_no_question(project: Path, box: Sandbox, mode: Mode) -> None:
    person, runner = Person("accept"), Scripted("claude-code", says("done", cost_usd=0.9))

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        await say(client, "engine_execute", task="x", budget={"usd": 0.9})
        failed, _ = await say(client, "engine_execute", task="x", budget={"usd": 0.9})
        assert (failed, person.asked, len(runner.seen)) == (True, [], 1)

    serve(project, box, work, person, runner, mode=mode, config={"budget": {"day": {"usd": 1.0}, "hard": True}})


@pytest.mark.parametrize("mode", ERAS)
def test_who_does_not_wait_is_not_asked(project: Path, box: Sandbox, mode: Mode) -> None:
    """It goes on with a warning, as for a client that can't be asked."""
    person, runner = Person("accept"), Scripted("claude-code", says("done", cost_usd=0.9))

    async def work(client: Client[Any], engine: Engine, dropped: list[str]) -> None:
        await say(client, "engine_execute", task="x", budget={"usd": 0.9})
        _, said = await say(client, "engine_execute", task="x", budget={"usd": 0.9}, wait=False)
        result = await engine.wait(said["execution_id"])
        assert (result.status, person.asked) == ("COMPLETE", [])
        assert "it continues with this warning" in " ".join(result.observations)

    serve(project, box, work, person, runner, mode=mode, config={"budget": {"day": {"usd": 1.0}}})
