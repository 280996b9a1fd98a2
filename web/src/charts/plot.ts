// One chart that can be pointed at, zoomed and walked through with keys, in the place of its static drawing.
import type { Chart, Drawn } from "../data";
import { upward } from "./axes";
import type { Group } from "./group";
import { BOTTOM, drawBehind, LEFT } from "./marks";
import { lead, momentOf } from "./moment";
import uPlot from "uplot";
import { Readout, sentence } from "./readout";
import { columns } from "./series";

const HINT = "Click: show in the timeline";

/** Draw a chart into its figure. */
export function plot(figure: HTMLElement, chart: Chart, group: Group, drawn: Drawn): uPlot {
  const place = figure.querySelector<HTMLElement>(".chart-plot")!;
  const roles = (figure.dataset.roles ?? "").split(" ");
  const readout = new Readout(chart, roles);
  const live = document.createElement("div");
  live.className = "chart-live";
  const { range, ticks } = upward(chart);
  const { data, series, bands } = columns(chart, roles);
  const said = (u: uPlot): void => {
    const index = indexOf(u, chart);
    if (index === null || (u.cursor.left ?? -1) < 0) return readout.hide();
    if (!figure.matches(":hover") && document.activeElement !== live) return readout.follow(index);
    const hint = momentOf(chart, chart.x[index], drawn) ? HINT : "";
    readout.show(index, u.cursor.left!, u.over.clientWidth, group.shown, hint);
  };
  const u = new uPlot(
    {
      ...size(place, figure),
      padding: [top(figure), 0, BOTTOM, LEFT],
      legend: { show: false },
      axes: [{ show: false }, { show: false }],
      scales: { x: { time: false, range: () => [group.shown.low, group.shown.high] }, y: { range: [range.low, range.high] } },
      series,
      bands,
      cursor: cursor(chart, group, series),
      hooks: { drawAxes: [(self) => drawBehind(self, chart, ticks)], setCursor: [said], setSelect: [(self) => zoomed(self, group)] },
    },
    data,
    live,
  );
  u.over.append(readout.element);
  figure.querySelector("figcaption")?.append(readout.short);
  place.append(live);
  figure.classList.add("chart-lively");
  new ResizeObserver(() => {
    const now = size(place, figure);
    if (now.width !== u.width) u.setSize(now);
  }).observe(place);
  group.join(u, (isZoomed) => figure.classList.toggle("chart-zoomed", isZoomed));
  listen(u, figure, chart, group, drawn);
  return u;
}

function size(place: HTMLElement, figure: HTMLElement): { width: number; height: number } {
  return { width: Math.max(120, place.clientWidth), height: (isTall(figure) ? 240 : 150) + top(figure) + BOTTOM };
}

function isTall(figure: HTMLElement): boolean {
  return figure.classList.contains("chart-tall");
}

/** Pixels above the plot: names of marks stand there. */
function top(figure: HTMLElement): number {
  return Number(figure.dataset.top);
}

function cursor(chart: Chart, group: Group, series: uPlot.Series[]): uPlot.Cursor {
  const passes = (type: string): boolean => type === "mousemove" || type === "mouseleave";
  const mine = (event: string) => (_: uPlot, __: HTMLElement, handler: (e: MouseEvent) => null) =>
    event === "dblclick" ? () => (group.reset(), null) : handler;
  return {
    y: false,
    bind: { dblclick: mine("dblclick") },
    drag: { x: true, y: false, setScale: false, dist: 6 },
    points: { show: (_, i) => (series[i].class === "pointed" ? dot() : none), size: 7, width: 0 },
    sync: chart.group ? { key: chart.group, scales: ["x", null], filters: { pub: passes } } : undefined,
  };
}

const none = null as unknown as HTMLElement; // uPlot knows it, its types do not

function dot(): HTMLElement {
  return document.createElement("div");
}

function zoomed(u: uPlot, group: Group): void {
  if (u.select.width <= 0) return;
  const from = u.posToVal(u.select.left, "x");
  const to = u.posToVal(u.select.left + u.select.width, "x");
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  group.show({ low: from, high: to });
}

/** The point under the cursor; of a distribution the bin that it lies in. */
function indexOf(u: uPlot, chart: Chart): number | null {
  const { idx, left } = u.cursor;
  if (idx === null || idx === undefined || !chart.x.length) return null;
  if (chart.axis !== "step_time_s") return idx;
  const value = u.posToVal(left ?? 0, "x");
  const edges = u.data[0];
  return Math.max(0, Math.min(chart.x.length - 1, edges[idx] > value ? idx - 1 : idx));
}

function listen(u: uPlot, figure: HTMLElement, chart: Chart, group: Group, drawn: Drawn): void {
  const place = u.root.parentElement!;
  const go = (): void => {
    const index = indexOf(u, chart);
    const moment = index === null ? null : momentOf(chart, chart.x[index], drawn);
    if (moment) lead(moment);
  };
  u.over.addEventListener("click", go);
  const reset = document.createElement("button");
  reset.type = "button";
  reset.className = "chart-reset";
  reset.textContent = "Show all";
  reset.onclick = () => group.reset();
  figure.querySelector("figcaption")?.append(reset);
  place.tabIndex = 0;
  place.setAttribute("role", "slider"); // speaks `aria-valuetext` whenever it changes
  place.setAttribute("aria-label", `${chart.title}: arrow keys move, plus and minus zoom, Escape shows all`);
  place.setAttribute("aria-valuemin", "0");
  place.setAttribute("aria-valuemax", String(Math.max(0, chart.x.length - 1)));
  const tell = (index: number): void => {
    place.setAttribute("aria-valuenow", String(index));
    if (chart.x.length) place.setAttribute("aria-valuetext", sentence(chart, index, group.shown));
  };
  tell(0);
  place.addEventListener("keydown", (event) => {
    const index = moved(event, u, chart, group, go);
    if (index === null) return;
    event.preventDefault();
    tell(index);
    u.setCursor({ left: u.valToPos(chart.x[index], "x"), top: u.over.clientHeight / 2 });
  });
  place.addEventListener("blur", () => u.setCursor({ left: -10, top: -10 }));
}

/** The point that a key leads to; null where it is none of ours. */
function moved(event: KeyboardEvent, u: uPlot, chart: Chart, group: Group, go: () => void): number | null {
  const last = chart.x.length - 1;
  if (last < 0 || event.ctrlKey || event.metaKey || event.altKey) return null;
  const { low, high } = group.shown;
  const first = chart.x.findIndex((at) => at >= low);
  let end = last;
  while (end > 0 && chart.x[end] > high) end--;
  const at = (u.cursor.left ?? -1) < 0 ? null : indexOf(u, chart);
  const far = event.shiftKey ? Math.max(1, Math.round((end - first) / 10)) : 1;
  const within = (index: number): number => Math.max(0, Math.min(last, Math.max(first, Math.min(end, index))));
  switch (event.key) {
    case "ArrowRight":
    case "ArrowUp":
      return within(at === null ? first : at + far);
    case "ArrowLeft":
    case "ArrowDown":
      return within(at === null ? end : at - far);
    case "Home":
      return within(first);
    case "End":
      return within(end);
    case "+":
    case "=":
    case "-":
      group.zoom(event.key === "-" ? 2 : 0.5, chart.x[at ?? (first + end) >> 1]);
      return within(at ?? (first + end) >> 1);
    case "Escape":
    case "0":
      group.reset();
      return within(at ?? 0);
    case "Enter":
      go();
      return within(at ?? first);
    default:
      return null;
  }
}
