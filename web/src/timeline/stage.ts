// The canvas of one timeline: what it shows, drawn when that changes, and how long the drawing takes.
import type { Drawn, Lane, Timeline } from "../data";
import { saidOf } from "./causes";
import { DEEP, layout, ordered, RULER, type Layout, type Placed, type Rows } from "./layout";
import { mini, MINI } from "./minimap";
import { marks, rulerOf, titles } from "./marks";
import { rows } from "./paint";
import { palette, type Palette } from "./palette";
import { sliceAt, type Row } from "./rows";
import { between, inside, same, type Span } from "./span";

export interface Picked {
  row: Row;
  at: number;
}

export interface Band extends Span {
  kind: "flash" | "select";
  until: number; // performance.now() when it is gone
}

const KEPT = 600;
const MOST = 16e6; // px of a canvas: phones draw nothing on a larger one
const HEADER = 56; // px at the top of the window that the page's header covers
const frames: number[] = []; // script time of the last frames, ms: for tests
(window as unknown as { whyidle: object }).whyidle = { frames };

export const NARROW = 620; // px: no room for titles beside the lanes
const GUTTER = 162;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Stage {
  readonly whole: Span;
  span: Span;
  plan!: Layout;
  colors: Palette;
  left = 0;
  width = 600; // px of time
  picked: Picked | null = null;
  hovered: Picked | null = null;
  names: Uint8Array | null = null;
  cause: string | null = null;
  band: Band | null = null;
  onSpan: (span: Span) => void = () => {};
  told: (span: Span) => void = () => {}; // of every change of the span, whoever made it
  onPlan: (plan: Layout) => void = () => {};
  onPick: (picked: Picked | null) => void = () => {};
  private readonly lanes: Rows[];
  private open = new Set<Lane>();
  private all = false;
  private waiting = 0;
  private moving: { from: Span; to: Span; since: number } | null = null;
  private paper = false;

  constructor(
    readonly drawn: Drawn,
    readonly timeline: Timeline,
    readonly canvas: HTMLCanvasElement,
    readonly strip: HTMLCanvasElement,
  ) {
    this.whole = { start: timeline.start, end: Math.max(timeline.end, timeline.start + 1) };
    this.span = this.whole;
    this.lanes = ordered(timeline.lanes);
    this.colors = palette(drawn);
    this.resize();
  }

  /** Rows in the order in which they stand, as far as they are shown. */
  get placed(): Placed[] {
    return this.plan.strips.flatMap((strip) => strip.rows);
  }

  get every(): Row[] {
    return this.lanes.flatMap((lane) => lane.rows);
  }

  resize(): void {
    const wide = this.canvas.parentElement!.clientWidth || 600;
    const beside = wide >= NARROW;
    this.left = beside ? GUTTER : 0;
    this.width = Math.max(wide - this.left, 50);
    this.plan = layout(this.lanes, this.open, this.all, beside ? 0 : 16);
    this.canvas.style.height = `${this.plan.height}px`;
    this.onPlan(this.plan);
    this.redraw();
  }

  unfold(lane: Lane): void {
    if (!this.open.delete(lane)) this.open.add(lane);
    this.resize();
  }

  showAll(all: boolean): void {
    this.all = all;
    this.resize();
  }

  /** Bring a row into sight: out of what is folded, and into the window. */
  reveal(row: Row): void {
    const find = (): Placed | undefined => this.placed.find((placed) => placed.row === row);
    if (!find()) {
      this.all ||= !this.plan.strips.some(({ lane }) => lane === row.lane);
      if (row.depth >= DEEP) this.open.add(row.lane);
      this.resize();
    }
    const { top, height } = find()!;
    const y = this.canvas.getBoundingClientRect().top + top;
    if (y < HEADER || y + height > innerHeight) scrollBy({ top: y - innerHeight / 2 });
  }

  repaint(): void {
    this.colors = palette(this.drawn, this.paper);
    this.redraw();
  }

  /** Make the canvas ready for paper, or for the screen again, at once: a printer does not wait for a frame. */
  print(paper: boolean): void {
    this.paper = paper;
    this.colors = palette(this.drawn, paper);
    this.paint();
  }

  /** Show a span: at once, or as a movement that an eye can follow; `free` also what lies beyond the recording. */
  show(span: Span, smooth = false, free = false): void {
    const to = free ? span : inside(span, this.whole);
    if (smooth && !calm.matches) this.moving = { from: this.span, to, since: performance.now() };
    else {
      this.moving = null;
      if (same(to, this.span)) return;
      this.span = to;
      this.told(to);
      this.onSpan(to);
    }
    this.redraw();
  }

  /** Where the movement ends that is under way. */
  get target(): Span {
    return this.moving?.to ?? this.span;
  }

  mark(kind: Band["kind"], span: Span | null, ms = Infinity): void {
    this.band = span && { ...span, kind, until: performance.now() + ms };
    this.redraw();
  }

  time(x: number): number {
    return this.span.start + ((x - this.left) / this.width) * (this.span.end - this.span.start);
  }

  x(time: number): number {
    return this.left + ((time - this.span.start) / (this.span.end - this.span.start)) * this.width;
  }

  /** The slice under a point of the canvas, or one that is a few px away. */
  hit(x: number, y: number, near = 3): Picked | null {
    if (x < this.left) return null;
    const placed = this.placed.find(({ top, height }) => y >= top - 1 && y < top + height + 1);
    if (!placed) return null;
    const at = sliceAt(placed.row, this.time(x), (near / this.width) * (this.span.end - this.span.start));
    return at < 0 ? null : { row: placed.row, at };
  }

  /** The lane under a point that has slices left out there, and the share of time that all of them cover; else null. */
  leftOut(x: number, y: number): { lane: Lane; share: number } | null {
    const strip = this.plan.strips.find(({ top, rows, lane }) =>
      lane.covered.length > 0 && y >= top && y < top + (rows[0]?.height ?? 15));
    if (!strip || x < this.left) return null;
    const { covered } = strip.lane;
    const part = (this.whole.end - this.whole.start) / covered.length;
    const share = (covered[Math.floor((this.time(x) - this.whole.start) / part)] ?? 0) / 255;
    return share > 0 ? { lane: strip.lane, share } : null;
  }

  redraw(): void {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.move();
      const before = performance.now();
      this.paint();
      frames.push(performance.now() - before);
      if (frames.length > KEPT) frames.shift();
    });
  }

  end(): void {
    cancelAnimationFrame(this.waiting);
  }

  private move(): void {
    if (!this.moving) return;
    const { from, to, since } = this.moving;
    const share = Math.min(1, (performance.now() - since) / 260);
    this.span = share < 1 ? between(from, to, 1 - Math.pow(1 - share, 3)) : to;
    if (share === 1) this.moving = null;
    this.told(this.span);
    this.onSpan(this.span);
    if (this.moving) this.redraw();
  }

  private paint(): void {
    const ctx = this.fresh(this.canvas, this.left + this.width, this.plan.height);
    const scene = {
      drawn: this.drawn,
      timeline: this.timeline,
      layout: this.plan,
      colors: this.colors,
      span: this.span,
      left: this.left,
      width: this.width,
      names: this.names,
      cause: this.cause,
      said: (kind: string, name: string) => saidOf(this.drawn, kind, name),
    };
    rulerOf(ctx, scene, RULER);
    rows(ctx, scene);
    marks(ctx, this);
    if (this.paper) titles(ctx, this);
    mini(this.fresh(this.strip, this.left + this.width, MINI), this, this.sharp);
    if (this.band && this.band.until !== Infinity) {
      if (performance.now() < this.band.until) this.redraw();
      else this.mark(this.band.kind, null);
    }
  }

  private get sharp(): number {
    const wish = this.paper ? 3 : Math.min(window.devicePixelRatio || 1, 3);
    return Math.min(wish, Math.sqrt(MOST / ((this.left + this.width) * this.plan.height)));
  }

  /** Return a canvas that is empty and as sharp as the screen, or paper. */
  private fresh(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
    const { sharp } = this;
    const [wide, high] = [Math.round(width * sharp), Math.round(height * sharp)];
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
    }
    const ctx = canvas.getContext("2d")!;
    ctx.setTransform(sharp, 0, 0, sharp, 0, 0);
    ctx.fillStyle = this.colors.ground;
    ctx.fillRect(0, 0, width, height);
    ctx.font = `11px ${this.colors.font}`;
    ctx.textBaseline = "middle";
    ctx.direction = "ltr";
    return ctx;
  }
}
