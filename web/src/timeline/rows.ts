// A lane's slices by depth: sorted columns in which the part that is visible is found by bisection.
import type { Lane } from "../data";

export interface Row {
  lane: Lane;
  depth: number;
  start: Float64Array; // grows
  end: Float64Array;
  name: Uint32Array;
  reach: Float64Array; // the latest end up to each slice: grows, even where slices overlap
}

/** Return a lane as one row for each depth that it has. */
export function rowsOf(lane: Lane): Row[] {
  let deepest = 0;
  for (let i = 0; i < lane.depth.length; i++) deepest = Math.max(deepest, lane.depth[i]);
  if (deepest === 0) return [made(lane, 0, lane.start, lane.end, lane.name)];
  const sizes = new Uint32Array(deepest + 1);
  for (let i = 0; i < lane.depth.length; i++) sizes[lane.depth[i]]++;
  const rows = Array.from(sizes, (size, depth) =>
    ({ depth, start: new Float64Array(size), end: new Float64Array(size), name: new Uint32Array(size) }));
  const at = new Uint32Array(deepest + 1);
  for (let i = 0; i < lane.start.length; i++) {
    const row = rows[lane.depth[i]];
    const j = at[lane.depth[i]]++;
    row.start[j] = lane.start[i];
    row.end[j] = lane.end[i];
    row.name[j] = lane.name[i];
  }
  return rows.map((row) => made(lane, row.depth, row.start, row.end, row.name));
}

function made(lane: Lane, depth: number, start: Float64Array, end: Float64Array, name: Uint32Array): Row {
  const reach = new Float64Array(end.length);
  let latest = -Infinity;
  for (let i = 0; i < end.length; i++) reach[i] = latest = Math.max(latest, end[i]);
  return { lane, depth, start, end, name, reach };
}

/** Return the first index whose value is greater than `value`, of values that grow. */
export function above(values: Float64Array, value: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Return the slice at a moment, or the longest that is no further than `near` away; -1 where there is none. */
export function sliceAt(row: Row, time: number, near: number): number {
  let best = -1;
  let longest = -1;
  let holds = false;
  for (let i = above(row.reach, time - near); i < row.start.length && row.start[i] <= time + near; i++) {
    if (row.end[i] < time - near) continue;
    const length = row.end[i] - row.start[i];
    const around = row.start[i] <= time && time < row.end[i];
    // Of those that hold the moment the last begun lies on top.
    if (around ? true : !holds && length > longest) {
      best = i;
      longest = length;
      holds ||= around;
    }
  }
  return best;
}

/** Return the time that slices in [start, end) take of it. Of slices that overlap each counts. */
export function taken(row: Row, start: number, end: number): number {
  let sum = 0;
  for (let i = above(row.reach, start); i < row.start.length && row.start[i] < end; i++)
    sum += Math.max(0, Math.min(row.end[i], end) - Math.max(row.start[i], start));
  return sum;
}
