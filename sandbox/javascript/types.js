// TypeScript's types, read into data: what a tool's function takes and returns. A type that JSON Schema has no words for
// is read as well, and refused by name where it is used. JSDoc's types are the same with a few words more.
const BLANK = /^[ \t]*\* ?/;
const commentText = (comment) => comment.replace(/^\/\*\*?|\*\/$/g, "").split("\n").map((line) => line.replace(BLANK, "").trimEnd()).join("\n").trim();
const oneLine = (text) => text.replace(/\s+/g, " ").trim().slice(0, 500);

class TypeReader extends TypeStripper {
  jsdoc = false;

  goto(position) { this.position = position; this.next(); this.ended = position; return this; }
  // The doc comment that stands right before the token, if there is one.
  docBefore(from = this.ended) {
    const found = [...this.source.slice(from, this.start).matchAll(/\/\*\*[^]*?\*\//g)];
    return found.length ? commentText(found[found.length - 1][0]) : "";
  }
  lineOf(position) { return this.source.slice(0, position).split("\n").length; }
  bad(what) { return { t: "bad", what }; }

  readType() {
    if (this.jsdoc && this.is("*")) { this.next(); return { t: "name", name: "any", args: [] }; }
    if (this.jsdoc && (this.is("?") || this.is("!"))) {
      const nullable = this.is("?");
      this.next();
      if (nullable && (this.kind === "end" || this.is("}"))) return { t: "name", name: "any", args: [] };
      const inner = this.readType();
      return nullable ? { t: "union", of: [inner, { t: "lit", value: null }] } : inner;
    }
    if (this.is("<") || this.isWord("new") || this.isWord("abstract") || this.isWord("asserts") && this.peek().kind === "word" && !this.peek().line) { this.type(); return this.bad("a function"); }
    this.eat("|") || this.eat("&");
    const first = this.readIntersection();
    const of = [first];
    while (this.is("|")) { this.next(); push(of, this.readIntersection()); }
    const type = of.length === 1 ? first : { t: "union", of };
    if (this.isWord("is") && !this.line) { this.next(); this.type(); return { t: "name", name: "boolean", args: [] }; }
    if (this.isWord("extends") && !this.line) {
      const saved = this.save();
      this.next();
      this.type();
      if (!this.is("?")) { this.back(saved); return type; }
      this.next(); this.type(); this.expect(":"); this.type();
      return this.bad("a conditional type");
    }
    return type;
  }
  readIntersection() {
    const of = [this.readPostfix()];
    while (this.is("&")) { this.next(); push(of, this.readPostfix()); }
    return of.length === 1 ? of[0] : { t: "and", of };
  }
  readPostfix() {
    let type = this.readOperand();
    for (;;) {
      if (!this.is("[") || this.line) break;
      this.next();
      if (this.eat("]")) { type = { t: "array", of: type }; continue; }
      const by = this.readType();
      this.expect("]");
      type = { t: "index", of: type, by };
    }
    if (this.jsdoc && this.is("=")) { this.next(); return { t: "union", of: [type, { t: "name", name: "undefined", args: [] }] }; }
    return type;
  }
  readOperand() {
    if (this.kind === "text") { const { value } = this; this.next(); return { t: "lit", value: unquoted(value) }; }
    if (this.kind === "number") { const { value } = this; this.next(); return { t: "lit", value: Number(value.replace(/_|n$/g, "")) }; }
    if (this.is("-")) { this.next(); const { value } = this; this.next(); return { t: "lit", value: -Number(value.replace(/_|n$/g, "")) }; }
    if (this.is("`")) { this.template(); return { t: "name", name: "string", args: [] }; }
    if (this.is("(")) return this.readParenthesized();
    if (this.is("{")) return this.readObject();
    if (this.is("[")) return this.readTuple();
    if (this.kind !== "word") this.fail();
    const word = this.value;
    const ahead = this.peek(), alone = /^[,;)\]}>=|&.[]$/.test(ahead.value || ";");
    if (word === "readonly" && !alone) { this.next(); return this.readPostfix(); }
    if (word === "keyof" && !alone) { this.next(); return { t: "keyof", of: this.readPostfix() }; }
    if ((word === "unique" || word === "infer") && !alone) { this.typeOperand(); return this.bad(`a type with \`${word}\``); }
    if (word === "import") { this.typeOperand(); return this.bad("a type of another module"); }
    if (word === "typeof") {
      this.next();
      if (this.isWord("import")) { this.typeOperand(); return this.bad("a type of another module"); }
      const path = [this.word()];
      while (this.is(".")) { this.next(); push(path, this.word()); }
      return { t: "typeof", path };
    }
    if (word === "function" && this.jsdoc) { this.next(); if (this.is("(")) this.balanced(); if (this.eat(":")) this.type(); return this.bad("a function"); }
    this.next();
    let name = word;
    while (this.is(".")) { this.next(); if (this.jsdoc && this.is("<")) break; name += `.${this.word()}`; }
    const args = [];
    if (this.is("<") && !this.line) {
      this.next();
      while (!this.is(">")) { push(args, this.readType()); if (!this.eat(",")) break; }
      if (!this.is(">")) this.fail();
      this.next();
    }
    if (word === "true" || word === "false") return { t: "lit", value: word === "true" };
    if (word === "null") return { t: "lit", value: null };
    return { t: "name", name, args };
  }
  readParenthesized() {
    const saved = this.save();
    if (this.takesParameters()) {
      this.balanced();
      if (this.is("=>")) { this.next(); this.type(); return this.bad("a function"); }
      this.back(saved);
    }
    this.next();
    const type = this.readType();
    this.expect(")");
    return type;
  }
  readTuple() {
    const items = [];
    this.next();
    while (!this.is("]")) {
      const rest = this.eat("...");
      let optional = false;
      if (this.kind === "word" && (this.peek().value === ":" || this.peek().value === "?")) {
        const saved = this.save();
        this.next();
        optional = this.eat("?");
        if (!this.eat(":")) { this.back(saved); optional = false; }
      }
      const type = this.readType();
      if (this.eat("?")) optional = true;
      push(items, { type, optional, rest });
      if (!this.is("]")) this.expect(",");
    }
    this.next();
    return { t: "tuple", items };
  }
  readObject() {
    const members = [], object = { t: "object", members };
    this.next();
    while (!this.is("}")) {
      if (this.kind === "end") this.fail();
      let text = this.docBefore() || this.lineComment(this.ended, this.start);
      while ((this.isWord("readonly") || this.is("-") || this.is("+")) && !/^[:?(,;}]$/.test(this.peek().value || ";")) this.next();
      if (this.is("[")) {
        const saved = this.save();
        this.next();
        const key = this.kind === "word" ? this.word() : "";
        if (key && this.eat(":")) { const by = this.readType(); this.expect("]"); this.expect(":"); object.index = { by, type: this.readType() }; }
        else if (key && this.isWord("in")) { this.back(saved); this.skipMember(); object.bad = "a mapped type"; }
        else { this.back(saved); this.skipMember(); object.bad = "a property whose name is computed"; }
      } else {
        const name = this.kind === "text" ? unquoted(this.value) : this.value;
        if (this.kind === "mark") { this.skipMember(); object.bad = "something that can be called"; }
        else {
          this.next();
          const optional = this.eat("?");
          if (this.is("(") || this.is("<")) { this.skipMember(); object.bad ??= `a method ${name}`; }
          else {
            const type = this.eat(":") ? this.readType() : { t: "name", name: "any", args: [] };
            const { ended } = this;
            const after = this.is(";") || this.is(",") ? this.position : ended;
            text ||= this.lineComment(after, this.source.length, true);
            push(members, { name, optional, type, text: oneLine(text) });
          }
        }
      }
      if (!this.eat(";")) this.eat(",");
    }
    this.next();
    return object;
  }
  skipMember() { while (!this.is(";") && !this.is(",") && !this.is("}") && this.kind !== "end") { if (this.is("(") || this.is("[") || this.is("{")) this.balanced(); else this.next(); if (this.line && !this.is(":") && !this.is("|") && !this.is("=>")) break; } }
  // A comment of one line: the last before a member, or the one behind it.
  lineComment(from, to, behind = false) {
    const text = this.source.slice(from, to);
    if (behind) { const found = /^[ \t]*(?:\/\/+[ \t]*([^\n]*)|\/\*+[ \t]*([^\n]*?)[ \t]*\*\/[ \t]*(?=\n|$))/.exec(text); return found?.[1] ?? found?.[2] ?? ""; }
    return /(?:^|\n)[ \t]*\/\/+[ \t]?([^\n]*)\n[ \t]*$/.exec(text)?.[1] ?? "";
  }
  readTypeParameters() {
    const names = [];
    if (!this.is("<")) return names;
    this.next();
    while (!this.is(">")) {
      while ((this.isWord("const") || this.isWord("in") || this.isWord("out")) && this.peek().kind === "word") this.next();
      const name = this.word();
      if (this.eat("extends")) this.type();
      push(names, { name, default: this.eat("=") ? this.readType() : null });
      if (!this.eat(",")) break;
    }
    if (!this.is(">")) this.fail();
    this.next();
    return names;
  }

  // -- parameters of a function, from its `<` or `(` on

  readParameters() {
    const generics = this.readTypeParameters();
    this.expect("(");
    const parameters = [];
    while (!this.is(")")) {
      const rest = this.eat("...");
      const parameter = { name: "", members: null, optional: false, type: null, fallback: null, rest };
      if (this.is("{")) parameter.members = this.readPattern();
      else if (this.is("[")) { this.balanced(); parameter.name = "[…]"; parameter.pattern = true; }
      else { parameter.name = this.word(); if (parameter.name === "this") { if (this.eat(":")) this.type(); if (!this.eat(",")) break; continue; } }
      if (this.eat("?")) parameter.optional = true;
      if (this.eat(":")) parameter.type = this.readType();
      if (this.eat("=")) parameter.fallback = this.expressionText();
      push(parameters, parameter);
      if (!this.eat(",")) break;
    }
    this.expect(")");
    let result = null;
    if (this.eat(":")) result = this.readType();
    return { generics, parameters, result };
  }
  // `{ a, b = 1, c: d }`: the names that a caller gives, and their defaults.
  readPattern() {
    const members = [];
    this.next();
    while (!this.is("}")) {
      if (this.eat("...")) { this.word(); push(members, { name: "…", rest: true, fallback: null }); break; }
      const name = this.kind === "text" ? unquoted(this.value) : this.value;
      this.next();
      if (this.eat(":")) this.target();
      push(members, { name, fallback: this.eat("=") ? this.expressionText() : null });
      if (!this.eat(",")) break;
    }
    this.expect("}");
    return members;
  }
  // The text of an expression, without types.
  expressionText() {
    const { start } = this, { length } = this.edits;
    this.assign();
    const text = textSlice(this.source, start, this.ended);
    this.edits.length = length;
    return stripTypes(`(${text})`);
  }
}
const unquoted = (text) => { try { return text[0] === '"' ? parse(text) : parse(`"${textSlice(text, 1, -1).replace(/\\'/g, "'").replace(/"/g, '\\"')}"`); } catch { return textSlice(text, 1, -1); } };
