// Links of the page that move the timeline: <a href="#timeline" data-timeline="0" data-start="NS" data-end="NS">.
export type Show = (timeline: number, start: number, end: number, label: string) => void;

/** Call `show` for every click on such a link, with what the link says. */
export function jumps(show: Show): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLElement>("[data-timeline][data-start]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    document.getElementById("timeline")?.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
    const { timeline, start, end } = link.dataset;
    show(Number(timeline), Number(start), Number(end), (link.textContent ?? "").trim().slice(0, 120));
  });
}
