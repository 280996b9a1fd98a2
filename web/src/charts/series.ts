// The columns and lines of uPlot that a chart becomes: a line, and its band from least to largest where it has one.
import { color, DASHES } from "./colors";
import type { Chart } from "../data";
import { binWidth } from "./axes";
import uPlot from "uplot";

const DOTTED = 60; // points on the screen of which each is shown

const DENSE = 400; // points of a line that a thick one would turn into an area

export interface Columns {
  data: uPlot.AlignedData;
  series: uPlot.Series[];
  bands: uPlot.Band[];
}

/** What uPlot draws of a chart, lines that stand out on top. */
export function columns(chart: Chart, roles: string[]): Columns {
  const isSpread = chart.axis === "step_time_s";
  const order = chart.lines.map((_, i) => i).sort((a, b) => rank(roles[a]) - rank(roles[b]));
  const data: (number | null)[][] = [isSpread ? edges(chart) : chart.x];
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  for (const index of order) {
    const line = chart.lines[index];
    const role = roles[index];
    if (line.low && line.high && role !== "muted" && !isSpread) {
      bands.push({ series: [data.length + 1, data.length], fill: () => tinted(role) });
      data.push(line.low, line.high);
      series.push(unseen(), unseen());
    }
    data.push(isSpread ? steps(line.y) : line.y);
    series.push(isSpread ? outline(role) : stroke(role, line.y));
  }
  return { data: data as uPlot.AlignedData, series, bands };
}

function stroke(role: string, y: (number | null)[]): uPlot.Series {
  const alone = lonely(y);
  return {
    class: role === "muted" ? undefined : "pointed",
    stroke: () => color(`--line-${role}`),
    width: role === "muted" ? 1 : y.length > DENSE ? 1.25 : 1.75,
    dash: DASHES[role],
    points: {
      show: true,
      size: 4.5,
      width: 0,
      fill: () => color(`--line-${role}`),
      // every point while they can be told apart, else those that no line leads to
      filter: (u) => {
        const [first, last] = u.series[0].idxs ?? [0, 0];
        return role !== "muted" && last - first <= DOTTED ? null : alone;
      },
    },
  };
}

function outline(role: string): uPlot.Series {
  return {
    stroke: () => color(`--line-${role}`),
    fill: () => tinted(role),
    width: 1.75,
    dash: DASHES[role],
    paths: uPlot.paths.stepped!({ align: 1 }),
    points: { show: false },
  };
}

/** Counts at the left edges of bins; nothing is drawn where bins are empty. */
function steps(counts: (number | null)[]): (number | null)[] {
  const all = [...counts.map((value) => value ?? 0), 0];
  return all.map((value, i) => (value || all[i - 1] ? value : null));
}

function unseen(): uPlot.Series {
  return { width: 0, points: { show: false } };
}

function tinted(role: string): string {
  return `color-mix(in srgb, ${color(`--line-${role}`)} 18%, transparent)`;
}

/** Points between two that were not measured. */
function lonely(y: (number | null)[]): number[] {
  const missing = (i: number): boolean => y[i] === null || y[i] === undefined;
  return y.map((_, i) => i).filter((i) => !missing(i) && missing(i - 1) && missing(i + 1));
}

function edges(chart: Chart): number[] {
  const half = binWidth(chart) / 2;
  return [...chart.x.map((at) => at - half), (chart.x[chart.x.length - 1] ?? 0) + half];
}

function rank(role: string): number {
  return role === "muted" ? 0 : 10 - Number(role);
}
