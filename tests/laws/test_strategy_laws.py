"""What holds for a search whatever its cells say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sweep.trials import Given, asked, values
from whyidle.model.comparison import Interval
from whyidle.model.trial import Cell
from whyidle.sweep.strategies import Machine, strategy
from whyidle.sweep.strategies.workers import PROBES

SECONDS = st.none() | st.floats(1e-5, 1e3)
SHARE = st.none() | st.floats(0.0, 1.0)
BYTES = st.none() | st.integers(0, 2**45)
LIMITS = st.sampled_from([(1.0, 1.0), (0.9, 1.1), (0.0, float("inf"))])


@st.composite
def outcomes(draw) -> Cell:
    """What a job may give: anything."""
    status = draw(st.sampled_from(["ok", "ok", "ok", "failed", "out of memory", "timed out", "no steps"]))
    step, (low, high) = draw(SECONDS), draw(LIMITS)
    mean = None if step is None else Interval(step * low, step, step * high)
    return Cell(
        {}, status, step_time_mean_s=mean, throughput=draw(st.sampled_from([None, mean])),
        throughput_unit=draw(st.sampled_from(["samples", "steps"])), data_wait_share=draw(SHARE),
        fetch_s=draw(SECONDS), fetch_cv=draw(st.none() | st.floats(0.0, 10.0)), fetch_cpu_s=draw(SECONDS),
        cpu_busy_share=draw(SHARE), io_wait_share=draw(SHARE), peak_host_memory_bytes=draw(BYTES),
        peak_memory_bytes=draw(BYTES), memory_bytes=draw(BYTES),
    )  # fmt: skip


MACHINES = st.builds(
    Machine,
    cpus=st.none() | st.floats(0.5, 40.0),
    ranks=st.integers(1, 8),
    memory_bytes=BYTES,
    shm_bytes=BYTES,
)
WHICH = st.lists(st.integers(1, 40).map(str), max_size=5).map(tuple)


def play(name: str, numbers: tuple[str, ...], machine: Machine, given_back: list[Cell]) -> list[Cell]:
    """What is asked for where every job gives what was drawn for its value."""

    def measure(params: dict[str, str]) -> Cell:
        return replace(given_back[int(params["x"]) % len(given_back)], params=params)

    return asked(strategy(name, (Given("x", numbers),), machine), measure)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["workers", "batch"]), WHICH, MACHINES, st.lists(outcomes(), min_size=1, max_size=7))
def test_a_search_ends_within_what_it_says_and_never_asks_twice(name, numbers, machine, given_back) -> None:
    cells = play(name, numbers, machine, given_back)
    search = strategy(name, (Given("x", numbers),), machine)
    assert len(cells) <= search.most_cells
    assert len(set(values(cells, "x"))) == len(cells)
    assert search.why(cells).endswith(".")
    if name == "workers":
        assert len(cells) <= PROBES
        most = 16 if machine.cpus is None else max(int(machine.cpus / machine.ranks), 1)
        assert all(str(value) in numbers if numbers else value <= most for value in values(cells, "x"))
    elif len(set(numbers)) > 1:
        assert all(str(value) in numbers for value in values(cells, "x"))


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["workers", "batch"]), WHICH, MACHINES, st.lists(outcomes(), min_size=1, max_size=7))
def test_a_search_that_was_interrupted_goes_on_as_it_would_have(name, numbers, machine, given_back) -> None:
    cells = play(name, numbers, machine, given_back)
    for done in range(len(cells)):
        # another process: told of what is finished, in any order, and of the one that was not
        before = [*reversed(cells[:done]), replace(cells[done], status="interrupted")]
        assert strategy(name, (Given("x", numbers),), machine).following(before, ()) == cells[done].params
