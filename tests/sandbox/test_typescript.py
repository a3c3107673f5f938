"""TypeScript in the sandbox: types are blanked, lines stay, and the rest does what another compiler's output does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from quickjs_rs import SourceTransform, transform_source

from go_ent.sandbox import Limits, Sandbox
from tests.conftest import TOOLS


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with_tools = Sandbox(TOOLS, Limits(timeout_s=20, cpu_s=10))
    yield with_tools
    with_tools.close()


PROGRAMS = {
    "annotations": """const x: number = 5;
let y: string | undefined;
var z: Array<Map<string, number[]>> = [];
[x, y ?? null, z]""",
    "functions": """function add(a: number, b?: number, ...rest: number[]): number { return a + (b ?? 0) + rest.length }
const f = <T,>(v: T): T => v;
const g = async <T extends object>(v: T, k: keyof T): Promise<unknown> => v[k];
function isText(v: unknown): v is string { return typeof v === "string" }
function check(v: any): asserts v is number { if (typeof v !== "number") throw new TypeError("no") }
check(1);
[add(1), add(1, 2, 3), f<string>("s"), await g({ a: 1 }, "a"), isText("x"), isText(1)]""",
    "overloads": """function over(a: string): string;
function over(a: number): number;
function over(a: any): any { return a }
class C { m(a: string): void; m(a: number): void; m(a: any) { return a } }
[over(1), over("x"), new C().m(2)]""",
    "interfaces and types": """interface Shape { area(): number; readonly name: string; [key: string]: unknown }
type Pair<A, B = A> = [first: A, second?: B];
type Keys = { [K in keyof Shape]?: Shape[K] extends infer U ? U : never };
declare const nothing: number;
declare function later(): void;
const p: Pair<number> = [1, 2];
p""",
    "enums": """enum Color { Red, Green = "g", Blue = 5, Cyan }
const enum Flag { A = 1 << 0, B = 1 << 1, C = A | B }
enum Level { Low = "low".length, High }
[Color.Red, Color[0], Color.Green, Color.Cyan, Flag.C, Level.High, Object.keys(Color).length]""",
    "classes": """abstract class Animal<T = string> {
  static count: number = 0;
  protected legs!: number;
  readonly tags?: string[];
  #secret: number = 42;
  declare phantom: number;
  constructor(public readonly name: T, private age = 1) { Animal.count++ }
  abstract sound(): string;
  get secret(): number { return this.#secret }
  describe(this: Animal<T>): string { return `${this.name} is ${this.age} ${this.sound()}` }
}
class Dog extends Animal<string> implements Iterable<number> {
  constructor(name: string) { super(name, 3); this.legs = 4 }
  override sound(): string { return "woof" }
  *[Symbol.iterator](): Iterator<number> { yield this.legs }
}
const d = new Dog("rex");
[d.describe(), [...d], d.secret, Animal.count, d.name]""",
    "expressions": """const o = { a: 1, b: { c: [1, 2] as const } } satisfies object;
const n = (o as any).b!.c![1]! + (<number>o.a);
const m = new Map<string, Array<number>>([["k", [1]]]);
const big = 1 < 2 && 3 > 2, s = 16 >> 2, u = 16 >>> 2;
let w = 16; w >>= 1; w >>>= 1;
const pick = (x: number) => x > 1 ? (y: number): number => y + x : (z: number) => z;
const q = o.a ? (n) : m;
const t = `a${(n as number) + 1}${`b${m.size}`}`;
const re = /[/]<a>/.test("/<a>") ? 6 / 2 / 3 : 0;
[n, m.get("k")?.[0], big, s, u, w, pick(2)(3), pick(0)(4), q, t, re, m?.get?.("k")]""",
    "destructuring": """const { a, b: { c = 1 } = {} }: { a: number; b?: { c?: number } } = { a: 2 };
const [x, , y = 3]: [number, number, number?] = [1, 2];
const f = ({ k, ...rest }: { k: number; [r: string]: number }, [h]: number[] = [9]) => [k, rest, h];
for (const [key, value] of Object.entries({ z: 1 }) as [string, number][]) void [key, value];
try { throw new Error("e") } catch (e: unknown) { if (!(e instanceof Error)) throw e }
[a, c, x, y, f({ k: 1, j: 2 })]""",
    "function types in return types": """type Fn = (...args: any[]) => void;
const later = <F extends Fn>(f: F): ((...args: Parameters<F>) => void) => {
  return (...args: Parameters<F>): void => f(...args);
};
const seen: number[] = [];
later((n: number) => { seen.push(n) })(4);
const make = (): ((a: number, b?: string) => string) => (a, b = "x") => `${a}${b}`;
[seen, make()(2)]""",
    "namespaces": """namespace Geo { export const pi = 3; export function area(r: number): number { return pi * r * r }
  const own = 1;
  export interface P { x: number } export namespace Deep { export const v = 1 } }
[Geo.area(2), Geo.pi, Geo.Deep.v, (Geo as any).own]""",
    "generics in calls": """const xs = [3, 1, 2];
const sum = xs.reduce<number>((t, v) => t + v, 0);
const set = new Set<number>(xs), p = new Promise<string>((resolve) => resolve("done"));
function id<T>(v: T) { return v }
class Box<T> { constructor(readonly v: T) {} map<U>(f: (v: T) => U): Box<U> { return new Box<U>(f(this.v)) } }
[sum, set.size, await p, id<{ a: number }>({ a: 1 }), new Box(2).map<string>((v) => `${v}`).v,
 xs.length < 4 && sum > (2)]""",
    "words that are names too": """const type = 1, of = 2, as = 3, declare = 4, namespace = 5, abstract = 6,
  async = 7, get = 8, readonly = 9;
const o = { type, interface: 1, enum: 2, get, set: 3, async, static: 4, type2: type as number };
let is = o.type + of + as + declare + namespace + abstract + async + readonly;
label: for (;;) { break label }
[o.interface, o.enum, o.set, is]""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_what_they_do_without_their_types(box: Sandbox, name: str) -> None:
    source = PROGRAMS[name]
    mine = box.run_sync(source, language="typescript")
    assert mine.error is None, str(mine.error)
    flags = SourceTransform.SOURCE_TS | SourceTransform.STRIP_TYPESCRIPT
    theirs = box.run_sync(transform_source("code.ts", source, flags=flags), language="javascript")
    assert theirs.error is None, str(theirs.error)
    assert mine.result == theirs.result


def test_lines_and_columns_are_those_of_the_source(box: Sandbox) -> None:
    source = """interface A { x?: { y: number } }
enum E { One,
  Two }
type Long = {
  a: string;
};
function bad(o: A, e: E = E.Two): number {
  const unused: Array<string> = [];
  return o.x!.y;
}
bad({});"""
    done = box.run_sync(source, language="typescript")
    assert done.error is not None
    assert (done.error.kind, done.error.line, done.error.source_line) == ("TypeError", 9, "  return o.x!.y;")
    assert "code.ts:11:" in (done.error.traceback or "")


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("let x: = 5;", 1, 8),
        ("const a: number = 1;\nconst b = (;", 2, 12),
        ("@dec class A {}", 1, 1),
        ("let s = 'a", 1, 9),
    ],
)
def test_a_syntax_error_has_its_place(box: Sandbox, source: str, line: int, column: int) -> None:
    done = box.run_sync(source, language="typescript")
    assert done.error is not None
    assert (done.error.kind, done.error.line, done.error.column) == ("SyntaxError", line, column)


def test_what_was_stripped_once_is_kept(box: Sandbox) -> None:
    source = "enum A { B = 4 }\nconst x: number = await tools.add({ a: A.B, b: 1 });\nif (x) return x;"
    assert [box.run_sync(source, language="typescript").result for _ in range(4)] == [5] * 4


def test_a_session_speaks_typescript(box: Sandbox) -> None:
    with box.session(language="typescript") as session:
        assert session.run_sync("const f = (n: number): number => n + 1;").ok
        assert session.run_sync("f(1) as number").result == 2


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ('import { type A, type B as C } from "./nowhere";\nconst x: A = 1; x', 1),
        ('import type { A } from "./nowhere"; 2', 2),
        ('import { type A, join } from "path"; join("a", "b")', "a/b"),
        ('import path, { type A } from "path"; path.join("a", "c")', "a/c"),
        (
            'declare module "m" { export const a: number }\ndeclare module "n";\ndeclare global { interface W {} }\n3',
            3,
        ),
    ],
)
def test_what_is_only_types_needs_no_module(box: Sandbox, code: str, result: object) -> None:
    done = box.run_sync(code, language="typescript")
    assert (done.error, done.result) == (None, result)
