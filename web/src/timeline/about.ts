// What can be said of one slice, and of what is in view.
import type { Drawn, Lane, Timeline } from "../data";
import { numberOf } from "./align";
import { labelOf, meaningOf, saidOf, slugOf } from "./causes";
import { leftOutOf } from "./leftOut";
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

/** Say what stands where the slices of a lane are left out. */
export function aboutLeftOut(lane: Lane, share: number): About {
  const facts = [lane.title, `with all slices ${percent(share)} of this time is covered`];
  return { name: "Slices too short to be kept", length: "", facts, meaning: "" };
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
  share: number; // of what was judged of the span; of several devices the mean
}

/** Return the groups of causes of a timeline, with their share of a span, the largest of the whole first; of a run
 * that was watched, what its training thread does. */
export function legend(drawn: Drawn, timeline: Timeline, rows: Row[], shown: Span): Entry[] {
  const span = judged(timeline, shown);
  const kind = rows.some((row) => row.lane.kind === "idle") ? "idle" : "phase";
  const idle = rows.filter((row) => row.lane.kind === kind);
  const here = new Float64Array(timeline.names.length);
  for (const row of idle) {
    for (let i = above(row.reach, span.start); i < row.start.length && row.start[i] < span.end; i++)
      here[row.name[i]] += Math.max(0, Math.min(row.end[i], span.end) - Math.max(row.start[i], span.start));
  }
  const per = Math.max(idle.length, 1) * Math.max(span.end - span.start, 1);
  const entries = groups(drawn, timeline, idle).map(({ slug, names }) => ({
    slug,
    label: kind === "idle" ? labelOf(slug) : names.map((name) => saidOf(drawn, kind, timeline.names[name])).join(", "),
    meaning: kind === "idle" ? meaningOf(drawn, timeline.names[names[0]]) : "",
    share: names.reduce((sum, name) => sum + here[name], 0) / per,
  }));
  const short = idle.reduce((sum, row) => sum + leftOutOf(timeline, row.lane, span), 0) / per;
  return short < TOLD ? entries : [...entries, { slug: "other", label: "too short to be drawn", meaning: "", share: short }];
}

const TOLD = 5e-4; // of a span: less is what bytes round

interface Group {
  slug: string;
  names: number[];
}

const grouped = new WeakMap<Timeline, Group[]>();

/** Return the groups of causes that a timeline has, those with the most time first. */
function groups(drawn: Drawn, timeline: Timeline, idle: Row[]): Group[] {
  const known = grouped.get(timeline);
  if (known) return known;
  const time = new Float64Array(timeline.names.length);
  const { start, end } = judged(timeline, timeline);
  for (const row of idle)
    row.name.forEach((name, i) => (time[name] += Math.max(0, Math.min(row.end[i], end) - Math.max(row.start[i], start))));
  const made = new Map<string, number[]>();
  time.forEach((length, name) => {
    const slug = slugOf(drawn, idle[0]?.lane.kind ?? "idle", timeline.names[name]);
    if (length) made.set(slug, [...(made.get(slug) ?? []), name]);
  });
  const total = ([, names]: [string, number[]]): number => names.reduce((sum, name) => sum + time[name], 0);
  const sorted = [...made].sort((a, b) => total(b) - total(a)).map(([slug, names]) => ({ slug, names }));
  grouped.set(timeline, sorted);
  return sorted;
}

/** Return the part of a span that was judged; steps alone do not tell it. */
export function judged({ window: [low, high] }: Timeline, span: Span): Span {
  const start = Math.max(span.start, low);
  return { start, end: Math.max(start, Math.min(span.end, high)) };
}

/** Return which share of the judged part of a span is idle; null where no lane tells. */
export function idleShare(timeline: Timeline, rows: Row[], span: Span): number | null {
  const idle = rows.filter((row) => row.lane.kind === "idle");
  const { start, end } = judged(timeline, span);
  if (!idle.length || start === end) return null;
  const time = (row: Row): number => taken(row, start, end) + leftOutOf(timeline, row.lane, { start, end });
  return idle.reduce((all, row) => all + time(row), 0) / (idle.length * (end - start));
}
