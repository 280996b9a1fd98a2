// What the names of idle time and of phases are called and mean, and which colour each has: render/palette.py, bars.py and
// phases.py say it, for the bars of the page and for a terminal, too.
import type { Drawn } from "../data";

export function slugOf(drawn: Drawn, kind: string, name: string): string {
  if (kind === "idle") return drawn.causes[name] ?? "unknown";
  if (kind === "phase") return drawn.phases[name]?.[0] ?? "other";
  return "busy";
}

/** "data_wait" as a person says it: "waiting for data"; a group of several causes tells which. */
export function saidOf(drawn: Drawn, kind: string, name: string): string {
  if (kind === "phase") return drawn.phases[name]?.[1] ?? name;
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
