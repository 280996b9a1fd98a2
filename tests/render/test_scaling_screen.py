"""What `whyidle scaling` shows."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from whyidle.compare.lost import Shares
from whyidle.compare.scaling import scaled, scaling_of
from whyidle.compare.sized import Point
from whyidle.model.comparison import Interval
from whyidle.model.scaling import Scaling
from whyidle.render.base import Look
from whyidle.render.scaling import scaling_json, scaling_text


def traced() -> Scaling:
    points = [
        Point(1, Interval(990, 1000, 1010), shares=Shares(0.0, 0.0, 0.02), batch=256),
        Point(2, Interval(1780, 1800, 1820), shares=Shares(0.06, 0.03, 0.02), batch=512),
        Point(8, Interval(4700, 4800, 4900), shares=Shares(0.21, 0.08, None), batch=2048),
    ]
    found = scaled(points, unit="samples", usd_per_gpu_hour=2.60)
    sizes = (found.sizes[0], *(replace(s, efficiency=near(s.efficiency.likely)) for s in found.sizes[1:]))
    warning = "CPUs per rank differ: 16 on 1, 8 on 2, 2 on 8; a rank's DataLoader has to live with fewer."
    return replace(
        found, kind="weak", why_kind="the same batch per GPU: 256", sizes=sizes, price_source="your price",
        warnings=(warning,),
    )  # fmt: skip


def near(likely: float) -> Interval:
    return Interval(likely - 0.012, likely, likely + 0.012)


def test_screen(snapshot: SnapshotAssertion) -> None:
    assert scaling_text(traced(), Look()) == snapshot


def test_screen_by_numbers(snapshot: SnapshotAssertion) -> None:
    assert scaling_text(scaling_of({1: 1000, 4: 2400}), Look()) == snapshot


def test_screen_that_scales(snapshot: SnapshotAssertion) -> None:
    assert scaling_text(scaling_of({1: 1000, 2: 1999, 4: 4001}, unit="tokens"), Look()) == snapshot


@pytest.mark.parametrize("width", [60, 100])
def test_plain_screens_are_ascii_and_fit(width: int) -> None:
    text = scaling_text(traced(), Look(unicode=False, width=width))
    assert text.isascii()
    assert all(len(line) <= max(width, 80) for line in text.splitlines())
    assert len(text.splitlines()) <= 40


def test_nothing_is_lost_without_a_sign() -> None:
    points = [Point(gpus, near(rate), shares=Shares(0.0, 0.0, 0.0)) for gpus, rate in ((1, 1000), (2, 2002))]
    told = scaling_text(scaled(points, unit="samples", usd_per_gpu_hour=None), Look())
    assert "together" in told
    assert "-0%" not in told


def test_json() -> None:
    found = json.loads(scaling_json(traced()))
    assert (found["schema_version"], found["kind"], found["unit"]) == (1, "weak", "samples")
    last = found["sizes"][-1]
    assert last["loss"]["input"] is None
    assert last["loss"]["total"] == pytest.approx(0.4)
    assert sum(part or 0 for name, part in last["loss"].items() if name != "total") == pytest.approx(0.4)
    assert found["doubling"]["gpus"] == 16


def test_json_for_a_screen_that_has_ascii_alone() -> None:
    found = replace(traced(), verdict="95% (65%\N{EN DASH}163%)")
    told = scaling_json(found, ascii_only=True)
    assert told.isascii()
    assert json.loads(told)["verdict"] == found.verdict


def test_what_is_not_known_is_null_in_json() -> None:
    found = json.loads(scaling_json(scaling_of({1: 1000, 4: 2400})))
    assert found["sizes"][1]["efficiency"] == {"low": None, "likely": 0.6, "high": None}
    assert math.isclose(found["sizes"][1]["loss"]["unexplained"], 0.4)


def test_names_from_files_are_cleaned() -> None:
    found = replace(traced(), why_kind="a\x1b[31m", warnings=("b\x1b]0;x\x07",))
    assert "\x1b" not in scaling_text(found, Look())
