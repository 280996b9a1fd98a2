// Charts of one group show the same stretch of their x axis: who zooms one zooms all, also those not drawn yet.
import type { Chart } from "../data";
import { across, type Range } from "./axes";
import uPlot from "uplot";

export class Group {
  private readonly seen = new Set<uPlot>(); // the others catch up when they come into sight
  private readonly listeners = new Set<(zoomed: boolean) => void>();
  shown: Range;

  constructor(
    readonly span: Range,
    readonly name = "",
  ) {
    this.shown = span;
  }

  get isZoomed(): boolean {
    return this.shown.low > this.span.low || this.shown.high < this.span.high;
  }

  join(plot: uPlot, zoomed: (zoomed: boolean) => void): void {
    this.seen.add(plot);
    this.listeners.add(zoomed);
    zoomed(this.isZoomed);
  }

  enter(plot: uPlot): void {
    if (this.seen.has(plot)) return;
    this.seen.add(plot);
    if (this.name) uPlot.sync(this.name).sub(plot);
    this.fit(plot);
  }

  leave(plot: uPlot): void {
    if (!this.seen.delete(plot) || !this.name) return;
    uPlot.sync(this.name).unsub(plot);
  }

  /** Show a stretch in every chart; what lies outside of the data is cut off. */
  show(range: Range): void {
    const low = Math.max(this.span.low, Math.min(range.low, range.high));
    const high = Math.min(this.span.high, Math.max(range.low, range.high));
    if (!(high - low > (this.span.high - this.span.low) * 1e-6)) return;
    this.shown = { low, high };
    for (const plot of this.seen) this.fit(plot);
    for (const listener of this.listeners) listener(this.isZoomed);
  }

  private fit(plot: uPlot): void {
    const { min, max } = plot.scales.x;
    const { low, high } = this.shown;
    if (min !== low || max !== high) plot.setScale("x", { min: low, max: high });
  }

  reset(): void {
    this.show(this.span);
  }

  zoom(factor: number, around: number): void {
    const { low, high } = this.shown;
    this.show({ low: around - (around - low) * factor, high: around + (high - around) * factor });
  }
}

/** The group of each chart; one without a name is a group of its own. */
export function groupsOf(charts: Chart[]): Group[] {
  const spans = new Map<string, Range>();
  for (const chart of charts) {
    if (!chart.group || !chart.x.length) continue;
    const own = across(chart);
    const { low, high } = spans.get(chart.group) ?? own;
    spans.set(chart.group, { low: Math.min(own.low, low), high: Math.max(own.high, high) });
  }
  const shared = new Map([...spans].map(([name, span]) => [name, new Group(span, name)]));
  return charts.map((chart) => shared.get(chart.group) ?? new Group(across(chart)));
}
