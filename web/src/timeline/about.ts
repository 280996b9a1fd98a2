// What can be said of one slice, and of what is in view.
import type { Drawn, Timeline } from "../data";
import { numberOf } from "./align";
import { labelOf, meaningOf, saidOf } from "./causes";
import { above, taken, type Row } from "./rows";
import type { Span } from "./span";
import { duration, moment, percent } from "./words";

export interface About {
  name: string;
  length: string;
  facts: string[]; // where it is
  meaning: string;
}

/** Say what a slice is: its name, how long it takes, where it is, and what its cause means. */
export function about(drawn: Drawn, timeline: Timeline, row: Row, at: number): About {
  const name = timeline.names[row.name[at]];
  const [start, end] = [row.start[at], row.end[at]];
  const facts = [row.lane.title, `at ${moment(start, Math.max(end - start, 1e5))}`];
  const step = row.lane.kind === "step" ? null : stepOf(timeline, start);
  if (step) facts.push(`${step.name}, ${percent((end - start) / step.length)} of it`);
  const meaning = row.lane.kind === "idle" ? meaningOf(drawn, name) : "";
  return { name: saidOf(drawn, row.lane.kind, name), length: duration(end - start), facts, meaning };
}

function stepOf(timeline: Timeline, time: number): { name: string; length: number } | null {
  const lane = timeline.lanes.find((one) => one.kind === "step" && one.start.length);
  if (!lane) return null;
  const i = above(lane.start, time) - 1;
  if (i < 0 || lane.end[i] <= time) return null;
  const name = timeline.names[lane.name[i]];
  const number = numberOf(name);
  return { name: number === null ? name : `step ${number}`, length: lane.end[i] - lane.start[i] };
}

export interface Entry {
  slug: string;
  label: string;
  meaning: string;
  share: number; // of the span; of several devices the mean
}

/** Return the groups of causes of a timeline, with their share of a span, the largest of the whole first. */
export function legend(drawn: Drawn, timeline: Timeline, rows: Row[], span: Span): Entry[] {
  const idle = rows.filter((row) => row.lane.kind === "idle");
  const slugs = timeline.names.map((name) => drawn.causes[name] ?? "unknown");
  const [here, whole] = [new Map<string, number>(), new Map<string, number>()];
  const first = new Map<string, string>();
  for (const row of idle) {
    for (let i = 0; i < row.start.length; i++) {
      const slug = slugs[row.name[i]];
      whole.set(slug, (whole.get(slug) ?? 0) + row.end[i] - row.start[i]);
      first.set(slug, timeline.names[row.name[i]]);
    }
    for (let i = above(row.reach, span.start); i < row.start.length && row.start[i] < span.end; i++) {
      const part = Math.min(row.end[i], span.end) - Math.max(row.start[i], span.start);
      if (part > 0) here.set(slugs[row.name[i]], (here.get(slugs[row.name[i]]) ?? 0) + part);
    }
  }
  const per = Math.max(idle.length, 1) * (span.end - span.start);
  return [...whole].sort((a, b) => b[1] - a[1]).map(([slug]) => ({
    slug,
    label: labelOf(slug),
    meaning: meaningOf(drawn, first.get(slug)!),
    share: (here.get(slug) ?? 0) / per,
  }));
}

/** Return which share of a span is idle; null where no lane tells. */
export function idleShare(rows: Row[], span: Span): number | null {
  const idle = rows.filter((row) => row.lane.kind === "idle");
  if (!idle.length) return null;
  const sum = idle.reduce((all, row) => all + taken(row, span.start, span.end), 0);
  return sum / (idle.length * (span.end - span.start));
}
