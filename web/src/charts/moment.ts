// What of the timeline belongs to a place on a chart, so that a click leads there.
import type { Chart, Drawn } from "../data";

export interface Moment {
  timeline: number;
  start: number; // ns
  end: number;
}

/** Return the step, or the stretch that a mark names, on the timeline; null where that has nothing of it. */
export function momentOf(chart: Chart, x: number, drawn: Drawn): Moment | null {
  if (chart.axis === "step") return stepOf(Math.round(x), drawn);
  if (chart.axis !== "s" || !chart.clock.startsWith("start of the recording") || !drawn.timelines.length) return null;
  const mark = chart.marks.filter(({ start, end }) => start <= x && x <= end).sort((a, b) => length(a) - length(b))[0];
  return mark && mark.end > mark.start ? { timeline: 0, start: mark.start * 1e9, end: mark.end * 1e9 } : null;
}

function stepOf(number: number, drawn: Drawn): Moment | null {
  for (const [timeline, { lanes, names }] of drawn.timelines.entries()) {
    const wanted = names.findIndex((name) => Number(/(\d+)\s*$/.exec(name)?.[1]) === number);
    for (const lane of lanes) {
      if (lane.kind !== "step") continue;
      const at = lane.name.findIndex((code) => code === wanted || Number(/(\d+)\s*$/.exec(names[code])?.[1]) === number);
      if (at >= 0) return { timeline, start: lane.start[at], end: lane.end[at] };
    }
  }
  return null;
}

function length({ start, end }: { start: number; end: number }): number {
  return end - start;
}
