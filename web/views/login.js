// Login: the token is tried, and kept for this tab only.

import { token } from "../api.js";
import { h, put } from "../dom.js";
import { coded, problem } from "../parts.js";
import { whoami } from "../session.js";

/** Where to go afterwards: a page of the dashboard and nothing else. */
function onwards(next) {
  const url = URL.parse ? URL.parse(next ?? "/", location.origin) : new URL(next ?? "/", location.origin);
  return url && url.origin === location.origin ? url.pathname + url.search : "/";
}

export function view({ root, go, title, query }) {
  title("Log in");
  const said = h("div", { "aria-live": "polite" });
  const field = h("input", { type: "password", name: "token", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "token-hint" });
  const enter = h("button.primary", { type: "submit" }, "Log in");
  const form = h("form.login", { onsubmit: async (event) => {
    event.preventDefault();
    enter.disabled = true;
    token.set(field.value.trim());
    try {
      await whoami(true);
      go(onwards(query.next), true);
    } catch (error) {
      token.set(null);
      if (error.status === 401) error.message = "The token is not known: it may have been revoked, or be cut off.";
      put(said, problem(error));
      field.select();
    } finally {
      enter.disabled = false;
    }
  } },
    h("h1", null, "Feedmill"),
    h("p", null, "This server wants to know who you are."),
    h("label.field", null, h("span", null, "Token"), field),
    h("p.note", { id: "token-hint" }, coded("`feedmill token create NAME --scope write` makes one. It is kept in this tab until you close it or log out.")),
    h("p.note", null, coded("On a terminal, `feedmill run` prints a link that logs in as administrator. `feedmill token create NAME --scope admin` makes a token that lasts.")),
    said, enter);
  put(root, form);
  field.focus();
}
