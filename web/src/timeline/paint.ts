// Draws rows of slices: at most about one rectangle for each pixel of a row, however many slices there are.
import type { Drawn, Timeline } from "../data";
import type { Layout, Placed } from "./layout";
import { FULL, toneNames, type Palette, type Tone } from "./palette";
import { above } from "./rows";
import type { Span } from "./span";

export interface Scene {
  drawn: Drawn;
  timeline: Timeline;
  layout: Layout;
  colors: Palette;
  span: Span;
  left: number; // px: where time begins
  width: number; // px of time
  names: Uint8Array | null; // what a search found: 1 by name
  cause: string | null; // slug that a reader singled out
  said: (kind: string, name: string) => string;
}

const NARROW = 1.5; // px: slices below are drawn together with those that share their pixel
const LEGIBLE = 34; // px: no text in what is narrower
const DIM = 1;
type ToneOf = (name: number, odd: boolean) => string;
const tones = new WeakMap<object, ToneOf>(); // by lane

export function rows(ctx: CanvasRenderingContext2D, scene: Scene): void {
  for (const strip of scene.layout.strips) {
    let toneOf = tones.get(strip.lane);
    if (!toneOf) tones.set(strip.lane, (toneOf = toneNames(scene.drawn, scene.timeline, strip.lane)));
    if (strip.lane.covered.length) under(ctx, scene, strip.rows[0] ?? null, strip.top, toneOf, strip.lane.covered);
    for (const placed of strip.rows) new Pen(ctx, scene, placed, toneOf).row();
  }
}

/** Draws one row from left to right; rectangles that touch and look alike become one. */
class Pen {
  private x = 0; // of the rectangle that is being made
  private right = -1;
  private fill = "";
  // Slices too narrow for a rectangle of their own, of one pixel.
  private pixel = -1;
  private covered = 0;
  private longest = 0;
  private tone = "";
  private step = FULL;

  constructor(
    private ctx: CanvasRenderingContext2D,
    private scene: Scene,
    private placed: Placed,
    private toneOf: ToneOf,
  ) {}

  row(): void {
    const { span, left, width } = this.scene;
    const { row } = this.placed;
    const scale = width / (span.end - span.start);
    for (let i = above(row.reach, span.start); i < row.start.length; i++) {
      const start = row.start[i];
      if (start >= span.end) break;
      const end = row.end[i];
      if (end <= span.start) continue;
      const from = (Math.max(start, span.start) - span.start) * scale;
      const to = (Math.min(end, span.end) - span.start) * scale;
      if (to - from < NARROW) this.narrow(Math.floor(from), to - from, i);
      else this.wide(left + from, left + to, i);
    }
    this.flush();
    this.put(-1, -1, "");
  }

  private narrow(pixel: number, length: number, i: number): void {
    if (pixel !== this.pixel) this.flush();
    this.pixel = pixel;
    this.covered += length;
    const step = this.stepOf(i);
    // What was searched for is never hidden by what was not.
    if (length + (step === FULL ? 1e6 : 0) >= this.longest) {
      this.longest = length + (step === FULL ? 1e6 : 0);
      this.tone = this.toneOf(this.placed.row.name[i], this.odd(i));
      this.step = step;
    }
  }

  private flush(): void {
    if (this.pixel < 0) return;
    const share = Math.min(1, this.covered);
    // A single slice is seen, however short: at a third of its colour.
    const step = Math.min(this.step, Math.max(3, Math.round(share * FULL)));
    const x = this.scene.left + this.pixel;
    this.put(x, x + 1, this.of(this.tone).fill[step]);
    this.pixel = -1;
    this.covered = this.longest = 0;
  }

  private wide(from: number, to: number, i: number): void {
    this.flush();
    const { row } = this.placed;
    const tone = this.of(this.toneOf(row.name[i], this.odd(i)));
    const step = this.stepOf(i);
    const hair = to - from >= 4 ? 1 : 0; // the ground between neighbours
    this.put(from, to - hair, tone.fill[step]);
    if (to - from >= LEGIBLE && this.placed.height >= 13) {
      this.put(-1, -1, "");
      this.text(from, to - from - hair, i, step === FULL ? tone.ink : this.scene.colors.soft);
    }
  }

  private put(from: number, to: number, fill: string): void {
    if (fill === this.fill && from <= this.right + 0.01) {
      this.right = Math.max(this.right, to);
      return;
    }
    if (this.right > this.x) {
      this.ctx.fillStyle = this.fill;
      this.ctx.fillRect(this.x, this.placed.top, this.right - this.x, this.placed.height);
    }
    this.x = from;
    this.right = to;
    this.fill = fill;
  }

  private text(x: number, width: number, i: number, ink: string): void {
    const { row, top, height } = this.placed;
    const { timeline, colors, said } = this.scene;
    const shown = fitting(this.ctx, said(row.lane.kind, timeline.names[row.name[i]]), width - 10);
    if (!shown) return;
    this.ctx.fillStyle = row.lane.kind === "step" || row.lane.kind === "thread" ? colors.text : ink;
    this.ctx.fillText(shown, x + 5, top + height / 2 + 0.5);
  }

  private odd(i: number): boolean {
    return this.placed.row.lane.kind === "step" ? i % 2 === 1 : this.placed.row.depth % 2 === 1;
  }

  private of(tone: string): Tone {
    return this.scene.colors.tones.get(tone) ?? this.scene.colors.tones.get("other")!;
  }

  /** How strong a slice is drawn: what a search or the legend leaves out stands back. */
  private stepOf(i: number): number {
    const { names, cause } = this.scene;
    const { row } = this.placed;
    if (names && !names[row.name[i]]) return DIM;
    const hasCause = row.lane.kind === "idle" || row.lane.kind === "phase";
    return cause && hasCause && this.toneOf(row.name[i], false) !== cause ? DIM : FULL;
  }
}

/** Draw, behind a lane, what all of its slices cover: also those that the page leaves out. */
function under(
  ctx: CanvasRenderingContext2D, scene: Scene, placed: Placed | null, top: number, toneOf: ToneOf, covered: Uint8Array,
): void {
  const { timeline, span, left, width, colors } = scene;
  const kind = placed?.row.lane.kind;
  const tone = colors.tones.get(kind === "thread" ? "host" : kind === "stream" ? "copy" : toneOf(-1, false))
    ?? colors.tones.get("other")!;
  const part = (timeline.end - timeline.start) / covered.length;
  const scale = width / (span.end - span.start);
  const wide = Math.max(1, Math.floor(part * scale));
  let x = 0;
  while (x < width) {
    const from = (span.start + x / scale - timeline.start) / part;
    const to = Math.max(from + 1e-9, (span.start + (x + wide) / scale - timeline.start) / part);
    let most = 0;
    for (let bin = Math.max(0, Math.floor(from)); bin < Math.min(covered.length, Math.ceil(to)); bin++)
      most = Math.max(most, covered[bin]);
    if (most) {
      ctx.fillStyle = tone.fill[Math.max(1, Math.round((most / 255) * (FULL - 2)))];
      ctx.fillRect(left + x, top, Math.min(wide, width - x), placed?.height ?? 15);
    }
    x += wide;
  }
}

const widths = new Map<string, number>(); // of a text, px, in the font of slices

/** Return as much of a text as fits; "" where not even a few letters do. */
function fitting(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  const short = text.length > 160 ? text.slice(0, 160) : text;
  let whole = widths.get(short);
  if (whole === undefined) {
    if (widths.size > 20_000) widths.clear();
    widths.set(short, (whole = ctx.measureText(short).width));
  }
  if (whole <= width) return short;
  const letters = Math.floor((width / whole) * short.length) - 1;
  return letters >= 3 ? `${short.slice(0, letters)}…` : "";
}
