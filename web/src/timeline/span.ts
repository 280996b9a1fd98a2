// The stretch of time that a timeline shows, in ns of the recording: moved, zoomed, kept inside of what there is.
export interface Span {
  start: number;
  end: number;
}

export const SHORTEST = 50; // ns: nothing on a GPU is told apart below that

/** Return the span inside of the whole, as long as it was if it fits. */
export function inside(span: Span, whole: Span): Span {
  const length = Math.min(Math.max(span.end - span.start, SHORTEST), Math.max(whole.end - whole.start, SHORTEST));
  const middle = (span.start + span.end) / 2;
  const start = Math.max(whole.start, Math.min(middle - length / 2, whole.end - length));
  return { start, end: start + length };
}

/** Return the span made longer (wanted > 1) or shorter about a moment that stays where it is. */
export function zoomed(span: Span, about: number, wanted: number): Span {
  const factor = Math.max(wanted, Math.min(1, SHORTEST / (span.end - span.start))); // at the limit nothing moves
  return { start: about - (about - span.start) * factor, end: about + (span.end - about) * factor };
}

export function moved(span: Span, by: number): Span {
  return { start: span.start + by, end: span.end + by };
}

/** Return a span with room on both sides, so that a person sees what comes before and after. */
export function around(start: number, end: number, whole: Span, room = 0.35): Span {
  const length = Math.max(end - start, Math.min((whole.end - whole.start) / 200, 1e6), SHORTEST);
  const middle = (start + end) / 2;
  return inside({ start: middle - length * (0.5 + room), end: middle + length * (0.5 + room) }, whole);
}

/** Return what lies between two spans, `share` of the way: lengths by ratio, as an eye follows a zoom. */
export function between(from: Span, to: Span, share: number): Span {
  const [a, b] = [from.end - from.start, to.end - to.start];
  const length = a * Math.pow(b / a, share);
  // Where lengths differ the middle moves with them; else evenly.
  const way = Math.abs(b - a) > a * 1e-6 ? (length - a) / (b - a) : share;
  const middle = (from.start + from.end) / 2 + ((to.start + to.end) / 2 - (from.start + from.end) / 2) * way;
  return { start: middle - length / 2, end: middle + length / 2 };
}

export function same(a: Span, b: Span): boolean {
  return a.start === b.start && a.end === b.end;
}

export function meet(a: Span, b: Span): boolean {
  return a.start <= b.end && b.start <= a.end;
}
