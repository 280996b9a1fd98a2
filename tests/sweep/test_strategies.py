"""What all strategies are: found by name, told of cells, without a memory of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sweep.trials import Given, asked, ran
from whyidle.errors import WhyIdleError
from whyidle.model.trial import Cell
from whyidle.sweep.strategies import Machine, names, strategy

TWO = (Given("num_workers", ("0", "4")), Given("env:OMP_NUM_THREADS", ("1", "2")))
WORKERS, BATCH = Given("num_workers"), Given("batch_size")


def grid(parameters=TWO):
    return strategy("grid", parameters, Machine())


def test_each_is_known_by_its_name() -> None:
    assert names() == ("batch", "grid", "workers")
    fitting = {"workers": WORKERS, "batch": BATCH}
    assert [strategy(name, (one,), Machine()).name for name, one in fitting.items()] == ["workers", "batch"]
    with pytest.raises(WhyIdleError, match="no strategy is called 'bayes'") as failed:
        strategy("bayes", TWO, Machine())
    assert "workers" in failed.value.hint


def test_a_grid_is_all_combinations_in_order() -> None:
    cells = asked(grid(), lambda params: ran(params, 1.0))
    assert [tuple(cell.params.values()) for cell in cells] == [("0", "1"), ("0", "2"), ("4", "1"), ("4", "2")]
    assert grid().why(cells) == "All 4 combinations were tried."
    assert grid().why(cells[:1]) == "1 of 4 were tried."
    assert grid().most_cells == 4


def test_a_grid_has_several_run_at_a_time() -> None:
    search = grid()
    first = search.following((), ())
    second = search.following((), (first,))
    assert second == {"num_workers": "0", "env:OMP_NUM_THREADS": "2"}
    assert search.following((ran(dict(second), 1.0),), (first,)) == {"num_workers": "4", "env:OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("status", ["failed", "out of memory", "no steps", "timed out"])
def test_a_failing_cell_of_a_grid_is_a_result(status) -> None:
    cells = asked(grid(), lambda params: Cell(params, status))
    assert len(cells) == 4


@pytest.mark.parametrize("name", ["grid", "workers", "batch"])
def test_an_interrupted_cell_is_asked_for_again(name) -> None:
    search = strategy(name, (Given("size", ("4", "8")),), Machine())
    first = search.following((), ())
    for status in ("interrupted", "not run"):
        assert search.following((Cell(first, status),), ()) == first


def test_a_grid_needs_values() -> None:
    with pytest.raises(WhyIdleError, match="num_workers has no values") as failed:
        grid((WORKERS,))
    assert failed.value.hint.startswith("-p num_workers=VALUE,VALUE; --strategy workers")


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("workers", (BATCH,), "looks for the best num_workers, and -p batch_size is none"),
        ("batch", (WORKERS,), "looks for the best batch_size, and -p num_workers is none"),
        ("workers", (BATCH, Given("lr", ("1",))), "looks for the best value of one parameter"),
        ("workers", (), "looks for the best value of one parameter"),
        ("batch", (BATCH, Given("eval_batch_size", ("8",))), "looks for the best value of one parameter"),
        ("workers", (WORKERS, Given("batch_size", ("1", "2"))), "batch_size has 2 values"),
        ("workers", (WORKERS, BATCH), "batch_size has 0 values"),
        ("workers", (Given("num_workers", ("auto",)),), "num_workers has 'auto'"),
        ("workers", (Given("num_workers", ("-1",)),), "num_workers has '-1'"),
        ("batch", (Given("batch_size", ("0",)),), "whole numbers from 1 on"),
    ],
)
def test_parameters_that_a_search_cannot_use(name, parameters, message) -> None:
    with pytest.raises(WhyIdleError, match=message) as failed:
        strategy(name, parameters, Machine())
    assert "-p" in failed.value.hint or "--strategy" in failed.value.hint


def test_a_search_keeps_the_other_values_and_how_a_value_was_written() -> None:
    parameters = (Given("loader:num_workers", ("04", "8")), Given("batch_size", ("64",)))
    search = strategy("workers", parameters, Machine(cpus=8))
    assert search.following((), ()) == {"batch_size": "64", "loader:num_workers": "04"}


def test_one_parameter_is_searched_whatever_it_is_called() -> None:
    assert strategy("batch", (Given("bs", ("4",)),), Machine()).following((), ()) == {"bs": "4"}


@pytest.mark.parametrize("name", ["workers", "batch"])
def test_a_search_waits_for_the_cell_that_runs(name) -> None:
    search = strategy(name, (Given("x", ("4", "8")),), Machine())
    assert search.following((), ({"x": "4"},)) is None


def test_cells_of_another_search_do_not_count() -> None:
    search = strategy("batch", (Given("batch_size", ("4",)), Given("lr", ("1",))), Machine())
    other = ran({"batch_size": "4", "lr": "2"}, 1.0)
    assert search.following((other, replace(other, params={"batch_size": "x", "lr": "1"})), ()) == {
        "lr": "1",
        "batch_size": "4",
    }
