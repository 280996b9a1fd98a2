// What of the timeline belongs to a place on a chart, so that a click leads there.
import type { Chart, Drawn, Lane, Timeline } from "../data";
import { numberOf } from "../timeline/align";

export interface Moment {
  timeline: number;
  start: number; // ns
  end: number;
  label: string;
}

interface Steps {
  timeline: number;
  lane: Lane;
  numbers: Map<number, number>; // number of a step -> its place in the lane
}

/** Return the step on the timeline; null where that has nothing of it. Other charts have clocks of their own. */
export function momentOf(chart: Chart, x: number, drawn: Drawn): Moment | null {
  return chart.axis === "step" ? stepOf(chart, Math.round(x), drawn) : null;
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

function stepOf(chart: Chart, number: number, drawn: Drawn): Moment | null {
  const steps = stepsFor(chart, drawn);
  const at = steps?.numbers.get(number);
  if (!steps || at === undefined) return null;
  const { timeline, lane } = steps;
  return { timeline, start: lane.start[at], end: lane.end[at], label: `step ${number}` };
}

const known = new WeakMap<Chart, Steps | null>();

/** The steps that a chart is of: a trace and the log of a whole run count differently, so the closest match is meant. */
function stepsFor(chart: Chart, drawn: Drawn): Steps | null {
  let found = known.get(chart);
  if (found === undefined) {
    const likeness = ({ numbers }: Steps): number => {
      const both = chart.x.filter((x) => numbers.has(x)).length;
      return both / (numbers.size + chart.x.length - both);
    };
    const every = drawn.timelines.flatMap(stepLanes);
    found = every.sort((a, b) => likeness(b) - likeness(a))[0] ?? null;
    known.set(chart, found);
  }
  return found;
}

function stepLanes({ lanes, names }: Timeline, timeline: number): Steps[] {
  const numbers = names.map((name) => numberOf(name) ?? NaN);
  return lanes
    .filter(({ kind }) => kind === "step")
    .map((lane) => ({ timeline, lane, numbers: new Map(Array.from(lane.name, (code, at) => [numbers[code], at])) }));
}
