"""Joins of one trace: launches by correlation, slices by nesting, devices by whatever number they have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import US, Recording, measured
from whyidle.measure.timeline import FEW_TIMES, innermost, join, parents
from whyidle.model.finding import CAUSES


@pytest.mark.parametrize("device", [-1, 3, 2**31 - 1])
def test_a_device_may_have_any_number(device):
    """Recordings that name no device have -1 here. Busy 20 of 100 us."""
    m = measured(Recording().kernel(0, 10, device=device).kernel(90, 100, device=device).analysis())
    assert m["gpu_busy_share"] == pytest.approx(0.2)


@given(st.dictionaries(st.integers(0, 10**12), st.integers(0, 99)), st.lists(st.integers(-2, 10**12)))
def test_join_is_a_dictionary(table, wanted):
    wanted += list(table)[:3]
    found = join(np.array([*table], np.int64), np.array([*table.values()], np.intp), np.array(wanted, np.int64))
    assert found.tolist() == [table.get(key, -1) for key in wanted]


@st.composite
def nested(draw, low=0, high=200, depth=3):
    """Return properly nested slices as (start, end), in any order."""
    edges = sorted(draw(st.lists(st.integers(low, high), min_size=2, max_size=8, unique=True)))
    slices = []
    for start, end in zip(edges[::2], edges[1::2], strict=False):
        slices.append((start, end))
        if depth and end - start > 4:
            slices += draw(nested(start + 1, end - 1, depth - 1))
    return slices


def columns(slices):
    rows = sorted(slices, key=lambda row: (row[0], -row[1]))
    return np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64)


@given(nested())
def test_the_parent_is_the_smallest_slice_around(slices):
    start, end = columns(slices)
    for i, parent in enumerate(parents(start, end).tolist()):
        around = [j for j in range(len(start)) if j != i and start[j] <= start[i] and end[j] >= end[i]]
        assert parent == max(around, key=lambda j: start[j], default=-1)


@given(nested(), st.integers(1, 4 * FEW_TIMES))
def test_the_innermost_slice_is_the_last_that_is_open(slices, count):
    """Few times are looked up one by one, many by the tree: both say the same."""
    start, end = columns(slices)
    times = np.linspace(0, 205, count).astype(np.int64)
    wanted = [max((j for j in range(len(start)) if start[j] <= t < end[j]), default=-1) for t in times]
    assert innermost(times, np.arange(len(start)), start, end).tolist() == wanted


def test_slices_that_cross_do_not_break_what_is_asked_of_operators():
    """Rounded times make neighbours cross. Many convolutions in a row, each crossing the next by 1 us."""
    r = Recording().step(1, 0, 900).step(2, 900, 2000)
    for i in range(30):
        r.op("aten::cudnn_convolution", 1000 + 20 * i, 1021 + 20 * i)
        r.kernel(1010 + 20 * i, 1020 + 20 * i, launched=1005 + 20 * i)
    r.op("aten::convolution_backward", 900, 1003).op("aten::convolution_backward", 1002, 1900)
    r.op("aten::convolution_backward", 1003, 1004).kernel(1800, 1810, launched=1790)
    m = measured(r.analysis())
    assert sum(m[f"idle_{cause}_share"] for cause in CAUSES) == pytest.approx(m["gpu_idle_share"])


def test_locations_count_from_the_start_of_the_recording():
    a = Recording().step(7, 100, 200).kernel(110, 120, launched=105).analysis()
    where = a.t.location(150 * US, 160 * US, "here", 0)
    assert (where.step, where.start_s, where.end_s) == (7, pytest.approx(50e-6), pytest.approx(60e-6))
