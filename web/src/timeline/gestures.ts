// Hands on the canvas: wheel, drag, pinch. A plain wheel and a vertical swipe stay the page's own.
import { RULER } from "./layout";
import type { Stage } from "./stage";
import { moved, zoomed } from "./span";

export interface Told {
  hover: (x: number, y: number) => void;
  leave: () => void;
  tap: (x: number, y: number) => void;
  twice: (x: number, y: number) => void;
}

interface Point {
  x: number;
  y: number;
}

export const STILL = 5; // px that a tap may wander

/** Attach to the stage's canvas; returns what takes it off again. */
export function gestures(stage: Stage, told: Told): () => void {
  const { canvas } = stage;
  const off = new AbortController();
  const on = <K extends keyof HTMLElementEventMap>(name: K, act: (event: HTMLElementEventMap[K]) => void): void =>
    canvas.addEventListener(name, act, { signal: off.signal, passive: false });
  const drags = new Drags(stage, told);
  on("wheel", (event) => wheel(stage, event));
  on("pointerdown", (event) => drags.down(event));
  on("pointermove", (event) => drags.move(event));
  on("pointerup", (event) => drags.up(event));
  on("pointercancel", (event) => drags.cancel(event));
  on("lostpointercapture", (event) => drags.cancel(event)); // an end that the canvas was not told of, as behind a menu
  on("pointerleave", () => told.leave());
  on("dblclick", (event) => told.twice(event.offsetX, event.offsetY));
  return () => off.abort();
}

function wheel(stage: Stage, event: WheelEvent): void {
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  const length = stage.span.end - stage.span.start;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault(); // a pinch on a trackpad comes as this, too
    const by = Math.max(-60, Math.min(60, event.deltaY * unit));
    stage.show(zoomed(stage.span, stage.time(event.offsetX), Math.exp(by * 0.008)));
    return;
  }
  const sideways = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
  if (!event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
  event.preventDefault();
  stage.show(moved(stage.span, (sideways * unit * length) / stage.width));
}

/** One pointer pans or chooses a range, two pinch. */
class Drags {
  private at = new Map<number, Point>(); // each pointer that is down
  private from = { x: 0, y: 0, time: 0 };
  private what: "" | "tap" | "pan" | "range" = "";

  constructor(
    private stage: Stage,
    private told: Told,
  ) {}

  down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.at.set(event.pointerId, pointOf(event));
    this.stage.canvas.setPointerCapture(event.pointerId);
    this.from = { x: event.offsetX, y: event.offsetY, time: this.stage.time(event.offsetX) };
    this.what = this.at.size > 1 ? "pan" : "tap";
    if (event.shiftKey || (event.offsetY < RULER && event.offsetX >= this.stage.left)) this.what = "range";
  }

  move(event: PointerEvent): void {
    if (!this.at.has(event.pointerId)) {
      if (event.pointerType === "mouse") this.told.hover(event.offsetX, event.offsetY);
      return;
    }
    if (this.what === "tap" && Math.hypot(event.offsetX - this.from.x, event.offsetY - this.from.y) > STILL) {
      this.what = "pan";
      this.told.leave();
    }
    const before = [...this.at.values()];
    const old = this.at.get(event.pointerId)!;
    this.at.set(event.pointerId, pointOf(event));
    if (this.what === "range") this.stage.mark("select", this.range(event.offsetX));
    else if (this.at.size === 2) this.pinch(before, [...this.at.values()]);
    else if (this.what === "pan") this.pan(event.offsetX - old.x);
  }

  up(event: PointerEvent): void {
    if (!this.at.delete(event.pointerId)) return;
    if (this.what === "tap") this.told.tap(event.offsetX, event.offsetY);
    if (this.what === "range") {
      this.stage.mark("select", null);
      if (Math.abs(event.offsetX - this.from.x) > STILL) this.stage.show(this.range(event.offsetX), true);
    }
    this.what = this.at.size ? "pan" : "";
  }

  /** The browser has taken the gesture: it scrolls the page. */
  cancel(event: PointerEvent): void {
    if (!this.at.delete(event.pointerId)) return;
    if (this.what === "range") this.stage.mark("select", null);
    this.what = "";
  }

  private range(x: number): { start: number; end: number } {
    const time = this.stage.time(x);
    return { start: Math.min(time, this.from.time), end: Math.max(time, this.from.time) };
  }

  private pan(by: number): void {
    const length = this.stage.span.end - this.stage.span.start;
    this.stage.show(moved(this.stage.span, (-by * length) / this.stage.width));
  }

  private pinch(before: Point[], after: Point[]): void {
    const [a, b] = [apart(before), apart(after)];
    const middle = (before[0].x + before[1].x) / 2;
    this.pan((after[0].x + after[1].x) / 2 - middle);
    if (a > 8 && b > 8) this.stage.show(zoomed(this.stage.span, this.stage.time(middle), a / b));
  }
}

function pointOf(event: PointerEvent): Point {
  return { x: event.offsetX, y: event.offsetY };
}

function apart([a, b]: Point[]): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
