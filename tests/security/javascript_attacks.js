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
