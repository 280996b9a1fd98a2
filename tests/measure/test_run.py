"""From ranks to the run: weighted shares, medians, parts, and what one rank lacks."""

from __future__ import annotations

import pytest

from tests.traces import Recording
from whyidle.measure import combine, measure
from whyidle.model.evidence import Run
from whyidle.model.measurement import Measurement

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def rank(window, busy, **more):
    """One step of this length, its first part busy."""
    return Recording().step(1, 0, window).op("aten::add", 0, 1).kernel(0, busy, **more)


def measured(*recordings):
    return measure(Run(tuple(r.trace(path=f"r{i}.json", rank=i) for i, r in enumerate(recordings))))


def test_shares_are_weighted_by_windows():
    """50 of 100 us and 30 of 300: 80 of 400, not the mean of 0.5 and 0.1."""
    found = measured(rank(100, 50), rank(300, 30))
    assert found.measurements.number("gpu_busy_share") == pytest.approx(0.2)
    assert [(d.rank, d.device, d.busy_share, d.window_s) for d in found.devices] == [
        (0, 0, 0.5, pytest.approx(100e-6)),
        (1, 0, 0.1, pytest.approx(300e-6)),
    ]


def test_a_rank_with_two_devices_weighs_twice():
    """Rank 0: two GPUs at 1.0 over 100 us; rank 1: one at 0.1 over 100 us: 210 of 300."""
    both = rank(100, 100).kernel(0, 100, device=1)
    assert measured(both, rank(100, 10)).measurements.number("gpu_busy_share") == pytest.approx(0.7)


def test_other_numbers_are_medians():
    assert measured(rank(100, 5), rank(200, 5), rank(900, 5)).measurements.number("step_time_s") == pytest.approx(2e-4)


def test_each_rank_is_a_part():
    m = measured(rank(100, 50), rank(100, 30)).measurements
    assert [(part.subject, part.value) for part in m.each("gpu_busy_share")] == [
        ("rank 0", pytest.approx(0.5)),
        ("rank 1", pytest.approx(0.3)),
    ]


def test_one_rank_has_no_parts():
    assert measured(rank(100, 50)).measurements.each("gpu_busy_share") == ()


def test_what_one_rank_lacks_is_not_measured():
    """Only rank 0 recorded its blocks; its own value is still there as a part."""
    m = measured(rank(100, 50, blocks=0.5), rank(100, 50, blocks=float("nan"))).measurements
    assert "underfilled_share" not in m
    assert [part.subject for part in m.each("underfilled_share")] == ["rank 0"]


def test_places_are_those_of_the_worst_rank():
    m = measured(rank(100, 90), rank(100, 10), rank(100, 50)).measurements
    assert {place.file for place in m.one("idle_unknown_share").locations} == {"r1.json"}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("compiled", [False, True], True),
        ("loader_in_process", [False, False], False),
        ("tensor_cores", ["tf32", "tf32"], "tf32"),
        ("gpu_busy_share", [0.5, 1.0], 0.875),  # weights 1 and 3
        ("tensor_core_share", [0.0, 1.0], 0.75),
        ("gc_pauses", [1, 4], 2.5),
        ("steps", [3], 3),
    ],
)
def test_combine(name, values, expected):
    found = [(weight, Measurement(name, value)) for weight, value in zip([1, 3], values, strict=False)]
    assert combine(name, found) == expected


def test_doubts_name_their_rank_where_there_are_several():
    doubted = rank(100, 50).step(3, 100, 200)
    sound = rank(100, 50)
    missing = "1 profiler step is missing between 1 and 3."
    assert f"ranks 0, 2: {missing}" in [doubt.message for doubt in measured(doubted, sound, doubted).doubts]
    assert missing in [doubt.message for doubt in measured(doubted, doubted).doubts], "of all ranks: said once"


def test_confidence_is_that_of_the_mean_rank():
    """A step is missing on one of three ranks (0.9): doubts of many ranks do not pile up."""
    sound, doubted = rank(100, 50), rank(100, 50).step(3, 100, 200)
    assert measured(sound).confidence == 1
    assert measured(doubted).confidence == pytest.approx(0.9)
    assert measured(doubted, sound, sound).confidence == pytest.approx(2.9 / 3)
    assert measured(*[doubted] * 8).confidence == pytest.approx(0.9)


def test_a_trace_without_gpu_work_is_left_out():
    found = measured(rank(100, 50), Recording().op("aten::add", 0, 10))
    assert found.measurements.number("gpu_busy_share") == pytest.approx(0.5)
    assert found.measurements.each("gpu_busy_share") == ()
    assert [device.rank for device in found.devices] == [0]


def test_steps_are_named_by_the_first_rank_that_has_any():
    assert measured(Recording().kernel(0, 10), rank(100, 50)).steps_from == "ProfilerStep"
