"""What Optimizer.step costs: launches, the idle time before them, and kernels of one tensor each."""

from __future__ import annotations

import pytest

from tests.traces import Recording, measured

SINGLE = "void at::native::vectorized_elementwise_kernel<4, at::native::sqrt_functor<float>, std::array<char*, 2ul> >"
MANY = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float> >"


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


def test_kernels_of_one_tensor_each():
    """In Optimizer.step two that treat one tensor, of 4 and 6 us, and one that treats many; another one is outside."""
    r = Recording().step(1, 0, 100).range("Optimizer.step#AdamW.step", 20, 60)
    for launched, length, name in ((22, 4, SINGLE), (32, 6, SINGLE), (42, 8, MANY), (70, 9, SINGLE)):
        r.kernel(launched + 5, launched + 5 + length, launched=launched, name=name)
    m = measured(r.analysis())
    assert m["optimizer_launches_per_step"] == 3
    assert m["optimizer_tensorwise_per_step"] == 2
    assert m["optimizer_tensorwise_share"] == pytest.approx(10 / 100)


def test_idle_time_before_what_it_launches():
    """The GPU works 0-30, 36-40, 41-50 and 70-100. The second kernel is launched late, at 31, in the step: 5 us under
    way. The third was launched in time: a pause of 1 us. The last is launched at 63, after the step: not the
    optimizer's."""
    r = Recording().step(1, 0, 100).kernel(0, 30, launched=-5).range("Optimizer.step#AdamW.step", 28, 55)
    r.kernel(36, 40, launched=31, took=3).kernel(41, 50, launched=35, took=3).kernel(70, 100, launched=63)
    m = measured(r.analysis())
    assert m["optimizer_latency_share"] == pytest.approx(5 / 100)
    assert m["optimizer_kernel_gap_share"] == pytest.approx(1 / 100)
    assert m["idle_optimizer_host_share"] == pytest.approx((1 + 5) / 100), "30-31, and 50-55 before it ends"


def test_without_an_optimizer_nothing_is_measured():
    m = measured(Recording().step(1, 0, 100).kernel(10, 20, launched=5).analysis())
    assert not [name for name in m if name.startswith("optimizer_")]


def test_the_optimizer_is_the_one_that_takes_longest():
    r = Recording().range("Optimizer.step#SGD.step", 0, 30).range("Optimizer.step#Shampoo.step", 40, 60)
    r.range("Optimizer.step#Shampoo.step", 70, 95).kernel(0, 10)
    assert measured(r.analysis())["optimizer"] == "Shampoo"
    assert "optimizer" not in measured(
        Recording().range("Optimizer.zero_grad#A.zero_grad", 0, 1).kernel(0, 9).analysis()
    )
