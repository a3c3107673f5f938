"""The claude-code runner over the real Claude Code, the newest and an older one; the model is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from go_ent.engine.core.models import FailureKind, Tokens
from tests.e2e.desk import ONE_CALL, ONE_COST, PROMPT, SECRET, USAGE, Desk, claude, desk_of
from tests.e2e.model_server import Drop, Reply, Silence, SlowStream, Status, Text, ToolUse, Usage
from tests.e2e.programs import CLAUDE, OLDER, Programs, wanted

pytestmark = pytest.mark.real

MODEL = "claude-sonnet-4-5"


@pytest.fixture(params=[CLAUDE, OLDER], ids=["newest", "older"])
def package(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def program(programs: Programs, package: str) -> Path:
    return programs.claude if package == CLAUDE else programs.older_claude


@pytest.fixture
def desk(program: Path, tmp_path: Path) -> Iterator[Desk]:
    with desk_of(claude(program, CLAUDE_CODE_MAX_RETRIES="0"), tmp_path) as desk:
        yield desk


def test_it_is_there(desk: Desk, package: str) -> None:
    found = desk.loop.run(desk.runner.available())
    assert (found.ok, found.version) == (True, wanted()[package])
    assert (desk.runner.name, desk.runner.family) == ("claude-code", "mcp")


def test_an_answer_comes_with_its_price_and_its_session(desk: Desk) -> None:
    desk.model.play([Text("HELLO")], usage=USAGE)
    result = desk.ask(PROMPT, system="Be terse.", model=MODEL)
    assert (result.status, result.output, result.error, result.failure) == ("completed", "HELLO", None, None)
    assert (result.runtime, result.model, result.tokens) == ("claude-code", MODEL, ONE_CALL)
    assert result.session_id
    assert result.cost_usd == result.session_cost_usd == pytest.approx(ONE_COST)
    asked = desk.model.asked[0]
    assert asked.model == MODEL
    assert asked.last_text.rstrip().endswith(PROMPT.rstrip())
    assert "Be terse." in asked.system
    assert desk.said() == "HELLO"
    assert desk.sessions == [result.session_id]


def test_tools_really_change_files(desk: Desk) -> None:
    path = desk.project / "a.txt"
    script: list[Reply] = [
        ToolUse("Write", {"file_path": str(path), "content": "one\n"}, text="I write it."),
        ToolUse("Bash", {"command": "cat a.txt; env"}),
        ToolUse("Edit", {"file_path": str(path), "old_string": "one", "new_string": "two"}),
        Text("DONE"),
    ]
    desk.model.play(script, usage=USAGE)
    result = desk.ask("write a.txt")
    assert (result.status, result.failure, result.error) == ("completed", None, None)
    assert result.output.endswith("DONE")
    assert path.read_text() == "two\n"
    assert result.files_modified == ("a.txt",)
    assert result.tokens == Tokens(input=4000, output=200, cache_read=800)
    assert [one.text for one in desk.heard if one.kind == "tool"] == ["Write", "Bash", "Edit"]
    environment = desk.model.asked[2].last_text
    assert environment.startswith("one")
    assert f"HOME={desk.home}" in environment
    assert SECRET not in environment


def test_what_only_reads_changes_nothing(desk: Desk) -> None:
    path = desk.project / "a.txt"
    desk.model.play([ToolUse("Write", {"file_path": str(path), "content": "one\n"}), Text("I could not write it.")])
    result = desk.ask("write a.txt", access="read", needs_session=True)
    assert not path.exists()
    assert (result.status, result.failure, result.files_modified) == ("failed", "permission", ())
    assert result.output == "I could not write it."
    assert not set(desk.model.asked[0].tools) & {"Write", "Edit", "Bash", "WebFetch"}


def test_an_edit_with_our_server_attached_is_complete_and_its_price_known(desk: Desk) -> None:
    path = desk.project / "a.txt"
    desk.model.play([ToolUse("Write", {"file_path": str(path), "content": "one\n"}), Text("DONE")], usage=USAGE)
    result = desk.ask("write a.txt", model=MODEL, serve_tools=True)
    assert (result.status, result.failure, result.error, result.output) == ("completed", None, None, "DONE")
    assert (path.read_text(), result.files_modified, result.observations) == ("one\n", ("a.txt",), ())
    assert result.tokens == Tokens(input=2000, output=100, cache_read=400)
    assert result.cost_usd == pytest.approx(2 * ONE_COST)


def test_the_agent_authors_and_uses_composed_tools(desk: Desk) -> None:
    desk.authors_and_uses_a_tool()


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (Status(401, "no"), "auth"),
        (Status(429, "no"), "rate_limit"),
        (Status(529, "no"), "unavailable"),
        (Status(400, "no"), "task"),
        (Drop(), "unavailable"),
    ],
)
def test_an_error_of_the_model_is_a_failure_of_its_kind(desk: Desk, reply: Reply, failure: FailureKind) -> None:
    desk.model.play(lambda asked: reply)
    result = desk.ask("hi")
    assert (result.status, result.failure, result.output) == ("failed", failure, "")
    assert result.error
    assert not result.cost_usd


def test_a_wrong_key_is_not_tried_again_for_minutes(program: Path, tmp_path: Path) -> None:
    with desk_of(claude(program), tmp_path) as desk:
        desk.model.play(lambda asked: Status(401, "no"))
        result = desk.ask("hi")
        assert (result.status, result.failure) == ("failed", "auth")
        assert len(desk.model.asked) < 5


def test_a_model_that_says_nothing_is_silence(desk: Desk) -> None:
    desk.model.play([Silence()])
    result = desk.ask("hi", silence_s=5.0)
    assert (result.status, result.failure, result.cost_usd) == ("failed", "silence", None)
    assert desk.model.asked[0].left.wait(10)


def test_an_interrupt_in_the_middle_of_an_answer_keeps_what_came(desk: Desk) -> None:
    desk.model.play([SlowStream(("part one ", "part two "), ends=False)])
    result = desk.ask_until(lambda: "part two" in desk.said(), desk.interrupt)
    assert (result.status, result.failure) == ("interrupted", "interrupted")
    assert "part one part two" in result.output
    assert result.session_id
    assert result.cost_usd is None
    assert desk.model.asked[0].left.wait(10)


def test_nothing_that_the_agent_started_outlives_its_run(desk: Desk) -> None:
    desk.outlived_by_nothing("Bash")


def test_a_session_goes_on_and_costs_only_what_is_new(desk: Desk) -> None:
    desk.model.play([Text("I will remember."), Text("It was 42.")], usage=USAGE)
    first = desk.ask("remember 42", model=MODEL)
    before = {"session_id": first.session_id, "session_cost_usd": first.session_cost_usd}
    second = desk.ask("what was it?", model=MODEL, **before)
    assert (first.status, second.status, second.output) == ("completed", "completed", "It was 42.")
    assert second.session_id == first.session_id
    said = "\n".join(desk.model.asked[1].said)
    assert said.index("remember 42") < said.index("I will remember.") < said.index("what was it?")
    assert (first.tokens, second.tokens) == (ONE_CALL, ONE_CALL)
    assert first.cost_usd == pytest.approx(ONE_COST)
    assert second.cost_usd == pytest.approx(ONE_COST)
    assert second.session_cost_usd == pytest.approx(2 * ONE_COST)


def test_an_interrupted_session_goes_on(desk: Desk, package: str) -> None:
    desk.model.play([SlowStream(("part one ", "part two "), ends=False), Text("It goes on.")])
    first = desk.ask_until(lambda: "part two" in desk.said(), desk.interrupt)
    second = desk.ask("go on", session_id=first.session_id)
    assert (second.status, second.output) == ("completed", "It goes on.")
    said = "\n".join(desk.model.asked[1].said)
    assert "tell" in said
    assert package == OLDER or "part one part two" in said, "an older one forgets a reply that was cut off"


def test_a_session_that_is_not_there_is_a_failure(desk: Desk) -> None:
    result = desk.ask("go on", session_id="00000000-0000-4000-8000-000000000000")
    assert (result.status, result.failure) == ("failed", "task")
    assert "No conversation found" in (result.error or "")


def test_an_answer_in_a_shape(desk: Desk) -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    desk.model.play([ToolUse("StructuredOutput", {"sum": 3})])
    result = desk.ask("1 + 2", json_schema=schema, access="none")
    assert (result.status, result.failure, result.structured) == ("completed", None, {"sum": 3})
    assert set(desk.model.asked[0].tools) == {"StructuredOutput"}


def test_a_limit_in_dollars_ends_it(desk: Desk) -> None:
    desk.model.play([ToolUse("Bash", {"command": "true"}), Text("more")], usage=Usage(input=100_000, output=1000))
    result = desk.ask("spend", model=MODEL, max_usd=0.05)
    assert (result.status, result.failure) == ("failed", "budget")
    assert result.cost_usd is not None
    assert result.cost_usd > 0.05
    assert len(desk.model.asked) == 1


@pytest.mark.parametrize("package", [OLDER])
@pytest.mark.parametrize("access", ["read", "none"])
def test_one_without_agents_for_its_server_is_asked_in_the_other_way(desk: Desk, access: str) -> None:
    desk.model.play([Text("HELLO")], usage=USAGE)
    result = desk.ask(PROMPT, access=access, model="sonnet")
    assert (result.status, result.output, result.error, result.tokens) == ("completed", "HELLO", None, ONE_CALL)
    assert "claude mcp serve could not be used" in result.observations[0]


@pytest.mark.parametrize("package", [CLAUDE])
class TestByMcp:
    """`claude mcp serve` and its Agent: for text, and for what only reads. An older one has no agents for it."""

    @pytest.mark.parametrize("access", ["read", "none"])
    def test_an_answer(self, desk: Desk, access: str) -> None:
        desk.model.play([Text("HELLO"), Text("AGAIN")], usage=USAGE)
        result = desk.ask(PROMPT, system="Be terse.", access=access)
        assert (result.status, result.output, result.error, result.observations) == ("completed", "HELLO", None, ())
        assert (result.tokens, result.cost_usd, result.session_id) == (ONE_CALL, None, None)
        asked = desk.model.asked[0]
        assert "cc_entrypoint=mcp" in asked.system
        assert PROMPT.rstrip() in asked.last_text
        assert "Be terse." in asked.last_text + asked.system
        assert desk.ask("again", access=access).output == "AGAIN"

    def test_it_reads_and_does_not_write(self, desk: Desk) -> None:
        path = desk.project / "a.txt"
        path.write_text("what is in it")
        script: list[Reply] = [
            ToolUse("Read", {"file_path": str(path)}),
            ToolUse("Write", {"file_path": str(path), "content": "changed"}),
            Text("I could not write it."),
        ]
        desk.model.play(script)
        result = desk.ask("change a.txt", access="read")
        assert "what is in it" in desk.model.asked[1].last_text
        assert path.read_text() == "what is in it"
        assert (result.status, result.failure, result.output) == ("failed", "permission", "I could not write it.")

    @pytest.mark.parametrize(("status", "failure"), [(401, "auth"), (429, "rate_limit"), (529, "unavailable")])
    def test_an_error_of_the_model_is_a_failure_of_its_kind(
        self, desk: Desk, status: int, failure: FailureKind
    ) -> None:
        desk.model.play(lambda asked: Status(status, "no"))
        result = desk.ask("hi", access="read")
        assert (result.status, result.failure) == ("failed", failure)

    def test_a_model_that_says_nothing_is_silence(self, desk: Desk) -> None:
        desk.model.play([Silence()])
        result = desk.ask("hi", access="read", silence_s=8.0)
        assert (result.status, result.failure) == ("failed", "silence")
        assert desk.model.asked[0].left.wait(10)

    def test_an_interrupt_ends_what_the_model_says(self, desk: Desk) -> None:
        desk.model.play([SlowStream(("part one ",), ends=False)])
        result = desk.ask_until(lambda: desk.model.asked, desk.interrupt, access="read")
        assert (result.status, result.failure) == ("interrupted", "interrupted")
        assert desk.model.asked[0].left.wait(10)
