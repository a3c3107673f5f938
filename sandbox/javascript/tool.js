// The file of a composed tool: its one exported function, what that takes, returns and calls. Read here, in the guest;
// the host gets the answer as JSON and believes no more of it than that it is what the source says of itself.
const NativeFunction = Function;
class ToolReader extends TypeReader {
  statements = []; // those at the top level: [start, end]
  tokens = new NativeMap();

  read(start, line) { super.read(start, line); this.tokens?.set(start, this.kind === "end" ? null : [this.kind, this.value, start]); }
  program() {
    this.goto(0);
    this.line = true;
    while (this.kind !== "end") { const { start, ended } = this; this.statement(); push(this.statements, [start, this.ended, ended]); }
    return this.result();
  }
  get exportsAs() { return "var _default ="; }

  // -- what is declared and exported

  survey() {
    const found = { declared: create(null), functions: create(null), exported: [], imports: [] };
    for (const [start, end, before] of [...this.statements]) {
      this.goto(start);
      this.ended = before;
      const doc = this.docBefore(before);
      if (this.isWord("import")) { push(found.imports, [start, end]); continue; }
      const isExported = this.isWord("export");
      if (isExported) this.next();
      const isDefault = isExported && this.eat("default");
      while (this.isWord("declare") || this.isWord("abstract")) this.next();
      if (isExported && this.is("{")) { this.exportList(found); continue; }
      const name = this.surveyOne(found, doc, isDefault);
      if (isExported && name !== null) push(found.exported, isDefault && name === "" ? "_default" : name);
    }
    return found;
  }
  exportList(found) {
    this.next();
    while (this.kind === "word") {
      if (this.isWord("type") && this.peek().kind === "word") { this.next(); this.next(); if (this.eat("as")) this.next(); if (!this.eat(",")) break; continue; }
      const name = this.word();
      if (this.eat("as")) this.next();
      if (!(name in found.declared) || found.declared[name].t === "class") push(found.exported, name);
      if (!this.eat(",")) break;
    }
  }
  // One statement; the name that it gives to a value, or null.
  surveyOne(found, doc, isDefault) {
    const text = oneLine(docParts(doc).description), line = this.lineOf(this.start);
    if (this.isWord("interface")) {
      this.next();
      const name = this.word(), generics = this.readTypeParameters(), parents = [];
      if (this.eat("extends")) do push(parents, this.readPostfix()); while (this.eat(","));
      const type = this.readObject(), other = found.declared[name];
      if (other !== undefined && other.t === "interface") { other.type.members.push(...type.members); other.parents.push(...parents); } else found.declared[name] = { t: "interface", generics, parents, type, text };
      return null;
    }
    if (this.isWord("type") && this.peek().kind === "word") {
      this.next();
      const name = this.word(), generics = this.readTypeParameters();
      this.expect("=");
      found.declared[name] = { t: "alias", generics, type: this.readType(), text };
      return null;
    }
    if (this.isWord("const") && this.peek().value === "enum") this.next();
    if (this.isWord("enum")) { this.next(); found.declared[this.word()] = { t: "enum" }; return null; }
    if (this.isWord("class")) { this.next(); const name = this.kind === "word" && this.value !== "extends" ? this.value : ""; if (name) found.declared[name] = { t: "class" }; return name; }
    if (this.isWord("function") || this.isWord("async") && this.peek().value === "function") {
      const isAsync = this.eat("async");
      this.next();
      this.eat("*");
      const name = this.kind === "word" ? this.word() : "", entry = name || "_default";
      const signature = this.attempt(() => this.readParameters());
      const hasBody = this.is("{");
      if (signature !== undefined && (hasBody || !(entry in found.functions))) found.functions[entry] = { ...signature, doc: doc || found.functions[entry]?.doc || "", line, isAsync };
      return hasBody ? name : null;
    }
    if (this.isWord("const") || this.isWord("let") || this.isWord("var")) {
      this.next();
      if (this.kind !== "word") return null;
      const name = this.word();
      if (this.eat("!")) { /* definite */ }
      if (this.eat(":")) this.type();
      if (this.eat("=")) this.functionValue(found, name, doc, line);
      return name;
    }
    if (!isDefault) return null;
    if (this.kind === "word" && !this.isWord("async") && (this.peek().kind === "end" || this.peek().value === ";" || this.peek().line)) { const name = this.value; return name in found.declared ? null : name; }
    this.functionValue(found, "_default", doc, line);
    return "";
  }
  functionValue(found, name, doc, line) {
    const isAsync = this.isWord("async");
    if (isAsync) this.next();
    if (this.isWord("function")) { this.next(); this.eat("*"); if (this.kind === "word") this.next(); }
    if (this.kind === "word" && this.peek().value === "=>") { found.functions[name] = { generics: [], parameters: [{ name: this.value, members: null, optional: false, type: null, fallback: null, rest: false }], result: null, doc, line, isAsync }; return; }
    if (!this.is("(") && !this.is("<")) return;
    const signature = this.attempt(() => { const read = this.readParameters(); return this.is("=>") || this.is("{") ? read : false; });
    if (signature !== undefined) found.functions[name] = { ...signature, doc, line, isAsync };
  }
}

// -- which tools the code calls

const toolCalls = (reader) => {
  const tokens = [...reader.tokens.values()].filter((token) => token !== null).sort((a, b) => a[2] - b[2]);
  const answer = { requires: {}, direct: [], unclear: [] }, aliases = new NativeMap([["tools", [""]]]), marks = new NativeSet();
  const is = (at, value) => tokens[at] !== undefined && tokens[at][1] === value && tokens[at][0] !== "text";
  // The chain that begins at a token, and where it ends; null for what is looked up by a name made at run time.
  const chain = (at, base) => {
    let name = base, dynamic = false;
    for (at++; ;) {
      if ((is(at, ".") || is(at, "?.")) && tokens[at + 1]?.[0] === "word") { name += `${name ? "." : ""}${tokens[at + 1][1]}`; at += 2; }
      else if (is(at, "[") && tokens[at + 1]?.[0] === "text" && is(at + 2, "]")) { name += `${name ? "." : ""}${unquoted(tokens[at + 1][1])}`; at += 3; }
      else if (is(at, "?.") && is(at + 1, "[")) at++;
      else { dynamic = is(at, "["); break; }
    }
    return [name, at, dynamic];
  };
  const isUse = (at) => tokens[at][0] === "word" && aliases.has(tokens[at][1]) && !is(at - 1, ".") && !is(at - 1, "?.") && !(is(at + 1, ":") && (is(at - 1, "{") || is(at - 1, ",")));
  const add = (name, position) => { if (!hasOwn(answer.requires, name)) defineProperty(answer.requires, name, { __proto__: null, value: reader.lineOf(position), writable: true, enumerable: true, configurable: true }); };
  const alias = (name, chains) => { const before = aliases.get(name) ?? [], more = chains.filter((one) => !before.includes(one)); if (more.length) aliases.set(name, [...before, ...more]); return more.length > 0; };
  for (let again = true, rounds = 0; again && rounds < 20; rounds++) { // until no assignment says anything new
    again = false;
    for (let at = 2; at < tokens.length; at++) {
      if (!isUse(at) || !is(at - 1, "=")) continue;
      const bases = aliases.get(tokens[at][1]), found = bases.map((base) => chain(at, base)), [, end, dynamic] = found[0];
      if (dynamic || is(end, "(") || is(end, "?.")) continue;
      if (tokens[at - 2][0] === "word") { if (alias(tokens[at - 2][1], found.map((one) => one[0]))) again = true; marks.add(at); }
      else if (is(at - 2, "}")) {
        let open = at - 2;
        while (open > 0 && !is(open, "{")) open--;
        let plain = true;
        for (let inner = open + 1; inner < at - 2; inner++) {
          if (tokens[inner][0] !== "word") { plain = plain && is(inner, ","); continue; }
          const [, key] = tokens[inner], local = is(inner + 1, ":") && tokens[inner + 2]?.[0] === "word" ? tokens[inner + 2][1] : key;
          if (local !== key) inner += 2;
          if (alias(local, found.map((one) => `${one[0]}${one[0] ? "." : ""}${key}`))) again = true;
        }
        if (plain) marks.add(at);
      }
    }
  }
  for (let at = 0; at < tokens.length; at++) {
    if (!isUse(at) || marks.has(at)) continue;
    const isDeclared = is(at - 1, "const") || is(at - 1, "let") || is(at - 1, "var") || is(at + 1, "=") || is(at + 1, "=>");
    if (isDeclared && tokens[at][1] !== "tools") continue;
    const inPattern = (is(at - 1, "{") || is(at - 1, ",") || is(at - 1, ":")) && (is(at + 1, ",") || is(at + 1, "}")) && tokens[at][1] !== "tools";
    if (inPattern) continue;
    for (const base of aliases.get(tokens[at][1])) {
      const [name, end, dynamic] = chain(at, base), line = reader.lineOf(tokens[at][2]);
      if (name === "call" && is(end, "(")) { if (tokens[end + 1]?.[0] === "text" && (is(end + 2, ",") || is(end + 2, ")"))) add(unquoted(tokens[end + 1][1]), tokens[at][2]); else answer.unclear.push(line); continue; }
      if (dynamic) { answer.unclear.push(line); continue; }
      if (name) { add(name, tokens[at][2]); if (tokens[at][1] === "tools" && !answer.direct.includes(name)) answer.direct.push(name); }
      else if (!is(at - 1, "typeof") && !is(at - 1, "in") && !(is(at - 1, "(") && is(at + 1, ")") && (is(at - 2, "log") || is(at - 2, "keys")))) answer.unclear.push(line);
    }
  }
  answer.unclear = [...new NativeSet(answer.unclear)].sort((a, b) => a - b);
  return answer;
};

// -- doc comments

const docParts = (doc) => {
  const parts = { description: "", parameters: create(null), result: null, properties: [], typedef: null };
  const pieces = doc.split(/^(?=@\w)/m);
  if (!pieces[0].startsWith("@")) parts.description = pieces.shift().trim();
  for (const piece of pieces) {
    const found = /^@(\w+)\s*([^]*)$/.exec(piece), tag = found[1];
    let rest = found[2].trim(), type = null;
    if (rest.startsWith("{")) { const end = closing(rest); type = rest.slice(1, end); rest = rest.slice(end + 1).trim(); }
    if (tag === "param" || tag === "arg" || tag === "argument" || tag === "property" || tag === "prop") {
      const name = /^(\[\s*([\w$.]+)\s*(?:=([^\]]*))?\]|[\w$.]+)\s*(?:-\s*)?([^]*)$/.exec(rest);
      if (name === null) continue;
      const item = { name: name[2] ?? name[1], optional: name[1].startsWith("["), type, text: oneLine(name[4]) };
      if (tag === "property" || tag === "prop") push(parts.properties, item); else parts.parameters[item.name] = item;
    } else if (tag === "returns" || tag === "return") parts.result = { type, text: oneLine(rest) };
    else if (tag === "description" || tag === "summary") parts.description ||= rest;
    else if (tag === "typedef") parts.typedef = { type, name: /^[\w$]*/.exec(rest)[0] };
  }
  return parts;
};
const closing = (text) => { let depth = 0; for (let at = 0; at < text.length; at++) { if (text[at] === "{") depth++; else if (text[at] === "}" && --depth === 0) return at; } return text.length; };
const jsdocType = (text) => {
  const reader = new TypeReader(text);
  reader.jsdoc = true;
  const type = reader.readType();
  if (reader.kind !== "end") reader.fail();
  return type;
};
// Types that comments define: `@typedef {Object} Row`, with a `@property` for each member.
const addTypedefs = (source, declared) => {
  for (const [comment] of source.matchAll(/\/\*\*[^]*?\*\//g)) {
    if (!comment.includes("@typedef")) continue;
    const parts = docParts(commentText(comment));
    if (parts.typedef === null || !parts.typedef.name || parts.typedef.name in declared) continue;
    const members = parts.properties.map(({ name, optional, type, text }) => ({ name, optional, type: jsdocType(type ?? "any"), text }));
    const type = members.length ? { t: "object", members } : jsdocType(parts.typedef.type ?? "object");
    declared[parts.typedef.name] = { t: "alias", generics: [], type, text: oneLine(parts.description) };
  }
};

// -- the tool

const readTool = (source) => {
  const reader = new ToolReader(textStarts(source, "#!") ? `//${textSlice(source, 2)}` : source);
  const code = reader.program(), calls = toolCalls(reader);
  reader.tokens = undefined;
  const found = reader.survey();
  addTypedefs(source, found.declared);
  return { code, calls, ...found, exported: [...new NativeSet(found.exported)] };
};
// The parameters by which a tool is called: [{name, type, optional, fallback, text}]. One that is taken apart is one object.
const namedParameters = (signature, parts) => {
  const [first] = signature.parameters;
  const documented = (name) => parts.parameters[name];
  const of = (name, type, optional, fallback, item = documented(name)) => ({ name, type: type ?? (item?.type ? jsdocType(item.type) : null), optional: optional || !!item?.optional, fallback, text: item?.text ?? "" });
  if (signature.parameters.length !== 1 || first.members === null) return { object: false, list: signature.parameters.map((one) => ({ ...of(one.name, one.type, one.optional, one.fallback), rest: one.rest, pattern: one.members !== null || one.pattern })) };
  return { object: true, list: first.members.map((one) => {
    const dotted = keysOf(parts.parameters).find((name) => name.endsWith(`.${one.name}`));
    return { ...of(one.name, null, false, one.fallback, documented(one.name) ?? (dotted === undefined ? undefined : parts.parameters[dotted])), rest: !!one.rest };
  }), whole: first.type };
};
// The function that a tool is, by the name under which the code has it; or what is wrong.
const exportedFunction = (tool) => {
  const names = tool.exported.filter((name) => name in tool.functions);
  if (names.length === 1) return [names[0], null];
  if (names.length > 1) return [null, `it exports ${names.length} functions, ${names.slice(0, 5).join(", ")}: a tool is one; export no other`];
  return [null, "it exports no function: write `export function`, or `export default`, before the one that the tool is"];
};
const REAL_TYPES = /\b(?:Date|Map|Set|ReadonlyMap|ReadonlySet|bigint|Uint8Array|Buffer|ArrayBuffer|URL)\b/;
// What a run of a tool needs, for guests that run it later: its code, the function's name, and how it is called.
const prepareTool = (source) => {
  const tool = readTool(source), [name, problem] = exportedFunction(tool);
  if (name === null) throw new NativeSyntaxError(problem);
  const signature = tool.functions[name], parts = docParts(signature.doc), { object, list, whole } = namedParameters(signature, parts);
  const typed = REAL_TYPES.test(source) ? { types: whole ? { whole } : list.map((one) => one.type), declared: tool.declared } : null;
  return { code: tool.code, name, object, parameters: list.map((one) => one.name), typed };
};
const valueIn = (path) => {
  let value;
  try { value = new NativeFunction(`return (${path[0]})`)(); } catch { throw new NotExpressible(`typeof ${path.join(".")}: there is no such name`); }
  for (const part of path.slice(1)) value = value?.[part];
  return value;
};
const callEntry = (prepared, inputs) => {
  const { name, object, parameters, typed } = prepared, entry = valueIn([name]);
  if (typeof entry !== "function") throw new NativeError(`there is no function ${name}`);
  if (typed !== null) {
    const schemas = new Schemas(typed.declared, valueIn);
    if (typed.types.whole) inputs = schemas.build(typed.types.whole, inputs, "inputs");
    else parameters.forEach((parameter, at) => { if (typed.types[at] && hasOwn(inputs, parameter)) inputs[parameter] = schemas.build(typed.types[at], inputs[parameter], parameter); });
  }
  if (object) return entry(inputs);
  const given = parameters.map((parameter) => hasOwn(inputs, parameter) ? inputs[parameter] : undefined);
  while (given.length && given[given.length - 1] === undefined) given.pop();
  return apply(entry, undefined, given);
};

// -- its interface

const describeTool = (tool) => {
  const answer = { ...tool.calls, problems: [], functions: keysOf(tool.functions) };
  const [name, problem] = exportedFunction(tool);
  if (name === null) { answer.problems.push(problem); return answer; }
  const signature = tool.functions[name], parts = docParts(signature.doc);
  assign(answer, { line: signature.line, is_async: signature.isAsync, description: parts.description });
  if (!parts.description) answer.problems.push(`${name === "_default" ? "its function" : name} has no doc comment: write \`/** What the tool does. */\` before it`);
  for (const generic of signature.generics) tool.declared[generic.name] = { t: "generic" };
  const words = (error) => { if (error instanceof NotExpressible || error instanceof NativeSyntaxError) return error.message; throw error; };
  try { answer.input_schema = inputSchema(tool, namedParameters(signature, parts), answer.problems, words); } catch (error) { answer.problems.push(`its parameters: ${words(error)}`); }
  const result = signature.result ?? (parts.result?.type ? attemptType(parts.result.type, answer.problems) : null);
  if (result === null) { answer.problems.push("what it returns has no type: write `: string[]` after its parameters, or `@returns {string[]}` in its comment; `unknown` if it may be anything"); return answer; }
  const schemas = new Schemas(tool.declared, valueIn, true);
  try { answer.output_schema = withDefinitions(schemas.of(result), schemas); } catch (error) { answer.problems.push(`the return type: ${words(error)} can't be expressed as JSON`); }
  return answer;
};
const attemptType = (text, problems) => { try { return jsdocType(text); } catch (error) { problems.push(`the type {${cut(text, 100)}} in its comment can't be read: ${error.message}`); return { t: "name", name: "any", args: [] }; } };
const withDefinitions = (schema, schemas) => keysOf(schemas.definitions).length ? { ...schema, $defs: schemas.definitions } : schema;
const inputSchema = (tool, { object, list, whole }, problems, words) => {
  const schemas = new Schemas(tool.declared, valueIn), properties = {}, required = [];
  const members = new NativeMap();
  if (object && whole) {
    const expanded = schemas.expand(whole, 0, true);
    if (expanded.t !== "object" || expanded.bad) throw new NotExpressible(expanded.bad ?? "the object that it takes has another type");
    for (const member of expanded.members) members.set(member.name, member);
    for (const member of members.values()) if (!list.some((one) => one.name === member.name) && !list.some((one) => one.rest)) list = [...list, { name: member.name, type: null, optional: false, fallback: null, text: "" }];
    if (list.some((one) => one.rest)) list = [...list.filter((one) => !one.rest), ...[...members.values()].filter((member) => !list.some((one) => one.name === member.name)).map((member) => ({ name: member.name, type: null, fallback: null, text: "" }))];
  }
  for (const parameter of list) {
    const member = members.get(parameter.name);
    try {
      const [schema, optional] = parameterSchema({ ...parameter, type: parameter.type ?? member?.type ?? null, optional: parameter.optional || !!member?.optional, text: parameter.text || member?.text || "" }, schemas);
      defineProperty(properties, parameter.name, { __proto__: null, value: schema, writable: true, enumerable: true, configurable: true });
      if (!optional) required.push(parameter.name);
    } catch (error) { problems.push(`parameter ${cut(parameter.name, 100)}: ${words(error)}`); }
  }
  return withDefinitions({ type: "object", properties, required, additionalProperties: false }, schemas);
};
const parameterSchema = (parameter, schemas) => {
  const { name, fallback, text } = parameter;
  if (parameter.rest) throw new NotExpressible("a tool's parameters are named one by one: use a list instead of `...`");
  if (parameter.pattern) throw new NotExpressible("a parameter that is taken apart is the only one, or has a name");
  if (name === "tools" || name === "ToolError") throw new NotExpressible("the name is taken in every tool's source");
  if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name)) throw new NotExpressible("its name has letters, digits and underscores, and begins with a letter");
  const unset = {};
  let value = unset;
  if (fallback !== null) { try { value = new NativeFunction(`return ${fallback}`)(); } catch { value = unset; } }
  const type = parameter.type ?? (value === unset ? null : widened(value));
  if (type === null) throw new NotExpressible(`it has no type: write \`${name}: string\`, or \`@param {string} ${name}\` in the comment; \`unknown\` if it may be anything`);
  let schema;
  try { schema = schemas.of(type); } catch (error) { if (error instanceof NotExpressible) throw new NotExpressible(`${error.message} can't be expressed as JSON Schema`); throw error; }
  if (text && !schema.description) schema = { ...schema, description: text };
  if (fallback !== null && value !== undefined) {
    if (value === unset) throw new NotExpressible("its default can't be worked out without the other parameters: use `undefined` and set it inside");
    try { schema = { ...schema, default: parse(encodeResult(value)) }; } catch { throw new NotExpressible("its default can't be written as JSON: leave it out and set it inside"); }
  }
  return [schema, parameter.optional || fallback !== null || schemas.takesUndefined(type)];
};
