// A long timeline: only the rows that can be seen are in the page; the others are fetched as somebody scrolls to them.
import { onChange } from "./live.js";

const ROW = 26; // pixels
const PART = 200; // rows that are fetched at once
const LIMIT = 200; // up to here the page's own rows do

let view = null;

function begin() {
  const fall = document.getElementById("fall");
  if (!fall || Number(fall.dataset.count) <= LIMIT || fall.dataset.own) return;
  fall.dataset.own = "yes"; // what is in it, nobody else changes
  const box = document.createElement("div");
  box.className = "virtual";
  box.tabIndex = 0;
  box.setAttribute("role", "list");
  box.setAttribute("aria-label", "timeline");
  const space = document.createElement("div");
  space.className = "space";
  box.append(space);
  fall.replaceChildren(box);
  view = { fall, box, space, parts: new Map(), count: Number(fall.dataset.count), rows: new Map() };
  box.scrollTop = Number(fall.dataset.start) * ROW;
  box.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  draw();
}

async function part(number) {
  if (view.parts.has(number)) return;
  view.parts.set(number, null);
  const answer = await fetch(`${view.fall.dataset.address}/spans?from=${number * PART}&count=${PART}`);
  if (!answer.ok) return view.parts.delete(number);
  const found = await answer.json();
  view.count = found.count;
  view.parts.set(number, found.spans);
  draw();
}

function draw() {
  const { box, space, rows, parts } = view;
  space.style.height = `${view.count * ROW}px`;
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 10);
  const last = Math.min(view.count, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 10);
  for (const [at, row] of rows) {
    if (at < first || at >= last) {
      row.remove();
      rows.delete(at);
    }
  }
  for (let at = first; at < last; at++) {
    const known = parts.get(Math.floor(at / PART));
    if (known === undefined) part(Math.floor(at / PART));
    if (!known || rows.has(at) || !known[at % PART]) continue;
    const row = made(known[at % PART]);
    row.style.top = `${at * ROW}px`;
    rows.set(at, row);
    space.append(row);
  }
}

function made(span) {
  const row = document.createElement("a");
  row.className = `row ${span.status.split(" ")[0]} ${span.kind} placed`;
  row.dataset.id = span.path;
  row.href = `${view.fall.dataset.address}?call=${encodeURIComponent(span.path)}#call`;
  row.setAttribute("role", "listitem");
  const label = document.createElement("span");
  label.className = `label d${Math.min(span.depth, 4)}`;
  const status = document.createElement("span");
  status.className = `status ${span.status.split(" ")[0]}`;
  status.textContent = span.status;
  const name = document.createElement("bdi");
  name.className = "name";
  name.textContent = plain(span.name);
  const args = document.createElement("bdi");
  args.className = "args";
  args.textContent = plain(span.arguments);
  label.append(status, name, args);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 1000 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("x", Math.min(span.left * 1000, 997).toFixed(1));
  rect.setAttribute("width", Math.max(span.width * 1000, 3).toFixed(1));
  rect.setAttribute("height", "10");
  svg.append(rect);
  const took = document.createElement("span");
  took.className = "num";
  took.textContent = span.ms === null ? "…" : span.ms < 100 ? `${Math.round(span.ms)} ms` : `${(span.ms / 1000).toFixed(1)} s`;
  row.append(label, svg, took);
  return row;
}

// What can't be seen is shown as its code point, as everywhere in the console.
function plain(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (one) => `⟨${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

onChange(() => {
  if (!view) return false;
  view.parts.clear();
  for (const row of view.rows.values()) row.remove();
  view.rows.clear();
  requestAnimationFrame(draw);
  return false;
});

begin();
new MutationObserver(begin).observe(document.getElementById("main"), { childList: true, subtree: true });
if (location.hash === "#call") document.getElementById("call")?.focus({ preventScroll: false });
