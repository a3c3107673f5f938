// Captured output: console goes to the host line by line, up to a cap.
const EAGER_LINES = 1000, CHUNK = 4096;
const output = { limit: null, written: 0, lines: 0, buffer: "", full: false, group: "", counts: create(null), times: create(null) };

const resetOutput = (limit) => assign(output, { limit, written: 0, lines: 0, buffer: "", full: false, group: "", counts: create(null), times: create(null) });
const flush = () => {
  if (output.buffer) {
    const text = output.buffer;
    output.buffer = "";
    write(text);
  }
};
const print = (text) => {
  if (output.full || !text) return;
  text = textWell(text);
  const size = output.limit !== null && output.written + text.length > output.limit ? text.length : bytesOf(text);
  if (output.limit !== null && output.written + size > output.limit) {
    const room = output.limit - output.written;
    let end = 0;
    for (let used = 0; end < text.length; end++) {
      const code = textCode(text, end);
      used += code < 0x80 ? 1 : code < 0x800 || code >= 0xd800 && code < 0xe000 ? 2 : 3;
      if (used > room) break;
    }
    const last = end > 0 ? textCode(text, end - 1) : 0;
    text = textSlice(text, 0, last >= 0xd800 && last < 0xdc00 ? end - 1 : end);
    output.full = true;
  }
  output.written += size;
  output.buffer += text;
  if (output.full) {
    output.buffer += `\n[output cut: more than ${output.limit} bytes were printed]\n`;
    flush();
  } else if (output.buffer.length >= CHUNK) flush();
  else if (output.lines < EAGER_LINES && textIndex(text, "\n") >= 0) { output.lines++; flush(); }
};

const log = (...given) => {
  let text = format(...given);
  if (output.group) text = output.group + textReplaceAll(text, "\n", `\n${output.group}`);
  print(`${text}\n`);
};
const table = (rows, columns) => {
  if (rows === null || typeof rows !== "object") return log(rows);
  const head = [], lines = [], index = [];
  let values = false;
  const list = takes(mapSize, rows) || takes(setSize, rows) ? entriesOf([...rows]) : entriesOf(rows);
  for (const [key, row] of list) {
    push(index, key);
    const cells = create(null);
    if (row !== null && typeof row === "object")
      for (const name of keysOf(row)) { if (columns && !columns.includes(name)) continue; if (!arrayHas(head, name)) push(head, name); cells[name] = inspect(row[name], { depth: 0 }); }
    else { values = true; cells[""] = inspect(row); }
    push(lines, cells);
  }
  const titles = ["(index)", ...(columns ?? head), ...(values ? ["Values"] : [])];
  const grid = lines.map((cells, at) => [index[at], ...(columns ?? head).map((name) => cells[name] ?? ""), ...(values ? [cells[""] ?? ""] : [])]);
  const widths = titles.map((title, at) => max(title.length, ...grid.map((row) => row[at].length)) + 2);
  const rule = (left, middle, right) => left + widths.map((width) => textRepeat("─", width)).join(middle) + right;
  const line = (cells) => `│${cells.map((cell, at) => ` ${textPad(cell, widths[at] - 1)}`).join("│")}│`;
  log([rule("┌", "┬", "┐"), line(titles), rule("├", "┼", "┤"), ...grid.map(line), rule("└", "┴", "┘")].join("\n"));
};
const elapsed = (label, given, end) => {
  const started = output.times[label];
  if (started === undefined) return log(`Warning: No such label '${label}' for console.time${end ? "End" : "Log"}()`);
  log(`${label}: ${((seconds() - started) * 1000).toFixed(3)}ms`, ...given);
  if (end) delete output.times[label];
};
const consoleMethods = {
  log, info: log, debug: log, warn: log, error: log,
  dir: (value, options) => log(inspect(value, options)),
  dirxml: log,
  table,
  trace: (...given) => log(`Trace${given.length ? `: ${format(...given)}` : ""}`),
  assert: (fine, ...given) => { if (!fine) typeof given[0] === "string" ? log(`Assertion failed: ${given[0]}`, ...given.slice(1)) : log("Assertion failed", ...given); },
  count: (label = "default") => { output.counts[label] = (output.counts[label] ?? 0) + 1; log(`${label}: ${output.counts[label]}`); },
  countReset: (label = "default") => { output.counts[label] = 0; },
  group: (...given) => { if (given.length) log(...given); output.group += "  "; },
  groupEnd: () => { output.group = textSlice(output.group, 2); },
  time: (label = "default") => { output.times[label] = seconds(); },
  timeLog: (label = "default", ...given) => elapsed(label, given, false),
  timeEnd: (label = "default") => elapsed(label, [], true),
  clear: () => {},
};
consoleMethods.groupCollapsed = consoleMethods.group;
