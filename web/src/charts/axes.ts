// Where the axes of a chart begin and end, which round numbers stand at them, and numbers as a person reads them.
// src/whyidle/render/html/scales.py does the same for the static drawings: change both.
import type { Chart } from "../data";
import { duration, grouped } from "../timeline/words";

export interface Range {
  low: number;
  high: number;
}

export interface Tick {
  value: number;
  label: string;
}

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800];
const FLOATING = new Set(["MHz", "GHz", "\u00b0C"]);
const CLOSE = 0.12; // of an axis: numbers that touch
const CLOCK = /^([12]\d{3}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?) ?(?:UTC|Z)$/;

/** What the x axis of a chart shows when nobody zoomed it. */
export function across(chart: Chart): Range {
  const { x } = chart;
  if (!x.length) return { low: 0, high: 1 };
  const low = x[0];
  const high = x[x.length - 1];
  if (chart.axis === "step_time_s") {
    const half = binWidth(chart) / 2;
    return { low: low - half, high: high + half };
  }
  return high > low ? { low, high } : { low: low - 0.5, high: high + 0.5 };
}

export function binWidth(chart: Chart): number {
  const { x } = chart;
  if (x.length < 2) return (x[0] ?? 0) * 0.02 || 1e-3;
  const widths = x.slice(1).map((at, i) => at - x[i]).sort((a, b) => a - b);
  return widths[widths.length >> 1];
}

/** The y axis: from zero, unless its unit floats, up to its limit where it has one. */
export function upward(chart: Chart): { range: Range; ticks: Tick[] } {
  let { low, high } = extent(chart);
  if (!FLOATING.has(chart.unit)) low = Math.min(low, 0);
  const { upper } = chart;
  const bounded = upper !== null && high <= upper;
  if (bounded) high = upper;
  let spread = high - low;
  if (spread < Math.max(Math.abs(high) * 1e-9, 1e-30)) spread = Math.abs(high) > 1e-30 ? Math.abs(high) * 0.1 : 1;
  const step = chart.unit === "%" && low === 0 && high === 100 ? 50 : roundStep(spread / 4);
  low = Math.floor(low / step + 1e-9) * step;
  if (!bounded) high = Math.ceil(high / step - 1e-9) * step;
  const range = { low, high: high > low ? high : low + step };
  const places = placesOf(step);
  const ticks = multiples(range, step).map((value) => ({ value, label: fixed(value, places) }));
  const top = ticks[ticks.length - 1].value;
  if (upper !== range.high || range.high - top < 1e-9 * range.high) return { range, ticks };
  const apart = ticks.filter(({ value }) => range.high - value > CLOSE * (range.high - range.low));
  return { range, ticks: [...apart, { value: upper, label: fixed(upper, Number.isInteger(upper) ? places : Math.max(places, 1)) }] };
}

/** Numbers at the x axis for what it shows now, about as many as asked for. */
export function along(range: Range, chart: Chart, count: number): Tick[] {
  const raw = (range.high - range.low) / count;
  if (chart.axis === "s") return times(range, raw, started(chart.clock));
  const step = chart.axis === "step" ? Math.max(1, roundStep(raw)) : roundStep(raw);
  return multiples(range, step).map((value) => ({
    value,
    label: chart.axis === "step" ? fixed(value, 0) : inWords(value),
  }));
}

/** An x value in words: "12.5 s", "14:05:30 UTC", "step 12", "100 ms to 102 ms". */
export function spoken(value: number, chart: Chart, range: Range): string {
  if (chart.axis === "step") return `step ${fixed(value, 0)}`;
  if (chart.axis === "step_time_s") {
    const half = binWidth(chart) / 2;
    return `${inWords(Math.max(0, value - half))} to ${inWords(value + half)}`;
  }
  const zero = started(chart.clock);
  const fine = range.high - range.low < 300;
  if (zero === null) return value >= 120 && !fine ? timeLabel(value, 1, value) : precise(value, range);
  const iso = new Date((zero + value) * 1000).toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, fine ? 23 : 19)} UTC`;
}

/** Three digits, whole from a hundred on; null is what nobody measured. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "not measured";
  const size = Math.abs(value);
  if (size >= 99.95) return fixed(value, 0);
  if (size !== 0 && size < 0.095) return String(Number(value.toPrecision(3)));
  return String(Number(value.toFixed(size >= 9.995 ? 1 : 2)));
}

export function withUnit(value: number | null | undefined, unit: string): string {
  const said = number(value);
  return value === null || value === undefined ? said : unit === "%" ? `${said}%` : `${said} ${unit}`;
}

/** When 0 s was, in s since 1970, where the clock of a chart tells a date. */
export function started(clock: string): number | null {
  const found = CLOCK.exec(clock);
  const at = found ? Date.parse(`${found[1]}T${found[2]}Z`) : NaN;
  const isDay = Number.isFinite(at) && new Date(at).toISOString().startsWith(found![1]); // there is no February 31
  return isDay ? at / 1000 : null;
}

function precise(value: number, range: Range): string {
  const [size, unit] = range.high < 1 ? [1e-3, "ms"] : [1, "s"];
  const places = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10((range.high - range.low) / size))));
  return `${Number((value / size).toFixed(places)).toLocaleString("en-US", { maximumFractionDigits: 6 })} ${unit}`;
}

function times(range: Range, raw: number, zero: number | null): Tick[] {
  const step = raw < 1 ? roundStep(raw) : (TIMES.find((time) => time >= raw) ?? roundStep(raw));
  if (zero === null || step < 1) {
    return multiples(range, step).map((value) => ({ value, label: timeLabel(value, step, range.high) }));
  }
  return multiples(range, step, zero % 604800).map((value) => ({ value, label: hour(zero + value, step) }));
}

function hour(moment: number, step: number): string {
  const date = new Date(Math.round(moment) * 1000);
  if (step >= 86400) {
    return date.toLocaleDateString("en-US", { month: "short", day: "numeric", timeZone: "UTC" });
  }
  return date.toISOString().slice(11, step < 60 ? 19 : 16);
}

function timeLabel(at: number, step: number, high: number): string {
  if (Math.abs(at) < step / 2) return "0";
  if (step < 1) {
    if (high >= 1) return `${fixed(at, placesOf(step))} s`;
    const [size, unit] = high >= 1e-3 ? [1e-3, "ms"] as const : high >= 1e-6 ? [1e-6, "\u00b5s"] as const : [1e-9, "ns"] as const;
    return `${fixed(at / size, placesOf(step / size))} ${unit}`;
  }
  if (high <= 120) return `${fixed(at, 0)} s`;
  const [whole, unit] = high <= 7200 ? [60, "min"] : [3600, "h"];
  if (step % whole === 0) return `${fixed(at / whole, 0)} ${unit}`;
  const size = Math.round(Math.abs(at));
  const left = Math.floor((size % whole) / (unit === "min" ? 1 : 60));
  return `${at < 0 ? "-" : ""}${Math.floor(size / whole)}:${String(left).padStart(2, "0")} ${unit}`;
}

function inWords(seconds: number): string {
  return duration(Math.round(seconds * 1e12) / 1e3);
}

function roundStep(raw: number): number {
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.9999)! * power;
}

function multiples(range: Range, step: number, offset = 0): number[] {
  const first = Math.ceil((range.low + offset) / step - 1e-6);
  const last = Math.floor((range.high + offset) / step + 1e-6);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step - offset);
}

function placesOf(step: number): number {
  return Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
}

function fixed(value: number, places: number): string {
  return value ? grouped(value, places) : "0";
}

function extent(chart: Chart): Range {
  let low = Infinity;
  let high = -Infinity;
  for (const line of chart.lines) {
    for (const column of [line.y, line.low, line.high]) {
      for (const value of column ?? []) {
        if (value === null) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
  }
  return low <= high ? { low, high } : { low: 0, high: 0 };
}
