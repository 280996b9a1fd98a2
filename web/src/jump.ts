// Links of the page that move the timeline: <a data-timeline="0" data-start="NS" data-end="NS">.
export type Show = (timeline: number, start: number, end: number) => void;

/** Call `show` for every click on such a link. */
export function jumps(show: Show): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLElement>("[data-timeline][data-start]");
    if (!link) return;
    event.preventDefault();
    document.getElementById("timeline")?.scrollIntoView({ behavior: "smooth", block: "start" });
    show(Number(link.dataset.timeline), Number(link.dataset.start), Number(link.dataset.end));
  });
}
