"""What must hold of every curve: shapes part all idle time, and how it was written down does not change its shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampled import WALL, S, curve, gpu
from whyidle.judge import judge
from whyidle.measure.curve import measure
from whyidle.measure.curve.shape import PARTS
from whyidle.model.evidence import Run
from whyidle.model.measurement import Measurements

LENGTH = 1500


def noise(level, seed, deviation=1.5):
    return np.clip(level + np.random.default_rng(seed).normal(0, deviation, LENGTH), 0, 100)


def shaped(kind, seed):
    """Return a curve of a kind, at 1 Hz."""
    busy, second = noise(97, seed), np.arange(LENGTH)
    if kind == "sawtooth":
        return np.where(second % 75 < 25, 0, busy)
    if kind == "flat_low":
        return noise(55, seed)
    if kind == "step_change":
        return np.where(second < 700, busy, noise(50, seed))
    if kind == "startup":
        return np.where(second < 400, 0, busy)
    if kind == "idle_held":
        return np.where(second < 900, busy, 0)
    return busy


KINDS = ("healthy", "sawtooth", "flat_low", "step_change", "startup", "idle_held")


def said(*curves):
    """Return the rules that speak at medium and above, the first first."""
    report = judge(Run(curves=curves))
    assert report.judged
    return [finding.rule for finding in report.findings if finding.severity != "low"]


def expected(kind):
    return [] if kind == "healthy" else [f"curve.{kind}"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_how_it_was_recorded_changes_no_shape(kind, seed):
    columns = [gpu(shaped(kind, 10 * seed + device), device=device) for device in range(4)]
    assert said(curve(*columns)) == expected(kind)
    shuffled = [replace(columns[i], device=device) for device, i in enumerate((2, 0, 3, 1))]
    assert said(curve(*shuffled[::-1])) == expected(kind)
    later = [replace(one, time=one.time + 12_345 * S + 678) for one in columns]
    assert said(curve(*later)) == expected(kind)
    means = [gpu(one.value.reshape(-1, 5).mean(axis=1), device=one.device, every=5) for one in columns]
    assert said(curve(*means)) == expected(kind)
    seldom = [gpu(one.value[::5], device=one.device, every=5) for one in columns]
    assert said(curve(*seldom)) == expected(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [300, 800])
def test_a_recording_in_two_files_is_that_recording(kind, at):
    values = shaped(kind, 3)
    first = curve(gpu(values[:at]), path="a.txt")
    second = curve(gpu(values[at:], start=WALL + at * S), path="b.txt")
    whole = {m.name: m.value for m in measure(Run(curves=(curve(gpu(values)),))).measurements}
    parts = {m.name: m.value for m in measure(Run(curves=(second, first))).measurements}
    assert parts == whole


pieces = st.lists(st.tuples(st.sampled_from([0, 3, 40, 70, 93, 97, 100]), st.integers(1, 200)), min_size=1, max_size=8)


@given(st.lists(pieces, min_size=1, max_size=4), st.integers(0, 9), st.sampled_from([1.0, 5.0, 60.0]))
@settings(max_examples=60, deadline=None)
def test_shapes_and_the_rest_are_all_idle_time(gpus, seed, every):
    rng, series = np.random.default_rng(seed), []
    for device, parts in enumerate(gpus):
        levels = np.concatenate([np.full(count, float(level)) for level, count in parts])
        values = np.clip(levels + rng.normal(0, 2, len(levels)) * (levels > 5), 0, 100)
        series.append(gpu(np.where(rng.random(len(values)) < 0.02, np.nan, values), device=device, every=every))
    m = Measurements(measure(Run(curves=(curve(*series),))).measurements)
    if "curve_rest_share" not in m:  # no GPU has ten samples
        return
    shares = [m.get(f"curve_{name}_share", 0.0) for name in PARTS]
    assert min(shares) >= -1e-9
    assert sum(shares) == pytest.approx(m.number("curve_idle_share"), abs=1e-4)
    assert m.number("curve_busy_share") + m.number("curve_idle_share") == pytest.approx(1)


@pytest.mark.parametrize("seed", range(40))
def test_what_has_no_shift_shows_none(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.choice([60, 300, 1200]))
    values = np.clip(50 + 20 * rng.normal(size=count), 0, 100) if seed % 2 else np.where(rng.random(count) < 0.4, 0, 99)
    m = {one.name: one.value for one in measure(Run(curves=(curve(gpu(values)),))).measurements}
    assert m["curve_change_counter"] == "none"
    assert "curve_period_s" not in m
