// The slices in view as Chrome-trace JSON, for Perfetto and chrome://tracing; whyidle reads it, too.
import type { Lane, Timeline } from "../data";
import { numberOf } from "./align";
import { above, rowsOf } from "./rows";
import type { Span } from "./span";

/** Return what a trace viewer opens: times in µs, a process for the timeline, a thread for each lane. */
export function traceEvents(timeline: Timeline, span: Span): string {
  const pid = timeline.rank ?? 0;
  const events: object[] = [{ ph: "M", pid, name: "process_name", args: { name: timeline.title } }];
  timeline.lanes.forEach((lane, at) => {
    const tid = at + 1;
    events.push({ ph: "M", pid, tid, name: "thread_name", args: { name: lane.title } });
    events.push({ ph: "M", pid, tid, name: "thread_sort_index", args: { sort_index: tid } });
    const args = placeOf(lane);
    for (const row of rowsOf(lane)) {
      for (let i = above(row.reach, span.start); i < row.start.length && row.start[i] < span.end; i++) {
        if (row.end[i] <= span.start) continue;
        const [ts, dur] = [row.start[i] / 1000, (row.end[i] - row.start[i]) / 1000];
        events.push({ ph: "X", ...named(lane, timeline.names[row.name[i]]), pid, tid, ts, dur, ...args });
      }
    }
  });
  const otherData = { from: timeline.file, note: timeline.note, made_by: "whyidle" };
  return JSON.stringify({ displayTimeUnit: "ms", otherData, traceEvents: events });
}

/** Return name and category as torch.profiler writes them, so that programs which read its traces read this one. Not of
 * lanes of which a part is left out: nobody is to judge a GPU by these. */
function named(lane: Lane, name: string): { name: string; cat: string } {
  if (lane.kind === "step") return { name: `ProfilerStep#${numberOf(name) ?? name}`, cat: "user_annotation" };
  if (lane.covered.length || lane.kind === "idle" || lane.kind === "phase") return { name, cat: lane.kind };
  if (lane.kind === "stream") return { name, cat: /^memcpy/i.test(name) ? "gpu_memcpy" : /^memset/i.test(name) ? "gpu_memset" : "kernel" };
  if (/^(cuda|hip|cu(?=[A-Z]))/.test(name)) return { name, cat: "cuda_runtime" };
  return { name, cat: /\.py\(\d+\): /.test(name) ? "python_function" : "cpu_op" };
}

/** Which device and stream a lane is of. */
function placeOf({ kind, title }: Lane): { args?: { device: number; stream: number } } {
  const found = kind === "stream" ? /^(?:GPU (\d+) )?stream (\d+)$/.exec(title) : null;
  return found ? { args: { device: Number(found[1] ?? 0), stream: Number(found[2]) } } : {};
}

/** Let the reader keep a text as a file. */
export function download(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
