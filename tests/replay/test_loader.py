"""The loop of a DataLoader: against published figures, its bounds, and runs of a small simulation of its own.

That simulation is written from the rule alone (who makes which batch, and when it is asked for), so that what the
replay infers from a recording can be held against the same job, run again.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.replay.loader import Loader, loop, rhythm

MS = 1e6  # ns
T = 0.1  # s, what the training does per batch

# The design's table: wait as a share of the step, 4 workers, 2 batches ahead each, by sd over mean of a batch's time
# and by rho. One entry, 0.208 at 1.0 and 0.8, was one draw: 60 runs of 6,000 batches give 0.229 in the mean, sd 0.0105.
TABLE = {
    0.2: {0.8: 0.000, 0.9: 0.001, 1.0: 0.037, 1.2: 0.194, 1.6: 0.393},
    0.5: {0.8: 0.037, 0.9: 0.089, 1.0: 0.156, 1.2: 0.282, 1.6: 0.452},
    1.0: {0.8: 0.229, 0.9: 0.295, 1.0: 0.360, 1.2: 0.444, 1.6: 0.574},
}


def wait_share(rho: float, spread: float, workers: int = 4, prefetch: int = 2) -> float:
    wait = loop((rho * workers * T, spread), workers, prefetch, T).wait
    return float(wait.mean() / (wait.mean() + T))


@pytest.mark.parametrize(("spread", "rho"), [(spread, rho) for spread, row in TABLE.items() for rho in row])
def test_waits_are_those_of_the_table(spread: float, rho: float) -> None:
    assert wait_share(rho, spread) == pytest.approx(TABLE[spread][rho], abs=0.02)


@pytest.mark.parametrize(("prefetch", "share"), [(2, 0.233), (4, 0.088), (8, 0.013)])
def test_batches_made_ahead_take_up_what_is_unequal(prefetch: int, share: float) -> None:
    assert wait_share(0.8, 1.0, prefetch=prefetch) == pytest.approx(share, abs=0.02)


def test_the_same_arguments_give_the_same_waits() -> None:
    first = loop((0.32, 1.0), 4, 2, T).wait
    assert np.array_equal(first, loop((0.32, 1.0), 4, 2, T).wait)
    assert len(first) == 6000


def test_without_workers_a_batch_is_made_when_it_is_asked_for() -> None:
    run = loop([0.02], 0, 2, 0.03, batches=50)
    assert run.wait == pytest.approx(0.02)
    assert run.step == pytest.approx(0.05)


@given(st.floats(0.01, 1.0), st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 6), st.integers(1, 4), st.integers(0, 5))
def test_more_workers_or_more_ahead_never_make_it_longer(
    batch: float, spread: float, workers: int, prefetch: int, seed: int
) -> None:
    """In the mean: which worker makes a batch depends on how many there are, and a queue ends longer or shorter."""
    few = loop((batch, spread), workers, prefetch, T, batches=400, seed=seed).step.mean()
    ahead = loop((batch, spread), workers, prefetch + 1, T, batches=400, seed=seed).step.mean()
    doubled = loop((batch, spread), 2 * workers, prefetch, T, batches=400, seed=seed).step.mean()
    assert ahead <= few * 1.02
    assert doubled <= few * 1.02


@given(
    st.floats(0.01, 1.0), st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 6), st.sampled_from([None, 1.0, 2.0, 4.0])
)
def test_a_step_is_never_shorter_than_its_limits(batch: float, spread: float, workers: int, cpus: float | None) -> None:
    run = loop((batch, spread), workers, 2, T, batches=2000, cpus=cpus)
    made = np.mean(loop((batch, spread), 0, 2, 0.0, batches=2000).wait)
    limit = max(T, made / workers, (made + T) / cpus if cpus else 0.0)
    assert run.step.mean() >= limit * (1 - 0.03)  # the queue's length at the end of 2,000 batches
    assert (run.step >= T * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    ("workers", "cpus", "share", "step"),
    [
        (2, 2, 1.0, (0.092 + 0.022) / 2),  # three processes that compute share two CPUs
        (8, 4, 1.0, (0.092 + 0.022) / 4),
        (2, 2, 0.0, 0.092 / 2),  # workers that sleep take none
        (4, 2, 0.0, 0.092 / 4),
        (2, 8, 1.0, 0.092 / 2),
        (1, 1, 1.0, 0.092 + 0.022),
    ],
)
def test_workers_and_training_share_cpus(workers: int, cpus: float, share: float, step: float) -> None:
    run = loop((0.092, 0.05), workers, 2, 0.022, batches=2000, cpus=cpus, cpu_share=share)
    assert run.step.mean() == pytest.approx(step, rel=0.03)


def recorded(
    makes: list[float], workers: int, prefetch: int, work: list[float], receive: float
) -> list[tuple[float, float]]:
    """Return (asked, got) of each batch of a job, ns."""
    ready: list[float] = []
    takes: list[tuple[float, float]] = []
    now = 0.0
    for j, making in enumerate(makes):
        free = ready[j - workers] if j >= workers else 0.0
        wanted = takes[j - workers * prefetch][1] if j >= workers * prefetch else 0.0
        ready.append(max(free, wanted) + making)
        takes.append((now, max(now, ready[j]) + receive))
        now = takes[j][1] + work[j]
    return takes


def replayed(loader: Loader, work: list[float], began: float, factor: float = 1.0) -> list[tuple[float, float]]:
    loader = loader.quicker([factor] * len(loader.makes))
    now, takes = began, []
    for j, working in enumerate(work):
        got = loader.next(j, now)
        takes.append((now, got))
        now = got + working
    return takes


def pace(takes: list[tuple[float, float]], skip: int = 8) -> float:
    """Return the mean time from batch to batch, ns, past the filling of the queue."""
    return (takes[-1][1] - takes[skip][1]) / (len(takes) - 1 - skip)


class Job:
    """A job in its stride, recorded for `count` batches, and the same run with a training that is faster or slower."""

    def __init__(self, seed: int, count: int = 60, *, rho: float, spread: float, workers: int) -> None:
        random = np.random.default_rng(seed)
        before, shape = 60, 1 / spread**2
        n = before + count
        self.workers, self.before = workers, before
        self.makes = (random.gamma(shape, 1 / shape, n) * rho * workers * T * 1e9).tolist()
        self.work = (T * 1e9 * random.lognormal(0, 0.03, n)).tolist()

    def run(self, times: float = 1.0) -> list[tuple[float, float]]:
        return recorded(self.makes, self.workers, 2, [w * times for w in self.work], 0.6 * MS)[self.before :]

    def again(self, workers: int | None, times: float, factor: float = 1.0) -> list[tuple[float, float]]:
        takes = self.run()
        loader = Loader.of(takes, workers, 2)
        return replayed(loader, [w * times for w in self.work[self.before :]], takes[0][0], factor)


jobs = st.builds(
    Job,
    st.integers(0, 1000),
    rho=st.sampled_from([0.5, 0.7, 0.9, 1.1, 1.5]),
    spread=st.sampled_from([0.1, 0.3, 0.6, 1.0]),
    workers=st.sampled_from([1, 2, 4, 8]),
)


@given(jobs, st.sampled_from([0, 1, 2, 3, None]))
def test_with_nothing_changed_each_batch_comes_when_it_came(job: Job, workers: int | None) -> None:
    """Whatever is believed of the workers."""
    for (_, was), (_, is_) in zip(job.run(), job.again(workers, 1.0), strict=True):
        assert is_ == pytest.approx(was, abs=1.0)


@given(jobs)
def test_without_making_only_receiving_is_left(job: Job) -> None:
    takes = job.again(job.workers, 1.0, factor=0.0)
    was = job.run()
    least = min(got - asked for asked, got in was)
    assert max(got - asked for asked, got in takes[job.workers :]) <= max(2 * least, least + 0.2 * MS) + 1.0


@given(jobs, st.sampled_from([0.3, 0.5, 0.8]))
def test_a_faster_training_never_waits_for_less(job: Job, times: float) -> None:
    faster = job.again(job.workers, times)
    assert pace(faster, 0) <= pace(job.run(), 0) * (1 + 1e-9)


def test_a_loader_that_is_the_limit_keeps_its_pace() -> None:
    for workers in (1, 2, 4):
        job = Job(1, rho=2.0, spread=0.1, workers=workers)
        for known in (workers, None):
            assert pace(job.again(known, 0.5)) == pytest.approx(pace(job.run()), rel=0.03)


def test_a_job_that_waited_sometimes_waits_more() -> None:
    """Neither by the same waits, nor at the same pace."""
    job = Job(5, 150, rho=0.9, spread=0.5, workers=4)
    was, is_ = pace(job.run()), pace(job.again(4, 0.5))
    constant_waits = was - 0.5 * T * 1e9
    assert constant_waits * 1.2 < is_ < was


@pytest.mark.parametrize(
    ("known", "times", "mean"), [(True, 0.7, 0.05), (True, 1.4, 0.02), (True, 0.5, 0.07), (False, 0.7, 0.08)]
)
def test_a_changed_training_gets_what_it_would_get(known: bool, times: float, mean: float) -> None:
    """Mean error over random jobs that waited at least once; one that never did tells nothing of its loader's pace."""
    random = np.random.default_rng(3)
    errors = []
    for seed in range(120):
        workers = int(random.choice([1, 2, 4, 8]))
        rho, spread = float(random.choice([0.5, 0.7, 0.9, 1.1, 1.5])), float(random.choice([0.1, 0.3, 0.6, 1.0]))
        job = Job(seed, rho=rho, spread=spread, workers=workers)
        if Loader.of(job.run(), workers, 2).waited:
            errors.append(abs(pace(job.again(workers if known else None, times)) / pace(job.run(times)) - 1))
    assert len(errors) > 60
    assert np.mean(errors) <= mean


def test_making_in_the_training_process_scales() -> None:
    takes = [(100.0 * MS * j, 100.0 * MS * j + (60 + j % 3) * MS) for j in range(12)]
    loader = Loader.of(takes, 0)
    work = [later[0] - earlier[1] for earlier, later in pairwise(takes)] + [0.0]
    assert np.asarray(replayed(loader, work, 0.0)) == pytest.approx(np.asarray(takes))
    half = replayed(loader, work, 0.0, factor=0.5)
    assert half[0][1] == pytest.approx(30 * MS)


def test_workers_are_read_from_the_rhythm_of_waits() -> None:
    random = np.random.default_rng(0)
    for workers in (2, 4):
        took = [float(x) for x in random.normal(1, 0.1, 40)]
        late = [j % workers == 0 for j in range(40)]
        took = [t + 50 * is_late for t, is_late in zip(took, late, strict=True)]
        assert rhythm(took, late) == workers
    assert rhythm([float(x) for x in random.normal(50, 5, 12)], [True] * 12) == 1
    assert rhythm([1.0, 60.0, 1.0], [False, True, False]) == 1


def test_a_recording_without_batches_is_no_mistake() -> None:
    loader = Loader.of([], 4)
    assert loader.makes == []
    assert Loader.of([(5.0, 7.0)], 2).next(0, 5.0) == 7.0
