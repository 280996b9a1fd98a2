// Draws the charts of the page when they come into sight: nothing that is read waits for them.
import type { Drawn } from "../data";
import { forgetColors } from "./colors";
import { groupsOf } from "./group";
import type { uPlot } from "./notice";
import { plot } from "./plot";
import "./charts.css";

const AHEAD = "300px"; // below the screen

/** Take over the figures of the page. */
export function charts(drawn: Drawn): void {
  const groups = groupsOf(drawn.charts);
  const plots: uPlot[] = [];
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        const figure = target as HTMLElement;
        const index = Number(figure.dataset.chart);
        plots.push(plot(figure, drawn.charts[index], groups[index], drawn));
      }
    },
    { rootMargin: AHEAD },
  );
  for (const figure of document.querySelectorAll<HTMLElement>("figure[data-chart]")) {
    if (drawn.charts[Number(figure.dataset.chart)]?.x.length) watcher.observe(figure);
  }
  const again = (): void => {
    forgetColors();
    for (const one of plots) one.redraw(false);
  };
  addEventListener("whyidle-theme", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}
