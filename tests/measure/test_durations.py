"""Durations that cannot be true are cut back before anything is measured; small overlaps are left alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import US, Recording, measured
from whyidle.measure import durations

# All in us: a kernel of 100 every 1000, so half a million of idle time in between is easily hidden.
MS = 1000


def row(first_end, count=5, **more):
    """Kernels of 100 us that start every 1000 us; the first ends when told."""
    r = Recording().kernel(0, first_end, **more)
    for i in range(1, count):
        r.kernel(i * MS, i * MS + 100, **more)
    return r


def ends(recording):
    """Return the ends of all kernels, us, as they are measured."""
    t = recording.analysis().t
    return (t.device.end / US).tolist()


@pytest.mark.parametrize(
    ("first_end", "measured_end"),
    [
        (100, 100),
        (2 * MS + 5, 2 * MS + 5),  # past two successors: an overlap, not a corrupt duration
        (4 * MS, 4 * MS),  # past the third by 1 ms, the limit
        (4 * MS + 1, 1 * MS),  # beyond: it ends where the next begins
    ],
)
def test_past_three_successors_by_more_than_a_millisecond(first_end, measured_end):
    assert ends(row(first_end))[0] == measured_end


def test_idle_time_is_no_longer_hidden():
    """The first of six seems to run 50 ms. Cut back it ends at 1000: of 5100 us 1000 + 5 x 100 are busy."""
    assert measured(row(50 * MS, count=6).analysis())["gpu_busy_share"] == pytest.approx(1500 / 5100)


@pytest.mark.parametrize("other", [{"stream": 9}, {"device": 1}])
def test_streams_and_devices_do_not_limit_each_other(other):
    r = row(100).kernel(50, 100 * MS, **other)
    assert max(ends(r)) == 100 * MS


def test_a_doubt_is_raised():
    analysis = row(50 * MS, count=20).analysis()
    from whyidle.measure.sanity import doubts

    (doubt,) = [doubt for doubt in doubts(analysis) if "cannot be true" in doubt.message]
    assert doubt.message.startswith("1 of 20 GPU operation has a duration")
    assert doubt.confidence == pytest.approx(0.5)  # 1 - 10 / 20


@given(
    st.lists(
        st.tuples(st.integers(0, 9000), st.integers(0, 5000), st.sampled_from([7, 8, -3, 2**40]), st.integers(-1, 1)),
        max_size=30,
    )
)
def test_streams_are_put_in_order_whatever_their_numbers(rows):
    r = Recording()
    for start, length, stream, device in rows:
        r.kernel(start, start + length, stream=stream, device=device)
    d = r.trace().device_slices
    order = durations.by_stream(d)
    keys = [(d.device[i], d.stream[i], d.start[i]) for i in order]
    groups = [key[:2] for i, key in enumerate(keys) if i == 0 or key[:2] != keys[i - 1][:2]]
    assert sorted(order.tolist()) == list(range(len(d)))
    assert len(groups) == len(set(groups)), "each stream in one run"
    assert all(a[2] <= b[2] for a, b in pairwise(keys) if a[:2] == b[:2])
    cut = durations.cut_back(d, order, durations.corrupt(d, order))
    assert (cut.end <= d.end).all()
    assert (cut.end >= d.start).all()
    assert np.array_equal(cut.start, d.start)
