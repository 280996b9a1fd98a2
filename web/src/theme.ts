// Light or dark: as the system has it, until a reader chooses.
export function themes(): void {
  const button = document.getElementById("theme") as HTMLButtonElement | null;
  if (!button) return;
  const root = document.documentElement;
  const dark = (): boolean =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const say = (): void => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} theme`);
  };
  button.onclick = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    say();
    dispatchEvent(new Event("whyidle-theme")); // canvases are drawn again
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", say);
  say();
  button.hidden = false;
}
