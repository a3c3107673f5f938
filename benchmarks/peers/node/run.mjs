// Runs one program in Pyodide. Lines of JSON go to the host on descriptor 3 and come from it on descriptor 4.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [home, job] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(home, "node_modules/pyodide/pyodide.mjs")).href);
const snapshot = path.join(home, "snapshot.bin");

function tell(message) {
  fs.writeSync(3, JSON.stringify(message) + "\n");
}

function hear() {
  const byte = Buffer.alloc(1);
  const bytes = [];
  while (fs.readSync(4, byte, 0, 1) === 1 && byte[0] !== 10) bytes.push(byte[0]);
  return JSON.parse(Buffer.from(bytes).toString("utf8"));
}

if (job === "snapshot") {
  const pyodide = await loadPyodide({ _makeSnapshot: true });
  fs.writeFileSync(`${snapshot}.${process.pid}`, pyodide.makeMemorySnapshot());
  fs.renameSync(`${snapshot}.${process.pid}`, snapshot);
  process.exit(0);
}

const pyodide = await loadPyodide({ _loadSnapshot: fs.readFileSync(snapshot), env: {} });
for (const stream of ["setStdout", "setStderr"]) pyodide[stream]({ batched: () => {} });
tell({ ready: true });
const { code, inputs } = hear();
for (const [name, value] of Object.entries(inputs)) pyodide.globals.set(name, pyodide.toPy(value));
pyodide.globals.set("lookup", (n) => {
  tell({ call: n });
  return hear().answer;
});
try {
  tell({ result: await pyodide.runPythonAsync(`${code}\nimport json as _json\n_json.dumps(result)`) });
} catch (error) {
  tell({ error: String(error.message ?? error) });
}
process.exit(0);
