"""Interval algebra agrees with sets of points."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.intervals import clip, complement, containing, covered_before, intersect, overlap, subtract, union

SPAN = 60
spans = st.lists(st.tuples(st.integers(0, SPAN), st.integers(-3, 12)), max_size=25)


def raw(rows):
    start = np.array([start for start, _ in rows], np.int64)
    return start, start + np.array([length for _, length in rows], np.int64)


def points(start, end):
    return {p for a, b in zip(start.tolist(), end.tolist(), strict=True) for p in range(a, b)}


def of(intervals):
    start, end = intervals.start, intervals.end
    assert (end > start).all()
    assert (start[1:] >= end[:-1]).all()
    return points(start, end)


@given(spans)
def test_union_holds_the_same_points(rows):
    merged = union(*raw(rows))
    assert of(merged) == points(*raw(rows))
    assert merged.total == len(points(*raw(rows)))
    assert (merged.start[1:] > merged.end[:-1]).all(), "touching intervals are one"


@given(spans, st.integers(0, SPAN), st.integers(0, SPAN))
def test_set_and_complement_share_out_the_window(rows, low, length):
    a = union(*raw(rows))
    window = set(range(low, low + length))
    assert of(clip(a, low, low + length)) == of(a) & window
    assert of(complement(a, low, low + length)) == window - of(a)


@given(spans, spans)
def test_intersection_and_difference_share_out_a_set(left, right):
    a, b = union(*raw(left)), union(*raw(right))
    both, of_a, of_b = intersect(a, b)
    rest, rest_of_a = subtract(a, b)
    assert of(both) == of(a) & of(b)
    assert of(rest) == of(a) - of(b)
    assert both.total + rest.total == a.total
    for i, (start, end) in enumerate(zip(both.start, both.end, strict=True)):
        assert a.start[of_a[i]] <= start
        assert end <= a.end[of_a[i]]
        assert b.start[of_b[i]] <= start
        assert end <= b.end[of_b[i]]
    for i, (start, end) in enumerate(zip(rest.start, rest.end, strict=True)):
        assert a.start[rest_of_a[i]] <= start
        assert end <= a.end[rest_of_a[i]]


@given(spans, spans)
def test_overlap_counts_the_points_of_each_interval(left, right):
    b = union(*raw(right))
    start, end = raw(left)
    end = np.maximum(start, end)
    expected = [len(set(range(s, e)) & of(b)) for s, e in zip(start.tolist(), end.tolist(), strict=True)]
    assert overlap(start, end, b).tolist() == expected


@given(spans, st.lists(st.integers(-5, SPAN + 20), max_size=20))
def test_places_in_a_set(rows, times):
    b = union(*raw(rows))
    at = np.array(times, np.int64)
    assert covered_before(at, b).tolist() == [sum(p < t for p in of(b)) for t in times]
    for t, index in zip(times, containing(at, b).tolist(), strict=True):
        assert (index >= 0) == (t in of(b))
        if index >= 0:
            assert b.start[index] <= t < b.end[index]
