// The slices in view as Chrome-trace JSON, for Perfetto and chrome://tracing.
import type { Timeline } from "../data";
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
    for (const row of rowsOf(lane)) {
      for (let i = above(row.reach, span.start); i < row.start.length && row.start[i] < span.end; i++) {
        if (row.end[i] <= span.start) continue;
        const [ts, dur] = [row.start[i] / 1000, (row.end[i] - row.start[i]) / 1000];
        events.push({ ph: "X", cat: lane.kind, name: timeline.names[row.name[i]], pid, tid, ts, dur });
      }
    }
  });
  const otherData = { from: timeline.file, note: timeline.note, made_by: "whyidle" };
  return JSON.stringify({ displayTimeUnit: "ms", otherData, traceEvents: events });
}

/** Let the reader keep a text as a file. */
export function download(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
