// Small helpers to build elements. Whatever is data becomes text or an attribute that cannot run:
// nothing here, and nothing that uses it, ever parses a string as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element: `h("a.quiet", {href: "/x", onclick: f}, "text", [more])`. */
export function h(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  return fill(node, props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") value && node.classList.add(...value.split(" ").filter(Boolean));
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "value") node.value = value;
    else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? "" : value);
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

/** Puts these into an element, in place of what was there. Who had the focus keeps it. */
export function put(node, ...children) {
  const list = document.createDocumentFragment();
  append(list, children);
  const active = document.activeElement;
  const held = active !== node && node.contains(active) ? identity(active) : null;
  node.replaceChildren(list);
  if (held && !node.contains(document.activeElement)) {
    const same = [...node.querySelectorAll(active.tagName)].find((one) => identity(one) === held);
    same?.focus({ preventScroll: true });
  }
  return node;
}

/** By what an element is known again when it is drawn anew. */
function identity(node) {
  return node.dataset.href || node.getAttribute("href") || node.name || node.dataset.name || node.getAttribute("aria-label") || node.textContent;
}

/** An address of a publisher as a link out; anything that is no web address is only text. */
export function out(url, text) {
  const shown = text ?? url;
  if (!/^https?:\/\//i.test(String(url))) return h("span", { title: url }, shown);
  return h("a.out", { href: url, rel: "noopener noreferrer nofollow", target: "_blank", title: url }, shown);
}

/** A link within the dashboard. */
export function link(href, ...children) {
  return h("a", { href }, ...children);
}

/** Calls `act` after calls have stopped for a while. */
export function settle(act, wait = 250) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...args), wait);
  };
}

/** Calls `act` now and every `seconds` while the view is open and the page is looked at. */
export function every(seconds, signal, act) {
  const turn = () => {
    if (!document.hidden) act();
  };
  const timer = setInterval(turn, seconds * 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
  document.addEventListener("visibilitychange", turn, { signal });
  act();
}
