// What the page draws: written by src/whyidle/render/html/packing.py, which describes the format.

export type LaneKind = "step" | "idle" | "stream" | "thread" | "phase";

export interface Lane {
  title: string;
  kind: LaneKind;
  count: number; // slices of the recording; more than start.length where the shortest are left out
  start: Float64Array; // ns, as the recording counts
  end: Float64Array;
  name: Uint32Array; // index into Timeline.names
  depth: Uint8Array;
  covered: Uint8Array; // 0-255: what all slices cover of each of equal parts of the timeline; empty: nothing left out
}

export interface Timeline {
  title: string;
  file: string;
  rank: number | null;
  start: number; // ns
  end: number;
  window: [start: number, end: number]; // what was judged: shares are of it
  names: string[];
  lanes: Lane[];
  note: string;
}

export interface Line {
  label: string;
  y: (number | null)[];
  low: (number | null)[] | null;
  high: (number | null)[] | null;
}

export interface Mark {
  kind: "step" | "checkpoint" | "evaluation" | "shape" | "event";
  label: string;
  start: number;
  end: number;
}

export interface Chart {
  title: string;
  unit: string;
  axis: "s" | "step" | "step_time_s";
  x: number[];
  lines: Line[];
  marks: Mark[];
  group: string;
  clock: string;
  note: string;
  upper: number | null;
  timeline: number | null; // the one whose steps x counts
}

export interface Drawn {
  timelines: Timeline[];
  charts: Chart[];
  causes: Record<string, string>; // cause -> what follows "--c-" in the name of its colour
  meanings: Record<string, string>; // that -> a sentence on it
  phases: Record<string, [slug: string, said: string]>; // what a watched thread does -> its colour, and its name
}

interface PackedLane {
  title: string;
  kind: LaneKind;
  count: number;
  offset: number;
  slices: number;
  covered: number;
}

interface Packed {
  timelines: (Omit<Timeline, "lanes"> & { lanes: PackedLane[] })[];
  charts: Chart[];
  causes: Record<string, string>;
  meanings: Record<string, string>;
  phases: Record<string, [slug: string, said: string]>;
}

/** Read what stands in the page. */
export async function read(): Promise<Drawn> {
  const block = JSON.parse(document.getElementById("whyidle-drawn")!.textContent!) as { head: number; bytes: string };
  const bytes = await inflated(block.bytes);
  const packed = JSON.parse(new TextDecoder().decode(bytes.subarray(block.head))) as Packed;
  return {
    timelines: packed.timelines.map((timeline) => ({
      ...timeline,
      lanes: timeline.lanes.map((lane) => unpacked(lane, timeline.start, bytes)),
    })),
    charts: packed.charts,
    causes: packed.causes,
    meanings: packed.meanings,
    phases: packed.phases,
  };
}

async function inflated(base64: string): Promise<Uint8Array> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i); // ten times as fast as Uint8Array.from
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function unpacked(lane: PackedLane, zero: number, bytes: Uint8Array): Lane {
  const count = lane.slices;
  let at = lane.offset;
  function varint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
  /** Read a column, in either of its two forms, and hand on each number. */
  function column(take: (value: number, index: number) => void): void {
    const width = bytes[at++];
    for (let i = 0; i < count; i++) {
      if (!width) {
        take(varint(), i);
        continue;
      }
      let value = 0;
      for (let plane = width - 1; plane >= 0; plane--) value = value * 256 + bytes[at + plane * count + i];
      take(value, i);
    }
    at += width * count;
  }
  const start = new Float64Array(count);
  const end = new Float64Array(count);
  const name = new Uint32Array(count);
  let time = zero;
  column((step, i) => (start[i] = time += step));
  column((length, i) => (end[i] = start[i] + length));
  column((code, i) => (name[i] = code));
  const depth = bytes.slice(at, at + count);
  const covered = bytes.slice(at + count, at + count + lane.covered);
  return { title: lane.title, kind: lane.kind, count: lane.count, start, end, name, depth, covered };
}
