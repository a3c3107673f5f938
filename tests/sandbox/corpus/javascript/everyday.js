//// group_by_reduce
const orders = [{ c: "a", n: 2 }, { c: "b", n: 3 }, { c: "a", n: 5 }];
const totals = orders.reduce((sum, { c, n }) => ({ ...sum, [c]: (sum[c] ?? 0) + n }), {});
//=
totals
//// object_group_by
const people = [{ n: "x", a: 1 }, { n: "y", a: 20 }];
const grouped = Object.groupBy(people, (p) => p.a > 10 ? "old" : "young");
//=
[Object.keys(grouped), Object.fromEntries(Map.groupBy([1, 2, 3], (n) => n % 2 ? "odd" : "even"))]
//// word_count
const text = "the cat the dog The end";
const counts = new Map();
for (const word of text.toLowerCase().match(/\w+/g)) counts.set(word, (counts.get(word) ?? 0) + 1);
//=
[...counts].sort(([a, m], [b, n]) => n - m || a.localeCompare(b))
//// fibonacci_memo
const memo = {};
const fib = (n) => n < 2 ? BigInt(n) : memo[n] ??= fib(n - 1) + fib(n - 2);
//=
fib(90).toString()
//// primes
const sieve = (n) => { const is = Array(n + 1).fill(true); for (let i = 2; i * i <= n; i++) if (is[i]) for (let j = i * i; j <= n; j += i) is[j] = false; return is.flatMap((p, i) => p && i > 1 ? [i] : []); };
//=
sieve(50)
//// binary_search
const find = (xs, x) => { let lo = 0, hi = xs.length - 1; while (lo <= hi) { const mid = (lo + hi) >> 1; if (xs[mid] === x) return mid; xs[mid] < x ? lo = mid + 1 : hi = mid - 1; } return -1; };
//=
[find([1, 3, 5, 7], 5), find([1, 3], 4)]
//// quicksort
const sort = ([h, ...t]) => h === undefined ? [] : [...sort(t.filter((x) => x < h)), h, ...sort(t.filter((x) => x >= h))];
//=
sort([3, 1, 4, 1, 5, 9, 2, 6])
//// class_hierarchy
class Shape { constructor(name) { this.name = name; } area() { return 0; } toString() { return `${this.name}: ${this.area().toFixed(2)}`; } }
class Circle extends Shape { #r; constructor(r) { super("circle"); this.#r = r; } area() { return Math.PI * this.#r ** 2; } static unit() { return new Circle(1); } get r() { return this.#r; } set r(v) { if (v < 0) throw new RangeError("negative"); this.#r = v; } }
const c = Circle.unit(); c.r = 2;
//=
[String(c), c instanceof Shape, c.r]
//// mixins
const Serializable = (Base) => class extends Base { json() { return JSON.stringify(this); } };
const Named = (Base) => class extends Base { named(n) { this.n = n; return this; } };
class Thing extends Serializable(Named(Object)) {}
//=
new Thing().named("q").json()
//// generators
function* range(a, b, step = 1) { for (let i = a; i < b; i += step) yield i; }
function* take(n, it) { for (const x of it) { if (n-- <= 0) return; yield x; } }
function* naturals() { let n = 0; while (true) yield n++; }
//=
[[...range(0, 10, 3)], [...take(4, naturals())], Math.max(...range(1, 5))]
//// async_pipeline
const delay = (ms, v) => new Promise((r) => setTimeout(() => r(v), ms));
const out = [];
for await (const v of (async function* () { for (let i = 0; i < 3; i++) yield await delay(1, i * i); })()) out.push(v);
//=
out
//// promise_combinators
const ok = Promise.resolve(1), bad = Promise.reject(new Error("no"));
const settled = await Promise.allSettled([ok, bad]);
const any = await Promise.any([bad, ok]);
const race = await Promise.race([new Promise((r) => setTimeout(r, 50, "slow")), Promise.resolve("fast")]);
//=
[settled.map((s) => s.status), settled[1].reason.message, any, race]
//// aggregate_error
let caught;
try { await Promise.any([Promise.reject(new Error("a")), Promise.reject(new TypeError("b"))]); } catch (e) { caught = e; }
//=
[caught.name, caught.errors.map((e) => e.name + e.message)]
//// event_loop_order
const seen = [];
setTimeout(() => seen.push("timeout"), 0);
Promise.resolve().then(() => seen.push("micro"));
queueMicrotask(() => seen.push("queued"));
process.nextTick;
seen.push("sync");
await new Promise((r) => setTimeout(r, 10));
//=
seen
//// retry_backoff
let tries = 0;
const flaky = async () => { if (++tries < 3) throw new Error("try " + tries); return "done"; };
const retry = async (f, n) => { for (let i = 0; ; i++) try { return await f(); } catch (e) { if (i >= n) throw e; await new Promise((r) => setTimeout(r, 2 ** i)); } };
//=
[await retry(flaky, 5), tries]
//// concurrency_limit
const limit = async (n, jobs) => { const out = []; let i = 0; await Promise.all(Array.from({ length: n }, async () => { while (i < jobs.length) { const k = i++; out[k] = await jobs[k](); } })); return out; };
let now = 0, most = 0;
const jobs = [1, 2, 3, 4, 5].map((v) => async () => { most = Math.max(most, ++now); await new Promise((r) => setTimeout(r, 2)); now--; return v * 2; });
//=
[await limit(2, jobs), most]
//// debounce_timers
let calls = 0, timer;
const debounced = () => { clearTimeout(timer); timer = setTimeout(() => calls++, 5); };
debounced(); debounced(); debounced();
await new Promise((r) => setTimeout(r, 30));
//=
calls
//// interval_count
let n = 0;
await new Promise((resolve) => { const id = setInterval(() => { if (++n === 3) { clearInterval(id); resolve(); } }, 1); });
//=
n
//// destructuring
const { a, b: { c = 5, ...rest } = {}, ...others } = { a: 1, b: { d: 2, e: 3 }, f: 4 };
const [x, , y = 9, ...zs] = [1, 2, undefined, 4, 5];
const swap = ([p, q]) => [q, p];
//=
[a, c, rest, others, x, y, zs, swap([1, 2])]
//// spread_rest
const f = (first, ...more) => [first, more.length];
//=
[f(1, 2, 3), { ...{ a: 1 }, ...["h"], ...null, b: 2 }, [..."né😀"], Math.min(...[3, 1])]
//// optional_chaining
const o = { a: { b: null, f() { return this.x; }, x: 7 } };
//=
[o?.a?.b?.c, o.z?.(), o.a.f?.(), o.a?.["x"], o.b ?? "none", 0 || "or", 0 ?? "nullish", delete o?.q]
//// template_tag
const tag = (s, ...v) => s.raw.map((t, i) => t + (v[i] ?? "")).join("|");
//=
[tag`a${1}b${2}c\n`, `multi
line ${[1, 2].map((n) => `<${n}>`).join("")}`]
//// regex_named_groups
const log = "2024-03-05 ERROR disk full\n2024-03-06 INFO ok";
const rows = [...log.matchAll(/^(?<date>\d{4}-\d\d-\d\d) (?<level>\w+) (?<msg>.*)$/gm)].map((m) => ({ ...m.groups, at: m.index }));
//=
rows
//// regex_replace_function
const camel = (s) => s.replace(/[-_](\w)/g, (_, c) => c.toUpperCase());
const snake = (s) => s.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase());
//=
[camel("my-long_name"), snake("myLongName"), "2024-01-02".replace(/(\d+)-(\d+)-(\d+)/, "$3/$2/$1"), "a.b.c".split(/\.|b/), /(?<=\$)\d+/.exec("$42")[0], "aXbX".replaceAll("X", "$$"), /\p{Lu}/u.test("É"), "x".match(/y/)]
//// regex_sticky_flags
const re = /a(b)?/gd; const all = []; let m;
while ((m = re.exec("ab a ab"))) all.push([m[0], m.index, re.lastIndex, m.indices[0]]);
//=
[all, /./s.test("\n"), /A/i.flags, new RegExp("a/b").source]
//// dates_utc
const d = new Date(Date.UTC(2024, 1, 29, 12, 30, 15, 500));
const next = new Date(d); next.setUTCFullYear(2025);
//=
[d.toISOString(), d.getUTCDay(), next.toISOString().slice(0, 10), new Date("2024-03-10T00:00:00Z") - new Date("2024-03-09T00:00:00Z"), JSON.stringify({ d }), new Date(NaN).getTime(), Date.parse("2024-01-01"), new Date("2024-02-30").getTime() > 0, new Date(0).toUTCString()]
//// date_math
const days = (a, b) => Math.round((new Date(b) - new Date(a)) / 864e5);
const addMonths = (iso, n) => { const d = new Date(iso + "T00:00:00Z"); d.setUTCMonth(d.getUTCMonth() + n); return d.toISOString().slice(0, 10); };
//=
[days("2024-01-01", "2024-12-31"), addMonths("2024-01-31", 1), addMonths("2023-11-15", 3)]
//// locale_formats
const d = new Date(Date.UTC(2024, 2, 5, 15, 4, 9));
//=
[(1234567.891).toLocaleString(), (0.256).toLocaleString("en-US", { style: "percent" }), (1234.5).toLocaleString("en-US", { style: "currency", currency: "USD" }), (5).toLocaleString("en-US", { minimumFractionDigits: 2 }), d.toLocaleDateString("en-US", { timeZone: "UTC" }), d.toLocaleDateString("en-US", { year: "numeric", month: "long", day: "numeric", timeZone: "UTC" }), d.toLocaleDateString("en-US", { weekday: "short", month: "short", day: "numeric", timeZone: "UTC" }), (-1234).toLocaleString(), (1e21).toLocaleString(), 123456789012345678901234567890n.toLocaleString()]
//// locale_compare
const names = ["banana", "Apple", "cherry", "apple", "Éclair", "zoo", "file10", "file9", "_x", "1a"];
//=
[[...names].sort((a, b) => a.localeCompare(b)), ["file10", "file9"].sort((a, b) => a.localeCompare(b, undefined, { numeric: true })), "a".localeCompare("A"), "a".localeCompare("á", "en", { sensitivity: "base" }), ["b", "a"].sort(), "résumé".localeCompare("resume")]
//// json_roundtrip
const data = { s: "q\"\\\n\u2028", n: -0, f: 1e21, d: 1.5e-7, u: undefined, nan: NaN, a: [undefined, () => 1, Symbol("x")], nested: { t: true, z: null } };
//=
[JSON.stringify(data), JSON.stringify(data, null, 2).length, JSON.parse('{"a":[1,{"b":2}]}', (k, v) => typeof v === "number" ? v + 1 : v), JSON.stringify({ a: 1, b: 2 }, ["a"]), JSON.stringify({ toJSON() { return "x"; } })]
//// json_errors
const tries = [];
for (const t of ["{bad", "[1,]", "", "nul", '{"a":1}x']) try { JSON.parse(t); tries.push("ok"); } catch (e) { tries.push(e.name); }
let circular = {}; circular.c = circular;
try { JSON.stringify(circular); } catch (e) { tries.push(e.name); }
try { JSON.stringify({ a: 1n }); } catch (e) { tries.push(e.name); }
//=
tries
//// number_formats
//=
[(255).toString(16), (0.1 + 0.2).toFixed(2), (1234.5678).toPrecision(6), (1e-7).toString(), parseInt("42px"), parseFloat("3.14abc"), Number(""), Number("0x1f"), Number("1_0"), +[], +{}, 0.1 + 0.2, 5 % -3, -5 % 3, 2 ** 53 + 1, Number.MAX_SAFE_INTEGER, 1 / 0, (25).toString(2).padStart(8, "0"), Math.round(-0.5), Math.round(2.5), (1.005).toFixed(2), 1e300 * 1e10, Number.EPSILON > 0, (12345.6789).toExponential(2)]
//// bitwise
//=
[5 & 3, 5 | 3, 5 ^ 3, ~5, 1 << 31, -1 >>> 0, -1 >> 1, 0xff, 0b101, 0o17, Math.clz32(1), Math.imul(3, 4), 1n << 70n, BigInt.asUintN(8, 257n)]
//// bigint
const fact = (n) => n <= 1n ? 1n : n * fact(n - 1n);
//=
[fact(25n), 7n / 2n, -7n % 3n, 2n ** 64n, typeof 1n, 1n < 2, 2n == 2, BigInt("0xff"), BigInt(2 ** 53), 10n > 9]
//// math
//=
[Math.hypot(3, 4), Math.sign(-3), Math.trunc(-4.7), Math.cbrt(27), Math.log2(8), Math.fround(5.5), Math.max(), Math.atan2(1, 1).toFixed(4), Math.abs(-3), Math.floor(-1.5), Math.sqrt(2).toFixed(5), Math.log10(1000), Math.expm1(0)]
//// strings
const s = "  Hello, Wörld! 😀 ";
//=
[s.trim(), s.length, s.at(-1), s.codePointAt(s.indexOf("😀")), "abc".padEnd(5, "-"), "a-b-c".split("-", 2), "abc".substring(2, 0), "abcdef".slice(-3, -1), "abc".includes("b"), "x".repeat(3), "aXb".toLowerCase(), [..."añ"].reverse().join(""), "a\tb".split("\t"), "abc".charAt(1), "é".normalize("NFD").length, "ab".localeCompare("ac"), "%E4".length, encodeURIComponent("a b&ü"), decodeURIComponent("%C3%BC"), "abc" < "abd", "b".concat("c", 1), "abcabc".lastIndexOf("b"), "z".isWellFormed(), "tést".toUpperCase(), "a,b,,c".split(",")]
//// array_methods
const xs = [5, 1, 4];
//=
[xs.toSorted(), xs.toReversed(), xs.with(1, 9), xs.toSpliced(0, 1), xs.at(-1), xs.findLast((x) => x > 3), xs.findLastIndex((x) => x === 5), [1, [2, [3, [4]]]].flat(Infinity), xs.flatMap((x) => [x, x]), xs.includes(NaN), [NaN].includes(NaN), xs.indexOf(4), xs.fill(0, 1, 2), Array.from("abc", (c) => c + c), Array.of(7), [3, 2, 1].sort(), [10, 9, 1].sort(), ["b", undefined, "a"].sort(), xs.copyWithin(0, 1), [1, 2, 3].reduceRight((a, b) => a + "-" + b), Array.isArray([]), [..."ab"].entries().next().value, [1, 2, 3, 4].lastIndexOf(3), [,1].length, [1,2,3].some((x) => x > 2), [].every((x) => false)]
//// array_splice_slice
const xs = [1, 2, 3, 4, 5];
const gone = xs.splice(1, 2, "a", "b", "c");
//=
[xs, gone, xs.slice(-2), xs.slice(1, 3), xs.push(9), xs.unshift(0), xs.pop(), xs.shift(), xs.reverse(), xs.concat([1], 2, [[3]]), xs.join("")]
//// chunk_zip_unique
const chunk = (xs, n) => xs.length ? [xs.slice(0, n), ...chunk(xs.slice(n), n)] : [];
const zip = (...xss) => xss[0].map((_, i) => xss.map((xs) => xs[i]));
//=
[chunk([1, 2, 3, 4, 5], 2), zip([1, 2], ["a", "b"]), [...new Set([1, 1, 2])], Object.entries({ a: 1 }).flat()]
//// map_set_operations
const a = new Set([1, 2, 3]), b = new Set([2, 3, 4]);
const m = new Map(Object.entries({ x: 1, y: 2 }));
m.delete("x"); m.set(NaN, "n").set({}, "o");
//=
[[...a.union(b)], [...a.intersection(b)], [...a.difference(b)], [...a.symmetricDifference(b)], a.isSubsetOf(b), m.size, m.get(NaN), [...m.keys()].length, m.has("x")]
//// weak_collections
const w = new WeakMap(), k = {}; w.set(k, 1);
const r = new WeakRef(k), s = new WeakSet([k]);
//=
[w.get(k), w.has({}), r.deref() === k, s.has(k)]
//// symbols_and_iterators
class Tree { constructor(v, l, r) { Object.assign(this, { v, l, r }); } *[Symbol.iterator]() { if (this.l) yield* this.l; yield this.v; if (this.r) yield* this.r; } get [Symbol.toStringTag]() { return "Tree"; } [Symbol.toPrimitive](hint) { return hint === "number" ? 42 : "tree"; } }
const t = new Tree(2, new Tree(1), new Tree(3));
//=
[[...t], String(Object.prototype.toString.call(t)), +t, `${t}`, Symbol("d").description, Symbol.for("k") === Symbol.for("k")]
//// iterator_helpers
const it = [1, 2, 3, 4, 5, 6].values().filter((x) => x % 2).map((x) => x * 10).take(2);
//=
[[...it], [1, 2].values().some((x) => x > 1), new Set([3]).values().toArray(), [1, 2, 3].values().drop(1).reduce((a, b) => a + b), Iterator.from([9]).next().value]
//// proxy_reflect
const log = [];
const p = new Proxy({ a: 1 }, { get(t, k, r) { log.push(String(k)); return Reflect.get(t, k, r) ?? "dflt"; }, has: (t, k) => k.startsWith("a"), set(t, k, v) { t[k] = v * 2; return true; }, deleteProperty(t, k) { log.push("del " + k); return delete t[k]; } });
p.b = 4; delete p.a;
//=
[p.b, p.zzz, "abc" in p, "x" in p, log, Reflect.ownKeys(p)]
//// getters_setters_define
const o = { _v: 1, get v() { return this._v; }, set v(x) { this._v = x * 2; } };
o.v = 5;
const p = Object.defineProperty({}, "hidden", { value: 1, enumerable: false });
//=
[o.v, Object.keys(o), JSON.stringify(p), p.hidden, Object.getOwnPropertyNames(p), Object.isFrozen(Object.freeze({})), Object.entries(Object.getOwnPropertyDescriptor(o, "v")).map(([k, v]) => k + typeof v)]
//// closures
const counter = () => { let n = 0; return { inc: () => ++n, get n() { return n; } }; };
const c = counter(); c.inc(); c.inc();
const fs2 = []; for (let i = 0; i < 3; i++) fs2.push(() => i);
var vs = []; for (var j = 0; j < 3; j++) vs.push(() => j);
//=
[c.n, fs2.map((f) => f()), vs.map((f) => f())]
//// currying_compose
const curry = (f) => function g(...a) { return a.length >= f.length ? f(...a) : (...b) => g(...a, ...b); };
const compose = (...fs) => (x) => fs.reduceRight((v, f) => f(v), x);
//=
[curry((a, b, c) => a + b + c)(1)(2)(3), compose((x) => x + 1, (x) => x * 2)(5), ((a, b = a * 2, ...c) => [a, b, c])(1), (function () { return arguments.length; })(1, 2), ((a, b) => {}).length]
//// error_handling
class HttpError extends Error { constructor(status, msg, options) { super(msg, options); this.name = "HttpError"; this.status = status; } }
const log = [];
try { try { null.x; } catch (e) { throw new HttpError(500, "wrapped", { cause: e }); } finally { log.push("finally"); } } catch (e) { log.push(e.name, e.message, e.status, e instanceof HttpError, e instanceof Error, e.cause instanceof TypeError, String(e), Object.prototype.toString.call(e)); }
//=
log
//// finally_return
const f = () => { try { return "try"; } finally { f.ran = true; } };
const g = () => { for (const x of [1, 2, 3]) { try { if (x === 2) continue; if (x === 3) break; } finally { (g.seen ??= []).push(x); } } return g.seen; };
//=
[f(), f.ran, g()]
//// labels_switch
const kind = (x) => { switch (typeof x) { case "number": case "bigint": return "num"; case "string": return "str"; default: return "other"; } };
let found; outer: for (let i = 2; i < 10; i++) { for (let j = 2; j < i; j++) if (i % j === 0) continue outer; if (i > 5) { found = i; break outer; } }
//=
[kind(1), kind("a"), kind(null), found, void 0, typeof undefinedThing, (1, 2), ((x) => { do { x--; } while (x > 3); return x; })(9)]
//// bank_account
class Account { static #next = 1; #balance = 0; id = Account.#next++; history = []; deposit(n) { if (!(n > 0)) throw new RangeError("amount must be positive"); this.#balance += n; this.history.push({ type: "deposit", n }); return this; } withdraw(n) { if (n > this.#balance) throw new Error(`insufficient funds: ${this.#balance} < ${n}`); this.#balance -= n; return this; } get balance() { return this.#balance; } static { this.bank = "B"; } static isAccount(x) { return #balance in x; } }
const a = new Account().deposit(100).withdraw(30); let err; try { a.withdraw(500); } catch (e) { err = e.message; }
//=
[a.balance, err, a.id, Account.bank, Account.isAccount({}), Account.isAccount(a), a]
//// linked_list
class Node { constructor(v, next = null) { this.v = v; this.next = next; } }
class List { head = null; add(v) { this.head = new Node(v, this.head); return this; } reverse() { let p = null, c = this.head; while (c) [c.next, p, c] = [p, c, c.next]; this.head = p; return this; } *[Symbol.iterator]() { for (let n = this.head; n; n = n.next) yield n.v; } }
//=
[[...new List().add(1).add(2).add(3)], [...new List().add(1).add(2).reverse()]]
//// lru_cache
class LRU { constructor(n) { this.n = n; this.m = new Map(); } get(k) { if (!this.m.has(k)) return; const v = this.m.get(k); this.m.delete(k); this.m.set(k, v); return v; } set(k, v) { this.m.delete(k); this.m.set(k, v); if (this.m.size > this.n) this.m.delete(this.m.keys().next().value); } }
const c = new LRU(2); c.set("a", 1); c.set("b", 2); c.get("a"); c.set("c", 3);
//=
[c.get("b"), c.get("a"), [...c.m.keys()]]
//// graph_dijkstra
const g = { a: { b: 1, c: 4 }, b: { c: 2, d: 5 }, c: { d: 1 }, d: {} };
const dist = Object.fromEntries(Object.keys(g).map((k) => [k, Infinity])); dist.a = 0; const todo = new Set(Object.keys(g));
while (todo.size) { const u = [...todo].reduce((m, v) => dist[v] < dist[m] ? v : m); todo.delete(u); for (const [v, w] of Object.entries(g[u])) dist[v] = Math.min(dist[v], dist[u] + w); }
//=
dist
//// matrix
const mul = (a, b) => a.map((r) => b[0].map((_, j) => r.reduce((s, x, k) => s + x * b[k][j], 0)));
const t = (m) => m[0].map((_, i) => m.map((r) => r[i]));
//=
[mul([[1, 2], [3, 4]], [[5, 6], [7, 8]]), t([[1, 2, 3], [4, 5, 6]])]
//// csv_parse
const csv = `name,age,city\n"Doe, John",42,"New ""York"""\nJane,,LA`;
const parse = (text) => { const rows = [[]]; let cell = "", q = false; for (let i = 0; i < text.length; i++) { const c = text[i]; if (q) { if (c === '"' && text[i + 1] === '"') { cell += '"'; i++; } else if (c === '"') q = false; else cell += c; } else if (c === '"') q = true; else if (c === ",") { rows.at(-1).push(cell); cell = ""; } else if (c === "\n") { rows.at(-1).push(cell); rows.push([]); cell = ""; } else cell += c; } rows.at(-1).push(cell); return rows; };
const [head, ...body] = parse(csv);
//=
body.map((r) => Object.fromEntries(r.map((v, i) => [head[i], v])))
//// levenshtein
const lev = (a, b) => { const d = Array.from({ length: a.length + 1 }, (_, i) => [i, ...Array(b.length).fill(0)]); for (let j = 1; j <= b.length; j++) d[0][j] = j; for (let i = 1; i <= a.length; i++) for (let j = 1; j <= b.length; j++) d[i][j] = Math.min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] !== b[j - 1])); return d[a.length][b.length]; };
//=
[lev("kitten", "sitting"), lev("", "abc")]
//// deep_clone_merge
const merge = (a, b) => Object.entries(b).reduce((o, [k, v]) => ({ ...o, [k]: v && typeof v === "object" && !Array.isArray(v) ? merge(o[k] ?? {}, v) : v }), a);
const src = { d: new Date(0), m: new Map([["k", { n: 1 }]]), s: new Set([1]), re: /x/gi, a: [1, [2]], u: undefined }; src.self = src;
const copy = structuredClone(src); copy.a[1].push(3);
//=
[merge({ a: { b: 1 }, l: [1] }, { a: { c: 2 }, l: [2] }), copy.self === copy, copy.d instanceof Date, copy.m.get("k").n, src.a, copy.a, copy.re.flags]
//// structured_clone_errors
const names = [];
for (const v of [() => 1, Symbol("x"), { f() {} }]) try { structuredClone(v); names.push("ok"); } catch (e) { names.push(e.name); }
//=
names
//// typed_arrays
const buf = new ArrayBuffer(8), dv = new DataView(buf); dv.setInt16(0, -2); dv.setFloat32(4, 1.5, true);
const u8 = new Uint8Array(buf);
//=
[Array.from(u8), dv.getInt16(0), dv.getFloat32(4, true), Uint8ClampedArray.of(300, -5), Float64Array.from([1.5, 2]).map((x) => x * 2), new Int16Array([1, 2, 3]).subarray(1).length, new Uint8Array([3, 1, 2]).toSorted(), buf.slice(0, 2).byteLength]
//// text_encoding
const bytes = new TextEncoder().encode("héllo €😀");
//=
[bytes.length, new TextDecoder().decode(bytes), new TextDecoder("utf-16le").decode(new Uint8Array([104, 0, 105, 0])), new TextDecoder().decode(new Uint8Array([0xff, 65])), btoa("hello"), atob("aGVsbG8="), encodeURI("a b/ü?x=1"), escape("ü"), unescape("%FC")]
//// url_parsing
const u = new URL("https://user:pa%20ss@example.com:8080/a/b/../c?x=1&y=a%20b&x=2#frag");
u.searchParams.append("z", "é&"); u.searchParams.delete("y");
//=
[u.href, u.host, u.origin, u.pathname, u.search, u.hash, u.username, u.password, u.searchParams.getAll("x"), new URL("../q?r#s", "http://h/a/b/c").href, new URL("//other/x", "https://h").href, URL.canParse("nope"), String(new URLSearchParams({ a: "1 2", b: "ü" })), [...new URLSearchParams("?a=1&b=%20+c")], new URL("HTTP://EXAMPLE.com:80/%7Efoo/ü").href, new URL("mailto:a@b.c").pathname, new URL("?q=1", "https://h/p?z").href]
//// buffers
//=
[Buffer.from("héllo").toString("base64"), Buffer.from("aGk=", "base64").toString(), Buffer.from("hi").toString("hex"), Buffer.from("6869", "hex").toString("utf8"), Buffer.concat([Buffer.from("a"), Buffer.from("b")]).toString(), Buffer.byteLength("é"), Buffer.alloc(3).length, Buffer.isBuffer(Buffer.from("")), Buffer.from([1, 2, 3]).readUInt16BE(1), Buffer.from("abc").subarray(1).toString(), Buffer.from("a").equals(Buffer.from("a")), Buffer.from("ü", "latin1").length, JSON.stringify(Buffer.from("a"))]
//// digests
const { createHash, createHmac } = require("crypto");
//=
[createHash("sha256").update("abc").digest("hex"), createHash("md5").update("").digest("hex"), createHash("sha1").update("a".repeat(200)).digest("base64"), createHmac("sha256", "key").update("msg").digest("hex"), createHash("sha256").update("é").update(Buffer.from([0])).digest("hex").length]
//// events_module
const EventEmitter = require("events"); class Bus extends EventEmitter {}
const bus = new Bus(), seen = []; bus.on("x", (v) => seen.push(v)); bus.once("x", () => seen.push("once")); bus.emit("x", 1); bus.emit("x", 2); bus.off("x", () => {}); 
//=
[seen, bus.listenerCount("x"), bus.emit("none"), (() => { try { bus.emit("error", new Error("boom")); } catch (e) { return e.message; } })()]
//// path_module
const path = require("path");
//=
[path.join("/a", "..", "b", "./c.txt"), path.basename("/x/y.tar.gz", ".gz"), path.extname("a.b.c"), path.dirname("/a/b/c"), path.normalize("a//b/../c/"), path.parse("/home/u/f.txt"), path.isAbsolute("a"), path.relative("/a/b", "/a/c/d"), path.resolve("/x", "y", "../z"), path.extname(".bashrc"), path.format({ dir: "/q", base: "w.e" })]
//// util_module
const util = require("util");
//=
[util.format("%s %d %j %%", "a", 1.5, { x: 1 }), util.isDeepStrictEqual({ a: [1, new Map([[1, 2]])] }, { a: [1, new Map([[1, 2]])] }), util.inspect({ a: { b: { c: { d: 1 } } } }), util.inspect({ a: { b: { c: { d: 1 } } } }, { depth: 0 }), util.types.isDate(new Date()), await util.promisify((v, cb) => cb(null, v + 1))(1)]
//// assert_module
const assert = require("assert"); const out = [];
for (const f of [() => assert.strictEqual(1, 2), () => assert.deepStrictEqual({ a: [1] }, { a: [1] }), () => assert(0, "zero"), () => assert.throws(() => { throw new TypeError("t"); }, TypeError), () => assert.equal(1, "1"), () => assert.notStrictEqual(1, 1)]) try { f(); out.push("ok"); } catch (e) { out.push(e.name + (e.code ?? "")); }
//=
out
//// files
const fs = require("fs");
fs.mkdirSync("d-corpus/e", { recursive: true }); fs.writeFileSync("d-corpus/a.txt", "one\n"); fs.appendFileSync("d-corpus/a.txt", "two\n"); await fs.promises.writeFile("d-corpus/e/b.json", JSON.stringify({ a: 1 }));
const listed = fs.readdirSync("d-corpus"), stat = fs.statSync("d-corpus/a.txt"); let code; try { fs.readFileSync("d-corpus/none"); } catch (e) { code = [e.code, e.message]; }
fs.renameSync("d-corpus/a.txt", "d-corpus/c.txt"); const text = fs.readFileSync("d-corpus/c.txt", "utf8"); const parsed = JSON.parse(await fs.promises.readFile("d-corpus/e/b.json", "utf8")); const there = fs.existsSync("d-corpus/a.txt"); fs.rmSync("d-corpus", { recursive: true });
//=
[listed, stat.size, stat.isFile(), code, text.split("\n").length, parsed, there, fs.existsSync("d-corpus")]
//// console_output
console.log("plain", 1, true, null, undefined, -0, 5n, Symbol("s"), [1, "two", [3]], { a: 1, "b-c": "x", d: { e: { f: { g: 1 } } } });
console.log([], {}, [undefined, , 3], new Map([["k", { v: 1 }]]), new Set(["a"]), new Date(0), /re/g, () => {}, function named() {}, class Foo {}, new (class Bar { constructor() { this.x = 1; } })());
console.log(Array.from({ length: 30 }, (_, i) => i * i));
console.log({ long: "x".repeat(40), another: "y".repeat(40), list: [1, 2, 3] });
console.log("%s has %d items costing %f (%i) %O %j", "cart", 3, 9.99, 4.7, [1], { a: 1 }, "extra");
console.log("it's", ["it's", 'say "hi"'], "multi\nline", ["a\nb"]);
console.log(new Uint8Array([1, 2]), new ArrayBuffer(2), Object.create(null), [1.5, -2, NaN], [[[[1]]]], { f() {}, get g() { return 1; }, set g(v) {}, [Symbol("k")]: 1 });
console.group("G"); console.log("inner\nlines"); console.groupEnd(); console.info("info"); console.log();
console.log(["apple", "banana", "cherry", "dragonfruit", "elderberry", "fig", "grape", "honeydew"]);
console.log(Buffer.from("hi"), [true, false], process.argv.length > 0, new Error("e").message, [new Date(0)], { d: new Date(0), n: null, u: undefined });
console.log([{ a: 1, b: 2 }, { a: 3, b: 4 }], new Map([[{ k: 1 }, [1, 2]]]), [["a", 1], ["b", 2]], "a".repeat(5), ["x".repeat(80)], Object.assign(() => {}, { p: 1 }));
//=
"printed"
//// console_table_count
console.table([{ a: 1, b: "x" }, { a: 2, c: true }]); console.table([[1, 2], [3, 4]]); console.count(); console.count("k"); console.count(); console.dir({ a: 1 });
//=
1
//// inventory_report
const items = [{ sku: "A1", qty: 5, price: 2.5 }, { sku: "B2", qty: 0, price: 10 }, { sku: "C3", qty: 12, price: 0.75 }];
const report = items.filter((i) => i.qty).map(({ sku, qty, price }) => `${sku.padEnd(5)}|${String(qty).padStart(4)}|${(qty * price).toFixed(2).padStart(8)}`).join("\n");
//=
[report, items.reduce((s, i) => s + i.qty * i.price, 0), Object.fromEntries(items.map((i) => [i.sku, i.qty > 0]))]
//// tokenizer_calculator
const calc = (s) => { const t = s.match(/\d+\.?\d*|[-+*/()]/g); let i = 0; const e = () => { let v = m(); while (t[i] === "+" || t[i] === "-") v = t[i++] === "+" ? v + m() : v - m(); return v; }; const m = () => { let v = a(); while (t[i] === "*" || t[i] === "/") v = t[i++] === "*" ? v * a() : v / a(); return v; }; const a = () => { if (t[i] === "(") { i++; const v = e(); i++; return v; } if (t[i] === "-") { i++; return -a(); } return +t[i++]; }; return e(); };
//=
[calc("1 + 2 * (3 - 4) / 2"), calc("-(2+3)*4"), calc("10/4")]
//// state_machine
const machine = { idle: { start: "running" }, running: { pause: "paused", stop: "idle" }, paused: { resume: "running", stop: "idle" } };
const step = (s, e) => machine[s]?.[e] ?? (() => { throw new Error(`no ${e} in ${s}`); })();
let bad; try { step("idle", "stop"); } catch (e) { bad = e.message; }
//=
[["start", "pause", "resume", "stop"].reduce((path, e) => [...path, step(path.at(-1), e)], ["idle"]), bad]
//// permutations_combinations
const perms = (xs) => xs.length < 2 ? [xs] : xs.flatMap((x, i) => perms(xs.toSpliced(i, 1)).map((p) => [x, ...p]));
const subsets = (xs) => xs.reduce((s, x) => [...s, ...s.map((t) => [...t, x])], [[]]);
//=
[perms([1, 2, 3]), subsets(["a", "b", "c"]).length]
//// observer_proxy_signals
const effects = []; const signal = (v) => { const subs = new Set(); return { get value() { if (signal.active) subs.add(signal.active); return v; }, set value(n) { v = n; subs.forEach((f) => f()); } }; };
const effect = (f) => { signal.active = f; f(); signal.active = null; };
const n = signal(1); effect(() => effects.push(n.value * 2)); n.value = 5; n.value = 7;
//=
effects
//// roman_luhn_caesar
const roman = (n) => Object.entries({ M: 1000, CM: 900, D: 500, CD: 400, C: 100, XC: 90, L: 50, XL: 40, X: 10, IX: 9, V: 5, IV: 4, I: 1 }).reduce((s, [k, v]) => { while (n >= v) { s += k; n -= v; } return s; }, "");
const luhn = (s) => [...s].reverse().reduce((t, c, i) => t + (i % 2 ? (c * 2 > 9 ? c * 2 - 9 : c * 2) : +c), 0) % 10 === 0;
const caesar = (s, k) => s.replace(/[a-z]/gi, (c) => String.fromCharCode((c.charCodeAt(0) - (c < "a" ? 65 : 97) + k) % 26 + (c < "a" ? 65 : 97)));
//=
[roman(1994), luhn("4539578763621486"), caesar("Hello, World", 3)]
//// deep_recursion
const depth = (n) => n === 0 ? 0 : 1 + depth(n - 1);
let over; try { (function f() { f(); })(); } catch (e) { over = e instanceof RangeError; }
//=
[depth(9000), over]
//// abort_signals
const c = new AbortController(); const seen = []; c.signal.addEventListener("abort", () => seen.push(c.signal.reason.name)); c.abort(); c.abort();
const work = (signal) => new Promise((res, rej) => { const t = setTimeout(res, 1000, "done"); signal.addEventListener("abort", () => { clearTimeout(t); rej(signal.reason); }); });
let why; try { await work(AbortSignal.timeout(5)); } catch (e) { why = e.name; }
//=
[seen, c.signal.aborted, why]
//// dynamic_keys_computed
const key = "k", o = { [key + 1]: 1, [`${key}2`]: 2, ["f"]() { return key; }, async g() { return 1; }, *h() { yield 2; }, 3: "n", "a b": 4 };
//=
[Object.keys(o), o.f(), await o.g(), [...o.h()], "k1" in o, Object.hasOwn(o, "zz"), delete o.k1, Object.keys(o).length, Object.is(NaN, NaN)]
//// getter_inheritance_static
class A { static create() { return new this(); } who() { return "A"; } get tag() { return "[" + this.who() + "]"; } }
class B extends A { who() { return super.who() + "B"; } static { B.made = B.create().tag; } }
//=
[B.made, Object.getPrototypeOf(B) === A, new B().constructor.name, B.name, A.prototype.isPrototypeOf(new B()), typeof A]
//// titles
const words = "the quick brown fox jumps".split(" ");
//=
[words.map(w => w[0].toUpperCase() + w.slice(1)).join(" "), words.at(-1), words.findLast(w => w.length === 5), words.join("").replaceAll("o", "0")]
//// dates_by_groups

//=
[..."2024-01-15, 2023-12-31".matchAll(/(?<y>\d{4})-(?<m>\d\d)-(?<d>\d\d)/g)].map(({groups: {y, m, d}}) => `${d}.${m}.${y}`)
//// sticky_and_split
const re = /\d/y; re.lastIndex = 2;
//=
[re.test("ab1"), re.lastIndex, re.test("ab1"), "a1b2".split(/(\d)/), "x".padStart(3, "ab"), "abc".localeCompare("abd")]
//// date_utc
const d = new Date(Date.UTC(2024, 1, 29, 12, 30, 15, 123));
//=
[d.toISOString(), d.getUTCDay(), new Date("2024-03-10T10:00:00+02:00").toISOString(), new Date(2024, 0, 31).getMonth(), new Date(NaN).getTime(), d.toJSON(), Date.parse("2024-02-30")]
//// date_text
const d = new Date("2024-05-06T07:08:09Z");
//=
[d.toUTCString(), d.toString().slice(0, 15), d.toDateString(), d.valueOf(), d - new Date("2024-05-05T07:08:09Z")]
//// map_order
const m = new Map([["a", 1], ["b", 2]]); m.set("c", 3).delete("a");
//=
[[...m], [...m.keys()], m.size, Object.fromEntries(m), [...new Map([...m].sort((x, y) => y[1] - x[1]))]]
//// set_methods
const a = new Set([1, 2, 3]), b = new Set([2, 3, 4]);
//=
[[...a].filter(x => b.has(x)), [...a.union(b)], [...a.intersection(b)], [...a.difference(b)], [...a.symmetricDifference(b)], a.isSubsetOf(b)]
//// generator_fibonacci
function* fib() { let [a, b] = [0, 1]; for (;;) { const reset = yield a; [a, b] = reset ? [0, 1] : [b, a + b]; } } const g = fib(); const out = []; for (const n of g) { if (n > 50) break; out.push(n); }
//=
[out, g.next().done, [...function*() { yield* [1, 2]; return 3; }()]]
//// async_generators
async function* ticks(n) { for (let i = 0; i < n; i++) { await null; yield i; } } const got = []; for await (const t of ticks(4)) { if (t === 2) continue; got.push(t); } const it = { async *[Symbol.asyncIterator]() { yield "x"; } }; for await (const x of it) got.push(x);
//=
got
//// private_members
class A { #n = 0; static #made = 0; static { A.start = 5; } constructor() { A.#made++; } inc() { return ++this.#n; } get n() { return this.#n; } set n(v) { this.#n = v * 2; } static made() { return A.#made; } #secret() { return 42; } reveal() { return #secret in this ? this.#secret() : 0; } } const x = new A(); x.inc(); x.n = 4; new A();
//=
[x.n, A.made(), A.start, x.reveal(), JSON.stringify(x)]
//// inheritance
class Shape { area() { return 0; } toString() { return `${this.constructor.name}(${this.area()})`; } } class Sq extends Shape { constructor(s) { super(); this.s = s; } area() { return this.s ** 2; } get [Symbol.toStringTag]() { return "Sq"; } } const s = new Sq(3);
//=
[String(s), s instanceof Shape, Object.prototype.toString.call(s), `${[1, [2, 3]]}`]
//// deep_destructuring
const { a: { b: [first, , third = "z", ...rest] = [], ...others } = {}, ["c" + 1]: c1 = 7 } = { a: { b: [1, 2, undefined, 4, 5], q: 1, w: 2 } }; const [p, [q] = [9]] = [1];
//=
[first, third, rest, others, c1, p, q]
//// tagged_templates
const tag = (s, ...v) => s.raw.map((t, i) => t + (v[i] ?? "")).join("|");
//=
[tag`a\n${1}b${2}`, String.raw`\u00e9${1}`, `${[1, 2].map(x => `<${x}>`).join("")}`]
//// labelled_loops
const hits = []; outer: for (let i = 0; i < 4; i++) { for (let j = 0; j < 4; j++) { if (j === 2) continue outer; if (i === 2) break outer; hits.push([i, j]); } }
//=
hits
//// bigint_factorial
const f = (n) => n < 2n ? 1n : n * f(n - 1n);
//=
[String(f(25n)), String(2n ** 64n), String(-7n / 2n), String(BigInt.asUintN(8, 257n)), typeof 1n, 5n > 4, String(BigInt("0xff")), Number(123n)]
//// views_and_bytes
const b = new ArrayBuffer(8), v = new DataView(b); v.setInt16(0, -2); v.setFloat32(4, 1.5, true); const u = new Uint8Array(b);
//=
[[...u], [...new Uint8ClampedArray([300, -5, 1.6])], Array.from(new Float64Array([1, 2]).map(x => x / 3)), [...u.subarray(0, 2).toReversed()], new Int32Array([3, 1, 2]).sort().join()]
//// url_parts
const u = new URL("../b?x=1&y=a%20b#h", "https://user:pw@ex.org:8080/a/c/"); u.searchParams.append("x", "ü");
//=
[u.href, u.origin, u.pathname, u.search, u.hash, u.username, [...u.searchParams].length, u.searchParams.getAll("x")]
//// search_params
const p = new URLSearchParams({ q: "a b", n: 1 }); p.append("q", "c&d"); p.sort(); p.delete("n");
//=
[p.toString(), p.has("q"), [...new URLSearchParams("?a=1&a=2&b")], new URLSearchParams([["x", "1"]]).get("x")]
//// text_codecs
const bytes = new TextEncoder().encode("héllo €𝄞");
//=
[bytes.length, new TextDecoder().decode(bytes), new TextDecoder("utf-8", { fatal: false }).decode(new Uint8Array([0xff, 0x41])), btoa("abc"), atob("YWJj"), encodeURIComponent("ä/b c"), decodeURIComponent("%E2%82%AC")]
//// structured_clone
const o = { d: new Date(0), m: new Map([[1, { a: [1] }]]), s: new Set([1]), r: /x/gi, n: null, u: undefined }; o.self = o; const c = structuredClone(o);
//=
[c !== o, c.self === c, c.d instanceof Date, c.m.get(1).a, c.s.has(1), String(c.r), "u" in c]
//// microtasks
const log = []; setTimeout(() => log.push("t0"), 0); queueMicrotask(() => log.push("m1")); Promise.resolve().then(() => log.push("p1")); log.push("sync"); await new Promise(r => setTimeout(r, 5));
//=
log
//// abort_controller
const ac = new AbortController(); const seen = []; ac.signal.addEventListener("abort", () => seen.push("ev")); ac.abort(new Error("stop"));
//=
[ac.signal.aborted, ac.signal.reason.message, seen]
//// settled_promises
const r = await Promise.allSettled([Promise.resolve(1), Promise.reject(new TypeError("no"))]); const any = await Promise.any([Promise.reject(1), Promise.resolve(2)]).catch(() => 0); let agg; try { await Promise.any([Promise.reject(new Error("a"))]); } catch (e) { agg = [e.name, e.errors.length, e instanceof AggregateError]; }
//=
[r.map(x => x.status), r[1].reason.message, any, agg, await Promise.race([new Promise(r => setTimeout(r, 50, "slow")), "fast"])]
//// arrays_by_copy
const a = [3, 1, 2];
//=
[a.toSorted(), a.with(0, 9), a.toSpliced(1, 1, "x", "y"), a.toReversed(), a, a.findLastIndex(x => x > 1), [1, [2, [3]]].flat(Infinity), [[1, 2], [3]].flatMap(x => x), a.includes(NaN), [NaN].includes(NaN), Array.from({ length: 3 }, (_, i) => i * i), a.copyWithin(0, 1), a.fill(0, 1)]
//// grouping
const people = [{ n: "a", t: "x" }, { n: "b", t: "y" }, { n: "c", t: "x" }]; const g = Object.groupBy(people, p => p.t); const m = Map.groupBy(people, p => p.n > "a");
//=
[Object.keys(g), g.x.map(p => p.n), m.get(true).length, Object.entries({ b: 1, a: 2 }).sort(), Object.assign({}, { a: 1 }, null, { b: 2 })]
//// proxies
const p = new Proxy({}, { get: (t, k) => k in t ? t[k] : `no ${String(k)}`, set(t, k, v) { t[k] = v * 2; return true; }, has: () => true }); p.a = 2;
//=
[p.a, p.b, "zz" in p, Reflect.ownKeys({ b: 1, [Symbol.iterator]: 2, 1: 3 }).map(String)]
//// symbols
const sym = Symbol("desc"); const o = { [sym]: 1, toString() { return "O"; }, valueOf() { return 42; }, [Symbol.toPrimitive](h) { return h === "number" ? 7 : h; } };
//=
[sym.description, `${o}`, +o, o + "", Symbol.for("k") === Symbol.for("k")]
//// number_formats_again

//=
[0.1 + 0.2, (1234.5678).toFixed(2), (255).toString(16), (0.000001234).toExponential(2), Number("0b101"), parseInt("12px"), parseFloat("3.14abc"), Number.EPSILON > 0, Number.MAX_SAFE_INTEGER, Math.max(), Math.hypot(3, 4), Math.trunc(-4.7), Math.sign(-3), Math.cbrt(27), Math.fround(5.5), Math.clz32(1), (25).toString(36), (1e21).toString(), 1 / 3, -0, [1e21, 1e-7]]
//// memo_and_compose
const memo = (fn, cache = new WeakMap()) => (o) => cache.has(o) ? cache.get(o) : (cache.set(o, fn(o)), cache.get(o)); let calls = 0; const f = memo(o => (calls++, o.x)); const k = { x: 5 }; const compose = (...fs) => x => fs.reduceRight((v, g) => g(v), x); const curry = f => a => b => f(a, b);
//=
[f(k), f(k), calls, compose(x => x + 1, x => x * 2)(5), curry((a, b) => a - b)(5)(3), [1, 2, 3].reduceRight((a, b) => a + "-" + b)]
//// csv_pattern
const csv = 'a,b\n"x, ""q""",2\n,3'; const rows = csv.split("\n").map(l => [...l.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(m => (m[1]?.replaceAll('""', '"')) ?? m[2]));
//=
rows
//// json_replacer

//=
JSON.stringify({ a: [1, { b: undefined, c: () => 1, d: NaN, e: new Date(0), f: null }], "k\u2028": "\ud83d\ude00\n" }, (k, v) => typeof v === "number" && v === 1 ? "one" : v, 2)
//// breadth_first
const q = []; const bfs = (g, s) => { const seen = new Set([s]), queue = [s]; while (queue.length) { const n = queue.shift(); q.push(n); for (const m of g[n] ?? []) if (!seen.has(m)) { seen.add(m); queue.push(m); } } return q; };
//=
bfs({ a: ["b", "c"], b: ["d"], c: ["d"], d: ["a"] }, "a")
//// statements
let s = 0; for (const k in { a: 1, b: 2, __proto__: { c: 3 } }) s += k; let i = 0; do { i++; if (i === 2) continue; } while (i < 3); let t; switch (i) { case 1: t = "a"; case 3: t = "c"; case 4: t += "d"; break; default: t = "z"; } var x = 1; { let x = 2; }
//=
[s, i, t, x, (() => { try { return 1; } finally { s = 9; } })(), s, void 0 ?? "n", null?.a?.b, (a => a ||= 5)(0)]
//// own_emitter
const ev = []; class Emitter { #h = {}; on(e, f) { (this.#h[e] ??= []).push(f); return () => { this.#h[e] = this.#h[e].filter(g => g !== f); }; } emit(e, ...a) { this.#h[e]?.forEach(f => f(...a)); } } const em = new Emitter(); const off = em.on("x", v => ev.push(v)); em.emit("x", 1); off(); em.emit("x", 2);
//=
ev
//// node_modules
const { EventEmitter } = require("events"); const path = require("path"); const util = require("util"); const assert = require("assert"); const e = new EventEmitter(); const out = []; e.once("a", (...x) => out.push(x)); e.emit("a", 1, 2); e.emit("a", 3); let bad; try { assert.deepStrictEqual({ a: 1 }, { a: 2 }); } catch (x) { bad = x.name; }
//=
[out, path.join("/a", "../b", "c.txt"), path.extname("x.tar.gz"), path.basename("/q/w.e", ".e"), util.format("%s=%d %j", "a", 1, { b: 1 }), bad, Buffer.from("héy").toString("hex"), Buffer.concat([Buffer.from("a"), Buffer.from("b")]).toString("base64"), require("crypto").createHash("sha256").update("x").digest("hex").slice(0, 8)]
//// unicode_text

//=
"ß".toUpperCase() + "İ".toLowerCase().length + "\u0041\u030a".normalize("NFC").length + "a-b_c".split(/[-_]/).length + "abc".codePointAt(1) + String.fromCodePoint(128512) + [..."👍🏽x"].length + "x".repeat(3) + " a ".trimEnd() + "abcdef".substring(4, 1) + "abc".slice(-2) + "aXbX".lastIndexOf("X") + "%" + "tEST".toLowerCase().replace(/^./, c => c.toUpperCase()) + "a.b*c".replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "z".concat(1, null)
//// promise_pool
const wait = (ms, v) => new Promise(r => setTimeout(r, ms, v)); const pool = async (jobs, n) => { const out = []; let at = 0; await Promise.all(Array.from({ length: n }, async () => { while (at < jobs.length) { const i = at++; out[i] = await jobs[i](); } })); return out; };
//=
await pool([1, 2, 3, 4].map(x => () => wait(5 - x, x * x)), 2)
//// async_generators_closed
async function* ticks(n) { try { for (let i = 0; i < n; i++) { await null; yield i; } } finally { console.log("closed"); } }
const got = [];
for await (const t of ticks(10)) { if (t > 3) break; got.push(t); }
async function* chain(...its) { for (const it of its) yield* it; }
for await (const x of chain(ticks(2), [7, Promise.resolve(8)])) got.push(x);
const it = ticks(3); await it.next(); const ret = await it.return(5); const after = await it.next();
//=
({ got, ret, after })
//// class_private_and_super
class Account { static #count = 0; #balance = 0; static { this.kind = "acc"; } constructor(owner) { this.owner = owner; Account.#count++; } get balance() { return this.#balance; } set balance(v) { if (v < 0) throw new RangeError("neg"); this.#balance = v; } #secret() { return this.#balance * 2; } reveal() { return this.#secret(); } static get count() { return Account.#count; } static is(o) { return #balance in o; } [Symbol.toPrimitive](h) { return h === "number" ? this.#balance : `Acc(${this.owner})`; } toJSON() { return { o: this.owner, b: this.#balance }; } }
class Savings extends Account { rate = 0.1; add = () => { this.balance += this.balance * this.rate; return this; }; get balance() { return super.balance; } set balance(v) { super.balance = v + 1; } }
const s = new Savings("x"); s.balance = 99; s.add(); let err; try { s.balance = -5; } catch (e) { err = `${e}`; }
//=
({ s, n: +s, t: `${s}`, r: s.reveal(), c: Account.count, k: Savings.kind, is: [Account.is(s), Account.is({})], err, names: [Savings.name, s.add.name, Object.getOwnPropertyNames(Savings.prototype)] })
//// generators_two_way
function* fib() { let [a, b] = [0, 1]; for (;;) { const reset = yield a; if (reset) [a, b] = [0, 1]; else [a, b] = [b, a + b]; } }
const f = fib(); const first = Array.from({ length: 8 }, () => f.next().value); const again = f.next(true).value;
function* tree(n) { if (!n) return "leaf"; const r = yield* tree(n - 1); yield [n, r]; return r + n; }
const spread = [...tree(3)]; function* thrower() { try { yield 1; } catch (e) { yield "caught " + e; } }
const t = thrower(); t.next();
const [x, , y = 9, ...rest] = (function* () { yield 1; yield 2; yield undefined; yield 4; yield 5; })();
//=
({ first, again, spread, thrown: t.throw("boom"), done: t.next(), x, y, rest, str: Object.prototype.toString.call(f), m: Object.fromEntries(Object.entries({ a: 1 }).entries()) })
//// labels_and_switch
const found = []; outer: for (let i = 0; i < 5; i++) { for (let j = 0; j < 5; j++) { if (j === 3) continue outer; if (i === 3) break outer; if ((i + j) % 2) continue; found.push([i, j]); } }
let n = 0; block: { n++; if (n) break block; n = 100; } do { n += 2; } while (n < 10); const fns = []; for (let i = 0; i < 3; i++) fns.push(() => i); var vs = []; for (var k = 0; k < 3; k++) vs.push(() => k);
const sw = (x) => { const r = []; switch (x) { case 1: r.push(1); case 2: r.push(2); break; default: r.push("d"); case 3: r.push(3); } return r; };
//=
({ found, n, c: fns.map((f) => f()), v: vs.map((f) => f()), s: [1, 2, 3, 4].map(sw), fin: (() => { try { return "t"; } finally { console.log("fin"); } })(), forin: (() => { const o = []; for (const x in { b: 1, 2: 1, a: 1, 1: 1 }) o.push(x); return o; })() })
//// typed_arrays_and_views
const f = new Float32Array([1.1, 2.5]); const b = new ArrayBuffer(8); const dv = new DataView(b); dv.setInt16(0, -2); dv.setFloat32(4, 1.5, true);
const u = new Uint8Array(b); const c = Uint8ClampedArray.of(300, -5, 1.5); const sub = u.subarray(0, 2); sub[0] = 7;
//=
({ f: f[0], u, c, i: new Int8Array([200]), big: new BigInt64Array([-1n]), sl: [...u.slice(0, 2)], from: Uint16Array.from([1, 2], (x) => x * 2), sorted: new Int16Array([3, -1, 2]).sort(), idx: u.indexOf(7), gf: dv.getUint16(0), be: dv.getFloat32(4), at: f.at(-1), set: (() => { const x = new Uint8Array(4); x.set([1, 2], 1); return x; })(), join: new Uint8Array([1, 2]).join("-"), len: [b.byteLength, f.BYTES_PER_ELEMENT], json: JSON.stringify(new Uint8Array([1])), red: new Float64Array([0.1, 0.2]).reduce((a, x) => a + x), out: u[99], oops: (() => { try { new Uint8Array(-1); } catch (e) { return e.name; } })() })
//// json_edges_all
const o = { u: undefined, f() {}, n: null, d: new Date(0), nan: NaN, inf: -Infinity, nested: [undefined, () => 1, Symbol("x")], [Symbol("k")]: 1, b: Object(true), s: Object("str"), neg: -0 };
const cyc = {}; cyc.me = cyc; let err; try { JSON.stringify(cyc); } catch (e) { err = e.name; }
//=
({ s: JSON.stringify(o), pretty: JSON.stringify({ a: [1, { b: [] }], c: {} }, null, 2), tab: JSON.stringify([1, [2]], null, "--"), repl: JSON.stringify({ a: 1, b: 2, c: { a: 3 } }, ["a", "c"]), fn: JSON.stringify({ a: 1, b: "x" }, (k, v) => typeof v === "number" ? v + 1 : v), rev: JSON.parse('{"a":[1,2],"d":"1970"}', (k, v) => Array.isArray(v) ? v.length : v), err, bad: ["{a:1}", "[1,]", "01", "\"\\x\"", "nul", ""].map((t) => { try { return JSON.parse(t); } catch (e) { return e.name; } }), uni: JSON.stringify("\u2028\ud800é\u0007"), big: JSON.parse("12345678901234567890"), proto: JSON.parse('{"__proto__": {"x": 1}}').x === undefined, dup: JSON.parse('{"a":1,"a":2}'), und: JSON.stringify(undefined) === undefined, exp: JSON.parse("1e3"), keys: JSON.stringify({ 2: 1, b: 1, 1: 1 }) })
//// proxies_of_each_kind
const log = []; const p = new Proxy({ a: 1 }, { get(t, k, r) { log.push("get " + String(k)); return Reflect.get(t, k, r) ?? "def"; }, has: (t, k) => k.startsWith("x"), deleteProperty(t, k) { log.push("del " + k); return delete t[k]; }, ownKeys: () => ["a", "z"], getOwnPropertyDescriptor: (t, k) => ({ value: k, enumerable: true, configurable: true }) });
const arr = new Proxy([], { get: (t, k) => typeof k === "string" && /^-\d+$/.test(k) ? t[t.length + +k] : t[k] }); arr.push(1, 2, 3);
const fn = new Proxy(function () {}, { apply: (t, th, args) => args.length, construct: (t, args) => ({ made: args }) });
const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); let err; try { proxy.x; } catch (e) { err = e.name; } delete p.a;
//=
({ v: [p.a, p.b, "xx" in p, "a" in p], keys: Object.keys(p), last: arr[-1], ap: fn(1, 2), co: new fn(3), err, own: Reflect.ownKeys({ b: 1, 1: 1, [Symbol.iterator]: 1 }).map(String), con: Reflect.construct(Date, [0], Array) instanceof Array, log })
//// errors_of_each_kind
class AppError extends Error { constructor(m, opt) { super(m, opt); this.name = "AppError"; this.code = 7; } }
const out = []; try { try { null.x(); } catch (e) { throw new AppError("wrapped", { cause: e }); } } catch (e) { out.push(e.name, e.message, e.code, e.cause.name, e instanceof AppError, `${e}`, Object.keys(e)); }
const kinds = [() => undefinedName, () => (void 0)(), () => new Array(-1), () => decodeURIComponent("%"), () => { const c = 1; c = 2; }, () => BigInt(1.5), () => Symbol() + "", () => "x".repeat(-1), () => Object.defineProperty(Object.freeze({}), "a", {}), () => { "use strict"; Object.freeze([]).push(1); }, () => new (class A { constructor() { this.x; } })().y.z, () => structuredClone(() => 1)].map((f) => { try { return f(); } catch (e) { return e.name; } });
//=
({ out, kinds, agg: new AggregateError([1], "m").errors, ts: Object.prototype.toString.call(new Error()), stack: typeof new Error("x").stack })
//// date_getters_setters
const d = new Date(2024, 0, 31, 12, 0, 0);
d.setMonth(1);
const e = new Date(2024, 0, 0); const g = new Date(99, 0); const h = new Date(2024, 5, 15, 25, 61, 61, 1001);
console.log(d, [e], { g });
console.log(String(d), d.toDateString(), d.toTimeString(), `${h}`);
//=
[d.toJSON(), e.toISOString(), g.getFullYear(), h.toISOString(), d.getTimezoneOffset(), d.getDay(), d.valueOf(), Number(h), d > e, new Date(8.64e15 + 1).getTime(), d.toISOString().replace(/T.*/, "")]
//// date_parsing_forms
const texts = ["2024-02-29", "2024-02-29T10:20:30Z", "2024-02-29T10:20:30.123456Z", "2024-02-29T10:20:30+02:00", "Feb 29, 2024", "29 Feb 2024 10:00 UTC", "Thu, 29 Feb 2024 10:20:30 GMT", "2024/02/29", "02/29/2024", "2024-02-29 10:20:30", "February 29, 2024 10:20:30", "2024-2-9", "nonsense", "2024-13-01", "2024", "2024-05", "+012024-01-01T00:00:00Z", "1/2/99", "Mon Jan 01 2024 00:00:00 GMT+0000 (UTC)"];
//=
texts.map((t) => { const d = new Date(t); return isNaN(d) ? [t, "invalid"] : [t, d.toISOString()]; })
//// date_locale
const d = new Date(Date.UTC(2024, 0, 5, 3, 4, 5));
//=
[d.toLocaleString("en-US", { timeZone: "UTC" }), d.toLocaleTimeString("en-US", { timeZone: "UTC" }), d.toLocaleTimeString("en-US", { timeZone: "UTC", hour: "2-digit", minute: "2-digit" }), d.toLocaleDateString("en-US", { timeZone: "UTC", month: "2-digit", day: "2-digit", year: "numeric" }), d.toLocaleDateString("en-US", { timeZone: "UTC", weekday: "long" }), d.toLocaleDateString("en-US", { timeZone: "UTC", month: "long" }), d.toLocaleString("en-US", { timeZone: "UTC", hour: "numeric", hour12: true }), d.toLocaleString("en-US", { timeZone: "UTC", dateStyle: "medium", timeStyle: "short" }), d.toLocaleDateString("en-US", { timeZone: "UTC", month: "short", year: "numeric" }), d.toLocaleTimeString("en-US", { timeZone: "UTC", hour12: false }), d.toLocaleDateString(undefined, { timeZone: "UTC", dateStyle: "full" }), d.toLocaleString("en-US", { timeZone: "UTC", weekday: "short", hour: "numeric" }), d.toLocaleString("en-US", { timeZone: "UTC", minute: "2-digit", second: "2-digit" })]
//// number_locale
//=
[(1234.5678).toLocaleString("en-US", { maximumFractionDigits: 1 }), (0).toLocaleString("en-US", { style: "currency", currency: "USD" }), (-5.5).toLocaleString("en-US", { style: "currency", currency: "USD" }), (1e6).toLocaleString("en-US", { notation: "compact" }), (1234567).toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 }), (0.12345).toLocaleString("en-US", { style: "percent", minimumFractionDigits: 1 }), (12).toLocaleString("en-US", { minimumIntegerDigits: 4 }), (12).toLocaleString("en-US", { minimumIntegerDigits: 4, useGrouping: false }), (123.456).toLocaleString("en-US", { maximumSignificantDigits: 2 }), (22825).toLocaleString("en-US", { notation: "compact" }), (NaN).toLocaleString(), [1234.5, new Date(0)].toLocaleString("en-US", { timeZone: "UTC" }), (1.005).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })]
//// regex_edge2
//=
["aBC".replace(/b/i, "$&$&$`$'"), "abc".split(""), "a1b22".split(/(\d+)/), "x".replace("x", "$0$1$$"), /(\w+)\s\1/.test("hello hello"), /^(?:(?=a)a|b)*$/.exec("aab")[0], "abcabc".lastIndexOf("c"), /[^\d\s]+/.exec("12 ab")[0], "😀x".match(/./u)[0].length, "\u2028".match(/./), "aaa".split("a", 2), "".split(""), "".split(","), "abc".replace(/(?<first>a)(b)/, "$2$<first>$3"), /[\u{1F600}-\u{1F64F}]/u.test("😀"), /\p{Script=Greek}/u.test("α"), /\p{Emoji}/u.test("😀"), "ab\ncd".match(/^c/m)?.index, /a{2,3}?/.exec("aaaa")[0], /(a)|(b)/.exec("b"), /\bfoo\b/.test("a foo."), /^\s*$/.test(" \t\u00a0\ufeff"), /[\w-]+@[\w.]+/.exec("me: a-b@c.de!")[0], "x".match(/(?<a>x)|(?<b>y)/).groups, "aXbxc".split(/x/i), /\u{61}/u.test("a"), /[[a-z]--[aeiou]]/.test("b--]")]
//// regex_named_lookbehind
const text = "Price: $42.50, was €50, now £7 (save 10%)";
const prices = [...text.matchAll(/(?<cur>[$€£])(?<amt>\d+(?:\.\d+)?)/gu)].map(({ groups: { cur, amt } }) => [cur, +amt]);
console.log(text.match(/(?<cur>[$€£])(?<amt>\d+)/));
console.log([...text.matchAll(/\d+/g)][0]);
//=
[prices, text.match(/(?<=save )\d+(?=%)/)[0], text.match(/(?<!\$)\b\d+\b/g), text.replace(/(?<c>[$€£])(?<n>\d+)/gu, "$<n>$<c>"), text.search(/€/), text.replace(/\d+/g, (m, off, whole) => `[${m}@${off}/${whole.length}]`)]
//// errors_messages_common
const kinds = [() => undefinedVar, () => null.f, () => (1)(), () => { const k = 1; k = 2; }, () => new Array(-1), () => "x".repeat(-1), () => decodeURIComponent("%"), () => JSON.parse("{"), () => BigInt(1.5), () => 1n + 1, () => Symbol() + "", () => new (class { constructor() { throw 1; } })(), () => Object.defineProperty(Object.freeze({}), "a", { value: 1 }), () => { "use strict"; Object.freeze([1]).push(2); }, () => [].reduce((a, b) => a), () => (5).toFixed(101), () => new Proxy({}, null), () => structuredClone(() => 1), () => new URL("nope"), () => ({}).x.y, () => { const { a } = null; }, () => { const [a] = 5; }, () => { new (() => 1)(); }, () => { class A { constructor() { this.x; } } A(); }, () => { class B extends Object { constructor() { this.x = 1; } } new B(); }, () => super_(), () => Reflect.construct(1), () => { let z = z + 1; }, () => 1 in "x", () => ({}) instanceof 5, () => new Intl2(), () => atob("*"), () => "a".localeCompare(), () => String.fromCodePoint(-1), () => "a".normalize("X"), () => new Date(NaN).toISOString(), () => Number.prototype.toString.call("x"), () => (10).toString(1), () => Promise(), () => new WeakMap([[1, 2]])];
//=
kinds.map((k) => { try { const v = k(); return "none:" + String(v).slice(0, 10); } catch (e) { return e?.name ?? e; } })
//// generator_two_way_return
function* g() { try { const a = yield 1; const b = yield a + 1; return a + b; } catch (e) { yield "caught " + e; } finally { yield "fin"; } }
const x = g(), y = g(), z = g();
console.log(x, g, Object.prototype.toString.call(x));
//=
[x.next(), x.next(10), x.next(20), x.next(), x.next(), y.next(), y.throw("boom"), y.next(), y.next(), z.next(), z.return(5), z.next(), z.next(), (() => { const o = (function* () { yield* [1, 2]; return yield* (function* () { yield 3; return 4; })(); })(); return [...o]; })()]
//// json_replacer_reviver
const data = { when: new Date(0), re: /x/g, m: new Map([[1, 2]]), s: new Set([1]), n: null, u: undefined, inf: Infinity, neg: -0, f() {}, sym: Symbol("q"), big: 2n, nested: [[], {}, [undefined]] };
const text = JSON.stringify(data, (k, v) => typeof v === "bigint" ? `${v}n` : v instanceof Map ? { $map: [...v] } : v instanceof Set ? { $set: [...v] } : v, "\t");
const back = JSON.parse(text, (k, v) => v && v.$map ? new Map(v.$map) : typeof v === "string" && /^\d+n$/.test(v) ? BigInt(v.slice(0, -1)) : k === "when" ? new Date(v) : v);
console.log(text); console.log(back);
//=
[back.m.get(1), back.big === 2n, back.when.getTime(), JSON.stringify([NaN, new Date(NaN), Object(1), Object("s"), new Boolean(false)]), JSON.stringify("\u007f\u2028\ud800"), JSON.stringify({ a: [] }, null, 2), JSON.stringify([[]], null, "--"), JSON.stringify(undefined) === undefined, JSON.stringify({ k: 1, a: { k: 2, z: 3 } }, ["k", "a"]), JSON.parse(' [1 , 2.50e1, "\\u0041\\n" ] ')]
//// text_codecs_more
const te = new TextEncoder(), td = new TextDecoder(); const b = te.encode("héllo €😀");
const part = new TextDecoder(); let s = ""; for (const x of b) s += part.decode(Uint8Array.of(x), { stream: true }); s += part.decode();
console.log(b, td.encoding);
//=
[[...b], td.decode(b), s, td.decode(new Uint8Array([0xff, 65])), te.encodeInto("añb", new Uint8Array(3)), td.decode(new Uint8Array([0xef, 0xbb, 0xbf, 65])), btoa("hello"), atob("aGk="), Buffer.from("hi").toString("base64"), Buffer.from("68690a", "hex").toString(), Buffer.from("é").length, Buffer.concat([Buffer.from("a"), Buffer.from("b")]).toString("hex"), Buffer.byteLength("€"), Buffer.from("aGk", "base64url").toString("latin1"), btoa(String.fromCharCode(...b)), (() => { try { btoa("€"); } catch (e) { return e.name; } })()]
//// url_work
const u = new URL("https://user:p%40ss@Example.com:8080/a/b/../c%20d/?q=1&q=2&x=%F0%9F%98%80#frag ment");
u.searchParams.append("new key", "v&=+ "); u.searchParams.delete("x"); u.hash = ""; u.port = "443";
const rel = ["../x", "/y?z", "?only", "#h", "//other.org/p", "z/./w", "mailto:a@b.c"].map((r) => new URL(r, "https://a.com/d/e/f?g#h").href);
console.log(u); console.log(new URLSearchParams({ a: 1, b: "x y" }));
//=
[u.href, u.origin, u.host, u.username, u.password, u.pathname, [...u.searchParams], rel, URL.canParse("nope"), new URLSearchParams("?a=1&a=2&b=%20+").toString(), Object.fromEntries(new URLSearchParams("k=v&e=")), encodeURI("a b/ü?&=#"), encodeURIComponent("a b/ü?&=#'()*!~"), decodeURIComponent("%E2%82%AC"), escape("ü a"), unescape("%u0041%20")]
//// bigint_as_uint
const M = (1n << 64n) - 1n; const fnv = (s) => [...s].reduce((h, c) => BigInt.asUintN(64, (h ^ BigInt(c.codePointAt(0))) * 1099511628211n), 14695981039346656037n); let x = 42n; const lcg = () => (x = BigInt.asUintN(64, x * 6364136223846793005n + 1442695040888963407n));
//=
[fnv("hello"), fnv(""), lcg(), lcg(), BigInt.asUintN(64, -1n) === M, BigInt.asUintN(40, -268435456n), BigInt.asUintN(0, 5n), BigInt.asIntN(64, M), BigInt.asUintN(8, 256n), BigInt.asUintN(128, -3n)]
//// sort_variants
const xs = ["b10", "a2", "B1", "a10", "_", "A"]; const objs = [{ n: "x", p: null }, { n: "y", p: 3 }, { n: "z" }, { n: "w", p: 1 }];
//=
[[...xs].sort(), [...xs].sort((a, b) => a.toLowerCase() < b.toLowerCase() ? -1 : 1), [...xs].sort((a, b) => a.localeCompare(b, "en", { numeric: true, sensitivity: "base" })), objs.toSorted((a, b) => (a.p ?? Infinity) - (b.p ?? Infinity)).map((o) => o.n).join(""), [1, 10, 2].sort(), [true, false].sort(), [[2, "b"], [1, "z"], [2, "a"]].sort(([a, x], [b, y]) => a - b || (x < y ? -1 : 1)), [3, undefined, 1].sort((a, b) => b - a), ["ä", "a", "z"].sort((a, b) => a.localeCompare(b)), ["Z", "a", "z", "A"].sort((a, b) => a.localeCompare(b)), ["co-op", "coop", "CO-OP"].sort((a, b) => a.localeCompare(b)), [5, 25, 100].map(String).sort(), Array.from({ length: 20 }, (_, i) => ({ k: i % 3, i })).sort((a, b) => a.k - b.k).map((o) => o.i)]
//// try_finally_matrix
const log = []; const f = (n) => { try { log.push("t" + n); if (n === 1) return "r1"; if (n === 2) throw new Error("x"); if (n === 3) return log.push("ev"), "r3"; } catch { log.push("c" + n); return "rc"; } finally { log.push("f" + n); if (n === 3) return "override"; } return "end"; }; const nested = () => { for (const i of [1, 2, 3]) { try { if (i === 1) continue; if (i === 2) break; } finally { log.push("loop" + i); } } };  nested(); let e2; try { try { throw 1; } finally { throw 2; } } catch (e) { e2 = e; } function* g() { try { yield 1; } finally { log.push("gfin"); } } for (const x of g()) break;
//=
[[0, 1, 2, 3].map(f), log, e2]
//// event_emitter
const EventEmitter = require("node:events"); const { once } = EventEmitter;
class Store extends EventEmitter { #s = {}; set(k, v) { this.#s[k] = v; this.emit("change", k, v); return this; } }
const s = new Store(), log = []; s.on("change", (k, v) => log.push([k, v])); s.once("change", () => log.push("once")); const off = () => log.push("off"); s.on("change", off); s.off("change", off); s.prependListener("change", () => log.push("pre"));
s.set("a", 1).set("b", 2); setTimeout(() => s.emit("go", 5), 1); const [v] = await once(s, "go"); let err; try { s.emit("error", new Error("bad")); } catch (e) { err = e.message; }
//=
[log, v, err, s.listenerCount("change"), s.eventNames(), s.emit("nobody")]
//// crypto_hashes
const { createHash, createHmac, randomUUID, randomBytes } = require("crypto");
//=
[createHash("sha256").update("abc").digest("hex"), createHash("md5").update("a").update("b").digest("base64"), createHash("sha1").update(Buffer.from([1, 2])).digest("hex"), createHash("sha512").update("x").digest("hex").slice(0, 20), createHmac("sha256", "key").update("msg").digest("hex"), randomUUID().length, randomBytes(8).length, crypto.randomUUID().split("-").map((s) => s.length)]
//// sha512_long
const { createHash, createHmac } = require("crypto");
//=
[createHash("sha512").update("x".repeat(300)).digest("hex"), createHmac("sha512", "k".repeat(200)).update("m").digest("base64"), createHash("SHA512").update("").digest("hex"), Buffer.from(await crypto.subtle.digest({ name: "SHA-512" }, new Uint8Array([1, 2]))).toString("hex"), (await crypto.subtle.digest("SHA-1", new TextEncoder().encode("a"))).byteLength]
//// crypto_subtle
const h = await crypto.subtle.digest("SHA-256", new TextEncoder().encode("abc"));
//=
Array.from(new Uint8Array(h)).map((b) => b.toString(16).padStart(2, "0")).join("")
//// modules_commonjs
const mod = { exports: {} }; (function (module, exports) { exports.a = 1; module.exports.b = () => exports.a; })(mod, mod.exports); const { EOL } = require("os"); const qs = require("querystring"); const { isMainThread } = (() => { try { return require("worker_threads"); } catch { return { isMainThread: true }; } })(); if (require.main === module) { module.exports = { ok: true }; }
//=
[mod.exports.b(), EOL, qs.parse("a=1&a=2&b=x%20y"), qs.stringify({ a: [1, 2], b: "x y" }), isMainThread, typeof __dirname, typeof __filename, typeof global, global === globalThis]
//// import_in_text
const s = 'use import("x") or\nexport const y = 1;\nimport a from "b"'; const t = `
import z from "q";
export default 5;
`; const p = await import("path");
//=
[s, t, p.join("a", "b")]
//// circular_print
const a = { n: 1 }; a.self = a; a.list = [a, { a }]; console.log(a); const m = new Map(); m.set("m", m); console.log(m); console.log(["\x1b[31m", "\x00", "\u007f"], { "a\nb": 1 });
//=
1
//// array_holes_printing
const h = [1, , 3]; h.prop = "x"; const big = Array.from({ length: 120 }, (_, i) => i); const longs = ["a".repeat(30), "b".repeat(30), "c".repeat(30)];
console.log(h, [, ,], [undefined, null], big); console.log(longs, [[[[1]]]], { a: { b: { c: { d: 1 } } } }); console.log([1.5, -0, "q'uote", 'd"q', `b\`'"`, "new\nline", true, () => {}, function named() {}, class Foo {}, Symbol("s"), 10n, new Date(0), /re/g, new Error("e").message, null]);
console.log({ "a-b": 1, 2: 3, valid_id: 4, [Symbol("k")]: 5, get g() { return 1; }, set g(v) {}, get h() { return 1; }, set i(v) {}, async m() {}, *gen() {}, arrow: () => 1 });
console.log(Object.create(null), Object.create({ a: 1 }), new (class Foo { x = 1; })(), new (class extends Array {})(1, 2, 3), Object.assign(() => {}, { p: 1 }), new Number(3), new String("abc"), [new Boolean(false)]);
console.log("%s|%d|%i|%f|%j|%O|%c|%%", "str", "42.5", 42.9, "1.5", { a: 1 }, { b: { c: {} } }, "css", "extra"); console.log("%s", { a: 1 }, "%d", null, undefined, Symbol("x")); console.log("a\nb", ["a\nb"]); console.log(-0, [-0], 1e21, 1e-7, 0.1 + 0.2); console.log(); console.log(""); console.log(" "); console.log(new Array(5), [1, , , 4], Array(200).fill("ab"));
//=
1
//// locale_compare_more
const words = ["résumé", "resume", "Resume", "Résumé", "rest", "résister", "naïve", "nadir", "1", "10", "2", " lead", "-dash", "under_score", "Ångström", "angstrom", "éa", "eb", "co op", "coop", "co-op"];
//=
[[...words].sort((a, b) => a.localeCompare(b)), "a".localeCompare("b"), "a".localeCompare("B"), "a b".localeCompare("ab"), "".localeCompare("a"), "ß".localeCompare("ss"), "a".localeCompare("á", undefined, { sensitivity: "accent" }), "A".localeCompare("a", undefined, { sensitivity: "case" }), "1.10".localeCompare("1.9", undefined, { numeric: true })]
//// expression_parser
const tokenize = (s) => s.match(/\d+(?:\.\d+)?|[-+*/()^]|[a-z]+/g); class Parser { #t; #i = 0; constructor(s) { this.#t = tokenize(s); } #peek() { return this.#t[this.#i]; } #next() { return this.#t[this.#i++]; } expr(min = 0) { let l = this.#atom(); const P = { "+": 1, "-": 1, "*": 2, "/": 2, "^": 3 }; while (P[this.#peek()] > min - (this.#peek() === "^" ? 1 : 0)) { const op = this.#next(); const r = this.expr(P[op] - (op === "^" ? 1 : 0)); l = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b, "^": (a, b) => a ** b }[op](l, r); } return l; } #atom() { const t = this.#next(); if (t === "(") { const v = this.expr(); if (this.#next() !== ")") throw new SyntaxError("expected )"); return v; } if (t === "-") return -this.#atom(); if (/^[a-z]/.test(t)) return Math[t](this.#atom()); return parseFloat(t); } }
//=
["1+2*3", "(1+2)*3", "2^3^2", "-4+10/4", "sqrt(16)*2"].map((e) => new Parser(e).expr())
//// numeric_dates_of_locales
const d = new Date(Date.UTC(2024, 0, 5, 13, 4, 5)), zone = { timeZone: "UTC" };
//=
["en-US", "en-GB", "en-CA", "sv-SE", "de-DE"].map((l) => [d.toLocaleDateString(l, zone), d.toLocaleDateString([l], { ...zone, year: "numeric", month: "2-digit", day: "2-digit" }), ...(l === "en-CA" ? [] : [d.toLocaleTimeString(l, zone), d.toLocaleTimeString(l, { ...zone, hour: "2-digit", minute: "2-digit" })])])
