// Draws the charts of the page when they come into sight: nothing that is read waits for them.
import type { Chart, Drawn } from "../data";
import { forgetColors } from "./colors";
import { groupsOf } from "./group";
import type { uPlot } from "./notice";
import { plot } from "./plot";
import "./charts.css";

const AHEAD = "300px"; // below the screen

/** Names come out of files: nothing in them turns the direction of a text or ends it. */
function named(chart: Chart): Chart {
  const clean = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, "");
  return {
    ...chart,
    title: clean(chart.title),
    unit: clean(chart.unit),
    lines: chart.lines.map((line) => ({ ...line, label: clean(line.label) })),
    marks: chart.marks.map((mark) => ({ ...mark, label: clean(mark.label) })),
  };
}

/** Take over the figures of the page. */
export function charts(drawn: Drawn): void {
  const all = drawn.charts.map(named);
  const groups = groupsOf(all);
  const plots: uPlot[] = [];
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        const figure = target as HTMLElement;
        const index = Number(figure.dataset.chart);
        plots.push(plot(figure, all[index], groups[index], drawn));
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
