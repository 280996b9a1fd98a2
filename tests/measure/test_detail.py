"""The tables behind the numbers: kernels, operators by self time, copies, kernel sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import AUTOGRAD, MAIN, US, Recording
from whyidle.measure.detail import LISTED, detail
from whyidle.model.intervals import union


def details(*recordings):
    return detail([r.analysis() for r in recordings])


def rows(items):
    return [(item.name, item.calls, pytest.approx(item.total_s * 1e6), pytest.approx(item.share)) for item in items]


def test_kernels_by_time():
    """a: 10 + 20 us, b: 60 us, and a copy, which is device time too: 10 of 100 us."""
    r = Recording().kernel(0, 10, name="a").kernel(10, 30, name="a").kernel(30, 90, name="b")
    found = details(r.copy("Memcpy HtoD (Pinned -> Device)", 90, 100)).kernels
    assert rows(found) == [("b", 1, 60, 0.6), ("a", 2, 30, 0.3), ("Memcpy HtoD (Pinned -> Device)", 1, 10, 0.1)]


def test_ranks_are_added_up():
    found = details(Recording().kernel(0, 10, name="a"), Recording().kernel(0, 30, name="a").kernel(30, 70, name="b"))
    assert rows(found.kernels) == [("a", 2, 40, 0.5), ("b", 1, 40, 0.5)]


def test_the_list_ends():
    r = Recording()
    for i in range(LISTED + 5):
        r.kernel(i * 10, i * 10 + 5, name=f"k{i}")
    assert len(details(r).kernels) == LISTED


def test_operators_by_self_time():
    """linear 0-100 holds addmm 10-90, which holds copy_ 20-30: 20, 70 and 10 us. Another thread has its own."""
    r = Recording().kernel(0, 1).op("linear", 0, 100).op("addmm", 10, 90).op("copy_", 20, 30)
    found = details(r.op("copy_", 0, 100, AUTOGRAD).range("step", 0, 100)).operators
    assert rows(found) == [("copy_", 2, 110, 0.55), ("addmm", 1, 70, 0.35), ("linear", 1, 20, 0.1)]


@st.composite
def nested(draw, low=0, high=300, depth=3):
    edges = sorted(draw(st.lists(st.integers(low, high), min_size=2, max_size=8, unique=True)))
    slices = []
    for start, end in zip(edges[::2], edges[1::2], strict=False):
        slices.append((start, end))
        if depth and end - start > 1:
            slices += draw(nested(start, end, depth - 1))
    return slices


@given(nested(), nested())
def test_self_times_sum_to_the_time_in_operators(main, other):
    """On operators that nest, those that start or end together among them, nothing is lost or counted twice."""
    r = Recording().kernel(0, 1)
    for thread, slices in ((MAIN, main), (AUTOGRAD, other)):
        for i, (start, end) in enumerate(slices):
            r.op(f"op{i % 5}", start, end, thread)
    a = r.analysis()
    covered = 0
    for thread in (0, 1):
        mine = a.t.host.thread == thread
        covered += union(a.t.host.start[mine], a.t.host.end[mine]).total
    assert sum(item.total_s for item in detail([a]).operators) * 1e9 == pytest.approx(covered)


@pytest.mark.parametrize(
    ("name", "kind", "pinned"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", True),
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", False),
        ("Memcpy HtoD (Host -> Device)", "HtoD", None),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", True),
        ("Memcpy DtoH (Device -> Pageable)", "DtoH", False),
        ("Memcpy DtoD (Device -> Device)", "DtoD", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", None),
    ],
)
def test_copies_by_kind(name, kind, pinned):
    """Two copies of 1000 and 500 B, 10 us each, of 100 us."""
    r = Recording().kernel(0, 80).copy(name, 80, 90, size=1000).copy(name, 90, 100, size=500)
    (row,) = details(r).copies
    assert (row.kind, row.pinned, row.count, row.bytes) == (kind, pinned, 2, 1500)
    assert row.total_s == pytest.approx(20e-6)
    assert row.share == pytest.approx(0.2)


def test_copies_of_an_unknown_size_have_no_sum():
    r = Recording().copy("Memcpy DtoD (Device -> Device)", 0, 10, size=-1)
    (row,) = details(r.copy("Memcpy DtoD (Device -> Device)", 10, 20, size=5)).copies
    assert row.bytes is None


def test_kernel_sizes():
    """An edge belongs to the bar above it: 5 us to 5-10. Copies are no kernels."""
    r = Recording().kernel(0, 4.999).kernel(10, 15).kernel(20, 29.999).kernel(30, 1030).kernel(2000, 12000)
    bars = details(r.copy("Memcpy HtoD (Pinned -> Device)", 0, 7)).kernel_sizes
    assert [bar.count for bar in bars] == [1, 2, 0, 0, 0, 0, 2]
    assert [bar.above_s for bar in bars] == [0, 5e-6, 10e-6, 20e-6, 50e-6, 100e-6, 1e-3]
    assert [bar.below_s for bar in bars] == [5e-6, 10e-6, 20e-6, 50e-6, 100e-6, 1e-3, None]
    assert sum(bar.total_s for bar in bars) * 1e9 == pytest.approx(sum([4999, 5 * US, 9999, 1000 * US, 10000 * US]))
