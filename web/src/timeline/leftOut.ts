// What a page has no room for: of a lane whose shortest slices are left out, how long they are in each part of the time.
import type { Lane, Timeline } from "../data";
import type { Span } from "./span";

const known = new WeakMap<Lane, Float64Array>();

/** Return ns of each part that slices cover which are not drawn; empty where all of them are. Slices do not nest. */
export function leftOut(timeline: Timeline, lane: Lane): Float64Array {
  let found = known.get(lane);
  if (found) return found;
  const part = (timeline.end - timeline.start) / Math.max(lane.covered.length, 1);
  found = Float64Array.from(lane.covered, (share) => (share / 255) * part);
  if (found.length)
    for (let i = 0; i < lane.start.length; i++)
      for (const [bin, time] of parts(timeline, part, lane.start[i], lane.end[i])) found[bin] -= time;
  for (let bin = 0; bin < found.length; bin++) found[bin] = Math.max(0, found[bin]);
  known.set(lane, found);
  return found;
}

/** Return ns that they cover of a span, as if they lay evenly in each part. */
export function leftOutOf(timeline: Timeline, lane: Lane, { start, end }: Span): number {
  const times = leftOut(timeline, lane);
  if (!times.length) return 0;
  const part = (timeline.end - timeline.start) / times.length;
  let sum = 0;
  for (const [bin, time] of parts(timeline, part, start, end)) sum += (times[bin] / part) * time;
  return sum;
}

/** Yield the parts that a stretch lies in, with how much of it. */
function* parts(timeline: Timeline, part: number, start: number, end: number): Generator<[bin: number, time: number]> {
  const last = Math.round((timeline.end - timeline.start) / part) - 1;
  for (let bin = Math.max(0, Math.floor((start - timeline.start) / part)); bin <= last; bin++) {
    const from = timeline.start + bin * part;
    if (from >= end) return;
    yield [bin, Math.max(0, Math.min(end, from + part) - Math.max(start, from))];
  }
}
