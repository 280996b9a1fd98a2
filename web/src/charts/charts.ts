// Draws the charts of the page when they come into sight: nothing that is read waits for them.
import type { Chart, Drawn } from "../data";
import { forgetColors } from "./colors";
import { type Group, groupsOf } from "./group";
import type uPlot from "uplot";
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
  const plots = new Map<HTMLElement, uPlot>();
  const waiting = new Set<HTMLElement>();
  const groupOf = (figure: HTMLElement): Group => groups[Number(figure.dataset.chart)];
  const next = (): void => {
    const [figure] = waiting;
    if (!figure) return;
    waiting.delete(figure);
    plots.set(figure, plot(figure, all[Number(figure.dataset.chart)], groupOf(figure), drawn));
    setTimeout(next); // one at a time: a reader may scroll between two
  };
  const watcher = new IntersectionObserver(
    (entries) => {
      const idle = !waiting.size;
      for (const { isIntersecting, target } of entries) {
        const figure = target as HTMLElement;
        const known = plots.get(figure);
        if (known) groupOf(figure)[isIntersecting ? "enter" : "leave"](known);
        else if (isIntersecting) waiting.add(figure);
        else waiting.delete(figure);
      }
      if (idle) setTimeout(next);
    },
    { rootMargin: AHEAD },
  );
  for (const figure of document.querySelectorAll<HTMLElement>("figure[data-chart]")) {
    if (all[Number(figure.dataset.chart)]?.x.length && figure.querySelector(".chart-plot")) watcher.observe(figure);
  }
  const again = (): void => {
    forgetColors();
    for (const one of plots.values()) one.redraw(false);
  };
  addEventListener("whyidle-theme", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}
