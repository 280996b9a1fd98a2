"""What a page leaves out is the shortest, is counted, and is covered; and a page never holds more than its room."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whyidle.picture.sketch import LEVELS, Row, Sketch, depths, joined
from whyidle.picture.thinning import chosen, covered, drawn, rooms, shared

KINDS = st.sampled_from(["step", "idle", "stream", "thread", "phase"])


@st.composite
def rows(draw, kind=KINDS, size=40):
    told = draw(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=size))
    told.sort(key=lambda one: (one[0], -one[1]))
    start = np.array([begin for begin, _ in told], np.int64)
    end = start + np.array([length for _, length in told], np.int64)
    name = np.arange(len(told), dtype=np.int32) % 3
    of = draw(kind)
    nested = depths(start, end) if of == "thread" else np.zeros(0, np.int64)
    return Row("lane", of, start, end, name, nested, draw(st.integers(0, 3)))


def sketch(*lanes):
    return Sketch("rank 0", "trace.json", 0, ("a", "b", "c"), lanes)


@given(st.lists(st.lists(rows(), max_size=5), max_size=4), st.integers(0, 120))
def test_a_page_holds_no_more_than_its_room_and_counts_the_rest(lanes, budget):
    timelines = drawn([sketch(*of) for of in lanes], budget)
    assert sum(len(lane) for timeline in timelines for lane in timeline.lanes) <= budget
    for timeline, of in zip(timelines, lanes, strict=True):
        for lane, row in zip(timeline.lanes, of, strict=True):
            assert lane.count == len(row) + row.hidden
            assert len(lane) == len(lane.end) == len(lane.name) == len(lane.depth)
            assert (np.lexsort((-lane.end, lane.start)) == np.arange(len(lane))).all(), "of equal ones the longest"
            assert bool(len(lane.covered)) == (len(lane) < len(row)), "the overview is told where slices are left out"
            if len(lane):
                assert timeline.start <= lane.start[0]
                assert lane.end.max() <= timeline.end
        left = any(len(lane) < lane.count for lane in timeline.lanes)
        assert bool(timeline.note) == left, "what is left out is said"


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 200))
def test_room_is_shared_so_that_nobody_gets_more_at_the_cost_of_another(wanted, budget):
    given_ = shared(wanted, budget)
    assert sum(given_) <= budget
    assert all(got <= want for got, want in zip(given_, wanted, strict=True))
    short = [got for got, want in zip(given_, wanted, strict=True) if got < want]
    if short:
        assert sum(given_) > budget - len(wanted), "nothing is left over while somebody wants it"
        assert max(given_) <= min(short) + 1
    else:
        assert given_ == wanted


@given(rows(kind=st.just("idle")), st.integers(0, 50))
def test_the_longest_gaps_are_kept(row, room):
    kept = chosen(row, room, 0, 400)
    length = row.end - row.start
    assert len(kept) == min(room, len(row))
    if 0 < len(kept) < len(row):
        assert length[kept].min() >= np.delete(length, kept).max()


@given(rows(kind=st.just("stream"), size=80), st.integers(2, 60))
def test_half_of_a_lane_is_its_longest_slices(row, room):
    kept = chosen(row, room, 0, 400)
    assert len(kept) == len(set(kept.tolist())) == min(room, len(row))
    length = row.end - row.start
    longest = np.sort(length)[::-1][: room // 2]
    assert np.isin(np.unique(longest), length[kept]).all()


@given(rows(), st.integers(1, 50))
def test_covered_is_what_the_slices_of_a_lane_cover(row, parts):
    low, high = 0, 400
    shares = covered(row, low, high, parts)
    points = {p for a, b in zip(row.start.tolist(), row.end.tolist(), strict=True) for p in range(a, b)}
    bounds = np.rint(low + (high - low) * np.arange(parts + 1) / parts).astype(int)
    for part, share in enumerate(shares):
        of = range(bounds[part], bounds[part + 1])
        assert abs(share - sum(p in points for p in of) / len(of)) < 1e-6
    assert abs(float((shares * np.diff(bounds)).sum()) - len(points)) < 1e-3


def test_steps_and_gaps_come_before_the_rest_up_to_half_of_a_page():
    many = np.arange(1000, dtype=np.int64)
    gaps = Row("idle", "idle", many * 2, many * 2 + 1, np.zeros(1000, np.int32))
    kernels = Row("stream 7", "stream", many * 2 + 1, many * 2 + 2, np.zeros(1000, np.int32))
    assert rooms([gaps, kernels], 100) == [50, 50]
    few = Row("idle", "idle", many[:10] * 2, many[:10] * 2 + 1, np.zeros(10, np.int32))
    assert rooms([few, kernels], 100) == [10, 90]
    assert rooms([gaps], 100) == [100], "what nobody else wants is theirs"


def test_every_stretch_of_a_lane_says_something_also_beside_longer_slices():
    start = np.concatenate((np.arange(500) * 10, 5000 + np.arange(500) * 10))
    length = np.repeat([9, 1], 500)  # the second half of the time holds short slices only
    row = Row("stream 7", "stream", start, start + length, np.zeros(1000, np.int32))
    kept = chosen(row, 300, 0, 10_000)
    assert np.count_nonzero(start[kept] >= 5000) >= 50


def test_slices_that_nest_too_deep_are_counted_and_not_drawn():
    start = np.arange(LEVELS + 5, dtype=np.int64)
    end = 1000 - start
    row = Row("thread 1", "thread", start, end, np.zeros(len(start), np.int32), depths(start, end))
    (timeline,) = drawn([sketch(row)])
    (lane,) = timeline.lanes
    assert len(lane) == LEVELS
    assert lane.count == LEVELS + 5
    assert lane.depth.tolist() == list(range(LEVELS))
    assert timeline.note


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-2, 9), st.integers(0, 2)), max_size=20))
def test_joined_slices_cover_the_same_time_by_name(told):
    start = np.array([begin for begin, _, _ in told], np.int64)
    end = start + np.array([length for _, length, _ in told], np.int64)
    name = np.array([code for _, _, code in told], np.int32)
    spans, names = joined(start, end, name)
    assert (np.diff(spans.start) >= 0).all()
    assert (spans.end > spans.start).all()
    for code in range(3):
        assert spans.lengths[names == code].sum() == (end - start).clip(0)[name == code].sum()


def test_ten_thousand_steps_do_not_take_a_page_for_their_names():
    many = np.arange(20_000, dtype=np.int64)
    steps = Row("steps", "step", many * 2, many * 2 + 2, np.arange(20_000, dtype=np.int32))
    assert rooms([steps], 100_000) == [5_000]


def test_what_is_left_out_is_said_with_numbers():
    many = np.arange(1000, dtype=np.int64)
    gaps = Row("idle", "idle", many * 2, many * 2 + 1, np.zeros(1000, np.int32))
    kernels = Row("stream 7", "stream", many * 2 + 1, many * 2 + 2, np.zeros(1000, np.int32))
    (both,) = drawn([sketch(gaps, kernels)], 100)
    assert both.note == (
        "100 of 2,000 slices are drawn: the 50 longest of 1,000 idle stretches, of the other lanes the longest slices. "
        "The bars of the overview count all."
    )
    (alone,) = drawn([sketch(kernels)], 100)
    assert alone.note == (
        "100 of 1,000 slices are drawn: the longest of each lane. The bars of the overview count all."
    )
