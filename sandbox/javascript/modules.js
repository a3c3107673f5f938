// What `require` and `import` find: parts of node's library that need nothing but the language and the run's own files.
class Buffer extends NativeUint8Array {
  static from(value, encoding, length) {
    if (typeof value === "string") {
      const kind = textLower(encoding ?? "utf8");
      let bytes;
      if (kind === "base64" || kind === "base64url") bytes = looseBase64(value);
      else if (kind === "hex") { const text = textSlice(regexpExec(/^(?:[0-9a-fA-F]{2})*/, value)[0], 0); bytes = NativeUint8Array.fromHex(text); }
      else if (kind === "latin1" || kind === "binary" || kind === "ascii") { bytes = new NativeUint8Array(value.length); for (let at = 0; at < value.length; at++) bytes[at] = textCode(value, at); }
      else if (kind === "utf16le" || kind === "ucs2") { bytes = new NativeUint8Array(value.length * 2); for (let at = 0; at < value.length; at++) { bytes[2 * at] = textCode(value, at); bytes[2 * at + 1] = textCode(value, at) >> 8; } }
      else if (kind === "utf8" || kind === "utf-8") bytes = encodeUtf8(value);
      else throw new TypeError(`Unknown encoding: ${encoding}`);
      return new Buffer(bytes.buffer, bytes.byteOffset, bytes.length);
    }
    if (takes(bufferLength, value)) return new Buffer(value, encoding ?? 0, length ?? bufferLength(value) - (encoding ?? 0));
    const list = isArray(value) || typedTag(value) !== undefined ? value : value && value.type === "Buffer" ? value.data : null;
    if (list === null) throw new TypeError("The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array");
    const copy = new Buffer(list.length);
    for (let at = 0; at < list.length; at++) copy[at] = list[at];
    return copy;
  }
  static alloc(size, fill = 0) { const made = new Buffer(size); return fill ? made.fill(typeof fill === "string" ? textCode(fill, 0) : fill) : made; }
  static allocUnsafe(size) { return new Buffer(size); }
  static isBuffer(value) { return is(value, Buffer); }
  static byteLength(value, encoding) { return typeof value === "string" ? Buffer.from(value, encoding).length : value.byteLength; }
  static concat(list, total = list.reduce((sum, one) => sum + one.length, 0)) { const whole = new Buffer(total); let at = 0; for (const one of list) { whole.set(one.subarray(0, max(0, total - at)), at); at += one.length; } return whole; }
  static compare(a, b) { return Buffer.from(a).compare(b); }
  toString(encoding = "utf8", start = 0, end = this.length) {
    const bytes = this.subarray(start, end), kind = textLower(encoding);
    if (kind === "base64") return toBase64(bytes);
    if (kind === "base64url") return toBase64(bytes, { alphabet: "base64url", omitPadding: true });
    if (kind === "hex") return hex(bytes);
    if (kind === "latin1" || kind === "binary" || kind === "ascii") { let text = ""; for (let at = 0; at < bytes.length; at++) text += fromCode(kind === "ascii" ? bytes[at] & 0x7f : bytes[at]); return text; }
    if (kind === "utf16le" || kind === "ucs2") return new TextDecoder("utf-16le").decode(bytes);
    if (kind === "utf8" || kind === "utf-8") return decodeUtf8(bytes, false, true);
    throw new TypeError(`Unknown encoding: ${encoding}`);
  }
  toJSON() { return { type: "Buffer", data: arrayFrom(this) }; }
  equals(other) { return this.compare(other) === 0; }
  compare(other) { for (let at = 0; at < min(this.length, other.length); at++) if (this[at] !== other[at]) return this[at] < other[at] ? -1 : 1; return Math.sign(this.length - other.length); }
  write(text, at = 0) { const bytes = encodeUtf8(text).subarray(0, this.length - at); this.set(bytes, at); return bytes.length; }
  slice(start, end) { return this.subarray(start, end); }
  copy(target, to = 0, start = 0, end = this.length) { const part = this.subarray(start, end).subarray(0, target.length - to); target.set(part, to); return part.length; }
  readUInt8(at = 0) { return this[at]; }
  readUInt16BE(at = 0) { return view(this).getUint16(at); }
  readUInt32BE(at = 0) { return view(this).getUint32(at); }
  readUInt16LE(at = 0) { return view(this).getUint16(at, true); }
  readUInt32LE(at = 0) { return view(this).getUint32(at, true); }
  readInt32BE(at = 0) { return view(this).getInt32(at); }
  readInt32LE(at = 0) { return view(this).getInt32(at, true); }
  writeUInt8(value, at = 0) { this[at] = value; return at + 1; }
  writeUInt16BE(value, at = 0) { view(this).setUint16(at, value); return at + 2; }
  writeUInt32BE(value, at = 0) { view(this).setUint32(at, value); return at + 4; }
  writeUInt32LE(value, at = 0) { view(this).setUint32(at, value, true); return at + 4; }
  [INSPECT]() { return `<Buffer${this.length ? " " : ""}${regexpExec(/^(?:..)?(?: ..)*/, arrayJoin(hex(this.subarray(0, 50)).match(/../g) ?? [], " "))[0]}${this.length > 50 ? ` ... ${this.length - 50} more bytes` : ""}>`; }
}
const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const looseBase64 = (text) => {
  let plain = textReplace(textReplaceAll(textReplaceAll(text, "-", "+"), "_", "/"), /[^A-Za-z0-9+/]/g, "");
  if (plain.length % 4 === 1) plain = textSlice(plain, 0, -1);
  return fromBase64(NativeUint8Array, plain + textRepeat("=", (4 - plain.length % 4) % 4));
};

class EventEmitter {
  #events = new NativeMap();
  #add(name, listener, first, once) {
    if (typeof listener !== "function") throw new TypeError('The "listener" argument must be of type function.');
    const list = this.#events.get(name) ?? [];
    this.#events.set(name, first ? [{ listener, once }, ...list] : [...list, { listener, once }]);
    return this;
  }
  on(name, listener) { return this.#add(name, listener, false, false); }
  addListener(name, listener) { return this.on(name, listener); }
  prependListener(name, listener) { return this.#add(name, listener, true, false); }
  once(name, listener) { return this.#add(name, listener, false, true); }
  off(name, listener) {
    const list = this.#events.get(name) ?? [], at = list.findLastIndex((one) => one.listener === listener);
    if (at >= 0) this.#events.set(name, list.toSpliced(at, 1));
    return this;
  }
  removeListener(name, listener) { return this.off(name, listener); }
  removeAllListeners(name) { name === undefined ? this.#events.clear() : this.#events.delete(name); return this; }
  emit(name, ...given) {
    const list = this.#events.get(name) ?? [];
    if (!list.length && name === "error") throw is(given[0], NativeError) ? given[0] : new NativeError(`Unhandled error. (${inspect(given[0])})`);
    for (const one of list) { if (one.once) this.off(name, one.listener); apply(one.listener, this, given); }
    return list.length > 0;
  }
  listenerCount(name) { return (this.#events.get(name) ?? []).length; }
  listeners(name) { return (this.#events.get(name) ?? []).map((one) => one.listener); }
  eventNames() { return [...this.#events.keys()].filter((name) => this.listenerCount(name)); }
  setMaxListeners() { return this; }
  static once(emitter, name) { return new NativePromise((resolve, reject) => { emitter.once(name, (...given) => { emitter.off("error", reject); resolve(given); }); if (name !== "error") emitter.once("error", reject); }); }
}
EventEmitter.EventEmitter = EventEmitter;

const pathModule = {
  sep: "/", delimiter: ":",
  normalize(path) { const rooted = textStarts(path, "/"), kept = []; for (const part of textSplit(path, "/")) { if (part === "" || part === ".") continue; if (part === ".." && kept.length && kept.at(-1) !== "..") kept.pop(); else if (part !== ".." || !rooted) kept.push(part); } const text = kept.join("/"); return (rooted ? `/${text}` : text || ".") + (text && path.endsWith("/") ? "/" : ""); },
  join: (...parts) => pathModule.normalize(parts.filter((part) => part !== "").join("/") || "."),
  resolve(...parts) { let path = ""; for (const part of parts.reverse()) { path = path ? `${part}/${path}` : part; if (textStarts(part, "/")) break; } const whole = pathModule.normalize(textStarts(path, "/") ? path : `/${path}`); return whole.length > 1 && whole.endsWith("/") ? whole.slice(0, -1) : whole; },
  isAbsolute: (path) => textStarts(path, "/"),
  basename(path, suffix = "") { const base = path.replace(/\/+$/, "").split("/").pop(); return suffix && base !== suffix && base.endsWith(suffix) ? base.slice(0, -suffix.length) : base; },
  dirname(path) { const at = path.replace(/\/+$/, "").lastIndexOf("/"); return at < 0 ? "." : at === 0 ? "/" : path.slice(0, at); },
  extname(path) { const base = pathModule.basename(path), at = base.lastIndexOf("."); return at <= 0 ? "" : base.slice(at); },
  relative(from, to) { const a = pathModule.resolve(from).split("/").filter(Boolean), b = pathModule.resolve(to).split("/").filter(Boolean); let at = 0; while (at < a.length && a[at] === b[at]) at++; return [...a.slice(at).map(() => ".."), ...b.slice(at)].join("/"); },
  parse(path) { const base = pathModule.basename(path), ext = pathModule.extname(path), dir = pathModule.dirname(path); return { root: textStarts(path, "/") ? "/" : "", dir: dir === "." && !textStarts(path, ".") ? "" : dir, base, ext, name: ext ? base.slice(0, -ext.length) : base }; },
  format: ({ dir, root = "", base, name = "", ext = "" }) => `${dir ? `${dir}/` : root}${base ?? name + ext}`,
};
pathModule.posix = pathModule;

const sameDeep = (a, b, strict, seen = []) => {
  if (Object.is(a, b) || !strict && (a == b || a !== a && b !== b)) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (strict && getPrototypeOf(a) !== getPrototypeOf(b) || isArray(a) !== isArray(b)) return false;
  if (seen.some(([one, other]) => one === a && other === b)) return true;
  seen = [...seen, [a, b]];
  if (takes(dateTime, a)) return takes(dateTime, b) && dateTime(a) === dateTime(b);
  if (takes(regexpSource, a)) return `${a}` === `${b}`;
  if (is(a, NativeError) && (a.message !== b.message || a.name !== b.name)) return false;
  if (takes(mapSize, a)) return takes(mapSize, b) && a.size === b.size && [...a].every(([key, value]) => b.has(key) && sameDeep(value, b.get(key), strict, seen));
  if (takes(setSize, a)) return takes(setSize, b) && a.size === b.size && [...a].every((one) => b.has(one) || [...b].some((other) => sameDeep(one, other, strict, seen)));
  const keys = keysOf(a);
  return keys.length === keysOf(b).length && keys.every((key) => hasOwn(b, key) && sameDeep(a[key], b[key], strict, seen));
};
const promisify = (method) => (...given) => new NativePromise((resolve, reject) => method(...given, (error, value) => error ? reject(error) : resolve(value)));
promisify.custom = Symbol.for("nodejs.util.promisify.custom");
const utilModule = {
  inspect, format, promisify, TextEncoder, TextDecoder, isDeepStrictEqual: (a, b) => sameDeep(a, b, true), deprecate: (method) => method,
  inherits(child, parent) { Object.setPrototypeOf(child.prototype, parent.prototype); },
  types: { isDate: (value) => takes(dateTime, value), isMap: (value) => takes(mapSize, value), isSet: (value) => takes(setSize, value), isRegExp: (value) => takes(regexpSource, value), isPromise: (value) => is(value, NativePromise), isTypedArray: (value) => typedTag(value) !== undefined },
};
inspect.custom = INSPECT;

class AssertionError extends NativeError {
  constructor({ message, actual, expected, operator }) { super(message); assign(this, { code: "ERR_ASSERTION", actual, expected, operator, generatedMessage: false }); }
  get name() { return "AssertionError"; }
}
const failed = (message, fallback, actual, expected, operator) => { if (is(message, NativeError)) throw message; throw new AssertionError({ message: message ?? fallback, actual, expected, operator }); };
const assertModule = (fine, message) => { if (!fine) failed(message, "The expression evaluated to a falsy value", fine, true, "=="); };
const matches = (error, expected) => expected === undefined || (typeof expected === "function" ? is(error, expected) || !expected.prototype && expected(error) === true : takes(regexpSource, expected) ? expected.test(`${error}`) : keysOf(expected).every((key) => takes(regexpSource, expected[key]) ? expected[key].test(error[key]) : sameDeep(error[key], expected[key], true)));
assign(assertModule, {
  ok: assertModule, AssertionError,
  equal: (a, b, message) => { if (!(a == b || a !== a && b !== b)) failed(message, `${inspect(a)} == ${inspect(b)}`, a, b, "=="); },
  notEqual: (a, b, message) => { if (a == b) failed(message, `${inspect(a)} != ${inspect(b)}`, a, b, "!="); },
  strictEqual: (a, b, message) => { if (!Object.is(a, b)) failed(message, `Expected values to be strictly equal:\n\n${inspect(a)} !== ${inspect(b)}\n`, a, b, "strictEqual"); },
  notStrictEqual: (a, b, message) => { if (Object.is(a, b)) failed(message, `Expected "actual" to be strictly unequal to: ${inspect(b)}`, a, b, "notStrictEqual"); },
  deepEqual: (a, b, message) => { if (!sameDeep(a, b, false)) failed(message, `Expected values to be loosely deep-equal:\n\n${inspect(a)}\n\nshould loosely deep-equal\n\n${inspect(b)}`, a, b, "deepEqual"); },
  deepStrictEqual: (a, b, message) => { if (!sameDeep(a, b, true)) failed(message, `Expected values to be strictly deep-equal:\n${inspect(a)}\n\nshould equal\n\n${inspect(b)}`, a, b, "deepStrictEqual"); },
  notDeepStrictEqual: (a, b, message) => { if (sameDeep(a, b, true)) failed(message, "Expected values not to be deep-equal", a, b, "notDeepStrictEqual"); },
  throws(run, expected, message) { try { run(); } catch (error) { if (!matches(error, typeof expected === "string" ? undefined : expected)) throw error; return; } failed(typeof expected === "string" ? expected : message, "Missing expected exception.", undefined, expected, "throws"); },
  doesNotThrow: (run) => { run(); },
  async rejects(run, expected, message) { try { await (typeof run === "function" ? run() : run); } catch (error) { if (!matches(error, expected)) throw error; return; } failed(message, "Missing expected rejection.", undefined, expected, "rejects"); },
  match: (text, pattern, message) => { if (!pattern.test(text)) failed(message, `The input did not match the regular expression ${pattern}. Input:\n\n${inspect(text)}\n`, text, pattern, "match"); },
  fail: (message) => failed(message, "Failed", undefined, undefined, "fail"),
});
assertModule.strict = assertModule;

// -- digests

const rotate = (value, by) => value >>> by | value << 32 - by;
const blocks = (bytes, big) => {
  const size = (bytes.length + 8 >> 6) + 1 << 6, whole = new NativeUint8Array(size), words = view(whole);
  whole.set(bytes);
  whole[bytes.length] = 0x80;
  words.setUint32(size - (big ? 4 : 8), bytes.length << 3, !big);
  words.setUint32(size - (big ? 8 : 4), floor(bytes.length / 0x20000000), !big);
  return words;
};
const out = (state, big) => { const bytes = new NativeUint8Array(4 * state.length), words = view(bytes); state.forEach((word, at) => words.setUint32(4 * at, word, !big)); return bytes; };
const roots = (power) => { const found = []; for (let n = 2; found.length < 64; n++) { let prime = true; for (let d = 2; d * d <= n; d++) if (n % d === 0) { prime = false; break; } if (prime) { const root = n ** (1 / power); found.push((root - floor(root)) * 0x100000000 | 0); } } return found; };
const CUBES = roots(3), SINES = arrayFrom({ length: 64 }, (_, at) => floor(Math.abs(Math.sin(at + 1)) * 0x100000000) | 0);
const rotate64 = (value, by) => value >> by | BigInt.asUintN(64, value << 64n - by);
// As many bits of the root's fraction as sha512 takes, for each of the first primes.
const roots64 = (power, most) => { const found = []; for (let n = 2n; found.length < most; n++) { let prime = true; for (let d = 2n; d * d <= n; d++) if (n % d === 0n) { prime = false; break; } if (!prime) continue; const target = n << 64n * power; let low = 0n, high = 1n << 70n; while (low < high) { const middle = low + high + 1n >> 1n; if (middle ** power > target) high = middle - 1n; else low = middle; } found.push(BigInt.asUintN(64, low)); } return found; };
let cubes64 = null;
const HASHES = {
  sha512(bytes) {
    cubes64 ??= roots64(3n, 80);
    const size = (bytes.length + 16 >> 7) + 1 << 7, whole = new NativeUint8Array(size), words = view(whole), state = roots64(2n, 8), w = new BigUint64Array(80), sum = (value) => BigInt.asUintN(64, value);
    whole.set(bytes);
    whole[bytes.length] = 0x80;
    words.setBigUint64(size - 8, BigInt(bytes.length) << 3n);
    for (let from = 0; from < size; from += 128) {
      for (let t = 0; t < 80; t++) w[t] = t < 16 ? words.getBigUint64(from + 8 * t) : (rotate64(w[t - 2], 19n) ^ rotate64(w[t - 2], 61n) ^ w[t - 2] >> 6n) + w[t - 7] + (rotate64(w[t - 15], 1n) ^ rotate64(w[t - 15], 8n) ^ w[t - 15] >> 7n) + w[t - 16];
      let [a, b, c, d, e, f, g, h] = state;
      for (let t = 0; t < 80; t++) {
        const one = h + (rotate64(e, 14n) ^ rotate64(e, 18n) ^ rotate64(e, 41n)) + (e & f ^ ~e & g) + cubes64[t] + w[t];
        const two = (rotate64(a, 28n) ^ rotate64(a, 34n) ^ rotate64(a, 39n)) + (a & b ^ a & c ^ b & c);
        h = g; g = f; f = e; e = sum(d + one); d = c; c = b; b = a; a = sum(one + two);
      }
      [a, b, c, d, e, f, g, h].forEach((value, at) => { state[at] = sum(state[at] + value); });
    }
    const digest = new NativeUint8Array(64);
    state.forEach((word, at) => view(digest).setBigUint64(8 * at, word));
    return digest;
  },
  sha256(bytes) {
    const words = blocks(bytes, true), state = roots(2).slice(0, 8), w = new Int32Array(64);
    for (let from = 0; from < words.byteLength; from += 64) {
      for (let t = 0; t < 64; t++) w[t] = t < 16 ? words.getInt32(from + 4 * t) : (rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >>> 10) + w[t - 7] + (rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >>> 3) + w[t - 16] | 0;
      let [a, b, c, d, e, f, g, h] = state;
      for (let t = 0; t < 64; t++) {
        const one = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (e & f ^ ~e & g) + CUBES[t] + w[t] | 0;
        const two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + (a & b ^ a & c ^ b & c) | 0;
        h = g; g = f; f = e; e = d + one | 0; d = c; c = b; b = a; a = one + two | 0;
      }
      [a, b, c, d, e, f, g, h].forEach((value, at) => { state[at] = state[at] + value | 0; });
    }
    return out(state, true);
  },
  sha1(bytes) {
    const words = blocks(bytes, true), state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0], w = new Int32Array(80);
    for (let from = 0; from < words.byteLength; from += 64) {
      for (let t = 0; t < 80; t++) w[t] = t < 16 ? words.getInt32(from + 4 * t) : rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 31);
      let [a, b, c, d, e] = state;
      for (let t = 0; t < 80; t++) {
        const mixed = t < 20 ? (b & c | ~b & d) + 0x5a827999 : t < 40 ? (b ^ c ^ d) + 0x6ed9eba1 : t < 60 ? (b & c | b & d | c & d) + 0x8f1bbcdc : (b ^ c ^ d) + 0xca62c1d6;
        const next = rotate(a, 27) + mixed + e + w[t] | 0;
        e = d; d = c; c = rotate(b, 2); b = a; a = next;
      }
      [a, b, c, d, e].forEach((value, at) => { state[at] = state[at] + value | 0; });
    }
    return out(state, true);
  },
  md5(bytes) {
    const words = blocks(bytes, false), state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
    const turns = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    for (let from = 0; from < words.byteLength; from += 64) {
      let [a, b, c, d] = state;
      for (let t = 0; t < 64; t++) {
        const round = t >> 4;
        const f = round === 0 ? b & c | ~b & d : round === 1 ? d & b | ~d & c : round === 2 ? b ^ c ^ d : c ^ (b | ~d);
        const word = words.getInt32(from + 4 * ([t, 5 * t + 1, 3 * t + 5, 7 * t][round] & 15), true);
        const sum = a + f + SINES[t] + word | 0;
        a = d; d = c; c = b; b = b + rotate(sum, 32 - turns[round][t & 3]) | 0;
      }
      [a, b, c, d].forEach((value, at) => { state[at] = state[at] + value | 0; });
    }
    return out(state, false);
  },
};
class Hash {
  #parts = []; #kind; #key;
  constructor(kind, key) { this.#kind = textLower(`${kind}`); this.#key = key; if (!hasOwn(HASHES, this.#kind)) throw new NativeError(`Digest method not supported: ${kind}; there are ${arrayJoin(keysOf(HASHES), ", ")}`); }
  update(data, encoding) { this.#parts.push(typeof data === "string" ? Buffer.from(data, encoding) : Buffer.from(data)); return this; }
  digest(encoding) {
    let bytes = Buffer.concat(this.#parts);
    const digest = HASHES[this.#kind];
    if (this.#key !== undefined) {
      let key = typeof this.#key === "string" ? Buffer.from(this.#key) : this.#key;
      const width = this.#kind === "sha512" ? 128 : 64;
      if (key.length > width) key = digest(key);
      const pad = (mask) => { const block = new NativeUint8Array(width).fill(mask); for (let at = 0; at < key.length; at++) block[at] ^= key[at]; return block; };
      bytes = Buffer.concat([pad(0x5c), digest(Buffer.concat([pad(0x36), bytes]))]);
    }
    const made = Buffer.from(digest(bytes));
    return encoding ? made.toString(encoding) : made;
  }
}
const cryptoModule = {
  ...crypto, webcrypto: crypto, createHash: (kind) => new Hash(kind), createHmac: (kind, key) => new Hash(kind, key), getHashes: () => keysOf(HASHES),
  randomBytes: (size) => Buffer.from(randomBytes(size)),
  randomInt(from, to) { if (to === undefined) { to = from; from = 0; } return from + floor(view(randomBytes(8)).getUint32(0) / 0x100000000 * (to - from)); },
};

const processModule = {
  argv: ["node", "code.js"], env: {}, platform: "wasi", arch: "wasm32", pid: 1, version: "v20.0.0", versions: { node: "20.0.0" }, exitCode: undefined,
  cwd: () => "/", uptime: () => performanceNow() / 1000, memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0 }),
  hrtime: assign((since) => { const now = seconds(), at = [floor(now), floor(now % 1 * 1e9)]; return since ? [at[0] - since[0] - (at[1] < since[1] ? 1 : 0), (at[1] - since[1] + 1e9) % 1e9] : at; }, { bigint: () => BigInt(floor(seconds() * 1e9)) }),
  nextTick: (callback, ...given) => queueMicrotask(() => callback(...given)),
  stdout: { write: (text) => { print(typeof text === "string" ? text : decodeUtf8(asBytes(text))); return true; }, isTTY: false, columns: 80 },
  stderr: { write: (text) => { print(typeof text === "string" ? text : decodeUtf8(asBytes(text))); return true; }, isTTY: false },
  on() { return processModule; }, once() { return processModule; }, emitWarning: (text) => log(`Warning: ${text}`),
  exit(code = 0) { throw new Exit(code); },
};
class Exit extends NativeError {
  constructor(code) { super(`the code called process.exit(${code})`); hide(this, "code", code); }
  get name() { return "Exit"; }
}
const sleep = (ms, value) => new NativePromise((resolve) => addTimer(() => resolve(value), ms, [], false));
const osModule = { EOL: "\n", platform: () => "wasi", cpus: () => [], totalmem: () => 0, freemem: () => 0, hostname: () => "localhost", tmpdir: () => ".", homedir: () => "." };
const library = {
  __proto__: null, fs: fsModule, "fs/promises": fsModule.promises, path: pathModule, util: utilModule, events: EventEmitter, assert: assertModule, "assert/strict": assertModule,
  buffer: { Buffer, atob, btoa }, crypto: cryptoModule, url: { URL, URLSearchParams, fileURLToPath: (url) => decodeURIComponent(textSlice(new URL(url).pathname, 1)), pathToFileURL: (path) => new URL(`file:///${path}`) },
  process: processModule, os: osModule, timers: { setTimeout: globals.setTimeout, setInterval: globals.setInterval, setImmediate: globals.setImmediate, clearTimeout: removeTimer, clearInterval: removeTimer },
  "timers/promises": { setTimeout: sleep, setImmediate: (value) => sleep(0, value) }, perf_hooks: { performance: globals.performance },
  querystring: {
    parse(text) { const given = new URLSearchParams(text), names = [...new NativeSet(given.keys())]; return Object.fromEntries(names.map((name) => { const all = given.getAll(name); return [name, all.length > 1 ? all : all[0]]; })); },
    stringify: (given) => entriesOf(given).flatMap(([name, value]) => (isArray(value) ? value : [value]).map((one) => `${encodeURIComponent(name)}=${encodeURIComponent(one ?? "")}`)).join("&"),
    escape: encodeURIComponent, unescape: decodeURIComponent },
  string_decoder: { StringDecoder: class StringDecoder { #decoder = new TextDecoder(); write(bytes) { return this.#decoder.decode(bytes, { stream: true }); } end(bytes) { return this.#decoder.decode(bytes); } } },
};
class ImportError extends NativeError {
  constructor(name) { super(`there is no module '${cut(name, 100)}' here`); this.code = "MODULE_NOT_FOUND"; }
  get name() { return "ImportError"; }
}
const require = (name) => {
  name = textStarts(`${name}`, "node:") ? textSlice(`${name}`, 5) : `${name}`;
  if (name in library) return library[name];
  if (regexpExec(/\.json$/, name) && fsModule.existsSync(name)) return parse(operations.readFile(name, "utf8"));
  throw new ImportError(name);
};
assign(globals, { fs: fsModule, Buffer, process: processModule, require, __dirname: ".", __filename: "./code.js", global: globalThis, console: consoleMethods });
