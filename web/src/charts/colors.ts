// Colours of a chart out of the style sheet, so that a canvas has the theme of the page; read once for each theme.
const known = new Map<string, string>();

/** The value of a custom property: `color("--line-1")`. */
export function color(name: string): string {
  let found = known.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#808080";
    known.set(name, found);
  }
  return found;
}

/** Call when the theme changed, and then draw again. */
export function forgetColors(): void {
  known.clear();
}

/** How a line is drawn by its role: colour alone tells no line from another. */
export const DASHES: Record<string, number[]> = { "1": [], "2": [7, 3], "3": [2, 3], "4": [9, 3, 2, 3], muted: [] };
