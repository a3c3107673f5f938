// What went wrong, for the one who wrote the code: their own frames only, the line, and a hint.
const MAX_FRAMES = 20;

class ForgottenAwait extends NativeError { get name() { return "ForgottenAwait"; } }
class Deadlock extends NativeError { get name() { return "Deadlock"; } }
class InputError extends NativeError { get name() { return "InputError"; } }

const textOf = (value, most = 4000) => { try { return textWell(cut(`${value}`, most)); } catch { return "(it can't be shown)"; } };
const isOutOfMemory = (error) => { try { return is(error, NativeInternalError) && (textStarts(error.message, "out of memory") || error.message === "string too long"); } catch { return false; } };

// Where in the code an error comes from: [line, column, function], innermost first.
const framesOf = (error) => {
  const frames = [];
  let stack;
  try { stack = error.stack; } catch { /* theirs */ }
  if (typeof stack !== "string") return frames;
  const lines = textSplit(cut(stack, 20000), "\n");
  for (let at = 0; at < lines.length && frames.length < 1000; at++) {
    const found = regexpExec(/^ *at (?:(.*?) \()?eval_script:(\d{1,9})(?::(\d{1,9}))?\)?$/, lines[at]);
    if (found) push(frames, place(+found[2], found[3] === undefined ? 1 : +found[3], found[1]));
  }
  return frames;
};
// From what was evaluated to what was written.
const place = (line, column, name) => {
  if (run.wrapped[line] !== undefined) column = max(1, column - run.wrapped[line]);
  return [line, column, name === undefined || name === "<eval>" ? "" : textReplaceAll(name, "<anonymous>", "(anonymous)")];
};

// The engine notes no place for a property that is read: it is the next one of that name after the place it has.
const sharpen = (message, frame, lines) => {
  const found = regexpExec(/^cannot (?:read|set) property '(.{1,100})' of (?:undefined|null)$/, message) ?? regexpExec(/^'(.{1,100})' is read-only$/, message);
  if (!found || frame === undefined) return frame;
  const name = textReplace(found[1], /[.*+?^${}()|[\]\\]/g, "\\$&");
  const patterns = regexpExec(/read-only/, message)
    ? [`\\b${name}\\s*(?:[-+*/%&|^]|\\*\\*|<<|>>>?|&&|\\|\\||\\?\\?)?=(?!=)|\\b${name}(?:\\+\\+|--)|(?:\\+\\+|--)${name}\\b`]
    : [`(?<!\\?)\\.\\s*${name}(?![\\w$])|\\[\\s*(['"\`])${name}\\1\\s*\\]`, "[\\w$)\\]]\\[[^\\]]+\\]"];
  for (let index = 0; index < patterns.length; index++)
    for (let line = frame[0]; line <= min(lines.length, frame[0] + 60); line++) {
      const text = lines[line - 1], skip = line === frame[0] ? frame[1] - 1 : 0;
      const hit = regexpExec(new RegExp(patterns[index]), textSlice(text, skip));
      if (hit && !textStarts(textTrim(text), "//")) return [line, skip + hit.index + (textStarts(hit[0], ".") ? 2 : 1), frame[2]];
    }
  return frame;
};

const distance = (a, b) => {
  let row = [];
  for (let at = 0; at <= b.length; at++) push(row, at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) push(next, min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length];
};
const nearest = (name, names) => {
  let best, least = max(1, floor(name.length / 3)) + 1;
  for (let at = 0; at < names.length && at < 2000; at++) {
    if (Math.abs(names[at].length - name.length) >= least) continue;
    const apart = distance(textLower(cut(name, 60)), textLower(cut(names[at], 60)));
    if (apart < least) { best = names[at]; least = apart; }
  }
  return best;
};
const nearestTool = (name) => {
  const tail = (text) => textSlice(text, text.lastIndexOf(".") + 1);
  for (let at = 0; at < bridge.names.length; at++) if (textLower(tail(bridge.names[at])) === textLower(tail(name))) return bridge.names[at];
  return nearest(name, bridge.names);
};
const offered = () => {
  let text = "";
  for (let at = bridge.first; at < bridge.names.length && at < 20; at++) text += `${text ? ", " : ""}tools.${bridge.names[at]}`;
  return text || "none";
};
const instead = () => `call a tool instead; available: ${offered()}`;
const MISSING = {
  __proto__: null,
  fetch: "there is no network here: ", XMLHttpRequest: "there is no network here: ", WebSocket: "there is no network here: ", axios: "there is no network here: ",
  document: "there is no page here: ", window: "there is no page here: ", localStorage: "there is no storage here: ", Deno: "this is not Deno: ", Bun: "this is not Bun: ",
};
const hintFor = (error, kind, message) => {
  if (is(error, ToolError)) {
    if (error.kind === "UnknownTool") {
      const near = nearestTool(error.tool);
      return `${near === undefined ? "" : `did you mean tools.${near}? `}available: ${offered()}`;
    }
    return error.kind === "InvalidArguments" ? "check the names and types of the arguments: one object is the named arguments" : "catch ToolError to go on without this result";
  }
  if (is(error, ImportError)) return `${arrayJoin(keysOf(library), ", ")} can be imported; for anything else ${instead()}`;
  if (kind === "ReferenceError") {
    const found = regexpExec(/^(?:'?)([\w$]+)'? is not defined$/, message);
    if (!found) return null;
    const name = found[1];
    if (name in MISSING) return MISSING[name] + instead();
    if (name === "Intl") return "there is no Intl here: toLocaleString and localeCompare know en-US";
    for (let at = 0; at < bridge.names.length; at++) if (bridge.names[at] === name || bridge.names[at].endsWith(`.${name}`) || textStarts(bridge.names[at], `${name}.`)) return `did you mean tools.${bridge.names[at]}?`;
    const near = nearest(name, [...Object.getOwnPropertyNames(globalThis), ...identifiers()]);
    return near === undefined || near === name ? null : `did you mean ${near}?`;
  }
  for (let at = 0; at < bridge.made.length; at++)
    if (!bridge.made[at].used && kind === "TypeError") return `a tool call must be awaited: write \`await tools.${bridge.made[at].name}(…)\``;
  if (kind === "SyntaxError" && run.language === "javascript" && regexpExec(/^\s*(?:interface|type|enum|declare|abstract|namespace)\s+\w+|:\s*(?:string|number|boolean|any|void|unknown)\b|\bas\s+(?:const|string|number|any)\b/m, run.source)) return "is this TypeScript? then say so: language typescript";
  if (kind === "SyntaxError" && regexpExec(/JSON/, message)) return null;
  if (kind === "SyntaxError" && regexpExec(/redeclaration|redefinition/i, message) && run.session) return "an earlier run of this session has declared it: assign to it, or use another name";
  if (kind === "RangeError" && message === "Maximum call stack size exceeded") return "use a loop instead of recursion";
  if (kind === "NotEncodable") return "return JSON types; convert the rest";
  return null;
};
const identifiers = () => { const found = []; const words = run.source.match(/[A-Za-z_$][\w$]*/g) ?? []; const counts = new NativeMap(); for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1); for (const [word, count] of counts) if (count > 1 && found.length < 500) push(found, word); return found; };

const report = (error) => {
  const isError = is(error, NativeError);
  const kind = isError ? textOf(typeof error.name === "string" && error.name ? error.name : "Error", 100) : "Error";
  const message = isError ? textOf(error.message) : `thrown: ${textOf(typeof error === "string" ? error : inspect(error))}`;
  const lines = textSplit(run.source, "\n");
  let frames = isError ? framesOf(error) : [];
  const first = frames.length ? sharpen(message, frames[0], textSplit(run.code, "\n")) : undefined, line = first ? first[0] : null, column = first ? first[1] : null;
  if (first) frames[0] = first;
  let text = `${kind}${message ? `: ${message}` : ""}`;
  const source = line !== null && line >= 1 && line <= lines.length ? textWell(cut(lines[line - 1], 500)) : null;
  if (source !== null) text += `\n    ${textTrim(cut(source, 200))}`;
  for (let at = 0; at < frames.length && at < MAX_FRAMES; at++) text += `\n    at ${frames[at][2] ? `${cut(frames[at][2], 100)} (` : ""}${run.file}:${frames[at][0]}:${frames[at][1]}${frames[at][2] ? ")" : ""}`;
  if (frames.length > MAX_FRAMES) text += `\n    … ${frames.length - MAX_FRAMES} more frames …`;
  let cause = isError && hasOwn(error, "cause") ? error.cause : undefined;
  for (let depth = 0; depth < 5 && cause !== undefined && cause !== null; depth++) {
    text += `\ncaused by ${is(cause, NativeError) ? `${textOf(cause.name, 100)}: ${textOf(cause.message, 1000)}` : textOf(inspect(cause), 1000)}`;
    cause = cause.cause;
  }
  if (isError && isArray(error.errors)) for (let at = 0; at < min(10, error.errors.length); at++) text += `\n  | ${textOf(is(error.errors[at], NativeError) ? `${error.errors[at].name}: ${error.errors[at].message}` : inspect(error.errors[at]), 500)}`;
  let hint = null;
  try { hint = hintFor(error, kind, message); } catch { /* theirs */ }
  return { kind, message, line, column, source_line: source, traceback: textWell(cut(text, 20000)), hint: hint === null ? null : textWell(cut(hint, 4000)) };
};
// `report`, also for an error that was made to break it.
const reportSafely = (error) => {
  try { return report(error); } catch { return { kind: "Error", message: "(its details can't be shown)" }; }
};
const REPORTED = ["kind", "message", "line", "column", "source_line", "traceback", "hint"];
const reportText = (error) => {
  const told = reportSafely(error);
  let text = "";
  for (let at = 0; at < REPORTED.length; at++) if (told[REPORTED[at]] !== undefined) text += `${text ? "," : ""}"${REPORTED[at]}":${stringify(told[REPORTED[at]])}`;
  return `{${text}}`;
};
