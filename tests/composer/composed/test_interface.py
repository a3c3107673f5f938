"""What a composed tool takes, returns and calls: derived from its code, in a guest."""

from __future__ import annotations

import asyncio
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.composer import ComposeRefused
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.interface import Inspector, Interface
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool

TYPES = """
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union

class Colour(Enum):
    RED = "red"
    BLUE = "blue"

class Level(IntEnum):
    LOW = 1
    HIGH = 2

class Point(NamedTuple):
    x: int
    y: float

class Issue(TypedDict):
    title: str
    votes: NotRequired[int]

class Loose(TypedDict, total=False):
    a: int

@dataclass
class Options:
    limit: int
    colours: list[Colour] = field(default_factory=list)
    parent: "Options | None" = None

type Names = list[str]
Id = NewType("Id", int)
"""


def look(box: Sandbox, source: str) -> Interface:
    return asyncio.run(Inspector(box).interface(toolfile.read(source)))


def parameter(box: Sandbox, annotation: str, default: str = "") -> dict[str, Any]:
    code = f'{TYPES}\ndef t(x: {annotation}{default}) -> None:\n    """T."""\n'
    schema = look(box, tool("t", code)).input_schema
    found: dict[str, Any] = schema["properties"]["x"]
    return {**found, **({"$defs": schema["$defs"]} if "$defs" in schema else {})}


class TestTypes:
    @pytest.mark.parametrize(
        ("annotation", "good", "bad"),
        [
            ("str", ["", "a"], [1, None]),
            ("int", [1, -5], ["1", 1.5, None]),
            ("float", [1, 1.5], ["1"]),
            ("bool", [True], [1, "x"]),
            ("None", [None], [0]),
            ("Any", [1, None, {"a": []}], []),
            ("list", [[], [1, "a"]], [{}, "x"]),
            ("list[int]", [[], [1]], [["a"], {}]),
            ("dict", [{}, {"a": 1}], [[]]),
            ("dict[str, int]", [{"a": 1}], [{"a": "b"}]),
            ("Mapping[str, list[int]]", [{"a": [1]}], [{"a": 1}]),
            ("dict[Colour, int]", [{"red": 1}], [{"green": 1}]),
            ("Sequence[str]", [["a"]], ["a"]),
            ("tuple[int, str]", [[1, "a"]], [[1], [1, 2], [1, "a", 3]]),
            ("tuple[int, ...]", [[], [1, 2]], [["a"]]),
            ("set[int]", [[1, 2]], [[1, 1], 1]),
            ("Literal['a', 1, None]", ["a", 1, None], ["b", 2]),
            ("Colour", ["red"], ["green", 1]),
            ("Level", [1], [3, "LOW"]),
            ("Optional[int]", [1, None], ["a"]),
            ("int | str", [1, "a"], [None, 1.5]),
            ("Union[list[int], None]", [[1], None], [["a"]]),
            ("Issue", [{"title": "a"}, {"title": "a", "votes": 2}], [{}, {"title": 1}, {"title": "a", "other": 1}]),
            ("Loose", [{}, {"a": 1}], [{"a": "x"}, {"b": 1}]),
            (
                "Options",
                [{"limit": 1}, {"limit": 1, "colours": ["red"], "parent": {"limit": 2}}],
                [{}, {"limit": 1, "parent": {}}],
            ),
            ("Point", [[1, 2.5]], [[1], {"x": 1}]),
            ("datetime", ["2024-01-02T03:04:05Z"], [5]),
            ("date", ["2024-01-02"], [5]),
            ("Decimal", ["1.50", "-3"], ["abc", 1.5]),
            ("Names", [["a"]], [[1]]),
            ("Id", [5], ["a"]),
            ("Annotated[int, 'how many']", [5], ["a"]),
        ],
    )
    def test_each(self, shared_box: Sandbox, annotation: str, good: list[Any], bad: list[Any]) -> None:
        schema = parameter(shared_box, annotation)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        assert [value for value in good if not validator.is_valid(value)] == []
        assert [value for value in bad if validator.is_valid(value)] == []

    @pytest.mark.parametrize(
        ("signature", "said"),
        [
            ("x) -> int", "parameter x: it has no type"),
            ("x: complex) -> int", "parameter x: the class complex: use a TypedDict or a dataclass can't be expressed"),
            ("x: list[type]) -> int", "parameter x: the class type"),
            ("x: dict[int, str]) -> int", "parameter x: a dict with keys of type int"),
            ("*x: int) -> int", "parameter x: a tool's parameters are named one by one"),
            ("**x: int) -> int", "parameter x: a tool's parameters are named one by one"),
            ("x: int, /) -> int", "parameter x: it can be given by position only"),
            ("x: int = object()) -> int", "parameter x: its default can't be written as JSON"),
            ("tools: int) -> int", "parameter tools: the name is taken"),
            ("x: int)", "what it returns has no type"),
            ("x: int) -> set[complex]", "the return type: the class complex"),
            ("x: Nope) -> int", "its annotations can't be resolved: NameError"),
        ],
    )
    def test_what_can_not_be_expressed_is_named(self, shared_box: Sandbox, signature: str, said: str) -> None:
        with pytest.raises(ComposeRefused) as caught:
            look(shared_box, tool("t", f'def t({signature}:\n    """T."""\n    return 1\n'))
        assert said in "; ".join(caught.value.problems)

    def test_defaults_and_descriptions(self, shared_box: Sandbox) -> None:
        code = '''def t(a: int, b: str = "x", c: list[int] | None = None) -> int:
    """Do it.

    More about it.

    Args:
        a: The first,
            which goes on.
        b (str): The second.

    Returns:
        A number.
    """
    return 1
'''
        found = look(shared_box, tool("t", code))
        assert found.description.startswith("Do it.\n\nMore about it.")
        assert "The first" not in found.description
        properties = found.input_schema["properties"]
        assert properties["a"]["description"] == "The first, which goes on."
        assert properties["b"] == {"type": "string", "description": "The second.", "default": "x"}
        assert found.input_schema["required"] == ["a"]
        assert properties["c"]["default"] is None

    @pytest.mark.parametrize(
        "doc",
        [
            "T.\n\n    :param a: The first.\n    :param str b: The second.",
            "T.\n\n    Parameters\n    ----------\n    a : int\n        The first.\n    b : str\n        The second.",
        ],
    )
    def test_other_docstring_styles(self, shared_box: Sandbox, doc: str) -> None:
        found = look(shared_box, tool("t", f'def t(a: int, b: str) -> int:\n    """{doc}\n    """\n    return 1\n'))
        assert [found.input_schema["properties"][name].get("description") for name in "ab"] == [
            "The first.",
            "The second.",
        ]

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("def t() -> int:\n    return 1\n", "has no docstring"),
            ('def other() -> int:\n    """O."""\n    return 1\n', "there is no function t"),
            ("t = 5\n", "there is no function t"),
            ("def t(:\n", "SyntaxError"),
            (
                'import os\ndef t() -> int:\n    """T."""\n    return os.system("x")\n',
                "line 7: PolicyRefusal: os.system",
            ),
            ('1 / 0\ndef t() -> int:\n    """T."""\n    return 1\n', "line 4: ZeroDivisionError"),
            ('import time\ntime.sleep(99)\ndef t() -> int:\n    """T."""\n    return 1\n', "timeout"),
        ],
    )
    def test_what_is_no_tool(self, shared_box: Sandbox, code: str, said: str) -> None:
        with pytest.raises(ComposeRefused) as caught:
            look(shared_box, tool("t", code))
        assert said in "; ".join(caught.value.problems)


_ATOMS = st.sampled_from(
    ["str", "int", "float", "bool", "None", "Colour", "Issue", "Options", "Literal['a', 2]", "date", "Any"]
)
_ANNOTATIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        inner.map(lambda a: f"list[{a}]"),
        inner.map(lambda a: f"dict[str, {a}]"),
        st.tuples(inner, inner).map(lambda p: f"tuple[{p[0]}, {p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"Union[{p[0]}, {p[1]}]"),
    ),
    max_leaves=4,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_ANNOTATIONS, min_size=1, max_size=8))
def test_derived_schemas_are_schemas_and_values_go_round(shared_box: Sandbox, annotations: list[str]) -> None:
    """Any mix of types: a schema that jsonschema takes, and a value that fits comes back as it was."""
    parameters = ", ".join(f"p{index}: {annotation}" for index, annotation in enumerate(annotations))
    result = ", ".join(f"p{index}" for index in range(len(annotations)))
    code = f'{TYPES}\ndef t({parameters}) -> list[Any]:\n    """T."""\n    return [{result}]\n'
    schema = look(shared_box, tool("t", code)).input_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    inputs = {f"p{index}": _sample(schema["properties"][f"p{index}"], schema) for index in range(len(annotations))}
    jsonschema.validate(inputs, schema)
    run = shared_box.run_sync(tool("t", code), inputs, entry="t")
    assert (run.status, run.error) == ("completed", None)
    assert isinstance(run.result, list)
    for index, value in enumerate(run.result):
        jsonschema.validate(value, {**schema["properties"][f"p{index}"], "$defs": schema.get("$defs", {})})


def _sample(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """A value that fits."""
    if "$ref" in schema:
        return _sample(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema:
        return schema["enum"][-1]
    if "anyOf" in schema:
        return _sample(schema["anyOf"][0], root)
    kind = schema.get("type")
    if kind == "array":
        return [_sample(item, root) for item in schema.get("prefixItems", [])] or [
            _sample(schema.get("items", {}), root)
        ]
    if kind == "object":
        if "properties" in schema:
            return {name: _sample(schema["properties"][name], root) for name in schema.get("required", [])}
        return {"k": _sample(schema["additionalProperties"], root)}
    text = "2024-01-02" if schema.get("format") == "date" else "text"
    return {"string": text, "integer": 3, "number": 1.5, "boolean": True, "null": None}.get(str(kind), {"any": [1]})


class TestRequires:
    @pytest.mark.parametrize(
        ("body", "requires"),
        [
            ("await tools.a.b(1)", ("a.b",)),
            ("gh = tools.a\n    await gh.b(1)", ("a.b",)),
            ("f = tools.a.b\n    await f(1)", ("a.b",)),
            ("t = tools\n    u = t.a\n    await u.b()", ("a.b",)),
            ('await tools["a"].b()', ("a.b",)),
            ('await tools["a.b"]()', ("a.b",)),
            ('await getattr(tools.a, "b")()', ("a.b",)),
            ("x, y = tools.a.b, tools.c\n    await x(); await y.d()", ("a.b", "c.d")),
            ("await asyncio.gather(*(f(1) for f in (tools.a.b, tools.c.d)))", ("a.b", "c.d")),
            ("await helper(tools.a.b)", ("a.b",)),
            ("(g := tools.a.b)\n    await g()", ("a.b",)),
            ("print(tools)", ()),
            ("str(object=await tools.a.b())", ("a.b",)),
            ("return 1", ()),
        ],
    )
    def test_inferred(self, shared_box: Sandbox, body: str, requires: tuple[str, ...]) -> None:
        code = (
            "import asyncio\n\nasync def helper(f):\n    return await f()\n\nasync def t() -> int:\n    "
            f'"""T."""\n    {body}\n'
        )
        assert look(shared_box, tool("t", code)).requires == requires

    def test_aliases_at_the_top_level_and_in_defaults(self, shared_box: Sandbox) -> None:
        code = (
            'gh = tools.github\nasync def t() -> int:\n    """T."""\n'
            "    async def inner(f=gh.search):\n        return await f()\n    return await inner()\n"
        )
        assert look(shared_box, tool("t", code)).requires == ("github.search",)

    @pytest.mark.parametrize(
        "body", ["await tools[name]()", "await getattr(tools, name)()", "await helper(tools)", "x = [tools]"]
    )
    def test_what_can_not_be_told_must_be_declared(self, shared_box: Sandbox, body: str) -> None:
        code = f'async def t(name: str) -> None:\n    """T."""\n    {body}\n'
        with pytest.raises(ComposeRefused, match=r"line .*can't be told from the code; list the tools in `requires`"):
            look(shared_box, tool("t", code))
        assert look(shared_box, tool("t", code, head='# requires = ["a.*"]\n')).requires == ("a.*",)

    def test_what_a_class_holds_must_be_declared(self, shared_box: Sandbox) -> None:
        code = 'class K:\n    t = tools\nasync def t() -> None:\n    """T."""\n    await K.t.a.b()\n'
        with pytest.raises(ComposeRefused, match="can't be told from the code"):
            look(shared_box, tool("t", code))

    def test_what_only_looks_like_a_tool_can_be_declared_away(self, shared_box: Sandbox) -> None:
        code = (
            'async def t() -> None:\n    """T."""\n    def one():\n        gh = tools.a\n        return gh.b\n    '
            "gh = {}\n    gh.keys()\n"
        )
        assert look(shared_box, tool("t", code, head='# requires = ["a.b"]\n')).requires == ("a.b",)

    def test_declared_must_cover_what_is_called(self, shared_box: Sandbox) -> None:
        code = 'async def t() -> None:\n    """T."""\n    await tools.a.b()\n'
        with pytest.raises(ComposeRefused, match=r"line 7 uses tools\.a\.b, which `requires` does not list"):
            look(shared_box, tool("t", code, head='# requires = ["c.d"]\n'))
        assert look(shared_box, tool("t", code, head='# requires = ["a.*", "c.d"]\n')).requires == ("a.*", "c.d")


def test_the_answer_of_a_guest_is_not_believed(shared_box: Sandbox) -> None:
    """Code that breaks what looks at it gets an error, not a tool."""
    code = (
        "import json\njson.JSONEncoder.encode = None\nimport typing\n"
        'typing.get_type_hints = lambda *a, **k: {"return": 5}\ndef t() -> int:\n    """T."""\n    return 1\n'
    )
    with pytest.raises(ComposeRefused):
        look(shared_box, tool("t", code))
