// /// tool
// name = "fill_template"
// language = "javascript"
// ///
// /// examples
// {"inputs": {"template": "Dear {{user.name}}, you have {{count}} new {{count|one:message|many:messages}}.", "data": {"user": {"name": "Ann"}, "count": 2}}, "result": "Dear Ann, you have 2 new messages."}
// {"inputs": {"template": "{{#each items}}- {{name}}: {{price}}\n{{/each}}", "data": {"items": [{"name": "tea", "price": 3}, {"name": "cake", "price": 4.5}]}}, "result": "- tea: 3\n- cake: 4.5\n"}
// {"inputs": {"template": "{{missing}}", "data": {}}, "error": "there is no missing in the data"}
// {"inputs": {"template": "", "data": {}}, "result": ""}
// ///

/**
 * Fill the gaps of a text with data: `{{name}}`, `{{user.name}}`, `{{#each items}}…{{/each}}`, `{{n|one:item|many:items}}`.
 *
 * Values that are no text are written as JSON. A name that the data does not have is an error, unless there is a default.
 *
 * @param {string} template - The text with its gaps.
 * @param {Record<string, unknown>} data - What to fill them with.
 * @param {string} [missing] - What to write for a name that the data does not have.
 * @returns {string}
 */
export function fillTemplate(template, data, missing) {
  return fill(template, [data], missing);
}

const EACH = /\{\{#each ([\w.]+)\}\}((?:(?!\{\{#each )[^])*?)\{\{\/each\}\}/;
const GAP = /\{\{\s*([\w.]+)\s*(?:\|one:([^|}]*)\|many:([^|}]*))?\}\}/g;

function fill(template, scopes, missing) {
  const loop = EACH.exec(template);
  if (loop !== null) {
    const [whole, path, body] = loop;
    const rows = lookUp(path, scopes, missing);
    if (!Array.isArray(rows)) throw new TypeError(`${path} is no list`);
    const before = fill(template.slice(0, loop.index), scopes, missing);
    const middle = rows.map((row) => fill(body, [row, ...scopes], missing)).join("");
    return before + middle + fill(template.slice(loop.index + whole.length), scopes, missing);
  }
  return template.replace(GAP, (_, path, one, many) => {
    const value = lookUp(path, scopes, missing);
    if (one !== undefined) return value === 1 ? one : many;
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}

function lookUp(path, scopes, missing) {
  const parts = path === "." ? [] : path.split(".");
  for (const scope of scopes) {
    let value = scope;
    for (const part of parts) value = value !== null && typeof value === "object" && Object.hasOwn(value, part) ? value[part] : undefined;
    if (value !== undefined) return value;
  }
  if (missing !== undefined) return missing;
  throw new RangeError(`there is no ${path} in the data`);
}
