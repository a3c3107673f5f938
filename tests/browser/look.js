() => {
  const wrong = [];
  const root = document.scrollingElement;
  if (root.scrollWidth > window.innerWidth + 1) wrong.push(`wider than the screen: ${root.scrollWidth}`);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((at) => top[at] * top[3] + under[at] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && element.getBoundingClientRect().width > 1;
  for (const element of document.querySelectorAll("main *, header *")) {
    if (!shown(element) || element.closest("svg, .off, .skip")) continue;
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(over(rgba(style.color), ground(element))), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5) && !element.closest("[disabled]")) {
      wrong.push(`contrast ${ratio.toFixed(2)}: ${element.tagName}.${element.className} ${element.textContent.trim().slice(0, 30)}`);
    }
  }
  for (const element of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [role=img]")) {
    if (!shown(element)) continue;
    const labelled = element.getAttribute("aria-labelledby");
    const name =
      element.getAttribute("aria-label") ||
      (labelled && document.getElementById(labelled)?.textContent) ||
      [...(element.labels || [])].map((label) => label.textContent).join(" ") ||
      element.textContent ||
      element.getAttribute("title") ||
      element.querySelector?.("img[alt]")?.alt;
    if (!name || !name.trim()) wrong.push(`no name: ${element.outerHTML.slice(0, 100)}`);
  }
  // Text that what is around it cuts off. An ellipsis, or a part that scrolls, says that there is more.
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !shown(element) || element.closest("svg, .off, .skip, dialog, select, script, thead")) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const { left, right } = range.getBoundingClientRect();
    let own = true; // whether what cuts holds the text itself: then its ellipsis is shown
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (/auto|scroll/.test(style.overflowX)) break;
      const box = at.getBoundingClientRect();
      if (/hidden|clip/.test(style.overflowX) && (right > box.right + 1 || left < box.left - 1)) {
        if (!(own && style.textOverflow === "ellipsis")) wrong.push(`cut off: ${element.tagName}.${element.className} ${texts.currentNode.textContent.trim().slice(0, 40)}`);
        break;
      }
      own = own && style.display.startsWith("inline");
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`id twice: ${id}`);
  if (document.querySelectorAll("main h1").length !== 1) wrong.push("not one h1");
  if (!document.documentElement.lang || !document.title) wrong.push("no language or title");
  return wrong;
}
