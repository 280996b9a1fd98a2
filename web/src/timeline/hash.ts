// Where a reader is, in the address of the page: "#t=0:1200000000-1250000000" (timeline, start and end in ns).
import type { Span } from "./span";

export interface Place extends Span {
  timeline: number;
}

let later = 0;

export function placeIn(hash: string): Place | null {
  const found = /^#t=(\d+):(-?\d+)-(-?\d+)$/.exec(hash);
  if (!found) return null;
  const [timeline, start, end] = found.slice(1).map(Number);
  return end > start && Number.isSafeInteger(start) && Number.isSafeInteger(end) ? { timeline, start, end } : null;
}

/** Write it once the reader rests. */
export function remember(place: Place): void {
  clearTimeout(later);
  later = setTimeout(() => {
    try {
      history.replaceState(null, "", `#t=${place.timeline}:${Math.round(place.start)}-${Math.round(place.end)}`);
    } catch {
      // A page in a frame without an address of its own may not: then there is no link to share.
    }
  }, 300) as unknown as number;
}
