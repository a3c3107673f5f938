// What our code uses of the language, taken before any code of a run could replace it.
const { apply, ownKeys, getPrototypeOf, defineProperty, getOwnPropertyDescriptor } = Reflect;
const uncurry = (method) => (self, ...given) => apply(method, self, given);
const getter = (prototype, name) => uncurry(getOwnPropertyDescriptor(prototype, name).get);
const { parse, stringify } = JSON;
const { isArray, from: arrayFrom } = Array;
const { keys: keysOf, hasOwn, freeze, create, assign, entries: entriesOf } = Object;
const { min, max, floor, imul } = Math;
const NativePromise = Promise, NativeError = Error, NativeUint8Array = Uint8Array, NativeDate = Date;
const NativeInternalError = InternalError, NativeMap = Map, NativeSet = Set, NativeSyntaxError = SyntaxError, NativeRangeError = RangeError;
const AsyncFunction = (async () => {}).constructor;
const arrayJoin = uncurry(Array.prototype.join), arraySort = uncurry(Array.prototype.sort), arrayHas = uncurry(Array.prototype.includes), arrayShift = uncurry(Array.prototype.shift);
const objectPrototype = Object.prototype;
const textSlice = uncurry(String.prototype.slice), textIndex = uncurry(String.prototype.indexOf);
const textSplit = uncurry(String.prototype.split), textRepeat = uncurry(String.prototype.repeat);
const textCode = uncurry(String.prototype.charCodeAt), textTrim = uncurry(String.prototype.trim);
const textWell = uncurry(String.prototype.toWellFormed), textIsWell = uncurry(String.prototype.isWellFormed);
const textStarts = uncurry(String.prototype.startsWith), textLower = uncurry(String.prototype.toLowerCase);
const textReplaceAll = uncurry(String.prototype.replaceAll), textPad = uncurry(String.prototype.padEnd);
const regexpExec = uncurry(RegExp.prototype.exec);
const isInstance = uncurry(Function.prototype[Symbol.hasInstance]);
const functionText = uncurry(Function.prototype.toString);
const dateTime = uncurry(Date.prototype.getTime), dateIso = uncurry(Date.prototype.toISOString);
const mapSize = getter(Map.prototype, "size"), mapEach = uncurry(Map.prototype.forEach);
const setSize = getter(Set.prototype, "size"), setEach = uncurry(Set.prototype.forEach);
const regexpSource = getter(RegExp.prototype, "source"), regexpFlags = getter(RegExp.prototype, "flags");
const TypedArray = getPrototypeOf(Uint8Array);
const typedTag = getter(TypedArray.prototype, Symbol.toStringTag), typedLength = getter(TypedArray.prototype, "length");
const bufferLength = getter(ArrayBuffer.prototype, "byteLength");
const fromBase64 = uncurry(Uint8Array.fromBase64), toBase64 = uncurry(Uint8Array.prototype.toBase64);
const numberValue = uncurry(Number.prototype.valueOf), textValue = uncurry(String.prototype.valueOf);
const booleanValue = uncurry(Boolean.prototype.valueOf), bigintText = uncurry(BigInt.prototype.toString);
const clockNow = performance.now, clock = performance;
const seconds = () => apply(clockNow, clock, []) / 1000;

// Descriptors have no prototype: one with a `get` would change what they say.
const push = (list, value) => { defineProperty(list, list.length, { __proto__: null, value, writable: true, enumerable: true, configurable: true }); };
// Not by `splice` or `slice`, which ask an array's constructor, or by an index that a prototype could catch.
const removeAt = (list, at) => { for (; at + 1 < list.length; at++) list[at] = list[at + 1]; list.length--; };
const insertAt = (list, at, value) => { push(list, value); for (let to = list.length - 1; to > at; to--) list[to] = list[to - 1]; list[at] = value; };
const is = (value, constructor) => { try { return isInstance(constructor, value); } catch { return false; } };
// Whether a method that belongs to one kind of object takes this one.
const takes = (method, value) => { try { method(value); return true; } catch { return false; } };
const hide = (target, name, value) => defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
// How many bytes of UTF-8 a text is; at most three for each unit of it.
const bytesOf = (text) => {
  if (regexpExec(/[^\0-\x7f]/, text) === null) return text.length;
  let size = text.length;
  for (let at = text.length - 1; at >= 0; at--) {
    const code = textCode(text, at);
    if (code > 0x7f) size += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
  }
  return size;
};
const cut = (text, most) => text.length <= most ? text : `${textSlice(text, 0, most)}… [${text.length - most} more characters]`;
