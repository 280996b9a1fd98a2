"""What the HTML report costs: bytes, CPU to make it, and in a browser time to read and to move its timeline.

    python bench/report.py [--events 10000,100000,1000000]

The trace of the demo, grown in time (grow.py) to about so many events, is judged, drawn and opened in Chromium. Beside
it, opened in the same run, a page as one would write it in an hour: every slice an object of JSON, all in view drawn at
each frame. Needs the `test` extra and a Chromium.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "bench")]

from playwright.sync_api import Browser, Page  # noqa: E402

import whyidle  # noqa: E402
import whyidle.picture as pictures  # noqa: E402
from grow import grow, split  # noqa: E402
from tests.browser.chromium import started  # noqa: E402
from tests.browser.conftest import found  # noqa: E402
from tests.browser.waiting import until  # noqa: E402
from whyidle.read import load  # noqa: E402

DEMO = ROOT / "src" / "whyidle" / "demo" / "before.json.gz"
LIMIT_CPU_S, LIMIT_FRAME_MS = 1.5, 16.0
# What scripts take in a frame: all listeners and callbacks of frames, from one frame to the next. The page's own count
# would not see what it forgot.
SPENT = """
(() => {
  let spent = 0;
  const frames = (window.measured = []);
  const timed = (call) => function (...given) {
    const before = performance.now();
    try { return call.apply(this, given); } finally { spent += performance.now() - before; }
  };
  const frame = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (call) => frame(timed(call));
  const add = EventTarget.prototype.addEventListener, remove = EventTarget.prototype.removeEventListener;
  const wrapped = new WeakMap();
  const once = (call) => {
    if (typeof call !== "function") return call;
    if (!wrapped.has(call)) wrapped.set(call, timed(call));
    return wrapped.get(call);
  };
  EventTarget.prototype.addEventListener = function (name, call, how) { return add.call(this, name, once(call), how); };
  EventTarget.prototype.removeEventListener = function (name, call, how) {
    return remove.call(this, name, once(call), how);
  };
  const next = () => { if (spent > 0.05) frames.push(spent); spent = 0; frame(next); };
  frame(next);
  new MutationObserver(() => {
    if (document.documentElement?.dataset.ready && !window.readyAt) window.readyAt = performance.now();
  }).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-ready"], childList: true });
})();
"""
NAIVE = """<!doctype html><html><meta charset="utf-8"><title>naive</title>
<canvas id="c" width="1216" height="500"></canvas>
<script type="application/json" id="data">DATA</script>
<script>
const slices = JSON.parse(document.getElementById("data").textContent);
const context = document.getElementById("c").getContext("2d");
const whole = slices.reduce((most, slice) => Math.max(most, slice.end), 0);
let left = 0, right = whole;
function draw() {
  context.clearRect(0, 0, 1216, 500);
  for (const { lane, name, start, end } of slices) {
    if (end < left || start > right) continue;
    const x = (start - left) / (right - left) * 1216, width = Math.max(1, (end - start) / (right - left) * 1216);
    context.fillStyle = name.length % 2 ? "#579" : "#9ac";
    context.fillRect(x, 24 * lane, width, 20);
  }
}
let waiting = false;
const later = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } };
const canvas = document.getElementById("c");
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const at = left + event.offsetX / 1216 * (right - left), by = Math.exp(event.deltaY / 300);
  left = at - (at - left) * by; right = at + (right - at) * by; later();
});
canvas.addEventListener("pointermove", (event) => {
  if (!event.buttons) return;
  const by = event.movementX / 1216 * (right - left);
  left -= by; right -= by; later();
});
draw();
document.documentElement.dataset.ready = "true";
</script></html>"""


@dataclass
class Cost:
    """What making a page took, beyond the judgement."""

    events: int
    trace_bytes: int  # packed as torch.profiler packs it
    diagnose_s: float
    picture_s: float
    page_s: float
    html: str


def grown(events: int, folder: Path) -> Path:
    """Return a trace of about so many events."""
    text = gzip.decompress(DEMO.read_bytes()).decode()
    _, inner, _ = split(text)
    each = len(json.loads(f"[{inner}]"))
    target = folder / f"{events}.json.gz"
    grow(DEMO, target, max(1, round(events / each)) * len(inner.encode()) / 1e6, packed=True)
    return target


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU time of a call in s, and what it returned."""
    before = time.process_time()
    made = call()
    return time.process_time() - before, made


def make(path: Path) -> Cost:
    """Judge a trace, draw it and write its page."""
    inside: list[float] = []
    draw = pictures.picture_of

    def drawn(*given: Any, **named: Any) -> Any:
        took, picture = timed(lambda: draw(*given, **named))
        inside.append(took)
        return picture

    pictures.picture_of = drawn  # type: ignore[assignment]
    try:
        whole, report = timed(lambda: whyidle.diagnose(path, picture=True))
    finally:
        pictures.picture_of = draw
    page, html = timed(lambda: whyidle.render(report, "html"))
    trace = load([path]).traces[0]
    return Cost(trace.events, path.stat().st_size, whole - sum(inside), sum(inside), page, html)


def naive(path: Path) -> str:
    """Return the page that draws everything."""
    trace = load([path]).traces[0]
    slices = []
    for columns, rows in ((trace.device_slices, "stream"), (trace.host_slices, "thread")):
        of = getattr(columns, rows)
        lanes = {value: lane for lane, value in enumerate(sorted(set(of.tolist())))}
        for row, start, end, name in zip(
            *(each.tolist() for each in (of, columns.start, columns.end, columns.name)), strict=True
        ):
            begin, stop = start - trace.origin, end - trace.origin
            slices.append({"lane": lanes[row], "name": trace.strings[name], "start": begin, "end": stop})
    return NAIVE.replace("DATA", json.dumps(slices, separators=(",", ":")).replace("<", "\\u003c"))


def look(browser: Browser, html: str, folder: Path, canvas: str) -> dict[str, float]:
    """Open a page, move its timeline, and return times in ms and sizes."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    context.add_init_script(SPENT)
    page = context.new_page()
    page.set_default_timeout(300_000)
    file = folder / "page.html"
    file.write_text(html, "utf-8")
    page.goto(file.as_uri())
    until(page, "window.readyAt > 0")
    page.wait_for_timeout(500)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")
    ready = page.evaluate("window.readyAt")
    frames = sorted(moved(page, canvas)) or [float("nan")]
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    told = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    context.close()
    return {
        "paint": paint, "ready": ready, "frames": len(frames), "median": statistics.median(frames),
        "p95": frames[int(0.95 * (len(frames) - 1))], "max": frames[-1], "nodes": told["Nodes"],
        "heap": told["JSHeapUsedSize"] / 1e6,
    }  # fmt: skip


def moved(page: Page, canvas: str) -> list[float]:
    """Zoom in, pan to and fro and zoom out; return the script time of each frame in which something was done."""
    place = page.locator(canvas).first
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + min(box["height"] / 2, 150)
    page.mouse.move(x, y)
    page.evaluate("window.measured.length = 0")
    page.keyboard.down("Control")
    for delta in (-60,) * 25 + (60,) * 10:
        page.mouse.wheel(0, delta)
        page.wait_for_timeout(20)
    page.keyboard.up("Control")
    for by in (200, -200, 150, -150):
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + by, y, steps=25)
        page.mouse.up()
    page.keyboard.down("Control")
    for _ in range(20):
        page.mouse.wheel(0, 60)
        page.wait_for_timeout(20)
    page.keyboard.up("Control")
    page.wait_for_timeout(300)
    frames: list[float] = page.evaluate("window.measured")
    return frames


def told(title: str, size: float, seen: dict[str, float]) -> str:
    """Return a row of the table."""
    return (
        f"{title:<10} {size / 1e6:8.2f} MB  paint {seen['paint']:6.0f} ms  ready {seen['ready']:6.0f} ms  "
        f"frame {seen['median']:6.2f} / {seen['p95']:6.2f} / {seen['max']:6.2f} ms of {seen['frames']:3.0f}  "
        f"{seen['nodes']:6.0f} nodes  {seen['heap']:6.1f} MB heap"
    )


def board(browser: Browser, events: int, folder: Path, canvas: str) -> None:
    """Print what a trace of about so many events costs, ours and the naive page."""
    path = grown(events, folder)
    cost = make(path)
    added = cost.picture_s + cost.page_s
    print(
        f"\n{cost.events:,} events, {cost.trace_bytes / 1e6:.2f} MB packed: judged in {cost.diagnose_s:.2f} CPU s, "
        f"the report adds {added:.2f} (picture {cost.picture_s:.2f}, page {cost.page_s:.2f}), "
        f"{added / LIMIT_CPU_S:.2f} of what 1 M may take"
    )
    size = len(cost.html.encode())
    ours = look(browser, cost.html, folder, canvas)
    print(told("report", size, ours))
    peer = naive(path)
    theirs = look(browser, peer, folder, "canvas")
    print(told("naive", len(peer.encode()), theirs))
    print(
        f"naive / report: bytes {len(peer.encode()) / size:.1f}x, ready {theirs['ready'] / ours['ready']:.1f}x, "
        f"frame p95 {theirs['p95'] / ours['p95']:.1f}x; "
        f"frame p95 of the report / limit: {ours['p95'] / LIMIT_FRAME_MS:.2f}"
    )


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--events", default="10000,100000,1000000", help="sizes, with commas between them")
    words.add_argument("--canvas", default="[data-island=timeline] .tl-stage canvas", help="what is zoomed and dragged")
    options = words.parse_args()
    program = found()
    if program is None:
        sys.exit("no Chromium here: install one, or name it in WHYIDLE_CHROMIUM")
    print(f"{platform.platform()}, Python {platform.python_version()}; frame: script time, median / p95 / max")
    with tempfile.TemporaryDirectory() as name, started(Path(program)) as browser:
        for events in map(int, options.events.split(",")):
            board(browser, events, Path(name), options.canvas)


if __name__ == "__main__":
    main()
