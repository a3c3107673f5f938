"""JavaScript that attacks its own bridge, the host or the limits: each ends as is written above it, and none crashes.

The bridge runs in the realm of the code that it serves: code can break its own run, and nothing else.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.composer import ComposeRefused
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.interface import Inspector
from go_ent.sandbox import Limits, Sandbox
from tests.conftest import TOOLS
from tests.sandbox.test_javascript import Comparing

INPUTS = {"inp": {"__proto__": {"polluted": 1}, "a": 1}}
LIMITS = ("cpu_limit", "memory_limit")  # they take seconds to reach
MANY = re.compile(r"1e[5-9]|20000|set(Timeout|Interval)")  # of something, or a wait: a second each


def attacks() -> list[tuple[str, str, str]]:
    """Each with the status and the kind of error that it ends with."""
    text = (Path(__file__).parent / "javascript_attacks.js").read_text()
    found = []
    for part in re.split(r"^//// ", text, flags=re.MULTILINE)[1:]:
        head, _, source = part.partition("\n")
        status, _, kind = head.partition(" ")
        found.append((status, kind, source))
    return found


def ends_as_written(chosen: list[tuple[str, str, str]], limits: Limits) -> None:
    with Sandbox(TOOLS, limits) as box:
        for status, kind, source in chosen:
            run = box.run_sync(source, INPUTS, language="javascript")
            assert run.status == status, f"{source[:200]}: {run.error}"
            if status == "error":
                assert run.error is not None
                assert run.error.kind.startswith(kind), source[:200]
        # And nothing of it is left for whoever comes next.
        clean = "[typeof [].push, typeof ({}).polluted, await tools.add(1, 2), Object.keys(globalThis).length]"
        assert box.run_sync(clean, language="javascript").result == ["function", "undefined", 3, 0]


def test_there_are_many() -> None:
    assert len(attacks()) >= 300


def test_attacks_end_as_written() -> None:
    quick = [one for one in attacks() if one[0] not in LIMITS and not MANY.search(one[2])]
    assert len(quick) >= 300
    ends_as_written(quick, Limits(timeout_s=30, cpu_s=20))


@pytest.mark.more
@pytest.mark.timeout(600)
def test_attacks_with_many_of_something_end_as_written() -> None:
    many = [one for one in attacks() if one[0] not in LIMITS and MANY.search(one[2])]
    ends_as_written(many, Limits(timeout_s=30, cpu_s=20))


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("limit", "cpu_s"), [("cpu_limit", 1), ("memory_limit", 3)])
def test_attacks_on_limits_end_as_written(limit: str, cpu_s: int) -> None:
    ends_as_written([one for one in attacks() if one[0] == limit], Limits(timeout_s=60, cpu_s=cpu_s))


# What a run leaves behind, and how the next would see it.
LEFT = [
    ("globalThis.left = 1; var other = 2", "[typeof left, typeof other]", ["undefined", "undefined"]),
    ("Object.prototype.left = 1; Array.prototype[0] = 1", "[({}).left ?? null, [][0] ?? null]", [None, None]),
    ("Symbol.for('left').left = Symbol.for('left'); 1", "Symbol.keyFor(Symbol.for('left'))", "left"),
    (
        "fs.left = require('path').left = process.env.LEFT = 1",
        "[fs, process.env].map((o) => o.left ?? o.LEFT ?? 0)",
        [0, 0],
    ),
    ("setInterval(() => { globalThis.left = 1 }, 1); setTimeout(() => {}, 1e9); 1", "typeof left", "undefined"),
    ("Promise.resolve().then(function again() { globalThis.n = 1 + (globalThis.n ?? 0) }); 1", "typeof n", "undefined"),
    ("tools.add(1, 2).catch(() => {}); 1", "await null; typeof left", "undefined"),
    ("new FinalizationRegistry(() => { globalThis.left = 1 }).register({}, 1); 1", "typeof left", "undefined"),
    ("Error.prepareStackTrace = () => 'mine'; Error.stackTraceLimit = 0; 1", "typeof new Error('x').stack", "string"),
    ("Error.prepareStackTrace = () => 'mine'; 1", "new Error('x').stack === 'mine'", False),
    ("module.exports = require.main = 5; 1", "[typeof module.exports, typeof require.main]", ["object", "object"]),
    ("fs.writeFileSync('left', 'x'); fs.mkdirSync('d'); process.chdir = 1", "fs.readdirSync('.')", []),
    ("Math.random = () => 4; Date.now = () => 5; 1", "[Math.random() === 4, Date.now() === 5]", [False, False]),
    ("Object.freeze(globalThis); 1", "globalThis.free = 1", 1),
    ("Object.setPrototypeOf(globalThis, { left: 1 }); 1", "typeof left", "undefined"),
    ("/(?<left>x)/.exec('x'); 1", "RegExp.$1 ?? null", None),
    ("const w = new WeakRef(tools); tools.left_here; 1", "Object.keys(tools).includes('left_here')", False),
    ("for (;;) globalThis.left = (globalThis.left ?? 0) + 1", "typeof left", "undefined"),
    ("const a = []; for (;;) a.push(globalThis.left = 'x'.repeat(1e6) + a.length)", "typeof left", "undefined"),
]


def test_nothing_of_a_run_reaches_the_next() -> None:
    with Comparing(TOOLS, Limits(timeout_s=30, cpu_s=1)) as box:
        for plant, look, seen in LEFT:
            box.run_sync(plant, language="javascript")
            assert box.run_sync(look, language="javascript").result == seen, plant
        box.run_sync("console.group(); console.count(); 1", language="javascript")
        assert box.run_sync("console.count(); console.log('y')", language="javascript").stdout == "default: 1\ny\n"


@pytest.fixture(scope="module")
def fuzzed() -> Sandbox:
    return Sandbox(TOOLS, Limits(timeout_s=10, cpu_s=2))


PIECES = st.sampled_from(
    "a b 1 'x' ` ${ } { ( ) [ ] => = ; , . ?. : < > / + - ! async await return const let function class "
    "type enum interface as import export tools.add \\n // /* */ \\0 \\ud800 é 😀 # @ new this null yield".split()
)


@pytest.mark.more
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=st.lists(PIECES, max_size=25).map(" ".join) | st.text(max_size=60), typed=st.booleans())
def test_no_source_crashes(fuzzed: Sandbox, source: str, typed: bool) -> None:
    run = fuzzed.run_sync(source, language="typescript" if typed else "javascript")
    assert run.status in ("completed", "error", "cpu_limit", "refused"), (source, run.error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats(-1e15, 1e15),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=JSON)
def test_a_value_comes_back_as_it_went(fuzzed: Sandbox, value: object) -> None:
    run = fuzzed.run_sync("value", {"value": value}, language="javascript")
    assert run.error is None, str(run.error)
    assert run.result == value


FORGED = [
    "Object.defineProperty(String.prototype, 'x', {value: 1}); await tools['add\\n[[],[]]'](1, 2)",
    "await tools.add(JSON.rawJSON ? 1 : 1, {toJSON: () => '],[1,\"add\",[1,2],{}]'})",
    "await tools['add\"],[2,\"leak']()",
]


@pytest.mark.parametrize("source", FORGED)
def test_a_message_is_not_to_be_forged_by_what_is_in_it(fuzzed: Sandbox, source: str) -> None:
    run = fuzzed.run_sync(source, language="javascript")
    assert run.status == "error"
    assert [call.name for call in run.calls if call.ok] == []
    assert len(run.calls) == 1


HEAD = '// /// tool\n// name = "t"\n// ///\n'
TAKES = "/** T. */\nexport function t(x: {}): void {{}}\n"
DOUBLED = "".join(f"type A{n} = [A{n - 1}, A{n - 1}];\n" for n in range(1, 45))
INTERFACES = [
    (TAKES.format("(" * 5000 + "string" + ")" * 5000), "RangeError: Maximum call stack size exceeded"),
    (TAKES.format("string" + "[]" * 5000), "a type that nests without end"),
    (TAKES.format("Array<" * 3000 + "string" + ">" * 3000), "RangeError: Maximum call stack size exceeded"),
    ("interface A extends A { x: string }\n" + TAKES.format("A"), "a type that nests without end"),
    ("type G<T> = { x: G<T[]> };\n" + TAKES.format("G<string>"), "a type that nests without end"),
    ("type A0 = string;\n" + DOUBLED + TAKES.format("A44"), "a type that nests without end"),
    ("/** T. */\nexport function t(__proto__: string): void {}\n", "its name has letters, digits and underscores"),
    ("Array.prototype.map = () => [1]; String.prototype.split = () => [];\n" + TAKES.format("string"), "TypeError"),
    ("/** " + "@param {" + "{" * 20_000 + " */\nexport function t(x: string): void {}\n", "t has no doc comment"),
    ("/**" * 20_000 + "*/\n" + TAKES.format("string"), "SyntaxError"),
    (
        "/** T. */\nexport async function t(): Promise<void> { await tools['../../x'](); }\n",
        "tools.../../x can't be the name of a tool",
    ),
    ("await tools.add(1, 2);\n" + TAKES.format("string"), "more tool calls than max_tool_calls=0"),
    (
        "enum E { A = 1 }\nObject.defineProperty(E, 'A', { enumerable: true, get() { throw 5 } });\n"
        + TAKES.format("E"),
        "thrown: 5",
    ),
]


@pytest.mark.parametrize("number", range(len(INTERFACES)))
def test_a_tool_that_attacks_what_reads_its_interface_is_refused(shared_box: Sandbox, number: int) -> None:
    code, said = INTERFACES[number]
    with pytest.raises(ComposeRefused) as error:
        asyncio.run(Inspector(shared_box).interface(toolfile.read(HEAD + code)))
    assert said in "; ".join(error.value.problems)
    assert shared_box.run_sync("1 + 1", language="javascript").result == 2


def test_what_a_tool_replaces_is_replaced_in_its_own_run_alone(shared_box: Sandbox) -> None:
    code = "Function.prototype.call = Function.prototype.apply = () => { throw 1 };\n" + TAKES.format("number")
    found = asyncio.run(Inspector(shared_box).interface(toolfile.read(HEAD + code)))
    assert found.input_schema["properties"] == {"x": {"type": "number"}}
    assert shared_box.run_sync("Math.max.apply(null, [1, 2])", language="javascript").result == 2


def test_types_named_as_prototypes_are_types(shared_box: Sandbox) -> None:
    code = (
        "/** @typedef {object} __proto__\n * @property {string} constructor */\n"
        "/** T.\n * @param {__proto__} x\n * @returns {void} */\nexport function t(x) {}\n"
    )
    schema = asyncio.run(Inspector(shared_box).interface(toolfile.read(HEAD + code))).input_schema
    (definition,) = schema["$defs"].values()
    assert definition["properties"] == {"constructor": {"type": "string"}}
