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
    if (there) merge(here, document.importNode(there, true));
  }
}

/** Make *here* what *there* is, and leave alone what is the same, what is being typed in, and what was opened. */
function merge(here, there) {
  if (here.isEqualNode(there)) return;
  const rows = here.querySelector("[data-id]") && there.querySelector("[data-id]");
  const [box, from] = rows ? [rowsOf(here), rowsOf(there)] : [null, null];
  if (box && from && !here.contains(document.activeElement?.closest("input[type=search], textarea"))) {
    mergeRows(box, from);
    for (const one of there.querySelectorAll("[data-part]")) {
      const old = here.querySelector(`[data-part="${CSS.escape(one.dataset.part)}"]`);
      if (old && !old.isEqualNode(one)) old.replaceWith(one);
    }
    after(here);
    return;
  }
  if (here.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return;
  keepOpen(here, there);
  here.replaceWith(there);
  after(there);
}

function rowsOf(part) {
  return part.querySelector("[data-id]").parentElement;
}

function mergeRows(box, from) {
  const old = new Map([...box.children].map((row) => [row.dataset.id, row]));
  let at = box.firstElementChild;
  for (const row of [...from.children]) {
    const mine = old.get(row.dataset.id);
    old.delete(row.dataset.id);
    if (mine && same(mine, row)) {
      if (mine === at) at = at.nextElementSibling;
      else box.insertBefore(mine, at);
      continue;
    }
    if (mine) {
      const ticked = mine.querySelector("input[type=checkbox]")?.checked;
      const box2 = row.querySelector("input[type=checkbox]");
      if (box2 && ticked) box2.checked = true;
      if (mine.classList.contains("at")) row.classList.add("at");
      keepOpen(mine, row);
      if (mine === at) at = at.nextElementSibling;
      mine.remove();
    }
    box.insertBefore(row, at);
  }
  for (const gone of old.values()) gone.remove();
}

function same(mine, row) {
  const copy = mine.cloneNode(true);
  copy.classList.remove("at");
  if (!copy.classList.length) copy.removeAttribute("class");
  for (const time of copy.querySelectorAll("time")) time.textContent = "";
  const other = row.cloneNode(true);
  if (!other.classList.length) other.removeAttribute("class");
  for (const time of other.querySelectorAll("time")) time.textContent = "";
  return copy.isEqualNode(other);
}

function keepOpen(here, there) {
  const olds = here.querySelectorAll("details");
  const news = there.querySelectorAll("details");
  if (olds.length === news.length) olds.forEach((one, at) => (news[at].open = one.open));
}
