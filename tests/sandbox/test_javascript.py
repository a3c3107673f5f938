"""JavaScript in the sandbox: values, tools, errors, limits, files, sessions. The same statuses as Python's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from go_ent.sandbox import LimitError, Limits, Run, Sandbox
from go_ent.sandbox.images import ensure_image
from go_ent.sandbox.images.proof import problem_of
from tests.conftest import TOOLS
from tests.sandbox.test_tape import Memory


def until(done: Callable[[], bool]) -> None:
    while not done():
        time.sleep(0.005)


class Comparing(Sandbox):
    """All of memory and all globals are compared with the snapshot after each run that is reset."""

    _compare = True


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with_tools = Comparing(TOOLS, Limits(timeout_s=20, cpu_s=10))
    yield with_tools
    with_tools.close()


def run(box: Sandbox, code: str, inputs: dict[str, Any] | None = None, **options: Any) -> Run:
    return box.run_sync(code, inputs, language="javascript", **options)


def test_the_image_is_small_and_proved() -> None:
    image = ensure_image(language="javascript")
    assert image.language == "javascript"
    assert image.remade == ""
    assert problem_of(image.component.read_bytes()) == ""
    assert image.component.stat().st_size < 10_000_000


VALUES: list[tuple[str, object]] = [
    ("1 + 2", 3),
    ("const a = 1; a + 1", 2),
    ("await Promise.resolve(4)", 4),
    ("if (true) return 5;\n6", 5),
    ("if (false) return 5;\nconst x = 6;\nx + 1", 7),
    ("async function main() { return 8 }\nmain()", 8),
    ("undefined", None),
    ("for (const x of [1, 2]) x * 2", 4),
    (
        "({d: new Date(0), m: new Map([['a', 1], [2, [3]]]), s: new Set([1, 2]), b: 123456789012345678901n, "
        "t: new Uint8Array([1, 2]), e: new TypeError('x'), u: undefined, n: NaN, f: 0.5, r: /a/g, l: [undefined]})",
        {
            "d": "1970-01-01T00:00:00.000Z",
            "m": {"a": 1, "2": [3]},
            "s": [1, 2],
            "b": 123456789012345678901,
            "t": [1, 2],
            "e": {"name": "TypeError", "message": "x"},
            "n": None,
            "f": 0.5,
            "r": "/a/g",
            "l": [None],
        },
    ),
    ("(function* () { yield 1; yield 2 })()", [1, 2]),
    ("new URL('https://a.b/c/../d?e=f#g')", "https://a.b/d?e=f#g"),
    ("import { join } from 'node:path';\nexport const p = join('a', '..', 'b');\np", "b"),
    ("const { readFileSync } = require('fs'); readFileSync('in.txt', 'utf8')", "given"),
    ("await tools.add({a: 1, b: 2})", 3),
    ("await tools.add(1, 2)", 3),
    ("(await Promise.all([tools.add(1, 2), tools.add({a: 3, b: 4})])).join()", "3,7"),
    (
        "[typeof fetch, typeof Intl, typeof process.env.PATH, typeof require, typeof tools]",
        ["undefined"] * 3 + ["function"] * 2,
    ),
    ("[n, list.length]", [1, 2]),
]


@pytest.mark.parametrize(("code", "value"), VALUES)
def test_the_value_is_that_of_the_last_expression_or_a_return(box: Sandbox, code: str, value: object) -> None:
    done = run(box, code, {"n": 1, "list": [1, 2]}, files={"in.txt": b"given"})
    assert done.error is None, str(done.error)
    assert done.result == value


ERRORS = [
    (
        "let x = 1;\nfunction f(q) {\n  const z = 1;\n  return q.foo.bar;\n}\nf({})",
        "TypeError",
        4,
        16,
        "  return q.foo.bar;",
    ),
    ("[1].map((x) => {\n  throw new RangeError('far');\n})", "RangeError", 2, 13, "  throw new RangeError('far');"),
    (
        "const a = 1;\nconst r = await tools.fail({message: 'no'});\nr",
        "ToolError",
        2,
        22,
        "const r = await tools.fail({message: 'no'});",
    ),
    ("1;\nnme + 1", "ReferenceError", 2, 1, "nme + 1"),
    ("let a = 1;\nfoo(", "SyntaxError", 2, 1, "foo("),
    ("if (false) return 1;\nnull.x", "TypeError", 2, 6, "null.x"),
    ("function f() {\n  return f();\n}\nf()", "RangeError", 2, 11, "  return f();"),
    ("tools.add(1, 2);\n'done'", "ForgottenAwait", 1, 7, "tools.add(1, 2);"),
]


@pytest.mark.parametrize(("code", "kind", "line", "column", "source"), ERRORS)
def test_an_error_has_its_line_column_and_source(
    box: Sandbox, code: str, kind: str, line: int, column: int, source: str
) -> None:
    done = run(box, code)
    assert done.status == "error"
    assert done.error is not None
    assert (done.error.kind, done.error.line, done.error.source_line) == (kind, line, source)
    assert abs((done.error.column or 0) - column) <= 3
    assert "go-ent" not in (done.error.traceback or "")


HINTS = [
    ("fetch('https://a.b')", "call a tool instead; available: tools.add"),
    ("require('lodash')", "call a tool instead"),
    ("await tools.ad(1, 2)", "did you mean tools.add?"),
    ("add(1, 2)", "did you mean tools.add?"),
    ("const valueOfIt = 1;\nvalueOfIt;\nvalueOfI", "did you mean valueOfIt?"),
    ("const r = tools.add(1, 2);\nr.items.length", "must be awaited"),
    ("let x: number = 1", "TypeScript"),
    ("Intl.NumberFormat()", "no Intl"),
]


@pytest.mark.parametrize(("code", "hint"), HINTS)
def test_an_error_has_a_hint(box: Sandbox, code: str, hint: str) -> None:
    done = run(box, code)
    assert done.error is not None
    assert hint in (done.error.hint or "")


def test_what_has_no_json_form_is_named_by_its_path(box: Sandbox) -> None:
    for code, path in [
        ("({a: {b: [1, () => 1]}})", "result.a.b[1]: a function"),
        ("({'a b': Symbol('x')})", 'result["a b"]: a symbol'),
        ("const a = []; a[0] = a; a", "result[0]: a value that contains itself"),
        ("[Promise.resolve(1)]", "result[0]: a promise"),
        ("'\\ud800'", "result: text with a lone surrogate"),
        ("new Map([[{}, 1]])", "result: a key"),
    ]:
        done = run(box, code)
        assert done.error is not None
        assert done.error.kind == "NotEncodable"
        assert done.error.message.startswith(path), done.error.message


def test_a_tool_error_can_be_caught_and_carries_its_tool_and_kind(box: Sandbox) -> None:
    code = (
        "try { await tools.fail({message: 'no'}) } "
        "catch (e) { [e instanceof ToolError, e instanceof Error, e.name, e.tool, e.kind] }"
    )
    assert run(box, code).result == [True, True, "ToolError", "fail", "ToolError"]


def test_calls_run_at_once() -> None:
    there = []
    all_there = asyncio.Event()

    async def meet(name: str) -> str:
        """Not before three are there."""
        there.append(name)
        if len(there) == 3:
            all_there.set()
        await all_there.wait()
        return name

    with Sandbox([meet], Limits(timeout_s=60)) as box:
        done = run(box, "await Promise.all(['a', 'b', 'c'].map(name => tools.meet({name})))")
    assert done.result == ["a", "b", "c"]


def test_a_call_is_given_up_by_a_signal(box: Sandbox) -> None:
    code = "try { await tools.echo({value: 'x', delay: 30}, AbortSignal.timeout(20)) } catch (e) { e.name }"
    done = run(box, code)
    assert done.result == "TimeoutError"
    assert [call.ok for call in done.calls] == [False]


def test_console_prints_as_node_does(box: Sandbox) -> None:
    code = """console.log("a", {a: 1, b: [1, {c: {d: {}}}]}, [undefined, null], new Map([["k", new Set([1])]]));
console.error("%s is %d", "x", 4.5, "more"); setTimeout(() => console.log("timer"), 5);
Promise.resolve().then(() => console.log("micro")); console.log("sync")"""
    assert run(box, code).stdout == (
        "a { a: 1, b: [ 1, { c: [Object] } ] } [ undefined, null ] Map(1) { 'k' => Set(1) { 1 } }\n"
        "x is 4.5 more\nsync\nmicro\ntimer\n"
    )


def test_files_come_back(box: Sandbox) -> None:
    code = "fs.writeFileSync('out.txt', fs.readFileSync('in.txt', 'utf8').toUpperCase()); fs.readdirSync('.')"
    done = run(box, code, files={"in.txt": b"given"})
    assert done.result == ["in.txt", "out.txt"]
    assert done.files == {"in.txt": b"given", "out.txt": b"GIVEN"}


STATUSES = [
    ("for (;;);", {"cpu_s": 0.2}, "cpu_limit"),
    ("for (;;);", {"timeout_s": 0.2}, "timeout"),
    ("await new Promise((r) => setTimeout(r, 60000))", {"timeout_s": 0.2}, "timeout"),
    ("for (;;);", {"fuel": 1_000_000}, "fuel_limit"),
    ("const a = []; for (;;) a.push(new Array(10000).fill(1))", {}, "memory_limit"),
    ("new ArrayBuffer(1e9)", {}, "memory_limit"),
    ("for (;;) await tools.add(1, 2)", {"max_tool_calls": 3}, "call_limit"),
    ("'x'.repeat(1000)", {"max_result_bytes": 100}, "result_limit"),
    ("/(a+)+b/.test('a'.repeat(40))", {"cpu_s": 0.3}, "cpu_limit"),
    ("let a = []; for (let i = 0; i < 10000; i++) a = [a]; JSON.stringify(a).length", {}, "completed"),
    ("eval('['.repeat(100000))", {}, "error"),
    ("fs.writeFileSync('a', 'x'.repeat(1000))", {"max_file_bytes": 100}, "error"),
    ("await new Promise(() => {})", {}, "error"),
]


@pytest.mark.parametrize(("code", "limits", "status"), STATUSES)
def test_every_limit_has_its_status(box: Sandbox, code: str, limits: dict[str, Any], status: str) -> None:
    done = run(box, code, limits=limits)
    assert done.status == status, str(done.error)


def test_memory_that_is_out_can_be_caught(box: Sandbox) -> None:
    code = (
        "let said; try { const a = []; for (;;) a.push(new Array(100000).fill(1)) } catch (e) { said = e.message } said"
    )
    assert run(box, code).result == "out of memory"


def test_output_is_cut_at_its_limit(box: Sandbox) -> None:
    done = run(box, "for (let i = 0; i < 100; i++) console.log('é'.repeat(50))", limits={"max_stdout_bytes": 1000})
    assert done.ok
    assert done.stdout_truncated
    assert 900 < len(done.stdout.encode()) < 1100


def test_a_result_is_cut_if_asked(box: Sandbox) -> None:
    done = run(box, "'x'.repeat(1000)", limits={"max_result_bytes": 100}, cut_result=True)
    assert done.ok
    assert done.result_truncated


# What never comes back to the guest's own loop for far longer than any test waits.
ENDLESS = {
    "loop": "for (;;);",
    "regular expression": "/^(a+)+$/.test('a'.repeat(40) + 'b')",
    "parsing": "const text = '[' + '1,'.repeat(3e6) + '1]'; for (;;) JSON.parse(text)",
    "sort": "const xs = [...Array(2e5).keys()].map((n) => (n * 7919) % 200003); for (;;) xs.toSorted((a, b) => a - b)",
    "promises": "const again = () => Promise.resolve().then(again); await again()",
    "text": "'x'.repeat(1e6).replace(/x/g, () => { for (;;); })",
}


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS)
def test_whatever_runs_is_interrupted(box: Sandbox, code: str) -> None:
    async def interrupted() -> str:
        task = asyncio.create_task(box.run(code, language="javascript", run_id="js"))
        await asyncio.to_thread(until, lambda: box.cpu_used("js") > 0.2)  # it is past what prepares it
        box.interrupt("js")
        return (await task).status

    assert asyncio.run(interrupted()) == "interrupted"
    assert run(box, "1 + 2").result == 3


def test_bytes_of_a_result_are_text_or_files_as_in_python(box: Sandbox) -> None:
    png = b"\x89PNG\r\n\x1a\n rest"
    done = run(
        box,
        "fs.writeFileSync('result.bin', 'mine'); const raw = Buffer.from([255, 0]); const image = new Uint8Array(png);"
        "({ text: Buffer.from('é'), buffer: new TextEncoder().encode('b').buffer, raw: [raw, raw], image,"
        " numbers: new Uint8Array([1, 2]), wide: new Uint16Array([300]), none: new Uint8Array() })",
        inputs={"png": [*png]},
    )
    assert done.result == {
        "text": "é",
        "buffer": "b",
        "raw": [{"file": "result-2.bin", "bytes": 2}] * 2,
        "image": {"file": "result.png", "bytes": len(png)},
        "numbers": [1, 2],
        "wide": [300],
        "none": [],
    }
    assert {name: bytes(data) for name, data in done.files.items()} == {
        "result.bin": b"mine",
        "result-2.bin": b"\xff\x00",
        "result.png": png,
    }


def test_bytes_of_a_result_count_as_files(box: Sandbox) -> None:
    done = run(box, "Buffer.alloc(2000, 255)", limits={"max_file_bytes": 1000})
    assert done.error is not None
    assert "no space left: max_file_bytes=1000" in done.error.message


def test_a_session_keeps_names_and_files(box: Sandbox) -> None:
    with box.session(language="javascript") as session:
        session.run_sync("let count = 1; var f = (n) => n + count; fs.writeFileSync('a', 'b')")
        assert session.run_sync("count++; f(1)").result == 3
        again = session.run_sync("let count = 5")
        assert again.error is not None
        assert "an earlier run of this session" in (again.error.hint or "")
        assert session.run_sync("fs.readFileSync('a', 'utf8')").result == "b"


def test_nothing_is_left_of_an_earlier_run(box: Sandbox) -> None:
    """In a fixture that compares all of memory after each reset."""
    first = run(box, "globalThis.secret = 1; Array.prototype.push = 5; Object.prototype.x = 1; Math.max = null; 1")
    assert first.ok
    for _ in range(3):
        assert run(box, "[typeof secret, typeof [].push, typeof ({}).x, Math.max(1, 2)]").result == [
            "undefined",
            "function",
            "undefined",
            2,
        ]


def test_clocks_and_randomness_are_replayed(box: Sandbox) -> None:
    code = """const seen = [Date.now(), Math.random(), crypto.randomUUID(), performance.now()];
seen.push(await tools.echo({value: 'a', delay: 0.01}));
await new Promise((r) => setTimeout(r, 5));
seen.push(new Date().getTime(), Math.random());
seen.push(await tools.echo({value: 'b'}));
seen"""
    tape = Memory()
    first = run(box, code, tape=tape)
    assert first.ok, str(first.error)
    made = first.usage.tool_calls
    again = run(box, code, tape=Memory(tape.records))
    assert again.result == first.result
    assert made == 2
    assert run(box, "Math.random()").result != run(box, "Math.random()").result


def test_fuel_is_the_same_each_time(box: Sandbox) -> None:
    spent = {
        run(box, "let s = 0; for (let i = 0; i < 1000; i++) s += i; s", limits={"fuel": 10**8}).usage.fuel
        for _ in range(3)
    }
    assert len(spent) == 1


def test_a_checkpoint_is_handed_over(box: Sandbox) -> None:
    tape = Memory()
    assert run(box, "checkpoint('half', {done: 1}); 1", tape=tape).ok


def test_an_unknown_language_is_refused(box: Sandbox) -> None:
    with pytest.raises(LimitError, match="there are python, javascript, typescript"):
        box.run_sync("1", language="ruby")


def test_the_exported_function_is_the_entry(box: Sandbox) -> None:
    code = "export default (a, b = 2) => a * b;"
    assert box.run_sync(code, {"a": 21}, entry="any", language="javascript").result == 42
    refused = box.run_sync("function f() {}", {}, entry="f", language="javascript").error
    assert refused is not None
    assert "it exports no function" in refused.message
