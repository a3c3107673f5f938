"""Commands as runtimes: how a template is filled in, and how output and failures are read."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.core.config import CommandConfig
from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import RunRequest, RunResult, Tokens
from go_ent.engine.processes.environment import child_environment, scrub, secrets_of
from go_ent.engine.runners.base.runner import Progress
from go_ent.engine.runners.cli.commands import MAX_ARGUMENT, MAX_TEXT, fill, pick, run_command
from tests.support.rows import each

HOST = {"PATH": os.environ["PATH"], "HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "do-not-pass-on"}
ECHO = "import sys; print(sys.argv[1:])"


def ask(**fields: Any) -> RunRequest:
    return RunRequest(**{"execution_id": uuid.uuid4().hex, "cwd": "/", "command": "named", **fields})


def config(code: str, *arguments: str, **fields: Any) -> CommandConfig:
    return CommandConfig(argv=(sys.executable, "-I", "-S", "-c", code, *arguments), **fields)


def run(
    command: CommandConfig, request: RunRequest | None = None, *, stop_at: str = "", told: list[str] | None = None
) -> RunResult:
    async def main() -> RunResult:
        stop = asyncio.Event()

        def emit(progress: Progress) -> None:
            assert progress.kind == "text"
            if told is not None:
                told.append(progress.text)
            if stop_at and stop_at in progress.text:
                stop.set()

        return await run_command(command, request or ask(), emit, host_env=HOST, stop=stop)

    return asyncio.run(main())


def says(document: Any, **fields: Any) -> CommandConfig:
    """A command that prints this as JSON."""
    return config(f"print({json.dumps(document)!r})", **{"format": "json", **fields})


def problem(result: RunResult) -> tuple[str, str | None, str | None]:
    return result.status, result.failure, result.error


class TestTemplate:
    def test_placeholders_are_filled_as_whole_arguments_and_within(self) -> None:
        command = config(ECHO, "{prompt}", "--system={system}", "-m", "{model}", "{model}/{prompt}")
        result = run(command, ask(prompt="p", system="s", model="m"))
        assert (result.status, result.output, result.model) == (
            "completed",
            "['p', '--system=s', '-m', 'm', 'm/p']",
            "m",
        )

    def test_nothing_else_in_braces_means_anything(self) -> None:
        command = config(ECHO, "{prompt}", "{{prompt}}", "{}", "{0}", "{other}", "{prompt!r}", "{prompt.x}")
        result = run(command, ask(prompt="{system}{x}%s"))
        given = ["{system}{x}%s", "{{system}{x}%s}", "{}", "{0}", "{other}", "{prompt!r}", "{prompt.x}"]
        assert result.output == str(given)

    @given(prompt=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50))
    @settings(max_examples=50, deadline=None)
    def test_a_prompt_arrives_as_it_is(self, prompt: str) -> None:
        command = CommandConfig(argv=("llm", "--", "{prompt}", "<{prompt}>"))
        assert fill(command, ask(prompt=prompt), HOST).argv == ("llm", "--", prompt, f"<{prompt}>")

    def test_on_stdin(self) -> None:
        result = run(config("import sys; print(sys.stdin.read().upper())", stdin=True), ask(prompt="-–\n" * 100_000))
        assert result.output == "-–\n" * 100_000
        assert result.ok

    def test_system_text_goes_before_the_prompt_where_it_has_no_place_of_its_own(self) -> None:
        request = ask(prompt="p", system="s")
        assert fill(CommandConfig(argv=("llm", "{prompt}")), request, HOST).argv == ("llm", "s\n\np")
        assert fill(CommandConfig(argv=("llm",), stdin=True), request, HOST).stdin == b"s\n\np"
        assert fill(CommandConfig(argv=("llm", "{system}"), stdin=True), request, HOST).stdin == b"p"

    def test_the_model_is_the_tasks_else_the_configured_one(self) -> None:
        command = CommandConfig(argv=("llm", "{model}"), model="configured")
        assert fill(command, ask(model="asked"), HOST).argv == ("llm", "asked")
        assert fill(command, ask(), HOST).argv == ("llm", "configured")

    def test_a_model_that_a_command_can_not_take_is_not_claimed(self) -> None:
        result = run(config("print(1)", model="own"), ask(model="asked"))
        assert result.model == "own"
        assert result.adjustments == (f"{sys.executable} takes no model: asked was not used",)

    @each(
        ("argv", "fields", "message"),
        [
            (("llm", "{model}"), {}, "llm needs a model, and none is known: set model for the command, or in the task"),
            (
                ("llm", "{prompt}"),
                {"prompt": "--version"},
                "{prompt} would begin with '-' and be taken for a flag: set stdin = true, or put '--' before it",
            ),
            (
                ("llm", "{system}{prompt}"),
                {"prompt": "-x"},
                "{system}{prompt} would begin with '-' and be taken for a flag",
            ),
            (("llm", "{model}", "--"), {"model": "-x"}, "{model} would begin with '-' and be taken for a flag"),
            (
                ("llm", "-p={prompt}"),
                {"prompt": "a\0b"},
                "-p={prompt} would hold a NUL, which no argument can: set stdin = true",
            ),
            (
                ("llm", "{prompt}"),
                {"prompt": "ä" * (MAX_ARGUMENT // 2 + 1)},
                f"{{prompt}} would be longer than an argument may be, {MAX_ARGUMENT} bytes: set stdin = true",
            ),
            (("{prompt}",), {"prompt": "rm"}, "the program of a command can't be filled in: {prompt}"),
            (
                ("llm", "x"),
                {"command": None, "prompt": "p"},
                "llm does not take the prompt: put {prompt} among its arguments, or set stdin = true",
            ),
        ],
    )
    def test_what_can_not_be_filled_in(self, argv: tuple[str, ...], fields: dict[str, Any], message: str) -> None:
        with pytest.raises(BadTask) as caught:
            fill(CommandConfig(argv=argv), ask(**fields), HOST)
        assert str(caught.value).startswith(message)
        result = run(CommandConfig(argv=argv), ask(**fields))
        assert (*problem(result), result.replan) == ("failed", "task", str(caught.value), True)

    def test_a_dash_is_no_flag_after_two_or_within_an_option(self) -> None:
        command = CommandConfig(argv=("llm", "-p={prompt}", "-{prompt}", "--", "{prompt}"))
        assert fill(command, ask(prompt="-x"), HOST).argv == ("llm", "-p=-x", "--x", "--", "-x")

    def test_the_longest_argument_arrives(self) -> None:
        result = run(config("import sys; print(len(sys.argv[1]))", "{prompt}"), ask(prompt="x" * MAX_ARGUMENT))
        assert (result.status, result.output) == ("completed", str(MAX_ARGUMENT))


class TestText:
    def test_output_is_the_answer(self) -> None:
        told: list[str] = []
        result = run(config(r"print('a\n\nb\n', end='')"), told=told)
        assert result.output == "a\n\nb"
        assert "".join(told) == "a\n\nb\n"
        assert (result.status, result.runtime, result.tokens, result.cost_usd) == ("completed", "cli", None, None)

    def test_many_lines_at_once_are_one_message(self) -> None:
        told: list[str] = []
        run(config(r"import os; os.write(1, b'x\n' * 1000)"), told=told)
        assert told == ["x\n" * 1000]

    def test_bytes_that_are_no_text_are_replaced(self) -> None:
        assert run(config(r"import os; os.write(1, b'a\xffb')")).output == "a�b"

    def test_who_was_asked_must_answer(self) -> None:
        result = run(config("import os; os.write(2, b'nothing found')", stdin=True), ask(prompt="p", command=None))
        assert problem(result) == ("failed", "empty", f"{sys.executable} ended without an answer: nothing found")

    def test_who_was_not_may_be_silent(self) -> None:
        assert problem(run(config("pass"), ask(command=("python3",)))) == ("completed", None, None)

    def test_more_than_is_read(self) -> None:
        result = run(config(f"print('x' * ({MAX_TEXT} + 1))"))
        expected = (
            f"{sys.executable} was ended: it said more than is read ({MAX_TEXT} bytes in all, {MAX_TEXT} in a line)"
        )
        assert problem(result) == ("failed", "output", expected)
        assert result.output == "x" * MAX_TEXT


class TestJson:
    def test_answer_and_usage_by_path(self) -> None:
        document = {"choices": [{"text": "hi"}], "usage": {"in": 7, "out": 5.0, "usd": 0.25}}
        paths = {"path": "choices.0.text", "tokens_in": "usage.in", "tokens_out": "usage.out", "cost_usd": "usage.usd"}
        result = run(says(document, **paths))
        assert (result.status, result.output, result.structured) == ("completed", "hi", None)
        assert (result.tokens, result.cost_usd, result.observations) == (Tokens(input=7, output=5), 0.25, ())

    def test_what_is_no_text_is_structured_too(self) -> None:
        result = run(says({"a": {"b": [1, None]}}, path="a"))
        assert (result.output, result.structured) == ('{"b":[1,null]}', {"b": [1, None]})

    def test_without_a_path_it_is_all_of_it(self) -> None:
        assert run(says([1, "x"])).structured == [1, "x"]

    def test_usage_that_is_not_there_is_unknown_and_said_so(self) -> None:
        paths = {"tokens_in": "in", "tokens_out": "out", "cost_usd": "usage.cost"}
        result = run(says({"in": True, "out": -1, "usage": {"cost": "much"}}, **paths))
        assert (result.status, result.tokens, result.cost_usd) == ("completed", None, None)
        assert result.observations == (
            "there is no number for tokens_in at in",
            "there is no number for tokens_out at out",
            "there is no number for cost_usd at usage.cost",
        )

    @pytest.mark.parametrize("number", ["1e999", "9" * 4000])
    def test_absurd_usage_is_unknown(self, number: str) -> None:
        result = run(
            config(f'print(\'{{"a": "x", "n": {number}}}\')', format="json", path="a", tokens_in="n", cost_usd="n")
        )
        assert (result.output, result.tokens, result.cost_usd) == ("x", None, None)

    @pytest.mark.parametrize(
        ("document", "path", "message"),
        [
            ({"a": [1]}, "b", "there is no b in it; in it there is: a"),
            ({"a": [1]}, "a.1", "there is no a.1 in it; in a there is: a list of 1"),
            ({"a": [1]}, "a.-1", "there is no a.-1 in it; in a there is: a list of 1"),
            ({"a": "text"}, "a.b", "there is no a.b in it; in a there is: a single value"),
            ({}, "a", "there is no a in it; in it there is: nothing"),
        ],
    )
    def test_nothing_at_the_path(self, document: Any, path: str, message: str) -> None:
        with pytest.raises(LookupError, match=f"^{re.escape(message)}$"):
            pick(document, path)

    def test_what_can_not_be_found_is_kept_with_what_it_cost(self) -> None:
        result = run(says({"a": 1, "usd": 2}, path="b", cost_usd="usd"))
        expected = f"the answer of {sys.executable} can't be read: there is no b in it; in it there is: a, usd"
        assert problem(result) == ("failed", "output", expected)
        assert (result.output, result.cost_usd) == ('{"a": 1, "usd": 2}', 2)

    @pytest.mark.parametrize(
        ("printed", "why"),
        [
            ("'oops'", "expected value at line 1 column 1"),
            ("'{} {}'", "trailing characters at line 1 column 4"),
            ("'NaN'", "expected value at line 1 column 1"),
            ("'[' * 100_000 + ']' * 100_000", "recursion limit exceeded at line 1 column 202"),
        ],
    )
    def test_what_is_not_json(self, printed: str, why: str) -> None:
        result = run(config(f"print({printed})", format="json"))
        assert problem(result) == (
            "failed",
            "output",
            f"the answer of {sys.executable} can't be read: it is not JSON: {why}",
        )

    @pytest.mark.parametrize("printed", ["", "null", '""'])
    def test_an_empty_answer(self, printed: str) -> None:
        result = run(config(f"print({printed!r})", format="json"))
        assert problem(result) == ("failed", "empty", f"{sys.executable} ended without an answer")


class TestJsonLines:
    LINES = (
        r'print("""{"t": "a"}' "\n\n" r'{"u": {"in": 1}}' "\n" r'{"t": "b", "u": {"in": 3, "out": 2, "usd": 0.5}}""")'
    )

    def test_parts_are_joined_and_the_last_usage_counts(self) -> None:
        told: list[str] = []
        paths = {"path": "t", "tokens_in": "u.in", "tokens_out": "u.out", "cost_usd": "u.usd"}
        result = run(config(self.LINES, format="jsonl", **paths), told=told)
        assert (result.status, result.output, "".join(told)) == ("completed", "ab", "ab")
        assert (result.tokens, result.cost_usd) == (Tokens(input=3, output=2), 0.5)

    def test_no_line_has_the_path(self) -> None:
        result = run(config(self.LINES, format="jsonl", path="x"))
        assert problem(result) == (
            "failed",
            "output",
            f"the answer of {sys.executable} can't be read: no line of it has x",
        )

    @pytest.mark.parametrize(
        ("line", "why"),
        [("oops", "line 2 is not JSON: expected value at line 1 column 1"), ("[1]", "line 2 is not an object")],
    )
    def test_a_line_that_is_no_object(self, line: str, why: str) -> None:
        code = f'print(\'{{"t": "a"}}\'); print(\'{line}\'); print(\'{{"t": "b"}}\')'
        result = run(config(code, format="jsonl", path="t"))
        assert problem(result) == ("failed", "output", f"the answer of {sys.executable} can't be read: {why}")
        assert result.output == "ab"

    def test_more_text_than_an_answer_may_be(self) -> None:
        code = f"import json; [print(json.dumps({{'t': 'x' * ({MAX_TEXT} // 2)}})) for _ in range(3)]"
        result = run(config(code, format="jsonl", path="t"))
        assert problem(result)[:2] == ("failed", "output")
        assert result.output == "x" * MAX_TEXT

    def test_a_line_that_was_cut_by_an_interrupt_is_no_fault_of_its_own(self) -> None:
        code = (
            """import time; print('{"t": "first"}', flush=True); print('{"t": ', end='', flush=True); time.sleep(60)"""
        )
        result = run(config(code, format="jsonl", path="t"), stop_at="first")
        assert problem(result) == ("interrupted", "interrupted", f"{sys.executable} was interrupted")
        assert result.output == "first"


class TestFailures:
    def test_an_exit_code(self) -> None:
        result = run(config("import sys; print('partial'); sys.exit('it broke')"))
        assert problem(result) == ("failed", "task", f"{sys.executable} failed with exit code 1: it broke")
        assert result.output == "partial"

    def test_an_exit_code_without_a_word(self) -> None:
        expected = f"{sys.executable} failed with exit code 3, and said nothing on stderr"
        assert problem(run(config("raise SystemExit(3)"))) == ("failed", "task", expected)

    def test_a_failure_costs_what_it_costs(self) -> None:
        code = """print('{"usd": 3, "a": "text"}'); raise SystemExit(1)"""
        result = run(config(code, format="json", path="a", cost_usd="usd"))
        assert (result.failure, result.cost_usd, result.output) == ("task", 3, "text")

    def test_a_long_stderr_is_cut_at_its_beginning(self) -> None:
        error = run(config("import sys; sys.exit('x' * 5000 + 'end')")).error
        assert error == f"{sys.executable} failed with exit code 1: " + "x" * 1996 + "end"

    def test_not_found(self) -> None:
        result = run(CommandConfig(argv=("no-such-program",)))
        assert problem(result) == ("failed", "not_found", "there is no program 'no-such-program' on the PATH")

    def test_what_a_program_could_not_start_is_its_own_failure(self) -> None:
        assert run(CommandConfig(argv=("env", "no-such-program"))).failure == "task"

    def test_a_folder_that_is_gone_is_not_a_missing_program(self, tmp_path: Path) -> None:
        result = run(CommandConfig(argv=("true",)), ask(cwd=str(tmp_path / "gone")))
        assert problem(result) == ("failed", "task", f"the folder {tmp_path / 'gone'} is not there")

    def test_a_crash(self) -> None:
        result = run(config("import os; print('partial', flush=True); os.kill(os.getpid(), 11)"))
        assert problem(result) == ("failed", "crash", f"{sys.executable} was ended by SIGSEGV")
        assert result.output == "partial"

    @pytest.mark.parametrize(("asked", "configured"), [(0.3, None), (None, 0.3), (60.0, 0.3)])
    def test_the_shorter_time_limit_holds(self, asked: float | None, configured: float | None) -> None:
        result = run(CommandConfig(argv=("sleep", "60"), timeout_s=configured), ask(timeout_s=asked))
        assert problem(result) == ("timeout", "timeout", "sleep was ended after 0.3 s")

    def test_silence(self) -> None:
        result = run(CommandConfig(argv=("sleep", "60")), ask(silence_s=0.2))
        assert problem(result) == ("failed", "silence", "sleep was ended after 0.2 s without a word")

    def test_an_interrupt_keeps_what_was_said(self) -> None:
        result = run(config("import time; print('partial', flush=True); time.sleep(60)"), stop_at="partial")
        assert problem(result) == ("interrupted", "interrupted", f"{sys.executable} was interrupted")
        assert result.output == "partial"

    def test_a_variable_that_can_not_be(self) -> None:
        result = run(config("pass", set={"A=B": "x"}))
        assert result.error == (
            f"{sys.executable}: 'A=B' is not the name of an environment variable (a * at its end stands for any ending)"
        )


class TestEnvironment:
    def test_the_usual_passes_and_nothing_else(self) -> None:
        usual = {
            "PATH": "/bin",
            "HOME": "/h",
            "LC_ALL": "C",
            "XDG_CACHE_HOME": "/c",
            "TZ": "UTC",
            "NODE_EXTRA_CA_CERTS": "/ca",
        }
        other = {
            "OPENAI_API_KEY": "k",
            "LD_PRELOAD": "x",
            "PYTHONPATH": "x",
            "GO_ENT_TRUST_PROJECT": "1",
            "LCX": "x",
            "home": "x",
        }
        assert child_environment(usual | other) == usual

    def test_names_and_prefixes_that_are_allowed(self) -> None:
        host = {"A": "1", "AB": "2", "AWS_X": "3", "AWS_Y": "4", "GO_ENT_TOKEN": "5"}
        assert child_environment(host, allow=["A", "AWS_*", "GO_ENT_TOKEN", "GO_*"]) == {
            "A": "1",
            "AWS_X": "3",
            "AWS_Y": "4",
        }

    def test_what_is_set_wins(self) -> None:
        assert child_environment({"HOME": "/h", "A": "1"}, allow=["A"], set={"HOME": "/x", "A": "2"}) == {
            "HOME": "/x",
            "A": "2",
        }

    def test_a_proxy_with_a_password_needs_to_be_named(self) -> None:
        host = {
            "HTTP_PROXY": "http://proxy:3128",
            "https_proxy": "http://me:password@proxy:3128",
            "NO_PROXY": "localhost",
        }
        assert child_environment(host) == {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "localhost"}
        assert child_environment(host, allow=["https_proxy"]) == host
        assert secrets_of(host, allow=["https_proxy", "HTTP_PROXY"]) == {"http://me:password@proxy:3128"}

    @pytest.mark.parametrize("name", ["", "*", "A=B", "A\0", "A*B", "**"])
    def test_names_that_can_not_be(self, name: str) -> None:
        with pytest.raises(ValueError, match="is not the name of an environment variable"):
            child_environment({}, allow=[name])

    def test_a_value_that_can_not_be(self) -> None:
        with pytest.raises(ValueError, match="the value of the environment variable A holds a NUL"):
            child_environment({}, set={"A": "\0"})

    def test_secrets_are_what_was_passed_beyond_the_usual(self) -> None:
        assert secrets_of({"PATH": "/bin", "KEY": "k", "OTHER": "o"}, allow=["KEY", "PATH"], set={"B": "b"}) == {
            "k",
            "b",
        }

    def test_scrubbing_leaves_short_values_and_finds_spellings(self) -> None:
        assert (
            scrub("short 12345678 p%40ssword p@ssword", ["short", "12345678", "p@ssword"])
            == "short [secret] [secret] [secret]"
        )
