// Lets a reader save the report that stands in the page, as JSON.
export function saveReport(): void {
  const link = document.getElementById("save") as HTMLAnchorElement | null;
  const text = document.getElementById("whyidle-report")?.textContent;
  if (!link || !text) return;
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "report.json";
  link.hidden = false;
}
