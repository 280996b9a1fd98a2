// Where the marks of the time axis stand, and what is written at them: seconds of the recording, in units that fit.
import type { Span } from "./span";
import { grouped } from "./words";

export interface Tick {
  at: number; // ns
  label: string;
}

export interface Ruler {
  ticks: Tick[];
  step: number; // ns between them
  anchor: string; // what labels with "+" count from; "" where labels are whole times
}

const UNITS: [string, number][] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

/** Return ticks at round times, no nearer than `apart` px. */
export function ruler(span: Span, width: number, apart = 96): Ruler {
  const step = rounded(((span.end - span.start) * apart) / Math.max(width, 1));
  const first = Math.ceil(span.start / step);
  const times: number[] = [];
  for (let i = first; i * step <= span.end && times.length < 200; i++) times.push(i * step);
  const [unit, size] = unitOf(Math.max(Math.abs(span.end), step));
  const decimals = places(step / size);
  if (decimals <= 3) {
    return { step, anchor: "", ticks: times.map((at) => ({ at, label: `${grouped(at / size, decimals)} ${unit}` })) };
  }
  const [small, tiny] = unitOf(step);
  const zero = Math.floor(span.start / (tiny * 1000)) * tiny * 1000;
  const ticks = times.map((at) => ({ at, label: `+${grouped((at - zero) / tiny, places(step / tiny))} ${small}` }));
  return { step, ticks, anchor: `${grouped(zero / size, places((tiny * 1000) / size))} ${unit}` };
}

function rounded(wish: number): number {
  const power = Math.pow(10, Math.floor(Math.log10(Math.max(wish, 1))));
  return ([1, 2, 5].find((digit) => digit * power >= wish) ?? 10) * power;
}

function unitOf(ns: number): [string, number] {
  return UNITS.find(([, size]) => ns >= size) ?? ["ns", 1];
}

function places(step: number): number {
  return Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
}
