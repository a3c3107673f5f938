"""A tool's arguments as people type them, read by its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.inputs.values import Arguments

SCHEMA = {
    "properties": {
        "log": {"type": "string"},
        "least": {"type": "integer", "default": 400},
        "share": {"type": "number"},
        "max_rows": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "verbose": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object"},
        "any": {},
        "level": {"enum": ["low", "high"]},
    },
    "required": ["log"],
    "additionalProperties": False,
}
TOOL = Arguments("errors", SCHEMA)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--log", "a", "--least", "5"], {"log": "a", "least": 5}),
        (["--log=a=b"], {"log": "a=b"}),
        (["log=400", "least=400"], {"log": "400", "least": 400}),
        (["log=x", 'where:={"a": [1]}'], {"log": "x", "where": {"a": [1]}}),
        (["--max-rows", "3", "x"], {"max_rows": 3, "log": "x"}),
        (["x", "--max-rows", "null"], {"log": "x", "max_rows": None}),
        (["x", "--verbose"], {"log": "x", "verbose": True}),
        (["x", "--no-verbose", "--share", "0.5"], {"log": "x", "verbose": False, "share": 0.5}),
        (["x", "verbose=yes"], {"log": "x", "verbose": True}),
        (["x", "--tags", "a", "--tags", "b"], {"log": "x", "tags": ["a", "b"]}),
        (["x", "--tags", '["a"]'], {"log": "x", "tags": ["a"]}),
        (["x", "any=[1]"], {"log": "x", "any": [1]}),
        (["x", "any=word"], {"log": "x", "any": "word"}),
        (["x", "level=high"], {"log": "x", "level": "high"}),
        (["--log", "-1"], {"log": "-1"}),
        (["log=@@me"], {"log": "@me"}),
    ],
)
def test_they_become_what_the_schema_says(words: list[str], found: dict[str, Any]) -> None:
    assert TOOL.read(words) == found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lgo", "x"], "errors has no parameter lgo; did you mean --log?"),
        (["zzz=1"], "errors has no parameter zzz; it takes log, least (optional)"),
        (["--least"], "--least needs a value"),
        (["--least", "--log", "x"], "--least needs a value"),
        (["--least", "many"], "least: 'many' is not a whole number"),
        (["where=x"], "where: 'x' is not a JSON object"),
        (["where:={"], "where is not JSON"),
        (["log=a", "log=b"], "log was given twice"),
        (["a", "b"], "unexpected: 'b'"),
        (["log=a", "b"], "which parameter is that for?"),
        (["log=@/nowhere/x"], "log @/nowhere/x: No such file or directory"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(words: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        TOOL.read(words)
    assert said in str(refused.value)


def test_a_name_that_is_no_parameter_is_the_text_of_the_only_one_at_most() -> None:
    text, number = (Arguments("one", {"properties": {"text": {"type": kind}}}) for kind in ("string", "integer"))
    assert text.read(["a=b"]) == {"text": "a=b"}
    with pytest.raises(UsageError, match="one has no parameter txt; did you mean text"):
        text.read(["txt=b"])
    with pytest.raises(UsageError, match="one has no parameter b; it takes text"):
        number.read(["b=1"])


def test_a_file_whose_name_was_typed_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("{}")
    with pytest.raises(UsageError, match=r"is not a JSON object; @.*/a reads that file$"):
        TOOL.read(["log=x", f"where={tmp_path}/a"])


def test_a_file_is_text_or_json_as_the_parameter_takes_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("[1]")
    assert TOOL.read([f"log=@{tmp_path}/a", f"any=@{tmp_path}/a"]) == {"log": "[1]", "any": [1]}
    (tmp_path / "a").write_text("[1")
    with pytest.raises(UsageError, match="is not JSON"):
        TOOL.read([f"where=@{tmp_path}/a"])
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not UTF-8"):
        TOOL.read([f"log=@{tmp_path}/a"])


def test_what_is_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="log was given twice: in --input and as an argument"):
        TOOL.read(["log=a"], {"log": "b"})
