// A drag on the strip of the whole recording moves the window over it.
import { STILL } from "./gestures";
import type { Stage } from "./stage";

export function minimapDrag(stage: Stage): () => void {
  const off = new AbortController();
  const { signal } = off;
  const { strip, whole } = stage;
  let grip: number | null = null; // ns from the window's middle to where it is held
  let waits: number | null = null; // px where a finger was put down: it may be about to scroll the page
  const time = (x: number): number => whole.start + ((x - stage.left) / stage.width) * (whole.end - whole.start);
  const follow = (x: number): void => {
    if (grip === null) return;
    const { start, end } = stage.span;
    const middle = time(x) - grip;
    stage.show({ start: middle - (end - start) / 2, end: middle + (end - start) / 2 });
  };
  strip.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const { start, end } = stage.span;
    const at = time(event.offsetX);
    grip = at >= start && at <= end ? at - (start + end) / 2 : 0;
    strip.setPointerCapture(event.pointerId);
    waits = event.pointerType === "touch" ? event.offsetX : null;
    if (waits === null) follow(event.offsetX);
  }, { signal });
  strip.addEventListener("pointermove", (event) => {
    if (waits !== null && Math.abs(event.offsetX - waits) <= STILL) return;
    waits = null;
    follow(event.offsetX);
  }, { signal });
  strip.addEventListener("pointerup", (event) => {
    follow(event.offsetX);
    grip = null;
  }, { signal });
  for (const name of ["pointercancel", "lostpointercapture"] as const)
    strip.addEventListener(name, () => void (grip = null), { signal });
  return () => off.abort();
}
