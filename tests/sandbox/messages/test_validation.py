"""What pydantic finds wrong is put into words in one place, and names that may be meant are found in one."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, validate_call

from go_ent.sandbox.messages.near_names import alike, did_you_mean, near
from go_ent.sandbox.messages.validation import explain, misfits, problems
from tests.support import ROOT
from tests.support.code import parsed
from tests.support.rows import each

PHRASES = "sandbox/messages/validation.py"
NAMES = "sandbox/messages/near_names.py"
DIFFERENCES = (
    "composer/composed/differences.py",
    "engine/settings/edit.py",
    "engine/setup/install.py",
    "engine/strategies/replanning.py",
)


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    count: int = Field(1, ge=1)
    ratio: float = 1.0
    label: str = Field("a", pattern="^[a-z]+$")
    names: tuple[str, ...] = ()
    ready: bool = False

    @field_validator("label")
    @classmethod
    def _short(cls, value: str) -> str:
        if len(value) > 5:
            raise ValueError("five letters at the most")
        return value


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    part: Part


@each(
    ("data", "expected"),
    [
        ({}, "part: it is required"),
        ({"part": 1}, "part: it should be a table"),
        ({"part": {"count": "x"}}, "part.count: it should be a whole number"),
        ({"part": {"count": 0}}, "part.count: it should be greater than or equal to 1"),
        ({"part": {"ratio": "x"}}, "part.ratio: it should be a number"),
        ({"part": {"label": 1}}, "part.label: it should be text"),
        ({"part": {"label": "A"}}, "part.label: it should match pattern '^[a-z]+$'"),
        ({"part": {"label": "abcdef"}}, "part.label: five letters at the most"),
        ({"part": {"names": "a"}}, 'part.names: it should be a list, like ["a", "b"]'),
        ({"part": {"ready": "maybe"}}, "part.ready: it should be true or false"),
        ({"part": {"coutn": 1}}, "part.coutn: there is no such setting; did you mean count?"),
        ({"part": {"coutn": 1}, "x": 1}, "part.coutn: there is no such setting; did you mean count?; "
         "x: there is no such setting"),
    ],
)  # fmt: skip
def test_each_problem_says_where_it_is_and_what_should_be_there(data: Any, expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(data)
    assert explain(caught.value, names=Part.model_fields) == expected


def test_a_json_client_reads_of_objects() -> None:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate({"part": 1})
    assert explain(caught.value, mapping="object") == "part: it should be an object"


def test_the_value_is_never_told() -> None:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate({"part": {"count": "hush-4711", "label": "HUSH-4711", "names": {"hush-4711": 1}}})
    assert len(problems(caught.value)) == 3
    assert "hush-4711" not in explain(caught.value).lower()


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((), {}, "text is required"),
        (("a",), {"times": "x"}, "times: it should be a whole number"),
        ((1,), {}, "text: it should be text"),
        (("a",), {"tims": 2}, "there is no argument tims; did you mean times?"),
        (("a",), {"colour": 2}, "there is no argument colour; it takes text, times"),
        (("a", 1), {"text": "b"}, "text: it is given twice"),
    ],
)
def test_arguments_of_a_call_are_named(args: tuple[Any, ...], kwargs: dict[str, Any], expected: str) -> None:
    @validate_call
    def shout(text: str, times: int = 1) -> None: ...

    with pytest.raises(ValidationError) as caught:
        shout(*args, **kwargs)
    assert misfits(caught.value, ["text", "times"]) == expected


def test_names_that_may_be_meant() -> None:
    assert near("alow", ["deny", "allow"]) == ["allow"]
    assert near("x" * 500, ["x" * 500]) == []
    assert alike("x" * 500, "x" * 500) == 0.0
    assert did_you_mean(["a", "b"]) == "; did you mean a or b?"
    assert did_you_mean([]) == ""


def _uses(path: Any) -> set[str]:
    """What a module imports and which methods it calls, by name."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            keywords = {keyword.arg for keyword in node.keywords}
            names |= {f".{node.func.attr}()"} if keywords & {"include_url", "include_input"} else set()
    return names


def test_nobody_else_phrases_validation_errors_or_compares_names() -> None:
    """The guest is another program, and limits show the value that is wrong; a difference is no likeness."""
    for package in ("sandbox", "composer", "engine"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if "/guest/" in name:
                continue
            uses = _uses(path)
            assert ".errors()" not in uses or name in (PHRASES, "sandbox/host/limits.py"), name
            assert "difflib" not in uses or name in (NAMES, *DIFFERENCES), name
