/* What every page has: light and dark, and everything unfolded on paper. */

function element(id) {
  return document.getElementById(id);
}

/* A new node. Text is only ever set as text. */
function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function startShell() {
  const theme = element("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const node of folded) node.open = true;
  });
  addEventListener("afterprint", () => {
    for (const node of folded) node.open = false;
  });
  /* A link to a definition inside a closed part opens it. */
  addEventListener("hashchange", () => {
    const target = location.hash && element(location.hash.slice(1));
    const part = target && target.closest("details");
    if (part) part.open = true;
  });
}
startShell();
