// The run's own files: a folder in memory, with the names that node gives to what can be done with it.
const MOST_FILES = 1000, MOST_NAME = 255;
const folder = { nodes: create(null), folders: create(null), limit: null, size: 0, count: 0 };

const resetFiles = (given, limit) => {
  assign(folder, { nodes: create(null), folders: create(null), limit, size: 0, count: 0 });
  addFiles(given);
};
const addFiles = (given) => {
  const names = keysOf(given);
  for (let at = 0; at < names.length; at++) putFile(names[at], fromBase64(NativeUint8Array, given[names[at]]), false);
};
const putFile = (name, data, changed) => {
  const before = folder.nodes[name];
  const size = folder.size - (before === undefined ? 0 : before.data.length) + data.length;
  if (changed && folder.limit !== null && size > folder.limit) throw systemError("ENOSPC", `no space left: max_file_bytes=${folder.limit}`, "write", name);
  if (before === undefined) {
    if (folder.count >= MOST_FILES) throw systemError("ENOSPC", `no more than ${MOST_FILES} files`, "open", name);
    folder.count++;
    addFolders(name);
  }
  folder.size = size;
  folder.nodes[name] = { data, changed, at: NativeDate.now() };
};
// A new file beside those that there are: its name.
const addFile = (stem, ending, data) => {
  let name = `${stem}.${ending}`;
  for (let number = 2; name in folder.nodes || name in folder.folders; number++) name = `${stem}-${number}.${ending}`;
  putFile(name, data, true);
  return name;
};
const addFolders = (name) => { for (let at = textIndex(name, "/"); at > 0; at = textIndex(name, "/", at + 1)) folder.folders[textSlice(name, 0, at)] = true; };
const systemError = (code, words, call, path) => {
  const error = new NativeError(`${code}: ${words}, ${call} '${path}'`);
  error.code = code;
  error.syscall = call;
  error.path = path;
  return error;
};
const isBytes = (value) => typedTag(value) !== undefined || takes(bufferLength, value);
const asBytes = (value) => takes(bufferLength, value) ? new NativeUint8Array(value) : new NativeUint8Array(value.buffer, value.byteOffset, value.byteLength);

// The name inside the folder that a path means; "" is the folder itself.
const nameOf = (path, call) => {
  let text = is(path, URL) ? path.pathname : isBytes(path) ? decodeUtf8(asBytes(path)) : path;
  if (typeof text !== "string") throw new TypeError('The "path" argument must be of type string.');
  const parts = textSplit(text, "/"), kept = [];
  let outside = textStarts(text, "/") || textIndex(text, "\\") >= 0 || textIndex(text, "\0") >= 0;
  for (let at = 0; at < parts.length; at++) {
    if (parts[at] === "" || parts[at] === ".") continue;
    if (parts[at] === "..") { if (!kept.length) outside = true; else kept.length--; } else push(kept, parts[at]);
  }
  if (outside) throw systemError("EACCES", "only the run's own folder can be used, by relative names", call, text);
  const name = arrayJoin(kept, "/");
  if (name.length > MOST_NAME || !textIsWell(name)) throw systemError("ENAMETOOLONG", "name too long", call, cut(text, 50));
  return name;
};
const nodeOf = (path, call) => {
  const name = nameOf(path, call), node = folder.nodes[name];
  if (node === undefined) throw isFolder(name) ? systemError("EISDIR", "illegal operation on a directory", call, path) : systemError("ENOENT", "no such file or directory", call, path);
  return node;
};
const isFolder = (name) => name === "" || folder.folders[name] === true;
const encodingOf = (options) => typeof options === "string" ? options : options !== null && typeof options === "object" ? options.encoding : undefined;
const contentOf = (data, options) => {
  if (typeof data === "string") return Buffer.from(data, encodingOf(options) ?? "utf8");
  if (data !== null && typeof data === "object" && isBytes(data)) return new NativeUint8Array(asBytes(data));
  throw new TypeError(`The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${data === null ? "null" : typeof data}`);
};
const checkParent = (name, path, call) => {
  if (isFolder(name)) throw systemError("EISDIR", "illegal operation on a directory", call, path);
  const at = name.lastIndexOf("/");
  if (at > 0 && !isFolder(textSlice(name, 0, at))) throw systemError("ENOENT", "no such file or directory", call, path);
};
const remove = (name) => { folder.size -= folder.nodes[name].data.length; folder.count--; delete folder.nodes[name]; };
const inFolder = (name) => {
  const prefix = name === "" ? "" : `${name}/`, found = [];
  for (const one of [...keysOf(folder.nodes), ...keysOf(folder.folders)])
    if (textStarts(one, prefix) && one !== name) {
      const child = textSplit(textSlice(one, prefix.length), "/")[0];
      if (!arrayHas(found, child)) push(found, child);
    }
  return arraySort(found);
};
class Stats {
  constructor(node) { this.size = node === null ? 0 : node.data.length; this.mode = node === null ? 0o40755 : 0o100644; this.mtimeMs = node === null ? 0 : node.at; this.mtime = new NativeDate(this.mtimeMs); this.#file = node !== null; }
  #file;
  isFile() { return this.#file; }
  isDirectory() { return !this.#file; }
  isSymbolicLink() { return false; }
}
const operations = {
  readFile(path, options) {
    const { data } = nodeOf(path, "open"), encoding = encodingOf(options);
    const bytes = Buffer.from(data);
    return encoding ? bytes.toString(encoding) : bytes;
  },
  writeFile(path, data, options) {
    const name = nameOf(path, "open"), flag = options !== null && typeof options === "object" ? options.flag : undefined;
    checkParent(name, path, "open");
    if (flag === "a") return operations.appendFile(path, data, options);
    if (flag === "wx" && folder.nodes[name]) throw systemError("EEXIST", "file already exists", "open", path);
    putFile(name, contentOf(data, options), true);
  },
  appendFile(path, data, options) {
    const name = nameOf(path, "open"), more = contentOf(data, options), before = folder.nodes[name];
    checkParent(name, path, "open");
    const whole = new NativeUint8Array((before ? before.data.length : 0) + more.length);
    if (before) whole.set(before.data);
    whole.set(more, whole.length - more.length);
    putFile(name, whole, true);
  },
  access(path) { const name = nameOf(path, "access"); if (!folder.nodes[name] && !isFolder(name)) throw systemError("ENOENT", "no such file or directory", "access", path); },
  stat(path, options) {
    const name = nameOf(path, "stat"), node = folder.nodes[name];
    if (node) return new Stats(node);
    if (isFolder(name)) return new Stats(null);
    if (options && options.throwIfNoEntry === false) return undefined;
    throw systemError("ENOENT", "no such file or directory", "stat", path);
  },
  readdir(path, options) {
    const name = nameOf(path, "scandir");
    if (!isFolder(name)) throw systemError(folder.nodes[name] ? "ENOTDIR" : "ENOENT", folder.nodes[name] ? "not a directory" : "no such file or directory", "scandir", path);
    const names = inFolder(name);
    if (!options || !options.withFileTypes) return names;
    return names.map((child) => ({ name: child, parentPath: path, path, ...{ isFile: () => !isFolder(name ? `${name}/${child}` : child), isDirectory: () => isFolder(name ? `${name}/${child}` : child), isSymbolicLink: () => false } }));
  },
  mkdir(path, options) {
    const name = nameOf(path, "mkdir"), all = options && options.recursive;
    if (isFolder(name) || folder.nodes[name]) { if (all && isFolder(name)) return undefined; throw systemError("EEXIST", "file already exists", "mkdir", path); }
    const at = name.lastIndexOf("/");
    if (at > 0 && !all && !isFolder(textSlice(name, 0, at))) throw systemError("ENOENT", "no such file or directory", "mkdir", path);
    if (keysOf(folder.folders).length >= MOST_FILES) throw systemError("ENOSPC", `no more than ${MOST_FILES} folders`, "mkdir", path);
    addFolders(`${name}/`);
    return undefined;
  },
  unlink(path) { nodeOf(path, "unlink"); remove(nameOf(path, "unlink")); },
  rm(path, options) {
    const name = nameOf(path, "rm");
    if (folder.nodes[name]) return remove(name);
    if (!isFolder(name)) { if (options && options.force) return; throw systemError("ENOENT", "no such file or directory", "rm", path); }
    if (!options || !options.recursive) throw systemError("EISDIR", "is a directory", "rm", path);
    const prefix = name === "" ? "" : `${name}/`;
    for (const one of keysOf(folder.nodes)) if (textStarts(one, prefix)) remove(one);
    for (const one of keysOf(folder.folders)) if (textStarts(one, prefix) || one === name) delete folder.folders[one];
  },
  rmdir(path, options) {
    const name = nameOf(path, "rmdir");
    if (!isFolder(name)) throw systemError("ENOENT", "no such file or directory", "rmdir", path);
    if (inFolder(name).length && !(options && options.recursive)) throw systemError("ENOTEMPTY", "directory not empty", "rmdir", path);
    operations.rm(path, { recursive: true });
  },
  rename(from, to) { const { data } = nodeOf(from, "rename"), name = nameOf(to, "rename"); checkParent(name, to, "rename"); remove(nameOf(from, "rename")); putFile(name, data, true); },
  copyFile(from, to) { const { data } = nodeOf(from, "copyfile"), name = nameOf(to, "copyfile"); checkParent(name, to, "copyfile"); putFile(name, new NativeUint8Array(data), true); },
  truncate(path, size = 0) { const { data } = nodeOf(path, "open"), next = new NativeUint8Array(size); next.set(data.subarray(0, size)); putFile(nameOf(path, "open"), next, true); },
};
operations.lstat = operations.stat;
const fsModule = { promises: {}, constants: { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 } };
for (const [name, operation] of entriesOf(operations)) {
  fsModule[`${name}Sync`] = operation;
  fsModule.promises[name] = async (...given) => operation(...given);
  fsModule[name] = (...given) => {
    const callback = given.pop();
    if (typeof callback !== "function") throw new TypeError('The "cb" argument must be of type function; without one use fs.promises');
    let error = null, value;
    try { value = operation(...given); } catch (caught) { error = caught; }
    addTimer(() => error ? callback(error) : callback(null, value), 0, [], false);
  };
}
fsModule.existsSync = (path) => { try { operations.access(path); return true; } catch { return false; } };
