"""Waiting for data: the DataLoader's part and that of the user's own ranges."""

from __future__ import annotations

import pytest

from tests.traces import Recording, measured

IN_PROCESS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def steps(*spans, name=IN_PROCESS):
    """Steps of 100 us with a kernel in their second half, launched at 45; in each the loader works for so long."""
    r = Recording().op("aten::add", 0, 0.5)
    for number, length in enumerate(spans):
        start = number * 100
        r.step(number, start, start + 100).kernel(start + 50, start + 100, launched=start + 45)
        if length:
            r.range(name, start, start + length)
    return r


def test_the_loaders_wait():
    """10 and 40 us of loading, all of it idle, in 200 us. The first batch is a fifth of it."""
    m = measured(steps(10, 40, name=WORKERS).analysis())
    assert m["data_wait_share"] == pytest.approx(0.25)
    assert m["idle_loader_workers_share"] == pytest.approx(0.25)
    assert m["idle_loader_zero_share"] == 0
    assert m["loader_batches_per_step"] == 1
    assert m["loader_first_wait_share"] == pytest.approx(0.2)


def test_loading_while_the_gpu_works_is_a_wait_but_no_idle_time():
    m = measured(steps(0).range(IN_PROCESS, 60, 90).analysis())
    assert m["data_wait_share"] == pytest.approx(0.3)
    assert m["idle_loader_zero_share"] == 0
    assert m["loader_first_wait_share"] == 0, "nothing was waited for"


@pytest.mark.parametrize(
    ("waits", "count", "share"),
    [
        ([40, 1, 1, 30, 1, 1, 35, 1], 3, 105 / 110),  # epochs of three batches
        ([40, 1, 1, 30, 1, 1, 1, 35], 1, 40 / 110),  # not even
        ([40, 1, 1, 15, 1, 1, 15, 1], 1, 40 / 75),  # shorter than half the first
        ([40, 1, 1, 90, 1, 1, 40, 1], 1, 40 / 130),  # longer than twice the first; the GPU idles for 45 of it
        ([40, 1, 40, 1, 40, 1, 40, 1], 1, 40 / 164),  # every other batch is no epoch
        ([40, 1, 1, 1, 1, 1, 1, 1], 1, 40 / 47),
    ],
)
def test_waits_like_the_first_that_recur_evenly(waits, count, share):
    m = measured(steps(*waits, name=WORKERS).analysis())
    assert m["loader_start_waits"] == count
    assert m["loader_start_wait_share"] == pytest.approx(share)


def test_idle_time_is_told_by_the_loader_that_it_was_spent_in():
    """Training loads with workers and is late by 40 us of 200; validation reads 5 us in the process itself."""
    m = measured(steps(0, 40, name=WORKERS).range(IN_PROCESS, 0, 5).analysis())
    assert m["idle_loader_workers_share"] == pytest.approx(0.2)
    assert m["idle_loader_zero_share"] == pytest.approx(0.025)
    assert "loader_first_wait_share" not in m, "one batch of the workers is no first of several"


@pytest.mark.parametrize("fetched_by", ["zero", "workers"])
def test_frames_show_who_loads_by_where_the_samples_are_fetched(fetched_by):
    """Without ranges: a loader that fetches inside its own `__next__`, in the thread that asks, has no workers."""
    r = steps(0, 0).python("torch/utils/data/dataloader.py(701): __next__", 0, 20)
    if fetched_by == "zero":
        r.python("torch/utils/data/_utils/fetch.py(50): fetch", 2, 18)
    m = measured(r.analysis())
    assert m["data_wait_share"] == pytest.approx(0.1)
    other = {"zero": "workers", "workers": "zero"}[fetched_by]
    assert m[f"idle_loader_{fetched_by}_share"] == pytest.approx(0.1)
    assert m[f"idle_loader_{other}_share"] == 0


def test_the_users_own_range():
    m = measured(steps(30, name="load_batch").analysis())
    assert m["idle_data_range_share"] == pytest.approx(0.3)
    assert m["data_wait_share"] == pytest.approx(0.3)
    assert not {"idle_loader_zero_share", "idle_loader_workers_share"} & set(m)


def test_a_loader_inside_the_users_range_is_the_loaders():
    """The range covers 0-40, the loader in it 10-30: 20 us each."""
    m = measured(steps(40, name="data_loading").range(IN_PROCESS, 10, 30).analysis())
    assert m["idle_loader_zero_share"] == pytest.approx(0.2)
    assert m["idle_data_range_share"] == pytest.approx(0.2)


def test_a_job_with_a_loader_needs_no_range_of_its_own():
    """All of the wait is the loader's, so nothing is the range's: zero, not unknown."""
    assert measured(steps(10, 10).analysis())["idle_data_range_share"] == 0


def test_nothing_loads_in_this_recording():
    m = measured(steps(0, 0).analysis())
    assert not {"data_wait_share", "idle_loader_zero_share", "idle_loader_workers_share"} & set(m)


def test_frames_of_two_loaders_are_told_apart():
    """Training waits 40 us for workers; one batch of validation is fetched in the process itself, in 10 us."""
    r = steps(0, 0).python("torch/utils/data/dataloader.py(701): __next__", 0, 40)
    r.python("torch/utils/data/dataloader.py(701): __next__", 100, 110)
    m = measured(r.python("torch/utils/data/_utils/fetch.py(50): fetch", 102, 108).analysis())
    assert m["idle_loader_workers_share"] > m["idle_loader_zero_share"] > 0
