// Light or dark: as the system has it, until a reader chooses; the browser keeps that choice, where it may.
const KEY = "whyidle-theme";

function kept(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // a browser may refuse it to files and frames
  }
}

function keep(theme: string): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Then the choice holds until the page is closed.
  }
}

export function themes(): void {
  const button = document.getElementById("theme") as HTMLButtonElement | null;
  if (!button) return;
  const root = document.documentElement;
  const before = kept();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  const dark = (): boolean =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const say = (): void => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} theme`);
  };
  button.onclick = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    keep(root.dataset.theme);
    say();
    dispatchEvent(new Event("whyidle-theme")); // canvases are drawn again
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", say);
  say();
  button.hidden = false;
}
