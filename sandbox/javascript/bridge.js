// The one door to the host: calls of tools and what is given up go out, completions come in. And timers, which wait there.
const BURST = 256, MAX_LABEL = 200, CHECKPOINT = "<checkpoint>";
const bridge = { names: [], first: 0, callBytes: null, callValues: null };

class ToolError extends NativeError {
  constructor(message = "", tool = "", kind = "ToolError") {
    super(tool ? `${tool}: ${message}` : message);
    hide(this, "tool", tool);
    hide(this, "kind", kind);
    hide(this, "detail", message);
  }
  get name() { return "ToolError"; }
}

const resetBridge = (request) => {
  bridge.names = request.tools;
  bridge.first = request.tools[0] === "<search>" ? 1 : 0; // that the host answers questions about tools is no tool
  bridge.callBytes = request.call_bytes;
  bridge.callValues = request.call_values;
  bridge.nextId = 0;
  bridge.calls = [];
  bridge.cancelled = [];
  bridge.queued = bridge.queuedValues = 0;
  bridge.pending = create(null);
  bridge.waiting = 0;
  bridge.timers = [];
  bridge.nextTimer = 0;
  bridge.made = [];
};

// One crossing: hand over what is queued, then wait that many seconds (-1: for ever) for a completion.
const cross = (wait) => {
  let body = "";
  if (bridge.calls.length || bridge.cancelled.length) {
    const given = [], left = [];
    for (let at = 0; at < bridge.cancelled.length; at++) push(at < BURST ? given : left, bridge.cancelled[at]);
    body = `[[${arrayJoin(bridge.calls, ",")}],[${arrayJoin(given, ",")}]]`;
    bridge.calls = [];
    bridge.cancelled = left;
    bridge.queued = bridge.queuedValues = 0;
    if (bridge.cancelled.length) wait = 0;
  }
  const text = exchange(`${wait}\n${body}`), at = textIndex(text, "\n") + 1;
  if (at === text.length) return;
  const marked = textIndex(text, '"$bytes"') >= 0, completions = parse(textSlice(text, at));
  for (let index = 0; index < completions.length; index++) {
    const id = completions[index][0], ok = completions[index][1], value = completions[index][2];
    const call = bridge.pending[id];
    if (call === undefined) continue;
    delete bridge.pending[id];
    bridge.waiting--;
    call.done = true;
    if (ok) call.resolve(marked ? revived(value) : value);
    else {
      call.error = new ToolError(value.message, call.name, value.kind);
      hide(call.error, "stack", call.stack);
      call.reject(call.error);
    }
  }
};

const queue = (name, positional, named, what) => {
  const encoder = new Encoder(MAX_DEPTH - 2, true);
  const given = `${encoder.list(positional, positional.length, what)},${encoder.members(named, what)}`;
  const id = ++bridge.nextId;
  const text = `[${id},${encoder.text(name, what)},${given}]`, size = bridge.callBytes !== null && text.length * 3 > bridge.callBytes ? bytesOf(text) : text.length;
  if (bridge.callBytes !== null && size > bridge.callBytes)
    throw new ToolError(`its arguments are ${size} bytes long; max_call_bytes=${bridge.callBytes}`, name, "ArgumentsTooLarge");
  if (bridge.callValues !== null && encoder.values > bridge.callValues)
    throw new ToolError(`its arguments are about ${encoder.values} values; at most ${bridge.callValues} are accepted: send them in parts, or as a text`, name, "ArgumentsTooLarge");
  if (bridge.calls.length && (bridge.calls.length >= BURST || bridge.callBytes !== null && bridge.queued + size > bridge.callBytes ||
      bridge.callValues !== null && bridge.queuedValues + encoder.values > bridge.callValues)) cross(0);
  push(bridge.calls, text);
  bridge.queued += size;
  bridge.queuedValues += encoder.values;
  return id;
};

const isNamed = (value) => {
  if (value === null || typeof value !== "object" || isArray(value)) return false;
  const prototype = getPrototypeOf(value);
  return prototype === null || prototype === objectPrototype || !takes(dateTime, value) && !takes(mapSize, value) && !takes(setSize, value) && typedTag(value) === undefined;
};

const callTool = (name, given) => {
  let signal;
  if (given.length === 2 && is(given[1], AbortSignal)) { signal = given[1]; given = [given[0]]; }
  else if (given.length === 2 && given[1] !== null && typeof given[1] === "object" && is(given[1].signal, AbortSignal)) { signal = given[1].signal; given = [given[0]]; }
  if (signal !== undefined && signal.aborted) return NativePromise.reject(signal.reason);
  const named = given.length === 1 && isNamed(given[0]);
  const call = { name, stack: new NativeError().stack, used: false, done: false, error: undefined };
  const id = queue(name, named ? [] : given, named ? given[0] : {}, `arguments of tools.${name}`);
  const promise = new NativePromise((resolve, reject) => { call.resolve = resolve; call.reject = reject; });
  // `await`, `then` and `Promise.all` all look at this: so a call that nobody waits for is known.
  defineProperty(promise, "constructor", { __proto__: null, get() { call.used = true; return NativePromise; }, configurable: true });
  bridge.pending[id] = call;
  bridge.waiting++;
  push(bridge.made, call);
  if (signal !== undefined) signal.addEventListener("abort", () => {
    if (bridge.pending[id] !== call) return;
    delete bridge.pending[id];
    bridge.waiting--;
    call.done = true;
    push(bridge.cancelled, id);
    call.reject(signal.reason);
  });
  return promise;
};

const isTool = (name) => { for (let at = bridge.first; at < bridge.names.length; at++) if (bridge.names[at] === name) return true; return false; };
const toolsUnder = (prefix) => {
  const found = [];
  for (let at = bridge.first; at < bridge.names.length; at++)
    if (textStarts(bridge.names[at], prefix)) {
      const name = textSplit(textSlice(bridge.names[at], prefix.length), ".")[0];
      if (!arrayHas(found, name)) push(found, name);
    }
  return found;
};

// What `tools` itself answers, where no tool that is granted has the name.
const OWN = {
  search(given) { const named = isNamed(given[0]) ? given[0] : { words: given[0], ...(isNamed(given[1]) ? given[1] : {}) }; return callTool("<search>", [{ words: "", namespace: null, limit: 10, language: "typescript", ...named }]); },
  describe(given) { return callTool("<describe>", [{ language: "typescript", ...(isNamed(given[0]) ? given[0] : { ...(isNamed(given[1]) ? given[1] : {}), name: typeof given[0] === "function" ? textSlice(given[0][Symbol.toStringTag], 6) : given[0] }) }]); },
  call(given) {
    if (typeof given[0] !== "string") throw new TypeError("tools.call takes the full name of a tool, then its arguments");
    const rest = [];
    for (let at = 1; at < given.length; at++) push(rest, given[at]);
    return callTool(given[0], rest);
  },
};

// What every function has. What is no tool has only what shows it: `tools` has a `call` of its own.
const OF_FUNCTIONS = {
  __proto__: null, call: () => Function.prototype.call, apply: () => Function.prototype.apply, bind: () => Function.prototype.bind,
  name: (name) => name || "tools", toString: (name) => () => name ? `tools.${name}(…)` : "tools", valueOf: () => function valueOf() { return this; },
};

const isLeft = (name, key) => {
  const whole = name ? `${name}.${key}` : key;
  return (isTool(name) || key === "name" || key === "toString" || key === "valueOf") && !isTool(whole) && !toolsUnder(`${whole}.`).length;
};

// `tools.<name>(…)` and `tools.<namespace>.<name>(…)`: whatever is asked for, the host decides.
const toolAt = (name) => {
  const parts = create(null);
  const target = () => {};
  delete target.name;
  delete target.length;
  return new Proxy(target, {
    get(_, key) {
      if (key === Symbol.toStringTag) return name ? `tools.${name}` : "tools";
      if (key === "then" && !isTool(name ? `${name}.then` : "then")) return undefined;
      if (typeof key !== "string" || key === "toJSON") return undefined;
      if (hasOwn(OF_FUNCTIONS, key) && isLeft(name, key)) return OF_FUNCTIONS[key](name);
      return parts[key] ??= toolAt(name ? `${name}.${key}` : key);
    },
    has: (_, key) => typeof key === "string" && arrayHas(toolsUnder(name ? `${name}.` : ""), key),
    ownKeys: () => toolsUnder(name ? `${name}.` : ""),
    getOwnPropertyDescriptor(_, key) {
      return typeof key === "string" && arrayHas(toolsUnder(name ? `${name}.` : ""), key) ? { value: parts[key] ??= toolAt(name ? `${name}.${key}` : key), enumerable: true, configurable: true, writable: false } : undefined;
    },
    apply(_, __, given) {
      if (hasOwn(OWN, name) && !isTool(name)) return OWN[name](given);
      if (!name) throw new TypeError("tools is not a tool: call tools.<name>(…)");
      return callTool(name, given);
    },
    construct() { throw new TypeError(`tools.${name} is called without new`); },
    set() { throw new TypeError("tools can't be changed"); },
    defineProperty() { throw new TypeError("tools can't be changed"); },
    deleteProperty() { throw new TypeError("tools can't be changed"); },
    getPrototypeOf: () => Function.prototype,
    setPrototypeOf() { throw new TypeError("tools can't be changed"); },
    preventExtensions() { throw new TypeError("tools can't be changed"); },
  });
};

const checkpoint = (label, value = null) => {
  if (typeof label !== "string") throw new TypeError(`a checkpoint's label is text, not ${typeof label}`);
  if (label.length < 1 || label.length > MAX_LABEL) throw new NativeRangeError(`a checkpoint's label has 1 to ${MAX_LABEL} characters, not ${label.length}`);
  queue(CHECKPOINT, [label, value], {}, "arguments of checkpoint");
  cross(0);
};

// -- timers

const addTimer = (callback, delay, given, repeats) => {
  if (typeof callback !== "function") throw new TypeError('The "callback" argument must be of type function.');
  let ms = +delay;
  if (!(ms >= 1 && ms <= 2147483647)) ms = 1;
  const timer = { id: ++bridge.nextTimer, when: seconds() + ms / 1000, callback, given, every: repeats ? ms / 1000 : 0 };
  placeTimer(timer);
  return new Timeout(timer.id);
};
const placeTimer = (timer) => {
  const { timers } = bridge;
  let at = timers.length;
  while (at > 0 && timers[at - 1].when > timer.when) at--;
  insertAt(timers, at, timer);
};
const removeTimer = (handle) => {
  const id = handle !== null && typeof handle === "object" ? timeoutIds(handle) : +handle;
  for (let at = 0; at < bridge.timers.length; at++)
    if (bridge.timers[at].id === id) { removeAt(bridge.timers, at); return; }
};
class Timeout {
  #id;
  constructor(id) { this.#id = id; }
  ref() { return this; }
  unref() { return this; }
  hasRef() { return true; }
  close() { removeTimer(this); return this; }
  [Symbol.toPrimitive]() { return this.#id; }
  static id(handle) { return #id in handle ? handle.#id : NaN; }
}
const timeoutIds = Timeout.id;
delete Timeout.id;

// Not by its index alone: a prototype may have one of that name.
const nextTimer = () => bridge.timers.length ? bridge.timers[0] : undefined;
// Run the first timer, if it is due.
const runTimer = () => {
  const timer = nextTimer();
  if (timer === undefined || timer.when > seconds()) return false;
  arrayShift(bridge.timers);
  if (timer.every) { timer.when = seconds() + timer.every; placeTimer(timer); }
  apply(timer.callback, undefined, timer.given);
  return true;
};
