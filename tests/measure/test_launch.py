"""Launches, kernel sizes, and what idles because the host launches slowly."""

from __future__ import annotations

import pytest

from tests.traces import Recording, measured


def test_launches_per_step():
    """Five launches in two steps, of which a graph's two kernels are one; two after them do not count."""
    r = Recording().step(1, 0, 100).step(2, 100, 200)
    for start in (10, 50, 110, 150):
        r.kernel(start, start + 5, launched=start - 2)
    r.kernel(170, 175, launched=168, call="cudaGraphLaunch").kernel(176, 180)
    r.device[-1] = (*r.device[-1][:6], r.correlation - 1, *r.device[-1][7:])
    r.kernel(250, 251, launched=240).kernel(260, 261, launched=259)
    assert measured(r.analysis())["launches_per_step"] == 2.5


@pytest.mark.parametrize("missing", ["steps", "launches"])
def test_launches_need_steps_and_calls(missing):
    r = Recording() if missing == "steps" else Recording().step(1, 0, 100)
    r.kernel(10, 20, launched=None if missing == "launches" else 5)
    assert "launches_per_step" not in measured(r.analysis())


def test_kernel_sizes():
    """4, 9.999, 10 and 40 us: median 9.9995, mean 15.99975, two of four below 10. A copy is no kernel."""
    r = Recording().kernel(0, 4).kernel(10, 19.999).kernel(20, 30).kernel(40, 80)
    m = measured(r.copy("Memcpy HtoD (Pinned -> Device)", 80, 81).analysis())
    assert m["kernel_median_s"] == pytest.approx(9.9995e-6)
    assert m["kernel_mean_s"] == pytest.approx(15.99975e-6)
    assert m["kernel_short_share"] == 0.5


def test_optimizer_launches_per_step():
    """Three launches inside Optimizer.step in two steps; the one at 60 is outside, and zero_grad is no step."""
    r = Recording().step(1, 0, 100).step(2, 100, 200).range("Optimizer.zero_grad#SGD.zero_grad", 55, 65)
    for start in (20, 120):
        r.range("Optimizer.step#SGD.step", start, start + 20)
    for start in (25, 35, 60, 125):
        r.kernel(start + 1, start + 2, launched=start, took=0.5)
    assert measured(r.analysis())["optimizer_launches_per_step"] == 1.5


def test_launches_of_a_closure_are_not_the_optimizers():
    r = Recording().step(1, 0, 100).range("Optimizer.step#AdamW.step", 10, 90).op("AddmmBackward0", 30, 50)
    r.kernel(41, 42, launched=40)
    assert "optimizer_launches_per_step" not in measured(r.analysis())


@pytest.mark.parametrize(("gap", "which"), [(999, "launch_bound_share"), (1001, "host_stall_share")])
def test_short_gaps_are_launching_long_ones_are_other_work(gap, which):
    """An operator fills the gap up to the launch, 10 us before its end; latency counts in short gaps only."""
    r = Recording().kernel(0, 100, launched=-10).op("aten::add", 90, 100 + gap)
    r.kernel(100 + gap, 200 + gap, launched=90 + gap)
    m = measured(r.analysis())
    short = gap if which == "launch_bound_share" else 0
    assert m["launch_bound_share"] == pytest.approx(short / (200 + gap))
    assert m["host_stall_share"] == pytest.approx((gap - 10) / (200 + gap) if not short else 0)


def test_launch_latency_is_that_of_idle_streams():
    """Three late launches with 4, 6 and 20 us to go; one launched ahead does not count."""
    r = Recording().kernel(0, 10, launched=-5).kernel(100, 110, launched=96).kernel(200, 210, launched=194)
    r.kernel(300, 310, launched=280).kernel(311, 320, launched=282)
    assert measured(r.analysis())["launch_latency_s"] == pytest.approx(6e-6)


def test_garbage_collections_need_stacks():
    r = Recording().kernel(0, 10).python("train.py(3): main", 0, 100)
    assert measured(r.analysis())["gc_pauses"] == 0
    assert measured(r.python("<built-in function collect>", 20, 40).analysis())["gc_pauses"] == 1
    r.range("gc.collect", 18, 42)
    assert measured(r.analysis())["gc_pauses"] == 1
    assert measured(Recording().kernel(0, 10).range("gc.collect", 20, 40).analysis())["gc_pauses"] == 1
    assert "gc_pauses" not in measured(Recording().kernel(0, 10).analysis())
