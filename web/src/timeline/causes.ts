// What the names of idle time and of phases are called and mean, and which colour each has: render/palette.py, bars.py and
// phases.py say it, for the bars of the page and for a terminal, too.
import type { Drawn } from "../data";

export function slugOf(drawn: Drawn, kind: string, name: string): string {
  if (kind === "idle") return own(drawn.causes, name) ?? "unknown";
  if (kind === "phase") return own(drawn.phases, name)?.[0] ?? "other";
  return "busy";
}

/** "data_wait" as a person says it: "waiting for data"; a group of several causes tells which. */
export function saidOf(drawn: Drawn, kind: string, name: string): string {
  if (kind === "phase") return own(drawn.phases, name)?.[1] ?? name;
  const slug = kind === "idle" ? own(drawn.causes, name) : undefined;
  if (slug === undefined) return name;
  const label = labelOf(slug);
  const alone = Object.values(drawn.causes).filter((one) => one === slug).length === 1;
  return alone ? label : `${label}: ${name.replaceAll("_", " ")}`;
}

export function labelOf(slug: string): string {
  return slug.replaceAll("-", " ");
}

/** What a cause means, a sentence; "" where the page does not say. */
export function meaningOf(drawn: Drawn, name: string): string {
  const slug = own(drawn.causes, name);
  return (slug !== undefined && own(drawn.meanings, slug)) || "";
}

/** What a table has of its own under a name: kernels may be called "constructor". */
function own<T>(table: Record<string, T>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
