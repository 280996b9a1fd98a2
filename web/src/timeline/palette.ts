// The colours of the page's theme for the canvas: each in steps from faint to full, made once.
import type { Drawn, LaneKind, Timeline } from "../data";
import { slugOf } from "./causes";

export const FULL = 8; // steps of a colour; 0 is the faintest
type Rgb = [number, number, number];

export interface Palette {
  ground: string;
  text: string;
  soft: string;
  line: string;
  raised: string;
  accent: string;
  font: string;
  tones: Tone[]; // in the order of toneOrder()
}

export interface Tone {
  fill: string[]; // by step
  ink: string; // of text on the full colour
}

// Tones beside those of causes: copies stand back from kernels, the host behind both.
const NEUTRAL: Record<string, [of: string, share: number]> = {
  copy: ["--c-busy", 0.5],
  host: ["--soft", 0.34],
  "host-odd": ["--soft", 0.46],
  step: ["--soft", 0.16],
  "step-odd": ["--soft", 0.28],
};

/** Read the theme; `light` as on paper, whatever the screen has. */
export function palette(drawn: Drawn, light = false): Palette {
  const root = document.documentElement;
  const theme = root.dataset.theme;
  if (light) root.dataset.theme = "light";
  const style = getComputedStyle(root);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  const ground = rgb(read("--ground") || "#ffffff");
  const tones = toneOrder(drawn).map((name) => {
    if (!(name in NEUTRAL)) return tone(rgb(read(`--c-${name}`) || "#9a9a9a"), ground);
    const [of, share] = NEUTRAL[name];
    return tone(mix(ground, rgb(read(of) || "#777777"), share), ground);
  });
  const made: Palette = {
    ground: css(ground),
    text: read("--text"),
    soft: read("--soft"),
    line: read("--line"),
    raised: read("--raised"),
    accent: read("--accent"),
    font: style.fontFamily,
    tones,
  };
  if (light) {
    if (theme === undefined) delete root.dataset.theme;
    else root.dataset.theme = theme;
  }
  return made;
}

function tone(full: Rgb, ground: Rgb): Tone {
  const fill = Array.from({ length: FULL + 1 }, (_, step) => css(mix(ground, full, 0.14 + (0.86 * step) / FULL)));
  const [white, black] = [1.05 / (luminance(full) + 0.05), (luminance(full) + 0.05) / 0.058];
  return { fill, ink: white >= 4 || white > black ? "#ffffff" : "#14171c" };
}

function luminance(color: Rgb): number {
  const [r, g, b] = color.map((part) => Math.pow(part / 255, 2.2));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => Math.round(a[i] + (b[i] - a[i]) * share)) as Rgb;
}

function css(color: Rgb): string {
  return `rgb(${color.join(",")})`;
}

let reader: CanvasRenderingContext2D | null = null;

/** Read any opaque CSS colour: a canvas gives it back as #rrggbb. */
function rgb(color: string): Rgb {
  reader ??= document.createElement("canvas").getContext("2d");
  reader!.fillStyle = "#808080";
  reader!.fillStyle = color;
  const hex = reader!.fillStyle as string;
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb;
}

/** The order in which tones are numbered: those of causes, then the neutral ones. */
export function toneOrder(drawn: Drawn): string[] {
  return [...new Set([...Object.values(drawn.causes), "busy", "other"]), ...Object.keys(NEUTRAL)];
}

export type Toned = [even: Uint8Array, odd: Uint8Array]; // of each name of a timeline, for every other row or step
const toned = new WeakMap<Timeline, Map<LaneKind, Toned>>(); // lanes of a kind share them: there are thousands of names

/** Return the number of the tone of each slice name in a lane of this kind. */
export function toneNumbers(drawn: Drawn, timeline: Timeline, kind: LaneKind): Toned {
  let kinds = toned.get(timeline);
  if (!kinds) toned.set(timeline, (kinds = new Map()));
  let both = kinds.get(kind);
  if (!both) kinds.set(kind, (both = numbered(drawn, timeline, kind)));
  return both;
}

function numbered(drawn: Drawn, { names }: Timeline, kind: LaneKind): Toned {
  const number = new Map(toneOrder(drawn).map((name, at) => [name, at]));
  if (kind === "step" || kind === "thread") {
    const all = (name: string): Uint8Array => new Uint8Array(names.length).fill(number.get(name)!);
    return kind === "step" ? [all("step"), all("step-odd")] : [all("host"), all("host-odd")];
  }
  const every = Uint8Array.from(names, (text) =>
    number.get(kind === "stream" && /^mem(cpy|set)/i.test(text) ? "copy" : slugOf(drawn, kind, text)) ?? number.get("other")!);
  return [every, every];
}
