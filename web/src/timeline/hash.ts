// Where a reader is, in the address of the page: "#t=0:1200000000-1250000000" (timeline, start and end in ns), and what is
// marked there: ";m=1210000000-1220000000".
import type { Span } from "./span";

export interface Place extends Span {
  timeline: number;
  mark: Span | null;
}

let later = 0;

export function placeIn(hash: string): Place | null {
  const found = /^#t=(\d+):(-?\d+)-(-?\d+)(?:;m=(-?\d+)-(-?\d+))?$/.exec(hash);
  if (!found) return null;
  const [timeline, start, end, from, to] = found.slice(1).map(Number); // NaN without a mark
  const safe = (...numbers: number[]): boolean => numbers.every(Number.isSafeInteger);
  if (!(end > start && safe(start, end))) return null;
  return { timeline, start, end, mark: to >= from && safe(from, to) ? { start: from, end: to } : null };
}

export function hashOf({ timeline, start, end, mark }: Place): string {
  const written = (span: Span): string => `${Math.round(span.start)}-${Math.round(span.end)}`;
  return `#t=${timeline}:${written({ start, end })}${mark ? `;m=${written(mark)}` : ""}`;
}

/** Write it once the reader rests. */
export function remember(place: Place): void {
  clearTimeout(later);
  later = setTimeout(() => {
    try {
      history.replaceState(null, "", hashOf(place));
    } catch {
      // A page in a frame without an address of its own may not: then there is no link to share.
    }
  }, 300) as unknown as number;
}
