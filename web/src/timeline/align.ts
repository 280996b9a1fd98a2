// The same steps in two timelines: time to step and back, by the lane of steps that each has.
import type { Timeline } from "../data";
import { above } from "./rows";
import type { Span } from "./span";

export interface Steps {
  number: Float64Array; // grows
  start: Float64Array; // ns, of each; and where the last one ends
}

const known = new WeakMap<Timeline, Steps | null>();

/** Return the steps of a timeline, numbered as their names say; null where they cannot be told. */
export function stepsOf(timeline: Timeline): Steps | null {
  let steps = known.get(timeline);
  if (steps === undefined) known.set(timeline, (steps = numbered(timeline)));
  return steps;
}

function numbered(timeline: Timeline): Steps | null {
  const lane = timeline.lanes.find((one) => one.kind === "step" && one.start.length);
  if (!lane) return null;
  const steps = { number: [] as number[], start: [] as number[] };
  for (let i = 0; i < lane.start.length; i++) {
    const number = numberOf(timeline.names[lane.name[i]]) ?? i;
    const last = steps.number.length - 1;
    if (last >= 0 && (number <= steps.number[last] || lane.start[i] <= steps.start[last])) continue;
    steps.number.push(number);
    steps.start.push(lane.start[i]);
  }
  steps.number.push(steps.number[steps.number.length - 1] + 1);
  steps.start.push(lane.end[lane.end.length - 1]);
  return { number: Float64Array.from(steps.number), start: Float64Array.from(steps.start) };
}

/** Whether steps of one number are the same in both: a trace and the log of a whole run count each from their own. */
export function countAlike(one: Timeline, other: Timeline): boolean {
  const isLog = ({ lanes }: Timeline): boolean => lanes.some(({ kind }) => kind === "phase");
  return stepsOf(one) !== null && stepsOf(other) !== null && isLog(one) === isLog(other);
}

/** The last number in "ProfilerStep#12" and its like. */
export function numberOf(name: string): number | null {
  const digits = /(\d+)\D*$/.exec(name);
  return digits ? Number(digits[1]) : null;
}

/** Return the number of the step at a moment, with the part of it that is over; beyond the ends it goes on evenly. */
export function stepAt(steps: Steps, time: number): number {
  return mapped(steps.start, steps.number, time);
}

export function timeAt(steps: Steps, step: number): number {
  return mapped(steps.number, steps.start, step);
}

function mapped(from: Float64Array, to: Float64Array, value: number): number {
  const i = Math.max(0, Math.min(above(from, value) - 1, from.length - 2));
  const scale = (to[i + 1] - to[i]) / (from[i + 1] - from[i]);
  return to[i] + (value - from[i]) * scale;
}

/** Return the span of `to` that shows what `span` shows of `from`: the same steps, or, with `scale`, as much time from
 * the same step on. Without steps: the same part of the whole. */
export function alike(from: Timeline, to: Timeline, span: Span, scale = false): Span {
  const [a, b] = [stepsOf(from), stepsOf(to)];
  const ratio = (to.end - to.start) / Math.max(from.end - from.start, 1);
  const at = (time: number): number =>
    a && b ? timeAt(b, stepAt(a, time)) : to.start + (time - from.start) * ratio;
  const start = at(span.start);
  return { start, end: scale ? start + span.end - span.start : Math.max(at(span.end), start + 1) };
}
