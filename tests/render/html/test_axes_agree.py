"""A chart that scripts draw has the axes of its static drawing: the same numbers at the same places."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.render.html.charted import banded, by_step, gpus, spread
from whyidle.model.picture import Chart, Picture
from whyidle.render.html.packing import packed
from whyidle.render.html.scales import across, along, upward

WEB = Path(__file__).parents[3] / "web"
ESBUILD = WEB / "node_modules" / ".bin" / "esbuild"
COUNT = 5

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="no Node: scripts are not compared"),
    pytest.mark.skipif(not ESBUILD.exists(), reason="no web/node_modules: scripts are not compared"),
]

SCRIPT = """
import { across, along, number, started, upward } from "./src/charts/axes";
const charts = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const share = ({ low, high }) => ({ value, label }) => [(value - low) / (high - low), label];
console.log(JSON.stringify(charts.map((chart) => {
  const { range, ticks } = upward(chart);
  const x = across(chart);
  return { y: [range.low, range.high], x: [x.low, x.high], up: ticks.map(share(range)),
           along: along(x, chart, %d).map(share(x)) };
})));
"""


def charts() -> list[Chart]:
    """Every axis, unit, clock and size that recordings have, and some that they hardly have."""
    plain = [
        gpus(1),
        gpus(8),
        banded("Power", "W", 280.0, 400.0),
        banded("Memory", "GiB", 31.0, 79.6),
        by_step(),
        spread(),
    ]
    spans = [
        1e-7,
        3e-4,
        0.02,
        0.9,
        1.5,
        7.0,
        59.0,
        100.0,
        121.0,
        440.0,
        3000.0,
        7300.0,
        9000.0,
        40_000.0,
        400_000.0,
        4e6,
    ]
    clocks = ["start of the recording", "2026-11-30 13:52:20 UTC", "2026-02-27T23:59:59.5Z", "2026-02-31 00:00:00 UTC"]
    timed = [replace(banded("Power", "W", 1.0), x=np.linspace(0, span, 100), clock=c) for span in spans for c in clocks]
    timed += [replace(banded("Power", "W", 1.0), x=np.linspace(-low, 600, 100)) for low in (100.0, 450.0, 9000.0)]
    sizes = [
        banded("SM clock", unit, size) for unit in ("MHz", "ms", "°C", "%") for size in (0.0, 1e-6, 0.07, 1, 1337, 2e7)
    ]
    limits = [banded("Power", "W", 280.0, upper) for upper in (290.0, 300.0, 700.0, 1000.0)]
    return plain + timed + sizes + limits


def sent_to_scripts(every: list[Chart]) -> object:
    """Charts as they stand in the page."""
    page = json.loads(packed(Picture((), tuple(every))))
    return json.loads(zlib.decompress(base64.b64decode(page["bytes"]))[page["head"] :])["charts"]


def test_scripts_and_drawings_have_the_same_axes(tmp_path: Path) -> None:
    every = charts()
    bundle = tmp_path / "axes.cjs"
    make = [str(ESBUILD), "--bundle", "--platform=node", "--format=cjs", "--loader=ts", f"--outfile={bundle}"]
    subprocess.run(make, input=SCRIPT % COUNT, cwd=WEB, check=True, timeout=120, text=True, capture_output=True)
    sent = json.dumps(sent_to_scripts(every))
    done = subprocess.run(["node", str(bundle)], input=sent, capture_output=True, text=True, timeout=120, check=True)
    for chart, found in zip(every, json.loads(done.stdout), strict=True):
        x, (y, levels) = across(chart), upward(chart)
        said = f"{chart.title} {chart.unit} {chart.clock} {chart.x[-1]}"
        assert found["x"] == pytest.approx([x.low, x.high], rel=1e-5, abs=1e-12), said
        assert found["y"] == pytest.approx([y.low, y.high], rel=1e-5, abs=1e-12), said
        for ticks, theirs in ((levels, found["up"]), (along(x, chart.axis, chart.clock, COUNT), found["along"])):
            assert [label for _, label in theirs] == [tick.label for tick in ticks], said
            assert [at for at, _ in theirs] == pytest.approx([tick.at for tick in ticks], abs=1e-4), said
