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


FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1>>"


def zeroing(mark="range", count=3):
    """Two steps of 100 us with a backward pass, then fills of 1 us; 40-80 of each the GPU idles but for these."""
    r = Recording()
    for step in (0, 100):
        r.step(step // 100, step, step + 100).op("AddmmBackward0", step + 1, step + 5, thread="1/2")
        r.kernel(step, step + 40, launched=step - 5)
        if mark == "range":
            r.range("Optimizer.zero_grad#SGD.zero_grad", step + 40, step + 75)
        for place in range(count):
            at = step + 45 + 10 * place
            r.op("aten::zero_", at, at + 6).op("aten::fill_", at + 1, at + 6)
            r.kernel(at + 5, at + 6, launched=at + 4, took=1, name=FILL)
        r.kernel(step + 80, step + 100, launched=step + 79, took=1)
    return r


def test_what_setting_gradients_to_zero_costs():
    """Of 35 us in the range three fills of 1 us run, and each launch takes 1 us; a fourth launch is outside."""
    m = measured(zeroing().analysis())
    assert m["zero_grad_fills_per_step"] == 3
    assert m["zero_grad_share"] == pytest.approx(6 / 200)
    assert m["idle_launch_latency_share"] == pytest.approx(8 / 200)
    assert m["idle_zero_grad_share"] == m["idle_optimizer_host_share"] == pytest.approx(2 * (35 - 3 - 3) / 200)


def test_without_a_range_the_operators_that_zero_a_tensor_by_themselves_count():
    """Up to its launch each stands for 4 us; what zeros() calls, and what the backward pass zeroes, is none."""
    r = zeroing(mark="none").op("aten::zeros", 5, 9).op("aten::zero_", 6, 8).op("aten::zero_", 2, 3, thread="1/2")
    m = measured(r.kernel(7, 8, launched=7, took=1, stream=9).analysis())
    assert m["zero_grad_fills_per_step"] == 3
    assert m["idle_zero_grad_share"] == pytest.approx(2 * 3 * 4 / 200)


def test_dropping_gradients_launches_nothing():
    m = measured(zeroing(count=0).analysis())
    assert m["zero_grad_fills_per_step"] == m["zero_grad_share"] == 0
    assert m["idle_zero_grad_share"] > 0


def test_without_a_backward_pass_nothing_is_known_of_gradients():
    assert "zero_grad_share" not in measured(Recording().op("aten::zero_", 0, 5).kernel(5, 6, launched=4).analysis())


def test_without_operators_a_late_launch_is_still_late():
    """Nothing is known of what the host did from 100 to 280, but that it launched only then."""
    r = Recording().kernel(0, 100, launched=-5).kernel(300, 400, launched=280)
    assert measured(r.analysis())["launch_bound_share"] == pytest.approx(200 / 400)


def test_the_usual_pauses_between_kernels():
    """Pauses of 1 and 12 us between queued kernels: 1 and 2.5 us are what any GPU takes. A late launch is no pause."""
    r = Recording().kernel(0, 20, launched=-20).kernel(21, 40, launched=-15).kernel(52, 80, launched=-10)
    m = measured(r.kernel(95, 100, launched=90).analysis())
    assert m["idle_kernel_gap_share"] == pytest.approx(13 / 100)
    assert m["usual_kernel_gap_share"] == pytest.approx(3.5 / 100)
