//// completed
Object.prototype.toJSON = () => "forged"; ({a: 1})
//// completed
Object.prototype.then = function (r) { r("stolen") }; ({a: 1})
//// completed
Array.prototype[Symbol.iterator] = function* () { yield 666 }; const [a] = [1]; await tools.add(1, 2)
//// completed
Array.prototype.push = Array.prototype.join = Map.prototype.get = String.prototype.slice = () => { throw 1 }; await tools.add(1, 2)
//// completed
JSON.stringify = JSON.parse = () => "x"; await tools.add({a: 1, b: 2})
//// completed
Promise.prototype.then = function () { return 5 }; await tools.add(1, 2)
//// completed
globalThis.Promise = class { constructor() { throw 1 } }; await tools.add(1, 2)
//// completed
Object.defineProperty(Array.prototype, 0, { set() { throw new Error("caught") } }); await tools.add(1, 2)
//// completed
Array[Symbol.species]; Object.defineProperty(Array, Symbol.species, { value: class X { constructor() { throw 9 } } }); setTimeout(() => {}, 1); await tools.add(1, 2)
//// completed
Object.defineProperty(Promise, Symbol.species, { get() { throw 9 } }); await tools.add(1, 2)
//// error TypeError
RegExp.prototype.exec = () => null; null.x
//// error Error
Error.prototype.toString = () => { throw 1 }; const e = new Error("x"); Object.defineProperty(e, "message", { get() { throw 2 } }); throw e
//// error Error
const e = new Error("x"); Object.defineProperty(e, "stack", { get() { throw 2 } }); Object.defineProperty(e, "name", { get() { throw 2 } }); throw e
//// error Error
throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })
//// error Error
throw null
//// error Error
throw undefined
//// error Error
new Proxy({}, { ownKeys() { throw new Error("trap") } })
//// cpu_limit
new Proxy([], { get(t, k) { return k === "length" ? 1e9 : 1 } })
//// cpu_limit
({ get a() { return this.b = Math.random() > 2 }, get c() { while (true); } })
//// error RangeError
({ get a() { throw new RangeError("in getter") } })
//// error NotEncodable
({ toJSON() { return this } })
//// error NotEncodable
let o = {}; o.toJSON = () => ({ toJSON: o.toJSON }); o
//// cpu_limit
(function* () { while (true) yield 1 })()
//// cpu_limit
const a = []; a.length = 4294967295; a
//// completed
({ "__proto__": null, ["__proto__"]: { x: 1 } })
//// completed
JSON.parse('{"__proto__": {"polluted": 1}}')
//// completed
[inp, Object.keys(inp), ({}).polluted]
//// completed
Object.setPrototypeOf(globalThis, null); 1
//// completed
delete globalThis.Object; delete globalThis.Array; [1]
//// completed
globalThis.tools = 5; tools
//// error TypeError
tools.add = 1
//// completed
Object.keys(tools).concat(Object.getOwnPropertyNames(tools.add))
//// error TypeError
Object.setPrototypeOf(tools, {})
//// error TypeError
new tools.add()
//// completed
await tools["<checkpoint>"]("a", 1)
//// completed
await tools.call("<checkpoint>", "a", 1)
//// error ToolError
await tools["a\0b"]()
//// error ToolError
await tools["x".repeat(100000)]()
//// completed
await tools.add({ a: 1n << 100n, b: 1 })
//// error NotEncodable
await tools.add({ a: () => 1, b: 1 })
//// error NotEncodable
await tools.add({ get a() { return tools.add(1, 1) }, b: 1 })
//// error NotEncodable
const c = {}; c.c = c; await tools.add(c)
//// error NotEncodable
await tools.add({ a: "\ud800", b: 1 })
//// call_limit
const many = []; for (let i = 0; i < 5000; i++) many.push(tools.add(i, 1).catch(() => 0)); (await Promise.all(many)).length
//// call_limit
for (;;) tools.add(1, 2)
//// memory_limit
for (let i = 0; i < 1e6; i++) Promise.resolve().then(() => {}); 1
//// error Deadlock
await new Promise(() => {})
//// completed
const f = () => setTimeout(f, 0); f(); 1
//// completed
setInterval(() => {}, 1); 1
//// completed
for (let i = 0; i < 1e5; i++) setTimeout(() => {}, 1e6); 1
//// cpu_limit
({ then(r) { r(this) } })
//// error Deadlock
({ then() {} })
//// error Error
({ then() { throw new Error("thenable") } })
//// completed
new FinalizationRegistry(() => { while (true); }).register({}, 1); 1
//// completed
eval("1;".repeat(1e5)); Function("return this")() === globalThis
//// completed
[].constructor.constructor("return typeof process.binding")()
//// error NotEncodable
import("fs").then((m) => m)
//// error ImportError
await import("node:child_process")
//// error ImportError
require("child_process")
//// completed
process.binding
//// completed
new SharedArrayBuffer(8).byteLength
//// error ReferenceError
new Worker("x")
//// completed
__import("fs") === fs
//// completed
typeof exchange + typeof write + typeof keep + typeof evaluate + typeof run + typeof bridge + typeof setup
//// completed
console.log = null; console = undefined; 1
//// completed
console.log({ get a() { throw 1 } }, new Proxy({}, { get() { throw 2 }, ownKeys() { throw 3 } }))
//// completed
console.log("x".repeat(1e6)); 1
//// completed
console.log("\ud800"); 1
//// completed
const big = {}; for (let i = 0; i < 1e5; i++) big["k" + i] = i; console.log(big); 1
//// error NotEncodable
let d = {}; for (let i = 0; i < 1e5; i++) d = { d }; console.log(d); d
//// error RangeError
let d = []; for (let i = 0; i < 1e4; i++) d = [d]; structuredClone(d)
//// error RangeError
"a".repeat(2 ** 30)
//// memory_limit
"x".padEnd(2 ** 29).length
//// error RangeError
new Array(2 ** 32)
//// memory_limit
[..."a".repeat(1e7)].length
//// cpu_limit
/(a*)*b/.test("a".repeat(30))
//// cpu_limit
/^(([a-z])+.)+[A-Z]([a-z])+$/.test("a".repeat(100))
//// error RecursionError
JSON.parse("[".repeat(1e6))
//// completed
JSON.parse("1".repeat(1e6))
//// error RangeError
2n ** 100000000n
//// error RangeError
BigInt("9".repeat(1e6)).toString().length
//// cpu_limit
[3, 2, 1].sort(() => { for (;;); })
//// memory_limit
Array.from({ length: 1e9 }, () => 1)
//// error QuotaExceededError
crypto.getRandomValues(new Uint8Array(1e7))
//// error Error
fs.writeFileSync("../x", "a")
//// error Error
fs.readFileSync("/etc/passwd")
//// error Error
fs.writeFileSync("a\0b", "x"); fs.readdirSync(".")
//// error Error
for (let i = 0; i < 5000; i++) fs.writeFileSync("f" + i, "x")
//// error Error
fs.writeFileSync("a", new Uint8Array(20e6))
//// completed
fs.writeFileSync("__proto__", "x"); fs.readFileSync("__proto__", "utf8")
//// completed
label: { break label; }
//// error SyntaxError
with ({ a: 1 }) { a }
//// completed
return
//// completed
#!/usr/bin/env node
1
//// error ReferenceError
"use strict"; undeclared = 5
//// completed
'\u0000'
//// completed
await 1; await 2; return 3
//// error SyntaxError
})(); globalThis.escaped = 1; (async () => { return 5
//// error SyntaxError
}); while (true); ({
//// completed
performance.now = null; Date.now = null; Math.random = null; await new Promise((r) => setTimeout(r, 1)); 1
//// error TypeError
process.exit = null; process.exit()
//// error RangeError
checkpoint("x".repeat(300))
//// call_limit
for (let i = 0; i < 20000; i++) checkpoint("a", i)
//// error TypeError
Error.prepareStackTrace = () => { throw 1 }; null.x
//// error TypeError
Error.stackTraceLimit = 0; null.x
//// completed
Object.freeze(Object.prototype); Object.freeze(Array.prototype); await tools.add(1, 2)
//// completed
Object.defineProperty(Object.prototype, "value", { get() { return "poison" }, set() {} }); Object.defineProperty(Object.prototype, "get", { value: 5, configurable: true }); 1
//// completed
Object.prototype.get = 1; Object.prototype.writable = false; await tools.add(1, 2)
//// error TypeError
Symbol.iterator = null; Reflect.apply = null; Function.prototype.call = null; Function.prototype.apply = null; await tools.add(1, 2)
//// completed
Uint8Array.prototype.toBase64 = () => "!!!"; fs.writeFileSync("a", "x"); 1
//// error NotEncodable
String.prototype.isWellFormed = () => true; "\ud800"
//// completed
Number.prototype.toString = BigInt.prototype.toString = () => "1}],"; 5n
//// error xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
class E extends Error { get name() { return "x".repeat(1e6) } }; throw new E("m".repeat(1e6))
//// error Error
const e = new Error("a"); e.cause = e; throw e
//// error Error
const e = new AggregateError([]); e.errors = new Proxy([], { get() { throw 1 } }); throw e
//// completed
const fs2 = await import("node:fs"); const { join } = await import("path"); [typeof fs2.default.readFileSync, join("a", "b")]
//// error ImportError
await import("lodash")
//// error ReferenceError
x = 5; x
//// completed
console.log({ get a() { throw 1 } }, new Proxy({}, { get() { throw 2 }, ownKeys() { throw 3 } })); console.log("x".repeat(1e6)); 1
//// completed
(function () { return typeof this })()
//// completed
class E extends Array { static get [Symbol.species]() { return function () { return { length: 1e9 } } } } new E(1, 2, 3).map((x) => x)
//// error Error
class P extends Promise { static get [Symbol.species]() { throw new Error("species") } } await P.resolve(1).then((x) => x)
//// completed
Reflect.apply = () => 0; Object.keys = () => ["x"]; ({ a: await tools.add({ a: 1, b: 2 }) })
//// error Error
new Proxy({}, { getPrototypeOf() { throw new Error("trap") } })
//// completed
({ then(done) { done({ then(again) { again("deep") } }) } })
//// error Deadlock
({ then() {} })
//// cpu_limit
const t = { then(done) { done(t) } }; t
//// error RangeError
let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.flat(Infinity).length
//// error RangeError
let a = []; for (let i = 0; i < 1e5; i++) a = [a]; String(a).length
//// error RangeError
let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; structuredClone(a); 1
//// error SyntaxError
new RegExp("(".repeat(1e5) + ")".repeat(1e5)).test("x")
//// error RecursionError
eval("(".repeat(1e5) + "1" + ")".repeat(1e5))
//// error RecursionError
JSON.parse("[".repeat(1e5) + "]".repeat(1e5), (k, v) => v)
//// error RangeError
let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x
//// error RangeError
const p = new Proxy({}, {}); Object.setPrototypeOf(p, p)
//// completed
let n = 0; await tools.add({ get a() { return n++ ? "x" : 1 }, b: 2 })
//// error ToolError
await tools.add(JSON.parse('{"a": 1, "b": 2, "__proto__": {"c": 3}}'))
//// error ToolError
await tools.__proto__.constructor({})
//// completed
new FinalizationRegistry(() => { for (;;); }).register({}, 1); 1
//// error NotEncodable
await tools.add({ a: { valueOf: () => 1 }, b: 2 })
//// completed
const b = Buffer.from([255]); Object.defineProperty(b, "buffer", { value: new ArrayBuffer(1e6) }); Object.defineProperty(b, "length", { value: 1e9 }); b
//// error TypeError
const b = new ArrayBuffer(8); const u = Buffer.from(b); b.transfer(); [u, b]
//// error Error
Array.from({ length: 1001 }, () => Buffer.from([255]))
//// completed
class B extends Buffer { static get [Symbol.species]() { throw 1 } get byteLength() { return 1e9 } toJSON() { throw 2 } } Object.setPrototypeOf(Buffer.from([255, 1]), B.prototype)
//// completed
Uint8Array.prototype.toBase64 = Array.prototype.push = RegExp.prototype.exec = () => { throw 1 }; String.fromCharCode = () => "x"; [Buffer.from([255]), new Uint8Array([137, 80])]
//// completed
Object.defineProperty(Object.prototype, "value", { get() { return 666 }, set(v) {}, configurable: true }); await tools.add({ a: 1, b: 2 })
//// completed
Object.defineProperty(Object.prototype, "signal", { get() { return AbortSignal.abort("mine") }, configurable: true }); await tools.add(1, 2)
//// error ForgottenAwait
Object.prototype.used = true; tools.add(1, 2); 5
//// error ForgottenAwait
Object.prototype.done = true; Object.prototype.error = undefined; tools.add(1, 2); 5
//// completed
Object.defineProperty(Object.prototype, "resolve", { set(v) { globalThis.stolen = v }, get() { return globalThis.stolen }, configurable: true }); await tools.add(1, 2)
//// completed
Object.defineProperty(Object.prototype, "1", { value: { name: "x", resolve() {}, reject() {} }, configurable: true }); await tools.add(1, 2)
//// completed
Object.defineProperty(Object.prototype, "constructor", { get() { throw new Error("ctor") }, configurable: true }); await tools.add(1, 2)
//// error Deadlock
Object.defineProperty(Promise.prototype, "constructor", { get() { throw new Error("pctor") }, configurable: true }); await tools.add(1, 2)
//// completed
Object.defineProperty(Promise.prototype, "then", { get() { throw new Error("pthen") }, configurable: true }); await tools.add(1, 2)
//// completed
Promise.prototype.constructor = function () {}; await Promise.all([tools.add(1, 2)])
//// completed
Promise.resolve = Promise.reject = Promise.all = () => 7; const p = tools.add(1, 2); await p
//// completed
const p = tools.add(1, 2); Object.defineProperty(p, "constructor", { value: Promise }); Object.defineProperty(p, "then", { value: (r) => r("forged") }); await p
//// completed
const p = tools.add(1, 2); Object.setPrototypeOf(p, null); await p
//// completed
const p = tools.add(1, 2); p.constructor; 5
//// error TypeError
const p = tools.add(1, 2); p.constructor = 1; await p
//// error ForgottenAwait
tools.add(1, 2).then = 5; 6
//// completed
await Promise.race([tools.add(1, 2), 1]); 3
//// completed
void tools.add(1, 2).catch(() => {}); 4
//// completed
tools.fail({ message: "x" }).catch(() => {}); 4
//// error ForgottenAwait
const p = tools.fail({ message: "secret" }); await null; p.catch; 5
//// error NotEncodable
[tools.add(1, 2)]
//// error NotEncodable
({ x: tools.add })
//// error NotEncodable
tools
//// error NotEncodable
[tools.add.name, tools.add.length, typeof tools.add.call, typeof tools.add.bind, String(Object.prototype.toString.call(tools.add))]
//// completed
tools.add.call(null, 1, 2)
//// completed
await Reflect.apply(tools.add, null, [1, 2])
//// completed
await tools.add.apply(null, [1, 2])
//// error ToolError
const h = tools["<search>"]; await h({ words: "", namespace: null, limit: 1000000, language: "x" })
//// error ToolError
await tools["<describe>"]({ name: "../../etc", language: "typescript" })
//// error ToolError
await tools.call("<search>", { words: "x".repeat(1e6) })
//// error ToolError
await tools.search("x".repeat(5e6))
//// error NotEncodable
await tools.search({ words: { toString() { throw 1 } }, limit: -1 })
//// completed
await tools.call("add", { a: 1, b: 2, __proto__: { c: 3 } })
//// error ToolError
await tools.add(Object.create({ a: 1, b: 2 }))
//// error TypeError
await tools.add(new Proxy({ a: 1, b: 2 }, { ownKeys: () => ["a", "b", "b", "a"], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }) }))
//// cpu_limit
await tools.add(new Proxy({ a: 1, b: 2 }, { ownKeys: () => Array.from({ length: 1e5 }, (_, i) => "k" + i), getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }) }))
//// completed
await tools.add(new Proxy({}, { getPrototypeOf() { return Object.prototype }, ownKeys: () => ["a", "b"], get: (t, k) => k === "a" ? 1 : 2, getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }) }))
//// cpu_limit
await tools.add({ a: new Proxy([], { get(t, k) { return k === "length" ? 1e9 : 0 } }), b: 1 })
//// completed
await tools.add({ a: { toJSON() { return 1 } }, b: { toJSON() { return 2 } } })
//// error NotEncodable
await tools.add({ a: 1, b: { toJSON() { return tools.add(5, 5) } } })
//// error ToolError
await tools.add({ a: 1e999, b: NaN })
//// completed
await tools.add({ a: 10n ** 400n, b: 1 })
//// completed
await tools.echo({ value: { "$bytes": "AAAA" } })
//// error ToolError
await tools.echo({ value: { "$bytes": "!!!not base64" } })
//// error NotEncodable
await tools.echo({ value: { "$bytes": { toString() { return "AA==" } } } })
//// error ToolError
await tools.echo({ value: [1, { "$bytes": "AA==", extra: 1 }] })
//// completed
await tools.echo({ value: new Uint8Array(8) })
//// error TypeError
const a = new Uint8Array(8); a.buffer.transfer(); await tools.echo({ value: a })
//// completed
await tools.echo({ value: "\u2028\u2029\u0000\uffff" })
//// error ToolError
await tools.echo({ value: JSON.parse('{"__proto__":{"x":1},"constructor":{"prototype":{"y":2}}}') })
//// completed
[({}).x, ({}).y, inp.__proto__?.polluted, Object.getPrototypeOf(inp) === Object.prototype, Object.hasOwn(inp, "__proto__")]
//// completed
const seen = new WeakSet(); JSON.stringify = () => { throw 1 }; ({ a: [inp, inp] })
//// completed
globalThis.__import = () => ({ secret: 1 }); import fs from "fs"; fs
//// completed
globalThis._load_ = () => 5; await import("fs")
//// completed
import fs from "fs"; typeof __import + typeof _load_ + fs.constructor.constructor("return typeof bridge")()
//// completed
import { constructor as C } from "path"; C === Object
//// error ImportError
require("__proto__")
//// error ImportError
require("constructor")
//// error ImportError
require({ toString() { this.n = (this.n ?? 0) + 1; return this.n === 1 ? "fs" : "child_process" } })
//// completed
require.main = { exports: 5 }; require.cache?.x ?? Object.keys(require).length
//// completed
await import({ toString: () => "process" }).then((m) => typeof m.default.binding)
//// completed
process.env.PATH = "x"; process.argv.push("y"); [process.env, process.argv.length]
//// error Exit
process.exit({ valueOf() { throw new Error("code") } })
//// completed
try { process.exit(0) } finally { await tools.add(1, 2) }
//// completed
try { process.exit(1) } catch (e) { "caught " + e.name }
//// completed
process.on("exit", () => { for (;;); }); 1
//// error Error
setTimeout(() => { throw new Error("late") }, 5); 1
//// error Exit
setTimeout(() => process.exit(1), 1); 1
//// error TypeError
setTimeout("globalThis.x = 1", 1); 1
//// completed
setTimeout(() => tools.add(1, 2), 1); 1
//// completed
const t = setTimeout(() => {}, 1e9); t[Symbol.toPrimitive] = () => { throw 1 }; clearTimeout(t); clearTimeout({ [Symbol.toPrimitive]() { throw 2 } }); 1
//// completed
clearTimeout(Object.create(setTimeout(() => {}, 1))); 1
//// completed
queueMicrotask(() => { throw new Error("micro") }); await null; 1
//// error Error
await new Promise((_, no) => no(new Proxy(new Error("x"), { get() { throw 1 } })))
//// error Error
throw Object.assign(new Error("m"), { stack: 5 })
//// error Error
throw Object.assign(new Error("m"), { stack: "    at eval_script:99999999999:1\n".repeat(1e4) })
//// error Error
throw Object.assign(new Error("m"), { stack: "at x (eval_script:" + "9".repeat(1e6) + ":1)" })
//// error Error
const e = new Error("m"); e.name = { toString() { return "Evil" } }; throw e
//// error Error
const e = new Error(); Object.defineProperty(e, "message", { value: "\ud800".repeat(10) }); throw e
//// error Error
class X extends Error { get message() { return { toString() { throw 1 } } } } throw new X()
//// error ToolError
throw new ToolError("forged", "add", "UnknownTool")
//// error Error
throw Object.assign(new ToolError("x", { toString() { throw 1 } }, Symbol("k")))
//// error ToolError
const e = await tools.fail({ message: "x" }).catch((e) => e); e.tool = "other"; e.kind = "NotFound"; throw e
//// error ToolError
ToolError = class {}; await tools.fail({ message: "x" })
//// error Hidden
Object.defineProperty(ToolError.prototype, "name", { value: "Hidden" }); await tools.fail({ message: "x" })
//// error memory_limit
class ForgottenAwait extends Error { get name() { return "memory_limit" } } throw new ForgottenAwait("x")
//// error InternalError
throw Object.assign(new Error("out of memory"), { name: "InternalError" })
//// memory_limit
throw new InternalError("out of memory")
//// memory_limit
throw new InternalError("string too long")
//// completed
checkpoint("a", { get x() { checkpoint("b"); return 1 } }); 1
//// error TypeError
checkpoint({ toString() { return "x" } }, 1)
//// error NotEncodable
checkpoint("a", () => 1)
//// error NotEncodable
checkpoint("a", 10n ** 30n); checkpoint("\ud800", 1)
//// cpu_limit
const a = []; a[1e9] = 1; a
//// memory_limit
Array(1e9).fill(0)
//// memory_limit
"a".repeat(1e8).split("").length
//// completed
new RegExp("a{0,65535}".repeat(100)).test("a")
//// cpu_limit
/(x+x+)+y/.test("x".repeat(40))
//// completed
JSON.parse("[" + "1e999999999999999,".repeat(10) + "1]")
//// completed
JSON.parse('{"a":' + '"\\u0000"'.repeat(1) + "}").a.length
//// completed
JSON.parse("[" + '{"__proto__":null},'.repeat(1e5) + "1]").length
//// completed
JSON.parse('{"__proto__": {"then": 1}}').then ?? "none"
//// completed
JSON.stringify({ toJSON() { Array.prototype.toJSON = () => "x"; return [1] } })
//// completed
new Map([["__proto__", 1], ["a", { __proto__: null }]])
//// error NotEncodable
new Map([[Symbol("x"), 1]])
//// error NotEncodable
new Map([["a", 1], [new String("a"), 2]])
//// completed
Object.defineProperty([1, 2], "length", { writable: false })
//// completed
const s = new Set([1]); s[Symbol.iterator] = null; s.forEach = null; s
//// completed
class M extends Map { get size() { return 1e9 } forEach() { throw 1 } } new M([[1, 2]])
//// completed
class D extends Date { toISOString() { return "forged" } getTime() { return NaN } toJSON() { return "j" } } new D(0)
//// completed
const d = new Date(0); d[Symbol.toStringTag] = "X"; Object.setPrototypeOf(d, null); d
//// error NotEncodable
const it = { next() { return { done: false, value: 1 } }, [Symbol.iterator]() { return this } }; it
//// completed
Object.create({ next() { return { done: true } }, [Symbol.iterator]() { return this } })
//// error NotEncodable
(async function* () { yield 1 })()
//// error NotEncodable
(function* () { yield (function* () { yield 1 })(); yield tools })()
//// completed
const g = (function* () { try { yield 1 } finally { for (;;) yield 2 } })(); const [x] = g; x
//// completed
Object.defineProperty(globalThis, "undefined2", { get() { throw 1 }, enumerable: true }); 1
//// completed
Object.freeze(globalThis); 1
//// completed
Object.defineProperty(globalThis, "module", { value: 1, configurable: false }); 1
//// completed
for (const k of Object.getOwnPropertyNames(globalThis)) try { delete globalThis[k] } catch {} ; 1
//// completed
for (const k of Object.getOwnPropertyNames(globalThis)) try { globalThis[k] = null } catch {} ; [1, { a: 2 }]
//// error Error
for (const C of [Object, Array, Function, String, Number, Promise, Map, Set, RegExp, Error, Date]) for (const k of Object.getOwnPropertyNames(C.prototype)) try { C.prototype[k] = null } catch {} ; await tools.add(1, 2)
//// error TypeError
for (const C of [Object, Array, String, Number, Promise, Map, Set, RegExp, Error, Date, Math, JSON, Reflect]) for (const k of Object.getOwnPropertyNames(C)) try { C[k] = null } catch {} ; await tools.add({ a: 1, b: 2 })
//// error TypeError
const f = (function () { return arguments.callee })(); f
//// completed
(function () { return this })() ?? (0, eval)("typeof this")
//// completed
eval("var leaked = 1"); typeof leaked
//// completed
new Function("}) ; globalThis.x = 1; ({")
//// completed
Function.prototype.toString.call(tools.add)
//// completed
Error.stackTraceLimit = 1e9; const e = new Error("x"); e.stack
//// completed
Error.captureStackTrace?.({}) ?? "none"
//// completed
Error.prepareStackTrace = (e, frames) => frames; const f = new Error("x").stack; typeof f === "string" ? "text" : f.map((s) => String(s.getFunction?.()))
//// completed
Error.prepareStackTrace = (e, frames) => { globalThis.frames = frames; return "x" }; try { await tools.add() } catch {} ; typeof globalThis.frames === "object" ? globalThis.frames.map((s) => typeof s.getThis?.() + typeof s.getFunction?.()).join() : "none"
//// completed
performance.now = () => { throw 1 }; Date.now = () => { throw 2 }; await new Promise((r) => setTimeout(r, 2)); 1
//// completed
Math.random = () => "x"; crypto.randomUUID().length
//// error TypeError
crypto.getRandomValues({ length: 5 })
//// error TypeError
crypto.getRandomValues(new Float64Array(2))
//// error TypeError
const u = new Uint8Array(16); u.buffer.transfer(); crypto.getRandomValues(u)
//// completed
crypto.subtle.digest("SHA-256", { length: 1e9 })
//// error Error
await crypto.subtle.digest({ get name() { throw new Error("alg") } }, new Uint8Array(1))
//// error Error
await crypto.subtle.digest("__proto__", new Uint8Array(1))
//// error Error
require("crypto").createHash("constructor")
//// error RangeError
BigInt.asUintN(2 ** 53 - 1, -1n)
//// error RangeError
BigInt.asUintN(1e9, -1n)
//// completed
new TextEncoder().encodeInto("x".repeat(1e6), { length: 1e9, set() {} })
//// error DataCloneError
structuredClone(tools)
//// completed
structuredClone({ get a() { return Object.defineProperty(this, "b", { value: 1, enumerable: true }), 1 } })
//// completed
structuredClone(new Proxy({}, { ownKeys: () => ["a"], getOwnPropertyDescriptor: () => ({ configurable: true, enumerable: true }), get: () => ({ a: 1 }) }))
//// completed
Object.defineProperty(Uint8Array, Symbol.species, { get() { return function () { return new Uint8Array(1) } } }); fs.writeFileSync("a", "hello"); fs.readFileSync("a", "utf8")
//// completed
Uint8Array.prototype.set = Uint8Array.prototype.subarray = () => { throw 1 }; fs.writeFileSync("a", Buffer.from("x")); 1
//// error RangeError
Object.defineProperty(Uint8Array.prototype, "length", { get() { return 1e9 } }); Buffer.from("x"); fs.writeFileSync("a", new Uint8Array(2)); 1
//// error TypeError
fs.writeFileSync({ toString() { return "../x" } }, "x")
//// error Error
fs.writeFileSync("a/../../b", "x")
//// error Error
fs.writeFileSync("./a/./b//c", "x"); fs.readdirSync(".", { recursive: true })
//// error Error
fs.mkdirSync("x".repeat(5000))
//// error Error
for (let i = 0; i < 1e5; i++) fs.mkdirSync("d" + i)
//// completed
fs.writeFileSync("constructor", "1"); fs.writeFileSync("toString", "2"); fs.readdirSync(".")
//// error Error
fs.writeFileSync("a".repeat(300), "x")
//// error Error
fs.writeFileSync("\ud800", "x"); fs.readdirSync(".")
//// completed
const f = fs.readFileSync; Object.prototype.encoding = "hex"; fs.writeFileSync("a", "b"); f("a", {})
//// completed
fs.promises.readFile("nope").catch((e) => e.code)
//// error Error
fs.rmSync("/", { recursive: true, force: true }); fs.readdirSync(".")
//// completed
fs.symlinkSync?.("/etc/passwd", "x") ?? "no symlinks"
//// completed
console.log(new Proxy(() => {}, { get() { throw 1 }, apply() { throw 2 } })); 1
//// error RangeError
console.log({ [Symbol.for("nodejs.util.inspect.custom")]() { return this } }); 1
//// completed
console.log({ [Symbol.for("nodejs.util.inspect.custom")]() { throw new Error("inspect") } }); 1
//// error Error
console.table({ get length() { throw 1 } }); console.group("x".repeat(1e5)); console.log("y"); 1
//// completed
for (let i = 0; i < 1e5; i++) console.group(); console.log("x"); 1
//// completed
console.log("\x1b]0;title\x07\x1b[2J"); 1
//// error Error
console.count({ toString() { throw 1 } })
//// completed
console.time("__proto__"); console.count("__proto__"); console.timeEnd("__proto__"); 1
//// completed
Object.setPrototypeOf(Object.prototype, null) && 1
//// completed
Object.setPrototypeOf(Function.prototype, Array.prototype); [].concat(tools.add).length
//// completed
Array.prototype.toJSON = function () { return { forged: this.length } }; [1, 2]
//// completed
String.prototype.toJSON = () => "forged"; Number.prototype.toJSON = () => 9; ["a", 1]
//// completed
Date.prototype.toISOString = () => "forged"; new Date(0)
//// completed
Map.prototype.forEach = Set.prototype.forEach = () => {}; [new Map([[1, 2]]), new Set([3])]
//// completed
Object.defineProperty(Object.prototype, "toJSON", { get() { return () => "got" }, configurable: true }); ({ a: { b: 1 } })
//// completed
Object.defineProperty(Array.prototype, "0", { get() { return "poison" }, set(v) { }, configurable: true }); [5]
//// completed
Object.defineProperty(Object.prototype, "0", { get() { return "poison" }, set(v) { }, configurable: true }); await tools.add(1, 2)
//// completed
Object.defineProperty(Object.prototype, "length", { get() { return 3 }, configurable: true }); await tools.add({ a: 1, b: 2 })
//// error Error
RegExp.prototype.test = RegExp.prototype[Symbol.replace] = RegExp.prototype[Symbol.split] = () => { throw 1 }; Object.defineProperty(RegExp.prototype, "flags", { get() { throw 2 } }); null.x
//// error ReferenceError
String.prototype.split = String.prototype.replace = String.prototype.slice = String.prototype.trim = () => { throw 1 }; undefinedName
//// error TypeError
"use strict"; delete Object.prototype
//// completed
await (async () => { await tools.add(1, 2) }).call(new Proxy({}, { get() { throw 1 } })); 1
//// error Error
const c = new AbortController(); const p = tools.add({ a: 1, b: 2 }, c.signal); c.abort({ get message() { throw 1 } }); await p
//// completed
const s = AbortSignal.abort(); Object.defineProperty(s, "aborted", { value: false }); await tools.add({ a: 1, b: 2 }, s)
//// error Error
const s = new AbortController().signal; s.addEventListener = () => { throw new Error("listen") }; await tools.add({ a: 1, b: 2 }, s)
//// call_limit
const c = new AbortController(); for (let i = 0; i < 2000; i++) tools.add({ a: 1, b: i }, c.signal).catch(() => {}); c.abort(); 1
//// error Error
const c = new AbortController(); const p = tools.echo({ value: 1, delay: 5 }, c.signal); c.signal.dispatchEvent(new Event("abort")); await p
//// completed
Object.defineProperty(Object.prototype, "0", { get() { return "poison" }, set(v) { }, configurable: true }); 1
//// completed
Object.defineProperty(Object.prototype, "0", { value: "poison", configurable: true }); 1
//// completed
Object.prototype[0] = "poison"; await tools.add(1, 2)
//// completed
Object.defineProperty(Object.prototype, "1", { get() { return "poison" }, set(v) { }, configurable: true }); await tools.add(1, 2)
//// completed
Object.defineProperty(Object.prototype, "length", { get() { return 0 }, set(v) {}, configurable: true }); await tools.add(1, 2)
//// completed
Object.defineProperty(Object.prototype, "status", { get() { return "completed" }, set(v) { }, configurable: true }); await tools.add(1, 2)
//// error Error
throw Object.assign(new Error("m"), { stack: "at x (eval_script:" + "9".repeat(300) + ":1)" })
//// error Error
throw Object.assign(new Error("m"), { stack: "at x (eval_script:" + "9".repeat(25) + ":" + "7".repeat(40) + ")" })
//// error Error
throw Object.assign(new Error("m"), { stack: "at x (eval_script:0:0)" })
//// completed
const t = performance.now(); await Promise.all(Array.from({ length: 1e4 }, () => new Promise((r) => setTimeout(r, 1)))); console.log(performance.now() - t); 1
//// completed
Error.prepareStackTrace = (e, frames) => frames; const f = new Error("x").stack; [Array.isArray(f), ...f.map((s) => typeof s.getFunction() + typeof s.getThis() + typeof s.getLineNumber())]
//// completed
[tools.add.name, await tools.add.call(null, 1, 2), await tools.add.apply(null, [3, 4]), await tools.add.bind(null, 5)(6), `${tools.add}`, String(tools), tools + ""]
//// completed
console.log(tools, tools.add, { t: tools.add }); 1
//// completed
await tools.toString()
//// completed
Function.prototype.call = Function.prototype.apply = () => "mine"; await tools.add.call(null, 1, 2)
//// completed
JSON.parse("[".repeat(20000) + "]".repeat(20000)).length
//// completed
JSON.parse('{"a":'.repeat(20000) + "1" + "}".repeat(20000), (k, v) => v).a !== undefined
//// error RangeError
let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; structuredClone(a)
//// error RangeError
let a = new Map(); for (let i = 0; i < 1e5; i++) a = new Map([[1, a]]); structuredClone(a)
//// error RangeError
let a = new Set(); for (let i = 0; i < 1e5; i++) a = new Set([a]); structuredClone(a)
//// error RangeError
let e = new Error("x"); for (let i = 0; i < 1e5; i++) e = new Error("y", { cause: e }); structuredClone(e)
//// error RangeError
let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.flat(Infinity)
//// error RangeError
let a = []; for (let i = 0; i < 1e5; i++) a = [a]; `${a}`
//// error RangeError
let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.join()
//// error RangeError
let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.toLocaleString()
//// error RangeError
const f = () => [2, 1].sort(f); f()
//// error RangeError
const f = () => [2, 1].toSorted(f); f()
//// error RangeError
const f = () => new Int8Array([2, 1]).sort(f); f()
//// error RangeError
const f = () => "a".replace(/a/, f); f()
//// error RangeError
const f = () => "a".replaceAll("a", f); f()
//// error RangeError
const f = () => [1].map(f); f()
//// error RangeError
const f = () => [1].forEach(f); f()
//// error RangeError
const f = () => [1, 2].reduce(f); f()
//// error RangeError
const f = () => Array.from([1], f); f()
//// error RangeError
const f = () => new Map([[1, 2]]).forEach(f); f()
//// error RangeError
const f = () => Object.groupBy([1], f); f()
//// error RangeError
const f = () => JSON.parse("[1]", f); f()
//// error RangeError
const f = () => JSON.stringify({ a: 1 }, f); f()
//// error RangeError
const o = { get x() { return this.x } }; o.x
//// error RangeError
const o = { set x(v) { this.x = v } }; o.x = 1
//// error RangeError
const o = { toString() { return `${this}` } }; `${o}`
//// error RangeError
const o = { valueOf() { return +this } }; +o
//// error RangeError
const o = { [Symbol.toPrimitive]() { return this + 1 } }; o + 1
//// error RangeError
const o = { *[Symbol.iterator]() { yield* this } }; [...o]
//// error RangeError
const o = { [Symbol.iterator]() { return [...this] } }; const [x] = o
//// error RangeError
function* g() { yield* g() } [...g()]
//// error RangeError
async function f() { return await f() } await f()
//// error RangeError
let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); "x" in p
//// error RecursionError
let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); Object.keys(p)
//// error RangeError
let p = () => 1; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p()
//// completed
let p = []; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); Array.isArray(p)
//// error RangeError
let p = []; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p
//// completed
let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p instanceof Object
//// completed
let p = {}; for (let i = 0; i < 1e5; i++) p = Object.create(p); p.x ?? "none"
//// completed
let p = {}; for (let i = 0; i < 1e5; i++) p = Object.create(p); p instanceof Map
//// completed
let f = () => 1; for (let i = 0; i < 1e4; i++) { const g = f; f = () => g() } f()
//// completed
let p = Promise.resolve(0); for (let i = 0; i < 1e5; i++) p = p.then((x) => x + 1); await p
//// completed
let p = Promise.resolve(0); for (let i = 0; i < 1e4; i++) { const q = p; p = new Promise((r) => r(q)) } await p
//// completed
let t = 1; for (let i = 0; i < 1e5; i++) { const q = t; t = { then(r) { r(q) } } } await t
//// completed
new RegExp("(?:".repeat(1e4) + "a" + ")".repeat(1e4)).test("a")
//// completed
eval("1" + "+1".repeat(1e5))
//// error RecursionError
eval("a".split("").join() + "=1;" + "[".repeat(1e4) + "]".repeat(1e4))
//// completed
eval("!".repeat(1e5) + "1")
//// error RecursionError
eval("(()=>".repeat(3e4) + "1" + ")".repeat(3e4))
//// error RangeError
eval("{".repeat(1e5) + "}".repeat(1e5))
//// error RangeError
eval("if(1)".repeat(1e5) + "1")
//// error RecursionError
eval("`${".repeat(1e4) + "1" + "}`".repeat(1e4))
//// completed
new Function("return " + "-".repeat(0) + "typeof ".repeat(1e5) + "1")()
//// error ReferenceError
eval("a?.b".replace("b", "b".repeat(1)) + ".c".repeat(1e5))
//// error SyntaxError
eval("let [" + "[".repeat(2e4) + "x" + "]".repeat(2e4) + "] = []")
//// error RangeError
class A { constructor() { new this.constructor() } } new A()
//// error RangeError
const o = {}; Object.defineProperty(o, "a", { get() { return structuredClone(o) }, enumerable: true }); structuredClone(o)
//// error RangeError
const h = { get: (t, k, r) => r[k] }; const p = new Proxy({}, h); p.x
//// error RangeError
const p = new Proxy({}, { ownKeys(t) { return Reflect.ownKeys(p) } }); Object.keys(p)
//// error RangeError
Reflect.apply(function f() { return Reflect.apply(f, null, []) }, null, [])
//// error RangeError
Math.max(...Array(2e6).fill(1))
//// error RangeError
String.fromCharCode(...Array(1e6).fill(65)).length
//// error RangeError
Math.max.apply(null, Array(1e6).fill(1))
//// error RangeError
[].concat(...Array(3e5).fill([1])).length
//// error RangeError
const a = []; a.push(...Array(1e6)); a.length
//// error Error
let e = new Error("x"); for (let i = 0; i < 1e5; i++) e = new Error("y", { cause: e }); throw e
//// error AggregateError
let e = new AggregateError([]); for (let i = 0; i < 1e5; i++) e = new AggregateError([e]); throw e
//// completed
let e = new Error("x"); for (let i = 0; i < 1e4; i++) e = new Error("y", { cause: e }); console.log(e); 1
//// error RangeError
setTimeout(function f() { f() }, 1); await new Promise((r) => setTimeout(r, 20))
//// completed
Promise.resolve().then(function f() { f() }); await new Promise((r) => setTimeout(r, 20)); 5
//// error RangeError
const e = new (require("events"))(); e.on("x", () => e.emit("x")); e.emit("x")
//// error RangeError
const t = new EventTarget(); t.addEventListener("x", () => t.dispatchEvent(new Event("x"))); t.dispatchEvent(new Event("x"))
