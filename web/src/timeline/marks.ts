// What stands around and over the slices: the ruler, lines between steps, what is picked, what was jumped to.
import type { Scene } from "./paint";
import { ruler } from "./ruler";
import { above } from "./rows";
import { meet } from "./span";
import type { Picked, Stage } from "./stage";

/** Draw the time axis at the top, and the lines of steps behind everything. */
export function rulerOf(ctx: CanvasRenderingContext2D, scene: Scene, height: number): void {
  const { span, left, width, colors, layout } = scene;
  const made = ruler(span, width, width < 500 ? 84 : 108);
  const x = (time: number): number => left + ((time - span.start) / (span.end - span.start)) * width;
  ctx.fillStyle = colors.line;
  ctx.fillRect(left, height - 1, width, 1);
  ctx.fillStyle = colors.soft;
  if (made.anchor) ctx.fillText(made.anchor, 0, height / 2 - 2); // what "+568 µs" counts from
  const taken = made.anchor ? ctx.measureText(made.anchor).width + 8 : 0;
  for (const tick of made.ticks) {
    const at = Math.round(x(tick.at));
    if (at < taken) continue;
    ctx.fillStyle = colors.line;
    ctx.fillRect(at, height - 7, 1, 7);
    const room = left + width - at - 6;
    ctx.fillStyle = colors.soft;
    if (ctx.measureText(tick.label).width <= room) ctx.fillText(tick.label, at + 4, height / 2 - 2);
  }
  const lane = scene.timeline.lanes.find((one) => one.kind === "step" && one.start.length);
  if (!lane) return;
  const first = above(lane.start, span.start);
  const last = above(lane.start, span.end);
  if (last - first > width / 20) return; // lines that crowd say nothing
  ctx.fillStyle = colors.line;
  for (let i = first; i < last; i++) ctx.fillRect(Math.round(x(lane.start[i])), height, 1, layout.height - height);
}

/** Draw over the slices: the band of a jump or of a range being chosen, what is under the pointer, what is picked. */
export function marks(ctx: CanvasRenderingContext2D, stage: Stage): void {
  const { band, colors, plan, left, width } = stage;
  if (band && meet(band, stage.span)) {
    const from = Math.max(left, stage.x(band.start));
    const to = Math.min(left + width, Math.max(stage.x(band.end), from + 2));
    const rest = band.kind === "flash" ? Math.max(0, Math.min(1, (band.until - performance.now()) / 900)) : 1;
    ctx.globalAlpha = 0.2 * rest;
    ctx.fillStyle = colors.accent;
    ctx.fillRect(from, 0, to - from, plan.height);
    ctx.globalAlpha = rest;
    ctx.fillRect(from, 0, 1, plan.height);
    ctx.fillRect(to - 1, 0, 1, plan.height);
    ctx.globalAlpha = 1;
  }
  if (stage.hovered) outline(ctx, stage, stage.hovered, colors.soft, 1);
  if (stage.picked) outline(ctx, stage, stage.picked, colors.text, 2);
}

function outline(ctx: CanvasRenderingContext2D, stage: Stage, picked: Picked, color: string, thick: number): void {
  const placed = stage.placed.find(({ row }) => row === picked.row);
  const { start, end } = picked.row;
  if (!placed || end[picked.at] < stage.span.start || start[picked.at] > stage.span.end) return;
  const from = Math.max(stage.x(start[picked.at]), stage.left - 4);
  const to = Math.min(Math.max(stage.x(end[picked.at]), from + 3), stage.left + stage.width + 4);
  ctx.save();
  ctx.beginPath();
  ctx.rect(stage.left, 0, stage.width, stage.plan.height);
  ctx.clip();
  ctx.strokeStyle = color;
  ctx.lineWidth = thick;
  ctx.strokeRect(from - 0.5, placed.top - 0.5, to - from + 1, placed.height + 1);
  ctx.restore();
}

/** Draw the titles of lanes, which stand beside the canvas on a screen. */
export function titles(ctx: CanvasRenderingContext2D, stage: Stage): void {
  ctx.fillStyle = stage.colors.soft;
  for (const { lane, top, rows } of stage.plan.strips) {
    const middle = stage.plan.caption ? top - 8 : top + (rows[0]?.height ?? 15) / 2;
    ctx.fillText(lane.title.slice(0, 24), 0, middle);
  }
}
