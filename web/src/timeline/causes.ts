// What the names of idle time are called and mean, and which colour each has: render/palette.py and bars.py say it.
import type { Drawn } from "../data";

// What a watched thread does has the colour of the idle time that it would be; work has that of work.
const PHASES: Record<string, [slug: string, said: string]> = {
  data: ["waiting-for-data", "waiting for data"],
  prepare: ["preparing-copies", "preparing the batch"],
  forward: ["busy", "forward"],
  backward: ["busy", "backward"],
  optimizer: ["busy", "optimizer"],
  save: ["checkpoint", "saving a checkpoint"],
  evaluation: ["evaluation", "evaluation"],
  start: ["compilation", "starting"],
  gc: ["garbage-collection", "garbage collection"],
  environment: ["host-dispatch", "environment"],
  other: ["other", "other"],
};

export function slugOf(drawn: Drawn, kind: string, name: string): string {
  if (kind === "idle") return drawn.causes[name] ?? "unknown";
  if (kind === "phase") return PHASES[name]?.[0] ?? "other";
  return "busy";
}

/** "data_wait" as a person says it: "waiting for data"; a group of several causes tells which. */
export function saidOf(drawn: Drawn, kind: string, name: string): string {
  if (kind === "phase") return PHASES[name]?.[1] ?? name;
  if (kind !== "idle" || !(name in drawn.causes)) return name;
  const label = labelOf(drawn.causes[name]);
  const alone = Object.values(drawn.causes).filter((slug) => slug === drawn.causes[name]).length === 1;
  return alone ? label : `${label}: ${name.replaceAll("_", " ")}`;
}

export function labelOf(slug: string): string {
  return slug.replaceAll("-", " ");
}

/** What a cause means, a sentence; "" where the page does not say. */
export function meaningOf(drawn: Drawn, name: string): string {
  return drawn.meanings?.[drawn.causes[name]] ?? "";
}
