// Who looks at the dashboard, and what they may do. The server decides; this only hides what it
// would refuse.

import { api } from "./api.js";
import { setClock } from "./format.js";

const SCOPES = ["read", "write", "admin"];

export const session = { me: null };

export async function whoami(quiet = false) {
  session.me = await api.get("/me", null, { quiet });
  setClock(session.me.at, session.me.rate);
  return session.me;
}

export function can(scope) {
  return SCOPES.indexOf(session.me?.scope) >= SCOPES.indexOf(scope);
}
