// Lets a reader save the report that stands in the page as JSON: the text that `--format json` writes, but that "<" and its
// like stand as \u003c in texts.
export function saveReport(): void {
  const link = document.getElementById("save") as HTMLAnchorElement | null;
  const text = document.getElementById("whyidle-report")?.textContent;
  if (!link || !text) return;
  const file = new Blob([text.trim(), "\n"], { type: "application/json" });
  link.href = URL.createObjectURL(file);
  link.hidden = false;
}
