// What programs expect of a JavaScript runtime beside the language: texts and bytes, URLs, clones, randomness, signals.
const encodeUtf8 = (text) => {
  text = textWell(`${text}`);
  const bytes = new NativeUint8Array(bytesOf(text));
  let to = 0;
  for (let at = 0; at < text.length; at++) {
    let code = textCode(text, at);
    if (code < 0x80) { bytes[to++] = code; continue; }
    if (code < 0x800) bytes[to++] = 0xc0 | code >> 6;
    else {
      if (code >= 0xd800 && code < 0xdc00) {
        code = 0x10000 + ((code & 0x3ff) << 10 | textCode(text, ++at) & 0x3ff);
        bytes[to++] = 0xf0 | code >> 18;
        bytes[to++] = 0x80 | code >> 12 & 0x3f;
      } else bytes[to++] = 0xe0 | code >> 12;
      bytes[to++] = 0x80 | code >> 6 & 0x3f;
    }
    bytes[to++] = 0x80 | code & 0x3f;
  }
  return bytes;
};
const fromCode = String.fromCharCode, fromPoint = String.fromCodePoint;
const decodeUtf8 = (bytes, fatal = false, keepMark = false) => {
  const parts = [];
  let text = "", at = !keepMark && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  while (at < bytes.length) {
    const byte = bytes[at];
    if (byte < 0x80) { text += fromCode(byte); at++; }
    else {
      const more = byte >= 0xc2 && byte <= 0xdf ? 1 : byte >= 0xe0 && byte <= 0xef ? 2 : byte >= 0xf0 && byte <= 0xf4 ? 3 : 0;
      let code = byte & (0x3f >> more), read = 0;
      const least = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80, most = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
      while (read < more && bytes[at + read + 1] >= (read ? 0x80 : least) && bytes[at + read + 1] <= (read ? 0xbf : most)) code = code << 6 | bytes[at + ++read] & 0x3f;
      if (more && read === more) text += fromPoint(code);
      else if (fatal) throw new TypeError("The encoded data was not valid for encoding utf-8");
      else text += "\ufffd";
      at += read + 1;
    }
    if (text.length > 4096) { push(parts, text); text = ""; }
  }
  return arrayJoin(parts, "") + text;
};
class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(text = "") { return encodeUtf8(text); }
  encodeInto(text, target) {
    text = textWell(`${text}`);
    let read = 0, written = 0;
    while (read < text.length) {
      const code = textCode(text, read), pair = code >= 0xd800 && code < 0xdc00, size = pair ? 4 : code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
      if (written + size > target.length) break;
      read += pair ? 2 : 1;
      written += size;
    }
    target.set(encodeUtf8(textSlice(text, 0, read)));
    return { read, written };
  }
}
class TextDecoder {
  #kind; #fatal; #keep; #left = [];
  constructor(label = "utf-8", options = {}) {
    const name = textLower(`${label}`);
    this.#kind = { "utf-8": "utf-8", utf8: "utf-8", "utf-16le": "utf-16le", "utf-16": "utf-16le", latin1: "windows-1252", "iso-8859-1": "windows-1252", ascii: "windows-1252", "windows-1252": "windows-1252" }[name];
    if (this.#kind === undefined) throw new NativeRangeError(`The "${label}" encoding is not supported`);
    this.#fatal = !!options.fatal;
    this.#keep = !!options.ignoreBOM;
  }
  get encoding() { return this.#kind; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#keep; }
  decode(data, options = {}) {
    let bytes = data === undefined ? new NativeUint8Array(0) : asBytes(data);
    if (this.#left.length) { const whole = new NativeUint8Array(this.#left.length + bytes.length); whole.set(this.#left); whole.set(bytes, this.#left.length); bytes = whole; this.#left = []; }
    if (options.stream && this.#kind === "utf-8") {
      let end = bytes.length;
      for (let back = 1; back <= min(3, bytes.length); back++) { const byte = bytes[bytes.length - back]; if (byte >= 0xc0) { if (back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2)) end = bytes.length - back; break; } if (byte < 0x80) break; }
      for (let at = end; at < bytes.length; at++) push(this.#left, bytes[at]);
      bytes = bytes.subarray(0, end);
    }
    if (this.#kind === "utf-8") return decodeUtf8(bytes, this.#fatal, this.#keep);
    let text = "";
    if (this.#kind === "utf-16le") for (let at = 0; at + 1 < bytes.length; at += 2) text += fromCode(bytes[at] | bytes[at + 1] << 8);
    else for (let at = 0; at < bytes.length; at++) text += fromCode(bytes[at]);
    return text;
  }
}

// -- URLs

const PORTS = { __proto__: null, "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
const percent = (text, keep) => { let out = ""; for (const letter of textWell(text)) out += regexpExec(keep, letter) ? letter : letter.codePointAt(0) < 128 ? `%${textCode(letter, 0).toString(16).toUpperCase().padStart(2, "0")}` : encodeURIComponent(letter); return out; };
const PATH = /^[\w\-.~!$&'()*+,;=:@%/\[\]|^\\]$/, QUERY = /^[\w\-.~!$&()*+,;=:@%/?\[\]|^\\{}`]$/, HASH = /^[\w\-.~!$&'()*+,;=:@%/?\[\]|^\\{}#]$/, USER = /^[\w\-.~!$&'()*+,%]$/;
const badUrl = (text) => { const error = new TypeError("Invalid URL"); error.code = "ERR_INVALID_URL"; error.input = text; return error; };
const formDecode = (text) => { text = textReplaceAll(text, "+", " "); try { return decodeURIComponent(text); } catch { return textReplace(text, /(?:%[0-9a-f]{2})+/gi, (run) => { try { return decodeURIComponent(run); } catch { return run; } }); } };
const formEncode = (text) => textReplaceAll(textReplace(encodeURIComponent(textWell(text)), /[!'()~]/g, (letter) => `%${textCode(letter, 0).toString(16).toUpperCase()}`), "%20", "+");
class URLSearchParams {
  #list = []; #changed = () => {};
  constructor(given = "") {
    if (given !== null && typeof given === "object") {
      if (typeof given[Symbol.iterator] === "function") for (const pair of given) { const [name, value] = pair; push(this.#list, [`${name}`, `${value}`]); }
      else for (const name of keysOf(given)) push(this.#list, [name, `${given[name]}`]);
    } else this.#read(`${given}`);
  }
  #read(text) {
    this.#list = [];
    if (textStarts(text, "?")) text = textSlice(text, 1);
    for (const part of textSplit(text, "&")) if (part) {
      const at = textIndex(part, "=");
      push(this.#list, at < 0 ? [formDecode(part), ""] : [formDecode(textSlice(part, 0, at)), formDecode(textSlice(part, at + 1))]);
    }
  }
  static bind(params, text, changed) { if (text !== undefined) params.#read(text); params.#changed = changed; return params; }
  append(name, value) { push(this.#list, [`${name}`, `${value}`]); this.#changed(); }
  delete(name, value) { this.#list = this.#list.filter((pair) => pair[0] !== `${name}` || value !== undefined && pair[1] !== `${value}`); this.#changed(); }
  get(name) { return this.#list.find((pair) => pair[0] === `${name}`)?.[1] ?? null; }
  getAll(name) { return this.#list.filter((pair) => pair[0] === `${name}`).map((pair) => pair[1]); }
  has(name, value) { return this.#list.some((pair) => pair[0] === `${name}` && (value === undefined || pair[1] === `${value}`)); }
  set(name, value) {
    const at = this.#list.findIndex((pair) => pair[0] === `${name}`);
    if (at < 0) push(this.#list, [`${name}`, `${value}`]);
    else { this.#list[at][1] = `${value}`; this.#list = this.#list.filter((pair, index) => index <= at || pair[0] !== `${name}`); }
    this.#changed();
  }
  sort() { this.#list.sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0); this.#changed(); }
  forEach(callback, self) { for (const [name, value] of this.#list) apply(callback, self, [value, name, this]); }
  get size() { return this.#list.length; }
  *entries() { for (const [name, value] of this.#list) yield [name, value]; }
  *keys() { for (const [name] of this.#list) yield name; }
  *values() { for (const [, value] of this.#list) yield value; }
  [Symbol.iterator]() { return this.entries(); }
  toString() { return this.#list.map(([name, value]) => `${formEncode(name)}=${formEncode(value)}`).join("&"); }
  [INSPECT]() { return `URLSearchParams {${this.#list.length ? ` ${this.#list.map(([name, value]) => `${quote(name)} => ${quote(value)}`).join(", ")} ` : ""}}`; }
}
const bindParams = URLSearchParams.bind;
delete URLSearchParams.bind;
class URL {
  #scheme = ""; #user = ""; #secret = ""; #host = null; #port = ""; #path = ""; #query = ""; #hash = ""; #params;
  constructor(text, base) {
    text = textTrim(`${text}`);
    if (base !== undefined) base = base instanceof URL ? base : new URL(base);
    this.#read(textReplace(text, /[\t\n\r]/g, ""), base, text);
    this.#params = bindParams(new URLSearchParams(this.#query), undefined, () => { const query = `${this.#params}`; this.#query = query && `?${query}`; });
  }
  #read(text, base, given) {
    let found = regexpExec(/^([a-zA-Z][a-zA-Z0-9+.-]*:)([^]*)$/, text);
    let rest = text;
    if (found) {
      this.#scheme = textLower(found[1]);
      rest = found[2];
      if (base && base.#scheme === this.#scheme && this.#scheme in PORTS && !regexpExec(/^[/\\]/, rest)) found = null;
    }
    const hash = textIndex(rest, "#");
    if (hash >= 0) { this.#hash = hash + 1 < rest.length ? `#${percent(textSlice(rest, hash + 1), HASH)}` : ""; rest = textSlice(rest, 0, hash); }
    const query = textIndex(rest, "?");
    if (query >= 0) { this.#query = query + 1 < rest.length ? `?${percent(textSlice(rest, query + 1), QUERY)}` : ""; rest = textSlice(rest, 0, query); }
    if (!found) {
      if (!base) throw badUrl(given);
      this.#scheme = base.#scheme;
      if (base.#host === null && !(this.#scheme in PORTS) && !textStarts(base.#path, "/")) { if (rest || query >= 0) throw badUrl(given); }
    }
    const special = this.#scheme in PORTS;
    if (special) rest = textReplaceAll(rest, "\\", "/");
    if (found && special && this.#scheme !== "file:") rest = `//${textReplace(rest, /^\/*/, "")}`;
    if (textStarts(rest, "//")) {
      const end = rest.indexOf("/", 2);
      this.#authority(textSlice(rest, 2, end < 0 ? rest.length : end), special, given);
      rest = end < 0 ? "" : textSlice(rest, end);
    } else if (!found) {
      this.#user = base.#user; this.#secret = base.#secret; this.#host = base.#host; this.#port = base.#port;
      if (rest === "") { this.#path = base.#path; if (query < 0) this.#query = base.#query; return; }
      if (!textStarts(rest, "/")) rest = textSlice(base.#path, 0, base.#path.lastIndexOf("/") + 1) + rest;
    } else if (!special && !textStarts(rest, "/")) { this.#path = rest; return; }
    else if (this.#scheme === "file:") this.#host = "";
    this.#path = dotless(percent(rest, PATH), special || this.#host !== null);
  }
  #authority(text, special, given) {
    const at = text.lastIndexOf("@");
    if (at >= 0) { const [user, ...secret] = textSplit(textSlice(text, 0, at), ":"); this.#user = percent(user, USER); this.#secret = percent(secret.join(":"), USER); text = textSlice(text, at + 1); }
    const found = regexpExec(/^(\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(?::(\d*))?$/, text);
    if (!found || special && this.#scheme !== "file:" && !found[1]) throw badUrl(given);
    let host = found[1];
    if (special) { try { host = textLower(decodeURIComponent(host)); } catch { throw badUrl(given); } }
    if (regexpExec(/[\s#/<>?@\\^|%]/, host) || special && regexpExec(/[^\x20-\x7e]/, host)) throw badUrl(given);
    if (found[2] && +found[2] > 65535) throw badUrl(given);
    this.#host = host;
    this.#port = found[2] === undefined || found[2] === "" || `${+found[2]}` === PORTS[this.#scheme] ? "" : `${+found[2]}`;
  }
  static canParse(text, base) { try { new URL(text, base); return true; } catch { return false; } }
  static parse(text, base) { try { return new URL(text, base); } catch { return null; } }
  get protocol() { return this.#scheme; }
  set protocol(value) { const found = regexpExec(/^([a-zA-Z][a-zA-Z0-9+.-]*):?$/, `${value}`); if (found) this.#scheme = `${textLower(found[1])}:`; }
  get username() { return this.#user; }
  set username(value) { this.#user = percent(`${value}`, USER); }
  get password() { return this.#secret; }
  set password(value) { this.#secret = percent(`${value}`, USER); }
  get hostname() { return this.#host ?? ""; }
  set hostname(value) { this.#host = textLower(`${value}`); }
  get port() { return this.#port; }
  set port(value) { this.#port = `${value}` === PORTS[this.#scheme] ? "" : `${value}`; }
  get host() { return this.hostname + (this.#port && `:${this.#port}`); }
  set host(value) { this.#authority(`${value}`, this.#scheme in PORTS, value); }
  get origin() { return this.#scheme in PORTS && this.#scheme !== "file:" ? `${this.#scheme}//${this.host}` : "null"; }
  get pathname() { return this.#path; }
  set pathname(value) { this.#path = dotless(percent(textStarts(`${value}`, "/") ? `${value}` : `/${value}`, PATH), true); }
  get search() { return this.#query; }
  set search(value) { value = `${value}`; this.#query = value === "" || value === "?" ? "" : percent(textStarts(value, "?") ? value : `?${value}`, QUERY); bindParams(this.#params, this.#query, () => { const query = `${this.#params}`; this.#query = query && `?${query}`; }); }
  get searchParams() { return this.#params; }
  get hash() { return this.#hash; }
  set hash(value) { value = `${value}`; this.#hash = value === "" || value === "#" ? "" : percent(textStarts(value, "#") ? value : `#${value}`, HASH); }
  get href() {
    const user = this.#user || this.#secret ? `${this.#user}${this.#secret && `:${this.#secret}`}@` : "";
    return `${this.#scheme}${this.#host === null ? "" : `//${user}${this.host}`}${this.#path}${this.#query}${this.#hash}`;
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
  [INSPECT]() { return `URL ${inspect({ href: this.href, origin: this.origin, protocol: this.protocol, username: this.username, password: this.password, host: this.host, hostname: this.hostname, port: this.port, pathname: this.pathname, search: this.search, searchParams: this.searchParams, hash: this.hash })}`; }
}
const dotless = (path, rooted) => {
  const kept = [], parts = textSplit(path, "/");
  for (let at = rooted && textStarts(path, "/") ? 1 : 0; at < parts.length; at++) {
    const part = parts[at], last = at === parts.length - 1, plain = textLower(textReplaceAll(part, "%2e", "."));
    if (plain === "..") { if (kept.length) kept.length--; if (last) push(kept, ""); } else if (plain === ".") { if (last) push(kept, ""); } else push(kept, part);
  }
  return (rooted ? "/" : "") + arrayJoin(kept, "/");
};

// -- clones

const cloneError = (value) => new DOMException(`${typeof value === "function" ? cut(functionText(value), 100) : typeof value === "symbol" ? String(value) : "#<Object>"} could not be cloned.`, "DataCloneError");
const clone = (value, seen) => {
  if (typeof value === "function" || typeof value === "symbol") throw cloneError(value);
  if (value === null || typeof value !== "object") return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => { seen.set(value, copy); return copy; };
  if (isArray(value)) { const copy = keep(new Array(value.length)); for (const key of keysOf(value)) copy[key] = clone(value[key], seen); return copy; }
  if (takes(dateTime, value)) return keep(new NativeDate(dateTime(value)));
  if (takes(mapSize, value)) { const copy = keep(new NativeMap()); mapEach(value, (item, key) => copy.set(clone(key, seen), clone(item, seen))); return copy; }
  if (takes(setSize, value)) { const copy = keep(new NativeSet()); setEach(value, (item) => copy.add(clone(item, seen))); return copy; }
  if (takes(regexpSource, value)) return keep(new RegExp(regexpSource(value), regexpFlags(value)));
  if (takes(bufferLength, value)) return keep(value.slice(0));
  if (typedTag(value) !== undefined) return keep(new globalThis[typedTag(value)](value));
  if (is(value, DataView)) return keep(new DataView(value.buffer.slice(0), value.byteOffset, value.byteLength));
  if (takes(numberValue, value) || takes(textValue, value) || takes(booleanValue, value)) return keep(Object(value.valueOf()));
  if (is(value, NativeError)) {
    const kinds = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
    const copy = keep(new (hasOwn(kinds, value.name) ? kinds[value.name] : NativeError)(value.message));
    if (hasOwn(value, "cause")) hide(copy, "cause", clone(value.cause, seen));
    return copy;
  }
  if (is(value, NativePromise) || is(value, WeakMap) || is(value, WeakSet) || is(value, WeakRef)) throw cloneError(value);
  const copy = keep({});
  for (const key of keysOf(value)) defineProperty(copy, key, { __proto__: null, value: clone(value[key], seen), writable: true, enumerable: true, configurable: true });
  return copy;
};

// -- events and signals

class Event {
  constructor(type, options = {}) { this.type = `${type}`; this.cancelable = !!options.cancelable; this.defaultPrevented = false; this.timeStamp = seconds() * 1000; this.target = null; }
  preventDefault() { if (this.cancelable) this.defaultPrevented = true; }
  stopPropagation() {}
  stopImmediatePropagation() { this.stopped = true; }
}
class CustomEvent extends Event { constructor(type, options = {}) { super(type, options); this.detail = options.detail ?? null; } }
class EventTarget {
  #listeners = [];
  addEventListener(type, listener, options = {}) { if (listener && !this.#listeners.some((one) => one.type === type && one.listener === listener)) push(this.#listeners, { type: `${type}`, listener, once: typeof options === "object" && !!options.once }); }
  removeEventListener(type, listener) { this.#listeners = this.#listeners.filter((one) => one.type !== `${type}` || one.listener !== listener); }
  dispatchEvent(event) {
    event.target = event.currentTarget = this;
    for (const one of this.#listeners.filter((one) => one.type === event.type)) {
      if (one.once) this.removeEventListener(one.type, one.listener);
      typeof one.listener === "function" ? apply(one.listener, this, [event]) : one.listener.handleEvent(event);
      if (event.stopped) break;
    }
    const handler = this[`on${event.type}`];
    if (typeof handler === "function") apply(handler, this, [event]);
    return !event.defaultPrevented;
  }
}
const SIGNALS = freeze({});
class AbortSignal extends EventTarget {
  #aborted = false; #reason;
  constructor(key) { super(); if (key !== SIGNALS) throw new TypeError("Illegal constructor"); }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  throwIfAborted() { if (this.#aborted) throw this.#reason; }
  static fire(signal, reason = new DOMException("This operation was aborted", "AbortError")) {
    if (signal.#aborted) return;
    signal.#aborted = true;
    signal.#reason = reason;
    signal.dispatchEvent(new Event("abort"));
  }
  static abort(reason) { const signal = new AbortSignal(SIGNALS); fireSignal(signal, reason); return signal; }
  static timeout(ms) { const signal = new AbortSignal(SIGNALS); addTimer(() => fireSignal(signal, new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms, [], false); return signal; }
  static any(signals) { const signal = new AbortSignal(SIGNALS); for (const one of signals) { if (one.aborted) { fireSignal(signal, one.reason); break; } one.addEventListener("abort", () => fireSignal(signal, one.reason)); } return signal; }
}
const fireSignal = AbortSignal.fire;
delete AbortSignal.fire;
class AbortController {
  #signal = new AbortSignal(SIGNALS);
  get signal() { return this.#signal; }
  abort(reason) { fireSignal(this.#signal, reason); }
}

// -- randomness and clocks: both come from the host, so that a run can be replayed

const MOST_RANDOM = 65536;
const randomBytes = (size) => {
  if (size > MOST_RANDOM) throw new DOMException(`no more than ${MOST_RANDOM} random bytes at once`, "QuotaExceededError");
  return random(textRepeat("x", size));
};
const hex = (bytes) => { let text = ""; for (let at = 0; at < bytes.length; at++) text += (bytes[at] < 16 ? "0" : "") + bytes[at].toString(16); return text; };
const crypto = {
  getRandomValues(array) {
    const tag = typedTag(array);
    if (tag === undefined || textStarts(tag, "Float")) throw new TypeError("an integer typed array is needed");
    const bytes = asBytes(array);
    bytes.set(randomBytes(bytes.length));
    return array;
  },
  randomUUID() {
    const bytes = randomBytes(16);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    const text = hex(bytes);
    return `${textSlice(text, 0, 8)}-${textSlice(text, 8, 12)}-${textSlice(text, 12, 16)}-${textSlice(text, 16, 20)}-${textSlice(text, 20)}`;
  },
  subtle: {
    async digest(algorithm, data) { return new Uint8Array(new Hash(textReplace(`${algorithm?.name ?? algorithm}`, "-", "")).update(asBytes(data)).digest()).buffer; },
  },
};
// Math.random's own state would be the same in every run: each gets one from its seed.
const seededRandom = (seed) => {
  let a = 0, b = 0x243f6a88, c = 0xb7e15162, d = 1;
  const next = () => { const t = (a + b | 0) + d | 0; d = d + 1 | 0; a = b ^ b >>> 9; b = c + (c << 3) | 0; c = (c << 21 | c >>> 11) + t | 0; return t >>> 0; };
  const begin = () => {
    a = 0x9e3779b9;
    for (let at = 0; at < seed.length; at++) a = imul(a ^ textCode(seed, at), 0x85ebca6b) ^ a >>> 13;
    for (let at = 0; at < 15; at++) next();
  };
  return function random() { if (seed !== null) { begin(); seed = null; } return (next() * 2097152 + (next() >>> 11)) / 9007199254740992; };
};
let started = null;
const performanceNow = () => { const now = seconds(); started ??= now; return (now - started) * 1000; };

// The engine's own ends by a `return` that iterators of arrays do not have.
const taken = function* (iterator, next, most) {
  for (let count = 0; count < most; count++) { const step = apply(next, iterator, []); if (step.done) return; yield step.value; }
  try { iterator.return?.(); } catch (error) { if (!is(error, TypeError)) throw error; }
};
hide(Iterator.prototype, "take", function take(most) {
  const count = +most;
  if (!(count >= 0)) throw new NativeRangeError(`${most} must be positive`);
  return taken(this, this.next, Math.trunc(count));
});

// A frame of a stack has no function here, as in strict code elsewhere: it could be one of ours.
Error.prepareStackTrace = (_, frames) => { const site = getPrototypeOf(frames[0]); hide(site, "getFunction", function getFunction() {}); hide(site, "getThis", function getThis() {}); };
void new Error().stack;
Error.prepareStackTrace = undefined;

// The engine's own gives numbers below zero.
hide(BigInt, "asUintN", function asUintN(bits, value) { return BigInt.asIntN(bits, value) & (1n << BigInt(bits)) - 1n; });

const globals = {
  TextEncoder, TextDecoder, URL, URLSearchParams, Event, CustomEvent, EventTarget, AbortController, AbortSignal, ToolError,
  structuredClone: function structuredClone(value) { return clone(value, new NativeMap()); },
  setTimeout: function setTimeout(callback, delay, ...given) { return addTimer(callback, delay, given, false); },
  setInterval: function setInterval(callback, delay, ...given) { return addTimer(callback, delay, given, true); },
  setImmediate: function setImmediate(callback, ...given) { return addTimer(callback, 0, given, false); },
  clearTimeout: removeTimer, clearInterval: removeTimer, clearImmediate: removeTimer,
  crypto, checkpoint,
  performance: { now: performanceNow, get timeOrigin() { return NativeDate.now() - performanceNow(); }, mark() {}, measure() {} },
};
