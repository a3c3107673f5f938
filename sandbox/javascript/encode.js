// Values to JSON text; what has no such form is named by its path.
const MAX_DEPTH = 200;

class NotEncodable extends TypeError {
  get name() { return "NotEncodable"; }
}

const kindOf = (value) => {
  if (typeof value === "function") return "a function";
  if (typeof value === "symbol") return "a symbol";
  let name;
  try { name = value.constructor.name; } catch { /* theirs */ }
  return `a value of type ${typeof name === "string" && name ? cut(name, 100) : "Object"}`;
};

const member = (path, key) =>
  path + (typeof key === "number" ? `[${key}]` : regexpExec(/^[A-Za-z_$][\w$]*$/, key) ? `.${key}` : `[${stringify(textWell(cut(key, 100)))}]`);

class Encoder {
  values = 0;
  above = [];
  attached = []; // the same bytes are one file
  deepest;
  marks; // whether bytes are written as bytes: tools take them
  attach; // what stands for bytes that are no text: they are files of the run
  constructor(deepest, marks = false, attach = null) { this.deepest = deepest; this.marks = marks; this.attach = attach; }

  text(value, path) {
    if (!textIsWell(value)) throw new NotEncodable(`${path}: text with a lone surrogate can't be encoded as JSON; it is not valid Unicode`);
    return stringify(value);
  }

  // JSON of the value, or undefined for what JSON leaves out.
  encode(value, path, key) {
    this.values++;
    switch (typeof value) {
      case "string": return this.text(value, path);
      case "number": return value - value === 0 ? stringify(value) : "null";
      case "boolean": return value ? "true" : "false";
      case "undefined": return undefined;
      case "bigint": return bigintText(value);
      case "function": case "symbol":
        throw new NotEncodable(`${path}: ${kindOf(value)} can't be encoded as JSON`);
    }
    if (value === null) return "null";
    const { above } = this;
    for (let at = above.length - 1; at >= 0; at--)
      if (above[at] === value) throw new NotEncodable(`${path}: a value that contains itself can't be encoded as JSON`);
    if (above.length >= this.deepest)
      throw new NotEncodable(`${cut(path, 200)}: nested more than ${this.deepest} levels deep, which can't be encoded`);
    push(above, value);
    const text = this.composite(value, path, key);
    above.length--;
    return text;
  }

  composite(value, path, key) {
    if (isArray(value)) return this.list(value, value.length, path);
    const prototype = getPrototypeOf(value);
    if (prototype !== objectPrototype && prototype !== null) {
      const text = this.special(value, path);
      if (text !== NONE) return text;
    }
    const toJson = value.toJSON;
    if (typeof toJson === "function") return this.encode(apply(toJson, value, [key ?? ""]), path, key);
    if (typeof value.then === "function" && is(value, NativePromise))
      throw new NotEncodable(`${path}: a promise can't be encoded as JSON; await it`);
    return this.members(value, path);
  }

  members(value, path) {
    let text = "";
    const keys = keysOf(value);
    for (let at = 0; at < keys.length; at++) {
      const key = keys[at];
      const inner = this.encode(value[key], typeof path === "string" ? member(path, key) : path, key);
      if (inner !== undefined) text += `${text ? "," : ""}${this.text(key, path)}:${inner}`;
    }
    return `{${text}}`;
  }

  list(value, length, path) {
    let text = "";
    for (let at = 0; at < length; at++) text += `${at ? "," : ""}${this.encode(value[at], member(path, at), at) ?? "null"}`;
    return `[${text}]`;
  }

  bytes(data, value) {
    if (fileEnding(data) === "bin") try { return stringify(decodeUtf8(data, true, true)); } catch { /* no text */ }
    for (let at = 0; at < this.attached.length; at++) if (this.attached[at].value === value) return this.attached[at].text;
    const text = this.attach(data);
    push(this.attached, { value, text });
    return text;
  }

  special(value, path) {
    if (takes(dateTime, value)) return dateTime(value) === dateTime(value) ? stringify(dateIso(value)) : "null";
    if (takes(mapSize, value)) {
      let text = "";
      mapEach(value, (item, key) => {
        if (typeof key === "object" && key !== null && !takes(dateTime, key) || typeof key === "function" || typeof key === "symbol")
          throw new NotEncodable(`${path}: a key that is ${kindOf(key)} can't be encoded as JSON; use a string`);
        const name = takes(dateTime, key) ? dateIso(key) : `${key}`;
        text += `${text ? "," : ""}${this.text(name, path)}:${this.encode(item, member(path, name), name) ?? "null"}`;
      });
      return `{${text}}`;
    }
    if (takes(setSize, value)) {
      let text = "", at = 0;
      setEach(value, (item) => { text += `${at ? "," : ""}${this.encode(item, member(path, at++)) ?? "null"}`; });
      return `[${text}]`;
    }
    if (this.marks && is(value, NativeUint8Array)) return `{"$bytes":"${toBase64(value)}"}`;
    const bytes = this.attach === null ? null : bytesMeant(value);
    if (bytes !== null) return this.bytes(bytes, value);
    if (typedTag(value) !== undefined) return this.list(value, typedLength(value), path);
    if (takes(bufferLength, value)) return this.list(new NativeUint8Array(value), bufferLength(value), path);
    if (takes(regexpSource, value)) return this.text(`/${regexpSource(value)}/${regexpFlags(value)}`, path);
    if (takes(numberValue, value)) return this.encode(numberValue(value), path);
    if (takes(textValue, value)) return this.encode(textValue(value), path);
    if (takes(booleanValue, value)) return this.encode(booleanValue(value), path);
    if (is(value, NativeError)) {
      const text = this.members(value, path);
      return `{"name":${this.text(`${value.name}`, path)},"message":${this.text(`${value.message}`, path)}${text === "{}" ? "" : `,${textSlice(text, 1, -1)}`}}`;
    }
    if (is(value, NativePromise)) throw new NotEncodable(`${path}: a promise can't be encoded as JSON; await it`);
    if (typeof value.next === "function" && typeof value[Symbol.iterator] === "function") {
      let text = "", at = 0;
      for (;;) {
        const step = value.next();
        if (step.done) return `[${text}]`;
        text += `${at ? "," : ""}${this.encode(step.value, member(path, at++)) ?? "null"}`;
      }
    }
    if (typeof value.next === "function" && typeof value[Symbol.asyncIterator] === "function")
      throw new NotEncodable(`${path}: an async iterator can't be encoded as JSON; take its items with \`for await\``);
    if (is(value, WeakMap) || is(value, WeakSet) || is(value, WeakRef)) throw new NotEncodable(`${path}: ${kindOf(value)} can't be encoded as JSON`);
    return NONE;
  }
}

const NONE = freeze({});
const encodeResult = (value, attach = null) => new Encoder(MAX_DEPTH, false, attach).encode(value, "result") ?? "null";

// What a file begins with, as latin-1, and how its name ends.
const FILE_KINDS = [
  [/^\x89PNG\r\n\x1a\n/, "png"], [/^\xff\xd8\xff/, "jpg"], [/^GIF8/, "gif"], [/^%PDF-/, "pdf"], [/^ID3/, "mp3"], [/^OggS/, "ogg"],
  [/^fLaC/, "flac"], [/^PK\x03\x04/, "zip"], [/^RIFF[^]{4}WEBP/, "webp"], [/^RIFF[^]{4}WAVE/, "wav"],
  [/^\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!DOCTYPE svg[^>]{0,300}>\s*)?<svg[\s>]/, "svg"],
];
const fileEnding = (data) => {
  let head = "";
  for (let at = 0; at < data.length && at < 1024; at++) head += fromCode(data[at]);
  for (let at = 0; at < FILE_KINDS.length; at++) if (regexpExec(FILE_KINDS[at][0], head)) return FILE_KINDS[at][1];
  return "bin";
};
// The bytes that a value of a result stands for. A Uint8Array may as well be numbers: only one that begins like a file is bytes.
const bytesMeant = (value) => {
  if (takes(bufferLength, value)) return new NativeUint8Array(value);
  if (typedTag(value) !== "Uint8Array") return null;
  const data = new NativeUint8Array(value);
  return is(value, Buffer) || fileEnding(data) !== "bin" ? data : null;
};

// A value from JSON, with bytes where they are meant. What only looks like that is left as it is.
const revived = (value) => {
  if (value === null || typeof value !== "object") return value;
  if (!isArray(value) && typeof value.$bytes === "string") {
    try { return Buffer.from(fromBase64(NativeUint8Array, value.$bytes)); } catch { return value; }
  }
  const keys = keysOf(value);
  for (let at = 0; at < keys.length; at++) {
    const inner = value[keys[at]];
    if (inner !== null && typeof inner === "object") defineProperty(value, keys[at], { __proto__: null, value: revived(inner), writable: true, enumerable: true, configurable: true });
  }
  return value;
};
