// What of the timeline belongs to a place on a chart, so that a click leads there.
import type { Chart, Drawn } from "../data";
import { numberOf } from "../timeline/align";

export interface Moment {
  timeline: number;
  start: number; // ns
  end: number;
  label: string;
}

/** Return the step of the timeline that a chart counts by; null where that is not drawn, or has no such step. */
export function momentOf(chart: Chart, x: number, drawn: Drawn): Moment | null {
  if (chart.axis !== "step" || chart.timeline === null) return null;
  const { lanes, names } = drawn.timelines[chart.timeline];
  const lane = lanes.find(({ kind, start }) => kind === "step" && start.length);
  const wanted = Math.round(x);
  const at = lane ? lane.name.findIndex((code) => numberOf(names[code]) === wanted) : -1;
  return lane && at >= 0
    ? { timeline: chart.timeline, start: lane.start[at], end: lane.end[at], label: `step ${wanted}` }
    : null;
}

/** Lead a reader there, as every link of the page does: web/src/jump.ts listens for its click. */
export function lead({ timeline, start, end, label }: Moment): void {
  const link = document.createElement("a");
  link.href = "#timeline";
  link.textContent = label;
  link.hidden = true;
  Object.assign(link.dataset, { timeline, start, end });
  document.body.append(link);
  link.click();
  link.remove();
}
