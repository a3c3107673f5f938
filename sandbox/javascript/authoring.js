// Code that ran as a tool: its inputs, and the constants that somebody names, are the parameters of an exported function.
const MOST_TOLD = 10;
const STATEMENTS = wordSet("const let var function class if for while do switch try return throw break continue import export interface type enum namespace declare abstract debugger");
const LITERAL_WORDS = { __proto__: null, true: true, false: false, null: null };

const typeText = (value) => {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return typeof value;
  if (isArray(value)) { const kinds = [...new NativeSet(value.map(typeText))]; return kinds.length === 1 && /^\w+(\[\])*$/.test(kinds[0]) ? `${kinds[0]}[]` : "unknown[]"; }
  return value !== null && typeof value === "object" ? "Record<string, unknown>" : "unknown";
};
const commentLines = (lines) => `/**\n${lines.map((line) => ` *${line ? ` ${line.replaceAll("*/", "* /")}` : ""}\n`).join("")} */\n`;
// *defaults* are the texts of literals, by parameter.
const wholeFunction = (name, doc, parameters, body, result, language, defaults = { __proto__: null }) => {
  const names = keysOf(parameters), lines = doc.trim().split("\n"), valued = (each) => each in defaults ? ` = ${defaults[each]}` : "";
  if (language === "typescript") return `${commentLines(lines)}export async function ${name}(${names.map((each) => `${each}: ${parameters[each]}${valued(each)}`).join(", ")}): Promise<${result}> {\n${body}}\n`;
  const typed = [...lines, ...names.map((each) => `@param {${parameters[each]}} ${each}`), `@returns {Promise<${result}>}`];
  return `${commentLines(typed)}export async function ${name}(${names.map((each) => `${each}${valued(each)}`).join(", ")}) {\n${body}}\n`;
};

// The statements as the body of a function that returns the value of the last one, and the imports, which stand before it.
const asBody = (reader, edits) => {
  const { source } = reader, found = reader.survey();
  const isImport = (start) => found.imports.some((one) => one[0] === start);
  const last = reader.statements.filter(([start]) => !isImport(start)).at(-1);
  let imports = "";
  for (const [start, end] of found.imports) { imports += `${source.slice(start, end)}\n`; edits.push([start, end, ""]); }
  if (last !== undefined) {
    reader.goto(last[0]);
    if (!(reader.kind === "word" && reader.value in STATEMENTS) && !reader.is("{") && !reader.is(";") && !(reader.isWord("async") && reader.peek().value === "function")) edits.push([last[0], last[0], "return "]);
  }
  edits.sort((a, b) => a[0] - b[0]);
  let text = "", done = 0;
  for (const [start, end, put] of edits) { text += source.slice(done, start) + put; done = end; }
  text += source.slice(done);
  const lines = text.replace(/\n{3,}/g, "\n\n").trim().split("\n");
  const isLong = lines.some((line) => line.split("`").length % 2 === 0); // a template of several lines stays as it is
  return [imports, lines.map((line) => line && !isLong ? `  ${line}\n` : `${line}\n`).join("")];
};
const readCode = (source) => { const reader = new ToolReader(source); reader.program(); return reader; };

const asFunctionNamed = (source, name, doc, language) => {
  const tool = readTool(source), camel = name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
  const exported = exportedFunction(tool)[0];
  if (exported !== null) return { source: tool.functions[exported].doc ? source : withDoc(source, exported, doc, tool, ""), wrapped: false };
  const own = [name, camel].find((each) => each in tool.functions);
  if (own !== undefined && !tool.exported.length) return { source: withDoc(source, own, tool.functions[own].doc ? "" : doc, tool, "export "), wrapped: false };
  const [imports, body] = asBody(readCode(source), []);
  return { source: `${imports}${imports ? "\n" : ""}${wholeFunction(name, doc, {}, body, "unknown", language)}`, wrapped: true };
};
// The source with a comment, or the word `export`, before the line of a function.
const withDoc = (source, name, doc, tool, word) => {
  const lines = source.split("\n"), at = tool.functions[name].line - 1;
  lines[at] = `${doc ? commentLines(doc.trim().split("\n")) : ""}${word}${lines[at]}`;
  return lines.join("\n");
};

// -- constants

const literalsOf = (reader) => {
  const tokens = [...reader.tokens.values()].filter((token) => token !== null).sort((a, b) => a[2] - b[2]), places = [];
  const is = (at, value) => tokens[at] !== undefined && tokens[at][1] === value && tokens[at][0] !== "text";
  const add = (from, to, value) => places.push({ start: tokens[from][2], end: tokens[to][2] + tokens[to][1].length, value, line: reader.lineOf(tokens[from][2]), called: calledAt(from) });
  const calledAt = (at) => {
    if (is(at - 1, ":") && (is(at - 3, "{") || is(at - 3, ","))) return tokens[at - 2][0] === "text" ? unquoted(tokens[at - 2][1]) : tokens[at - 2][1];
    if (!is(at - 1, "=")) return null;
    for (let back = at - 2; back > max(-1, at - 14); back--) if (is(back - 1, "const") || is(back - 1, "let") || is(back - 1, "var")) return tokens[back][1];
    return tokens[at - 2]?.[0] === "word" ? tokens[at - 2][1] : null;
  };
  const whole = (at) => { // a list or an object of literals alone
    let depth = 0;
    for (let end = at; end < tokens.length; end++) {
      const [kind, value] = tokens[end];
      if (value === "[" || value === "{") depth++;
      else if (value === "]" || value === "}") { if (--depth === 0) return end; }
      else if (!(kind === "text" || kind === "number" || value === "," || value === ":" || value === "-" || kind === "word" && (value in LITERAL_WORDS || is(end + 1, ":")))) return -1;
    }
    return -1;
  };
  for (let at = 0; at < tokens.length; at++) {
    const [kind, value] = tokens[at], before = tokens[at - 1]?.[1];
    if (is(at - 1, "import") || is(at - 1, "from") || kind === "text" && (is(at + 1, ":") && (is(at - 1, "{") || is(at - 1, ",")) || value[0] === "/")) continue;
    if (kind === "text") add(at, at, unquoted(value));
    else if (kind === "number") {
      const number = Number(value.replaceAll("_", ""));
      if (number !== number) continue;
      if (is(at - 1, "-") && !/^[\w$)\]]/.test(tokens[at - 2]?.[1] ?? ";")) add(at - 1, at, -number); else add(at, at, number);
    } else if (kind === "word" && value in LITERAL_WORDS && LITERAL_WORDS[value] !== null && !is(at - 1, ".")) add(at, at, LITERAL_WORDS[value]);
    else if ((value === "[" || value === "{") && /^(?:[=(,:[?]|return)$/.test(before ?? "")) {
      const end = whole(at);
      if (end > at + 1) try { add(at, end, new NativeFunction(`return (${reader.source.slice(tokens[at][2], tokens[end][2] + 1)})`)()); } catch { /* none */ }
    }
  }
  return [places, tokens];
};
const same = (one, other) => stringify(one) === stringify(other);
const shownLiteral = (value) => cut(stringify(value), 40);

const findConstant = (asked, value, places, tokens, reader, taken) => {
  const [name, line] = asked.split(":"), missing = value === undefined;
  if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || name in STATEMENTS || name === "tools" || name === "ToolError") return `'${name}' can't be the name of a parameter`;
  if (taken.includes(name)) return `${name} is a parameter already`;
  if (line !== undefined && !/^\d+$/.test(line)) return `'${asked}': after the colon stands the number of a line`;
  let fitting = places.filter((place) => (missing || same(place.value, value)) && (line === undefined || line === `${place.line}`));
  const called = fitting.filter((place) => place.called === name);
  if (missing || called.length === 1) fitting = called;
  if (fitting.length !== 1) return constantProblem(name, value, fitting, places);
  const [place] = fitting, own = ownStatement(reader, place) !== null && place.called === name;
  const bound = tokens.find((token, at) => token[0] === "word" && token[1] === name && !/^\??\.$/.test(tokens[at - 1]?.[1] ?? "") && tokens[at + 1]?.[1] !== ":");
  if (bound !== undefined && !own) return `${name} is a name of the code already (line ${reader.lineOf(bound[2])}): choose another`;
  return { name, place, own };
};
const constantProblem = (name, value, fitting, places) => {
  const what = value === undefined ? `no literal is called ${name}` : `the code has no literal ${shownLiteral(value)}`;
  if (!fitting.length) return `${name}: ${what}; it has ${places.slice(0, MOST_TOLD).map((place) => `${shownLiteral(place.value)} (line ${place.line})`).join(", ") || "none"}${places.length > MOST_TOLD ? " and more" : ""}`;
  const lines = fitting.map((place) => place.line), shown = shownLiteral(fitting[0].value);
  if (new NativeSet(lines).size === 1) return `${name}: ${shown} stands ${lines.length} times in line ${lines[0]}: give it a name there first`;
  return `${name}: ${shown} stands in lines ${lines.slice(0, -1).join(", ")} and ${lines.at(-1)}: say which, as ${name}:${lines[0]}`;
};
// The statement that only gives this literal its name.
const ownStatement = (reader, place) => {
  for (const [start, end] of reader.statements) {
    if (place.start < start || place.end > end) continue;
    const text = reader.source.slice(start, place.start), after = reader.source.slice(place.end, end);
    return /^(?:const|let|var)\s+[\w$]+\s*(?::[^=;]*)?=\s*$/.test(text) && /^\s*;?\s*$/.test(after) ? [start, end] : null;
  }
  return null;
};
const asTool = ({ run: past, constants, unvalued, doc }, name, language) => {
  if (!past.source.trim()) return { problems: ["it has no code"] };
  let reader;
  try { reader = readCode(past.source); } catch (error) { return { problems: [`its code can't be read: ${error.message}`] }; }
  const [places, tokens] = literalsOf(reader), problems = [], chosen = {}, edits = [], defaults = { __proto__: null };
  reader.tokens = undefined;
  const asked = [...entriesOf(constants), ...unvalued.map((each) => [each, undefined])];
  for (const [each, value] of asked) {
    const found = findConstant(each, value, places, tokens, reader, [...keysOf(past.inputs), ...keysOf(chosen)]);
    if (typeof found === "string") { problems.push(found); continue; }
    chosen[found.name] = found.place.value;
    defaults[found.name] = past.source.slice(found.place.start, found.place.end);
    const own = found.own ? ownStatement(reader, found.place) : null;
    edits.push(own !== null ? [own[0], own[1], ""] : [found.place.start, found.place.end, found.name]);
  }
  if (problems.length) return { problems };
  const inputs = { ...past.inputs, ...chosen }, parameters = {};
  for (const each of keysOf(inputs)) parameters[each] = typeText(inputs[each]);
  const [imports, body] = asBody(reader, edits);
  return { source: `${imports}${imports ? "\n" : ""}${wholeFunction(name, doc, parameters, body, typeText(past.result ?? null), language, defaults)}`, inputs };
};

// -- runs of one shape: what is left of code without its names and literals

const isScalar = (value) => typeof value === "string" || typeof value === "number" || typeof value === "boolean";
const shapeOf = (source, inputs) => {
  const reader = readCode(source), [places, tokens] = literalsOf(reader);
  const literals = places.filter((place) => isScalar(place.value)), names = new NativeMap();
  const at = new NativeMap(literals.map((place) => [place.start, place])), shape = [], form = [];
  let done = 0;
  for (let index = 0; index < tokens.length; index++) {
    const [kind, value, start] = tokens[index], place = at.get(start), before = tokens[index - 1]?.[1];
    const between = source.slice(done, start).replace(/\/\*[^]*?\*\/|\/\/[^\n]*/g, "").trim(); // the fixed parts of a template
    if (between) { push(shape, between); push(form, between); }
    done = start + value.length;
    if (place !== undefined) {
      push(shape, `<${typeof place.value}>`);
      push(form, "?");
      while (tokens[index + 1] !== undefined && tokens[index + 1][2] < place.end) index++;
      done = place.end;
      continue;
    }
    const isName = kind === "word" && !/^\??\.$/.test(before ?? "") && !(value in globalThis) && !(value in KEPT_WORDS) && !(tokens[index + 1]?.[1] === ":" && /^[{,]$/.test(before ?? ""));
    if (isName && !inputs.includes(value) && !names.has(value)) names.set(value, `$${names.size}`);
    push(shape, isName && !inputs.includes(value) ? names.get(value) : value);
    if (inputs.includes(value) && isName) push(form, "?");
    else if (value !== "return" && value !== ";") push(form, isName ? names.get(value) : value);
  }
  return { reader, tokens, literals, names, shape: shape.join(" "), form: form.join(" ") };
};
const KEPT_WORDS = wordSet("const let var function class if else for while do switch case default try catch finally return throw break continue import export from interface type enum namespace declare abstract debugger new delete typeof instanceof in of void yield await async this super null true false undefined extends static get set as satisfies tools ToolError checkpoint string number boolean unknown any never");
// What the function of a saved tool does; nothing for what can't be read, or is in another language.
const formOfTool = (source) => {
  try {
    const tool = readTool(source), entry = exportedFunction(tool)[0], { parameters } = tool.functions[entry];
    const open = source.indexOf("{\n", source.indexOf(`function ${entry}(`));
    return shapeOf(source.slice(open + 1, source.lastIndexOf("}")), parameters.map((each) => each.name)).form;
  } catch { return null; }
};
const suggestTools = ({ runs, least, saved }, language) => {
  const known = new NativeSet(keysOf(saved).map((name) => formOfTool(saved[name]))), groups = new NativeMap();
  runs.forEach((past, index) => {
    const inputs = keysOf(past.inputs).sort();
    let looked;
    try { looked = shapeOf(past.source, inputs); } catch { return; }
    if (!looked.tokens.length || known.has(looked.form) || !/\(|\bfor\b|\bwhile\b/.test(looked.shape)) return;
    const key = `${inputs.join(",")}\n${looked.shape}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push({ index, ...looked });
  });
  const made = [...groups.values()].filter((members) => members.length >= least).map((members) => proposed(members, runs, language));
  return made.sort((one, other) => other.runs.length - one.runs.length);
};
const proposed = (members, runs, language) => {
  const last = members.at(-1), { inputs } = runs[last.index]; // the latest names are the ones to keep
  const taken = new NativeSet([...keysOf(inputs), ...last.names.keys()]), columns = new NativeMap(), edits = [], parameters = {};
  for (const each of keysOf(inputs)) parameters[each] = commonType(members.map((member) => runs[member.index].inputs[each]));
  last.literals.forEach((place, at) => {
    const column = members.map((member) => member.literals[at].value), key = stringify(column);
    if (column.every((value) => value === column[0])) return;
    if (!columns.has(key)) { // two literals that were always the same are one parameter
      const base = place.called !== null && /^[A-Za-z]\w*$/.test(place.called) && !(place.called in KEPT_WORDS) ? place.called : { string: "text", boolean: "flag", number: "number" }[typeof place.value];
      const statement = ownStatement(last.reader, place) !== null && place.called === base && !(base in parameters);
      let name = base;
      for (let number = 2; taken.has(name) && !statement || name in parameters; number++) name = `${base}_${number}`;
      taken.add(name);
      columns.set(key, { name, column });
      parameters[name] = commonType(column);
    }
    const { name } = columns.get(key), own = place.called === name ? ownStatement(last.reader, place) : null;
    edits.push(own !== null ? [own[0], own[1], ""] : [place.start, place.end, name]);
  });
  const calls = keysOf(toolCalls(last.reader).requires).map((each) => each.split(".").at(-1).toLowerCase());
  const name = `${calls.slice(0, 2).join("_and_") || "computed"}_tool`.replace(/[^a-z0-9_]/g, "_").replace(/^[^a-z]+/, "").slice(0, 60);
  const doc = `Made from ${members.length} runs of the same code: say here what it is for.`;
  last.reader.tokens = undefined;
  const [imports, body] = asBody(last.reader, edits), result = commonType(members.map((member) => runs[member.index].result ?? null));
  const given = members.map((member, at) => ({ run: member.index, inputs: { ...runs[member.index].inputs, ...fromEntries([...columns.values()].map((each) => [each.name, each.column[at]])) } }));
  return { name, source: `${imports}${imports ? "\n" : ""}${wholeFunction(name, doc, parameters, body, result, language)}`, runs: members.map((member) => member.index), examples: given };
};
const commonType = (values) => { const kinds = [...new NativeSet(values.map(typeText))]; return kinds.length === 1 ? kinds[0] : "unknown"; };
const { fromEntries } = Object;
