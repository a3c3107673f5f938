// One run: compile, execute, encode. All of it here, in the guest; the host only passes text.
const LINGER = 1; // seconds that timers have after the code has its value
const run = { source: "", code: "", file: "code.js", language: "javascript", session: false, wrapped: create(null) };
const NO_DETAILS = '{"status":"error","error":{"kind":"Error","message":"(its details can\'t be shown)"}}\0\0';
const NO_ROOM = '{"status":"memory_limit"}\0\0';
let answer, result, main, lingering, limits, reserve = new ArrayBuffer(256 << 10);

const settle = (status, extra, text) => { answer = `{"status":"${status}"${extra}}\0${text}\0${fileText()}`; };
const fileText = () => {
  const names = keysOf(folder.nodes);
  if (!names.length) return "";
  let changed = "", kept = "", data = "";
  for (let at = 0; at < names.length; at++) {
    const node = folder.nodes[names[at]];
    if (node.changed) {
      const text = toBase64(node.data);
      changed += `${changed ? "," : ""}${stringify(names[at])}:${text.length}`;
      data += text;
    } else kept += `${kept ? "," : ""}${stringify(names[at])}`;
  }
  return `[{${changed}},[${kept}]]\0${data}`;
};
const fail = (error) => {
  if (answer !== undefined) return;
  try {
    if (isOutOfMemory(error)) return outOfMemory();
    if (is(error, Exit)) {
      if (!error.code) { result = "null"; return finish(); }
    }
    flush();
    settle("error", `,"error":${reportText(error)}`, "");
  } catch (problem) { if (isOutOfMemory(problem)) outOfMemory(); else answer = NO_DETAILS; }
};
const outOfMemory = () => {
  reserve = null;
  bridge.pending = create(null);
  bridge.timers = [];
  try { flush(); } catch { /* no room */ }
  answer = NO_ROOM;
};
const attachBytes = (data) => `{"file":${stringify(addFile("result", fileEnding(data), data))},"bytes":${data.length}}`;
// The code has its value: what it is, as text. Timers may still run for a while.
const complete = (value) => {
  result = encodeResult(value, attachBytes);
  for (let at = 0; at < bridge.made.length; at++) {
    const call = bridge.made[at];
    if (call.used || call.done && call.error === undefined) continue;
    if (call.error !== undefined) throw call.error;
    const error = new ForgottenAwait(`tools.${call.name} was called but never awaited, so nobody knows how it ended: write \`await tools.${call.name}(…)\``);
    hide(error, "stack", call.stack);
    throw error;
  }
  if (bridge.timers.length) lingering = seconds() + LINGER;
  else finish();
};
const finish = () => {
  flush();
  const size = result.length * 3 > (limits.result ?? Infinity) ? bytesOf(result) : result.length;
  if (limits.result !== null && size > limits.result) {
    if (limits.cut) settle("completed", `,"size":${size}`, stringify(textWell(textSlice(result, 0, floor(limits.result / 6)))));
    else settle("result_limit", `,"size":${size}`, "");
  } else settle("completed", "", result);
};

// -- compiling

const compiles = (source) => { try { new AsyncFunction(source); return true; } catch { return false; } };
const importModule = (name, whole) => { const found = require(name); return whole && found && typeof found === "object" && hasOwn(found, "default") ? found.default : found; };
const loadModule = async (name) => { const found = require(name); return typeof found === "object" ? { default: found, ...found } : { default: found }; };
// Code with a `return` at its top level is the body of a function, which returns its last expression as well.
const asFunction = (source) => {
  const lines = textSplit(source, "\n"), head = "(async()=>{";
  run.wrapped[1] = head.length;
  for (let at = lines.length - 1; at >= max(0, lines.length - 60); at--) {
    if (!textTrim(lines[at]) || regexpExec(/^\s*(?:\/\/|[)}\]]|return\b|throw\b|const\b|let\b|var\b|function\b|class\b|if\b|for\b|while\b|try\b|switch\b)/, lines[at])) { if (regexpExec(/^\s*(?:return|throw)\b/, lines[at])) break; continue; }
    let before = "", tail = "";
    for (let index = 0; index < lines.length; index++) if (index < at) before += `${lines[index]}\n`; else tail += `${index > at ? "\n" : ""}${lines[index]}`;
    tail = textReplace(tail, /;\s*$/, "");
    if (compiles(before) && compiles(`return (${tail}\n)`)) {
      run.wrapped[at + 1] = (run.wrapped[at + 1] ?? 0) + 8;
      return `${head}${before}return (${tail}\n)})()`;
    }
    break;
  }
  return `${head}${source}\n})()`;
};
// The promise of the code's value. Throws what is wrong with the source.
const begin = (source) => {
  if (textIndex(source, "\0") >= 0) throw new NativeSyntaxError("source code can't contain null bytes");
  if (textStarts(source, "#!")) source = `//${textSlice(source, 2)}`;
  if (regexpExec(/(?<![\w$.])import\s*\(/, source)) try { source = stripTypes(source); } catch { /* what is wrong with it is told below */ }
  run.code = source;
  let promise = evaluate(source);
  if (!isArray(promise)) return promise;
  let problem = promise[0];
  if (regexpExec(/\b(?:import|export)\b/, source)) {
    let changed = source;
    try { changed = stripTypes(source); } catch { /* the engine's words are told */ }
    if (changed !== source) {
      source = changed;
      promise = evaluate(source);
      if (!isArray(promise)) return promise;
      problem = promise[0];
    }
  }
  if (regexpExec(/\breturn\b/, source) && regexpExec(/return not in a function/i, promise[0].message)) {
    promise = evaluate(asFunction(source));
    if (!isArray(promise)) return promise;
    if (regexpExec(/return not in a function/i, promise[0].message)) run.wrapped = create(null);
    else throw promise[0];
  }
  throw problem;
};

// -- the two entries of the adapter

const TOUCH = `const items = [{ id: 1, tags: ["a", "b"] }, { id: 2, tags: [] }];
const byId = new Map(items.map((item) => [item.id, item]));
let total = 0;
for (const [id, item] of byId) total += id * item.tags.length;
class Point { constructor(x, y) { this.x = x; this.y = y; } norm() { return Math.hypot(this.x, this.y); } }
const text = JSON.stringify(items).replace(/"id"/g, '"key"').split(",").map((part) => part.trim()).join(";");
async function later(value) { await null; return { ...value, at: new Date(0).toISOString() }; }
try { null.x } catch (error) { total += error.message.length; }
const values = await Promise.all([later({ n }), later({ text })]);
({ values, total, norm: new Point(3, 4).norm(), sorted: [3, 1, 2].sort((a, b) => a - b) })`;
// As the host writes them, with limits of as many digits: what a run allocates, and so where, depends on that.
const requestFor = (source, inputs = {}, tools = [], code = null, entry = null) => stringify({ source, code, stdout: 262144, call_bytes: 4194304, call_values: 20971, result_bytes: 1048576, file_bytes: 16777216, entry, examine: null, cut: false, language: "javascript", fresh: true, session: false, seed: "1000000000000000001", marked: false, inputs, files: {}, tools });

// An expression, a composed tool, a tool call, and a program: a run that is like one of them takes no page fault.
const TOOL = "/** About it. */\nexport function f(n: number): number { return 2 * n; }\n";
const TOUCHES = `${requestFor("1+2")}\n${requestFor(TOOL, { n: 1 }, [], stringify(prepareTool(TOOL)), "f")}\n${requestFor("const found = await tools.a.b({ q: n });\nfound", { n: 1 }, ["a.b"])}\n${requestFor(TOUCH, { n: 1 }, ["a.b"])}`;

const start = (text) => {
  answer = result = lingering = undefined;
  main = undefined;
  if (!text) { answer = TOUCHES; return; }
  let request;
  try { request = parse(text); } catch (error) { answer = `{"status":"error","error":{"kind":"InputError","message":${stringify(`the inputs can't be read: ${error.message}`)}}}\0\0`; return; }
  try {
    prepare(request);
    main = drive(request);
  } catch (error) { fail(error); }
};
const prepare = (request) => {
  assign(run, { source: request.source, code: request.source, language: request.language, session: request.session, wrapped: create(null), file: request.language === "typescript" ? "code.ts" : "code.js" });
  limits = { result: request.result_bytes, cut: request.cut };
  resetOutput(request.stdout);
  resetBridge(request);
  if (request.fresh) {
    resetFiles(request.files, request.file_bytes);
    started = null;
    hide(Math, "random", seededRandom(request.seed));
  } else { folder.limit = request.file_bytes; addFiles(request.files); }
  hide(globalThis, "module", { exports: {} });
  hide(globalThis, "exports", globalThis.module.exports);
  hide(require, "main", globalThis.module);
  if (request.examine === null && request.marked) revived(request.inputs);
  if (request.examine === null && request.entry === null) {
    const names = keysOf(request.inputs);
    for (let at = 0; at < names.length; at++)
      if (!defineProperty(globalThis, names[at], { __proto__: null, value: request.inputs[names[at]], writable: true, enumerable: true, configurable: true })) throw new InputError(`'${names[at]}' can't be the name of an input here`);
  }
};
const drive = async (request) => {
  try {
    if (request.examine !== null) return await examine(request);
    if (request.entry !== null) return complete(await callAt(request));
    const source = request.code ?? (request.language === "typescript" ? stripTypes(request.source) : request.source);
    let value = (await begin(source)).value;
    if (value !== null && (typeof value === "object" || typeof value === "function")) value = await value;
    complete(value);
  } catch (error) { fail(error); }
};
// The source as the file of a tool: what its one exported function returns.
const callAt = async (request) => {
  const prepared = request.code === null ? prepareTool(request.source) : parse(request.code);
  await begin(prepared.code);
  return await callEntry(prepared, request.inputs);
};
const examine = async (request) => {
  const { examine: what, source, entry, inputs, language } = request;
  let value = null;
  if (what === "code") keep(textWell(entry === null ? stripTypes(source) : stringify(prepareTool(source))));
  else if (what === "interface") { const tool = readTool(source); await begin(tool.code); value = describeTool(tool); }
  else if (what === "function") value = asFunctionNamed(source, entry, inputs.doc, language);
  else if (what === "tool") value = asTool(inputs, entry, language);
  else if (what === "shapes") value = suggestTools(inputs, language);
  else throw new NativeError(`${what} is not known for ${language}`);
  result = encodeResult(value);
  finish();
};

// There is no job left to run: the answer, or one step to it.
const idle = () => {
  try {
    if (answer === undefined) step();
  } catch (error) { fail(error); }
  if (answer === undefined) return null;
  const text = answer;
  answer = undefined;
  return text;
};
const step = () => {
  if (lingering !== undefined) {
    const timer = nextTimer();
    if (timer === undefined || timer.when > lingering) return finish();
  }
  if (runTimer()) return;
  if (bridge.timers.length) cross(max(0, nextTimer().when - seconds()));
  else if (bridge.waiting) cross(-1);
  else fail(new Deadlock("the code waits for something that can never happen: no tool call or timer is left"));
};

for (const name of keysOf(globals)) hide(globalThis, name, globals[name]);
delete globalThis.setup;
hide(globalThis, "tools", toolAt(""));
hide(globalThis, "__import", importModule);
hide(globalThis, "_load_", loadModule);
hide(consoleMethods, Symbol.toStringTag, "console");
resetBridge({ tools: [], call_bytes: null, call_values: null });
return { start, idle };
