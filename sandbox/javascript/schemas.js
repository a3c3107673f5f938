// The types of a tool's function as JSON Schema, and values from JSON as what the types say they are: the same types
// both ways, so that what a schema promises is what a function gets.
const MAX_NESTING = 40;
class NotExpressible extends NativeError {}

const PLAIN_TYPES = {
  __proto__: null,
  string: { type: "string" }, number: { type: "number" }, boolean: { type: "boolean" }, bigint: { type: "integer" },
  integer: { type: "integer" }, int: { type: "integer" }, any: {}, unknown: {}, object: { type: "object" },
  Date: { type: "string", format: "date-time" }, URL: { type: "string", format: "uri" },
  String: { type: "string" }, Number: { type: "number" }, Boolean: { type: "boolean" }, Object: { type: "object" },
};
const BYTES = { __proto__: null, Uint8Array: true, Buffer: true, ArrayBuffer: true };
const FILE_SCHEMA = { type: "object", properties: { file: { type: "string" }, bytes: { type: "integer" } }, required: ["file", "bytes"] };
const LISTS = { __proto__: null, Array: true, ReadonlyArray: true, Iterable: true, Set: true, ReadonlySet: true, IterableIterator: true, Generator: true, Iterator: true };
const UTILITIES = { __proto__: null, Partial: true, Required: true, Readonly: true, Pick: true, Omit: true, NonNullable: true, Exclude: true, Extract: true };
const named = (name) => ({ t: "name", name, args: [] });
const isUndefined = (type) => type.t === "name" && (type.name === "undefined" || type.name === "void");

class Schemas {
  definitions = {};
  #names = new NativeMap();
  #used = new NativeSet();
  // *declared*: {t: "interface" | "alias" | "enum" | "class", …} by name; *valueOf*: what a name of the code stands for.
  constructor(declared, valueOf, result = false) { this.declared = declared; this.valueOf = valueOf; this.result = result; }

  of(type, depth = 0) {
    if (depth > MAX_NESTING) throw new NotExpressible("a type that nests without end");
    switch (type.t) {
      case "bad": throw new NotExpressible(type.what);
      case "lit": return type.value === null ? { type: "null" } : { enum: [type.value] };
      case "array": return { type: "array", items: this.of(type.of, depth + 1) };
      case "union": return this.#union(type, depth);
      case "tuple": return this.#tuple(type, depth);
      case "object": return this.#object(type, depth);
      case "name": return this.#name(type, depth);
      case "schema": return type.schema;
      default: return this.of(this.expand(type, depth), depth + 1);
    }
  }
  #union(type, depth) {
    const schemas = [], values = [];
    for (const member of this.#members(type, depth)) {
      if (isUndefined(member)) continue;
      if (member.t === "lit") { if (!values.includes(member.value)) values.push(member.value); } else schemas.push(this.of(member, depth + 1));
    }
    if (values.length === 2 && values.includes(true) && values.includes(false)) schemas.unshift({ type: "boolean" });
    else if (values.length === 1 && values[0] === null) schemas.push({ type: "null" });
    else if (values.length) schemas.unshift({ enum: values });
    if (!schemas.length) return { type: "null" };
    return schemas.length === 1 ? schemas[0] : { anyOf: schemas };
  }
  // The members of a union, with those of unions in it that have no definition of their own.
  #members(type, depth) {
    const found = [];
    for (const member of type.of) {
      const inner = member.t === "keyof" || member.t === "index" || member.t === "and" || this.#isAlias(member) ? this.expand(member, depth + 1, true) : member;
      if (inner.t === "union") found.push(...this.#members(inner, depth + 1)); else found.push(inner);
    }
    return found;
  }
  #isAlias(type) {
    const declared = type.t === "name" ? this.declared[type.name] : undefined;
    return declared !== undefined && declared.t === "alias" && (declared.type.t === "union" || declared.type.t === "lit") && !this.#names.has(type.name);
  }
  #tuple(type, depth) {
    const fixed = type.items.filter((item) => !item.rest), rest = type.items.find((item) => item.rest);
    const schema = { type: "array", prefixItems: fixed.map((item) => this.of(item.type, depth + 1)), minItems: fixed.filter((item) => !item.optional).length };
    if (!rest) schema.maxItems = fixed.length;
    else { const inner = this.expand(rest.type, depth + 1); schema.items = inner.t === "array" ? this.of(inner.of, depth + 1) : {}; }
    return schema;
  }
  #object(type, depth) {
    if (type.bad) throw new NotExpressible(type.bad);
    if (!type.members.length && !type.index) return {};
    const properties = {}, required = [];
    for (const { name, optional, type: inner, text } of type.members) {
      let schema;
      try { schema = this.of(inner, depth + 1); } catch (error) { if (error instanceof NotExpressible) throw new NotExpressible(`${name}: ${error.message}`); throw error; }
      defineProperty(properties, name, { __proto__: null, value: text && !schema.description ? { ...schema, description: text } : schema, writable: true, enumerable: true, configurable: true });
      if (!optional && !this.#takesUndefined(inner, depth)) required.push(name);
    }
    const schema = { type: "object", properties, additionalProperties: type.index ? this.of(type.index.type, depth + 1) : false };
    if (!type.members.length) delete schema.properties;
    if (required.length) schema.required = required;
    return schema;
  }
  #takesUndefined(type, depth) { return isUndefined(type) || type.t === "union" && this.#members(type, depth).some(isUndefined); }
  takesUndefined(type) { return this.#takesUndefined(type, 0); }

  #name(type, depth) {
    const { name, args } = type, declared = this.declared[name];
    if ((name === "integer" || name === "int") && (declared === undefined || declared.t === "alias")) return { type: "integer" };
    if (declared !== undefined) return this.#declaredType(type, declared, depth);
    if (isUndefined(type) || name === "never") return { type: "null" };
    if (name === "Object" && args.length === 2) return this.#record(args, depth);
    if (name in PLAIN_TYPES) return { ...PLAIN_TYPES[name] };
    if (name in BYTES) return this.result ? { anyOf: name === "Uint8Array" ? [{ type: "array", items: { type: "integer" } }, FILE_SCHEMA] : [{ type: "string" }, FILE_SCHEMA] } : { type: "string" };
    if (name in LISTS || name === "array") {
      const schema = { type: "array" };
      if (args.length) schema.items = this.of(args[0], depth + 1);
      if (name === "Set" || name === "ReadonlySet") schema.uniqueItems = true;
      return schema;
    }
    if (name === "Record" || name === "Map" || name === "ReadonlyMap") return this.#record(args, depth);
    if (name === "Promise" || name === "PromiseLike") { if (this.result && args.length) return this.of(args[0], depth + 1); throw new NotExpressible("a promise"); }
    if (name === "Awaited" && args.length) return this.of(args[0], depth + 1);
    if (name in UTILITIES) return this.of(this.expand(type, depth), depth + 1);
    if (name === "Function" || name === "function") throw new NotExpressible("a function");
    throw new NotExpressible(`the type ${name}, which is not declared in the source`);
  }
  #record(args, depth) {
    if (args.length < 2) return { type: "object" };
    const key = this.expand(args[0], depth + 1, true);
    const schema = { type: "object", additionalProperties: this.of(args[1], depth + 1) };
    if (key.t === "name" && (key.name === "string" || key.name === "any" || key.name === "number")) return schema;
    if (key.t !== "lit" && key.t !== "union") throw new NotExpressible(`keys of type ${key.name ?? key.t}: JSON has only text for keys`);
    schema.propertyNames = this.of(key, depth + 1);
    return schema;
  }
  #declaredType(type, declared, depth) {
    const { name, args } = type;
    if (declared.t === "generic") throw new NotExpressible(`the type variable ${name}: write the type itself`);
    if (declared.t === "class") throw new NotExpressible(`the class ${name}: use an interface`);
    if (declared.t === "enum") return this.#defined(name, name, () => ({ enum: this.enumValues(name) }));
    const key = args.length ? `${name}<${stringify(args)}>` : name;
    if (this.#names.has(key)) return this.#reference(key);
    if (declared.t === "interface" || declared.type.t === "object" || declared.type.t === "and") return this.#defined(key, name, () => this.of(this.expand(type, depth), depth + 1), declared.text);
    // An alias of something else stands for it, unless it refers to itself.
    this.#names.set(key, this.#free(name));
    const schema = this.of(this.substituted(declared, args), depth + 1);
    if (this.#used.has(key)) { this.definitions[this.#names.get(key)] = schema; return this.#reference(key); }
    this.#names.delete(key);
    return declared.text && !schema.description ? { ...schema, description: declared.text } : schema;
  }
  #free(name) { let free = name, number = 2; while (this.definitions[free] !== undefined || [...this.#names.values()].includes(free)) free = `${name}${number++}`; return free; }
  #reference(key) { this.#used.add(key); return { $ref: `#/$defs/${this.#names.get(key)}` }; }
  #defined(key, name, make, text = "") {
    if (!this.#names.has(key)) {
      const free = this.#free(name);
      this.#names.set(key, free);
      this.definitions[free] = {};
      const schema = make();
      this.definitions[free] = text ? { ...schema, description: text } : schema;
    }
    return this.#reference(key);
  }
  enumValues(name) {
    const value = this.valueOf([name]);
    const values = value === null || typeof value !== "object" ? [] : keysOf(value).filter((key) => !/^-?\d+(\.\d+)?$/.test(key)).map((key) => value[key]);
    if (!values.length || !values.every((one) => typeof one === "string" || typeof one === "number")) throw new NotExpressible(`the enum ${name}: its values must be text or numbers`);
    return values;
  }

  // -- structure

  substituted(declared, args) {
    if (!declared.generics.length) return declared.type;
    const given = create(null);
    declared.generics.forEach((generic, at) => { given[generic.name] = args[at] ?? generic.default ?? named("any"); });
    return substitute(declared.type, given);
  }
  // One step to what a type is made of: an object, a union, a plain name. With *whole*, as many as there are.
  expand(type, depth = 0, whole = false) {
    if (depth > MAX_NESTING) throw new NotExpressible("a type that nests without end");
    let found = type;
    if (type.t === "name") {
      const declared = this.declared[type.name];
      if (declared !== undefined && declared.t === "enum") return whole ? { t: "union", of: this.enumValues(type.name).map((value) => ({ t: "lit", value })) } : type;
      if (declared !== undefined && (declared.t === "alias" || declared.t === "interface")) {
        found = this.substituted(declared, type.args);
        if (declared.t === "interface" && declared.parents.length) found = this.#merged([...declared.parents, found], depth);
        return whole || found.t === "name" || found.t === "and" ? this.expand(found, depth + 1, whole) : found;
      }
      if (type.name in UTILITIES && declared === undefined) return this.#utility(type, depth);
      if (type.name === "Record" && type.args.length === 2) {
        const key = this.expand(type.args[0], depth + 1, true), keys = key.t === "lit" ? [key] : key.t === "union" ? key.of : [];
        if (keys.length) return { t: "object", members: keys.map((one) => ({ name: `${one.value}`, optional: false, type: type.args[1], text: "" })) };
        return { t: "object", members: [], index: { by: key, type: type.args[1] } };
      }
      if ((type.name === "Array" || type.name === "ReadonlyArray") && type.args.length) return { t: "array", of: type.args[0] };
      return type;
    }
    if (type.t === "and") return this.#merged(type.of, depth);
    if (type.t === "keyof") {
      const inner = this.expand(type.of, depth + 1, true);
      const keys = inner.t === "value" ? keysOf(inner.value) : inner.t === "object" ? inner.members.map((member) => member.name) : null;
      if (keys === null || !keys.length) { if (inner.t === "object" && inner.index) return named("string"); throw new NotExpressible("`keyof` of something without properties"); }
      return { t: "union", of: keys.map((value) => ({ t: "lit", value })) };
    }
    if (type.t === "typeof") { const value = this.valueOf(type.path); return whole ? { t: "value", value } : typeOfValue(value); }
    if (type.t === "index") return this.#indexed(type, depth, whole);
    return type;
  }
  #indexed(type, depth, whole) {
    const inner = this.expand(type.of, depth + 1, true), by = this.expand(type.by, depth + 1, true);
    const keys = by.t === "lit" ? [by.value] : by.t === "union" ? by.of.map((one) => one.value) : null;
    if (inner.t === "value" && inner.value !== null && typeof inner.value === "object") {
      const values = keys === null || by.t === "name" ? Object.values(inner.value) : keys.map((key) => inner.value[key]);
      return { t: "union", of: values.map(typeOfValue) };
    }
    if (inner.t === "array") return this.expand(inner.of, depth + 1, whole);
    if (inner.t === "tuple") return keys === null ? { t: "union", of: inner.items.map((item) => item.type) } : inner.items[keys[0]]?.type ?? named("undefined");
    if (inner.t === "object" && keys !== null) {
      const found = inner.members.filter((member) => keys.includes(member.name)).map((member) => member.type);
      if (found.length) return found.length === 1 ? found[0] : { t: "union", of: found };
    }
    if (inner.t === "object" && inner.index) return inner.index.type;
    throw new NotExpressible("a type by index whose property is not found");
  }
  #merged(types, depth) {
    const members = new NativeMap();
    let index, bad;
    for (const one of types) {
      const inner = this.expand(one, depth + 1, true);
      if (inner.t !== "object") throw new NotExpressible("an intersection of something else than objects");
      for (const member of inner.members) members.set(member.name, member);
      index = inner.index ?? index;
      bad = inner.bad ?? bad;
    }
    return { t: "object", members: [...members.values()], ...(index ? { index } : {}), ...(bad ? { bad } : {}) };
  }
  #utility({ name, args }, depth) {
    if (!args.length) throw new NotExpressible(`${name} of nothing`);
    const inner = this.expand(args[0], depth + 1, true);
    const wanted = args[1] === undefined ? null : this.expand(args[1], depth + 1, true);
    const listed = wanted === null ? [] : wanted.t === "union" ? wanted.of : [wanted];
    if (name === "Exclude" || name === "Extract" || name === "NonNullable") {
      const of = inner.t === "union" ? this.#members(inner, depth + 1) : [inner];
      const gone = name === "NonNullable" ? [{ t: "lit", value: null }, named("undefined")] : listed;
      const isIn = (one) => gone.some((other) => stringify(one) === stringify(other));
      return { t: "union", of: of.filter((one) => isIn(one) === (name === "Extract")) };
    }
    if (name === "Readonly") return inner;
    if (inner.t !== "object") throw new NotExpressible(`${name} of something else than an object`);
    const names = listed.map((one) => one.value);
    const members = inner.members.filter((member) => name === "Pick" ? names.includes(member.name) : name === "Omit" ? !names.includes(member.name) : true)
      .map((member) => name === "Partial" ? { ...member, optional: true } : name === "Required" ? { ...member, optional: false } : member);
    return { ...inner, members };
  }

  // -- values

  // What *value*, which came as JSON and fits the schema, stands for.
  build(type, value, path, depth = 0) {
    if (depth > 200 || value === undefined) return value;
    const base = this.expand(type, 0, true);
    switch (base.t) {
      case "array": return isArray(value) ? value.map((item, at) => this.build(base.of, item, `${path}[${at}]`, depth + 1)) : value;
      case "tuple": return isArray(value) ? value.map((item, at) => base.items[at] && !base.items[at].rest ? this.build(base.items[at].type, item, `${path}[${at}]`, depth + 1) : item) : value;
      case "object": {
        if (value === null || typeof value !== "object" || isArray(value)) return value;
        const types = new NativeMap(base.members.map((member) => [member.name, member.type]));
        for (const key of keysOf(value)) {
          const inner = types.get(key) ?? base.index?.type;
          if (inner !== undefined) defineProperty(value, key, { __proto__: null, value: this.build(inner, value[key], `${path}.${key}`, depth + 1), writable: true, enumerable: true, configurable: true });
        }
        return value;
      }
      case "union": { const fitting = base.of.find((one) => this.#fits(one, value)); return fitting === undefined ? value : this.build(fitting, value, path, depth + 1); }
      case "name": return this.#buildName(base, value, path, depth);
    }
    return value;
  }
  #buildName({ name, args }, value, path, depth) {
    if (this.declared[name] !== undefined) return value;
    const inner = (item, key) => args.length ? this.build(args[args.length - 1], item, `${path}[${key}]`, depth + 1) : item;
    if (name === "Date" && typeof value === "string") { const date = new NativeDate(value); if (dateTime(date) !== dateTime(date)) throw new InputError(`${path}: ${stringify(cut(value, 100))} is not a date`); return date; }
    if (name === "URL" && typeof value === "string") { try { return new globals.URL(value); } catch { throw new InputError(`${path}: ${stringify(cut(value, 100))} is not a URL`); } }
    if (name === "bigint" && typeof value === "number") return BigInt(value);
    if (name in BYTES && typeof value === "string") return Buffer.from(value);
    if ((name === "Set" || name === "ReadonlySet") && isArray(value)) return new NativeSet(value.map(inner));
    if ((name === "Map" || name === "ReadonlyMap") && value !== null && typeof value === "object") return new NativeMap(entriesOf(value).map(([key, item]) => [key, inner(item, key)]));
    if ((name in LISTS || name === "array") && isArray(value)) return value.map(inner);
    if (name === "Object" && args.length === 2 && value !== null && typeof value === "object") return Object.fromEntries(entriesOf(value).map(([key, item]) => [key, inner(item, key)]));
    return value;
  }
  // Whether JSON of that kind is what the type is written as; enough to choose between the members of a union.
  #fits(type, value) {
    const base = this.expand(type, 0, true);
    if (base.t === "lit") return base.value === value;
    if (base.t === "array" || base.t === "tuple") return isArray(value);
    if (base.t === "object") return value !== null && typeof value === "object" && !isArray(value) && base.members.every((member) => member.optional || hasOwn(value, member.name));
    if (base.t === "union") return base.of.some((one) => this.#fits(one, value));
    const { name } = base;
    if (name === "any" || name === "unknown") return true;
    if (name === "string" || name === "Date" || name === "URL" || name in BYTES) return typeof value === "string" && !(name === "Date" && NativeDate.parse(value) !== NativeDate.parse(value));
    if (name === "number" || name === "bigint" || name === "integer" || name === "int") return typeof value === "number";
    if (name === "boolean") return typeof value === "boolean";
    if (name in LISTS) return isArray(value);
    return value !== null && typeof value === "object" && !isArray(value);
  }
}
const substitute = (type, given) => {
  if (type === null || typeof type !== "object") return type;
  if (isArray(type)) return type.map((one) => substitute(one, given));
  if (type.t === "name" && type.name in given && !type.args.length) return given[type.name];
  const copy = {};
  for (const key of keysOf(type)) copy[key] = key === "name" || key === "text" ? type[key] : substitute(type[key], given);
  return copy;
};
// The type of a value that the code has: `typeof X`.
const typeOfValue = (value) => {
  if (value === null || typeof value === "string" || typeof value === "number" || typeof value === "boolean") return { t: "lit", value };
  if (isArray(value)) return { t: "tuple", items: value.map((item) => ({ type: typeOfValue(item), optional: false, rest: false })) };
  if (typeof value === "object" && getPrototypeOf(value) === Object.prototype) return { t: "object", members: keysOf(value).map((name) => ({ name, optional: false, type: typeOfValue(value[name]), text: "" })) };
  return { t: "bad", what: "`typeof` of something that is no JSON" };
};
// The type of a default, as TypeScript infers it: a number for 3.
const widened = (value) => {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return named(typeof value);
  if (isArray(value)) return value.length && value.every((item) => typeof item === typeof value[0] && typeof item !== "object") ? { t: "array", of: widened(value[0]) } : { t: "array", of: named("any") };
  return null;
};
