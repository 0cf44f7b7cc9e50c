// Sets the theme before anything is drawn, so that no page flashes. Not a module: those come later.
"use strict";
{
  let kept = null;
  try {
    kept = localStorage.getItem("feedmill.theme");
  } catch {
    // Storage is forbidden: the system's choice holds.
  }
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
}
