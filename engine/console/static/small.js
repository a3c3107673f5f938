// Small things: times that go on, commands that can be copied, a box that ticks all, forms that filter at once.

export function tidy(root) {
  for (const block of root.querySelectorAll("[data-copy]")) {
    if (block.dataset.ready || !navigator.clipboard) continue;
    block.dataset.ready = "yes";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain small";
    button.dataset.own = "yes";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.after(button);
  }
  for (const all of root.querySelectorAll("input[data-all]")) {
    if (all.dataset.ready) continue;
    all.dataset.ready = "yes";
    all.addEventListener("change", () => {
      for (const one of all.closest("form").querySelectorAll("td input[type=checkbox]")) one.checked = all.checked;
    });
  }
  for (const one of root.querySelectorAll("form[data-filter] select")) {
    if (one.dataset.ready) continue;
    one.dataset.ready = "yes";
    one.addEventListener("change", () => one.form.requestSubmit());
  }
}

function ago(seconds) {
  if (seconds < 5) return "just now";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return `${Math.floor(seconds)} s ago`;
}

setInterval(() => {
  if (document.hidden) return;
  const now = Date.now() / 1000;
  for (const time of document.querySelectorAll("time[data-at]")) {
    const past = now - Number(time.dataset.at);
    if (past < 0 || past > 6 * 86400) continue;
    const text = ago(past);
    if (time.textContent !== text) time.textContent = text;
  }
}, 5000);
