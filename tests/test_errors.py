"""Errors: one drawn tree per package that is complete, and advice that each front end has words for."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from go_ent.composer.errors import ComposeRefused, ConfigError, ToolNotFound
from go_ent.engine.cli.terminal.advice import in_commands
from go_ent.engine.core.errors import ExecutionNotFound, StorageFailed, Untrusted
from go_ent.engine.server.calls.advice import in_tools
from go_ent.sandbox import RunError
from go_ent.sandbox.errors import AdvisedError, RunNotFound
from go_ent.sandbox.messages.advice import PYTHON, Advice, joined
from tests.support import ROOT
from tests.support.code import parsed

HOMES = {
    "sandbox": "go_ent.sandbox.errors",
    "composer": "go_ent.composer.errors",
    "engine": "go_ent.engine.core.errors",
}
# Before a name stand a pair of dashes, and four columns for each level above it.
LINE = re.compile(r"(?P<before>[ │├└─]*)(?P<name>[A-Z]\w+)(?: \((?P<also>\w+)\))?  +\S")
ALL = [Advice(action, "subject", argument) for action, argument in PYTHON]  # type: ignore[arg-type]


def classes(home: str) -> dict[str, type[BaseException]]:
    module = importlib.import_module(home)
    return {
        name: kind
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == home
    }


def drawn(home: str) -> Iterator[tuple[str, list[str]]]:
    """Each error of the drawing, and its bases in their order."""
    above: list[tuple[int, str]] = []
    for line in (importlib.import_module(home).__doc__ or "").splitlines():
        match = LINE.fullmatch(line) or LINE.match(line) or re.fullmatch(r"()(?P<name>\w+) \((?P<also>\w+)\)", line)
        if match is None:
            continue
        depth = match.start("name")
        above = [parent for parent in above if parent[0] < depth]
        bases = [above[-1][1]] if above else []
        bases += [match["also"]] if match["also"] else []
        yield match["name"], bases or ["Exception"]
        above.append((depth, match["name"]))


@pytest.mark.parametrize("home", HOMES.values())
def test_the_drawing_has_every_error_under_its_bases(home: str) -> None:
    assert dict(drawn(home)) == {
        name: [base.__name__ for base in kind.__bases__] for name, kind in classes(home).items()
    }


@pytest.mark.parametrize("home", HOMES.values())
def test_every_error_says_when_it_is_raised(home: str) -> None:
    for name, kind in classes(home).items():
        assert inspect.cleandoc(kind.__doc__ or "").startswith("Raised when "), name


def test_errors_that_are_elsewhere_are_internal() -> None:
    """The guest is a program of its own."""
    exceptions = {name for name, kind in vars(builtins).items() if isinstance(kind, type)} & {
        name for name in vars(builtins) if name.endswith(("Error", "Exception", "Warning", "Interrupt", "Exit"))
    }
    for home in HOMES.values():
        exceptions |= set(classes(home))
    kinds = [
        (path, node)
        for package in HOMES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name != "errors.py" and "guest" not in path.relative_to(ROOT).parts[:-1]
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    ]
    internal: list[tuple[Path, ast.ClassDef]] = []
    while more := [
        (path, node)
        for path, node in kinds
        if node.name not in exceptions and {ast.unparse(base).rpartition(".")[2] for base in node.bases} & exceptions
    ]:
        internal += more
        exceptions |= {node.name for _, node in more}
    assert len(internal) > 10
    for path, node in internal:
        about = ast.get_docstring(node) or ""
        assert node.name.startswith("_") or about.startswith("Internal: "), f"{path}:{node.lineno} {node.name}"


class TestAdvice:
    @pytest.mark.parametrize("words", [str, in_commands, in_tools])
    def test_every_front_end_has_words_for_all_of_it(self, words: object) -> None:
        assert callable(words)
        told = [words(advice) for advice in ALL]
        assert all(told)
        assert len(set(told)) == len(told)
        assert not any("{" in text for text in told)

    def test_a_front_end_does_not_speak_in_the_words_of_another(self) -> None:
        for advice in ALL:
            assert "engine_" not in f"{advice}{in_commands(advice)}", advice
            assert "--" not in f"{advice}{in_tools(advice)}", advice
            if "go-ent " in in_tools(advice).replace(".go-ent", ""):
                assert "person" in in_tools(advice), advice

    def test_limits_are_raised_by_the_option_that_the_command_has(self) -> None:
        assert in_commands(Advice("raise_limit", "timeout_s")).startswith("or raise --timeout of go-ent exec, or ")
        assert "--" not in in_commands(Advice("raise_limit", "max_tool_calls"))

    def test_what_nobody_has_words_for_can_t_be_advised(self) -> None:
        with pytest.raises(ValueError, match="trust takes no argument 'anyway'"):
            Advice("trust", "", "anyway")

    def test_an_error_carries_it_as_data(self) -> None:
        error = Untrusted("the command echo", "/p")
        assert error.advice == Advice("trust", "/p")
        assert error.message == "the command echo would start what /p names, and nobody has trusted it"
        assert str(error) == f"{error.message}; look at its .go-ent/config.toml, then run go-ent trust there"
        assert error.told(in_tools).startswith(f"{error.message}; a person must ")
        assert StorageFailed.begun(OSError(28, "full")).advice == Advice("diagnose")

    @pytest.mark.parametrize("kind", [ExecutionNotFound, ToolNotFound, RunNotFound])
    def test_a_key_error_is_not_quoted(self, kind: type[AdvisedError]) -> None:
        assert str(kind("there is none")) == "there is none"
        assert str(kind()) == ""
        assert kind("there is none").advice is None

    def test_errors_with_several_problems_carry_it_too(self) -> None:
        advice = Advice("trust")
        assert ConfigError("a", "b", advice=advice).told(in_tools, "\n").startswith("a\nb\na person must")
        assert ComposeRefused("x", ["p"], advice=advice).problems == ["p"]

    def test_a_run_s_error_keeps_the_words_of_the_library(self) -> None:
        error = RunError(kind="timeout", message="m").advise(Advice("raise_limit", "timeout_s"), "do less")
        assert (error.hint, error.advice) == ("do less, or raise timeout_s", Advice("raise_limit", "timeout_s"))
        assert (error.hint_in(in_commands) or "").startswith("do less, or raise --timeout")
        again = RunError.model_validate_json(error.model_dump_json())
        assert (again.advice, again.hint_in(in_commands)) == (None, "do less, or raise timeout_s")
        assert set(error.model_dump()) == set(RunError.model_fields)

    def test_a_guest_can_t_forge_it(self) -> None:
        with pytest.raises(ValueError, match="advice"):
            RunError.model_validate({"kind": "a", "message": "b", "advice": {"action": "trust"}})

    def test_without_a_text_it_stands_alone(self) -> None:
        assert joined("", Advice("resume", "1"), in_commands) == "go-ent resume 1 continues it"
        assert joined("text", None) == "text"
