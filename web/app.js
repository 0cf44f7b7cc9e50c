// The shell: which view an address stands for, who looks at it, the theme, the keys.

import { token, whenExpired, whenUnauthorized } from "./api.js";
import { repaint } from "./chart.js";
import { h, put } from "./dom.js";
import { freshen, pace } from "./format.js";
import { dialog, problem, skeleton, toast } from "./parts.js";
import { session, whoami } from "./session.js";

const VIEWS = [
  [/^\/$/, "overview"],
  [/^\/sources$/, "sources"],
  [/^\/sources\/([^/]+)$/, "source"],
  [/^\/frontier$/, "frontier"],
  [/^\/hosts$/, "hosts"],
  [/^\/hosts\/([^/]+)$/, "host"],
  [/^\/articles$/, "articles"],
  [/^\/articles\/([^/]+)$/, "article"],
  [/^\/sinks$/, "sinks"],
  [/^\/sinks\/([^/]+)$/, "sink"],
  [/^\/events$/, "events"],
  [/^\/explain$/, "explain"],
  [/^\/settings$/, "settings"],
  [/^\/login$/, "login"],
];

const LINKS = [["/", "Overview"], ["/sources", "Sources"], ["/frontier", "Frontier"], ["/hosts", "Hosts"], ["/articles", "Articles"], ["/sinks", "Sinks"], ["/events", "Events"], ["/explain", "Explain"], ["/settings", "Settings"]];

const main = document.getElementById("main");
const side = document.getElementById("side");
const menu = document.getElementById("menu");
let leaving = new AbortController();

/** Goes to a view of the dashboard. */
function go(href, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  return show(true);
}

async function show(moved = false) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { pathname, search } = location;
  const found = VIEWS.map(([shape, name]) => [shape.exec(pathname), name]).find(([match]) => match);
  mark(pathname);
  closeMenu();
  // Every view has a root of its own: a late answer for the last one has nowhere to go.
  const root = h("div.view", { dataset: { view: found?.[1] ?? "none" } }, skeleton(6));
  put(main, root);
  if (moved) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  if (!found) {
    title("Not found");
    return put(root, problem({ message: "There is no such page.", hint: "The views are in the menu." }));
  }
  const [match, name] = found;
  try {
    if (!session.me && name !== "login") await whoami();
    who();
    const { view } = await import(`./views/${name}.js`);
    if (signal.aborted) return;
    root.setAttribute("aria-busy", "true");
    await view({ root, signal, go, title, id: match[1] && decodeURIComponent(match[1]), query: Object.fromEntries(new URLSearchParams(search)) });
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    put(root, problem(error, () => show()));
  } finally {
    root.removeAttribute("aria-busy");
  }
}

function title(text) {
  document.title = text ? `${text} · Feedmill` : "Feedmill";
}

function mark(pathname) {
  const at = `/${pathname.split("/")[1]}`;
  put(document.getElementById("links"), LINKS.map(([href, text]) => h("li", null, h("a", { href, "aria-current": href === at ? "page" : null }, text))));
  document.body.classList.toggle("bare", pathname === "/login");
}

function who() {
  const place = document.getElementById("who");
  const { me } = session;
  if (!me) return put(place);
  const leave = token.get() && h("button.quiet", { type: "button", id: "logout", onclick: logout }, "Log out");
  const enter = me.open && me.scope !== "admin" && h("a", { href: "/login", id: "login", title: "Settings, tokens and takedowns need a token of scope admin" }, "Log in");
  put(place, h("span", { title: me.open ? "This machine needs no token to read and write" : "The token's name and scope" }, me.open ? `open on loopback · ${me.scope}` : `${me.name} · ${me.scope}`), leave, enter);
}

function logout() {
  token.set(null);
  session.me = null;
  who();
  go("/login");
}

// The themes: the system's, light, dark.
const theme = document.getElementById("theme");
const THEMES = ["system", "light", "dark"];
function themed() {
  theme.textContent = `Theme: ${document.documentElement.dataset.theme ?? "system"}`;
}
theme.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("feedmill.theme");
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem("feedmill.theme", next);
  }
  themed();
  repaint();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

function closeMenu() {
  side.classList.remove("shown");
  menu.setAttribute("aria-expanded", "false");
}
menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(side.classList.toggle("shown"))));

document.getElementById("why").addEventListener("submit", (event) => {
  event.preventDefault();
  const asked = event.target.elements.q.value.trim();
  if (asked) go(`/explain?q=${encodeURIComponent(asked)}`);
});

// Links within the dashboard change the view; what the server answers itself is left to the browser.
document.addEventListener("click", (event) => {
  const anchor = event.target.closest("a[href]");
  if (!anchor || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.defaultPrevented) return;
  const url = new URL(anchor.href);
  if (anchor.target || anchor.hasAttribute("download") || url.origin !== location.origin || url.hash) return;
  if (!VIEWS.some(([shape]) => shape.test(url.pathname))) return;
  event.preventDefault();
  go(url.pathname + url.search);
});
addEventListener("feedmill:go", (event) => go(event.detail));
addEventListener("popstate", () => show());

const KEYS = [["/", "search on this page, or explain"], ["g o", "overview"], ["g s", "sources"], ["g f", "frontier"], ["g h", "hosts"], ["g a", "articles"], ["g i", "sinks"], ["g e", "events"], ["g w", "explain: why"], ["↑ ↓ Enter", "rows of a table"], ["?", "these keys"]];
const PLACES = { o: "/", s: "/sources", f: "/frontier", h: "/hosts", a: "/articles", i: "/sinks", e: "/events", w: "/explain" };
let chord = 0;
document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "Escape") return closeMenu();
  if (event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "/") {
    event.preventDefault();
    const field = main.querySelector("[data-main]") ?? document.getElementById("why-q");
    if (field.id === "why-q") side.classList.add("shown");
    field.focus();
    field.select?.();
  } else if (event.key === "?") {
    dialog("Keys", () => h("dl.keylist", null, KEYS.map(([key, what]) => h("div", null, h("dt", null, key.split(" ").map((one) => [h("kbd", null, one), " "])), h("dd", null, what)))));
  } else if (event.key === "g") {
    chord = Date.now();
  } else if (PLACES[event.key] && Date.now() - chord < 1500) {
    chord = 0;
    go(PLACES[event.key]);
  }
});

whenUnauthorized(() => {
  session.me = null;
  who();
  if (location.pathname === "/login") return;
  const from = location.pathname + location.search;
  go(`/login${from === "/" ? "" : `?next=${encodeURIComponent(from)}`}`, true);
});

whenExpired(() => {
  session.me = null;
  toast("The login link has expired: it ends with the run of feedmill that printed it.", "bad");
});

/** Takes the token of a login link out of the address, so that it is neither seen nor shared. */
function takeLogin() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return false;
  history.replaceState(null, "", location.pathname + location.search);
  token.link(given);
  session.me = null;
  return true;
}
addEventListener("hashchange", () => takeLogin() && show());

const tick = () => {
  freshen();
  setTimeout(tick, pace());
};
tick();
themed();
takeLogin();
show();
