"""Composed tools in JavaScript and TypeScript: their interface, their files, and how they call and are called."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from go_ent.composer import ComposeRefused
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.interface import LIMITS, Inspector, Interface
from go_ent.composer.composed.memory_store import MemoryToolStore
from go_ent.composer.composed.shipped import shipped_tools
from go_ent.composer.composed.skeleton import from_code, skeleton
from go_ent.sandbox import Sandbox
from go_ent.sandbox.worker.languages import Language
from tests.composer.conftest import DOUBLE, Open

TYPES = """
enum Colour { Red = "red", Blue = "blue" }
enum Level { Low = 1, High }
const SIZES = ["s", "m"] as const;
const PRICES = { tea: 3, cake: 4 };
type Size = (typeof SIZES)[number];
type Names = string[];
interface Issue { title: string; /** how many */ votes?: number }
interface Rich extends Issue { labels: Names }
interface Options { limit: number; colours: Colour[]; parent?: Options }
type Tree<T> = { value: T; kids: Tree<T>[] };
type Json = string | number | null | Json[] | { [key: string]: Json };
type Shape = { kind: "dot"; x: number } | { kind: "line"; length: number };
class Own {}
"""


def tool(name: str, code: str, *, examples: str = "", head: str = "") -> str:
    """A tool's file in TypeScript."""
    block = f"// /// examples\n// {examples}\n// ///\n" if examples else ""
    return f'// /// tool\n// name = "{name}"\n{head}// ///\n{block}{code}'


JAVASCRIPT = '// language = "javascript"\n'
TWICE = tool(
    "twice",
    "/** Twice n. */\nexport const twice = (n: number): number => 2 * n;\n",
    examples='{"inputs": {"n": 2}, "result": 4}',
)


def look(box: Sandbox, source: str) -> Interface:
    return asyncio.run(Inspector(box).interface(toolfile.read(source)))


def refused(box: Sandbox, source: str) -> str:
    with pytest.raises(ComposeRefused) as error:
        look(box, source)
    return "\n".join(error.value.problems)


def parameter(box: Sandbox, kind: str) -> dict[str, Any]:
    schema = look(box, tool("t", f"{TYPES}\n/** T. */\nexport function t(x: {kind}): void {{}}\n")).input_schema
    found: dict[str, Any] = schema["properties"]["x"]
    return {**found, **({"$defs": schema["$defs"]} if "$defs" in schema else {})}


class TestTypes:
    @pytest.mark.parametrize(
        ("kind", "good", "bad"),
        [
            ("string", ["", "a"], [1, None]),
            ("number", [1, 1.5], ["1", None]),
            ("integer", [1, 2.0], [1.5]),
            ("bigint", [1], [1.5]),
            ("boolean", [True], [1]),
            ("null", [None], [0]),
            ("any", [1, None, {"a": []}], []),
            ("unknown", [1, None], []),
            ("object", [{}], [[]]),
            ("string[]", [[], ["a"]], [[1], {}]),
            ("readonly string[]", [["a"]], [[1]]),
            ("Array<number | null>", [[1, None]], [["a"]]),
            ("Set<string>", [["a", "b"]], [["a", "a"], [1]]),
            ("[string, number?]", [["a", 1], ["a"]], [[1], [], ["a", 1, 2]]),
            ("[x: number, ...rest: string[]]", [[1], [1, "a"]], [[1, 2], []]),
            ("Record<string, number>", [{"a": 1}], [{"a": "b"}]),
            ("Record<Size, number>", [{"s": 1}], [{"x": 1}]),
            ("Map<string, boolean>", [{"a": True}], [{"a": 1}]),
            ("{ [key: string]: number }", [{"a": 1}], [{"a": "b"}]),
            ('"a" | "b"', ["a", "b"], ["c", None]),
            ('"a" | 1 | null', ["a", 1, None], ["b", 2]),
            ("string | null", ["a", None], [1]),
            ("true | false", [True, False], [0]),
            ("-1 | 1", [-1, 1], [0]),
            ("`a${string}`", ["ab"], [1]),
            ("Date", ["2024-01-01T00:00:00Z"], [1]),
            ("Uint8Array", ["text"], [1]),
            ("Colour", ["red"], ["Red", 0]),
            ("Level", [1, 2], ["Low", 3]),
            ("Size", ["s", "m"], ["l"]),
            ("keyof typeof PRICES", ["tea"], ["milk"]),
            ("keyof Issue", ["title", "votes"], ["x"]),
            ('Issue["votes"]', [1], ["a"]),
            ("Names", [["a"]], ["a"]),
            ("Names[number]", ["a"], [1]),
            ("Issue", [{"title": "a"}, {"title": "a", "votes": 1}], [{}, {"title": "a", "x": 1}]),
            ("Rich", [{"title": "a", "labels": []}], [{"title": "a"}, {"labels": []}]),
            ("Issue & { extra: string }", [{"title": "a", "extra": "b"}], [{"title": "a"}]),
            ("Partial<Issue>", [{}, {"title": "a"}], [{"x": 1}]),
            ("Required<Issue>", [{"title": "a", "votes": 1}], [{"title": "a"}]),
            ('Pick<Issue, "votes">', [{"votes": 1}, {}], [{"title": "a"}]),
            ('Omit<Rich, "title" | "votes">', [{"labels": []}], [{"title": "a", "labels": []}]),
            ('Exclude<Size, "s">', ["m"], ["s"]),
            ("NonNullable<string | null>", ["a"], [None]),
            ("Options", [{"limit": 1, "colours": [], "parent": {"limit": 2, "colours": ["red"]}}], [{"limit": 1}]),
            ("Tree<number>", [{"value": 1, "kids": [{"value": 2, "kids": []}]}], [{"value": "a", "kids": []}]),
            ("Json", ["a", [1, [None]], {"a": {"b": []}}], [True]),
            ("Shape[]", [[{"kind": "dot", "x": 1}]], [[{"kind": "dot", "length": 1}]]),
            ("{ a: string; b?: { c: number }[] }", [{"a": "x", "b": [{"c": 1}]}], [{"a": "x", "b": [{}]}]),
        ],
    )
    def test_a_type_is_a_schema(self, shared_box: Sandbox, kind: str, good: list[Any], bad: list[Any]) -> None:
        check = jsonschema.Draft202012Validator(parameter(shared_box, kind))
        assert [value for value in good if not check.is_valid(value)] == []
        assert [value for value in bad if check.is_valid(value)] == []

    @pytest.mark.parametrize(
        ("kind", "said"),
        [
            ("() => void", "a function can't be expressed as JSON Schema"),
            ("Own", "the class Own: use an interface"),
            ("Missing", "the type Missing, which is not declared in the source"),
            ("{ run(): void }", "a method run"),
            ("{ [K in Size]: number }", "a mapped type"),
            ("Map<Issue, number>", "JSON has only text for keys"),
            ("Size extends string ? 1 : 2", "a conditional type"),
            ("Promise<string>", "a promise"),
        ],
    )
    def test_what_json_does_not_have_is_named(self, shared_box: Sandbox, kind: str, said: str) -> None:
        source = tool("t", f"{TYPES}\n/** T. */\nexport function t(x: {kind}): void {{}}\n")
        assert said in refused(shared_box, source)


class TestSignature:
    def test_defaults_texts_and_what_may_be_left_out(self, shared_box: Sandbox) -> None:
        code = (
            "const MOST = 10;\n/**\n * Find it.\n *\n * In full.\n * @param q - What to find.\n * @returns rows\n */\n"
            "export async function find(q: string, most: number = MOST, tags = ['a'], since?: Date): Promise<string[]> "
            "{ return []; }\n"
        )
        found = look(shared_box, tool("find", code))
        assert found.description == "Find it.\n\nIn full."
        assert found.input_schema == {
            "type": "object",
            "properties": {
                "q": {"type": "string", "description": "What to find."},
                "most": {"type": "number", "default": 10},
                "tags": {"type": "array", "items": {"type": "string"}, "default": ["a"]},
                "since": {"type": "string", "format": "date-time"},
            },
            "required": ["q"],
            "additionalProperties": False,
        }
        assert found.output_schema == {"type": "array", "items": {"type": "string"}}

    def test_jsdoc_says_the_same_in_javascript(self, shared_box: Sandbox) -> None:
        code = (
            "/**\n * @typedef {Object} Row\n * @property {string} word - The word.\n"
            " * @property {integer} [count]\n */\n"
            "/**\n * Find it.\n * @param {object} options\n * @param {string} options.q - What.\n"
            " * @param {?number} [options.n=3]\n * @param {Array<Row>} options.rows\n"
            " * @returns {Promise<Row[]>}\n */\n"
            "export default async ({ q, n = 3, rows }) => rows;\n"
        )
        found = look(shared_box, tool("find", code, head=JAVASCRIPT))
        assert found.input_schema["required"] == ["q", "rows"]
        assert found.input_schema["properties"]["n"] == {"anyOf": [{"type": "number"}, {"type": "null"}], "default": 3}
        row = {
            "type": "object",
            "properties": {"word": {"type": "string", "description": "The word."}, "count": {"type": "integer"}},
            "additionalProperties": False,
            "required": ["word"],
        }
        assert found.output_schema["$defs"] == {"Row": row}

    def test_one_object_that_is_taken_apart_is_the_arguments(self, shared_box: Sandbox) -> None:
        code = (
            "interface Given { text: string; /** how many */ top?: number }\n"
            "/** T. */\nexport function t({ text, top = 3 }: Given): string { return text.repeat(top); }\n"
        )
        found = look(shared_box, tool("t", code))
        assert found.input_schema["properties"]["top"] == {"type": "number", "description": "how many", "default": 3}
        assert found.input_schema["required"] == ["text"]
        run = shared_box.run_sync(tool("t", code), {"text": "a"}, entry="t", language="typescript")
        assert run.result == "aaa"

    @pytest.mark.parametrize(
        "code",
        [
            "/** T. */\nexport function t(a: string): string { return a; }",
            "/** T. */\nexport default function (a: string): string { return a; }",
            "/** T. */\nexport default async (a: string): Promise<string> => a;",
            "/** T. */\nexport const other = function (a: string): string { return a; };",
            "/** T. */\nfunction t(a: string): string { return a; }\nexport { t };",
            "/** T. */\nfunction t(a: string): string { return a; }\nexport default t;",
            "/** T. */\nexport function t(a: string): string;\nexport function t(a: any): any { return a; }",
            "import { basename } from 'path';\n/** T. */\nexport const t = (a: string): string => basename(a);",
            "export interface X { a: string }\nexport let N;\n/** T. */\nexport const t = (a: X['a']): string => a;",
        ],
    )
    def test_ways_to_export_one_function(self, shared_box: Sandbox, code: str) -> None:
        source = tool("t", f"{code}\n")
        assert list(look(shared_box, source).input_schema["properties"]) == ["a"]
        for _ in range(3):  # from its source, and as it is kept
            run = shared_box.run_sync(source, {"a": "x"}, entry="t", language="typescript")
            assert (run.status, run.result) == ("completed", "x"), run.error

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("function t() {}", "it exports no function"),
            ("export function a() {}\nexport function b() {}", "it exports 2 functions, a, b"),
            ("export function t(): void {}", "t has no doc comment"),
            ("/** T. */\nexport function t(a): void {}", "parameter a: it has no type: write `a: string`"),
            ("/** T. */\nexport function t(a: string) {}", "what it returns has no type"),
            ("/** T. */\nexport function t(...a: string[]): void {}", "use a list instead of `...`"),
            ("/** T. */\nexport function t<T>(a: T): void {}", "the type variable T: write the type itself"),
            ("/** T. */\nexport function t(a = new Map()): void {}", "parameter a: it has no type"),
            ("/** T. */\nexport function t(tools: string): void {}", "the name is taken"),
            ("/** T. */\nexport function t(: string): void {}", "line 5: SyntaxError: Unexpected token ':'"),
            ("/** T. */\nexport function t(): void {}\nthrow new Error('no')", "line 6: Error: no"),
        ],
    )
    def test_what_is_no_tool_is_said_with_its_line(self, shared_box: Sandbox, code: str, said: str) -> None:
        assert said in refused(shared_box, tool("t", f"{code}\n"))

    def test_values_are_what_the_types_say(self, shared_box: Sandbox) -> None:
        code = (
            "interface Row { at: Date; tags: Set<string> }\n/** T. */\nexport function t(\n  rows: Row[],\n"
            "  prices: Map<string, bigint>,\n  site: URL, data: Uint8Array, when?: Date | null): unknown {\n"
            "  return [rows[0]!.at.getUTCFullYear(), rows[0]!.tags.has('a'), "
            "prices.get('tea')! + 1n, site.hostname, data.length, when instanceof Date];\n}\n"
        )
        inputs = {
            "rows": [{"at": "2024-05-06T00:00:00Z", "tags": ["a"]}],
            "prices": {"tea": 3},
            "site": "https://example.org/x",
            "data": "abc",
            "when": "2024-05-06",
        }
        for _ in range(3):
            run = shared_box.run_sync(tool("t", code), inputs, entry="t", language="typescript")
            assert run.result == [2024, True, 4, "example.org", 3, True], run.error
        bad = shared_box.run_sync(tool("t", code), {**inputs, "site": "x"}, entry="t", language="typescript")
        assert bad.error is not None
        assert (bad.error.kind, bad.error.message) == ("InputError", 'site: "x" is not a URL')


class TestRequires:
    @pytest.mark.parametrize(
        ("body", "requires"),
        [
            ("await tools.a.b({ x: 1 }); await tools.c();", ("a.b", "c")),
            ("const gh = tools.github; await gh.find();", ("github.find",)),
            ("const { find, get: other } = tools.github; await find(); await other();", ("github.find", "github.get")),
            ("const { github } = tools; await github.find();", ("github.find",)),
            ("await Promise.all([1, 2].map(tools.a.b));", ("a.b",)),
            ("await tools['a'].b(); await tools?.c.d();", ("a.b", "c.d")),
            ("await tools.call('a.b', { x: 1 });", ("a.b",)),
            ("const x = 'tools.no.way'; /tools.re/.test(x); `${await tools.yes.a()} tools.no`;", ("yes.a",)),
            ("/* tools.none.a */ // tools.none.b\n", ()),
            ("const o = { tools: 1 }; o.tools; console.log(tools);", ()),
        ],
    )
    def test_the_tools_that_it_names(self, shared_box: Sandbox, body: str, requires: tuple[str, ...]) -> None:
        code = f"/** T. */\nexport async function t(): Promise<void> {{ {body} }}\n"
        assert look(shared_box, tool("t", code)).requires == requires

    @pytest.mark.parametrize("body", ["await tools[name]();", "const all = [tools];", "await tools.call(name);"])
    def test_which_tool_that_is_can_not_be_told(self, shared_box: Sandbox, body: str) -> None:
        code = f"/** T. */\nexport async function t(name: string): Promise<void> {{ {body} }}\n"
        assert "line 5: which tool is called there can't be told" in refused(shared_box, tool("t", code))
        assert look(shared_box, tool("t", code, head='// requires = ["a.*"]\n')).requires == ("a.*",)

    def test_what_is_not_listed_is_refused(self, shared_box: Sandbox) -> None:
        code = "/** T. */\nexport async function t(): Promise<void> { await tools.b.c(); }\n"
        said = refused(shared_box, tool("t", code, head='// requires = ["a.*"]\n'))
        assert "uses tools.b.c, which `requires` does not list" in said


class TestFile:
    def test_the_marks_say_the_language(self) -> None:
        assert toolfile.read(TWICE).language == "typescript"
        assert toolfile.read(TWICE, language="javascript").language == "javascript"
        assert toolfile.read(DOUBLE).language == "python"

    def test_javascript_is_written_into_the_block_so_that_every_copy_says_it(self) -> None:
        file = toolfile.read(TWICE, language="javascript")
        assert '// name = "twice"\n// language = "javascript"\n' in file.source
        assert toolfile.read(file.source) == file
        assert toolfile.read(file.with_version(3).source).digest == file.digest

    @pytest.mark.parametrize(
        ("source", "language", "said"),
        [
            (TWICE, "python", "whose comments begin with #"),
            (DOUBLE, "typescript", "whose comments begin with //"),
            (tool("t", "", head=JAVASCRIPT), "typescript", 'its block says `language = "javascript"`'),
            (tool("t", "", head='// language = "cobol"\n'), None, "`language` in its metadata"),
            ("export const a = 1;", "typescript", 'start the file with\n// /// tool\n// name = "…"\n// ///'),
        ],
    )
    def test_what_does_not_agree_is_refused(self, source: str, language: Language | None, said: str) -> None:
        with pytest.raises(ComposeRefused) as error:
            toolfile.read(source, language=language)
        assert said in error.value.problems[0]

    def test_blocks_of_other_comments_are_text_of_the_code(self) -> None:
        code = 'export const text = `\n# /// examples\n# {"inputs": {}}\n# ///\n`;\n'
        assert toolfile.read(tool("t", code)).metadata.examples == []

    @pytest.mark.parametrize("language", ["javascript", "typescript"])
    def test_a_new_tool_passes_its_examples(self, open_composer: Open, language: Language) -> None:
        saved = asyncio.run(open_composer().compose(skeleton("fresh", language)))
        assert (saved.language, saved.examples) == (language, 2)

    def test_code_becomes_a_tool(self, shared_box: Sandbox) -> None:
        made = asyncio.run(from_code("const n = 1;\nn + 1", "next", "Add one.", shared_box, "typescript"))
        assert made.endswith("export async function next(): Promise<unknown> {\n  const n = 1;\n  return n + 1\n}\n")
        assert look(shared_box, made).description == "Add one."
        with pytest.raises(ComposeRefused, match=r"its code can't be read: Unexpected end of input \(line 1\)"):
            asyncio.run(from_code("const n = (", "next", "Add one.", shared_box, "typescript"))


class TestTogether:
    def test_languages_call_each_other(self, open_composer: Open) -> None:
        async def work() -> None:
            composer = open_composer()
            await composer.compose(DOUBLE)
            script = "/** Four times n.\n * @param {number} n\n * @returns {Promise<number>} */\n"
            script += "export const four = async (n) => 2 * await tools.double({ n });\n"
            saved = await composer.compose(tool("four", script, examples='{"inputs": {"n": 2}, "result": 8}'))
            assert saved.interface.requires == ("double",)
            python = (
                '# /// tool\n# name = "eight"\n# ///\nasync def eight(n: int) -> float:\n    """Eight times n."""\n'
                "    return 2 * await tools.four(n=n)\n"
            )
            await composer.compose(python)
            run = await composer.run("eight", {"n": 5})
            assert (run.status, run.result) == ("completed", 40)
            bad = await composer.run("four", {"n": "x"})
            assert bad.error is not None
            assert 'n: "x" is not of type "number"' in bad.error.message
            assert (await composer.code.execute("await tools.four({ n: 1 })", language="typescript")).result == 4

        asyncio.run(work())

    def test_a_result_has_to_fit_and_a_failure_has_its_line(self, open_composer: Open) -> None:
        async def work() -> None:
            composer = open_composer()
            code = "/** T. */\nexport function t(a: any): string {\n  if (a === null) throw new Error('empty');\n"
            code += "  return a;\n}\n"
            await composer.compose(tool("t", code))
            wrong = await composer.run("t", {"a": 1})
            assert wrong.error is not None
            assert wrong.error.kind == "BadResult"
            failed = await composer.run("t", {"a": None})
            assert failed.error is not None
            assert (failed.error.message, failed.error.line) == ("empty", 7)  # one more than it was: the version

        asyncio.run(work())

    def test_a_bad_example_is_told(self, open_composer: Open) -> None:
        with pytest.raises(ComposeRefused) as error:
            asyncio.run(open_composer().compose(TWICE.replace('"result": 4', '"result": 5')))
        assert "example 1: " in error.value.problems[0]


class TestStore:
    def test_versions_and_the_way_back_across_languages(self, open_composer: Open, project: Path) -> None:
        async def work() -> None:
            composer = open_composer()
            folder = project / ".go-ent" / "composed-tools"
            await composer.compose(DOUBLE.replace("double", "twice"))
            assert (folder / "twice.py").exists()
            await composer.compose(TWICE)
            assert [path.name for path in folder.glob("twice.*")] == ["twice.ts"]
            assert [version.number for version in await composer.history("twice")] == [1, 2]
            await composer.rollback("twice", 1)
            assert [path.name for path in folder.glob("twice.*")] == ["twice.py"]
            assert (await composer.run("twice", {"n": 4})).result == 8
            assert {path.suffix for path in (folder / ".history" / "twice").iterdir()} == {".py", ".ts"}
            await composer.remove("twice")
            assert list(folder.glob("twice.*")) == []
            await composer.rollback("twice", 2)
            assert (await composer.composed.get("twice")).language == "typescript"

        asyncio.run(work())

    def test_a_file_that_is_put_there_is_adopted_by_its_suffix(self, open_composer: Open, project: Path) -> None:
        async def work() -> None:
            composer = open_composer()
            folder = project / ".go-ent" / "composed-tools"
            folder.mkdir(parents=True)
            (folder / "twice.js").write_text(
                '// /// tool\n// name = "twice"\n// ///\n/** Twice n.\n * @param {number} n\n * @returns {number} */\n'
                "export const twice = (n) => 2 * n;\n"
            )
            found = await composer.composed.get("twice")
            assert (found.language, found.version) == ("javascript", 1)
            assert '// version = 1\n// language = "javascript"\n' in (folder / "twice.js").read_text()

        asyncio.run(work())

    def test_two_files_of_one_tool_are_told_and_saving_mends_it(self, open_composer: Open, project: Path) -> None:
        async def work() -> None:
            composer = open_composer()
            await composer.compose(TWICE)
            (project / ".go-ent" / "composed-tools" / "twice.py").write_text(DOUBLE.replace("double", "twice"))
            await composer.composed.load()
            why = composer.composed.why_not("twice")
            assert why is not None
            assert "it has several files, twice.py and twice.ts: remove all but one" in why
            await composer.compose(TWICE)
            assert (await composer.run("twice", {"n": 1})).result == 2

        asyncio.run(work())

    def test_a_store_in_memory_knows_the_language(self) -> None:
        store = MemoryToolStore()
        store.save(toolfile.read(TWICE, language="javascript"))
        kept = store.read("twice")
        assert kept is not None
        assert kept.language == "javascript"


def test_what_was_looked_at_is_kept_by_content(shared_box: Sandbox, tmp_path: Path) -> None:
    first = asyncio.run(Inspector(shared_box, tmp_path).interface(toolfile.read(TWICE)))
    (kept,) = tmp_path.iterdir()
    assert json.loads(kept.read_text())["description"] == "Twice n."
    assert asyncio.run(Inspector(shared_box, tmp_path).interface(toolfile.read(TWICE))) == first


@pytest.mark.more
def test_a_file_that_is_spoiled_is_refused_or_read_and_never_breaks_its_guest(shared_box: Sandbox) -> None:
    """What reads types meets any text: it answers, or says what is wrong, within its limits."""
    random = Random(7)
    pieces = "{ } ( ) < > [ ] ` ${ => | & ? : / */ /** ' @ \\".split(" ")
    sources = [path.read_text("utf-8") for path in shipped_tools().values() if path.suffix != ".py"]
    sources.append(f"{TYPES}\n/** T. */\nexport function t(x: Tree<Json>): Shape {{ return x as any; }}\n")
    ends = set()
    for _ in range(150):
        text = random.choice(sources)
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(text))
            text = text[:at] + random.choice([*pieces, ""]) + text[at + random.randrange(0, 12) :]
        run = asyncio.run(shared_box.interface(text, "t", limits=LIMITS, language="typescript"))
        ends.add(run.status)
        assert run.status in ("completed", "error"), (run.status, text)
    assert ends == {"completed", "error"}
