// Values as node's console shows them.
const WIDTH = 76, MOST_ITEMS = 100, MOST_TEXT = 10000, MOST_SHOWN = 200000;

const quote = (text) => {
  const escaped = textReplaceAll(textReplaceAll(textReplaceAll(textReplaceAll(textReplaceAll(text, "\\", "\\\\"), "\n", "\\n"), "\t", "\\t"), "\r", "\\r"), "\b", "\\b").replace(/[\x00-\x1f\x7f-\x9f]/g, (letter) => `\\x${hex([textCode(letter, 0)]).toUpperCase()}`);
  if (textIndex(text, "'") < 0) return `'${escaped}'`;
  if (textIndex(text, '"') < 0) return `"${escaped}"`;
  return textIndex(text, "`") < 0 && textIndex(text, "${") < 0 ? `\`${escaped}\`` : `'${textReplaceAll(escaped, "'", "\\'")}'`;
};
const keyText = (key) => typeof key === "symbol" ? `[${String(key)}]` : regexpExec(/^[A-Za-z_]\w*$/, key) ? key : quote(key);
const numberText = (value) => value === 0 && 1 / value < 0 ? "-0" : `${value}`;
const constructorName = (value) => {
  for (let at = value; at !== null; at = getPrototypeOf(at)) {
    const found = getOwnPropertyDescriptor(at, "constructor");
    if (found && typeof found.value === "function" && found.value.name !== "" && typeof found.value.name === "string") return found.value.name;
  }
  return null;
};

const inspect = (value, options) => {
  const context = { depth: 2, deepest: 0, indent: 0, above: [], size: 0, ...options };
  if (context.depth === null || context.depth === undefined) context.depth = Infinity;
  return inspectValue(context, value, 0, true);
};

const inspectValue = (context, value, level, top) => {
  switch (typeof value) {
    case "string":
      if (value.length > MOST_TEXT) return `${quote(textSlice(value, 0, MOST_TEXT))}... ${value.length - MOST_TEXT} more characters`;
      if (!top && context.compactText !== true && value.length > 16 && textIndex(value, "\n") >= 0 && value.length > WIDTH - context.indent - 4) {
        const lines = textSplit(value, /(?<=\n)/);
        let text = "";
        for (let at = 0; at < lines.length; at++) text += `${at ? ` +\n${textRepeat(" ", context.indent + 2)}` : ""}${quote(lines[at])}`;
        return text;
      }
      return quote(value);
    case "number": return numberText(value);
    case "bigint": return `${value}n`;
    case "symbol": return String(value);
    case "boolean": case "undefined": return `${value}`;
  }
  if (value === null) return "null";
  if (arrayHas(context.above, value)) return "[Circular *1]";
  if (context.size > MOST_SHOWN) return "...";
  const custom = value[INSPECT];
  if (typeof custom === "function" && custom !== inspect) {
    const shown = apply(custom, value, [context.depth - level, { ...context }, inspect]);
    return typeof shown === "string" ? shown : inspectValue(context, shown, level);
  }
  return inspectObject(context, value, level);
};
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

const inspectObject = (context, value, level) => {
  const name = constructorName(value);
  const tag = (() => { try { const found = value[Symbol.toStringTag]; return typeof found === "string" && found !== "" && found !== name ? ` [${found}]` : ""; } catch { return ""; } })();
  const prefix = (fallback, size) => {
    const shown = name === null ? `[${fallback}${size === undefined ? "" : `(${size})`}: null prototype]` : `${name}${size === undefined ? "" : `(${size})`}`;
    return name === fallback && size === undefined && fallback === "Object" ? tag ? `Object${tag} ` : "" : `${shown}${tag} `;
  };
  let keys = [], braces = ["{", "}"], base = "", items = null, isList = false;
  const own = ownKeys(value);
  for (let at = 0; at < own.length; at++) {
    const descriptor = getOwnPropertyDescriptor(value, own[at]);
    if (descriptor !== undefined && descriptor.enumerable) push(keys, own[at]);
  }
  const withoutIndexes = () => { const rest = []; for (let at = 0; at < keys.length; at++) if (typeof keys[at] === "symbol" || !regexpExec(/^(0|[1-9]\d*)$/, keys[at])) push(rest, keys[at]); keys = rest; };
  if (isArray(value)) {
    withoutIndexes();
    braces = [`${name === "Array" && !tag ? "" : prefix("Array", value.length)}[`, "]"];
    isList = true;
    items = () => listItems(context, value, value.length, level);
  } else if (takes(setSize, value)) {
    braces[0] = `${prefix("Set", setSize(value))}{`;
    items = () => { const out = []; setEach(value, (item) => push(out, inspectValue(context, item, level + 1))); return out; };
  } else if (takes(mapSize, value)) {
    braces[0] = `${prefix("Map", mapSize(value))}{`;
    items = () => { const out = []; mapEach(value, (item, key) => push(out, `${inspectValue(context, key, level + 1)} => ${inspectValue(context, item, level + 1)}`)); return out; };
  } else if (typedTag(value) !== undefined) {
    withoutIndexes();
    braces = [`${prefix(typedTag(value), typedLength(value))}[`, "]"];
    isList = true;
    items = () => listItems(context, value, typedLength(value), level);
  } else if (takes(bufferLength, value)) {
    const bytes = new NativeUint8Array(value);
    let text = "";
    for (let at = 0; at < min(50, bytes.length); at++) text += `${at ? " " : ""}${bytes[at] < 16 ? "0" : ""}${bytes[at].toString(16)}`;
    braces[0] = `${prefix("ArrayBuffer")}{`;
    items = () => [`[Uint8Contents]: <${text}>`, `byteLength: ${bytes.length}`];
  } else if (typeof value === "function") {
    const isClass = textStarts(functionText(value), "class");
    const kind = isClass ? "class" : name === null ? "Function" : name;
    const own = typeof value.name === "string" && value.name !== "" ? value.name : "(anonymous)";
    const parent = isClass ? getPrototypeOf(value) : null;
    base = isClass ? `[class ${own}${parent && parent.name ? ` extends ${parent.name}` : ""}]` : own === "(anonymous)" ? `[${kind} (anonymous)]` : `[${kind}: ${own}]`;
    if (!keys.length) return base;
  } else if (takes(regexpSource, value)) {
    base = `/${regexpSource(value)}/${regexpFlags(value)}`;
    if (!keys.length) return base;
  } else if (takes(dateTime, value)) {
    base = dateTime(value) === dateTime(value) ? dateIso(value) : "Invalid Date";
    if (!keys.length) return base;
  } else if (is(value, NativeError)) {
    base = errorText(value);
    const rest = [];
    for (let at = 0; at < keys.length; at++) if (keys[at] !== "stack" && keys[at] !== "message") push(rest, keys[at]);
    keys = rest;
    if (hasOwn(value, "cause") && !arrayHas(keys, "cause")) push(keys, "cause");
    if (hasOwn(value, "errors") && !arrayHas(keys, "errors")) push(keys, "errors");
    if (!keys.length) return base;
  } else if (is(value, NativePromise)) {
    braces[0] = `${prefix("Promise")}{`;
    items = () => ["<pending>"];
  } else if (is(value, WeakMap) || is(value, WeakSet)) {
    braces[0] = `${prefix(is(value, WeakMap) ? "WeakMap" : "WeakSet")}{`;
    items = () => ["<items unknown>"];
  } else if (takes(numberValue, value)) { base = `[Number: ${numberText(numberValue(value))}]`; if (!keys.length) return base; }
  else if (takes(textValue, value)) { withoutIndexes(); base = `[String: ${quote(textValue(value))}]`; if (!keys.length) return base; }
  else if (takes(booleanValue, value)) { base = `[Boolean: ${booleanValue(value)}]`; if (!keys.length) return base; }
  else {
    if (typeof value.next === "function" && regexpExec(/Generator$/, `${value[Symbol.toStringTag]}`)) braces[0] = `Object [${value[Symbol.toStringTag]}] {`;
    else braces[0] = `${prefix("Object")}{`;
    if (!keys.length) return `${braces[0]}}`;
  }
  if (level > context.depth) return `[${isArray(value) ? "Array" : name === null ? "Object: null prototype" : `${name}${tag}`}]`;
  push(context.above, value);
  context.deepest = level;
  context.indent += 2;
  const output = items === null ? [] : items();
  const listed = output.length;
  for (let at = 0; at < keys.length; at++) {
    const descriptor = getOwnPropertyDescriptor(value, keys[at]);
    let shown;
    if (descriptor === undefined) shown = "undefined";
    else if (descriptor.get !== undefined) shown = descriptor.set !== undefined ? "[Getter/Setter]" : "[Getter]";
    else if (descriptor.set !== undefined) shown = "[Setter]";
    else shown = inspectValue(context, descriptor.value, level + 1);
    push(output, arrayHas(["cause", "errors"], keys[at]) && !descriptor.enumerable ? `[${keys[at]}]: ${shown}` : `${keyText(keys[at])}: ${shown}`);
  }
  context.indent -= 2;
  context.above.length--;
  if (!output.length) return base || `${braces[0]}${braces[1]}`;
  const shown = layout(context, output, base, braces, isList && listed === output.length && listed > 6 ? value : null, level);
  context.size += shown.length;
  return textIndex(shown, "[Circular *1]") >= 0 && level === 0 && !textStarts(shown, "<ref") ? `<ref *1> ${shown}` : shown;
};

const listItems = (context, value, length, level) => {
  const out = [];
  let holes = 0, shown = 0, at = 0;
  const hole = () => { if (holes) { push(out, `<${holes} empty item${holes > 1 ? "s" : ""}>`); holes = 0; shown++; } };
  for (; at < length && shown < MOST_ITEMS; at++) {
    if (!hasOwn(value, at)) { holes++; continue; }
    hole();
    if (shown < MOST_ITEMS) { push(out, inspectValue(context, value[at], level + 1)); shown++; }
  }
  hole();
  if (at < length) push(out, `... ${length - at} more item${length - at > 1 ? "s" : ""}`);
  return out;
};

const errorText = (error) => {
  const head = `${error.name}${error.message ? `: ${error.message}` : ""}`;
  const stack = typeof error.stack === "string" ? textTrim(cleanStack(error.stack)) : "";
  return stack ? `${head}\n    ${stack}` : `[${head}]`;
};
const cleanStack = (stack) => {
  const lines = textSplit(stack, "\n"), kept = [];
  for (let at = 0; at < lines.length && kept.length < 10; at++) {
    const found = regexpExec(/^ *at (?:(.*?) \()?eval_script:(\d+):(\d+)\)?$/, lines[at]);
    if (found) push(kept, `    at ${found[1] === undefined || found[1] === "<eval>" ? "" : `${found[1]} (`}code.js:${found[2]}:${found[3]}${found[1] === undefined || found[1] === "<eval>" ? "" : ")"}`);
  }
  return arrayJoin(kept, "\n");
};

// On one line if it is short, in columns if it is a long list, else one line each.
const layout = (context, output, base, braces, list, level) => {
  const entries = output.length;
  if (list !== null && entries > 6) output = inColumns(context, output, list);
  const start = output.length + context.indent + braces[0].length + base.length + 10;
  if (entries === output.length && context.deepest - level < 3) {
    let total = output.length + start, lines = textIndex(base, "\n") >= 0;
    for (let at = 0; at < output.length; at++) { total += output[at].length; lines ||= textIndex(output[at], "\n") >= 0; }
    if (total <= 80 && !lines) return `${base ? `${base} ` : ""}${braces[0]} ${arrayJoin(output, ", ")} ${braces[1]}`;
  }
  const indent = `\n${textRepeat(" ", context.indent)}`;
  return `${base ? `${base} ` : ""}${braces[0]}${indent}  ${arrayJoin(output, `,${indent}  `)}${indent}${braces[1]}`;
};
const inColumns = (context, output, value) => {
  let total = 0, longest = 0, count = output.length;
  const more = textStarts(output[count - 1], "... ");
  if (more) count--;
  const widths = [];
  for (let at = 0; at < count; at++) {
    const width = output[at].length;
    push(widths, width);
    total += width + 2;
    longest = max(longest, width);
  }
  const actual = longest + 2;
  if (actual * 3 + context.indent >= 80 || !(total / actual > 5 || longest <= 6)) return output;
  const bias = max(actual - 3 - Math.sqrt(actual - total / output.length), 1);
  const columns = min(Math.round(Math.sqrt(2.5 * bias * count) / bias), floor((80 - context.indent) / actual), 12, 15);
  if (columns <= 1) return output;
  const lined = [];
  let numeric = true;
  for (let at = 0; at < count; at++) if (typeof value[at] !== "number" && typeof value[at] !== "bigint") numeric = false;
  const most = [];
  for (let column = 0; column < columns; column++) {
    let width = 0;
    for (let at = column; at < count; at += columns) width = max(width, widths[at]);
    push(most, width + 2);
  }
  for (let at = 0; at < count; at += columns) {
    const end = min(at + columns, count);
    let line = "";
    for (let index = at; index < end; index++) {
      const last = index === end - 1;
      const cell = last ? output[index] : `${output[index]}, `;
      const width = most[index - at];
      if (numeric) line += `${textRepeat(" ", max(0, (last ? width - 2 : width) - cell.length))}${cell}`;
      else line += last ? cell : textPad(cell, width);
    }
    push(lined, line);
  }
  if (more) push(lined, output[count]);
  return lined;
};

// A value that was made to break it is not shown; memory and stack that are out are told.
const shown = (value) => {
  try { return inspect(value); } catch (error) {
    if (is(error, NativeInternalError) || is(error, NativeRangeError)) throw error;
    return "[it can't be shown]";
  }
};

// What console.log prints: texts as they are, %-directives of the first.
const format = (...given) => {
  let text = "", at = 0;
  if (typeof given[0] === "string") {
    const first = given[0];
    at = 1;
    if (given.length === 1 || textIndex(first, "%") < 0) text = first;
    else for (let index = 0; index < first.length; index++) {
      const letter = first[index], next = first[index + 1];
      if (letter !== "%" || next === undefined) { text += letter; continue; }
      if (next === "%") { text += "%"; index++; continue; }
      if (!regexpExec(/[sdifjoOc]/, next) || at >= given.length) { text += letter; continue; }
      const value = given[at++];
      index++;
      if (next === "s") text += typeof value === "string" ? value : typeof value === "bigint" ? `${value}n` : value !== null && typeof value === "object" && !(is(value, NativeError)) ? inspect(value, { depth: 0 }) : typeof value === "number" ? numberText(value) : String(value);
      else if (next === "d") text += typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : numberText(Number(value));
      else if (next === "i") text += typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : numberText(parseInt(value));
      else if (next === "f") text += typeof value === "symbol" ? "NaN" : numberText(parseFloat(value));
      else if (next === "j") { try { text += stringify(value); } catch { text += "[Circular]"; } }
      else if (next === "o" || next === "O") text += inspect(value, { depth: next === "o" ? 4 : 2 });
    }
  }
  for (; at < given.length; at++) text += `${at ? " " : ""}${typeof given[at] === "string" ? given[at] : shown(given[at])}`;
  return text;
};
