// A drag on the strip of the whole recording moves the window over it.
import type { Stage } from "./stage";

export function minimapDrag(stage: Stage): () => void {
  const off = new AbortController();
  const { strip, whole } = stage;
  let grip: number | null = null; // ns from the window's middle to where it is held
  const time = (x: number): number => whole.start + ((x - stage.left) / stage.width) * (whole.end - whole.start);
  const follow = (x: number): void => {
    const { start, end } = stage.span;
    const middle = time(x) - grip!;
    stage.show({ start: middle - (end - start) / 2, end: middle + (end - start) / 2 });
  };
  strip.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const { start, end } = stage.span;
    const at = time(event.offsetX);
    grip = at >= start && at <= end ? at - (start + end) / 2 : 0;
    strip.setPointerCapture(event.pointerId);
    follow(event.offsetX);
  }, { signal: off.signal });
  strip.addEventListener("pointermove", (event) => void (grip !== null && follow(event.offsetX)), { signal: off.signal });
  for (const name of ["pointerup", "pointercancel"] as const)
    strip.addEventListener(name, () => void (grip = null), { signal: off.signal });
  return () => off.abort();
}
