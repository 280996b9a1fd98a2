"""Ranks that come late to a collective that all share: how late, why, and whether it is always the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import Recording
from whyidle.measure import measure
from whyidle.model.evidence import Run

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LENGTH = 1000  # us from one meeting to the next


def rank(number, steps, *, name=REDUCE, group="0 [0, 1]", world=None, transfer=100):
    """One rank. Each step: what it does before its kernels ("data", "gc" or "host") and how long, then how long these
    run, in us; then it waits in a collective until the step is over, of which the last 100 us carry data."""
    r = Recording().op("aten::add", 0, 1)
    for step, (reason, before, compute) in enumerate(steps):
        at = step * LENGTH
        r.step(step, at, at + LENGTH)
        if before:
            mark = {"data": r.range, "gc": r.python, "host": r.op}[reason]
            mark({"data": LOADER, "gc": "<built-in function collect>", "host": "aten::mul"}[reason], at, at + before)
        begin = at + before + 5
        r.kernel(begin, begin + compute, launched=at + before, took=5)
        r.kernel(begin + compute, at + LENGTH, launched=at + before + 5, took=1, name=name, message=64, group=group)
    return replace(r.trace(path=f"r{number}.json", rank=number), world_size=world)


def late(*ranks, **more):
    """Return what is measured of ranks that do this in each step, by name; "share" is the whole lateness."""
    group = f"0 {list(range(len(ranks)))}"
    traces = [rank(number, steps, **{"group": group, **more}) for number, steps in enumerate(ranks)]
    found = measure(Run(tuple(traces))).measurements
    return {m.name.removeprefix("late_").removesuffix("_share"): m.value for m in found if m.name.startswith("late_")}


QUICK = ("host", 0, 300)


def test_a_rank_waits_for_data_and_the_others_for_it():
    """Rank 1 loads for 400 us in each of five steps: four times between meetings of 1000 us."""
    m = late([QUICK] * 5, [("data", 400, 300)] * 5)
    assert m["share"] == pytest.approx(0.4)
    assert m["data"] == pytest.approx(0.4)
    assert (m["compute"], m["gc"], m["host"]) == (0, 0, 0)
    assert (m["steps"], m["different_ranks"], m["ranks"]) == (4, 1, "1")


@pytest.mark.parametrize(
    ("step", "reason"), [(("gc", 400, 300), "gc"), (("host", 400, 300), "host"), (("host", 0, 700), "compute")]
)
def test_the_reason_is_what_the_late_rank_has_more_of(step, reason):
    m = late([QUICK] * 5, [step] * 5)
    assert m.pop(reason) == pytest.approx(0.4)
    assert sum(m[other] for other in {"data", "gc", "host", "compute"} & m.keys()) == 0


def test_reasons_share_the_lateness():
    """Rank 1 loads for 100 us and computes 200 us longer, but does 60 us less in Python: late by 240, 1 to 2."""
    m = late([("host", 60, 300)] * 5, [("data", 100, 500)] * 5)
    assert m["data"] == pytest.approx(0.24 / 3)
    assert m["compute"] == pytest.approx(0.24 * 2 / 3)


def test_ranks_that_take_turns():
    """Rank 0 is late in odd steps, rank 1 in even ones: no rank is late always."""
    slow = ("host", 0, 700)
    m = late([QUICK, slow] * 3, [slow, QUICK] * 3)
    assert m["compute"] == pytest.approx(0.4)
    assert (m["steps"], m["different_ranks"], m["ranks"]) == (5, 2, "")


def test_ranks_of_a_host_are_late_together():
    """Ranks 2 and 3 of four wait for data, 400 and 380 us: late by 390 us on average, and each last in some step."""
    slow, slower = ("data", 380, 300), ("data", 400, 300)
    m = late([QUICK] * 5, [QUICK] * 5, [slow, slower, slower, slow, slow], [slower, slow, slow, slower, slower])
    assert m["data"] == pytest.approx(0.39)
    assert (m["different_ranks"], m["ranks"]) == (2, "2-3")


def test_once_is_not_always():
    m = late([QUICK] * 5, [QUICK, QUICK, ("gc", 400, 300), QUICK, QUICK])
    assert m["gc"] == pytest.approx(0.1)
    assert (m["steps"], m["ranks"]) == (1, "")


def test_what_all_do_makes_nobody_late():
    m = late([("data", 400, 300)] * 5, [("data", 400, 301)] * 5)
    assert m["data"] == m["steps"] == 0
    assert m["ranks"] == ""


def test_when_it_is_not_known():
    """Two meetings are needed, all ranks, and a collective that all leave at once."""
    slow = [("data", 400, 300)] * 5
    assert not late([QUICK], slow[:1])
    assert not late([QUICK] * 5, slow, world=4)
    assert not late([QUICK] * 5, slow, name="ncclDevKernel_Broadcast_RING_LL")
    assert not late([QUICK] * 5)


def test_without_collectives_nobody_is_late():
    r = Recording().op("aten::add", 0, 1).kernel(0, 10)
    m = measure(Run((r.trace(rank=0), r.trace(rank=1)))).measurements
    assert m.number("late_share") == m.number("late_data_share") == 0
    assert "late_ranks" not in m


def test_the_place_is_where_the_latest_rank_is_late():
    """Rank 1, in the third step, 2000-3000 us."""
    ranks = [QUICK] * 5, [QUICK, QUICK, ("data", 400, 300), QUICK, QUICK]
    traces = [rank(number, steps) for number, steps in enumerate(ranks)]
    (place,) = measure(Run(tuple(traces))).measurements.one("late_share").locations
    assert (place.rank, place.start_s, place.end_s) == (1, pytest.approx(2e-3), pytest.approx(3e-3))
