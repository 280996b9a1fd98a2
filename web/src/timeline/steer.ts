// Moves a stage as keys and buttons ask: one place for both.
import { around, moved, zoomed } from "./span";
import type { Act } from "./keys";
import { above } from "./rows";
import type { Picked, Stage } from "./stage";

/** Do what concerns the stage alone; false for what is the page's (search, help). */
export function steer(stage: Stage, act: Act, pick: (picked: Picked | null) => void): boolean {
  const span = stage.target;
  const length = span.end - span.start;
  const middle = (span.start + span.end) / 2;
  if (act === "in") stage.show(zoomed(span, middle, 1 / 1.6), true);
  else if (act === "out") stage.show(zoomed(span, middle, 1.6), true);
  else if (act === "left") stage.show(moved(span, -length * 0.2), true);
  else if (act === "right") stage.show(moved(span, length * 0.2), true);
  else if (act === "fit") stage.show(stage.whole, true);
  else if (act === "next" || act === "previous") pick(beside(stage, act === "next" ? 1 : -1));
  else if (act === "up" || act === "down") pick(otherLane(stage, act === "down" ? 1 : -1));
  else if (act === "into") into(stage, stage.picked);
  else return false;
  return true;
}

/** Zoom to a slice, with room around it. */
export function into(stage: Stage, picked: Picked | null): void {
  if (!picked) return;
  const [start, end] = [picked.row.start[picked.at], picked.row.end[picked.at]];
  stage.show(around(start, end, stage.whole), true);
}

/** Move so that a slice is in view, no more than is needed. */
export function bring(stage: Stage, picked: Picked): void {
  stage.reveal(picked.row);
  const [start, end] = [picked.row.start[picked.at], picked.row.end[picked.at]];
  const span = stage.target;
  if (start >= span.start && end <= span.end) return;
  const length = Math.max(span.end - span.start, (end - start) * 1.7);
  const middle = (start + end) / 2;
  stage.show({ start: middle - length / 2, end: middle + length / 2 }, true);
}

function beside(stage: Stage, by: number): Picked | null {
  if (!stage.picked) return otherLane(stage, 1);
  const { row, at } = stage.picked;
  const to = Math.max(0, Math.min(row.start.length - 1, at + by));
  return { row, at: to };
}

/** Return, in the next row that has slices, the one nearest to where the picked one is. */
function otherLane(stage: Stage, by: number): Picked | null {
  const placed = stage.placed.filter(({ row }) => row.start.length);
  if (!placed.length) return null;
  const now = placed.findIndex(({ row }) => row === stage.picked?.row);
  const { row } = placed[now < 0 ? 0 : Math.max(0, Math.min(placed.length - 1, now + by))];
  const span = stage.target;
  const inView = stage.picked && stage.picked.row.start[stage.picked.at] < span.end;
  const time = inView ? Math.max(stage.picked!.row.start[stage.picked!.at], span.start) : span.start;
  return { row, at: Math.min(above(row.reach, time), row.start.length - 1) };
}
