"""Copies to the device: their time, number and bytes, whether pageable, and what small ones cost."""

from __future__ import annotations

import pytest

from tests.traces import Recording, measured

PAGEABLE, PINNED, AMD = (f"Memcpy HtoD ({host} -> Device)" for host in ("Pageable", "Pinned", "Host"))
KIB = 1024


def two_steps():
    return Recording().step(1, 0, 100).step(2, 100, 200)


def test_time_and_bytes():
    """Two copies of 10 us in 200 us, 3 MiB over two steps; the one read back is none of them."""
    r = two_steps().copy(PAGEABLE, 0, 10, size=1 << 20).copy(PINNED, 100, 110, size=2 << 20)
    m = measured(r.copy("Memcpy DtoH (Device -> Pageable)", 150, 170).analysis())
    assert m["h2d_share"] == pytest.approx(0.1)
    assert m["h2d_bytes_per_step"] == 1.5 * (1 << 20)
    assert m["h2d_pageable_share"] == pytest.approx(0.05)


def test_bytes_outside_the_steps_are_not_theirs():
    """Optimizer.step makes two steps, 20-50-80. Copies begin at 5, 30, 60 and 90: two in two steps."""
    r = Recording().kernel(0, 1)
    for start in (10, 40, 70):
        r.range("Optimizer.step#SGD.step", start, start + 10)
    for start in (5, 30, 60, 90):
        r.copy(PINNED, start, start + 1, size=100_000)
    assert measured(r.analysis())["h2d_bytes_per_step"] == 100_000


def test_exposed_is_the_part_beside_which_no_kernel_runs():
    """The copy runs 0-50, a kernel 20-100: 20 of 200 us are exposed. Another copy beside it hides nothing."""
    r = two_steps().copy(PAGEABLE, 0, 50).kernel(20, 100).copy(PINNED, 0, 50, stream=9)
    m = measured(r.analysis())
    assert m["h2d_pageable_share"] == pytest.approx(0.25)
    assert m["h2d_pageable_exposed_share"] == pytest.approx(0.1)


@pytest.mark.parametrize("name", [AMD, "Memcpy HtoD (Managed -> Device)"])
def test_a_recording_that_does_not_say_which_memory_is_not_measured(name):
    m = measured(two_steps().copy(PAGEABLE, 0, 10).copy(name, 20, 30).analysis())
    assert m["h2d_share"] == pytest.approx(0.1)
    assert "h2d_pageable_share" not in m


def test_no_copies_is_zero():
    m = measured(two_steps().kernel(0, 10).analysis())
    assert (m["h2d_share"], m["h2d_pageable_share"], m["h2d_bytes_per_step"], m["h2d_small_per_step"]) == (0, 0, 0, 0)


@pytest.mark.parametrize(("size", "count"), [(64 * KIB, 1), (64 * KIB + 1, 0), (0, 1)])
def test_small(size, count):
    """One copy in two steps."""
    assert measured(two_steps().copy(PINNED, 0, 10, size=size).analysis())["h2d_small_per_step"] == count / 2


def test_a_copy_of_unknown_size_leaves_sizes_unknown():
    m = measured(two_steps().copy(PINNED, 0, 10, size=-1).analysis())
    assert "h2d_bytes_per_step" not in m
    assert "h2d_small_per_step" not in m


def test_what_small_copies_cost():
    """The host runs Python from 10, aten::copy_ from 20, and launches at 90; the copy runs 100-104 alone. So 90 us of
    making a tensor, and 4 of copying, of 200. Its fellow at 150-154 runs beside a kernel."""
    r = two_steps().kernel(0, 10, launched=-5).op("aten::copy_", 20, 96).copy(PAGEABLE, 100, 104, launched=90, size=8)
    r.kernel(104, 200, launched=98).copy(PAGEABLE, 150, 154, launched=120, size=8, stream=9)
    m = measured(r.analysis())
    assert m["h2d_small_lost_share"] == pytest.approx(90 / 200)
    assert m["h2d_small_exposed_share"] == pytest.approx(4 / 200)


@pytest.mark.parametrize("named", ["evaluate", "save_checkpoint", "Optimizer.step#SGD.step"])
def test_what_has_another_name_is_no_making_of_a_tensor(named):
    """Of the 90 us before the copy, 50 are in a range that says what they are."""
    r = two_steps().kernel(0, 10, launched=-5).range(named, 10, 60).op("aten::copy_", 70, 96)
    r.copy(PAGEABLE, 100, 104, launched=90, size=8).kernel(104, 200, launched=98)
    assert measured(r.analysis())["h2d_small_lost_share"] == pytest.approx(40 / 200)


def small_copy(r, at, copied, returned, size=4096):
    """A copy from pageable memory, in operators; the host waits until it has run."""
    r.op("aten::to", at, returned + 2).op("aten::copy_", at + 1, returned + 1)
    r.copy(PAGEABLE, copied, copied + 2, launched=at + 2, took=3, size=size)
    return r.call("cudaStreamSynchronize", at + 5, returned)


def test_behind_a_small_copy_that_the_host_waited_for():
    """It stands 15-60 behind a kernel and launches the next at 90: 60-62 is the copy, and 28 us of idle time follow,
    of which it would have been ahead."""
    r = small_copy(two_steps().kernel(0, 60, launched=-5), 10, 60, 64).kernel(95, 200, launched=90)
    m = measured(r.analysis())
    assert m["h2d_small_lost_share"] == pytest.approx(28 / 200)
    assert m["sync_host_share"] == 0, "no rule on waits speaks of it"


def test_no_gap_is_counted_twice():
    """Two copies. The host stands 15-60 behind the first; what it makes until the second, 62-100, is both behind the
    first and before the second: 38 us, once. The second ends the gap that it makes."""
    r = small_copy(two_steps().kernel(0, 60, launched=-5), 10, 60, 64)
    r = small_copy(r, 98, 105, 108).kernel(107, 200, launched=106)
    assert measured(r.analysis())["h2d_small_lost_share"] == pytest.approx((38 + 5) / 200)


def test_what_a_read_costs_is_not_counted_again():
    """The read stands 11-60; without it the host would be earlier by more than the 36 us that it takes until the copy.
    What is left is the launch latency of 5 us."""
    r = two_steps().kernel(0, 60, launched=-5).op("aten::item", 10, 62).call("cudaStreamSynchronize", 11, 61)
    r = small_copy(r, 94, 101, 104).kernel(103, 200, launched=102)
    m = measured(r.analysis())
    assert m["sync_scalar_lost_share"] == pytest.approx(36 / 200)
    assert m["h2d_small_lost_share"] == pytest.approx(5 / 200)


def test_what_a_checkpoint_copies_back_is_no_read():
    """10 us in the checkpoint, 20 after it, of 200."""
    r = two_steps().range("save_checkpoint", 0, 50)
    r.copy("Memcpy DtoH (Device -> Pageable)", 20, 30, launched=10)
    r.copy("Memcpy DtoH (Device -> Pageable)", 100, 120, launched=90)
    assert measured(r.analysis())["d2h_exposed_share"] == pytest.approx(0.1)
