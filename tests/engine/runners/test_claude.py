"""The claude-code runtime, against a stand-in that says what the real program was recorded to say."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.core.config import RunnerConfig
from go_ent.engine.core.models import FailureKind, RunRequest, RunResult, RunStatus, Tokens
from go_ent.engine.processes.child import Ended, EndedBy
from go_ent.engine.runners.base.runner import SURVIVABLE, Progress, Runner
from go_ent.engine.runners.claude.runner import ClaudeRunner, way
from go_ent.engine.runners.claude.stream import MAX_OUTPUT, ClaudeTranscript, api_failure, relative
from go_ent.engine.runners.claude.verdict import verdict
from tests.support import ROOT
from tests.support.rows import each

HERE = ROOT / "tests" / "support"
RECORDINGS = HERE / "recordings" / "claude"
STANDIN = HERE / "standins" / "claude.py"
ONE = Tokens(input=1000, output=50, cache_read=200)
TWO = Tokens(input=2000, output=100, cache_read=400)
EXECUTION = uuid.uuid4().hex  # processes are found by it, on the whole machine
RUN = f"{EXECUTION}/t/1"
SESSION = "5e9c61ad-82cc-47f3-84c4-aaefda608a52"
SECRET = "sk-very-secret-key"
SHAPE = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


ARRAY = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array"}}}
LONG = "ä" * 100_000
PROMPT = '--version; "quoted" \\ $HOME `x`\nünï\n'
# Runs that several tests look at: the recording, unless the prompt is another, and what is asked.
RUNS: dict[str, dict[str, Any]] = {
    "asked": {"prompt": PROMPT, "system": "--bare", "model": "sonnet", "max_usd": 0.25},
    "slash": {"prompt": "/compact"},
    "long": {"prompt": "say answer", "system": LONG},
    "edits": {"prompt": "say answer", "access": "edit"},
    "reads": {"prompt": "say shape", "access": "read", "needs_session": True},
    "nothing_at_all": {"prompt": "say shape", "access": "none", "needs_session": True},
    "beyond": {
        "prompt": "say aborted_stream",
        "access": "read",
        "needs_session": True,
    },  # a Claude Code that does not know --tools
    "edit": {},
    "shape": {"access": "none", "json_schema": SHAPE},
    "kept_shape": {"prompt": "say shape", "access": "none", "json_schema": SHAPE, "needs_session": True},
    "wrong_shape": {
        "prompt": "say shape",
        "access": "none",
        "json_schema": {"type": "object", "properties": {"name": {"type": "integer"}}},
    },
    "array": {"prompt": "say shape", "access": "none", "json_schema": ARRAY},
    "first": {},
    "resumed": {"session_id": SESSION, "session_cost_usd": 0.00504},
    "resumed_blind": {"prompt": "say resumed", "session_id": SESSION},
    "resumed_cheaper": {"prompt": "say resumed", "session_id": SESSION, "session_cost_usd": 5.0},
    "unpriced": {},
    "noise": {},
    "leaks": {},
}


def ask(prompt: str = "do it", **fields: Any) -> RunRequest:
    given = {
        "execution_id": EXECUTION,
        "task_id": "t",
        "prompt": prompt,
        "cwd": "/project",
        "silence_s": 20,
        "timeout_s": 60,
    }
    return RunRequest(**{**given, **fields})


class Scene:
    """A project, the stand-in as its Claude Code, and what was seen of both."""

    def __init__(self, tmp_path: Path) -> None:
        self.project = tmp_path / "project"
        self.project.mkdir()
        (self.project / "notes.txt").write_text("nothing for everybody")
        self.log_file, self.child_file = tmp_path / "log.jsonl", tmp_path / "child"
        self.seen: list[Progress] = []

    def runner(self, says: str = "answer", *, host: dict[str, str] | None = None, **config: Any) -> ClaudeRunner:
        given = {
            "STANDIN_SAYS": says,
            "STANDIN_LOG": str(self.log_file),
            "STANDIN_CHILD": str(self.child_file),
            **config.pop("set", {}),
        }
        command = config.pop("command", (sys.executable, "-I", "-S", str(STANDIN)))
        home = {
            "PATH": os.environ["PATH"],
            "HOME": "/home/me",
            "DATABASE_PASSWORD": "not for agents",
            "ANTHROPIC_API_KEY": SECRET,
        }
        return ClaudeRunner(
            RunnerConfig(command=command, set=given, **config), project=self.project, host_env={**home, **(host or {})}
        )

    def request(self, prompt: str = "do it", **fields: Any) -> RunRequest:
        return ask(prompt, **{"cwd": str(self.project), **fields})

    def run(self, runner: ClaudeRunner, *requests: RunRequest) -> list[RunResult]:
        """Runs them one after another."""

        async def main() -> list[RunResult]:
            try:
                return [await runner.execute(request, self.seen.append) for request in requests]
            finally:
                await runner.close()

        return asyncio.run(main())

    def one(self, runner: ClaudeRunner, **fields: Any) -> RunResult:
        return self.run(runner, self.request(**fields))[0]

    def meanwhile(
        self,
        runner: ClaudeRunner,
        act: Callable[[asyncio.Task[RunResult]], Awaitable[object]],
        *,
        at: Callable[[], object],
        **fields: Any,
    ) -> RunResult:
        """Runs it, and does something as soon as *at* is true."""

        async def main() -> RunResult:
            task = asyncio.create_task(runner.execute(self.request(**fields), self.seen.append))
            try:
                while not at():
                    assert not task.done(), task
                    await asyncio.sleep(0.005)
                await act(task)
                return await task
            finally:
                await runner.close()

        return asyncio.run(main())

    def log(self, key: str) -> list[dict[str, Any]]:
        lines = self.log_file.read_text().splitlines() if self.log_file.exists() else []
        return [entry for entry in map(json.loads, lines) if key in entry]

    @property
    def started(self) -> dict[str, Any]:
        """What the one program that was started was given."""
        (entry,) = self.log("argv")
        return entry

    def said(self, kind: str) -> list[str]:
        return [progress.text for progress in self.seen if progress.kind == kind]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@dataclass
class Done:
    """A run that has ended: its result, what was seen of it meanwhile, and what the program was given."""

    result: RunResult
    seen: list[Progress]
    given: dict[str, Any]

    @property
    def argv(self) -> list[str]:
        return list(self.given["argv"])

    def of(self, kind: str) -> list[Progress]:
        return [progress for progress in self.seen if progress.kind == kind]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """All of `RUNS` and `OUTCOMES`, on one runner, some of them side by side."""
    scene = Scene(tmp_path_factory.mktemp("done"))
    seen: dict[str, list[Progress]] = {}

    async def main() -> list[RunResult]:
        runner, turn = scene.runner(), asyncio.Semaphore(10)

        async def one(name: str, fields: dict[str, Any]) -> RunResult:
            seen[name] = []
            async with turn:
                return await runner.execute(
                    scene.request(**{"prompt": f"say {name}", "task_id": name, **fields}), seen[name].append
                )

        try:
            return await asyncio.gather(
                *(one(*case) for case in [*((case[0], case[1]) for case in reversed(OUTCOMES)), *RUNS.items()])
            )
        finally:
            await runner.close()

    results = {result.task_id: result for result in asyncio.run(main())}
    given = {entry["env"]["GO_ENT_RUN"].split("/")[1]: entry for entry in scene.log("argv")}
    return {name: Done(result, seen[name], given[name]) for name, result in results.items()}


def replay(name: str, **options: Any) -> ClaudeTranscript:
    """A recording, read to its end."""
    said = ClaudeTranscript(options.pop("emit", lambda _: None), **options)
    for line in (RECORDINGS / f"{name}.jsonl").read_bytes().splitlines():
        said.line(line)
    return said


def ended(by: EndedBy = "exit", code: int | None = 0) -> Ended:
    return Ended(by, code, "", 5)


# How a run is asked


def test_it_is_a_runner(scene: Scene) -> None:
    runner = scene.runner()
    assert isinstance(runner, Runner)
    assert (runner.name, runner.family) == ("claude-code", "mcp")


async def test_its_version_is_asked_for_once(scene: Scene) -> None:
    runner = scene.runner()
    assert [
        (found.ok, found.version) for found in await asyncio.gather(*(runner.available() for _ in range(3)))
    ] == 3 * [(True, "2.1.325")]
    assert len(scene.log("version")) == 1


def test_a_program_that_is_not_there_is_named_with_what_to_do(scene: Scene) -> None:
    runner = scene.runner(command=("no-such-claude",))
    found = asyncio.run(runner.available())
    assert not found.ok
    assert "no-such-claude" in found.reason
    assert "npm install" in found.fix
    assert scene.one(scene.runner(command=("no-such-claude",))).failure == "not_found"


def test_a_program_that_tells_no_version_is_not_available(scene: Scene) -> None:
    found = asyncio.run(scene.runner(command=(sys.executable, "-c", "import sys; sys.exit('broken')")).available())
    assert not found.ok
    assert "exit code 1" in found.reason
    assert "broken" in found.reason


WAYS: list[tuple[str, dict[str, Any]]] = [
    ("mcp", {"access": "read"}),
    ("mcp", {"access": "none"}),
    ("mcp", {"access": "read", "model": "haiku", "system": "be brief", "timeout_s": 5}),
    ("headless", {"access": "edit"}),
    ("headless", {"access": "read", "needs_session": True}),
    ("headless", {"access": "read", "session_id": SESSION}),
    ("headless", {"access": "read", "max_usd": 1.0}),
    ("headless", {"access": "read", "max_tokens": 1000}),
    ("headless", {"access": "none", "json_schema": SHAPE}),
    ("headless", {"access": "read", "serve_tools": True}),
    ("headless", {"access": "read", "model": "claude-sonnet-4-5"}),
]


@each(("expected", "fields"), WAYS)
def test_the_way_is_chosen_by_what_the_task_needs(expected: str, fields: dict[str, Any]) -> None:
    assert way(ask(**fields)) == expected
    assert way(ask(**fields), own_flags=True) == "headless"


def test_the_prompt_is_on_stdin_and_nothing_that_others_wrote_can_be_a_flag(done: dict[str, Done]) -> None:
    run = done["asked"]
    assert run.result.ok
    assert run.given["stdin"] == PROMPT
    assert run.argv[:5] == ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    assert {"--append-system-prompt=--bare", "--model=sonnet", "--max-budget-usd=0.250000"} <= set(run.argv)
    assert all(flag.startswith("-") for flag in run.argv if flag != "stream-json")
    (new,) = [flag for flag in run.argv if flag.startswith("--session-id=")]
    assert uuid.UUID(new.partition("=")[2]).version == 4


def test_a_prompt_is_no_command_of_claudes(done: dict[str, Done]) -> None:
    assert done["slash"].given["stdin"] == " /compact"


def test_what_is_too_long_for_an_argument_is_in_a_file(done: dict[str, Done]) -> None:
    file = done["long"].given["files"]["--append-system-prompt-file"]
    assert (file["text"], file["mode"]) == (LONG, "0o600")
    assert not Path(file["path"]).exists()


ACCESS: list[tuple[str, set[str], set[str]]] = [
    (
        "edits",
        {"--permission-mode=acceptEdits", "--allowedTools=Bash,Read,Glob,Grep,WebFetch,WebSearch"},
        {"--tools=", "--strict-mcp-config"},
    ),
    (
        "reads",
        {"--permission-mode=dontAsk", "--tools=Glob,Grep,Read", "--strict-mcp-config"},
        {"--permission-mode=acceptEdits"},
    ),
    (
        "nothing_at_all",
        {"--permission-mode=dontAsk", "--tools=", "--strict-mcp-config"},
        {"--permission-mode=acceptEdits"},
    ),
]


@pytest.mark.parametrize(("name", "has", "has_not"), ACCESS)
def test_the_access_decides_what_it_may_use(done: dict[str, Done], name: str, has: set[str], has_not: set[str]) -> None:
    assert has <= set(done[name].argv)
    assert not has_not & set(done[name].argv)


def test_flags_of_the_users_own_are_passed_on_but_do_not_widen_an_access(scene: Scene) -> None:
    runner = scene.runner(args=("--max-turns", "3", "--tools=Bash"))
    scene.one(runner, access="read")
    argv = scene.started["argv"]
    assert argv[-5:] == ["--max-turns", "3", "--tools=Bash", "--tools=Glob,Grep,Read", "--permission-mode=dontAsk"]


def test_an_agent_with_tools_beyond_its_access_is_ended(done: dict[str, Done]) -> None:
    result = done["beyond"].result
    assert (result.status, result.failure) == ("failed", "permission")
    assert "Bash" in (result.error or "")


def test_our_server_is_attached_by_a_file_that_nobody_else_reads(scene: Scene) -> None:
    settings = {"GO_ENT__GRANTS__ALLOW": '["a.*"]'}
    host = {"GO_ENT_DATA": "/data", "GO_ENT_RUN": "outer", "GO_ENT__COMMANDS__C__SET__KEY": "secret", **settings}
    result = scene.one(scene.runner(host=host), serve_tools=True)
    assert result.failure == "mcp_server"  # the recorded run had none
    file = scene.started["files"]["--mcp-config"]
    server = json.loads(file["text"])["mcpServers"]["go-ent"]
    assert server["command"] == sys.executable
    assert server["args"][0] == "-I"
    assert server["args"][-2:] == [str(scene.project), "serve"]
    assert server["env"] == {"GO_ENT_DATA": "/data", **settings}  # what its user grants, and no secret
    assert file["mode"] == "0o600"
    assert not Path(file["path"]).parent.exists()
    argv = scene.started["argv"]
    assert "--strict-mcp-config" in argv
    assert any(flag.startswith("--allowedTools=") and flag.endswith(",mcp__go-ent") for flag in argv)
    waits = {"MCP_TIMEOUT": "120000", "MCP_CONNECT_TIMEOUT_MS": "120000", "MCP_CONNECTION_NONBLOCKING": "0"}
    assert scene.started["env"].items() >= waits.items()


def test_its_environment_is_what_it_needs_and_nothing_of_an_outer_claude(scene: Scene) -> None:
    host = {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "CLAUDE_CODE_MAX_RETRIES": "7",
        "CLAUDE_CODE_SESSION_ID": "outer",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDECODE": "1",
        "AWS_REGION": "eu-west-1",
        "OTHER": "x",
        "GO_ENT_DATA": "/data",
    }
    scene.one(scene.runner(host=host, env=("AWS_REGION",)), access="none", max_tokens=500)
    env = scene.started["env"]
    assert {"PATH", "HOME", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "AWS_REGION"} <= env.keys()
    assert (
        not {
            "DATABASE_PASSWORD",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_CODE_ENTRYPOINT",
            "CLAUDECODE",
            "OTHER",
            "GO_ENT_DATA",
        }
        & env.keys()
    )
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "7"
    assert env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "500"
    for name in ("NONESSENTIAL_TRAFFIC", "BACKGROUND_TASKS", "FILE_MENTIONS", "ATTACHMENTS"):
        assert env[f"CLAUDE_CODE_DISABLE_{name}"] == "1"
    assert env["DISABLE_AUTOUPDATER"] == "1"


BAD: list[dict[str, Any]] = [
    {"prompt": "  \n"},
    {"session_id": "--dangerously-skip-permissions"},
    {"session_id": "not-a-uuid"},
    {"session_id": "{5e9c61ad-82cc-47f3-84c4-aaefda608a52}"},
    {"model": "--bare"},
    {"model": "a\nb"},
    {"json_schema": {"type": "nonsense"}},
    {"max_usd": 0.0},
]


@pytest.mark.parametrize("fields", BAD)
def test_what_must_not_reach_a_command_line_is_refused_before_a_start(scene: Scene, fields: dict[str, Any]) -> None:
    result = scene.one(scene.runner(), **fields)
    assert result.status == "failed"
    assert result.failure in {"task", "budget"}
    assert result.error
    assert not scene.log("argv")


def test_the_configurations_model_is_used_if_the_request_names_none(scene: Scene) -> None:
    scene.one(scene.runner(model="opus"), needs_session=True)
    assert "--model=opus" in scene.started["argv"]


# What it comes to: the exit code says little


OUTCOMES: list[tuple[str, dict[str, Any], RunStatus, FailureKind | None, str, str]] = [
    ("answer", {}, "completed", None, "", "STREAMED"),
    ("error_401", {}, "failed", "auth", "401", ""),
    ("no_key", {}, "failed", "auth", "Not logged in", ""),
    ("error_429", {}, "failed", "rate_limit", "429", ""),
    ("error_529", {}, "failed", "unavailable", "529", ""),
    ("refused", {}, "failed", "unavailable", "ECONNREFUSED", ""),
    ("error_400", {}, "failed", "task", "400", ""),
    ("max_turns", {}, "failed", "budget", "maximum number of turns (1)", "Thinking aloud. "),
    ("max_budget", {}, "failed", "budget", "maximum budget ($0.001)", "Thinking aloud. "),
    ("denied", {}, "failed", "permission", "Write: Claude requested permissions", "DONE"),
    (
        "no_such_tool",
        {"access": "read", "needs_session": True},
        "failed",
        "permission",
        "Write, which the task's access",
        "DONE",
    ),
    ("no_session", {"session_id": SESSION}, "failed", "task", "No conversation found", ""),
    ("bad_flag", {}, "failed", "task", "unknown option '--bogus'", ""),
    ("broken", {}, "failed", "crash", "Cannot find module", ""),
    ("nothing", {}, "failed", "empty", "without a word", ""),
    ("terminated", {}, "failed", "crash", "exit code 143", "tick tick tick"),
    ("cut", {}, "failed", "crash", "without an answer", "STREAMED"),
    ("dead_server", {"serve_tools": True}, "failed", "mcp_server", "go-ent", ""),
    ("no_shape", {"access": "none", "json_schema": SHAPE}, "failed", "task", "in text", "nope"),
    ("retry_401", {}, "failed", "auth", "401", ""),
    ("flood", {}, "failed", "output", "more than is read", ""),
    # What does not end by itself.
    ("lingering", {"timeout_s": 1.5}, "completed", None, "", "STREAMED"),
    ("retrying", {"silence_s": 1.5}, "failed", "rate_limit", "trying again: rate_limit (HTTP 429)", ""),
    ("silent", {"silence_s": 1.5}, "failed", "silence", "1.5 s without a word", ""),
    ("aborted_stream", {"silence_s": 1.5}, "failed", "silence", "1.5 s without a word", "tick tick tick"),
    ("aborted_tool", {"timeout_s": 1.5}, "timeout", "timeout", "1.5 s", "Thinking aloud."),
]


@pytest.mark.parametrize(
    ("says", "fields", "status", "failure", "error", "output"), OUTCOMES, ids=[case[0] for case in OUTCOMES]
)
def test_outcomes(
    done: dict[str, Done],
    says: str,
    fields: object,
    status: RunStatus,
    failure: FailureKind | None,
    error: str,
    output: str,
) -> None:
    result = done[says].result
    assert (result.status, result.failure) == (status, failure), result
    assert error in (result.error or "")
    assert (result.error is None) == (status == "completed")
    assert result.output.startswith(output) if output else result.output == ""
    assert result.runtime == "claude-code"


def test_an_answer_comes_with_its_price_its_session_and_what_it_wrote(done: dict[str, Done]) -> None:
    run, result = done["edit"], done["edit"].result
    assert result.tokens == TWO
    assert result.cost_usd == result.session_cost_usd == pytest.approx(0.01008)
    assert result.model == "claude-opus-5-5"
    assert result.files_modified == ("/project/sub/a.txt",)  # it was recorded in another folder
    assert (run.seen[0].kind, run.seen[0].data["session_id"]) == ("session", result.session_id)
    (tool,) = run.of("tool")
    assert tool.data == {"name": "Write", "input": {"file_path": "/project/sub/a.txt", "content": "hi"}}
    said = [progress.text for progress in run.of("text")]
    assert said[0] == "Thinking aloud. "
    assert "".join(said) == "Thinking aloud. " + result.output  # each word once, though it comes twice


def test_files_are_told_as_seen_from_the_folder_and_only_if_they_were_written() -> None:
    assert replay("edit").files == ("/project/sub/a.txt",)
    assert relative("/project/sub/a.txt", "/project") == "sub/a.txt"
    assert relative("/projector/a.txt", "/project") == "/projector/a.txt"
    assert replay("denied").files == ()


def test_an_answer_in_a_shape(done: dict[str, Done]) -> None:
    result = done["shape"].result
    assert (result.status, result.structured) == ("completed", {"name": "bob"})
    assert f"--json-schema={json.dumps(SHAPE)}" in done["shape"].argv


def test_an_answer_in_the_wrong_shape_is_a_failure(done: dict[str, Done]) -> None:
    result = done["wrong_shape"].result
    assert (result.status, result.failure, result.structured) == ("failed", "task", None)
    assert "name" in (result.error or "")


def test_a_shape_that_is_no_object_is_asked_for_within_one(done: dict[str, Done]) -> None:
    (flag,) = [flag for flag in done["array"].argv if flag.startswith("--json-schema=")]
    asked = json.loads(flag.partition("=")[2])
    assert asked["properties"]["value"] == {"$ref": "#/$defs/n"}
    assert asked["$defs"] == {"n": {"type": "array"}}


def test_a_resumed_session_costs_only_what_is_new(done: dict[str, Done]) -> None:
    first, second = done["first"].result, done["resumed"].result
    assert f"--resume={SESSION}" in done["resumed"].argv
    assert not any(flag.startswith("--session-id") for flag in done["resumed"].argv)
    assert (first.output, second.output) == ("ONE", "TWO")
    assert first.cost_usd == second.cost_usd == pytest.approx(0.00504)
    assert second.session_cost_usd == pytest.approx(0.01008)
    assert first.tokens == second.tokens == ONE


def test_a_resumed_session_of_unknown_cost_has_an_unknown_cost(done: dict[str, Done]) -> None:
    result = done["resumed_blind"].result
    assert result.cost_usd is None
    assert result.session_cost_usd == pytest.approx(0.01008)
    assert any("cost before is not known" in note for note in result.observations)
    assert done["resumed_cheaper"].result.cost_usd == 0.0


def test_a_session_that_is_not_there_is_not_kept(done: dict[str, Done]) -> None:
    assert done["no_session"].result.session_id is None
    assert not done["no_session"].of("session")


def test_a_plain_question_leaves_no_session(done: dict[str, Done]) -> None:
    assert "--no-session-persistence" in done["shape"].argv
    assert done["shape"].result.session_id is None
    assert not done["shape"].of("session")
    assert done["kept_shape"].result.session_id is not None


def test_what_a_budget_stopped_has_cost_what_it_cost(done: dict[str, Done]) -> None:
    assert done["max_budget"].result.cost_usd == pytest.approx(0.00504)
    assert done["max_budget"].result.tokens == ONE  # its own `usage` says 0


def test_a_price_that_was_guessed_is_not_known(done: dict[str, Done]) -> None:
    result = done["unpriced"].result
    assert (result.status, result.tokens, result.cost_usd) == ("completed", ONE, None)
    assert "the price of claude-opus-5-5" in result.observations[0]


def test_a_request_that_was_never_answered_may_have_cost_something(done: dict[str, Done]) -> None:
    result = done["silent"].result
    assert (result.tokens, result.cost_usd) == (Tokens(), None)
    assert "a reply was still to come: what the run cost is not known" in result.observations[-1]


def test_what_subagents_took_is_counted() -> None:
    assert replay("subagent").tokens == Tokens(input=3000, output=150, cache_read=600)


class TestOlder:
    """2.1.197: parts of a reply do not name it, a server that is slow to start stays `pending`, and a result counts
    by session.
    """

    def test_a_reply_is_counted_once(self) -> None:
        said = replay("2.1.197_answer")
        assert (said.output, said.tokens, said.uncounted) == ("HELLO", ONE, Tokens())
        assert said.answer is not None
        assert said.answer.total_usd == pytest.approx(0.00381)

    def test_a_reply_that_was_cut_off_is_still_told_of(self) -> None:
        said = replay("2.1.197_aborted")
        cut = Tokens(input=1000, output=1, cache_read=200)
        assert (said.output, said.tokens, said.uncounted) == ("part one part two ", cut, cut)

    def test_a_finished_edit_is_complete_though_its_server_is_pending(self) -> None:
        said = replay("2.1.197_pending", server="go-ent")
        assert verdict(said, ended(), ask(access="edit"), "").status == "completed"
        assert (said.tokens, said.uncounted, said.files) == (TWO, Tokens(), ("/project/a.txt",))
        assert said.notes == (
            "the MCP server go-ent was still starting when claude began, and none of its tools was used",
        )

    def test_what_subagents_took_is_counted(self) -> None:
        assert replay("2.1.197_subagent").tokens == Tokens(input=3000, output=150, cache_read=600)

    @pytest.mark.parametrize("before", [0.25, 0.001, None])
    def test_of_a_resumed_session_it_tells_what_the_run_cost(self, scene: Scene, before: float | None) -> None:
        result = scene.one(
            scene.runner(), prompt="say 2.1.197_answer", access="edit", session_id=SESSION, session_cost_usd=before
        )
        assert (result.status, result.tokens) == ("completed", ONE)
        assert result.cost_usd == pytest.approx(0.00381)
        assert result.session_cost_usd == (None if before is None else pytest.approx(before + 0.00381))


def test_of_several_results_the_last_one_counts_and_no_text_is_lost() -> None:
    said = replay("first")
    for line in (RECORDINGS / "resumed.jsonl").read_bytes().splitlines():
        said.line(line)
    assert said.output == "ONE\n\nTWO"
    assert said.tokens == TWO
    assert said.answer is not None
    assert said.answer.total_usd == pytest.approx(0.01008)


def test_lines_that_are_no_events_are_told_of_but_not_all(done: dict[str, Done]) -> None:
    result = done["noise"].result
    assert (result.status, result.output) == ("completed", "STREAMED")
    assert len(result.observations) == 4
    assert "A new version is available" in result.observations[0]
    assert result.observations[-1].startswith("52 lines")


def test_no_secret_is_in_a_result(done: dict[str, Done]) -> None:
    result = done["leaks"].result
    assert "of no use" in (result.error or "")
    assert SECRET not in result.model_dump_json()


def test_a_limit_on_what_it_writes_ends_it_when_more_would_follow() -> None:
    stopped: list[bool] = []
    said = replay("edit", max_tokens=49, give_up=lambda: stopped.append(True))
    assert stopped == [True]
    assert verdict(said, ended("interrupted"), ask(), "").failure == "budget"
    said = replay("answer", max_tokens=49, give_up=lambda: stopped.append(True))
    assert stopped == [True]  # it was the last reply: all is paid, and the answer is there
    assert verdict(said, ended(), ask(), "").status == "completed"
    assert "more than its limit of 49" in said.notes[0]


def test_a_server_is_dead_by_its_status_until_it_was_used() -> None:
    said = ClaudeTranscript(lambda _: None, server="go-ent")
    said.line(
        b'{"type": "system", "subtype": "init", "session_id": "s", "mcp_servers": [{"name": "go-ent", '
        b'"status": "needs-auth"}]}'
    )
    assert said.dead_server == "the MCP server go-ent was not attached: its status is needs-auth"
    said.line(
        b'{"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "1", "name": '
        b'"mcp__go-ent__tool_run", "input": {}}]}}'
    )
    said.line(
        b'{"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]}}'
    )
    assert said.dead_server is None


@each(
    ("status", "word", "text", "failure"),
    [
        (403, "", "", "auth"),
        (400, "", "Your credit balance is too low", "auth"),
        (500, "rate_limit", "", "unavailable"),
        (404, "", "no such model", "task"),
        (None, "overloaded", "", "unavailable"),
        (None, "", "Claude AI usage limit reached", "rate_limit"),
        (None, "", "fetch failed: ETIMEDOUT", "unavailable"),
        (None, "", "the prompt is too long", "task"),
    ],
)
def test_errors_of_the_api_by_who_must_act(status: int | None, word: str, text: str, failure: FailureKind) -> None:
    assert api_failure(status, word, text) == failure
    assert (failure in SURVIVABLE) == (failure != "task")


# Interrupts, and what is left


def test_an_interrupt_keeps_what_was_said(scene: Scene) -> None:
    runner = scene.runner("aborted_stream")
    result = scene.meanwhile(runner, lambda _: runner.interrupt(RUN), at=lambda: "tick " in scene.said("text"))
    assert (result.status, result.failure) == ("interrupted", "interrupted")
    assert result.output.startswith("tick tick tick")
    assert result.session_id is not None
    # The result says 0 of both; the reply that was cut off had been begun.
    assert result.tokens == Tokens(input=1000, output=1, cache_read=200)
    assert (result.cost_usd, result.session_cost_usd) == (None, None)
    assert not asyncio.run(runner.interrupt(RUN))


def test_an_interrupt_within_a_tool_knows_what_was_spent(scene: Scene) -> None:
    runner = scene.runner("aborted_tool")
    result = scene.meanwhile(runner, lambda _: runner.interrupt(RUN), at=lambda: scene.said("tool"))
    assert (result.status, result.output, result.tokens) == ("interrupted", "Thinking aloud. ", ONE)
    assert result.cost_usd == pytest.approx(0.00504)


def test_an_interrupt_before_the_first_word_is_one_too(scene: Scene) -> None:
    runner = scene.runner("early")
    result = scene.meanwhile(runner, lambda _: runner.interrupt(RUN), at=lambda: scene.log("argv"), session_id=SESSION)
    assert (result.status, result.output, result.tokens, result.cost_usd) == ("interrupted", "", None, None)
    assert result.session_id == SESSION  # it can be gone on with


def test_closing_ends_what_is_under_way(scene: Scene) -> None:
    runner = scene.runner("aborted_stream")
    result = scene.meanwhile(runner, lambda _: runner.close(), at=lambda: scene.said("text"))
    assert result.status == "interrupted"


def test_cancelling_leaves_no_process_also_none_that_hides(scene: Scene) -> None:
    async def cancel(task: asyncio.Task[RunResult]) -> None:
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        scene.meanwhile(scene.runner("stubborn"), cancel, at=lambda: scene.said("tool"))
    child = Path(f"/proc/{scene.child_file.read_text()}/stat")
    assert not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"


# By MCP


def test_an_answer_by_mcp(scene: Scene) -> None:
    result = scene.one(
        scene.runner("agent_answer"), access="read", system="Be brief.", prompt="-p hello", model="haiku"
    )
    assert (result.status, result.output, result.error) == ("completed", "HELLO", None)
    assert (result.tokens, result.cost_usd, result.session_id) == (ONE, None, None)
    assert result.model == "claude-opus-5-5"
    assert scene.said("text") == ["HELLO"]
    assert (scene.started["argv"], scene.started["cwd"]) == (["mcp", "serve"], str(scene.project))
    (call,) = scene.log("called")
    assert call["called"]["name"] == "Agent"
    assert call["called"]["arguments"] == {
        "description": "go-ent t",
        "prompt": "Be brief.\n\n-p hello",
        "model": "haiku",
    }
    env = scene.started["env"]
    assert (env["HOME"], env["ANTHROPIC_API_KEY"], env["DISABLE_AUTOUPDATER"]) == ("/home/me", SECRET, "1")
    assert "DATABASE_PASSWORD" not in env


def test_the_server_is_kept_for_the_next_and_started_again_when_it_died(scene: Scene) -> None:
    runner = scene.runner("agent_answer")
    requests = [scene.request(access="read", attempt=number) for number in (1, 2)]
    assert [result.ok for result in scene.run(runner, *requests)] == [True, True]
    assert len(scene.log("argv")) == 1
    scene.log_file.unlink()
    dying = scene.run(scene.runner("agent_dies"), *requests)
    assert [result.failure for result in dying] == ["crash", "crash"]
    assert "it is all over" in (dying[0].error or "")
    assert len(scene.log("argv")) == 2


def test_an_agent_without_access_works_where_there_is_nothing_to_read(scene: Scene) -> None:
    assert scene.one(scene.runner("agent_answer"), access="none").ok
    assert scene.started["there"] == []
    assert scene.started["cwd"] != str(scene.project)
    assert not Path(scene.started["cwd"]).exists()


def test_an_agent_that_used_tools_does_not_tell_what_all_of_it_took(scene: Scene) -> None:
    result = scene.one(scene.runner("agent_tools"), access="read")
    assert result.status == "completed"
    assert result.output.startswith("DONE")  # without Claude Code's note of the tools
    assert result.tokens is None
    assert "does not tell" in result.observations[0]


AGENT_FAILURES: list[tuple[str, FailureKind, str]] = [
    ("agent_error_401", "auth", "401"),
    ("agent_error_429", "rate_limit", "429"),
    ("agent_write", "permission", "denied Write"),
]


@pytest.mark.parametrize(("says", "failure", "error"), AGENT_FAILURES)
def test_failures_by_mcp(scene: Scene, says: str, failure: FailureKind, error: str) -> None:
    result = scene.one(scene.runner(says), access="read")
    assert (result.status, result.failure) == ("failed", failure)
    assert error in (result.error or "")


LIMITS: list[tuple[dict[str, Any], RunStatus, FailureKind]] = [
    ({"timeout_s": 0.4}, "timeout", "timeout"),
    ({"silence_s": 0.4}, "failed", "silence"),
]


@pytest.mark.parametrize(("fields", "status", "failure"), LIMITS)
def test_an_agent_that_says_nothing_is_ended(
    scene: Scene, fields: dict[str, Any], status: RunStatus, failure: FailureKind
) -> None:
    result = scene.one(scene.runner("agent_hangs"), access="read", **fields)
    assert (result.status, result.failure) == (status, failure)
    assert "0.4 s" in (result.error or "")


def test_an_interrupt_by_mcp_is_told_to_the_server(scene: Scene) -> None:
    runner = scene.runner("agent_hangs")
    result = scene.meanwhile(runner, lambda _: runner.interrupt(RUN), at=lambda: scene.log("called"), access="read")
    assert (result.status, result.failure) == ("interrupted", "interrupted")
    assert scene.log("cancelled")


@pytest.mark.parametrize("says", ["no_mcp", "no_agent", "no_agents"])
def test_what_has_no_agent_is_asked_headless(scene: Scene, says: str) -> None:
    """An old binary; one whose server has other tools; and one, 2.1.197, whose Agent finds no agents."""
    result = scene.one(scene.runner(says), access="none")
    assert (result.status, result.output) == ("completed", '{"name":"bob"}'), result
    assert result.observations[0].startswith("claude mcp serve could not be used, and claude -p was")
    assert [entry["argv"][0] for entry in scene.log("argv")] == ["mcp", "-p"]


# Whatever it says


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.recursive(
                st.one_of(
                    st.none(), st.booleans(), st.integers(-5, 10**18), st.floats(allow_nan=False), st.text(max_size=8)
                ),
                lambda inner: st.one_of(
                    st.lists(inner, max_size=3),
                    st.dictionaries(
                        st.sampled_from(
                            "type subtype message content event usage id delta text result is_error model "
                            "session_id tools errors "
                            "permission_denials model_usage_since_last_result total_cost_usd mcp_servers name "
                            "status input_tokens".split()
                        ),
                        st.one_of(
                            inner,
                            st.sampled_from(
                                "system init assistant user result stream_event message_start tool_use text".split()
                            ),
                        ),
                        max_size=6,
                    ),
                ),
                max_leaves=12,
            ),
        ),
        max_size=8,
    )
)
def test_no_line_breaks_it(lines: list[Any]) -> None:
    said = ClaudeTranscript(lambda _: None, server="go-ent", tools=frozenset(), max_tokens=5)
    for line in lines:
        said.line(line if isinstance(line, bytes) else json.dumps(line).encode())
    outcome = verdict(said, ended(), ask(json_schema=SHAPE), "")
    result = RunResult(
        execution_id="e",
        status=outcome.status,
        failure=outcome.failure,
        error=outcome.error,
        output=said.output,
        tokens=said.tokens,
    )
    assert result.ok == (result.failure is None)
    assert len(said.output) <= MAX_OUTPUT
    assert len(said.notes) < 10


def test_temporary_files_are_readable_for_the_user_alone(scene: Scene) -> None:
    """Their folder too, while it is there."""
    modes: list[int] = []
    runner = scene.runner("aborted_stream")

    async def look(_: object) -> None:
        path = Path(scene.started["files"]["--append-system-prompt-file"]["path"])
        modes.append(stat.S_IMODE(path.parent.stat().st_mode))
        await runner.interrupt(RUN)

    scene.meanwhile(runner, look, at=lambda: scene.said("text"), system="x" * 200_000)
    assert modes == [0o700]
