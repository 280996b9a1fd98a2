// The whole recording in a strip: idle time by cause, and a window over the part that is shown.
import { toneNames } from "./palette";
import type { Stage } from "./stage";

export const MINI = 34; // px high
const TOP = 5;
const HIGH = 24;

interface Bar {
  x: number;
  width: number;
  tones: [tone: string, share: number][]; // of the pixel, from below
}

interface Made {
  width: number;
  bars: Bar[];
}

const made = new WeakMap<Stage, Made>();

/** Draw the strip; what it shows of the recording is computed once for each width. */
export function mini(ctx: CanvasRenderingContext2D, stage: Stage): void {
  const { left, width, colors, whole, span } = stage;
  let strip = made.get(stage);
  if (!strip || strip.width !== width) made.set(stage, (strip = { width, bars: bars(stage) }));
  ctx.fillStyle = colors.raised;
  ctx.fillRect(left, TOP, width, HIGH);
  for (const bar of strip.bars) {
    let y = TOP + HIGH;
    for (const [name, share] of bar.tones) {
      const high = share * HIGH;
      ctx.fillStyle = (colors.tones.get(name) ?? colors.tones.get("other")!).fill[8];
      ctx.fillRect(left + bar.x, (y -= high), bar.width, high);
    }
  }
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

/** Return, for each pixel, which share of it is idle and why; of several devices the mean. Without idle time: the lane
 * of phases, of steps, or the first that there is. */
function bars(stage: Stage): Bar[] {
  const { timeline, width, whole } = stage;
  const kinds = ["idle", "phase", "stream", "step", "thread"];
  const kind = kinds.find((one) => timeline.lanes.some((lane) => lane.kind === one && lane.start.length));
  const lanes = timeline.lanes.filter((lane) => lane.kind === kind);
  const shares = Array.from({ length: Math.ceil(width) }, () => new Map<string, number>());
  const scale = width / (whole.end - whole.start);
  for (const lane of lanes) {
    const toneOf = toneNames(stage.drawn, timeline, lane);
    for (let i = 0; i < lane.start.length; i++) {
      if (lane.depth[i]) continue;
      const [from, to] = [(lane.start[i] - whole.start) * scale, (lane.end[i] - whole.start) * scale];
      const tone = toneOf(lane.name[i], i % 2 === 1);
      for (let x = Math.max(0, Math.floor(from)); x < Math.min(to, shares.length); x++) {
        const share = (Math.min(to, x + 1) - Math.max(from, x)) / lanes.length;
        if (share > 0) shares[x].set(tone, (shares[x].get(tone) ?? 0) + share);
      }
    }
  }
  return shares.map((tones, x) => ({ x, width: 1, tones: [...tones] }));
}
