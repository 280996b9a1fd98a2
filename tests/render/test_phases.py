"""The pictures of jobs that were watched: read the snapshots as the pictures that they are."""

from __future__ import annotations

import base64
import json
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from whyidle.model.comparison import Arm, Comparison
from whyidle.model.finding import PHASES, Report, RunInfo, Summary
from whyidle.model.picture import Picture
from whyidle.render import render
from whyidle.render.html.bar import parts_of
from whyidle.render.html.packing import packed
from whyidle.render.html.sides import sides
from whyidle.render.palette import COLORS, slug
from whyidle.render.phases import LABELS, WAITS, WORK, color_of, phases
from whyidle.render.words import rate

REPORTS = ["watched_cpu", "watched_gpu", "watched_unknown", "watched_and_traced", "watched_healthy"]


@pytest.mark.parametrize("width", [80, 110])
@pytest.mark.parametrize("name", REPORTS)
def test_picture(name: str, width: int, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    text = render(request.getfixturevalue(name), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert text == snapshot


def test_everything(watched_gpu: Report, snapshot: SnapshotAssertion) -> None:
    assert render(watched_gpu, width=100, everything=True) == snapshot


def test_ascii(watched_gpu: Report) -> None:
    assert render(watched_gpu, unicode=False).isascii()


def test_a_healthy_job_gets_no_picture(watched_healthy: Report) -> None:
    assert watched_healthy.healthy
    assert "%" not in render(watched_healthy).replace("1% of the time", "")


def test_every_phase_has_a_label() -> None:
    assert set(LABELS) == set(PHASES)
    assert max(map(len, LABELS.values())) < 19  # the bars begin behind them


@given(st.lists(st.floats(0, 1), min_size=len(PHASES), max_size=len(PHASES)).filter(lambda shares: sum(shares) > 0.01))
def test_bars_add_up(shares: list[float]) -> None:
    whole = sum(shares)
    summary = Summary("", host_shares={name: share / whole for name, share in zip(PHASES, shares, strict=True)})
    text = "\n".join(line.plain for line in phases(summary, 80))
    assert sum(map(int, re.findall(r"(\d+)%", text))) == 100


@pytest.mark.parametrize(
    ("number", "text"), [(0.0, "0"), (4.267, "4.27"), (271.4, "271"), (1240.3, "1,240"), (98412, "98,400")]
)
def test_rates(number: float, text: str) -> None:
    assert rate(number) == text


def test_a_phase_has_one_color_and_one_name_in_bars_of_pages_and_on_the_timeline() -> None:
    shares = dict.fromkeys(PHASES, 1 / len(PHASES))
    summary = Summary("", host_shares=shares)
    bar = {part.label: part.css.split()[0] for part in parts_of(Report(RunInfo(), summary))}
    arm = Arm(("a",), RunInfo(), summary, 5, 1, "ProfilerStep", 0.1, 0.1)
    both = sides(Comparison("improved", "", arm, arm))
    assert both is not None
    compared = {piece.label: piece.color.split()[0] for piece in both.before}
    told = json.loads(packed(Picture()))
    drawn = json.loads(zlib.decompress(base64.b64decode(told["bytes"]))[told["head"] :])["phases"]
    timeline = {label: f"c-{color}" for color, label in drawn.values()}
    assert bar == compared == timeline
    assert {LABELS[phase]: f"c-{slug(color_of(phase))}" for phase in PHASES} == bar
    assert {WAITS[phase] for phase in WAITS} <= set(COLORS)
    assert not WORK & set(WAITS)
