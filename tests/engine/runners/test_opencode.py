"""The open-code runtime, against a stand-in that says what the real program was recorded to say."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import select
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.core.config import RunnerConfig
from go_ent.engine.core.models import Access, RunRequest, RunResult, Tokens
from go_ent.engine.processes.child import Ended, EndedBy
from go_ent.engine.runners.base.agent import RunRefused
from go_ent.engine.runners.base.runner import Progress, Runner
from go_ent.engine.runners.opencode.events import OpencodeTranscript, last_json, trouble, verdict
from go_ent.engine.runners.opencode.request import CONTENT, OFFLINE, model_for, version_of, way_for
from go_ent.engine.runners.opencode.runner import OpenCodeRunner
from tests.support import ROOT
from tests.support.rows import each

HERE = ROOT / "tests" / "support"
RECORDINGS = HERE / "recordings" / "opencode"
STANDIN = HERE / "standins" / "opencode.py"
OK_SESSION = "ses_e1dfde7f2ffeu061w1tb3aoPtp"
STEP = Tokens(input=1000, output=50, cache_read=200)
SECRET = "sk-very-secret-key"


def ask(prompt: str = "do it", **fields: Any) -> RunRequest:
    return RunRequest(
        **{
            "execution_id": "e",
            "task_id": "t",
            "prompt": prompt,
            "cwd": "/project",
            "silence_s": 20,
            "timeout_s": 60,
            **fields,
        }
    )


class Scene:
    """A project, the stand-in as its opencode, and what was seen of both."""

    def __init__(self, tmp_path: Path) -> None:
        self.project = tmp_path / "project"
        self.project.mkdir()
        self.log_file, self.child_file = tmp_path / "log.jsonl", tmp_path / "child"
        self.seen: list[Progress] = []
        self.execution = (
            f"test-{secrets.token_hex(8)}"  # all that runs under an id is ended with it, here and elsewhere
        )

    def runner(self, says: str = "ok", *, host: dict[str, str] | None = None, **config: Any) -> OpenCodeRunner:
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
            "PWD": "/elsewhere",
            "DATABASE_PASSWORD": "not for agents",
        }
        return OpenCodeRunner(
            RunnerConfig(command=command, set=given, **config), project=self.project, host_env={**home, **(host or {})}
        )

    def request(self, prompt: str = "do it", **fields: Any) -> RunRequest:
        return ask(prompt, **{"cwd": str(self.project), "execution_id": self.execution, **fields})

    def run(self, runner: OpenCodeRunner, *requests: RunRequest) -> list[RunResult]:
        """Runs them one after another."""

        async def main() -> list[RunResult]:
            try:
                return [await runner.execute(request, self.seen.append) for request in requests]
            finally:
                await runner.close()

        return asyncio.run(main())

    def one(self, runner: OpenCodeRunner, request: RunRequest) -> RunResult:
        return self.run(runner, request)[0]

    def meanwhile(
        self, runner: OpenCodeRunner, request: RunRequest, act: Callable[[asyncio.Task[RunResult]], Awaitable[None]]
    ) -> RunResult:
        """Runs it, and does something as soon as the agent has said something."""

        async def main() -> RunResult:
            spoke = asyncio.Event()

            def emit(progress: Progress) -> None:
                self.seen.append(progress)
                if progress.kind == "text":
                    spoke.set()

            task = asyncio.create_task(runner.execute(request, emit))
            try:
                await spoke.wait()
                await act(task)
                return await task
            finally:
                await runner.close()

        return asyncio.run(main())

    def log(self, kind: str) -> list[dict[str, Any]]:
        lines = self.log_file.read_text().splitlines() if self.log_file.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["kind"] == kind]

    @property
    def started(self) -> dict[str, Any]:
        """What the one program that was started was given."""
        (entry,) = self.log("start")
        return entry

    def http(self, ending: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log("http") if entry["path"].endswith(ending)]

    def said(self, kind: str) -> list[str]:
        return [progress.text for progress in self.seen if progress.kind == kind]

    @property
    def child_lives(self) -> bool:
        try:
            said = Path(f"/proc/{self.child_file.read_text()}/stat").read_text()
        except FileNotFoundError:
            return False
        return said.rpartition(")")[2].split()[0] != "Z"  # dead, though its parent has not asked


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def ended(by: EndedBy = "exit", code: int | None = 0) -> Ended:
    return Ended(by, code, "", 5)


def replay(name: str, **limits: Any) -> tuple[OpencodeTranscript, list[Progress]]:
    """A recording of `run` or of the server, read to its end."""
    seen: list[Progress] = []
    said = OpencodeTranscript(seen.append, **limits)
    for line in (RECORDINGS / f"{name}.jsonl").read_bytes().splitlines():
        entry = json.loads(line)
        if "event" in entry:
            if entry["event"]["type"] == "session.created":
                said.opened(entry["event"]["properties"]["sessionID"])
            said.event(entry["event"]["type"], entry["event"]["properties"])
        elif "answer" in entry:
            said.answer(entry["answer"]["status"], entry["answer"]["body"])
        else:
            said.line(line)
    return said, seen


class TestEvents:
    def test_an_answer_has_text_session_tokens_with_the_cache_and_cost(self) -> None:
        said, seen = replay("ok")
        assert (said.text, said.session_id, said.tokens, said.cost_usd) == ("STDIN-OK", OK_SESSION, STEP, 0.00381)
        assert [(one.kind, one.text or one.data["session_id"]) for one in seen] == [
            ("session", OK_SESSION),
            ("text", "STDIN-OK"),
        ]
        assert verdict(said, ended(), ask(), "") == ("completed", None, None)

    def test_cost_is_told_per_step_and_summed(self) -> None:
        said, seen = replay("tool_use")
        assert said.tokens == STEP + STEP
        assert said.cost_usd == pytest.approx(2 * 0.00381)
        assert [progress.text for progress in seen if progress.kind == "tool"] == ["bash"]

    @pytest.mark.parametrize("name", ["write", "serve_write"])
    def test_what_tools_wrote_is_known(self, name: str) -> None:
        said, _ = replay(name)
        assert len(said.files) == 1
        assert said.text == "DONE"

    def test_a_patch_writes_many_files(self) -> None:
        said = OpencodeTranscript(lambda progress: None)
        files = [
            {"filePath": "/project/a", "type": "update"},
            {"filePath": "/project/b", "movePath": "/project/c", "type": "move"},
        ]
        state = {"status": "completed", "input": {"patchText": "…"}, "metadata": {"files": files}}
        said.line(
            json.dumps({"type": "tool_use", "part": {"type": "tool", "tool": "apply_patch", "state": state}}).encode()
        )
        assert said.files == ("/project/a", "/project/c")

    @pytest.mark.parametrize("name", ["permission_rejected", "serve_permission_rejected"])
    def test_a_rejected_permission_is_a_failure_though_the_exit_code_is_0(self, name: str) -> None:
        said, _ = replay(name)
        status, failure, error = verdict(said, ended(), ask(), "")
        assert (status, failure) == ("failed", "permission")
        assert error is not None
        assert "write" in error
        assert said.cost_usd == 0.00381

    @pytest.mark.parametrize("name", ["error_401", "serve_401"])
    def test_a_wrong_key_is_told(self, name: str) -> None:
        said, _ = replay(name)
        assert verdict(said, ended(code=1), ask(), "")[:2] == ("failed", "auth")
        assert said.cost_usd is None

    @pytest.mark.parametrize("name", ["bad_model", "serve_bad_model"])
    def test_an_unknown_model_is_an_error_of_the_task(self, name: str) -> None:
        said, _ = replay(name)
        assert verdict(said, ended(code=1), ask(), "")[:2] == ("failed", "task")

    def test_the_server_tells_which_model_is_unknown(self) -> None:
        said, _ = replay("serve_bad_model")
        assert verdict(said, ended(), ask(), "")[2] == "opencode failed: Model not found: fake/nope."

    @each(
        ("error", "kind"),
        [
            ({"name": "APIError", "data": {"message": "no", "statusCode": 403}}, "auth"),
            ({"name": "ProviderAuthError", "data": {"message": "no"}}, "auth"),
            ({"name": "UnknownError", "data": {"message": "OpenAI API key is missing"}}, "auth"),
            ({"name": "APIError", "data": {"message": "no", "statusCode": 429}}, "rate_limit"),
            ({"name": "UnknownError", "data": {"message": "Too Many Requests"}}, "rate_limit"),
            ({"name": "APIError", "data": {"message": "no", "statusCode": 503}}, "unavailable"),
            ({"name": "APIError", "data": {"message": "connect ECONNREFUSED 127.0.0.1:1"}}, "unavailable"),
            ({"name": "APIError", "data": {"message": "no", "statusCode": 400}}, "task"),
            ({"name": "ContextOverflowError", "data": {"message": "too long"}}, "task"),
            ({"name": "MessageAbortedError", "data": {"message": "Aborted"}}, "interrupted"),
            ({"name": "ConfigJsonError", "data": {"path": "opencode.json", "message": "no JSON"}}, "crash"),
            (None, "task"),
        ],
    )
    def test_errors_are_told_apart_by_who_can_survive_them(self, error: object, kind: str) -> None:
        assert trouble(error).kind == kind

    def test_the_server_and_run_come_to_the_same(self) -> None:
        by_run, by_server = replay("tool_use")[0], replay("serve_tool_use")[0]
        assert (by_server.tokens, by_server.cost_usd) == (by_run.tokens, by_run.cost_usd)
        assert by_server.model == "fake/m"

    def test_parts_that_grow_are_said_once(self) -> None:
        said, seen = replay("serve_tool_use")
        assert said.text == "I look.\n\nDONE"
        assert [progress.text for progress in seen if progress.kind == "text"] == ["I look.", "DO", "NE"]

    def test_the_prompt_is_not_taken_for_the_answer(self) -> None:
        assert "hello" not in replay("serve_tool_use")[0].text

    def test_what_subagents_spend_is_counted_where_the_server_tells_it(self) -> None:
        said, _ = replay("serve_subagent")
        assert (said.text, said.tokens) == ("DONE", STEP + STEP + STEP)

    def test_in_run_the_spending_of_subagents_is_missing_and_said_to_be(self) -> None:
        said = OpencodeTranscript(lambda progress: None)
        said.line(
            json.dumps(
                {"type": "tool_use", "part": {"type": "tool", "tool": "task", "state": {"status": "completed"}}}
            ).encode()
        )
        assert any("subagents" in note for note in said.notes)

    def test_text_that_was_not_finished_is_kept(self) -> None:
        said, _ = replay("serve_aborted")
        assert said.text == "partial"

    def test_reasoning_is_counted_as_output(self) -> None:
        said = OpencodeTranscript(lambda progress: None)
        said.line(
            b'{"type":"step_finish","part":{"type":"step-finish","tokens":{"input":1,"output":2,"reasoning":40},"cost":0.1}}'
        )
        assert said.tokens == Tokens(input=1, output=42)

    def test_a_cost_of_0_is_unknown(self) -> None:
        said = OpencodeTranscript(lambda progress: None, max_usd=1.0)
        said.line(b'{"type":"step_finish","part":{"type":"step-finish","reason":"stop","tokens":{"input":9},"cost":0}}')
        assert (said.tokens, said.cost_usd) == (Tokens(input=9), None)
        assert any("price" in note for note in said.notes)

    def test_a_limit_stops_a_run_that_would_go_on_and_only_once(self) -> None:
        stops: list[bool] = []
        said, _ = replay("tool_use", max_usd=0.003, over=lambda: stops.append(True))
        assert stops == [True]
        assert verdict(said, ended("interrupted", -2), ask(), "")[:2] == ("failed", "budget")

    def test_a_limit_passed_by_the_last_step_keeps_the_answer(self) -> None:
        stops: list[bool] = []
        said, _ = replay("tool_use", max_tokens=90, over=lambda: stops.append(True))
        assert not stops
        assert verdict(said, ended(), ask(), "")[0] == "completed"
        assert "the run wrote 100 tokens, more than its limit of 90, with its last step" in said.notes

    @given(st.lists(st.binary(max_size=60), max_size=5))
    @settings(max_examples=50, deadline=None)
    def test_no_line_breaks_the_reader(self, lines: list[bytes]) -> None:
        said = OpencodeTranscript(lambda progress: None)
        for line in lines:
            said.line(line)
        assert said.cost_usd is None

    @given(st.data())
    @settings(max_examples=40, deadline=None)
    def test_no_shape_of_an_event_breaks_the_reader(self, data: st.DataObject) -> None:
        leaf = st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.sampled_from(["s", "text", "tool", "step-finish", "completed", "write"]),
        )
        names = (
            "id type part info state status tokens cost input metadata files filePath error data message "
            "statusCode sessionID role"
        )
        keys = st.sampled_from(names.split())
        shapes = st.recursive(
            leaf,
            lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=6)),
            max_leaves=12,
        )
        said = OpencodeTranscript(lambda progress: None)
        said.opened("s")
        body = data.draw(st.dictionaries(keys, shapes, max_size=6))
        for kind in ("text", "tool_use", "step_finish", "error"):
            said.line(json.dumps({**body, "type": kind}).encode())
        for kind in (
            "message.updated",
            "message.part.updated",
            "message.part.delta",
            "session.status",
            "session.error",
            "session.created",
        ):
            said.event(kind, {**body, "sessionID": "s"})
        said.answer(200, body)
        assert said.tokens is None or said.tokens.total >= 0

    @given(st.lists(st.integers(0, 30), max_size=6))
    @settings(max_examples=25, deadline=None)
    def test_a_part_that_is_told_again_is_counted_once(self, again: list[int]) -> None:
        events = [
            json.loads(line)["event"] for line in (RECORDINGS / "serve_write.jsonl").read_text().splitlines()[:-1]
        ]
        parts = [event for event in events if event["type"] != "message.part.delta"]
        once, more = OpencodeTranscript(lambda progress: None), OpencodeTranscript(lambda progress: None)
        for said, repeats in ((once, ()), (more, again)):
            said.opened(events[1]["properties"]["sessionID"])
            for number, event in enumerate(parts):
                for _ in range(1 + list(repeats).count(number)):
                    said.event(event["type"], event["properties"])
        assert (more.text, more.tokens, more.cost_usd, more.files) == (
            once.text,
            once.tokens,
            once.cost_usd,
            once.files,
        )


class TestJson:
    @pytest.mark.parametrize(
        "text",
        [
            '{"a": 1}',
            'So:\n```json\n{"a": 1}\n```\nThat is all.',
            '```\n{"a": 0}\n```\nno, rather:\n```json\n{"a": 1}\n```',
            'It is\n{"a": 1}\n',
            'First\n{"b": 2}\nthen\n{\n  "a": 1\n}',
        ],
    )
    def test_the_last_value_of_an_answer_is_found(self, text: str) -> None:
        assert last_json(text) == {"a": 1}

    @pytest.mark.parametrize("text", ["", "none", '{"a": 1} or so', '{"a": NaN}', "[" * 100_000])
    def test_what_is_not_strictly_json_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="does not end with JSON"):
            last_json(text)


class TestWay:
    @each(
        ("version", "access", "tools", "own_flags", "way"),
        [
            ("0.0.55", "edit", False, False, "old"),
            ("1.0.0", "edit", False, False, "serve"),
            ("1.18.33", "edit", False, False, "serve"),
            ("1.18.33", "edit", False, True, "run"),
            ("1.18.33", "read", False, False, "run"),
            ("1.18.33", "read", True, False, "serve"),
            ("1.18.33", "none", False, False, "run"),
            ("1.1.1", "none", True, False, "run"),
            ("who knows", "edit", False, False, "serve"),
        ],
    )
    def test_the_way_follows_from_the_version_and_the_access(
        self, version: str, access: Access, tools: bool, own_flags: bool, way: str
    ) -> None:
        assert way_for(version_of(version), access, tools=tools, own_flags=own_flags) == way

    @pytest.mark.parametrize(
        ("version", "access"), [("0.0.55", "read"), ("0.5.29", "edit"), ("1.0.0", "read"), ("1.1.0", "none")]
    )
    def test_a_version_that_can_not_keep_the_access_is_refused(self, version: str, access: Access) -> None:
        with pytest.raises(RunRefused, match=r"update it to 1\.1\.1"):
            way_for(version_of(version), access)

    @pytest.mark.parametrize(
        ("wanted", "configured", "model", "replaced"),
        [
            (None, None, None, False),
            ("fake/m", "other/m", "fake/m", False),
            (None, "fake/m", "fake/m", False),
            ("sonnet", "fake/m", "fake/m", True),
            ("sonnet", None, None, True),
            (None, "sonnet", None, True),
        ],
    )
    def test_a_model_without_a_provider_is_replaced_and_said_to_be(
        self, wanted: str | None, configured: str | None, model: str | None, replaced: bool
    ) -> None:
        found, adjustments = model_for(wanted, configured, "run")
        assert (found, bool(adjustments)) == (model, replaced)
        assert all("sonnet has no provider" in adjustment for adjustment in adjustments)

    @pytest.mark.parametrize(
        ("said", "numbers"),
        [("1.18.33\n", (1, 18, 33)), ("opencode version v0.0.55", (0, 0, 55)), ("dev", None), ("1.2", None)],
    )
    def test_versions_are_read(self, said: str, numbers: tuple[int, int, int] | None) -> None:
        assert version_of(said) == numbers


class TestAvailable:
    async def test_the_version_is_asked_for_once(self, scene: Scene) -> None:
        runner = scene.runner()

        assert isinstance(runner, Runner)
        first = await runner.available()
        assert (first.ok, first.version) == (True, "1.18.33")
        assert await runner.available() is first

    def test_a_program_that_is_not_there_is_said_to_be_missing(self, scene: Scene) -> None:
        result = scene.one(scene.runner(command=("no-such-opencode",)), scene.request())
        assert (result.status, result.failure) == ("failed", "not_found")
        assert "npm install -g opencode-ai" in str(result.error)

    async def test_a_version_between_the_two_interfaces_is_not_available(self, scene: Scene) -> None:
        there = await scene.runner(set={"STANDIN_VERSION": "0.5.29"}).available()
        assert (there.ok, there.version) == (False, "0.5.29")
        assert "update it" in there.reason

    def test_a_version_that_can_not_be_read_is_taken_for_a_current_one(self, scene: Scene) -> None:
        result = scene.one(scene.runner(set={"STANDIN_VERSION": "nightly"}), scene.request(access="read"))
        assert result.ok
        assert "the version of opencode can't be read (nightly): it is taken for a current one" in result.observations


class TestRun:
    def test_the_prompt_goes_in_by_stdin_as_it_is(self, scene: Scene) -> None:
        prompt = "--help me with \"quotes\", \\ and 'more'\n$HOME"
        result = scene.one(scene.runner(model="fake/m"), scene.request(prompt, access="read"))
        assert (result.status, result.output, result.session_id, result.runtime) == (
            "completed",
            "STDIN-OK",
            OK_SESSION,
            "open-code",
        )
        assert (result.tokens, result.cost_usd, result.model) == (STEP, 0.00381, "fake/m")
        given = scene.started
        assert given["stdin"] == prompt
        assert given["argv"][:3] == ["run", "--format", "json"]
        assert given["argv"][3:7] == ["--title", f"go-ent {scene.execution} t", "-m", "fake/m"]
        assert given["cwd"] == str(scene.project)

    def test_the_system_text_stands_apart_before_the_prompt(self, scene: Scene) -> None:
        scene.one(scene.runner(), scene.request("the task", access="read", system="be brief"))
        assert scene.started["stdin"] == "<instructions>\nbe brief\n</instructions>\n\n<task>\nthe task\n</task>"

    def test_the_environment_is_what_it_needs_and_no_more(self, scene: Scene) -> None:
        host = {
            "ANTHROPIC_API_KEY": SECRET,
            "OPENCODE_DISABLE_AUTOUPDATE": "0",
            "MINE": "x",
            "OPENCODE_CONFIG": "/c.json",
        }
        scene.one(scene.runner(host=host, env=("MINE",)), scene.request(access="read"))
        env = scene.started["env"]
        assert env["ANTHROPIC_API_KEY"] == SECRET
        assert (env["HOME"], env["MINE"], env["OPENCODE_CONFIG"]) == ("/home/me", "x", "/c.json")
        assert env["PWD"] == str(scene.project)
        assert env["OPENCODE_DISABLE_AUTOUPDATE"] == "0"
        for what in ("MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"):
            assert env[f"OPENCODE_DISABLE_{what}"] == "1"
        assert "DATABASE_PASSWORD" not in env

    @pytest.mark.parametrize("access", ["read", "none"])
    def test_an_agent_of_our_own_keeps_the_access(self, scene: Scene, access: Access) -> None:
        own = {"model": "fake/m", "agent": {"mine": {"mode": "primary"}}}
        scene.one(scene.runner(host={CONTENT: json.dumps(own)}), scene.request(access=access))
        argv = scene.started["argv"]
        name = argv[argv.index("--agent") + 1]
        content = json.loads(scene.started["env"][CONTENT])
        rules = content["agent"][name]["permission"]
        assert next(iter(rules.items())) == ("*", "deny")
        assert {tool for tool, rule in rules.items() if rule != "deny"} == (
            set() if access == "none" else {"read", "glob", "grep", "list", "todowrite", "go-ent_*"}
        )
        assert (content["model"], content["agent"]["mine"]) == ("fake/m", {"mode": "primary"})
        assert "mcp" not in content

    def test_a_session_is_gone_on_with(self, scene: Scene) -> None:
        result = scene.one(scene.runner(), scene.request(access="read", session_id=OK_SESSION))
        argv = scene.started["argv"]
        assert argv[argv.index("-s") + 1] == OK_SESSION
        assert "--title" not in argv
        assert result.session_id == OK_SESSION

    @pytest.mark.parametrize(
        "bad",
        [
            {"session_id": "--help"},
            {"session_id": "../../session"},
            {"session_id": "a b"},
            {"model": "--share"},
            {"prompt": " "},
        ],
    )
    def test_what_could_be_taken_for_a_flag_or_a_path_is_refused(self, scene: Scene, bad: dict[str, str]) -> None:
        result = scene.one(scene.runner(), scene.request(**bad))
        assert (result.status, result.failure, result.replan) == ("failed", "task", True)
        assert not scene.log_file.exists()

    def test_flags_of_the_user_are_passed_to_run(self, scene: Scene) -> None:
        result = scene.one(scene.runner("write", args=("--variant", "high")), scene.request())
        assert scene.started["argv"][-2:] == ["--variant", "high"]
        assert result.files_modified == ("/project",)

    def test_an_agent_of_the_user_can_not_take_the_place_of_the_one_that_keeps_the_access(self, scene: Scene) -> None:
        result = scene.one(scene.runner(args=("--agent=mine",)), scene.request(access="read"))
        assert (result.failure, scene.log_file.exists()) == ("task", False)

    @pytest.mark.parametrize(
        ("says", "failure"),
        [
            ("error_401", "auth"),
            ("permission_rejected", "permission"),
            ("empty", "empty"),
            ("killed", "crash"),
            ("no_session", "task"),
        ],
    )
    def test_failures_are_told_apart(self, scene: Scene, says: str, failure: str) -> None:
        result = scene.one(scene.runner(says), scene.request(access="read"))
        assert (result.status, result.failure) == ("failed", failure)
        assert result.error

    def test_no_secret_is_in_an_error(self, scene: Scene) -> None:
        result = scene.one(scene.runner("failed", host={"OPENAI_API_KEY": SECRET}), scene.request(access="read"))
        assert result.failure == "crash"
        assert "exit code 1" in str(result.error)
        assert SECRET not in str(result.error)

    def test_a_key_in_the_configuration_is_a_secret_too(self, scene: Scene) -> None:
        content = json.dumps({"provider": {"mine": {"options": {"apiKey": SECRET}}}})
        result = scene.one(scene.runner("failed", host={CONTENT: content}), scene.request(access="read"))
        assert SECRET not in str(result.error)

    def test_no_secret_is_in_an_answer_nor_in_what_is_told_of_it(self, scene: Scene) -> None:
        host = {"OPENAI_API_KEY": SECRET, "OPENCODE_STANDIN_TEXT": json.dumps({"a": [SECRET], "b": 1})}
        result = scene.one(
            scene.runner("text", host=host), scene.request(access="read", json_schema={"type": "object"})
        )
        assert (result.output, result.structured) == ('{"a": ["[secret]"], "b": 1}', {"a": ["[secret]"], "b": 1})
        assert scene.said("text") == [result.output]

    @pytest.mark.parametrize(
        ("access", "host", "offline"), [("read", {}, "true"), ("edit", {}, None), ("read", {OFFLINE: "no"}, "no")]
    )
    def test_it_asks_no_registry_unless_the_agent_may_have_to(
        self, scene: Scene, access: Access, host: dict[str, str], offline: str | None
    ) -> None:
        """The flag is one of `run`: an agent that may edit has a shell of the same environment then."""
        scene.one(scene.runner(args=("--pure",), host=host), scene.request(access=access))
        assert scene.started["env"].get(OFFLINE) == offline

    def test_lines_that_can_not_be_read_do_not_spoil_an_answer(self, scene: Scene) -> None:
        result = scene.one(scene.runner("noise"), scene.request(access="read"))
        assert (result.output, result.observations) == ("STDIN-OK", ("2 lines of opencode's output could not be read",))

    def test_a_limit_that_is_retried_in_silence_is_ended_by_the_watchdog(self, scene: Scene) -> None:
        result = scene.one(scene.runner("429"), scene.request(access="read", silence_s=0.3))
        assert (result.status, result.failure) == ("failed", "silence")

    def test_the_time_limit_ends_it(self, scene: Scene) -> None:
        result = scene.one(scene.runner("429"), scene.request(access="read", timeout_s=0.4, silence_s=None))
        assert (result.status, result.failure) == ("timeout", "timeout")

    def test_an_interrupt_keeps_what_was_said_and_leaves_no_child(self, scene: Scene) -> None:
        runner, request = scene.runner("child", args=("--pure",)), scene.request()

        async def interrupt(task: asyncio.Task[RunResult]) -> None:
            assert await runner.interrupt(request.run_id)
            assert not await runner.interrupt("another/run/1")

        result = scene.meanwhile(runner, request, interrupt)
        assert (result.status, result.failure, result.output) == ("interrupted", "interrupted", "partial")
        assert not scene.child_lives

    def test_cancelling_leaves_no_child(self, scene: Scene) -> None:
        async def cancel(task: asyncio.Task[RunResult]) -> None:
            task.cancel()

        with pytest.raises(asyncio.CancelledError):
            scene.meanwhile(scene.runner("child", args=("--pure",)), scene.request(), cancel)
        assert not scene.child_lives

    def test_a_run_that_passes_its_limit_of_money_is_stopped(self, scene: Scene) -> None:
        result = scene.one(scene.runner("steps"), scene.request(access="read", max_usd=0.001))
        assert (result.status, result.failure, result.cost_usd) == ("failed", "budget", 0.00381)
        assert "$0.0010" in str(result.error)

    def test_json_is_asked_for_in_the_prompt_and_checked(self, scene: Scene) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        runner = scene.runner("text", host={"OPENCODE_STANDIN_TEXT": 'Here:\n```json\n{"a": 1}\n```'})
        result = scene.one(runner, scene.request(access="read", json_schema=schema))
        assert (result.status, result.structured) == ("completed", {"a": 1})
        assert json.dumps(schema, separators=(",", ":")) in scene.started["stdin"]

    @pytest.mark.parametrize(
        ("text", "problem"), [("I can't", "does not end with JSON"), ('{"a": "x"}', "does not fit its schema")]
    )
    def test_an_answer_that_is_not_the_json_that_was_asked_for_is_a_failure(
        self, scene: Scene, text: str, problem: str
    ) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        result = scene.one(
            scene.runner("text", host={"OPENCODE_STANDIN_TEXT": text}), scene.request(access="read", json_schema=schema)
        )
        assert (result.failure, result.output, result.structured) == ("task", text, None)
        assert problem in str(result.error)


class TestOld:
    def test_an_old_opencode_is_spoken_to_in_its_own_way(self, scene: Scene) -> None:
        runner = scene.runner(set={"STANDIN_VERSION": "v0.0.55"})
        result = scene.one(
            runner, scene.request("-q is not a flag", system="be brief", model="fake/m", serve_tools=True, max_usd=1.0)
        )
        assert (result.status, result.output, result.cost_usd) == ("completed", "an old answer", None)
        prompt, *rest = scene.started["argv"]
        assert prompt == "--prompt=<instructions>\nbe brief\n</instructions>\n\n<task>\n-q is not a flag\n</task>"
        assert rest == ["-f", "json", "-q"]
        assert len(result.observations) == 2
        assert result.adjustments == ("this opencode takes no model: its own default was used, not fake/m",)

    @pytest.mark.parametrize("needs", [{"access": "read"}, {"session_id": OK_SESSION}])
    def test_what_it_can_not_do_is_refused(self, scene: Scene, needs: dict[str, Any]) -> None:
        result = scene.one(scene.runner(set={"STANDIN_VERSION": "0.0.55"}), scene.request(**needs))
        assert result.status == "failed"
        assert "update it" in str(result.error)
        assert not scene.log_file.exists()


class TestServe:
    def test_edits_are_asked_of_a_server_that_lets_nobody_else_in(self, scene: Scene) -> None:
        result = scene.one(scene.runner("serve_write"), scene.request("write it", system="be brief", model="fake/m"))
        assert (result.status, result.output, result.model) == ("completed", "DONE", "fake/m")
        assert result.tokens == STEP + STEP
        assert result.cost_usd == pytest.approx(2 * 0.00381)
        assert result.files_modified == ("/project/w.txt",)
        assert scene.started["argv"] == ["serve", "--port", "0", "--hostname", "127.0.0.1"]
        assert len(scene.started["env"]["OPENCODE_SERVER_PASSWORD"]) > 20
        (message,) = scene.http("/message")
        assert parse_qs(message["query"]) == {"directory": [str(scene.project)]}
        assert message["body"] == {
            "parts": [{"type": "text", "text": "write it"}],
            "system": "be brief",
            "model": {"providerID": "fake", "modelID": "m"},
        }
        (session,) = scene.http("/session")
        assert session["body"]["title"] == f"go-ent {scene.execution} t"
        assert {rule["permission"] for rule in session["body"]["permission"]} == {"question", "plan_enter", "plan_exit"}
        assert [one.data["session_id"] for one in scene.seen if one.kind == "session"] == [result.session_id]

    def test_the_server_is_started_once_and_ended_in_the_end(self, scene: Scene) -> None:
        results = scene.run(scene.runner("serve_write"), scene.request(), scene.request(attempt=2))
        assert [result.ok for result in results] == [True, True]
        tag = f"GO_ENT_RUN={scene.started['env']['GO_ENT_RUN']}".encode()
        assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and tag in _environ(pid)]

    async def test_a_server_that_nobody_needs_ends(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.engine.runners.opencode.serve.IDLE_S", 0.5)
        runner = scene.runner("serve_write")

        try:
            assert (await runner.execute(scene.request(), scene.seen.append)).ok
            handle = os.pidfd_open(scene.started["pid"])
            try:
                assert (await asyncio.to_thread(select.select, [handle], [], [], 20))[0]
            finally:
                os.close(handle)
            assert (await runner.execute(scene.request(attempt=2), scene.seen.append)).ok
        finally:
            await runner.close()
        assert len(scene.log("start")) == 2

    async def test_a_listener_that_fails_leaves_nothing_running(self, scene: Scene) -> None:
        def fail(progress: Progress) -> None:
            if progress.kind == "text":
                raise LookupError("the listener")

        runner = scene.runner("child")
        try:
            with pytest.raises(LookupError, match="the listener"):
                await runner.execute(scene.request(), fail)
            assert not scene.child_lives
        finally:
            await runner.close()

    def test_a_session_is_gone_on_with(self, scene: Scene) -> None:
        session = str(replay("serve_write")[0].session_id)
        assert scene.one(scene.runner("serve_write"), scene.request(session_id=session)).session_id == session
        assert [entry["path"] for entry in scene.http("/message")] == [f"/session/{session}/message"]
        assert not scene.http("/session")

    @pytest.mark.parametrize(("asks", "reply"), [("edit", "once"), ("bash", "reject")])
    def test_questions_are_answered_yes_for_edits_and_no_for_all_else(
        self, scene: Scene, asks: str, reply: str
    ) -> None:
        result = scene.one(scene.runner("serve_permission_rejected", set={"STANDIN_ASKS": asks}), scene.request())
        assert [entry["body"] for entry in scene.http("/reply")] == [{"reply": reply}]
        assert result.failure == "permission"  # as recorded, whatever was asked

    @pytest.mark.parametrize(("says", "failure"), [("serve_401", "auth"), ("serve_bad_model", "task")])
    def test_errors_come_with_any_status(self, scene: Scene, says: str, failure: str) -> None:
        result = scene.one(scene.runner(says), scene.request())
        assert (result.status, result.failure) == ("failed", failure)

    def test_an_interrupt_reaches_the_children_and_keeps_what_was_said(self, scene: Scene) -> None:
        runner, request = scene.runner("child"), scene.request()

        async def interrupt(task: asyncio.Task[RunResult]) -> None:
            assert await runner.interrupt(request.run_id)
            await asyncio.wait([task])
            assert not scene.child_lives  # while the server still runs

        result = scene.meanwhile(runner, request, interrupt)
        assert (result.status, result.failure, result.output) == ("interrupted", "interrupted", "partial")
        assert len(scene.http("/abort")) == 1

    def test_cancelling_reaches_the_children_too(self, scene: Scene) -> None:
        async def cancel(task: asyncio.Task[RunResult]) -> None:
            task.cancel()
            await asyncio.wait([task])
            assert not scene.child_lives

        with pytest.raises(asyncio.CancelledError):
            scene.meanwhile(scene.runner("child"), scene.request(), cancel)

    def test_what_escapes_an_interrupt_is_ended_with_the_run(self, scene: Scene) -> None:
        runner, request = scene.runner("escapes"), scene.request()

        async def interrupt(task: asyncio.Task[RunResult]) -> None:
            assert await runner.interrupt(request.run_id)
            await asyncio.wait([task])
            assert not scene.child_lives  # while the server still runs

        assert scene.meanwhile(runner, request, interrupt).status == "interrupted"

    def test_what_escapes_a_cancelled_run_is_ended_with_it(self, scene: Scene) -> None:
        async def cancel(task: asyncio.Task[RunResult]) -> None:
            task.cancel()
            await asyncio.wait([task])
            assert not scene.child_lives

        with pytest.raises(asyncio.CancelledError):
            scene.meanwhile(scene.runner("escapes"), scene.request(), cancel)

    async def test_what_a_completed_run_leaves_behind_is_ended_and_the_server_is_not(self, scene: Scene) -> None:
        runner = scene.runner("leaves")
        try:
            for attempt in (1, 2):
                assert (await runner.execute(scene.request(attempt=attempt), scene.seen.append)).ok
                assert not scene.child_lives
        finally:
            await runner.close()
        assert len(scene.log("start")) == 1

    def test_a_shell_gets_the_mark_of_its_session_and_nothing_of_the_server(self, scene: Scene) -> None:
        result = scene.one(scene.runner("leaves"), scene.request())
        (shell,) = scene.log("shell")
        assert shell["env"]["GO_ENT_RUN"].endswith(f"/{result.session_id}")
        assert (shell["env"]["OPENCODE_SERVER_PASSWORD"], shell["env"][OFFLINE]) == ("", "")
        assert scene.started["env"][OFFLINE] == "true"

    def test_plugins_of_the_user_are_kept(self, scene: Scene) -> None:
        scene.one(scene.runner("serve_write", host={CONTENT: '{"plugin": ["mine"]}'}), scene.request())
        first, second = json.loads(scene.started["env"][CONTENT])["plugin"]
        assert (first, second[:8]) == ("mine", "file:///")

    def test_the_plugin_is_private_and_gone_in_the_end(self, scene: Scene) -> None:
        async def main() -> Path:
            runner = scene.runner("serve_write")
            try:
                assert (await runner.execute(scene.request(), scene.seen.append)).ok
                (address,) = json.loads(scene.started["env"][CONTENT])["plugin"]
                folder = Path(address.removeprefix("file://")).parent
                assert folder.stat().st_mode & 0o777 == 0o700
                return folder
            finally:
                await runner.close()

        assert not asyncio.run(main()).exists()

    def test_a_version_that_does_not_ask_for_a_shell_s_environment_is_not_kept_from_the_registry(
        self, scene: Scene
    ) -> None:
        scene.one(scene.runner("serve_write", set={"STANDIN_VERSION": "1.1.1"}), scene.request())
        assert OFFLINE not in scene.started["env"]

    def test_closing_ends_what_is_under_way(self, scene: Scene) -> None:
        runner = scene.runner("child")

        async def close(task: asyncio.Task[RunResult]) -> None:
            await runner.close()

        assert scene.meanwhile(runner, scene.request(), close).status == "interrupted"
        assert not scene.child_lives

    def test_a_server_that_does_not_obey_is_ended(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.engine.runners.opencode.runner.GRACE_S", 0.3)
        runner, request = scene.runner("stubborn"), scene.request()

        async def interrupt(task: asyncio.Task[RunResult]) -> None:
            await runner.interrupt(request.run_id)
            await asyncio.wait([task])
            assert not scene.child_lives

        assert scene.meanwhile(runner, request, interrupt).status == "interrupted"

    def test_a_provider_that_is_tried_again_and_again_is_silence(self, scene: Scene) -> None:
        result = scene.one(scene.runner("serve_429"), scene.request(silence_s=0.6))
        assert (result.status, result.failure) == ("failed", "silence")
        assert "it was trying again: slow down" in str(result.error)
        assert scene.said("warning") == ["opencode tries again: slow down"] * 2

    def test_the_time_limit_aborts_it(self, scene: Scene) -> None:
        result = scene.one(scene.runner("serve_aborted"), scene.request(timeout_s=0.6))
        assert (result.status, result.failure) == ("timeout", "timeout")

    def test_a_run_that_passes_its_limit_of_money_is_aborted(self, scene: Scene) -> None:
        result = scene.one(scene.runner("steps"), scene.request(max_usd=0.001))
        assert (result.status, result.failure, result.output, result.cost_usd) == (
            "failed",
            "budget",
            "I look.",
            0.00381,
        )
        assert len(scene.http("/abort")) == 1

    def test_a_run_that_says_more_than_is_read_is_aborted(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.engine.runners.opencode.serve.MAX_EVENT", 300)
        result = scene.one(scene.runner("serve_aborted"), scene.request())
        assert (result.status, result.failure) == ("failed", "output")
        assert len(scene.http("/abort")) == 1

    def test_a_server_that_died_is_a_crash_and_is_started_again(self, scene: Scene) -> None:
        first, second = scene.run(scene.runner("dies"), scene.request(), scene.request(attempt=2))
        assert (first.status, first.failure) == ("failed", "crash")
        assert "out of memory" in str(first.error)
        assert second.failure == "crash"
        assert len(scene.log("start")) == 2
        assert not scene.child_lives

    def test_a_server_that_asks_for_no_password_is_not_used(self, scene: Scene) -> None:
        runner = scene.runner("open")
        result = scene.one(runner, scene.request(serve_tools=True))
        assert [entry["argv"][0] for entry in scene.log("start")] == ["serve", "run"]
        assert (
            "opencode serve could not be used, and opencode run was: it asks nobody for a password"
            in result.observations
        )
        assert "whether the attached tools were there can't be seen" in result.observations
        assert not scene.log("http")

    def test_without_a_server_run_is_the_way_and_the_server_is_not_tried_each_time(self, scene: Scene) -> None:
        results = scene.run(scene.runner("no_server"), scene.request(), scene.request(attempt=2))
        assert [entry["argv"][0] for entry in scene.log("start")] == ["serve", "run", "run"]
        for result in results:
            assert "the server ended: Error: address in use" in result.observations[0]

    def test_tools_are_attached_and_read_only_work_gets_them_from_the_server(self, scene: Scene) -> None:
        result = scene.one(scene.runner("serve_write"), scene.request(access="read", serve_tools=True))
        assert result.ok
        server = json.loads(scene.started["env"][CONTENT])["mcp"]["go-ent"]
        assert server["command"] == [sys.executable, "-I", "-c", "from go_ent.engine.cli import main; main()", "serve"]
        assert (server["type"], server["enabled"]) == ("local", True)
        (message,) = scene.http("/message")
        assert message["body"]["agent"].startswith("go-ent-read-")

    def test_tools_of_a_project_serve_a_run_in_another_folder(self, scene: Scene) -> None:
        folder = scene.project / "part"
        folder.mkdir()
        granted = {"GO_ENT__GRANTS__ALLOW": '["a.*"]'}
        host = {**granted, "GO_ENT__COMMANDS__C__SET__KEY": "secret", "GO_ENT__SERVERS__S__TOKEN": "${env:TOKEN}"}
        scene.one(scene.runner("serve_write", host=host), scene.request(serve_tools=True, cwd=str(folder)))
        server = json.loads(scene.started["env"][CONTENT])["mcp"]["go-ent"]
        assert server["cwd"] == str(scene.project)
        assert {name: value for name, value in server["environment"].items() if name.startswith("GO_ENT_")} == granted

    def test_tools_that_are_dead_are_a_failure_before_anything_is_spent(self, scene: Scene) -> None:
        result = scene.one(scene.runner("serve_write", set={"STANDIN_DEAD": "1"}), scene.request(serve_tools=True))
        assert (result.status, result.failure) == ("failed", "mcp_server")
        assert "Connection closed" in str(result.error)
        assert not scene.http("/message")


def _environ(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
