// The whole recording in a strip: idle time by cause, and a window over the part that is shown.
import { leftOut } from "./leftOut";
import { FULL, toneNumbers, toneOrder } from "./palette";
import type { Stage } from "./stage";

export const MINI = 34; // px high
const TOP = 5;
const HIGH = 24;

interface Made {
  width: number;
  colors: object;
  sharp: number;
  picture: HTMLCanvasElement;
}

const made = new WeakMap<Stage, Made>();

/** Draw the strip; the recording in it is drawn once for each width and theme. */
export function mini(ctx: CanvasRenderingContext2D, stage: Stage, sharp: number): void {
  const { left, width, colors, whole, span } = stage;
  let strip = made.get(stage);
  if (!strip || strip.width !== width || strip.colors !== colors || strip.sharp !== sharp)
    made.set(stage, (strip = { width, colors, sharp, picture: picture(stage, sharp) }));
  ctx.drawImage(strip.picture, left, TOP, width, HIGH);
  const scale = width / (whole.end - whole.start);
  const from = left + (span.start - whole.start) * scale;
  const to = Math.max(left + (span.end - whole.start) * scale, from + 3);
  ctx.fillStyle = colors.ground;
  ctx.globalAlpha = 0.62;
  ctx.fillRect(left, TOP, from - left, HIGH);
  ctx.fillRect(to, TOP, left + width - to, HIGH);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(from + 0.75, TOP - 2.25, Math.max(to - from - 1.5, 1.5), HIGH + 4.5);
}

function picture(stage: Stage, sharp: number): HTMLCanvasElement {
  const { width, colors } = stage;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(HIGH * sharp);
  const ctx = canvas.getContext("2d")!;
  ctx.scale(sharp, sharp);
  ctx.fillStyle = colors.raised;
  ctx.fillRect(0, 0, width, HIGH);
  const shares = columns(stage);
  const y = new Float64Array(shares[0].length).fill(HIGH);
  shares.forEach((column, tone) => {
    ctx.fillStyle = colors.tones[tone].fill[FULL];
    column.forEach((share, x) => share && ctx.fillRect(x, (y[x] -= share * HIGH), 1, share * HIGH));
  });
  return canvas;
}

/** Return, for each tone and each pixel, which share of it is idle and so coloured; of several devices the mean. Without idle time: the lane
 * of phases, of steps, or the first that there is. */
function columns(stage: Stage): Float64Array[] {
  const { timeline, width, whole, drawn, colors } = stage;
  const kinds = ["idle", "phase", "stream", "step", "thread"];
  const kind = kinds.find((one) => timeline.lanes.some((lane) => lane.kind === one && lane.start.length));
  const lanes = timeline.lanes.filter((lane) => lane.kind === kind);
  const shares = colors.tones.map(() => new Float64Array(Math.ceil(width)));
  const scale = width / (whole.end - whole.start);
  for (const lane of lanes) {
    const [tones] = toneNumbers(drawn, timeline, lane.kind);
    const add = (start: number, end: number, tone: number, part: number): void => {
      const [from, to] = [(start - whole.start) * scale, (end - whole.start) * scale];
      const column = shares[tone];
      for (let x = Math.max(0, Math.floor(from)); x < Math.min(to, column.length); x++)
        column[x] += (Math.max(0, Math.min(to, x + 1) - Math.max(from, x)) / lanes.length) * part;
    };
    for (let i = 0; i < lane.start.length; i++) {
      if (lane.depth[i]) continue;
      add(lane.start[i], lane.end[i], tones[lane.name[i]], 1);
    }
    if (lane.kind === "thread") continue; // whose slices nest
    leftOut(timeline, lane).forEach((time, bin, { length }) => {
      const part = (timeline.end - timeline.start) / length;
      const start = timeline.start + bin * part;
      add(start, start + part, toneOrder(drawn).indexOf("other"), time / part);
    });
  }
  return shares;
}
