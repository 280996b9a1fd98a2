// What the timeline computes, without a browser: `npm test`, and tests/render/html/test_web.py.
import assert from "node:assert/strict";
import test from "node:test";

import { momentOf } from "../src/charts/moment";
import type { Chart, Drawn, Lane, LaneKind, Timeline } from "../src/data";
import { idleShare, legend } from "../src/timeline/about";
import { leftOut } from "../src/timeline/leftOut";
import { alike, countAlike, numberOf, stepAt, stepsOf, timeAt } from "../src/timeline/align";
import { meaningOf, saidOf, slugOf } from "../src/timeline/causes";
import { placeIn } from "../src/timeline/hash";
import { layout, ordered } from "../src/timeline/layout";
import { rulerOf } from "../src/timeline/marks";
import { rows, type Scene } from "../src/timeline/paint";
import { above, rowsOf, sliceAt, taken } from "../src/timeline/rows";
import { ruler } from "../src/timeline/ruler";
import { find } from "../src/timeline/search";
import { around, between, inside, SHORTEST, zoomed } from "../src/timeline/span";
import { traceEvents } from "../src/timeline/traceEvents";
import { duration, moment, percent } from "../src/timeline/words";

function lane(kind: LaneKind, slices: [start: number, end: number, name?: number, depth?: number][]): Lane {
  const column = (at: 0 | 1 | 2 | 3): number[] => slices.map((slice) => slice[at] ?? 0);
  return {
    title: kind, kind, count: slices.length, start: Float64Array.from(column(0)), end: Float64Array.from(column(1)),
    name: Uint32Array.from(column(2)), depth: Uint8Array.from(column(3)), covered: new Uint8Array(),
  };
}

function timeline(lanes: Lane[], names: string[], end = 1000): Timeline {
  return { title: "rank 3", file: "a.json", rank: 3, start: 0, end, window: [0, end], names, lanes, note: "" };
}

test("times have three digits and a unit, as in the terminal", () => {
  const said = { 850: "850 ns", 12_340: "12.3 µs", 176e6: "176 ms", 1.24e9: "1.24 s", 9000e9: "2.5 h", 999_600: "1 ms" };
  for (const [ns, text] of Object.entries(said)) assert.equal(duration(Number(ns)), text);
  assert.equal(duration(0), "0 s");
  assert.equal(moment(1_234_567_890, 1e6), "1.234568 s");
  assert.deepEqual([0, 0.0001, 0.034, 0.346].map(percent), ["0%", "<0.1%", "3.4%", "35%"]);
});

test("slices are told apart by depth, and found by bisection", () => {
  const [outer, inner] = rowsOf(lane("thread", [[0, 100, 0, 0], [10, 20, 1, 1], [30, 90, 2, 1], [200, 300, 0, 0]]));
  assert.deepEqual([...outer.start], [0, 200]);
  assert.deepEqual([...inner.end], [20, 90]);
  assert.equal(above(outer.reach, 99), 0);
  assert.equal(above(outer.reach, 100), 1);
  assert.equal(sliceAt(inner, 50, 1), 1);
  assert.equal(sliceAt(inner, 25, 1), -1);
  assert.equal(sliceAt(inner, 25, 6), 1); // of two that are near, the longer
  assert.equal(taken(outer, 50, 250), 100);
});

test("a long slice is found although shorter ones began after it", () => {
  const [row] = rowsOf(lane("stream", [[0, 1000], [10, 20], [30, 40]]));
  assert.equal(above(row.reach, 500), 0);
  assert.equal(sliceAt(row, 500, 1), 0);
  assert.equal(sliceAt(row, 15, 1), 1);
});

test("a span stays inside of the recording, and about its moment when zoomed", () => {
  const whole = { start: 0, end: 10_000 };
  assert.deepEqual(inside({ start: -500, end: 500 }, whole), { start: 0, end: 1000 });
  assert.deepEqual(inside({ start: -500, end: 50_000 }, whole), whole);
  const closer = zoomed({ start: 0, end: 1000 }, 250, 0.5);
  assert.deepEqual(closer, { start: 125, end: 625 });
  const jump = around(4000, 5000, whole);
  assert.ok(jump.start < 4000 && jump.end > 5000);
  assert.ok(around(4000, 4000, whole).end > around(4000, 4000, whole).start);
  for (const share of [0, 0.5, 1]) assert.ok(between(whole, jump, share).end > between(whole, jump, share).start);
  assert.deepEqual(between(whole, jump, 1), jump);
});

test("at the limit a zoom moves nothing", () => {
  const near = { start: 1e15, end: 1e15 + SHORTEST };
  assert.deepEqual(zoomed(near, 1e15 + 10, 0.5), near);
  const closer = zoomed({ start: 0, end: 2 * SHORTEST }, 0, 0.1);
  assert.deepEqual(closer, { start: 0, end: SHORTEST });
});

test("the ruler has round times in units that fit", () => {
  assert.deepEqual(ruler({ start: 0, end: 1e9 }, 1000).ticks.slice(0, 2).map((tick) => tick.label), ["0.0 s", "0.1 s"]);
  assert.deepEqual(ruler({ start: 0, end: 9e6 }, 500).ticks[1].label, "2 ms");
  const near = ruler({ start: 1_234_567_000, end: 1_234_577_000 }, 500);
  assert.equal(near.anchor, "1.234 s");
  assert.equal(near.ticks[0].label, "+568 µs");
  for (const length of [60, 999, 12_345, 7e5, 3e8, 5e11]) {
    const { ticks } = ruler({ start: 77e9, end: 77e9 + length }, 900);
    assert.ok(ticks.length <= 10, `${length}: ${ticks.length}`);
    assert.equal(new Set(ticks.map((tick) => tick.label)).size, ticks.length, `${length}`);
  }
});

interface Drawing {
  ctx: CanvasRenderingContext2D;
  texts: [text: string, x: number][];
  boxes: [fill: string, x: number, width: number][];
}

/** A canvas that remembers. */
function drawing(): Drawing {
  const made: Drawing = { ctx: null!, texts: [], boxes: [] };
  const ctx = {
    fillStyle: "",
    measureText: (text: string) => ({ width: 6 * text.length }),
    fillText: (text: string, x: number) => made.texts.push([text, x]),
    fillRect: (x: number, _: number, width: number) => made.boxes.push([ctx.fillStyle, x, width]),
  };
  made.ctx = ctx as unknown as CanvasRenderingContext2D;
  return made;
}

function scene(of: Timeline, start: number, end: number, width = 500): Scene {
  const tones = Array.from({ length: 9 }, () => ({ fill: Array.from({ length: 9 }, (_, step) => `${step}`), ink: "" }));
  return {
    drawn: DRAWN, timeline: of, layout: layout(ordered(of.lanes), new Set(), false, 0), colors: { tones, soft: "", line: "" },
    span: { start, end }, left: 0, width, names: null, cause: null, said: (_, name) => name,
  } as unknown as Scene;
}

const DRAWN = { causes: { data_wait: "waiting-for-data" }, meanings: { "waiting-for-data": "no batch yet" }, phases: {} } as unknown as Drawn;

test("what times with a plus count from stands at the ruler, and no tick under it", () => {
  const { ctx, texts } = drawing();
  rulerOf(ctx, scene(timeline([], [], 2e9), 1_234_567_000, 1_234_577_000), 24);
  assert.deepEqual(texts[0], ["1.234 s", 0]);
  assert.ok(texts.length > 2);
  for (const [text, x] of texts.slice(1)) assert.ok(text.startsWith("+") && x > 50, text);
});

test("what is left out is drawn where it is, however near one looks", () => {
  const left = { ...lane("stream", [[0, 1]]), covered: Uint8Array.of(0, 255, 0, 128) };
  const { ctx, boxes } = drawing();
  rows(ctx, scene(timeline([left], ["k"]), 200, 900, 700)); // of parts of 250 each, so 1 px is 1 ns
  const shown = boxes.map(([fill, x, width]) => [fill, Math.round(x), Math.round(width)]);
  assert.deepEqual(shown, [["6", 50, 250], ["3", 550, 150]]);
  const far = drawing();
  rows(far.ctx, scene(timeline([left], ["k"]), 0, 1000, 2)); // a pixel of two parts has the most of them
  assert.deepEqual(far.boxes.slice(0, 2), [["6", 0, 1], ["3", 1, 1]]);
});

test("a name from a file is no property of a table", () => {
  for (const name of ["constructor", "__proto__", "toString", "hasOwnProperty"]) {
    assert.deepEqual(["idle", "phase", "stream"].map((kind) => saidOf(DRAWN, kind, name)), [name, name, name]);
    assert.deepEqual(["idle", "phase"].map((kind) => slugOf(DRAWN, kind, name)), ["unknown", "other"]);
    assert.equal(meaningOf(DRAWN, name), "");
    const made = timeline([lane("stream", [[0, 10, 0]])], [name]);
    assert.equal(find(made, made.lanes.flatMap(rowsOf), name, (one) => saidOf(DRAWN, "idle", one)).hits.length, 1);
  }
  assert.equal(saidOf(DRAWN, "idle", "data_wait"), "waiting for data");
  assert.equal(meaningOf(DRAWN, "data_wait"), "no batch yet");
});

test("steps of the same number stand at the same place", () => {
  const names = ["ProfilerStep#4", "ProfilerStep#5", "step 6"];
  const slow = timeline([lane("step", [[0, 100, 0], [100, 300, 1], [300, 400, 2]])], names);
  const fast = timeline([lane("step", [[50, 60, 1], [60, 80, 2]])], names);
  assert.equal(numberOf("ProfilerStep#12"), 12);
  assert.equal(stepAt(stepsOf(slow)!, 200), 5.5);
  assert.equal(timeAt(stepsOf(fast)!, 5.5), 55);
  assert.deepEqual(alike(slow, fast, { start: 100, end: 300 }), { start: 50, end: 60 });
  assert.deepEqual(alike(slow, fast, { start: 100, end: 300 }, true), { start: 50, end: 250 });
  const log = timeline([lane("step", [[0, 100, 0]]), lane("phase", [[0, 50, 0]])], ["step 5"]);
  assert.deepEqual([countAlike(slow, fast), countAlike(slow, log), countAlike(log, log)], [true, false, true]);
  const none = timeline([lane("stream", [[0, 1]])], ["k"], 500);
  assert.equal(stepsOf(none), null);
  assert.deepEqual(alike(slow, none, { start: 100, end: 300 }), { start: 50, end: 150 });
});

test("a share is of what was judged, which steps do not tell", () => {
  const lanes = [lane("step", [[400, 500, 0]]), lane("idle", [[0, 200, 1], [400, 450, 1], [900, 1000, 1]])];
  const made = { ...timeline(lanes, ["step 1", "data_wait"]), window: [100, 900] as [number, number] };
  const rows = lanes[1] ? rowsOf(lanes[1]) : [];
  assert.equal(idleShare(made, rows, made), 150 / 800);
  assert.equal(idleShare(made, rows, { start: 0, end: 200 }), 1);
  assert.equal(idleShare(made, rows, { start: 920, end: 1000 }), null);
});

test("what is too short to be drawn counts as idle time all the same", () => {
  const idle = lane("idle", [[0, 100, 0], [500, 600, 0]]);
  idle.covered = Uint8Array.from([255, 0, 127.5, 255]); // of 250 ns each: 250, 0, 124.5, 250
  const made = timeline([idle], ["data_wait"]);
  const rows = rowsOf(idle);
  assert.deepEqual([...leftOut(made, idle)].map(Math.round), [150, 0, 25, 250]);
  assert.ok(Math.abs(idleShare(made, rows, made)! - (200 + 150 + 24.5 + 250) / 1000) < 1e-3);
  assert.ok(Math.abs(idleShare(made, rows, { start: 125, end: 250 })! - 75 / 125) < 1e-3);
  const drawn = { timelines: [made], charts: [], causes: { data_wait: "waiting-for-data" }, meanings: {} };
  assert.deepEqual(legend(drawn, made, rows, made).map(({ label, share }) => [label, Math.round(share * 100)]),
    [["waiting for data", 20], ["too short to be drawn", 42]]);
});

test("a chart of steps leads to the timeline that it counts, or nowhere", () => {
  const steps = [timeline([lane("step", [[0, 10, 0]])], ["step 4"]), timeline([lane("step", [[50, 60, 0]])], ["step 4"])];
  const drawn = { timelines: steps, charts: [], causes: {}, meanings: {} };
  const chart = { title: "", unit: "ms", axis: "step", x: [4], lines: [], marks: [], group: "", clock: "", note: "",
    upper: null, timeline: 1 } as Chart;
  assert.deepEqual(momentOf(chart, 4, drawn), { timeline: 1, start: 50, end: 60, label: "step 4" });
  assert.equal(momentOf(chart, 5, drawn), null);
  assert.equal(momentOf({ ...chart, timeline: null }, 4, drawn), null);
});

test("a search counts what it finds", () => {
  const made = timeline([lane("stream", [[0, 10, 0], [20, 40, 1], [50, 60, 0]])], ["gemm", "Memcpy HtoD"]);
  const found = find(made, made.lanes.flatMap(rowsOf), " GEMM ", (name) => name);
  assert.deepEqual([found.hits.length, found.total, [...found.names]], [2, 20, [1, 0]]);
});

test("the slices in view leave as Chrome-trace JSON", () => {
  const made = timeline([lane("stream", [[0, 1500, 0], [2000, 4500, 1], [9000, 9500, 0]])], ["a", '</script>"'], 10_000);
  const { traceEvents: events } = JSON.parse(traceEvents(made, { start: 1000, end: 5000 }));
  const slices = events.filter((event: { ph: string }) => event.ph === "X");
  assert.deepEqual(slices.map((e: { name: string; ts: number; dur: number }) => [e.name, e.ts, e.dur]), [
    ["a", 0, 1.5], ['</script>"', 2, 2.5],
  ]);
  assert.deepEqual(events.find((e: { name: string }) => e.name === "thread_name").args, { name: "stream" });
  assert.equal(slices[0].pid, 3);
});

test("they leave as torch.profiler would have written them, but for lanes that are not whole", () => {
  const names = ["gemm", "Memcpy HtoD (Pageable -> Device)", "aten::add", "train.py(12): step", "cudaLaunchKernel", "step 7", "data_wait"];
  const lanes = [
    lane("step", [[0, 9, 5]]), lane("idle", [[0, 9, 6]]), { ...lane("stream", [[0, 1, 0], [2, 3, 1]]), title: "GPU 1 stream 7" },
    lane("thread", [[0, 1, 2], [2, 3, 3], [4, 5, 4]]), { ...lane("stream", [[0, 1, 0]]), covered: Uint8Array.of(9) },
  ];
  const { traceEvents: events } = JSON.parse(traceEvents(timeline(lanes, names), { start: 0, end: 10 }));
  const slices = events.filter((event: { ph: string }) => event.ph === "X");
  assert.deepEqual(slices.map((event: { name: string; cat: string }) => [event.name, event.cat]), [
    ["ProfilerStep#7", "user_annotation"], ["data_wait", "idle"], ["gemm", "kernel"], [names[1], "gpu_memcpy"],
    [names[2], "cpu_op"], [names[3], "python_function"], [names[4], "cuda_runtime"], ["gemm", "stream"],
  ]);
  assert.deepEqual(slices[2].args, { device: 1, stream: 7 });
});

test("lanes stand in their order, and what is deep or many is folded", () => {
  const deep = lane("thread", Array.from({ length: 9 }, (_, depth) => [depth, 100 - depth, 0, depth]));
  const lanes = [deep, lane("thread", [[0, 1]]), lane("thread", [[0, 1]]), lane("thread", [[0, 1]]),
    lane("stream", [[0, 1]]), lane("idle", [[0, 1]]), lane("stream", [])];
  const placed = ordered(lanes);
  const first = layout(placed, new Set(), false, 0);
  assert.deepEqual(first.strips.map((strip) => strip.lane.kind), ["idle", "stream", "thread", "thread", "thread"]);
  assert.deepEqual([first.hidden, first.strips[2].rows.length, first.strips[2].folded], [1, 4, 5]);
  const open = layout(placed, new Set([deep]), true, 16);
  assert.deepEqual([open.strips.length, open.strips[2].rows.length], [6, 9]);
  for (const { strips } of [first, open])
    strips.slice(1).forEach((strip, i) => assert.ok(strip.top >= strips[i].top + strips[i].height));
});

test("a place in the address is read, and nothing else", () => {
  assert.deepEqual(placeIn("#t=2:100-200"), { timeline: 2, start: 100, end: 200 });
  const far = "9".repeat(400);
  for (const hash of ["", "#timeline", "#t=1:5-5", "#t=1:9-5", "#t=x:1-2", `#t=0:-${far}-${far}`, "#t=0:1-1e400"]) assert.equal(placeIn(hash), null);
});
