"""Stubs are Python that parses and type-checks, whatever a server says of its tools."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from go_ent.composer.catalogue.spec import ANYTHING, Hints, ToolSpec
from go_ent.composer.catalogue.stub_names import clean
from go_ent.composer.catalogue.stubs import MAX_BYTES, parameters, signature, stub, stubs
from tests.support.rows import each

HOSTILE = [
    '"""\nimport os\nos.system("x")\n"""',
    '""""""',
    '"',
    "'''",
    "\\",
    '\\"""',
    "\\N{BULLET}",
    "# type: ignore",
    "a\rb\x0cc\x1cd\x85e\u2028f\u2029g",
    "\ud800",
    "\u202e\u200b",
    "\x00",
    "{0}{name}",
    "%s",
    "🤷‍♀️",
    "ﬁ",
    "x = 1; y",
    "a): pass #",
    "self",
    "self1",
    "arguments",
    "more",
    "more1",
    "list",
    "dict",
    "str",
    "int",
    "Any",
    "Literal",
    "TypedDict",
    "NotRequired",
    "Unpack",
    "Protocol",
    "None",
    "class",
    "import",
    "match",
    "type",
    "__class__",
    "__x",
    "_",
    "",
    "per-page",
    "$filter",
    "keys",
    "items",
    "name",
    "Issue",
    "1st",
    "x" * 3000,
]
EVERYDAY = (
    "id name title body labels user owner state items children parent next page limit query list str int dict Any "
    "Issue class"
).split()
words = st.sampled_from(HOSTILE) | st.text(max_size=12) | st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True)
refs = st.sampled_from(
    [
        "#",
        "#/$defs/A",
        "#/$defs/B",
        "#/definitions/A",
        "#/properties/name",
        "#/$defs/A/properties/name",
        "https://x.test/y",
        "#/x",
    ]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=4
)
KINDS = ["string", "integer", "number", "boolean", "null", "object", "array", "any", "", 3, None]


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), max_size=3),
            "title": words,
            "description": words,
            "default": values,
            "format": st.sampled_from(["date-time", "uri", "'''"]) | words,
            "minimum": scalars,
            "properties": st.dictionaries(words, inner, max_size=5),
            "required": st.lists(words, max_size=3),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(words, inner, max_size=2),
            "items": inner | some,
            "prefixItems": some,
            "nullable": st.booleans(),
        },
    ) | st.one_of(
        st.fixed_dictionaries({"enum": st.lists(values, max_size=5)}),
        st.fixed_dictionaries({"const": values}),
        st.fixed_dictionaries({"$ref": refs | words}),
        st.fixed_dictionaries({"anyOf": some, "title": words}),
        st.fixed_dictionaries({"oneOf": some}),
        st.fixed_dictionaries({"allOf": some}),
        st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(words, inner, max_size=5)}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        # not schemas at all, where one is expected
        st.dictionaries(
            st.sampled_from(["type", "properties", "items", "enum", "$ref", "required", "allOf", "anyOf"]),
            values,
            max_size=3,
        ),
    )


simple: st.SearchStrategy[Any] = st.sampled_from([{"type": kind} for kind in KINDS[:7]]) | st.booleans() | st.just({})
schemas = st.recursive(simple, grown, max_leaves=12)
roots = st.builds(
    lambda schema, a, b, extra: {
        **(schema if isinstance(schema, dict) else {}),
        "$defs": {"A": a, "B": b},
        "definitions": {"A": b},
        **extra,
    },
    grown(schemas),
    schemas,
    grown(schemas),
    st.just({})
    | st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(words, schemas, max_size=6)}),
)
parts = st.sampled_from(["list", "str", "dict", "search", "Issue", "import", "Any", "Literal", "_x"]) | st.from_regex(
    r"[A-Za-z][A-Za-z0-9_]{0,10}", fullmatch=True
)
specs = st.builds(
    ToolSpec,
    name=st.builds(
        lambda space, part: f"{space}{part}",
        st.sampled_from(["", "github.", "list.", "tools.", "import.", "a.b."]),
        parts,
    )
    | words,
    description=words | st.text(max_size=200),
    input_schema=roots,
    output_schema=st.none() | roots,
    hints=st.builds(Hints, st.none() | st.booleans(), st.none() | st.booleans(), st.none() | st.booleans()),
    learned=st.booleans(),
)


def drawn_schema(random: Random, depth: int) -> Any:
    """A schema such as servers write, of hostile and everyday words: fuller than what hypothesis grows by itself."""

    def word() -> str:
        return random.choice(HOSTILE if random.random() < 0.3 else EVERYDAY)

    def inner() -> Any:
        return drawn_schema(random, depth - 1)

    def some(most: int) -> list[Any]:
        return [inner() for _ in range(random.randint(1, most))]

    kind = random.choice(
        "object object object array array anyOf oneOf allOf enum enum const ref ref tuple dict mixed".split()
    )
    if depth <= 0 or random.random() < 0.25:
        kind = random.choice(["enum", "ref", "plain", "plain"])
    made: dict[str, Any] = {}
    match kind:
        case "object" | "mixed":
            made = {"type": "object", "properties": {word(): inner() for _ in range(random.randint(1, 6))}}
            made["required"] = [name for name in made["properties"] if random.random() < 0.5]
            made |= {"type": ["object", "null", "string"]} if kind == "mixed" else {}
            made |= {"additionalProperties": inner()} if random.random() < 0.2 else {}
        case "array":
            made = {"type": "array", "items": inner()}
        case "anyOf" | "oneOf":
            made = {kind: some(4)}
        case "allOf":
            made = {"allOf": [{"type": "object", "properties": {word(): inner()}}, *some(2)]}
        case "enum":
            made = {
                "enum": [random.choice([word(), word(), 3, -1, True, None, 0.5]) for _ in range(random.randint(1, 5))]
            }
            made |= {"default": random.choice(made["enum"])}
        case "const":
            made = {"const": word()}
        case "ref":
            made = {"$ref": random.choice(["#", "#/$defs/A", "#/$defs/Issue", "#/$defs/list", "#/$defs/missing"])}
        case "tuple":
            made = {"type": "array", "prefixItems": some(3)}
        case "dict":
            made = {"type": "object", "additionalProperties": inner()}
        case _:
            made = {"type": random.choice(KINDS[:7]), "default": random.choice([word(), 3, 0.5, None, True])}
    return made | {key: word() for key in ("title", "description") if random.random() < 0.2}


def drawn(number: int) -> ToolSpec:
    """The tool of that number."""
    random = Random(number)
    a, b = (
        {**drawn_schema(random, 5), "$defs": {n: drawn_schema(random, 3) for n in ("A", "Issue", "list")}}
        for _ in range(2)
    )
    a = (
        a
        if random.random() < 0.2
        else {**a, "type": "object", "properties": {random.choice(EVERYDAY): drawn_schema(random, 3) for _ in range(3)}}
    )
    name = (
        random.choice(["", "github.", "list.", "tools.", "a.b."])
        + random.choice(EVERYDAY)
        + random.choice(["", str(number)])
    )
    return ToolSpec(name, random.choice(HOSTILE), a, b, Hints(), learned=random.random() < 0.5)


ALLOWED = (
    "Module ImportFrom alias ClassDef AnnAssign Assign Call Dict AsyncFunctionDef arguments arg Expr Constant "
    "Name Load Store "
    "Subscript BinOp BitOr Tuple UnaryOp USub"
).split()


def tool(schema: Any, output: Any = None, name: str = "github.search_issues", **rest: Any) -> ToolSpec:
    return ToolSpec(name, rest.pop("description", ""), schema, output, **rest)


def takes(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def head(spec: ToolSpec) -> str:
    """The line of the method, without the `async def`."""
    return next(line for line in stub(spec).splitlines() if line.startswith("    async def ")).removeprefix(
        "    async def "
    )


def result(schema: Any) -> str:
    """The type of a result, and what comes before its class, without the imports."""
    text = stub(tool({}, schema))
    return (
        head(tool({}, schema)).rpartition(" -> ")[2].removesuffix(":")
        + "\n"
        + "\n".join(block for block in text.split("\n\n") if "TypedDict)" in block or "TypedDict(" in block)
    )


def check_only_declares(text: str) -> None:
    """Nothing in it can do anything: it imports from typing, and declares types and functions without a body."""
    tree = ast.parse(text)
    compile(tree, "stub", "exec")
    for node in ast.walk(tree):
        assert type(node).__name__ in ALLOWED, ast.dump(node)
        if isinstance(node, ast.ImportFrom):
            assert node.module in ("typing", "builtins", "__future__")
        elif isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            assert node.func.id == "TypedDict"
        elif isinstance(node, ast.AsyncFunctionDef):
            assert len(node.body) == 1
            assert isinstance(node.body[0], ast.Expr)
            assert isinstance(node.body[0].value, ast.Constant)


def check_types(folder: Path, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        (folder / f"stub_{number}.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--python-version=3.11",
        f"--cache-dir={folder / 'cache'}",
    ]
    files = [f"stub_{number}.py" for number in range(len(texts))]
    done = subprocess.run([*command, *files], check=False, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[:4000] + done.stderr[:4000]


ISSUE = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "title": {"type": "string"},
        "closed_at": {"type": ["string", "null"], "format": "date-time"},
        "labels": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        },
        "parent": {"anyOf": [{"$ref": "#/$defs/Issue"}, {"type": "null"}]},
    },
    "required": ["number", "title", "closed_at"],
}
SEARCH = ToolSpec(
    "github.search_issues",
    "Search issues. Uses GitHub's search syntax.",
    {
        "type": "object",
        "properties": {
            "state": {"enum": ["open", "closed"], "description": "which ones"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "q": {"type": "string", "description": "What to look for"},
            "per_page": {"type": "integer", "minimum": 1, "maximum": 100, "default": 30},
        },
        "required": ["q"],
    },
    {
        "$defs": {"Issue": ISSUE},
        "type": "object",
        "properties": {"total": {"type": "integer"}, "items": {"type": "array", "items": {"$ref": "#/$defs/Issue"}}},
        "required": ["total", "items"],
    },
    Hints(read_only=True, idempotent=True),
)
SEARCH_STUB = '''\
from __future__ import annotations
from typing import Literal, NotRequired, Protocol, TypedDict

class Label(TypedDict):
    name: str

class Issue(TypedDict):
    number: int
    title: str
    closed_at: str | None
    labels: NotRequired[list[Label]]
    parent: NotRequired[Issue | None]

class GithubSearchIssuesResult(TypedDict):
    total: int
    items: list[Issue]

class github(Protocol):  # await tools.github.search_issues(...)
    async def search_issues(self, q: str, state: Literal["open", "closed"] = ..., labels: list[str] = ..., per_page: int = 30) \
-> GithubSearchIssuesResult:
        """Search issues. Uses GitHub's search syntax.
        Read-only, idempotent.
        q: What to look for
        state: which ones
        per_page: (at least 1, at most 100)
        """
'''  # noqa: E501
REALISTIC = [
    SEARCH,
    ToolSpec(
        "github.list",
        "Lists.",
        takes(list={"type": "array", "items": {"type": "integer"}}),
        {"type": "array", "items": ISSUE},
    ),
    ToolSpec(
        "github.str",
        "Named as a type.",
        takes(str={"type": "string"}),
        takes(str={"type": "string"}, other={"type": "string"}),
    ),
    ToolSpec(
        "gitlab.search_issues", "The same name.", takes(**{"per-page": {"type": "integer"}}), SEARCH.output_schema
    ),
    ToolSpec(
        "gitlab.get",
        "Every keyword.",
        {**takes(**{"class": {}, "from": {"type": "string"}, "self": {}}), "required": ["from"]},
    ),
    ToolSpec("triage", "At the top.", ANYTHING, {"type": "object", "additionalProperties": {"type": "number"}}),
    ToolSpec("import.class", "A keyword.", {}, {"const": None}),
    ToolSpec("list.dict", "A type's name.", takes(Any={"type": "object"}), {"type": "object"}),
    ToolSpec("list.Any", "Also.", takes(a={}), {}),
    ToolSpec("tools.tools", "Also.", {}, {"type": "null"}),
    tool(
        takes(a={"allOf": [{"$ref": "#/properties/b"}, takes(c={"type": "string"})]}, b=takes(d={"type": "integer"})),
        name="a.all_of",
    ),
    tool(takes(a={"enum": [1, True, None, "x", -3, 1.5]}, b={"enum": list(range(100))}), name="a.enums"),
    tool(
        takes(a={"prefixItems": [{"type": "string"}, takes(x={})]}, b={"items": [{"type": "string"}]}), name="a.tuples"
    ),
    tool(
        {"$ref": "#/$defs/In", "$defs": {"In": takes(a={"$ref": "#/$defs/In"})}}, {"$ref": "#/missing"}, name="a.refs"
    ),
    tool(
        takes(
            a={"type": "string", "default": None}, b={"type": "number", "default": 1}, c={"enum": ["x"], "default": "y"}
        ),
        name="a.defaults",
    ),
    tool(
        takes(keys={"type": "integer"}, items={"type": "integer"}),
        takes(keys={"type": "integer"}, get={}, pop={}),
        name="a.methods",
    ),
    tool(takes(**{"a b": {"type": "object", "properties": {"self": {"$ref": "#"}}}}), name="a.recursive"),
    tool({"type": "string"}, {"type": "array", "items": {"$ref": "#"}}, name="a.odd"),
    tool({**takes(arguments={}, more={}), "additionalProperties": {"type": "integer"}}, name="a.rest"),
    tool(
        {}, {"type": "object", "properties": {"in": {"$ref": "#"}, "Label": {"enum": ['"', "\\"]}}}, name="a.functional"
    ),
]


class TestLayout:
    def test_one_tool(self) -> None:
        assert stub(SEARCH) == SEARCH_STUB

    def test_equal_types_of_two_tools_are_written_once(self) -> None:
        output = {"type": "array", "items": {"title": "Issue", **takes(id={"type": "integer"})}}
        text = stubs([tool({}, output, "a.one"), tool({}, output, "b.two")])
        assert text.count("TypedDict):") == 1
        assert text.count("-> list[Issue]:") == 2

    def test_equal_types_that_hold_themselves_are_written_once(self) -> None:
        output = {
            "$ref": "#/$defs/Node",
            "$defs": {"Node": takes(next={"$ref": "#/$defs/Node"}, id={"type": "integer"})},
        }
        text = stubs([tool({}, output, "a.one"), tool({}, output, "b.two")])
        assert text.count("TypedDict):") == 1
        assert text.count("-> Node:") == 2

    def test_types_that_hold_each_other_stay_whole(self) -> None:
        defs = {"A": takes(b={"$ref": "#/$defs/B"}), "B": takes(a={"$ref": "#/$defs/A"})}
        text = stubs([tool({}, {"$ref": "#/$defs/A", "$defs": defs}, f"{space}.get") for space in "xy"])
        assert "class B(TypedDict):\n    a: NotRequired[A]\n" in text
        assert "class B2(TypedDict):\n    a: NotRequired[A2]\n" in text

    def test_unequal_types_of_one_name_are_numbered(self) -> None:
        first, second = ({"title": "Issue", **takes(id={"type": kind})} for kind in ("integer", "string"))
        text = stubs([tool({}, {"items": first}, "a.one"), tool({}, {"items": second}, "a.two")])
        assert "-> list[Issue]:" in text
        assert "-> list[Issue2]:" in text

    def test_namespaces_are_classes_and_imports_come_once(self) -> None:
        text = stubs([tool({}, name="a.x"), tool({}, name="b.x"), tool({}, name="a.y"), tool({}, name="x")])
        method = "    async def {}(self) -> Any:\n        ...\n"
        assert text == (
            "from typing import Any, Protocol\n\n"
            "class a(Protocol):  # await tools.a.x(...)\n" + method.format("x") + method.format("y") + "\n"
            "class b(Protocol):  # await tools.b.x(...)\n" + method.format("x") + "\n"
            "class tools(Protocol):  # await tools.x(...)\n" + method.format("x")
        )

    def test_a_tool_called_as_a_type_does_not_hide_it(self) -> None:
        text = stub(tool(takes(a={"type": "array"}), name="github.list"))
        assert "from builtins import list as list_\n" in text
        assert "async def list(self, a: list_[Any] = ...) -> Any:" in text

    def test_no_tools_no_text(self) -> None:
        assert stubs([]) == ""

    def test_learned_results_and_hints_are_marked(self) -> None:
        spec = tool({}, {"type": "string"}, description="Deletes.", hints=Hints(destructive=True), learned=True)
        assert (
            '"""Deletes.\n        Destructive (needs approval).\n        Result type (learned from results).\n '
            '       """' in stub(spec)
        )


class TestParameters:
    def test_required_ones_come_first_in_the_schemas_order(self) -> None:
        spec = tool({**takes(a={}, b={}, c={}, d={}), "required": ["d", "b", "e"]})
        assert parameters(spec) == ["b", "d", "e", "a", "c"]
        assert head(spec) == "search_issues(self, b: Any, d: Any, e: Any, a: Any = ..., c: Any = ...) -> Any:"

    @each(
        ("schema", "shown"),
        [
            ({"type": "string", "default": "x"}, 'str = "x"'),
            ({"type": "integer", "default": 3}, "int = 3"),
            ({"type": "number", "default": 3}, "float = 3"),
            ({"type": "number", "default": 0.5}, "float = 0.5"),
            ({"type": "number", "default": float("inf")}, "float = ..."),
            ({"type": "boolean", "default": False}, "bool = False"),
            ({"type": ["string", "null"], "default": None}, "str | None = None"),
            ({"type": "string", "default": None}, "str = ..."),
            ({"type": "integer", "default": True}, "int = ..."),
            ({"enum": ["a", "b"], "default": "b"}, 'Literal["a", "b"] = "b"'),
            ({"enum": ["a", "b"], "default": "c"}, 'Literal["a", "b"] = ...'),
            ({"type": "string", "default": "x" * 100}, "str = ..."),
            ({"type": "array", "default": []}, "list[Any] = ..."),
        ],
    )
    def test_defaults_are_shown_where_simple_and_of_the_type(self, schema: Any, shown: str) -> None:
        assert head(tool(takes(a=schema))) == f"search_issues(self, a: {shown}) -> Any:"

    def test_names_that_are_not_identifiers(self) -> None:
        spec = tool({**takes(**{"per-page": {"type": "integer"}, "q": {"type": "string"}}), "required": ["q"]})
        assert head(spec) == "search_issues(self, **arguments: Unpack[GithubSearchIssuesArguments]) -> Any:"
        assert 'TypedDict("GithubSearchIssuesArguments", {"q": str, "per-page": NotRequired[int]})' in stub(spec)
        assert parameters(spec) == ["q", "per-page"]

    def test_names_that_cannot_be_printed(self) -> None:
        assert head(tool(takes(**{"\x00": {}, "q": {}}))) == "search_issues(self, **arguments: Any) -> Any:"

    def test_a_parameter_called_self(self) -> None:
        assert head(tool(takes(self={"type": "string"}))) == "search_issues(self1, self: str = ...) -> Any:"

    def test_further_arguments(self) -> None:
        assert head(tool(ANYTHING)) == "search_issues(self, **arguments: Any) -> Any:"
        assert head(tool({**takes(a={}), "additionalProperties": {"type": "integer"}})).startswith(
            "search_issues(self, a: Any = ..., **more: int)"
        )
        assert head(tool({"type": "object"})) == "search_issues(self) -> Any:"
        assert head(tool({"type": "string"})) == "search_issues(self, **arguments: Any) -> Any:"

    def test_arguments_behind_a_reference_or_all_of(self) -> None:
        schema = {"$ref": "#/$defs/In", "$defs": {"In": {"allOf": [takes(a={}), {**takes(b={}), "required": ["b"]}]}}}
        assert parameters(tool(schema)) == ["b", "a"]


class TestTypes:
    @each(
        ("schema", "shown"),
        [
            (True, "Any"),
            ({}, "Any"),
            ({"type": "string", "format": "date-time"}, "str"),
            ({"type": ["integer", "null"]}, "int | None"),
            ({"type": "string", "nullable": True}, "str | None"),
            ({"const": "x"}, 'Literal["x"]'),
            ({"enum": ["a", 1, True, None]}, 'Literal["a", 1, True, None]'),
            ({"enum": ["a", 1.5]}, 'Literal["a"] | float'),
            ({"enum": ["a", "\x00"]}, "str"),
            ({"enum": [str(n) for n in range(1000)]}, "str"),
            ({"enum": [10**5000]}, "int"),
            ({"oneOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}, 'Literal["a", "b"] | None'),
            ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "str | int"),
            ({"anyOf": [{"type": "string"}, {}]}, "Any"),
            ({"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]}, "str"),
            ({"type": "array", "items": {"type": "number"}}, "list[float]"),
            ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "tuple[str, int]"),
            ({"type": "object"}, "dict[str, Any]"),
            ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
            ({"allOf": [{"type": "string"}, {"description": "x"}]}, "str"),
            ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "Any"),
            ({"$ref": "#/nowhere"}, "Any"),
            ({"$ref": "https://example.com/schema"}, "Any"),
            ({"$ref": "#"}, "Any"),
            ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]}, "str | list[Any]"),
            ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "boolean"}}}, "bool"),
        ],
    )
    def test_without_a_name(self, schema: Any, shown: str) -> None:
        assert result(schema) == f"{shown}\n"

    def test_objects(self) -> None:
        schema = {**takes(a={"type": "string"}, b={"type": "integer"}), "required": ["b"]}
        name = "GithubSearchIssuesResult"
        assert result(schema) == f"{name}\nclass {name}(TypedDict):\n    b: int\n    a: NotRequired[str]"

    def test_keys_that_are_not_identifiers_or_would_hide_a_type(self) -> None:
        name = "GithubSearchIssuesResult"
        for key in ("per-page", "class", "int", "__x", "é"):
            assert (
                result({**takes(**{key: {"type": "integer"}}), "required": [key]})
                == f'{name}\n{name} = TypedDict("{name}", {{"{key}": int}})'
            )

    def test_all_of_objects_is_one_object(self) -> None:
        schema = {
            "allOf": [{"$ref": "#/$defs/A"}, takes(b={"type": "integer"})],
            "$defs": {"A": takes(a={"type": "string"})},
        }
        assert result(schema).endswith("(TypedDict):\n    a: NotRequired[str]\n    b: NotRequired[int]")

    def test_objects_that_hold_themselves(self) -> None:
        node = {
            "type": "object",
            "properties": {
                "next": {"$ref": "#/$defs/Node"},
                "x-y": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
        }
        text = result({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
        assert text == 'Node\nNode = TypedDict("Node", {"next": "NotRequired[Node]", "x-y": "NotRequired[list[Node]]"})'


class TestHostile:
    @given(specs)
    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    def test_every_stub_parses_and_only_declares(self, spec: ToolSpec) -> None:
        text = stub(spec)
        check_only_declares(text)
        assert len(text.encode()) <= MAX_BYTES
        line = signature(spec)
        assert line.isprintable()
        assert len(line) <= 800
        assert all(isinstance(name, str) for name in parameters(spec))

    @given(st.integers())
    @settings(max_examples=50, deadline=None)
    def test_every_full_stub_parses_and_only_declares(self, number: int) -> None:
        text = stub(drawn(number))
        check_only_declares(text)
        assert len(text.encode()) <= MAX_BYTES
        assert signature(drawn(number)).isprintable()

    @given(st.lists(specs | st.builds(drawn, st.integers()), max_size=8))
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    def test_every_batch_parses_and_says_the_same_twice(self, batch: list[ToolSpec]) -> None:
        text = stubs(batch)
        check_only_declares(text)
        assert stubs(batch) == text

    @each("text", HOSTILE)
    def test_no_text_leaves_its_line(self, text: str) -> None:
        enum = {"enum": [text], "description": text, "default": text, "title": text}
        spec = tool(takes(**{text: enum, "a": enum}), takes(**{text: enum}), f"a.{text}", description=text)
        check_only_declares(stub(spec))
        assert signature(spec).isprintable()

    def test_a_description_that_tries_to_end_the_docstring(self) -> None:
        for text in HOSTILE:
            tree = ast.parse(stub(tool({}, description=f"x {text}")))
            function = next(node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef))
            said = ast.get_docstring(function, clean=False)
            assert said is not None
            assert said.replace("'", '"').rstrip('"') == clean(f"x {text}", 1200).replace("'", '"').rstrip('"')

    def test_deep_schemas(self) -> None:
        schema: Any = {"type": "string"}
        for _ in range(5000):
            schema = {"type": "object", "properties": {"a": schema}, "items": schema, "anyOf": [schema, schema]}
        text = stub(tool(schema, schema))
        assert len(text.encode()) <= MAX_BYTES
        assert "(Shortened" in text
        check_only_declares(text)

    @pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf", "prefixItems"])
    def test_references_that_multiply(self, word: str) -> None:
        defs = {f"D{n}": {word: [{"$ref": f"#/$defs/D{n + 1}"}] * 10} for n in range(50)} | {"D50": {"type": "string"}}
        schema = {"$ref": "#/$defs/D0", "$defs": defs}
        check_only_declares(stub(tool(schema, schema)))
        objects = {
            f"D{n}": takes(**{f"p{m}": {"$ref": f"#/$defs/D{(n * m + 1) % 50}"} for m in range(10)}) for n in range(50)
        }
        text = stub(
            tool(takes(a={"$ref": "#/$defs/D1"}) | {"$defs": objects}, {"$ref": "#/$defs/D0", "$defs": objects})
        )
        check_only_declares(text)
        assert len(text.encode()) <= MAX_BYTES

    @pytest.mark.parametrize("word", ["$ref", "allOf", "anyOf"])
    def test_circles(self, word: str) -> None:
        def to(name: str) -> dict[str, Any]:
            ref = {"$ref": f"#/$defs/{name}"}
            return ref if word == "$ref" else {word: [ref]}

        schema = {**to("A"), "$defs": {"A": to("B"), "B": to("A")}}
        assert head(tool(schema, schema)) == "search_issues(self, **arguments: Any) -> Any:"

    def test_wide_schemas_are_cut_and_say_so(self) -> None:
        wide = takes(
            **{
                f"property_{n}": {"enum": [f"value {m}" for m in range(500)], "description": "x" * 10_000}
                for n in range(5000)
            }
        )
        text = stub(tool(wide, wide, description="y" * 1_000_000))
        assert len(text.encode()) <= MAX_BYTES
        assert "(Shortened: parts of its schema are not shown.)" in text
        check_only_declares(text)

    def test_a_small_tool_is_not_marked_as_cut(self) -> None:
        assert "Shortened" not in stub(SEARCH)

    def test_schemas_that_are_not_schemas(self) -> None:
        odd: Any
        for odd in (
            None,
            3,
            "x",
            [],
            {"properties": 3, "required": 3},
            {"properties": {"a": None, 3: {}}},
            {"type": {}},
            {"enum": 3},
        ):
            check_only_declares(stub(tool(odd, odd)))
            assert signature(tool(odd, odd))


class TestSignature:
    def test_one_line(self) -> None:
        assert signature(SEARCH) == (
            "github.search_issues(q: str, state: 'open'|'closed' = …, labels: list[str] = …, per_page: int = 30)"
            " -> GithubSearchIssuesResult — Search issues."
        )

    def test_lists_of_named_things(self) -> None:
        schema = {"type": "array", "items": {"$ref": "#/$defs/Issue"}, "$defs": {"Issue": ISSUE}}
        assert signature(tool({}, schema)) == "github.search_issues() -> list[Issue]"

    def test_many_parameters_are_cut(self) -> None:
        line = signature(tool(takes(**{f"p{n}": {"type": "string"} for n in range(50)})))
        assert line.endswith("p11: str = …, …) -> Any")


def test_realistic_stubs_type_check(tmp_path: Path) -> None:
    check_types(tmp_path, [stubs(REALISTIC), *map(stub, REALISTIC)])


@pytest.mark.long
def test_any_stubs_type_check(tmp_path: Path) -> None:
    found: list[ToolSpec] = []

    @given(specs)
    @settings(
        max_examples=200, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    def collect(spec: ToolSpec) -> None:
        found.append(spec)

    collect()
    found += map(drawn, range(400))
    check_types(tmp_path, [stubs(found), *map(stub, found)])
