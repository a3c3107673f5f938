// Live parts of a page: the server says that something has changed, and the parts that show it are fetched again.
// A page in the background holds no connection; it catches up when somebody looks at it.

const QUIET_MS = 400; // between two looks

const known = new Map(Object.entries(JSON.parse(document.body.dataset.topics || "{}")));
const listeners = [];
let source = null;
let timer = 0;
let busy = false;
let again = false;
let last = 0;
let after = () => {};

/** Have *told(topic, stamp)* called when a topic changes; if it gives true, the page is not fetched for it. */
export function onChange(told) {
  listeners.push(told);
}

/** Begin. *changed* is called with what was put into the page. */
export function follow(changed) {
  after = changed;
  if (!known.size) return;
  document.addEventListener("visibilitychange", () => (document.hidden ? close("still", "paused") : open()));
  window.addEventListener("pagehide", () => close("still", "paused"));
  window.addEventListener("pageshow", () => document.hidden || open());
  if (!document.hidden) open();
}

function open() {
  if (source) return;
  const query = new URLSearchParams([...known.keys()].map((topic) => ["t", topic]));
  source = new EventSource(`/console/events?${query}`);
  source.onopen = () => say("live", "live");
  source.onmessage = (event) => {
    const { topic, stamp } = JSON.parse(event.data);
    if (known.get(topic) === stamp) return;
    known.set(topic, stamp);
    if (!listeners.map((told) => told(topic, stamp)).includes(true)) refresh();
  };
  source.addEventListener("bye", () => {
    close("off", "the console has ended");
  });
  source.onerror = () => {
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      say("off", "disconnected");
      setTimeout(() => document.hidden || open(), 3000);
    } else {
      say("off", "reconnecting");
    }
  };
}

function close(state, text) {
  if (source) source.close();
  source = null;
  say(state, text);
}

function say(state, text) {
  for (const one of document.querySelectorAll(".live")) {
    one.dataset.state = state;
    one.firstElementChild.textContent = text;
  }
  document.documentElement.dataset.live = state;
}

/** Fetch this page again, soon, and put its live parts in place. */
export function refresh() {
  if (busy) {
    again = true;
    return;
  }
  clearTimeout(timer);
  timer = setTimeout(look, Math.max(0, QUIET_MS - (performance.now() - last)));
}

async function look() {
  busy = true;
  again = false;
  last = performance.now();
  try {
    const page = await fetched(location.href);
    if (page) put(page);
  } finally {
    busy = false;
    if (again) refresh();
  }
}

/** A page as a document. Its scripts do not run. */
export function fetched(address) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "document";
    request.onload = () => resolve(request.status === 200 ? request.responseXML : null);
    request.onerror = () => resolve(null);
    request.send();
  });
}

function put(page) {
  for (const here of document.querySelectorAll("[data-live][id]")) {
    const there = page.getElementById(here.id);
    if (!there || here.isEqualNode(there)) continue;
    merge(here, there);
    after(here);
  }
}

/** Make *here* what *there* is. What is the same stays, with what was typed, picked, opened and scrolled in it. */
function merge(here, there) {
  if (here.isEqualNode(there) || here.matches("[data-own]") || here.matches("input, textarea, select") && here === document.activeElement) return;
  const at = here.classList.contains("at"); // the row that the keyboard is at
  for (const { name, value } of there.attributes) {
    if (name !== "open" && here.getAttribute(name) !== value) here.setAttribute(name, value);
  }
  for (const { name } of [...here.attributes]) {
    if (name !== "open" && name !== "data-ready" && !there.hasAttribute(name)) here.removeAttribute(name);
  }
  if (at) here.classList.add("at");
  mergeChildren(here, there);
}

function mergeChildren(here, there) {
  const known = new Map([...here.children].map((one) => [keyOf(one), one]));
  let at = here.firstChild;
  for (const wanted of there.childNodes) {
    while (at?.dataset?.own) at = at.nextSibling; // a script has put it there
    const key = keyOf(wanted);
    const mine = key ? known.get(key) : at && !keyOf(at) ? at : null;
    known.delete(key);
    if (!mine || mine.nodeName !== wanted.nodeName) {
      here.insertBefore(document.importNode(wanted, true), at);
      continue;
    }
    if (mine === at) at = at.nextSibling;
    else if (mine.nextSibling !== at) here.insertBefore(mine, at);
    if (mine.nodeType === Node.ELEMENT_NODE) merge(mine, wanted);
    else if (mine.data !== wanted.data) mine.data = wanted.data;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    if (!gone.dataset?.own) gone.remove();
  }
}

/** What tells a part from those beside it, if something does. Who is about to press a button never finds another there. */
function keyOf(node) {
  if (node.dataset?.id) return `row ${node.dataset.id}`;
  if (node.id) return `part ${node.id}`;
  const leads = node.nodeType === Node.ELEMENT_NODE && (node.getAttribute("action") || node.getAttribute("href"));
  return leads ? `to ${leads}` : "";
}
