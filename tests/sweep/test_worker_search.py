"""How many workers, in small cases whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sweep.trials import Given, about, asked, loaded, ran, values
from whyidle.model.trial import Cell
from whyidle.sweep.strategies import Machine, strategy
from whyidle.sweep.strategies.workers import ladder

BIG = Machine(cpus=64.0)


def search(*given: str, machine: Machine = BIG):
    return strategy("workers", (Given("num_workers", given),), machine)


def tried(measure, *given: str, machine: Machine = BIG) -> list[int]:
    return values(asked(search(*given, machine=machine), measure, most=4), "num_workers")


def of(own: float, making: float, **more):
    return lambda params: loaded(int(params["num_workers"]), own, making, **more)


def test_the_second_cell_is_what_the_loop_says_is_enough() -> None:
    # a batch takes 1.2 s, the training 0.1 s: 12 workers at work all the time, some more as batches are unequal
    numbers = tried(of(0.1, 1.2))
    assert numbers[0] == 4
    assert 12 <= numbers[1] <= 15
    assert len(numbers) <= 3


def test_where_nothing_waits_fewer_are_tried() -> None:
    numbers = tried(of(0.1, 0.05))
    assert numbers == [4, 1]
    cells = asked(search(), of(0.1, 0.05))
    assert search().why(cells) == "With 1 worker the training waits for data 0.0% of its time: more cannot help."


def test_a_batch_that_costs_less_than_its_hand_over_needs_no_worker() -> None:
    assert tried(of(0.1, 0.001)) == [4, 0]


def test_only_values_that_were_given() -> None:
    assert set(tried(of(0.1, 1.2), "0", "4", "8", "16")) <= {0, 4, 8, 16}
    assert 16 in tried(of(0.1, 1.2), "0", "4", "8", "16")


def test_never_more_than_a_process_has_cpus() -> None:
    numbers = tried(of(0.1, 30.0), machine=Machine(cpus=32.0, ranks=4))
    assert max(numbers) == 8


def test_storage_that_is_full_is_the_limit() -> None:
    # four workers get all there is; the loop would have twelve
    measure = of(0.1, 1.2, floor=0.3, io_wait_share=0.9, fetch_cpu_s=0.12, cpu_busy_share=0.2)
    cells = asked(search(), measure)
    assert values(cells, "num_workers")[:2] == [4, 12]
    assert len(cells) <= 4
    assert search().why(cells).startswith("Storage is the limit: workers wait for it 90% of their time")


def test_workers_that_take_the_cpus_of_the_training() -> None:
    cells = [loaded(4, 0.1, 0.6, io_wait_share=0.9), loaded(8, 0.18, 0.6, io_wait_share=0.9)]
    assert search().why(cells) == (
        "The training shares CPUs with its workers: its own work takes 100 ms a step beside 4 workers, 180 ms beside 8."
    )


def test_of_steps_that_vary_no_limit_is_told() -> None:
    cells = [loaded(4, 0.1, 0.6, io_wait_share=0.9), loaded(8, 0.1, 0.6, floor=0.16, io_wait_share=0.9)]
    assert "Storage is the limit" in search().why(cells)
    cells[1] = replace(cells[1], step_time_mean_s=about(0.16, 0.4))
    assert search().why(cells).startswith("More workers are not seen to help, in cells whose steps vary too much")


def test_cpus_that_are_full_are_the_limit() -> None:
    machine = Machine(cpus=4.0)
    cells = asked(search(machine=machine), of(0.1, 1.2, cpu_busy_share=0.97))
    assert search(machine=machine).why(cells).startswith("The CPUs are the limit: 97% busy at 4 workers")
    assert "transforms on the GPU would" in search(machine=machine).why(cells)


def test_the_most_there_is_may_not_be_enough() -> None:
    """Workers that compute are no more than the CPUs; of those that mostly wait more are tried, up to a bound."""
    machine = Machine(cpus=4.0)
    assert values(asked(search(machine=machine), of(0.1, 1.2, io_wait_share=0.1)), "num_workers")[-1] == 4
    cells = asked(search(machine=machine), of(0.1, 1.2, fetch_cpu_s=0.1, io_wait_share=0.9))
    assert values(cells, "num_workers")[-1] == 12
    machine = Machine(cpus=2.0)
    cells = asked(search(machine=machine), of(0.1, 1.2, fetch_cpu_s=0.1, io_wait_share=0.9))
    assert search(machine=machine).why(cells) == (
        "8 workers are the most that are tried for these CPUs, and a wait of 33% is left: "
        "workers mostly wait, for storage say, so that more may help, -p num_workers=8,16."
    )


@pytest.mark.parametrize("present", ["0", "3", "20"])
def test_the_present_number_is_first(present) -> None:
    """So that all others stand beside what the job does now; the others find what they find without it."""
    now = strategy("workers", (Given("num_workers", (), present),), Machine(cpus=16.0))
    cells = asked(now, of(0.1, 0.55))
    assert values(cells, "num_workers")[0] == int(present)
    assert min(cells, key=lambda cell: cell.step_time_mean_s.likely).step_time_mean_s.likely <= 0.102
    assert len(cells) <= 4
    given = strategy("workers", (Given("num_workers", ("2", "4"), present),), Machine(cpus=16.0))
    assert set(values(asked(given, of(0.1, 0.55)), "num_workers")) <= {2, 4}


def test_workers_whose_memory_the_host_has_not_are_not_tried() -> None:
    # each worker takes 10 GiB, of 128: 10 are the most, with a fifth left to others
    def measure(params):
        workers = int(params["num_workers"])
        return loaded(workers, 0.1, 3.0, peak_host_memory_bytes=(workers + 1) * 10 * 2**30)

    machine = Machine(cpus=64.0, memory_bytes=128 * 2**30)
    numbers = tried(measure, machine=machine)
    assert max(numbers) == 9
    cells = asked(search(machine=machine), measure)
    assert search(machine=machine).why(cells) == "More workers would not fit into the host's memory."


def test_where_workers_fail_fewer_are_tried() -> None:
    def measure(params):
        workers = int(params["num_workers"])
        return loaded(workers, 0.1, 1.2) if workers < 8 else Cell(params, "failed", why="Bus error")

    machine = Machine(cpus=64.0, shm_bytes=64 * 2**20)
    cells = asked(search(machine=machine), measure)
    assert values(cells, "num_workers") == [4, 12, 8, 6]
    assert "At 8 workers the job fails; /dev/shm has 64 MiB (docker run --shm-size=8g)." in search(machine=machine).why(
        cells
    )


@pytest.mark.parametrize("status", ["failed", "no steps", "out of memory"])
def test_two_cells_without_a_number_end_it(status) -> None:
    assert tried(lambda params: Cell(params, status)) == [4, 2]
    assert search().why([Cell({"num_workers": "4"}, status)]) == "No number of workers gave a step time."


def test_without_any_wait_or_time_of_a_batch_throughput_leads() -> None:
    def measure(params):
        workers = int(params["num_workers"])
        return ran(params, max(0.1, 1.2 / max(workers, 1)))

    assert tried(measure) == [4, 8, 16, 33]


def test_throughput_alone_leads_down_too() -> None:
    assert tried(lambda params: ran(params, 0.1 + 0.01 * int(params["num_workers"])))[:4] == [4, 8, 2, 1]


def test_unequal_batches_ask_for_more_ahead() -> None:
    # four workers would be enough in the mean, and wait 30% as batches differ
    cell = replace(loaded(4, 0.1, 0.32, fetch_cv=1.0), data_wait_share=0.3)
    slow = replace(cell, step_time_mean_s=ran({}, 0.143).step_time_mean_s)
    assert "prefetch_factor=" in search("4").why([slow])
    assert "prefetch_factor" not in search("4").why([replace(slow, fetch_cv=0.2)])


def test_the_ladder_is_every_number_at_first() -> None:
    assert ladder(2) == (0, 1, 2)
    assert ladder(12) == tuple(range(13))
    assert ladder(64)[-1] == 64
    assert all(b <= a * 9 / 8 + 1 for a, b in zip(ladder(64)[1:], ladder(64)[2:], strict=False))
