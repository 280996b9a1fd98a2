"""Several edits of one job: in whatever order, each on what the others leave, and the same change made once."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.programmes import Programme, programmes
from tests.traces import Recording
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.evidence import Run
from whyidle.model.finding import Edit
from whyidle.replay.assumptions import assumed
from whyidle.replay.edits import GRAPH_LAUNCH, GRAPH_NODE, apply, once
from whyidle.replay.engine import Played
from whyidle.replay.outcome import Outcome, idle_shares, no_longer
from whyidle.replay.pricer import LEFT, Replayed

HALF = Edit("scale_device", {"class": "all"}, {"factor": 0.5})
COMPUTE = Edit("scale_device", {"class": "compute"}, {"factor": 0.5})
LARGER = Edit("larger_batch", {}, {"factor": 2.0})
FEWER = Edit("merge_launches", {"range": "step"})
HOST = Edit("scale_host", {"cause": "python,dispatch,autograd_host,optimizer_host"}, {"factor": 0.1})
SYNC = Edit("remove_sync", {"kind": "scalar,readback,framework"})
LAYOUT = Edit("remove_device", {"class": "layout"})
COPIES = Edit("overlap_copies", {"copy": "HtoD"})
EVERY = (HALF, COMPUTE, LARGER, FEWER, HOST, SYNC, LAYOUT, COPIES)


def replayed(recording: Recording) -> replay.Replay:
    return replay.replay_of(measure(Run((recording.trace(),))))


@pytest.fixture(scope="module")
def launches() -> replay.Replay:
    """A host that is slower than its GPU."""
    return replayed(Programme(kernel_us=10, host_us=35, read_every=9).recording())


def test_two_fixes_of_the_same_kernels_do_not_take_their_time_twice(launches):
    (g,), (selection,) = launches.graphs, launches.selections
    assert np.allclose(apply(g, selection, [HALF, COMPUTE]).duration, g.duration / 4)


@settings(max_examples=40, deadline=None)
@given(programmes, st.lists(st.sampled_from(EVERY), min_size=2, max_size=3, unique_by=id))
def test_in_whatever_order_fixes_are_made_they_bring_the_same(programme, edits):
    job = replayed(programme.recording())
    if not job.refused:
        means = [job.play(order).mean_ns for order in permutations(edits)]
        assert means == pytest.approx([means[0]] * len(means), rel=1e-9)


def laid_out() -> Recording:
    """Steps in which the layout of a batch changes and 20 kernels follow, launched one by one."""
    r = Recording()
    for number in range(5):
        began = now = number * 1000.0
        r.kernel(now + 17, now + 22, now + 10, name="void cudnn::ops::nchwToNhwcKernel<float>")
        for place in range(20):
            launched = now + 60 + place * 40
            r.kernel(launched + 7, launched + 17, launched)
        r.step(number, began, began + 1000)
    return r


def test_a_graph_waits_for_its_launch_though_its_first_kernel_went():
    job = replayed(laid_out())
    (g,), (selection,) = job.graphs, job.selections
    for edits in ([FEWER, LAYOUT], [LAYOUT, FEWER], [FEWER]):
        changed = apply(g, selection, edits)
        waits = (changed.latency > -np.inf).reshape(5, -1)
        assert waits.sum(axis=1).tolist() == [1] * 5
        assert waits.argmax(axis=1).tolist() == [1 if LAYOUT in edits else 0] * 5


def test_a_second_stream_of_a_graph_does_not_begin_before_the_graph_is_launched():
    r = Recording()
    for number in range(5):
        began = number * 1000.0
        for place in range(20):
            launched = began + 60 + place * 40
            r.kernel(launched + 7, launched + 17, launched, stream=7 + place % 2)
        r.step(number, began, began + 1000)
    job = replayed(r)
    (g,), (selection,) = job.graphs, job.selections
    changed = apply(g, selection, [FEWER, HOST])
    for step in (changed.latency > -np.inf).reshape(5, -1):
        assert np.flatnonzero(step).tolist() == [0, 1]


def test_launching_a_graph_is_not_made_quicker_by_what_it_saves(launches):
    (g,), (selection,) = launches.graphs, launches.selections
    assert not launches.refused
    changed = apply(g, selection, [FEWER, HOST])
    heads = (changed.own > 0) & (np.diff(g.first) > 0)
    size = np.diff(np.append(np.flatnonzero(heads), len(g.own)))
    assert (changed.own[heads] <= GRAPH_LAUNCH + GRAPH_NODE * size).all()
    whole = Edit("scale_host", HOST.selector, {"factor": 1.0})
    assert changed.own[heads].sum() > 0.1 * apply(g, selection, [FEWER, whole]).own[heads].sum()


def test_what_several_findings_ask_for_is_done_once():
    wait = Edit("scale_host", {"cause": "data_wait"}, {"factor": 0.5})
    less = Edit("scale_host", {"cause": "data_wait"}, {"factor": 0.02, "prior": 1.0})
    slower = Edit("scale_host", {"cause": "host"}, {"factor": 1.08})
    quicker = Edit("scale_host", {"cause": "host"}, {"factor": 0.6})
    assert once([LARGER, wait, LARGER, less]) == [LARGER, less]
    assert once([slower, quicker]) == [slower, quicker]
    assert once([HALF, COMPUTE, HALF]) == [HALF, COMPUTE]
    colder = Edit("scale_device", {"class": "all"}, {"factor": 0.9})
    assert once([HALF, colder]) == [HALF, colder], "two causes of slow kernels: each leaves a part of the other's"


def long_ago() -> Recording:
    """A step that loads code for a second, and later five of 1 ms that hardly do."""
    r = Recording()
    r.call("cuModuleLoadData", 0, 900_000)
    r.kernel(900_010, 900_020, 900_003)
    r.step(0, 0, 1_000_000)
    for number in range(5):
        began = 1_000_000 + number * 1000.0
        r.call("cuModuleLoadData", began + 10, began + 20)
        for place in range(20):
            launched = began + 60 + place * 40
            r.kernel(launched + 7, launched + 17, launched)
        r.step(3 + number, began, began + 1000)
    return r


def test_what_lies_outside_of_the_replayed_steps_is_not_said_to_be_worth_little():
    job = replayed(long_ago())
    assert not job.refused
    assert job.graphs[0].numbers == (3, 4, 5, 6, 7)
    price = Replayed(job).price
    assert price([Edit("scale_host", {"cause": "compile"}, {"factor": 0.0})]) == LEFT
    assert price([HOST]) != LEFT


def test_a_first_step_that_is_left_out_does_not_make_the_others_longer():
    """Of work that was launched before the replay, and a loader that sets the pace."""
    steps = np.array([200.0, 100.0, 100.0])
    before, after = Outcome(steps, 0.1, first=1), Outcome(steps - [60, -20, -20], 0.1, first=1)
    assert no_longer(after, before).mean_ns == before.mean_ns
    longer = Outcome(steps * 1.2, 0.1, first=1)
    assert no_longer(longer, before) is longer


def test_a_gpu_that_works_off_what_was_launched_before_is_not_idle_meanwhile(launches):
    (g,), (played,) = launches.graphs, launches.base_played
    (idle,) = idle_shares(g, played)
    half = played.returned[0] + (played.returned[-1] - played.returned[0]) / 2
    later = played.began >= half
    rest = Played(played.returned, played.began[later], played.ended[later], played.marks, played.drained)
    (behind,) = idle_shares(replace(g, row=g.row[later], stream=g.stream[later], tails=np.full(1, half)), rest)
    assert behind == pytest.approx(idle, abs=0.02)


def test_what_a_quicker_host_assumes_is_not_told_as_workers_that_slow_it_down():
    slower, quicker = (Edit("scale_host", {"cause": "host"}, {"factor": left, "prior": 1.0}) for left in (1.08, 0.6))
    assert assumed([slower, quicker]) == (
        "workers make the host's own work 8% slower",
        "60% of the host's own work is left",
    )


def test_how_much_workers_slow_a_host_down_is_part_of_the_range(launches):
    wait = Edit("scale_host", {"cause": "python"}, {"factor": 0.0})
    beside = Edit("scale_host", {"cause": "host"}, {"factor": 1.08, "prior": 1.0})
    measured = replace(beside, coefficients={"factor": 1.08})
    price = Replayed(launches).price
    assumed_, known = (price([wait, edit]).step_time_mean_s for edit in (beside, measured))
    assert assumed_.likely == known.likely
    more = launches.play([wait, replace(beside, coefficients={"factor": 1.16})]).mean_ns / 1e9
    assert assumed_.high >= more > known.high


def test_a_change_that_leaves_nothing_of_the_step_is_not_priced() -> None:
    r = Recording()
    for step in range(4):
        r.step(step, 10 * step, 10 * step + 10)
        r.op("aten::mm", 10 * step, 10 * step + 10).kernel(10 * step + 9, 10 * step + 10, 10 * step, took=1)
    job = replayed(r)
    host = Edit("scale_host", {"cause": "dispatch,python"}, {"factor": 0.0})
    gpu = Edit("remove_device", {"class": "all"})
    priced = Replayed(job).price([host, gpu])
    assert isinstance(priced, str)
    assert "nothing of the step" in priced
