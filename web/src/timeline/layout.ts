// Where each lane stands: steps, idle time, phases, streams, threads; what is deep or many is folded until asked for.
import type { Lane, LaneKind } from "../data";
import { rowsOf, type Row } from "./rows";

export interface Placed {
  row: Row;
  top: number;
  height: number;
}

export interface Strip {
  lane: Lane;
  top: number;
  height: number;
  rows: Placed[];
  folded: number; // rows that it has beyond those that are shown
  open: boolean;
}

export interface Layout {
  strips: Strip[];
  height: number;
  hidden: number; // lanes that are not among the first of their kind
  all: boolean; // those are shown, too
  caption: number; // px above each strip for its title, where there is no room beside it
}

export const RULER = 24;
const ORDER: LaneKind[] = ["step", "idle", "phase", "stream", "thread"];
const HEIGHT: Record<LaneKind, number> = { step: 18, idle: 36, phase: 26, stream: 22, thread: 15 };
const FIRST: Partial<Record<LaneKind, number>> = { stream: 6, thread: 3, idle: 8 }; // lanes shown at first
export const DEEP = 4; // rows of a lane shown at first
const GAP = 8;

export interface Rows {
  lane: Lane;
  rows: Row[];
}

/** Return the lanes that have anything to show, in the order in which they stand. */
export function ordered(lanes: Lane[]): Rows[] {
  return lanes
    .filter((lane) => lane.start.length || lane.covered.length)
    .map((lane) => ({ lane, rows: rowsOf(lane) }))
    .sort((a, b) => ORDER.indexOf(a.lane.kind) - ORDER.indexOf(b.lane.kind));
}

/** Place lanes; `open` are those of which a reader wants to see every row, `all` shows every lane. */
export function layout(lanes: Rows[], open: Set<Lane>, all: boolean, caption: number): Layout {
  const strips: Strip[] = [];
  const seen: Partial<Record<LaneKind, number>> = {};
  let top = RULER + 4;
  let hidden = 0;
  for (const { lane, rows } of lanes) {
    const nth = (seen[lane.kind] = (seen[lane.kind] ?? 0) + 1);
    if (nth > (FIRST[lane.kind] ?? Infinity)) {
      hidden += 1;
      if (!all) continue;
    }
    const shown = rows.slice(0, open.has(lane) ? rows.length : DEEP);
    const height = HEIGHT[lane.kind];
    const y = top + caption;
    const placed = shown.map((row, i) => ({ row, top: y + i * (height + 1), height }));
    const whole = Math.max(shown.length * (height + 1) - 1, height);
    strips.push({ lane, top: y, height: whole, rows: placed, folded: rows.length - DEEP, open: open.has(lane) });
    top = y + whole + GAP;
  }
  return { strips, height: top, hidden, all, caption };
}
