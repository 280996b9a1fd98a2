// Draws rows of slices: at most about one rectangle for each pixel of a row, however many slices there are.
import type { Drawn, Lane, Timeline } from "../data";
import type { Layout, Placed } from "./layout";
import { FULL, toneNumbers, toneOrder, type Palette, type Toned } from "./palette";
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
const LEGIBLE = 22; // px: no text in what is narrower
const DIM = 1;

export function rows(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { drawn, timeline, layout, cause } = scene;
  const single = cause === null ? -1 : toneOrder(drawn).indexOf(cause);
  for (const { lane, top, rows: shown } of layout.strips) {
    const both = toneNumbers(drawn, timeline, lane.kind);
    if (lane.covered.length) under(ctx, scene, lane, top, shown[0]?.height ?? 15);
    const strength = steps(scene, lane, both[0], single);
    for (const placed of shown) new Pen(ctx, scene, placed, both, strength).row();
  }
}

let full = new Uint8Array(0); // every name at its full colour, made once: there are thousands of names

/** Return how strong each name is drawn: what a search or the legend leaves out stands back. */
function steps(scene: Scene, lane: Lane, tone: Uint8Array, single: number): Uint8Array {
  const { names } = scene;
  const choosy = single >= 0 && (lane.kind === "idle" || lane.kind === "phase");
  if (!names && !choosy) return full.length < tone.length ? (full = new Uint8Array(tone.length).fill(FULL)) : full;
  return tone.map((one, name) => ((names && !names[name]) || (choosy && one !== single) ? DIM : FULL));
}

/** Draws one row from left to right; rectangles that touch and look alike become one. */
class Pen {
  private x = 0; // of the rectangle that is being made
  private right = -1;
  private fill = "";
  // Slices too narrow for a rectangle of their own, of one pixel.
  private pixel = -1;
  private covered = 0;
  private weight = 0; // of the one that gives its colour
  private tone = 0;
  private step = FULL;
  private stack: Float64Array; // px that each tone covers of it
  private stacks: boolean;
  private piles: number[][] = []; // by tone and strength: x, y and height of each bar
  private names: (() => void)[] = []; // written over all rectangles

  constructor(
    private ctx: CanvasRenderingContext2D,
    private scene: Scene,
    private placed: Placed,
    private toned: Toned,
    private strength: Uint8Array, // by name
  ) {
    this.stacks = placed.row.lane.kind === "idle" || placed.row.lane.kind === "phase";
    this.stack = new Float64Array(scene.colors.tones.length);
  }

  row(): void {
    const { span, left, width } = this.scene;
    const { start, end, name, reach, depth, lane } = this.placed.row;
    const scale = width / (span.end - span.start);
    const alternate = lane.kind === "step";
    let tone = this.toned[depth % 2];
    for (let i = above(reach, span.start); i < start.length; i++) {
      const begun = start[i];
      const over = end[i];
      if (begun >= span.end) break;
      if (over <= span.start) continue;
      const from = (Math.max(begun, span.start) - span.start) * scale;
      const to = (Math.min(over, span.end) - span.start) * scale;
      if (alternate) tone = this.toned[i % 2];
      if (to - from < NARROW) this.narrow(Math.floor(from), to - from, tone[name[i]], this.strength[name[i]]);
      else {
        // Slices of one row may overlap: a name ends where the next one begins.
        const room = i + 1 < start.length ? (start[i + 1] - span.start) * scale : Infinity;
        this.wide(left + from, left + to, Math.min(to, room) - from, i, tone[name[i]]);
      }
    }
    this.flush();
    this.put(-1, -1, "");
    this.drawPiles();
    for (const write of this.names) write();
  }

  private narrow(pixel: number, length: number, tone: number, step: number): void {
    if (pixel !== this.pixel) this.flush();
    this.pixel = pixel;
    this.covered += length;
    if (this.stacks) this.stack[tone] += length;
    // What was searched for is never hidden by what was not.
    const weight = step === FULL ? length + 1e6 : length;
    if (weight < this.weight) return;
    this.weight = weight;
    this.tone = tone;
    this.step = step;
  }

  private flush(): void {
    if (this.pixel < 0) return;
    const x = this.scene.left + this.pixel;
    if (this.stacks) this.pile(x);
    else {
      // A single slice is seen, however short: at a third of its colour.
      const step = Math.min(this.step, Math.max(3, Math.round(Math.min(1, this.covered) * FULL)));
      this.put(x, x + 1, this.scene.colors.tones[this.tone].fill[step]);
    }
    this.pixel = -1;
    this.covered = this.weight = 0;
  }

  /** Stack what a pixel's slices cover as a bar as high as their share of it: many short gaps look like what they cost. */
  private pile(x: number): void {
    const { top, height } = this.placed;
    const whole = Math.max(1 / this.covered, height); // px that all of it is worth: a single gap is seen, too
    let bottom = top + height;
    for (let tone = 0; tone < this.stack.length; tone++) {
      if (!this.stack[tone]) continue;
      const high = Math.min(this.stack[tone] * whole, bottom - top);
      bottom -= high;
      (this.piles[tone * (FULL + 1) + this.step] ??= []).push(x, bottom, high);
      this.stack[tone] = 0;
    }
  }

  /** Draw the stacks, a colour at a time: to change colours costs more than to draw. */
  private drawPiles(): void {
    this.piles.forEach((bars, at) => {
      this.ctx.fillStyle = this.scene.colors.tones[Math.floor(at / (FULL + 1))].fill[at % (FULL + 1)];
      for (let i = 0; i < bars.length; i += 3) this.ctx.fillRect(bars[i], bars[i + 1], 1, bars[i + 2]);
    });
  }

  private wide(from: number, to: number, room: number, i: number, number: number): void {
    this.flush();
    const tone = this.scene.colors.tones[number];
    const step = this.strength[this.placed.row.name[i]];
    const hair = to - from >= 4 ? 1 : 0; // the ground between neighbours
    this.put(from, to - hair, tone.fill[step]);
    if (room >= LEGIBLE && this.placed.height >= 13) {
      const ink = step === FULL ? tone.ink : this.scene.colors.soft;
      this.names.push(() => this.text(from, room - hair, i, ink));
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
    const { kind } = row.lane;
    const lines = written(this.ctx, said(kind, timeline.names[row.name[i]]), width - 8, kind, height);
    this.ctx.fillStyle = ink === colors.soft || (kind !== "step" && kind !== "thread") ? ink : colors.text;
    lines.forEach((line, at) =>
      this.ctx.fillText(line, x + 4, top + height / 2 + 0.5 + (at - (lines.length - 1) / 2) * 13));
  }
}

/** Draw, behind a lane, what all of its slices cover: also those that the page leaves out. */
function under(ctx: CanvasRenderingContext2D, scene: Scene, lane: Lane, top: number, height: number): void {
  const { drawn, timeline, span, left, width, colors } = scene;
  const { covered } = lane;
  const name = { thread: "host", stream: "copy" }[lane.kind as string] ?? "other";
  const tone = colors.tones[toneOrder(drawn).indexOf(name)];
  const part = (timeline.end - timeline.start) / covered.length;
  const perPixel = (span.end - span.start) / width / part;
  const first = (span.start - timeline.start) / part; // where the left edge is, in parts
  for (let x = 0; x < width; ) {
    const from = first + x * perPixel;
    // As far as the part goes, or a pixel of several.
    const next = Math.min(width, Math.max(x + 1, (Math.floor(from + 1e-6) + 1 - first) / perPixel));
    const to = first + next * perPixel;
    let most = 0;
    for (let bin = Math.max(0, Math.floor(from + 1e-6)); bin < Math.min(covered.length, Math.ceil(to - 1e-6)); bin++)
      most = Math.max(most, covered[bin]);
    if (most) {
      ctx.fillStyle = tone.fill[Math.max(1, Math.round((most / 255) * (FULL - 2)))];
      ctx.fillRect(left + x, top, next - x, height);
    }
    x = next;
  }
}

const widths = new Map<string, number>(); // of a text, px, in the font of slices

function wide(ctx: CanvasRenderingContext2D, text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size > 20_000) widths.clear();
    widths.set(text, (width = ctx.measureText(text).width));
  }
  return width;
}

/** Return a name as it fits: whole, on two lines, as its number alone where it is a step's, or its beginning. */
function written(ctx: CanvasRenderingContext2D, name: string, width: number, kind: string, height: number): string[] {
  const text = name.length > 160 ? name.slice(0, 160) : name;
  const whole = wide(ctx, text);
  if (whole <= width) return [text];
  if (kind === "step") {
    const number = /\d+$/.exec(text)?.[0] ?? "";
    return number && wide(ctx, number) <= width ? [number] : [];
  }
  if (height >= 30) {
    // The blank nearest the middle, so that both lines are about as long.
    const blanks = [...text.matchAll(/ /g)].map((blank) => blank.index);
    const at = blanks.sort((a, b) => Math.abs(a - text.length / 2) - Math.abs(b - text.length / 2))[0] ?? -1;
    const lines = [text.slice(0, at), text.slice(at + 1)];
    if (at > 0 && lines.every((line) => wide(ctx, line) <= width)) return lines;
  }
  const core = coreOf(text);
  if (core !== text) return written(ctx, core, width, kind, height);
  const letters = Math.floor(((width - 6) / whole) * text.length);
  return letters >= (kind === "idle" ? 9 : 5) ? [`${text.slice(0, letters).trimEnd()}…`] : [];
}

/** Return what tells a name from its neighbours: "forward" of "nn/module.py(12): forward", "add" of "aten::add". */
function coreOf(name: string): string {
  return name.replace(/^.*\.py\(\d+\): (?=.)/, "").replace(/^(?:void )?(?:\w+::)+(?=\w)/, "").replace(/^void (?=.)/, "");
}
