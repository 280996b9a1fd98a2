// What is folded opens where a link leads into it, by one button for all findings, and some of it on paper (print.css).
const PRINTED = "details.finding, details.spot, #warnings details";

export function folds(): void {
  const reveal = (): void => {
    const target = named(location.hash.slice(1));
    for (let fold = target?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
    target?.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();
  allFindings();
  let opened: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll<HTMLDetailsElement>(PRINTED)].filter((fold) => !fold.open);
    for (const fold of opened) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
    opened = [];
  });
}

/** The element that an address names, as the browser finds it: by the name as it stands, then by what it encodes. */
function named(anchor: string): HTMLElement | null {
  if (!anchor) return null;
  const found = document.getElementById(anchor);
  if (found) return found;
  try {
    return document.getElementById(decodeURIComponent(anchor));
  } catch {
    return null; // "%" alone: anybody can write an address
  }
}

function allFindings(): void {
  const folds = [...document.querySelectorAll<HTMLDetailsElement>("details.finding")];
  const heading = document.getElementById("findings-title");
  if (!heading || folds.every((fold) => fold.open)) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "all";
  const say = (): void => void (button.textContent = folds.some((fold) => !fold.open) ? "Open all" : "Close all");
  button.onclick = () => {
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
    say();
  };
  say();
  heading.insertAdjacentElement("afterend", button);
}
