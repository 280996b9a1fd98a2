"""Which cell to take, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.comparison import Interval
from whyidle.model.trial import Cell
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.recommend import DOUBTFUL, MOST_GIVEN, beside, cost, recommend

GIB = 1 << 30


def parameter(name: str, *values: str) -> Parameter:
    return Parameter(name, values, "option", f"--{name}", "")


WORKERS = parameter("num_workers", "0", "2", "4", "8")


def cell(per_s: float, noise: float = 0.005, *, memory: float | None = None, **params: str) -> Cell:
    known = Interval(per_s * (1 - noise), per_s, per_s * (1 + noise))
    return Cell(
        params, "ok", throughput=known, throughput_unit="samples", steps=100, settled=True,
        peak_memory_bytes=None if memory is None else int(memory * 80 * GIB), memory_bytes=80 * GIB,
    )  # fmt: skip


def by_workers(**per_s: float) -> list[Cell]:
    return [cell(value, num_workers=name.removeprefix("w")) for name, value in per_s.items()]


def test_the_smallest_that_is_as_fast() -> None:
    cells = by_workers(w0=100, w2=200, w4=396, w8=400)
    assert recommend(cells, [WORKERS]) == (
        {"num_workers": "4"},
        "num_workers=4 is as fast as num_workers=8 to within 1.0%, for less; num_workers=2 is 49% slower.",
    )


def test_the_largest_that_was_tried_may_not_be_enough() -> None:
    params, why = recommend(by_workers(w0=100, w2=200, w4=300, w8=400), [WORKERS])
    assert params == {"num_workers": "8"}
    assert why == (
        "num_workers=8 is the fastest; num_workers=4 is 25% slower. "
        "It is the largest num_workers that was tried: a larger one may be faster still."
    )


def test_noise_is_said() -> None:
    """4% that cannot be seen are given away for half the workers, and said; 8% are not."""
    cells = [cell(96, 0.05, num_workers="4"), cell(100, 0.05, num_workers="8")]
    params, why = recommend(cells, [WORKERS])
    assert params == {"num_workers": "4"}
    assert why == "num_workers=4 is 4% slower than num_workers=8, which may be chance (±7%; --repeats 3 tells)."
    params, why = recommend([cell(92, 0.08, num_workers="4"), cell(100, 0.08, num_workers="8")], [WORKERS])
    assert params == {"num_workers": "8"}
    assert "num_workers=4 is 8% slower, which may be chance." in why


def test_two_that_cannot_be_told_apart() -> None:
    """Two runs each may leave an interval of 100%: that 8% are slower says nothing, and the cheaper one is taken."""
    cells = [replace(cell(92, 0.9, num_workers="0"), runs=2), replace(cell(100, 0.9, num_workers="1"), runs=2)]
    params, why = recommend(cells, [WORKERS])
    assert params == {"num_workers": "0"}
    assert why.startswith("Cannot tell which is faster, num_workers=0 or num_workers=1: num_workers=0 is 8% slower")
    assert why.endswith("Take num_workers=0, the cheaper one; --repeats 4 may tell.")
    far, _ = recommend([cell(25, 0.9, num_workers="0"), cell(100, 0.9, num_workers="1")], [WORKERS])
    assert far == {"num_workers": "1"}


def test_a_batch_size_that_waits_for_its_loader() -> None:
    sizes = [replace(cell(100 + size, batch_size=str(size)), data_wait_share=0.8) for size in (16, 32)]
    params, why = recommend(sizes, [parameter("batch_size")], is_over=False)
    assert params == {"batch_size": "32"}
    assert "waits for data 80% of its time: the loader is the limit" in why
    assert why.endswith("It is the largest batch_size that was tried: a larger one may be faster still.")
    assert "the largest" not in recommend(sizes, [parameter("batch_size")])[1]


def test_a_batch_that_fills_the_memory_is_not_taken() -> None:
    batches = parameter("batch_size", "32", "64", "128")
    cells = [
        cell(100, memory=0.3, batch_size="32"), cell(150, memory=0.5, batch_size="64"),
        cell(170, memory=0.94, batch_size="128"), Cell({"batch_size": "256"}, "out of memory"),
    ]  # fmt: skip
    params, why = recommend(cells, [batches])
    assert params == {"batch_size": "64"}
    assert "batch_size=128 is faster, but fills 94% of the GPU's memory." in why
    assert "`whyidle compare`" in why


def test_several_parameters() -> None:
    """Fewer workers count more than less memory, and that more than the order of the values."""
    compiled = parameter("torch:compile", "off", "on")
    cells = [
        cell(300, num_workers="8", **{"torch:compile": "off"}), cell(298, num_workers="4", **{"torch:compile": "on"}),
        cell(299, num_workers="4", **{"torch:compile": "off"}), cell(200, num_workers="2", **{"torch:compile": "on"}),
    ]  # fmt: skip
    assert recommend(cells, [WORKERS, compiled])[0] == {"num_workers": "4", "torch:compile": "off"}


def test_the_next_best_goes_by_its_rate() -> None:
    """Of the cheaper cells the fastest is named, not the one that costs nearly as much as the chosen."""
    batch = parameter("batch_size", "8", "16")
    rates = {("0", "8"): 40.0, ("0", "16"): 60.7, ("1", "8"): 53.9, ("1", "16"): 122.0}
    cells = [cell(rate, num_workers=workers, batch_size=size) for (workers, size), rate in rates.items()]
    params, why = recommend(cells, [WORKERS, batch])
    assert params == {"num_workers": "1", "batch_size": "16"}
    assert why.startswith("num_workers=1 batch_size=16 is the fastest; num_workers=0 batch_size=16 is 50% slower.")


def test_nothing_to_recommend() -> None:
    assert recommend([], [WORKERS]) == (None, "Nothing to recommend: no cell gave a throughput.")
    assert recommend([Cell({"num_workers": "0"}, "failed")], [WORKERS])[0] is None
    full = [cell(100, memory=0.95, num_workers="0")]
    assert "fills its GPU's memory" in recommend(full, [WORKERS])[1]


def test_cells_that_had_too_little_time() -> None:
    late = [Cell({"num_workers": n}, "timed out", why="no step in --cell-time 15 s", seconds=15.2) for n in "02"]
    why = recommend(late, [WORKERS])[1]
    assert why == (
        "Nothing to recommend: no cell gave a throughput. Each cell ended with no step in --cell-time 15 s, and may "
        "still have been importing, downloading or compiling: give them longer, --cell-time 1m for instance."
    )
    some = recommend([*late, Cell({"num_workers": "4"}, "failed")], [WORKERS])[1]
    assert "2 of 3 cells ended with no step" in some


def test_the_only_one() -> None:
    cells = [cell(100, num_workers="0"), Cell({"num_workers": "2"}, "failed")]
    assert recommend(cells, [WORKERS])[1] == "num_workers=0 is the only one that gave a throughput."
    assert recommend(cells[:1], [WORKERS]) == ({"num_workers": "0"}, "num_workers=0 is the only one that was run.")
    nothing = (None, "Nothing to compare num_workers=0 with: no other cell was run.")
    assert recommend(cells[:1], [WORKERS], is_over=False) == nothing


@given(st.lists(st.tuples(st.integers(0, 64), st.floats(1, 1e6), st.floats(0, 0.5)), min_size=1, max_size=12))
def test_never_much_slower_than_the_best_and_never_dearer_than_it(told: list[tuple[int, float, float]]) -> None:
    cells = [cell(per_s, noise, num_workers=str(workers)) for workers, per_s, noise in told]
    values = parameter("num_workers", *dict.fromkeys(str(workers) for workers, _, _ in told))
    params, why = recommend(cells, [values])
    best = max(cells, key=lambda one: one.throughput.likely if one.throughput else 0)
    taken = [one for one in cells if one.params == params and beside(one, best).is_as_good]
    assert taken
    untold = why.startswith("Cannot tell")
    assert max(beside(one, best).likely for one in taken) >= 1 - (MOST_GIVEN if untold else DOUBTFUL)
    assert min(cost(one, [values]) for one in taken) <= cost(best, [values])
    text = f"num_workers={params and params['num_workers']}"
    assert why.startswith(f"{text} is") or (why.startswith("Cannot tell") and f"Take {text}, the cheaper one" in why)


@pytest.mark.parametrize("throughput", [None, Interval(0.0, 100.0, float("inf"))])
def test_what_is_hardly_known(throughput: Interval | None) -> None:
    one = Cell({"num_workers": "0"}, "ok", throughput=throughput)
    cells = [one, cell(200, num_workers="4")]
    assert recommend(cells, [WORKERS])[0] == {"num_workers": "4"}


def test_what_did_not_run_as_asked_is_not_taken() -> None:
    cells = by_workers(w0=100.0, w4=300.0, w8=400.0)
    workers, eight, four = parameter("num_workers", "0", "4", "8"), {"num_workers": "8"}, {"num_workers": "4"}
    assert recommend(cells, [workers], [eight])[0] == four
    taken, why = recommend(cells, [workers], [eight, four])
    text = "Nothing to recommend: only num_workers=0 ran with its values, the others did not get theirs."
    assert (taken, why) == (None, text)
    taken, why = recommend(cells, [workers], [cell.params for cell in cells])
    assert (taken, why) == (None, "Nothing to recommend: no job got the values that it was to be tried with.")
