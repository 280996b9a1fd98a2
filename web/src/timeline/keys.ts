// What keys do while the timeline has the focus. HELP is the list that a reader sees.
export type Act =
  | "in" | "out" | "left" | "right" | "up" | "down" | "next" | "previous" | "into" | "fit" | "search"
  | "hit" | "hitBefore" | "help" | "leave";

const KEYS: Record<string, Act> = {
  w: "in", W: "in", "+": "in", "=": "in",
  s: "out", S: "out", "-": "out", _: "out",
  a: "left", A: "left", ArrowLeft: "left",
  d: "right", D: "right", ArrowRight: "right",
  ArrowUp: "up", ArrowDown: "down",
  "]": "next", ".": "next", "[": "previous", ",": "previous",
  Enter: "into",
  f: "fit", F: "fit", "0": "fit",
  "/": "search", n: "hit", N: "hitBefore", "?": "help", Escape: "leave",
};

export const HELP: [keys: string, what: string][] = [
  ["Ctrl or ⌘ + wheel, pinch, W S, + −", "zoom"],
  ["drag, two fingers sideways, A D, ← →", "move"],
  ["drag on the ruler, Shift + drag", "choose a range"],
  ["double click, Enter", "zoom to a slice"],
  ["F", "fit the whole recording"],
  ["↑ ↓, then [ ]", "another lane, the slice before and after"],
  ["/, then n N", "search, next and previous hit"],
  ["Esc", "let go"],
];

/** Return what a key means; Shift with an arrow goes from slice to slice. */
export function actOf(event: KeyboardEvent): Act | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.shiftKey && event.key === "ArrowRight") return "next";
  if (event.shiftKey && event.key === "ArrowLeft") return "previous";
  return KEYS[event.key] ?? null;
}
