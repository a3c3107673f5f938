// TypeScript to JavaScript: types are blanked where they stand, so that lines and columns stay what they are. Enums,
// namespaces and parameter properties become code on their own lines. Nothing is checked.
const WORD = /[A-Za-z_$\u0080-\uffff\\][\w$\u0080-\uffff\\{}]*/y, PLAIN = /[A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*/y;
const NUMBER = /0[xX][\da-fA-F_]+n?|0[bB][01_]+n?|0[oO][0-7_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?n?/y;
const SPACE = /(?:[ \t\v\f\u00a0\ufeff\r\n\u2028\u2029]|\/\/[^\r\n\u2028\u2029]*|\/\*[^]*?\*\/)+/y;
const PUNCTUATOR = /\.\.\.|\?\?=|\*\*=|&&=|\|\|=|===|!==|<<=|=>|\?\.(?!\d)|\?\?|\*\*|\+\+|--|&&|\|\||==|!=|<=|<<|\+=|-=|\*=|%=|&=|\|=|\^=|\/=|[{}()[\];,<>+\-*\/%&|^!~?:=.@#]/y;
const REGEXP = /\/(?:[^\\/[\r\n]|\\.|\[(?:[^\]\\\r\n]|\\.)*\])+\/[a-z]*/y;
const JSX = /<(?:>|([A-Za-z][\w.]*)(?:\s[^<>]*)?(?:\/>|>[^]*?<\/\1\s*>))/y;
const at = (pattern, text, position) => { pattern.lastIndex = position; return regexpExec(pattern, text); };
const wordSet = (text) => { const set = create(null); for (const word of text.split(" ")) set[word] = true; return set; };
const OPERATORS = wordSet("+ - * / % ** & | ^ && || ?? == != === !== < <= << instanceof in"), ASSIGN = wordSet("= += -= *= /= %= **= <<= >>= >>>= &= |= ^= &&= ||= ??=");
const MODIFIERS = wordSet("public private protected readonly override declare abstract"), UNARY = wordSet("! ~ + - ++ -- typeof void delete");
const DECLARES = wordSet("const let var function class enum namespace module global abstract type interface async");
const ENDS = wordSet(") ] : ; , . ?. == === != !== && || ?? ^ & | } ` ? = => > + *");

class TypeStripper {
  constructor(source) {
    this.source = source;
    this.edits = [];
    this.noArrow = new NativeSet();
    this.classes = new NativeSet();
    this.space = ""; // the namespace, by its whole name
    this.spaces = create(null); // and what each has exported so far
    this.position = 0;
    this.ended = 0;
    this.next();
  }

  // -- tokens

  next() {
    const { source } = this;
    this.ended = this.position;
    let start = this.position;
    const space = at(SPACE, source, start);
    let line = start === 0;
    if (space && space.index === start) { start += space[0].length; line ||= regexpExec(/[\r\n\u2028\u2029]/, space[0]) !== null; }
    this.read(start, line);
  }
  read(start, line) {
    const { source } = this;
    this.start = start;
    this.line = line;
    if (start >= source.length) { this.kind = "end"; this.value = ""; this.position = start; return; }
    const letter = source[start], code = textCode(source, start);
    let found;
    if ((found = at(PLAIN, source, start)) || code === 92 && (found = at(WORD, source, start))) { this.kind = "word"; this.value = found[0]; }
    else if (code >= 48 && code <= 57 || code === 46 && regexpExec(/^\d/, source[start + 1] ?? "")) { found = at(NUMBER, source, start); this.kind = "number"; this.value = found[0]; }
    else if (letter === '"' || letter === "'") { this.kind = "text"; this.value = this.quoted(start, letter); }
    else if (letter === "`") { this.kind = "mark"; this.value = "`"; }
    else if (letter === "#" && (found = at(PLAIN, source, start + 1))) { this.kind = "private"; this.value = `#${found[0]}`; }
    else if (found = at(PUNCTUATOR, source, start)) { this.kind = "mark"; this.value = found[0]; }
    else this.fail(`Invalid character ${stringify(letter)}`);
    this.position = start + this.value.length;
  }
  quoted(start, mark) {
    const { source } = this;
    for (let end = start + 1; end < source.length; end++) {
      if (source[end] === "\\") end++;
      else if (source[end] === mark) return textSlice(source, start, end + 1);
      else if (source[end] === "\n") break;
    }
    return this.fail("Invalid or unexpected token");
  }
  fail(words = this.kind === "end" ? "Unexpected end of input" : `Unexpected token '${cut(this.value, 50)}'`, position = this.start) {
    const before = textSplit(textSlice(this.source, 0, position), "\n");
    const error = new NativeSyntaxError(words);
    hide(error, "stack", `    at eval_script:${before.length}:${before[before.length - 1].length + 1}\n`);
    throw error;
  }
  save() { return [this.position, this.kind, this.value, this.start, this.line, this.ended, this.edits.length]; }
  back(saved) {
    this.position = saved[0]; this.kind = saved[1]; this.value = saved[2]; this.start = saved[3]; this.line = saved[4]; this.ended = saved[5];
    this.edits.length = saved[6];
  }
  // What *parse* gives, or undefined with nothing consumed if it fails.
  attempt(parse) {
    const saved = this.save();
    try {
      const value = parse();
      if (value !== false) return value ?? true;
    } catch (error) { if (!is(error, NativeSyntaxError)) throw error; }
    this.back(saved);
    return undefined;
  }
  peek() { const saved = this.save(); this.next(); const ahead = { kind: this.kind, value: this.value, line: this.line, start: this.start }; this.back(saved); return ahead; }
  is(value) { return this.value === value && this.kind === "mark"; }
  isWord(value) { return this.kind === "word" && (value === undefined || this.value === value); }
  eat(value) { if (this.value === value && this.kind !== "text") { this.next(); return true; } return false; }
  expect(value) { if (!this.eat(value)) this.fail(); }
  word() { if (this.kind !== "word") this.fail(); const { value } = this; this.next(); return value; }
  semicolon() { if (this.eat(";") || this.is("}") || this.kind === "end" || this.line) return; this.fail(); }

  // -- edits

  blank(start, end = this.ended, first = "") { if (end > start) push(this.edits, [start, end, first, true]); }
  replace(start, end, text) { push(this.edits, [start, end, text, false]); }
  result() {
    const list = this.edits;
    arraySort(list, (a, b) => a[0] - b[0] || (a[0] === a[1] ? -1 : b[0] === b[1] ? 1 : b[1] - a[1])); // what is put in comes first
    let text = "", done = 0;
    for (let index = 0; index < list.length; index++) {
      const [start, end, put, blanks] = list[index];
      if (start < done) continue; // inside what is gone already
      text += textSlice(this.source, done, start);
      if (blanks) { const gone = textReplace(textSlice(this.source, start, end), /[^\r\n\u2028\u2029]/g, " "); text += put ? put + textSlice(gone, put.length) : gone; } else text += put;
      done = end;
    }
    return text + textSlice(this.source, done);
  }

  // -- types, which are only passed over

  balanced() {
    const close = { "(": ")", "[": "]", "{": "}" }[this.value];
    this.next();
    while (!this.is(close)) {
      if (this.kind === "end") this.fail();
      if (this.is("(") || this.is("[") || this.is("{")) this.balanced();
      else if (this.is("`")) this.template();
      else this.next();
    }
    this.next();
  }
  type() {
    if (this.isWord("asserts")) { const ahead = this.peek(); if (ahead.kind === "word" && !ahead.line && ahead.value !== "is") { this.next(); this.next(); if (this.isWord("is")) { this.next(); this.type(); } return; } }
    if (this.is("<") || this.isWord("new") || this.isWord("abstract") && this.peek().value === "new") {
      this.eat("abstract");
      this.eat("new");
      if (this.is("<")) this.typeParameters();
      if (!this.is("(")) this.fail();
      this.balanced();
      this.expect("=>");
      this.type();
      return;
    }
    this.eat("|") || this.eat("&");
    this.typeOperand();
    while (this.is("|") || this.is("&")) { this.next(); this.typeOperand(); }
    if (this.isWord("is") && !this.line) { this.next(); this.type(); return; }
    if (this.isWord("extends") && !this.line) {
      const saved = this.save();
      this.next();
      this.type();
      if (!this.is("?")) { this.back(saved); return; }
      this.next();
      this.type();
      this.expect(":");
      this.type();
    }
  }
  typeOperand() {
    if (this.kind === "word") {
      if ((this.value === "keyof" || this.value === "unique" || this.value === "readonly" || this.value === "infer") && !regexpExec(/^[,;)\]}>=|&.\[]$/, this.peek().value || ";")) {
        const infers = this.value === "infer";
        this.next();
        if (infers) { this.word(); if (this.isWord("extends")) this.attempt(() => { this.next(); this.typeOperand(); return !this.is("?"); }); return; }
        return this.typeOperand();
      }
      if (this.value === "typeof") { this.next(); if (this.isWord("import")) { this.next(); this.balanced(); } else this.word(); }
      else if (this.value === "import") { this.next(); this.balanced(); }
      else this.next();
      while (this.is(".")) { this.next(); this.next(); }
      if (this.is("<") && !this.line) this.attempt(() => this.typeArguments()); // `a as number < b` compares
    } else if (this.kind === "text" || this.kind === "number") this.next();
    else if (this.is("-")) { this.next(); this.next(); }
    else if (this.is("`")) this.template();
    else if (this.is("(")) {
      const takes = this.takesParameters();
      this.balanced();
      if (takes && this.is("=>")) { this.next(); this.type(); return; }
    }
    else if (this.is("{") || this.is("[")) this.balanced();
    else this.fail();
    while (this.is("[") && !this.line) this.balanced();
  }
  // Whether what is in parentheses are parameters of a function type, and not a type: `((x: T) => U) => {` ends with one.
  takesParameters() {
    const saved = this.save();
    this.next();
    let found = this.is(")") || this.is("...");
    if (!found && (this.kind === "word" || this.is("{") || this.is("["))) {
      if (this.kind === "word") this.next(); else this.balanced();
      found = this.is(":") || this.is(",") || this.is("?") || this.is("=") || this.is(")") && this.peek().value === "=>";
    }
    this.back(saved);
    return found;
  }
  typeArguments() {
    if (this.is("<<")) { this.value = "<"; this.position = this.start + 1; }
    this.expect("<");
    while (!this.is(">")) { this.type(); if (!this.eat(",")) break; }
    if (!this.is(">")) this.fail();
    this.next();
  }
  typeParameters() {
    this.expect("<");
    while (!this.is(">")) {
      while ((this.isWord("const") || this.isWord("in") || this.isWord("out")) && this.peek().kind === "word") this.next();
      this.word();
      if (this.isWord("extends")) { this.next(); this.type(); }
      if (this.eat("=")) this.type();
      if (!this.eat(",")) break;
    }
    if (!this.is(">")) this.fail();
    this.next();
  }
  annotation() { if (this.is(":")) { const { start } = this; this.next(); this.type(); this.blank(start); } }
  generics() { if (this.is("<")) { const { start } = this; this.typeParameters(); this.blank(start); } }

  // -- statements

  program() {
    while (this.kind !== "end") this.statement();
    return this.result();
  }
  block(before) {
    this.expect("{");
    if (before) before();
    while (!this.is("}")) { if (this.kind === "end") this.fail(); this.statement(); }
    this.next();
  }
  // A statement that leaves no code: what stands there is blank, but for a semicolon.
  gone(start, parse) {
    const { length } = this.edits;
    parse();
    this.edits.length = length;
    this.blank(start, this.ended, ";");
  }
  statement() {
    const { start } = this;
    if (this.kind === "mark") {
      if (this.value === "{") return this.block();
      if (this.value === ";") return this.next();
      if (this.value === "@") return this.fail("decorators are not supported here");
      this.expression();
      return this.semicolon();
    }
    if (this.kind !== "word") { this.expression(); return this.semicolon(); }
    switch (this.value) {
      case "var": case "const": case "let":
        if (this.value === "const" && this.peek().value === "enum") { this.next(); this.blank(start); return this.enumeration(); }
        if (this.value === "let" && !regexpExec(/^[\w$[{]/, this.peek().value)) break;
        this.next();
        this.declarations();
        return this.semicolon();
      case "function": return this.functionDeclaration(start);
      case "async": { const ahead = this.peek(); if (ahead.value === "function" && !ahead.line) { this.next(); return this.functionDeclaration(start); } break; }
      case "class": return this.classBody(true);
      case "abstract": if (this.peek().value === "class") { this.next(); this.blank(start); return this.classBody(true); } break;
      case "if": this.next(); this.parenthesized(); this.statement(); if (this.eat("else")) this.statement(); return;
      case "while": this.next(); this.parenthesized(); return this.statement();
      case "do": this.next(); this.statement(); this.expect("while"); this.parenthesized(); this.eat(";"); return;
      case "for": return this.forStatement();
      case "return": case "throw": this.next(); if (!this.is(";") && !this.is("}") && this.kind !== "end" && !this.line) this.expression(); return this.semicolon();
      case "break": case "continue": this.next(); if (this.kind === "word" && !this.line) this.next(); return this.semicolon();
      case "debugger": this.next(); return this.semicolon();
      case "try":
        this.next(); this.block();
        if (this.eat("catch")) { if (this.eat("(")) { this.target(); this.annotation(); this.expect(")"); } this.block(); }
        if (this.eat("finally")) this.block();
        return;
      case "switch":
        this.next(); this.parenthesized(); this.expect("{");
        while (!this.is("}")) {
          if (this.eat("default")) this.expect(":");
          else if (this.eat("case")) { this.expression(); this.expect(":"); }
          else if (this.kind === "end") this.fail();
          else this.statement();
        }
        return this.next();
      case "import": { const ahead = this.peek(); if (ahead.value === "(" || ahead.value === ".") break; return this.importStatement(start); }
      case "export": return this.exportStatement(start);
      case "interface": if (this.declares()) return this.gone(start, () => { this.next(); this.word(); if (this.is("<")) this.typeParameters(); while (!this.is("{")) { if (this.kind === "end") this.fail(); this.next(); } this.balanced(); }); break;
      case "type": if (this.declares()) return this.gone(start, () => { this.next(); this.word(); if (this.is("<")) this.typeParameters(); this.expect("="); this.type(); this.semicolon(); }); break;
      case "enum": if (this.declares()) return this.enumeration(); break;
      case "namespace": case "module": { const ahead = this.peek(); if (!ahead.line && (ahead.kind === "word" || ahead.kind === "text")) return this.namespace(start); break; }
      case "declare": { const ahead = this.peek(); if (!ahead.line && ahead.value in DECLARES) return this.gone(start, () => { this.next(); const ambient = this.isWord("global") || this.isWord("module") && this.peek().kind === "text"; if (ambient) { this.next(); if (this.kind === "text") this.next(); if (this.is("{")) this.balanced(); } else this.statement(); }); break; }
    }
    if (this.peek().value === ":" && !this.is("this")) { this.next(); this.next(); return this.statement(); }
    this.expression();
    this.semicolon();
  }
  declares() { const ahead = this.peek(); return ahead.kind === "word" && !ahead.line; }
  parenthesized() { this.expect("("); this.expression(); this.expect(")"); }
  declarations(noIn = false) {
    const names = [];
    do {
      this.target(names);
      if (this.is("!")) { this.blank(this.start, this.start + 1); this.next(); }
      this.annotation();
      if (this.eat("=")) this.assign(noIn);
    } while (this.eat(","));
    return names;
  }
  forStatement() {
    this.next();
    this.eat("await");
    this.expect("(");
    if (!this.is(";")) {
      if (this.isWord("var") || this.isWord("const") || this.isWord("let") && regexpExec(/^[\w$[{]/, this.peek().value)) { this.next(); this.declarations(true); } else this.expression(true);
    }
    if (this.eat("of") || this.eat("in")) this.expression();
    else { this.expect(";"); if (!this.is(";")) this.expression(); this.expect(";"); if (!this.is(")")) this.expression(); }
    this.expect(")");
    this.statement();
  }
  functionDeclaration(start) {
    this.next();
    this.eat("*");
    if (this.kind === "word") this.next();
    const { length } = this.edits;
    if (!this.functionRest()) { this.edits.length = length; this.blank(start, this.ended, ";"); }
  }
  // Type parameters, parameters, return type and body; false if there is no body.
  functionRest(properties) {
    this.generics();
    this.parameters(properties);
    this.annotation();
    if (this.is("{")) { properties ? this.constructorBody(properties) : this.block(); return true; }
    this.semicolon();
    return false;
  }
  parameters(properties) {
    this.expect("(");
    while (!this.is(")")) {
      const { start } = this;
      let property = false;
      while (this.kind === "word" && this.value in MODIFIERS && (this.peek().kind === "word" || regexpExec(/^[{[]$/, this.peek().value))) { property = true; this.next(); }
      if (property) { this.blank(start, this.start); if (properties && this.kind === "word") push(properties, this.value); else if (!properties) this.fail("a parameter property stands in constructors only", start); }
      if (this.isWord("this")) { this.next(); if (this.eat(":")) this.type(); this.eat(","); this.blank(start); continue; }
      this.eat("...");
      this.target();
      if (this.is("?")) { this.blank(this.start, this.start + 1); this.next(); }
      this.annotation();
      if (this.eat("=")) this.assign();
      if (!this.eat(",")) break;
    }
    this.expect(")");
  }
  constructorBody(properties) {
    let text = "";
    for (let index = 0; index < properties.length; index++) { text += ` this.${properties[index]} = ${properties[index]};`; this.fields += ` ${properties[index]};`; }
    this.expect("{");
    let placed = !text || !this.derived;
    if (text && placed) this.replace(this.ended, this.ended, text);
    while (!this.is("}")) {
      if (this.kind === "end") this.fail();
      const calls = !placed && this.isWord("super") && this.peek().value === "(";
      this.statement();
      if (calls) { this.replace(this.ended, this.ended, textSlice(this.source, this.ended - 1, this.ended) === ";" ? text : `;${text}`); placed = true; }
    }
    this.next();
  }
  // What is bound there; its names are added to *names*.
  target(names = []) {
    if (this.eat("[")) {
      while (!this.is("]")) { if (this.eat(",")) continue; this.eat("..."); this.target(names); if (this.eat("=")) this.assign(); if (!this.eat(",")) break; }
      return this.expect("]");
    }
    if (this.eat("{")) {
      while (!this.is("}")) {
        if (this.eat("...")) this.target(names);
        else { const { value } = this; this.key(); if (this.eat(":")) this.target(names); else push(names, value); if (this.eat("=")) this.assign(); }
        if (!this.eat(",")) break;
      }
      return this.expect("}");
    }
    push(names, this.word());
  }
  key() {
    if (this.eat("[")) { this.assign(); return this.expect("]"); }
    if (this.kind === "mark" || this.kind === "end") this.fail();
    this.next();
  }

  classBody(declared) {
    this.next();
    if (this.kind === "word" && this.value !== "extends" && this.value !== "implements") { if (declared) this.classes.add(this.value); this.next(); }
    this.generics();
    const outer = this.derived, outerFields = this.fields;
    this.derived = false;
    this.fields = "";
    if (this.eat("extends")) {
      this.derived = true;
      this.operand();
      if (this.is("<")) { const { start } = this; this.typeArguments(); this.blank(start); }
    }
    if (this.isWord("implements")) { const { start } = this; do { this.next(); this.type(); } while (this.is(",")); this.blank(start); }
    const open = this.position;
    this.expect("{");
    while (!this.is("}")) { if (this.kind === "end") this.fail(); this.member(); }
    this.next();
    if (this.fields) this.replace(open, open, this.fields);
    this.derived = outer;
    this.fields = outerFields;
  }
  member() {
    if (this.eat(";")) return;
    const { start } = this, { length } = this.edits;
    if (this.is("@")) this.fail("decorators are not supported here");
    let abstract = false, isStatic = false;
    for (;;) {
      if (this.kind !== "word") break;
      const ahead = this.peek(), names = !(ahead.kind === "mark" && regexpExec(/^[(=;:?!},<]$/, ahead.value)) && ahead.kind !== "end";
      if (!names) break;
      if (this.value in MODIFIERS) { abstract ||= this.value === "abstract" || this.value === "declare"; const from = this.start; this.next(); this.blank(from, this.ended); continue; }
      if (this.value === "static" || this.value === "accessor" || (this.value === "async" || this.value === "get" || this.value === "set") && !ahead.line) {
        isStatic = this.value === "static";
        this.next();
        if (isStatic && this.is("{")) return this.block();
        continue;
      }
      break;
    }
    this.eat("*");
    if (this.is("[")) {
      const indexed = this.attempt(() => { this.next(); this.word(); this.expect(":"); this.type(); this.expect("]"); if (this.eat(":")) this.type(); this.semicolon(); });
      if (indexed) { this.edits.length = length; return this.blank(start); }
    }
    const isConstructor = this.isWord("constructor") && !isStatic;
    this.key();
    if (this.is("?") || this.is("!")) { this.blank(this.start, this.start + 1); this.next(); }
    if (this.is("(") || this.is("<")) {
      if (!this.functionRest(isConstructor ? [] : undefined) || abstract) { this.edits.length = length; this.blank(start); }
      return;
    }
    this.annotation();
    if (this.eat("=")) this.assign();
    this.semicolon();
    if (abstract) { this.edits.length = length; this.blank(start); }
  }

  enumeration() {
    const { start } = this;
    this.next();
    const name = this.word();
    if (!this.is("{")) this.fail();
    this.replace(start, this.position, `var ${name}; (function (${name}) { let $ = -1;`);
    this.next();
    while (!this.is("}")) {
      const from = this.start;
      const key = this.kind === "text" ? this.value : this.kind === "word" ? stringify(this.value) : this.fail();
      const local = this.kind === "word" && this.value !== name && this.value !== "$" ? ` const ${this.value} = $;` : "";
      this.next();
      const put = ` ${name}[${key}] = $; if (typeof $ === "number") ${name}[$] = ${key};${local}`;
      if (this.is("=")) {
        this.replace(from, this.position, "$ =");
        this.next();
        this.assign();
        this.replace(this.ended, this.ended, `;${put}`);
      } else this.replace(from, this.ended, `$ = $ + 1;${put}`);
      if (this.is(",")) { this.blank(this.start, this.start + 1); this.next(); } else if (!this.is("}")) this.fail();
    }
    this.replace(this.start, this.position, `})(${name} || (${name} = {}));`);
    this.next();
  }
  namespace(start) {
    this.next();
    if (this.kind === "text") this.fail("modules can't be declared here");
    const outer = this.space;
    let open = "", close = "", name = "";
    do {
      const within = name;
      name = this.word();
      this.space += `.${name}`;
      const before = this.spaces[this.space] ??= [];
      if (within && !arrayHas(this.spaces[textSlice(this.space, 0, -name.length - 1)], name)) push(this.spaces[textSlice(this.space, 0, -name.length - 1)], name);
      // What it exported where it was opened before can be used without its name. A class of the name is there already.
      open += `${this.classes.has(name) ? "" : `var ${name}; `}(function (${name}${before.length ? `, { ${arrayJoin(before, ", ")} } = ${name}` : ""}) {{`;
      close = `}})(${name} || (${name} = {}));${within ? ` ${within}.${name} = ${name};` : ""}${close}`;
    } while (this.eat("."));
    if (!this.is("{")) this.fail();
    this.replace(start, this.position, open);
    this.next();
    while (!this.is("}")) {
      if (this.kind === "end") this.fail();
      if (this.isWord("export")) {
        const from = this.start;
        this.next();
        this.blank(from, this.ended);
        const changes = this.isWord("let") || this.isWord("var"), names = this.exported();
        let put = "";
        for (let index = 0; index < names.length; index++) {
          const one = names[index];
          put += changes ? ` Object.defineProperty(${name}, "${one}", { get: () => ${one}, set: (value) => { ${one} = value; }, enumerable: true, configurable: true });` : ` ${name}.${one} = ${one};`;
          if (!arrayHas(this.spaces[this.space], one)) push(this.spaces[this.space], one);
        }
        if (put) this.replace(this.ended, this.ended, `;${put}`);
      } else this.statement();
    }
    this.replace(this.start, this.position, close);
    this.next();
    this.space = outer;
  }
  // A statement of a namespace, and the names that it declares.
  exported() {
    const saved = this.save();
    if (this.isWord("interface") || this.isWord("type") || this.isWord("declare")) { this.statement(); return []; }
    if (this.isWord("const") && this.peek().value !== "enum" || this.isWord("let") || this.isWord("var")) { this.next(); const names = this.declarations(); this.semicolon(); return names; }
    while (this.kind === "word" && this.value in wordSet("abstract async const function class enum namespace")) this.next();
    this.eat("*");
    const name = this.word();
    this.back(saved);
    this.statement();
    return [name];
  }
  // There are no modules: an import is a variable, and what is exported is only declared. Lines and columns stay.
  importStatement(start) {
    const { length } = this.edits, sources = [];
    this.next();
    if (this.kind === "text") { this.replace(start, start + 6, "__import("); this.next(); this.replace(this.ended, this.ended, ")"); return this.semicolon(); }
    const typed = this.isWord("type") && (this.peek().kind === "word" && this.peek().value !== "from" || regexpExec(/^[{*]$/, this.peek().value));
    if (typed) this.next();
    let hasValue = false;
    if (this.kind === "word" && !(this.isWord("from") && this.peek().kind === "text")) {
      this.next();
      if (this.is("=")) { this.replace(start, start + 6, "const "); this.next(); this.assign(); return this.semicolon(); }
      push(sources, [this.ended, ", 1"]);
      this.eat(",");
      hasValue = true;
    }
    if (this.is("*")) { const from = this.start; this.next(); this.expect("as"); this.blank(from, this.start); this.word(); push(sources, [this.ended, ""]); hasValue = true; }
    else if (this.is("{")) { hasValue = this.specifiers() || hasValue; push(sources, [this.ended, ""]); }
    const from = this.start;
    this.expect("from");
    if (this.kind !== "text") this.fail();
    const module = this.value;
    this.next();
    if (this.eat("with") || this.eat("assert")) this.balanced();
    const { ended } = this;
    this.semicolon();
    if (typed || !hasValue) { this.edits.length = length; return this.blank(start, this.ended, ";"); } // types alone: the module need not be there
    this.replace(start, start + 6, "var   ");
    for (let index = 0; index < sources.length; index++) this.replace(sources[index][0], sources[index][0], ` = __import(${module}${sources[index][1]})`);
    this.blank(from, ended);
  }
  // Whether there is one that is no type, or none at all.
  specifiers() {
    this.next();
    let values = 0, types = 0;
    while (!this.is("}")) {
      const { start } = this;
      const typed = this.isWord("type") && (this.peek().kind === "word" && this.peek().value !== "as" || this.peek().kind === "text");
      if (typed) types++; else values++;
      for (let first = true; !this.is(",") && !this.is("}"); first = false) {
        if (this.kind === "end") this.fail();
        if (!first && !typed && this.isWord("as")) this.replace(this.start, this.position, ": ");
        this.next();
      }
      this.eat(",");
      if (typed) this.blank(start);
    }
    this.next();
    return values > 0 || types === 0;
  }
  get exportsAs() { return "module.exports.default ="; }
  exportStatement(start) {
    this.next();
    if (this.isWord("default")) {
      const ends = this.position;
      this.next();
      if (this.isWord("interface")) return this.gone(start, () => this.statement());
      const saved = this.save();
      while (this.isWord("abstract") || this.isWord("class") || this.isWord("async") || this.isWord("function") || this.is("*")) this.next();
      const named = this.start !== saved[3] && this.kind === "word" && this.value !== "extends" && this.value !== "implements" && !this.is("=>");
      this.back(saved);
      if (named && !(this.isWord("async") && this.peek().value !== "function")) this.blank(start, ends);
      else this.replace(start, ends, this.exportsAs + textReplace(textSlice(this.source, start, ends), /[^\n]/g, ""));
      if (this.isWord("abstract") && this.peek().value === "class") { this.blank(this.start, this.position); this.next(); }
      if (this.isWord("class")) return this.classBody(true);
      if (this.isWord("function") || this.isWord("async") && this.peek().value === "function") { this.eat("async"); return this.functionDeclaration(start); }
      this.assign();
      return this.semicolon();
    }
    if (this.is("=")) { this.replace(start, this.position, "module.exports ="); this.next(); this.expression(); return this.semicolon(); }
    if (this.isWord("type") && regexpExec(/^[{*]$/, this.peek().value) || this.is("{") || this.is("*")) return this.gone(start, () => { this.eat("type"); if (this.is("{")) this.specifiers(); else { this.next(); if (this.eat("as")) this.next(); } if (this.eat("from")) { this.next(); if (this.eat("with") || this.eat("assert")) this.balanced(); } this.semicolon(); });
    if (this.isWord("interface") || this.isWord("type") || this.isWord("declare")) return this.gone(start, () => this.statement());
    this.blank(start, this.start);
    if (this.isWord("function") || this.isWord("async") && this.peek().value === "function") { this.eat("async"); return this.functionDeclaration(start); }
    this.statement();
  }

  // -- expressions

  expression(noIn = false) { do this.assign(noIn); while (this.eat(",")); }
  assign(noIn = false) {
    if (this.isWord("yield")) { this.next(); if (!this.line) this.eat("*"); if (!this.line && !regexpExec(/^[)\]};,:]$/, this.value) && this.kind !== "end") this.assign(noIn); return; }
    if (this.arrow(noIn)) return;
    this.conditional(noIn);
    if (this.kind === "mark" && (this.value in ASSIGN || this.is(">") && this.shifts("="))) { this.next(); this.assign(noIn); }
  }
  arrow(noIn) {
    const ahead = this.kind === "word" || this.is("(") || this.is("<") ? this.peek() : null;
    if (ahead === null) return false;
    if (this.kind === "word" && ahead.value === "=>" && !ahead.line) { this.next(); this.next(); this.arrowBody(noIn); return true; }
    const isAsync = this.isWord("async") && !ahead.line;
    if (isAsync && ahead.kind === "word" && ahead.value !== "function") { return !!this.attempt(() => { this.next(); this.next(); if (!this.is("=>")) return false; this.next(); this.arrowBody(noIn); }); }
    if (!this.is("(") && !this.is("<") && !(isAsync && (ahead.value === "(" || ahead.value === "<"))) return false;
    const position = `${this.start}${this.inTrue ? "t" : ""}`;
    if (this.noArrow.has(position)) return false;
    const { inTrue } = this, saved = this.save();
    const done = this.attempt(() => {
      if (isAsync) this.next();
      this.generics();
      this.parameters();
      const typed = this.is(":");
      this.annotation();
      if (!this.is("=>") || this.line) return false;
      this.next();
      this.inTrue = false;
      this.arrowBody(noIn);
      // `a ? (b) : c => d`: here the colon is not of a return type.
      return !(typed && inTrue && !this.is(":"));
    });
    this.inTrue = inTrue;
    if (!done) { this.noArrow.add(position); this.back(saved); }
    return !!done;
  }
  arrowBody(noIn) { if (this.is("{")) this.block(); else this.assign(noIn); }
  conditional(noIn) {
    this.binary(noIn);
    if (!this.is("?")) return;
    const { inTrue } = this;
    this.next();
    this.inTrue = true;
    this.assign();
    this.inTrue = inTrue;
    this.expect(":");
    this.assign(noIn);
  }
  // `>` is read alone, for types; in an expression it may begin `>>`, `>>>`, `>=` and assignments.
  shifts(end) {
    const found = at(/>{1,3}=?/y, this.source, this.start)[0], assigns = found.length > 2 && found.endsWith("=");
    if ((end === "=") !== assigns) return false;
    this.position = this.start + found.length;
    return true;
  }
  binary(noIn) {
    this.unary();
    for (;;) {
      if (this.kind === "word" && (this.value === "as" || this.value === "satisfies") && !this.line) {
        const { start } = this;
        this.next();
        this.type();
        this.blank(start);
        continue;
      }
      if (this.is(">") ? !this.shifts("") : !(this.kind !== "text" && this.value in OPERATORS) || noIn && this.value === "in") return;
      this.next();
      this.unary();
    }
  }
  unary() {
    for (;;) {
      if (this.kind === "word" || this.kind === "mark") {
        if (this.value in UNARY && !(this.kind === "word" && this.peek().value === "=>")) { this.next(); continue; }
        if (this.isWord("await") && !regexpExec(/^[)\]};,:.=]/, this.peek().value || ";")) { this.next(); continue; }
        if (this.is("<")) { const { start } = this; if (at(JSX, this.source, start)) this.fail("JSX is not supported here: return texts or plain objects"); this.next(); this.type(); if (!this.is(">")) this.fail(); this.next(); this.blank(start); continue; }
      }
      break;
    }
    this.operand();
    if ((this.is("++") || this.is("--")) && !this.line) this.next();
  }
  operand() {
    this.primary();
    for (;;) {
      if (this.kind !== "mark") return;
      if (this.value === "." || this.value === "?.") {
        const optional = this.value === "?.";
        this.next();
        if (optional && (this.is("(") || this.is("[") || this.is("<"))) continue;
        if (this.kind !== "word" && this.kind !== "private") this.fail();
        this.next();
      } else if (this.value === "[") { this.next(); this.outside(() => this.expression()); this.expect("]"); }
      else if (this.value === "(") this.arguments();
      else if (this.value === "`") this.template();
      else if (this.value === "!" && !this.line) { this.blank(this.start, this.start + 1); this.next(); }
      else if (this.value === "<" || this.value === "<<") {
        const { start } = this;
        const given = this.attempt(() => { this.typeArguments(); return this.is("(") || this.is("`") || this.line || this.kind === "end" || this.kind === "mark" && this.value in ENDS && !this.is(">"); });
        if (!given) return;
        this.blank(start);
      } else return;
    }
  }
  outside(parse) { const { inTrue } = this; this.inTrue = false; parse(); this.inTrue = inTrue; }
  arguments() { this.next(); this.outside(() => { while (!this.is(")")) { this.eat("..."); this.assign(); if (!this.eat(",")) break; } }); this.expect(")"); }
  primary() {
    switch (this.kind) {
      case "number": case "text": case "private": return this.next();
      case "end": return this.fail();
      case "word":
        switch (this.value) {
          case "function": this.next(); this.eat("*"); if (this.kind === "word") this.next(); if (!this.functionRest()) this.fail(); return;
          case "async": { const ahead = this.peek(); if (ahead.value === "function" && !ahead.line) { this.next(); return this.primary(); } return this.next(); }
          case "class": return this.classBody(false);
          case "new": this.next(); if (this.eat(".")) return this.next(); return this.operand();
          case "import": { const { start } = this; this.next(); if (this.eat(".")) return this.next(); if (!this.is("(")) this.fail(); return this.replace(start, start + 6, "_load_"); }
          default: return this.next();
        }
    }
    switch (this.value) {
      case "(": this.next(); this.outside(() => this.expression()); return this.expect(")");
      case "[": this.next(); this.outside(() => { while (!this.is("]")) { if (this.eat(",")) continue; this.eat("..."); this.assign(); if (!this.is("]")) this.expect(","); } }); return this.next();
      case "{": return this.object();
      case "`": return this.template();
      case "/": case "/=": {
        const found = at(REGEXP, this.source, this.start);
        if (!found) this.fail("Invalid regular expression: missing /");
        this.position = this.start + found[0].length;
        this.kind = "text";
        return this.next();
      }
      case "@": return this.fail("decorators are not supported here");
    }
    this.fail();
  }
  object() {
    this.next();
    this.outside(() => {
      while (!this.is("}")) {
        if (this.eat("...")) this.assign();
        else {
          while ((this.isWord("get") || this.isWord("set") || this.isWord("async")) && !regexpExec(/^[(:,}=]$/, this.peek().value)) this.next();
          this.eat("*");
          this.key();
          if (this.is("(") || this.is("<")) { if (!this.functionRest()) this.fail(); }
          else if (this.eat(":")) this.assign();
          else if (this.eat("=")) this.assign();
        }
        if (!this.is("}")) this.expect(",");
      }
    });
    this.next();
  }
  template() {
    const { source } = this;
    let end = this.start + 1;
    for (;;) {
      if (end >= source.length) this.fail("Unterminated template literal");
      if (source[end] === "\\") end += 2;
      else if (source[end] === "`") break;
      else if (source[end] === "$" && source[end + 1] === "{") {
        this.position = end + 2;
        this.next();
        this.outside(() => this.expression());
        if (!this.is("}")) this.fail();
        end = this.position;
      } else end++;
    }
    this.position = end + 1;
    this.next();
  }
}
const stripTypes = (source) => new TypeStripper(source).program();
