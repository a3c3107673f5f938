//// namespaces
namespace Geo { export const PI2 = Math.PI * 2; export interface P { x: number } export class Pt implements P { constructor(public x: number, public y = 0) {} len() { return Math.hypot(this.x, this.y); } } export function mk(x: number): Pt { return new Pt(x, helper(x)); } function helper(n: number) { return n + 1; } export namespace Inner { export const deep = PI2 > 6; export enum K { Z = 3 } } export let counter = 0; export const bump = () => ++counter; }
Geo.bump(); Geo.bump();
//=
[Geo.mk(3).len(), Geo.Inner.deep, Geo.Inner.K.Z, Object.keys(Geo).sort(), Geo.counter]
//// namespace_dotted
namespace A.B.C { export const v = 5; export const f = (x: number): number => x * v; }
namespace A.B { export const w = 1; }
//=
[A.B.C.f(2), A.B.w]
//// namespace_merging
namespace M { export const a = 1; } namespace M { export const b = a + 1; } function fn(): number { return fn.extra; } namespace fn { export let extra = 7; }
class Cls { static s = 1; } namespace Cls { export const more = 2; }
//=
[M.a, M.b, fn(), Cls.s, Cls.more]
//// namespace_destructure
namespace N { export const { a, b: [c, d = 4] } = { a: 1, b: [3] as number[] }; export let x = 1, y = x + 1; export type T = string; export declare const z: number; export async function g(): Promise<number> { return a; } export abstract class Ab { abstract m(): void; } }
//=
[N.a, N.c, N.d, N.x, N.y, await N.g(), typeof N.Ab]
//// enum_merge_negative
enum E { A = -1, B, "C-D" = 10, F } enum E { G = 50 } namespace E { export function parse(s: string): E { return (E as any)[s]; } }
//=
[E.A, E.B, E["C-D"], E.F, E.G, E.parse("F"), E[-1]]
//// param_properties
class Animal { constructor(public readonly name: string, protected age: number = 1, private tags: string[] = [], readonly id?: number) { this.tags.push(name); } info() { return `${this.name}/${this.age}/${this.tags.join()}`; } }
class Dog extends Animal { private tricks: string[]; constructor(name: string, public breed: string, ...tricks: string[]) { super(name, 3); this.tricks = tricks; } override info(): string { return super.info() + "/" + this.breed + "/" + this.tricks.length; } }
//=
[new Animal("cat").info(), new Dog("rex", "lab", "sit", "roll").info(), Object.keys(new Dog("a", "b"))]
//// generic_vs_comparison
const a = 5, b = 3, c = 2; function f<T>(x?: T) { return 1; } const lt = a < b || c > (b); const g = [a < b, b > c]; const arr = [f<number>(1), f<string>("x")]; const sh = a >> 1, us = -1 >>> 28; let z = 8; z >>= 1; z >>>= 1; const cmp = a<b?1:2; const t2 = (a < b) as boolean; const inst = f<number>; const m = a as number < 6; const n = (a as any) >= 5;
//=
[lt, g, arr, sh, us, z, cmp, t2, typeof inst, m, n]
//// overloads
function parse(x: string): number; function parse(x: number): string; function parse(x: any): any { return typeof x === "string" ? parseInt(x) : String(x); }
class Q { get(k: "a"): number; get(k: "b"): string; get(k: string): unknown { return k === "a" ? 1 : "s"; } constructor(); constructor(x: number); constructor(readonly x?: number) {} static make(): Q; static make(n?: number): Q { return new Q(n as number); } }
export function exported(a: string): void
export function exported(a: number): void
export function exported(a: unknown): void {}
//=
[parse("42"), parse(42), new Q().get("a"), new Q(5).x, Q.make().get("b"), exported(1) ?? null]
//// class_fields_modifiers
class F { static readonly MAX: number = 10; private static inst?: F; declare phantom: string; name!: string; count?: number; readonly list: ReadonlyArray<string> = ["a"]; #p: Map<string, number> = new Map(); public static async *gen(): AsyncGenerator<number> { yield 1; } private get v(): number { return this.#p.size; } public set v(n: number) { this.#p.set("k", n); } static get instance(): F { return (F.inst ??= new F()); } [key: string]: any; static [Symbol.iterator]?: () => void; accessor_ = 1; protected override_?: boolean; "quoted-name": string = "q"; 42 = "n"; async = 1; get = 2; set = 3; static = 4; readonly = 5; type = 6; declare_ = 7; }
const f = F.instance; f.v = 3; const out: number[] = []; for await (const x of F.gen()) out.push(x);
//=
[f.v, F.MAX, "phantom" in f, "name" in f, "count" in f, f.list, out, F.instance === f, f["quoted-name"], f[42], f.async, f.get, f.set, f.static, f.readonly, f.type]
//// arrow_return_types
const a = (x: number): number => x; const b = (x: number): { y: number } => ({ y: x }); const c = (x: string): x is "a" => x === "a"; const d = async (x: Promise<number>): Promise<number> => (await x) + 1; const e = (): (() => number) => () => 5; const f = (x: number): [number, string?] => [x]; const g = x => x; const h = ({ a, b: { c } }: { a: number; b: { c: string } }): string => `${a}${c}`; const i = (cb: (err: Error | null, v?: number) => void): void => cb(null, 1); const j = true ? (x: number): number => x * 2 : (x: number): number => x * 3; const k = false ? (1) : (y: number) => y; const l = (x?: number) => x ?? "u"; const m = (x: typeof a, y: ReturnType<typeof b>["y"]): typeof y => y; const n = <T extends unknown[]>(...xs: [...T]): T => xs; const o = (a: number, b = (c: number): number => c + a) => b(1); const p = function <T>(this: void, x: T): T { return x; }; let q: number = 0; i((err, v) => { q = v!; }); const r = (x): any => { return x }; const s = ((x: number) => x + 1)(1), t = ((x) => x)(2);
//=
[a(1), b(2), c("a"), await d(Promise.resolve(1)), e()(), f(1), g(3), h({ a: 1, b: { c: "z" } }), q, j(2), (k as any)(7), l(), m(a, 3), n(1, "a"), o(5), p(1), r(1), s, t]
//// ternary_arrow_ambiguity
const x = 1, y = 2; const v1 = x ? (y) : (x); const v2 = x ? (y) => y : null; const v3 = x ? y ? (a) => a + 1 : (b) => b : null; const v4 = x ? (y, x) : x; const v5 = x ? { a: (y) } : { a: (x) }; const v6 = !x ? y : (z: number): number => z; const v7 = x ? ((a: number) => a)(3) : 4; const v8 = x ? (a: number): number => a * 2 : 5; const v9 = [x ? (y) : (x), x ? (q) : x => x]; var q = 9;
//=
[v1, v2(5), v3(1), v4, v5, v6(3), v7, (v8 as any)(4), v9.length, v9[0]]
//// type_level_noise
type A = string | number; type B = { readonly [K in keyof C as `get${Capitalize<string & K>}`]-?: () => C[K] }; interface C { a: string; b?: number; (x: number): string; new (x: string): C; readonly [i: number]: string; method<T>(this: C, x: T): asserts x is NonNullable<T>; get acc(): string; set acc(v: string); } type D<T> = T extends (infer U extends string)[] ? U : T extends Promise<infer V> ? V : never; type E = [first: string, second?: number, ...rest: boolean[]]; type F = (typeof list)[number]; type G = import("fs").Stats; type H = unique symbol; type I = `${A & string}-${"x" | "y"}`; type J = new () => object; type K = A extends string ? true : false; type L = { a: 1; } & { b: 2 } | null; type M = asserts; type asserts = 1; type N =
  | "a"
  | "b"
  | "c"; type O = (a: number, ...b: string[]) => a is any; type P<T = {}> = keyof T[] | readonly string[]; type Q = -1 | 1n | true | void; let type = 5; type = 6; const list = ["p"] as const; let interface_ = 1; let as = 3; let of = 4; let declare = 5, namespace = 6, module_ = 7, abstract = 8, readonly = 9, is = 10, keyof = 11, infer = 12, satisfies = 13; const get = 1, set = 2, async = 3, from = 4;
//=
[type, list[0], as, of, declare, namespace, abstract, readonly, is, keyof, infer, satisfies, as as number, get + set + async + from]
//// asi_hazards
type X = string
const a = 1
interface Y { z: number }
const b = [1, 2]
let c = a as number
;[c] = b
let d: number
let e = 5
type Z = { a: 1 }
;(() => { d = 3 })()
declare const g: number
const h = `t${a as number}`
enum K { P }
const i = K.P
abstract class L { abstract m(): void }
const j = /re/g.test("re")
let k = a
++k
const l = a
/ 1
const f = (x: number): number =>
  x + 1
class M { a = 1
  b: string = "x"
  private c
  static d
  ["e"]() { return 1 }
  f
  *g() { yield 1 }
}
var m = c! 
var n = <number>a;
//=
[a, b, c, d, e, h, i, j, k, l, f(1), new M().e(), [...new M().g()], m, n]
//// regex_and_division_ts
const s: string = "a/b/c"; const parts = s.split(/\//); let n = (s.length as number) / 2 / 1; const t = [1, 2].map((x): number => x / 2); const r = /[/\]]+(?<y>\d)/u; const cond = s ? /a/ : /b/; const u = n! / 2; const v = (n) / 2; const w = parts[0]! + /x/.source; if (/a/.test(s)) { } const x = typeof /a/; const y = { a: /q/ }; const z = n++ / 2; function f() { return /ret/.source } 
//=
[parts, n, t, r.source, cond.source, u, v, w, x, y.a.source, f(), ((a = 4, g = 2) => a / g / 1)()]
//// export_forms
export const a: number = 1; export let b = 2, c: string = "c"; export default function main(x: number): number { return x + a; } export class K<T> { v!: T; } export enum E { A } export interface I { x: 1 } export type T2 = I; export { a as aa, type I as II }; export async function af(): Promise<void> {} export function* gf(): Generator<number> { yield 1; } export abstract class AC {} export const enum CE { Z = 9 } export namespace NS { export const q = 1; } export declare const dd: number;
//=
[a, b, c, main(1), typeof K, E.A, [...gf()], CE.Z, NS.q]
//// import_type_forms
import type { Foo } from "./foo"; import { type Bar, join } from "node:path"; import type Def from "x"; import * as fs from "fs"; import path, { basename } from "path"; import { readFileSync as rf } from "node:fs"; import type * as All from "y"; export type { Foo }; export type * from "z";
const f: Foo | Bar | Def | null = null as any;
//=
[join("a", "b"), typeof fs.readFileSync, path.basename("/a/b"), basename("c/d"), typeof rf]
//// type_guards
type Sh = { kind: "c"; r: number } | { kind: "s"; w: number; h: number }; const isC = (s: Sh): s is Extract<Sh, { kind: "c" }> => s.kind === "c"; function assertNum(x: unknown): asserts x is number { if (typeof x !== "number") throw new TypeError("nan"); } function assertOk(c: any, m?: string): asserts c { if (!c) throw new Error(m); } const area = (s: Sh): number => { switch (s.kind) { case "c": return Math.PI * s.r ** 2; case "s": return s.w * s.h; default: { const _never: never = s; return _never; } } }; class U { isAdmin(): this is Admin { return this instanceof Admin; } } class Admin extends U { level = 9; } let r: unknown = 5; assertNum(r); assertOk(r); const filtered = [1, null, 2].filter((x): x is number => x !== null);
//=
[isC({ kind: "c", r: 1 }), area({ kind: "s", w: 2, h: 3 }), r + 1, new U().isAdmin(), filtered, (() => { try { assertNum("x"); } catch (e) { return (e as Error).message; } })()]
//// templates_with_types
const x = 5 as number; const t = `a${x as number}b${((y: number): string => `n${y!}`)(2)}c${`${[1, 2].map((z: number) => `${z}`).join<any>?.call([1], "") ?? ""}`}`; type T = `${string}-${number}`; const id: T = "a-1"; const tag = (s: TemplateStringsArray, ...v: unknown[]): string => s.raw.join("|") + v.length; const u = tag`x${1}\n${2}`; const g = tag<string>`q`;
//=
[x, t, id, u, g]
//// object_type_literal_calls
const r = Object.entries<number>({ a: 1 }).map(([k, v]: [string, number]): [number, string] => [v, k]); const s = Array.from<number, string>([1], (x) => `${x}`); const t = new Array<number>(3).fill(0); const u = [].concat<never>([]); const p = await Promise.all<[Promise<number>, string]>([Promise.resolve(1), "a"] as any); const v = JSON.parse("[1]") as Array<number>; const w = Object.keys({ a: 1 } as { a: number }) as Array<"a">; const fn = new Function("a", "return a") as <T>(a: T) => T; const x = fn<number>(4); const y = new (class<T> { constructor(public v: T) {} })<string>("q").v; const z = (await import("path")).join("a", "b");
//=
[r, s, t, u, p, v, w, x, y, z]
//// assertion_functions_in_conditions
const v: unknown = "s"; const a = typeof v === "string" ? (v as string).length : 0; const b = (v as any)?.foo?.(1) ?? (2 as const); const c = <string>v + "x"; const d = !(v as boolean); const e = -(<any>"3"); const f = [...(v as string)], g = { ...(v as any as object) }; const h = (v as string | undefined)?.length!; const i = await (Promise.resolve(1) as Promise<number>); const j = (a as number) > 0 && (b as number) < 10; const k = delete ({} as any).x; const l = void (0 as any), m = new (Date as any)(5).getTime(); const n = (v as string) in ({ s: 1 } as object), o = v as string instanceof Object; let p = 1; (p as number) += 2; (p as any)++; [(p as number)] = [p + 1]; 
//=
[a, b, c, d, e, f, h, i, j, k, l ?? null, m, n, o, p]
