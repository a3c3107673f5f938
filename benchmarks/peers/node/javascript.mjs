// The host of a peer that runs untrusted JavaScript inside node: one line of JSON in, one out, as benchmarks/peers/host.py.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [home, peer, memory] = process.argv.slice(2);
const MEMORY_BYTES = Number(memory) << 20;
const STACK_BYTES = 1 << 20;

const lookup = (n) => n + 1; // the host's tool
const NAMES = Object.keys(console).filter((name) => typeof console[name] === "function");

function tell(message) {
  fs.writeSync(1, JSON.stringify(message) + "\n");
}

// quickjs-emscripten: a runtime of its own for each run, with its limits, as its README has it.
function quickjs(library) {
  let engine;
  return async (code, milliseconds) => {
    engine ??= await library.newQuickJSWASMModule();
    const runtime = engine.newRuntime();
    runtime.setMemoryLimit(MEMORY_BYTES);
    runtime.setMaxStackSize(STACK_BYTES);
    runtime.setInterruptHandler(library.shouldInterruptAfterDeadline(Date.now() + milliseconds));
    const context = runtime.newContext();
    const offer = (target, name, act) => {
      const made = context.newFunction(name, act);
      context.setProp(target, name, made);
      made.dispose();
    };
    try {
      offer(context.global, "lookup", (n) => context.newNumber(lookup(context.getNumber(n))));
      const console_ = context.newObject();
      for (const name of NAMES) offer(console_, name, () => {});
      context.setProp(context.global, "console", console_);
      console_.dispose();
      const value = context.unwrapResult(context.evalCode(code, "program.js"));
      runtime.executePendingJobs();
      const state = context.getPromiseState(value); // also of what is no promise
      if (state.type === "pending") throw new Error("the promise of the result is never kept");
      const kept = state.type === "rejected" ? state.error : state.value;
      const found = context.dump(kept);
      if (kept !== value) kept.dispose();
      value.dispose();
      if (state.type === "rejected") throw Object.assign(new Error(found.message), { name: found.name });
      return found;
    } finally {
      try {
        context.dispose();
        runtime.dispose();
      } catch (error) {
        engine = undefined; // the whole module has aborted
        throw error;
      }
    }
  };
}

// node:vm: a context of its own for each run.
async function inContext(code, milliseconds) {
  const console_ = Object.fromEntries(NAMES.map((name) => [name, () => {}]));
  const context = vm.createContext({ lookup, console: console_ });
  return await vm.runInContext(code, context, { filename: "program.js", timeout: milliseconds });
}

let run = inContext;

async function answer(request) {
  if (request.do === "available") return { missing: null, tool_program: null };
  if (request.do === "start") {
    if (peer === "quickjs-emscripten") {
      const entry = path.join(home, "node_modules/quickjs-emscripten/dist/index.mjs");
      const library = await import(pathToFileURL(entry).href);
      run = quickjs(library);
      await run("0", 10_000);
    }
    return { failed: null };
  }
  const given = Object.entries(request.inputs ?? {}).map(([name, value]) => `const ${name} = ${JSON.stringify(value)};\n`);
  const code = given.join("") + request.code;
  if (request.do === "burst") {
    const until = performance.now() + request.seconds * 1000;
    let count = 0;
    for (; performance.now() < until; count++) await run(code, 10_000);
    return { count };
  }
  const started = performance.now();
  const took = () => (performance.now() - started) / 1000;
  try {
    const value = (await run(code, request.timeout * 1000)) ?? null;
    return { status: "completed", seconds: took(), value, note: "" };
  } catch (error) {
    const note = `${error?.name}: ${error?.message}`.slice(0, 500);
    const over = /interrupted|timed out/.test(note);
    return { status: over ? "timeout" : "error", seconds: took(), value: null, note };
  }
}

tell({});
for await (const line of readline.createInterface({ input: process.stdin })) {
  try {
    tell(await answer(JSON.parse(line)));
  } catch (error) {
    tell({ failed: String(error), status: "crashed", value: null, note: String(error).slice(0, 500), seconds: 0 });
  }
}
