// The editor: Tab indents, Ctrl-Enter runs, and names of granted tools and their parameters are completed.

const form = document.querySelector("[data-editor]");
const area = form.querySelector("textarea[name=code]");
const list = form.querySelector(".offers");
let known = null;
let at = -1;

/** The tools that completion knows, asked once. */
async function tools() {
  if (!known) {
    const answer = await fetch(area.dataset.completes, { headers: { accept: "application/json" } });
    known = answer.ok ? await answer.json() : [];
  }
  return known;
}

/** What could be meant before the caret: [text typed so far, texts that it could become]. */
function offers(all) {
  const before = area.value.slice(0, area.selectionStart);
  const name = before.match(/\btools\.([\w.]*)$/);
  if (name) return [name[1], all.map((one) => one.name).filter((one) => one.startsWith(name[1]) && one !== name[1])];
  const call = before.match(/\btools\.([\w.]+)\(\{?[^()]*?(\w*)$/);
  const tool = call && all.find((one) => one.name === call[1]);
  if (!tool) return ["", []];
  const sign = form.language && form.language.value !== "python" ? ": " : "=";
  return [call[2], tool.parameters.map((one) => one + sign).filter((one) => one.startsWith(call[2]))];
}

function hide() {
  list.hidden = true;
  at = -1;
}

function show(typed, texts) {
  list.replaceChildren(
    ...texts.slice(0, 12).map((text, number) => {
      const item = document.createElement("li");
      item.role = "option";
      item.textContent = text;
      item.ariaSelected = String(number === 0);
      item.addEventListener("mousedown", (event) => {
        event.preventDefault();
        take(typed, text);
      });
      return item;
    }),
  );
  at = texts.length ? 0 : -1;
  list.hidden = !texts.length;
}

function take(typed, text) {
  area.setRangeText(text.slice(typed.length), area.selectionStart, area.selectionStart, "end");
  hide();
  area.focus();
}

function move(by) {
  const items = [...list.children];
  at = (at + by + items.length) % items.length;
  items.forEach((item, number) => (item.ariaSelected = String(number === at)));
  items[at].scrollIntoView({ block: "nearest" });
}

async function complete(asked) {
  const [typed, texts] = offers(await tools());
  if (asked || area.value.slice(0, area.selectionStart).match(/\btools\.[\w.]*$/)) show(typed, texts);
  else hide();
}

area.addEventListener("input", () => complete(false));
area.addEventListener("blur", hide);
area.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit();
  } else if (event.key === " " && event.ctrlKey) {
    event.preventDefault();
    complete(true);
  } else if (!list.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  } else if (!list.hidden && (event.key === "Enter" || event.key === "Tab") && at >= 0) {
    event.preventDefault();
    take(offers(known)[0], list.children[at].textContent);
  } else if (event.key === "Escape" && !list.hidden) {
    event.preventDefault();
    event.stopPropagation();
    hide();
  } else if (event.key === "Tab" && !event.shiftKey && area.dataset.moved !== "yes") {
    event.preventDefault();
    area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end");
  } else if (event.key === "Escape") {
    area.dataset.moved = "yes"; // the next Tab leaves the editor: nobody is trapped in it
  }
});
area.addEventListener("focus", () => (area.dataset.moved = "no"));
