// The keyboard: rows by j and k, pages by g and a letter, / to search, ? for the list of keys.

let going = 0;

export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing || document.querySelector("dialog[open]")) return;
    if (going && performance.now() - going < 1500) {
      going = 0;
      const entry = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (entry) {
        event.preventDefault();
        entry.click();
      }
      return;
    }
    const act = ACTS[event.key];
    if (act && act(event) !== false) event.preventDefault();
  });
}

const ACTS = {
  j: () => move(1),
  k: () => move(-1),
  Enter: (event) => (event.target.matches("a, button, summary, [tabindex]") && event.target.id !== "main" ? false : go()),
  x: () => pick(),
  u: () => {
    const up = document.querySelector(".crumbs a");
    if (up) up.click();
  },
  g: () => {
    going = performance.now();
  },
  "/": () => {
    const search = document.querySelector("input[type=search]");
    if (!search) return false;
    search.focus();
    search.select();
  },
  "?": () => document.getElementById("keys").showModal(),
};

function rows() {
  return [...document.querySelectorAll("[data-id]")].filter((row) => row.offsetParent !== null);
}

function move(by) {
  const all = rows();
  if (!all.length) return false;
  const now = all.findIndex((row) => row.classList.contains("at"));
  const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? 0 : now + by))];
  if (now >= 0) all[now].classList.remove("at");
  next.classList.add("at");
  next.scrollIntoView({ block: "nearest" });
  const link = next.matches("a[href]") ? next : next.querySelector("a[href]");
  if (link) link.focus({ preventScroll: true });
}

function current() {
  return document.querySelector("[data-id].at");
}

function go() {
  const row = current();
  const link = row && (row.matches("a[href]") ? row : row.querySelector("a[href]"));
  if (!link) return false;
  link.click();
}

function pick() {
  const box = current()?.querySelector("input[type=checkbox]");
  if (!box) return false;
  box.click();
}
