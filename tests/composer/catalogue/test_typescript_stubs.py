"""Tools as TypeScript: what is written for each schema, and that nothing a server says leaves its place.

TypeScript's own compiler reads them in tests/e2e/test_real_typescript.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from go_ent.composer.catalogue import typescript_stubs
from go_ent.composer.catalogue.catalogue import show
from go_ent.composer.catalogue.spec import Hints, ToolSpec
from go_ent.composer.catalogue.stubs import MAX_BYTES
from tests.composer.catalogue.test_stubs import HOSTILE, drawn, takes, tool

ISSUES = tool(
    {
        "type": "object",
        "properties": {
            "q": {"type": "string", "description": "What to find."},
            "state": {"enum": ["open", "closed"], "default": "open"},
            "per-page": {"type": "integer", "maximum": 100},
        },
        "required": ["q"],
        "additionalProperties": False,
    },
    {
        "type": "array",
        "items": {"$ref": "#/$defs/Issue"},
        "$defs": {
            "Issue": {
                "type": "object",
                "properties": {"title": {"type": "string"}, "parent": {"$ref": "#/$defs/Issue"}},
                "required": ["title"],
            }
        },
    },
    description="Search issues.",
    hints=Hints(destructive=True),
)


def of(schema: Any) -> str:
    """The type that is written for a schema."""
    text = typescript_stubs.stubs([tool(takes(x=schema))])
    found = re.search(r"args\?: \{ x\?: (.*) \}\): Promise<any>;", text)
    assert found is not None, text
    return found[1]


def test_one_tool() -> None:
    assert typescript_stubs.stubs([ISSUES]) == (
        "type Issue = { title: string; parent?: Issue };\n"
        "declare const tools: {\n"
        "  github: {\n"
        "    /**\n"
        "     * Search issues.\n"
        "     * Destructive (needs approval).\n"
        "     * @param args.q What to find.\n"
        '     * @param args.state Default: "open".\n'
        "     * @param args.per-page (at most 100)\n"
        "     */\n"
        '    search_issues(args: { q: string; state?: "open" | "closed"; "per-page"?: number }): Promise<Issue[]>;\n'
        "  };\n"
        "};\n"
    )


def test_one_line_each() -> None:
    line = 'github.search_issues({ q: string; state?: "open" | "closed"; "per-page"?: number }): '
    assert show([ISSUES], "brief", language="typescript") == (
        f"{line}{{ title: string; parent?: any }}[] — Search issues."
    )
    assert show([ISSUES], "compact", language="typescript") == (
        f"{line}{{ title: string; parent?: any }}[]  // Search issues. Needs approval. q: What to find.; "
        "per-page: (at most 100)"
    )


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "number"),
        ({"type": ["string", "null"]}, "string | null"),
        ({}, "any"),
        (False, "never"),
        ({"const": "a"}, '"a"'),
        ({"enum": ["a", 1, None, True]}, '"a" | 1 | null | true'),
        ({"enum": ["x" * 100, "y"]}, "string"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "string | number"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"type": "array"}, "any[]"),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "minItems": 1, "items": False},
            "[string, number?]",
        ),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}}, "[string?, ...number[]]"),
        ({"type": "object"}, "{ [key: string]: any }"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{ [key: string]: number }"),
        ({"type": "object", "properties": {"a-b": {"type": "string"}}, "required": ["a-b"]}, '{ "a-b": string }'),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"b": {}}}]},
            "{ a?: string; b?: any }",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "number"}}, "additionalProperties": {"type": "number"}},
            "{ a?: number } & { [key: string]: number }",
        ),
        ({"$ref": "https://elsewhere.test/x"}, "any"),
    ],
)
def test_a_schema_is_a_type(schema: Any, written: str) -> None:
    assert of(schema) == written


def test_namespaces_nest_and_may_be_tools() -> None:
    specs = [tool({}, name=name) for name in ("a", "a.b.new", "top")]
    assert typescript_stubs.stubs(specs) == (
        "declare const tools: {\n  a: {\n    (): Promise<any>;\n    b: {\n"
        '      "new"(): Promise<any>;\n    };\n  };\n  top(): Promise<any>;\n};\n'
    )
    assert typescript_stubs.stubs([]) == ""


def test_types_that_are_themselves_are_anything() -> None:
    schema = {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}, "$ref": "#/$defs/A"}
    assert "type A = any;" in typescript_stubs.stubs([tool({}, schema)])


STRING = r'"(?:[^"\\\n]|\\.)*"'


def outside(text: str) -> str:
    """What is left of a stub without its strings and comments."""
    return re.sub(rf"{STRING}|/\*\*.*?\*/", "S", text, flags=re.S)


class TestHostile:
    def test_every_stub_only_declares_and_is_bounded(self) -> None:
        for number in range(150):
            text = typescript_stubs.stubs([drawn(number)])
            assert len(text.encode("utf-8", "surrogatepass")) <= MAX_BYTES
            assert re.fullmatch(r"[\x20-\x7e\n]*", outside(text))
            assert not re.search(r"=>|=[^ ]|\(\)\s*\{|`|//", outside(text))

    @pytest.mark.parametrize("text", HOSTILE)
    def test_no_text_leaves_its_place(self, text: str) -> None:
        schema = {"type": "object", "properties": {text: {"enum": [text], "description": text, "default": text}}}
        spec = ToolSpec("a.b", f"x */ {text}", schema, schema)
        made = typescript_stubs.stubs([spec])
        left = outside(made)
        assert "*/" not in left
        assert "/*" not in left
        assert [line for line in left.splitlines() if not re.match(r"type |declare |  |\};|S", line)] == []
        assert "\n" not in show([spec], "brief", language="typescript")
        assert "\n" not in show([spec], "compact", language="typescript")
