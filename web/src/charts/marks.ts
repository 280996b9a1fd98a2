// What lies behind the lines of a chart: levels, numbers at the axes, steps as ticks, stretches as bands, moments as lines.
import type uPlot from "uplot";

import type { Chart, Mark } from "../data";
import { along, type Tick } from "./axes";
import { color } from "./colors";

export const LEFT = 44; // CSS pixels of the numbers at the y axis
export const BOTTOM = 26;
const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const SPACE = 64; // CSS pixels between numbers at the x axis
const FEW = 12; // moments that recur: more are short lines at the top, so that they do not hide the chart
const RUG = 8;
const CLOSEST = 3; // CSS pixels between ticks of steps: closer ones say nothing

/** Draw all that is not a line. */
export function drawBehind(u: uPlot, chart: Chart, levels: Tick[]): void {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.scale(ratio, ratio);
  ctx.font = FONT;
  ctx.textBaseline = "alphabetic";
  const width = u.bbox.width / ratio;
  const height = u.bbox.height / ratio;
  ctx.translate(u.bbox.left / ratio, u.bbox.top / ratio);
  drawMarks(u, chart, width, height);
  ctx.lineWidth = 1;
  ctx.setLineDash([]);
  for (const { value, label } of levels) {
    const y = Math.round(u.valToPos(value, "y")) + 0.5;
    ctx.strokeStyle = color("--line");
    line(ctx, 0, y, width, y);
    ctx.fillStyle = color("--soft");
    ctx.textAlign = "right";
    ctx.fillText(label, -8, y + 4);
  }
  drawNumbers(u, chart, width, height);
  ctx.restore();
}

function drawNumbers(u: uPlot, chart: Chart, width: number, height: number): void {
  const { ctx } = u;
  const shown = { low: u.scales.x.min!, high: u.scales.x.max! };
  ctx.fillStyle = color("--soft");
  let free = -Infinity;
  for (const { value, label } of along(shown, chart, Math.max(2, Math.min(8, Math.round(width / SPACE))))) {
    const x = u.valToPos(value, "x");
    const half = ctx.measureText(label).width / 2;
    const left = Math.max(0, Math.min(width - 2 * half, x - half));
    if (left < free) continue;
    ctx.textAlign = "left";
    ctx.fillText(label, left, height + 19);
    free = left + 2 * half + 8;
  }
}

function drawMarks(u: uPlot, chart: Chart, width: number, height: number): void {
  const { ctx } = u;
  let free = 0;
  const said = new Set<string>();
  const placed = placedMarks(u, chart, width);
  const crowded = placed.filter(({ mark }) => isRecurring(mark) && mark.start === mark.end).length > FEW;
  for (const { mark, from, to } of placed) {
    if (mark.kind === "step") {
      ctx.strokeStyle = color("--soft");
      ctx.lineWidth = 1;
      ctx.setLineDash([]);
      line(ctx, Math.round(from) + 0.5, height, Math.round(from) + 0.5, height + 5);
      continue;
    }
    if (mark.end > mark.start) {
      ctx.globalAlpha = 0.18;
      ctx.fillStyle = color(`--mark-${mark.kind}`);
      ctx.fillRect(from, 0, Math.max(1, to - from), height);
      ctx.globalAlpha = 1;
    } else {
      ctx.strokeStyle = color(`--mark-${mark.kind}`);
      ctx.lineWidth = 1.25;
      ctx.setLineDash(isRecurring(mark) ? [] : [4, 3]);
      ctx.globalAlpha = isRecurring(mark) ? 0.6 : 1;
      line(ctx, from, isRecurring(mark) ? 0 : -14, from, crowded && isRecurring(mark) ? RUG : height);
      ctx.globalAlpha = 1;
    }
    if (isRecurring(mark) || said.has(mark.label)) continue; // the legend names what recurs
    const room = ctx.measureText(mark.label).width;
    if (from < free || from + room + 4 > width) continue;
    ctx.fillStyle = color("--soft");
    ctx.textAlign = "left";
    ctx.fillText(mark.label, from + 4, -5);
    said.add(mark.label);
    free = from + room + 10;
  }
}

function isRecurring({ kind }: Mark): boolean {
  return kind === "checkpoint" || kind === "evaluation";
}

function placedMarks(u: uPlot, chart: Chart, width: number): { mark: Mark; from: number; to: number }[] {
  const out = chart.marks
    .map((mark) => ({ mark, from: u.valToPos(mark.start, "x"), to: u.valToPos(mark.end, "x") }))
    .filter(({ from, to }) => to >= 0 && from <= width)
    .map((placed) => ({ ...placed, from: Math.max(0, placed.from), to: Math.min(width, placed.to) }))
    .sort((a, b) => a.from - b.from);
  const steps = out.filter(({ mark }) => mark.kind === "step").length;
  return steps * CLOSEST > width ? out.filter(({ mark }) => mark.kind !== "step") : out;
}

function line(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
