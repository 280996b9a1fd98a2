// Draws the charts of the page when they come into sight: nothing that is read waits for them.
import type { Drawn } from "../data";
import { forgetColors } from "./colors";
import { type Group, groupsOf } from "./group";
import type uPlot from "uplot";
import { plot } from "./plot";
import "./charts.css";

const AHEAD = "300px"; // below the screen

/** Take over the figures of the page. */
export function charts(drawn: Drawn): void {
  const all = drawn.charts;
  const groups = groupsOf(all);
  const plots = new Map<HTMLElement, uPlot>();
  const waiting = new Set<HTMLElement>();
  const groupOf = (figure: HTMLElement): Group => groups[Number(figure.dataset.chart)];
  const next = (): void => {
    const [figure] = waiting;
    if (!figure) return;
    waiting.delete(figure);
    setTimeout(next); // one at a time: a reader may scroll between two
    plots.set(figure, plot(figure, all[Number(figure.dataset.chart)], groupOf(figure), drawn));
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
