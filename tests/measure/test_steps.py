"""Where one iteration ends and the next begins, by each of the marks that recordings have."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces import AUTOGRAD, US, Recording, measured
from whyidle.measure.steps import SHORTEST_PERIOD, find_period

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def found(recording):
    """Return the steps as (source, starts in us, ends in us)."""
    steps = recording.analysis().t.steps
    return steps.source, (steps.start / US).tolist(), (steps.end / US).tolist()


def work(until, every=10):
    r = Recording()
    for start in range(0, until, every):
        r.kernel(start, start + 1)
    return r


class TestProfilerStep:
    def test_steps_set_the_window(self):
        """Work at 0-100, steps from 20 to 80: busy 6 of 60 us."""
        r = work(100).step(5, 20, 40).step(6, 40, 80)
        assert found(r) == ("ProfilerStep", [20, 40], [40, 80])
        assert r.analysis().t.steps.number.tolist() == [5, 6]
        m = measured(r.analysis())
        assert m["window_s"] == pytest.approx(60e-6)
        assert m["gpu_busy_share"] == pytest.approx(0.1)

    def test_they_go_before_every_other_mark(self):
        r = work(100).step(1, 0, 100)
        for start in (0, 20, 40, 60, 80):
            r.range("train_step", start, start + 20).range("Optimizer.step#SGD.step", start + 10, start + 15)
        assert found(r)[0] == "ProfilerStep"

    def test_steps_that_several_threads_mark_count_once(self):
        r = work(100).step(1, 0, 50).step(2, 50, 100)
        r.range("ProfilerStep#1", 1, 50, AUTOGRAD).range("ProfilerStep#2", 51, 99, AUTOGRAD)
        assert found(r) == ("ProfilerStep", [0, 50], [50, 100])

    @pytest.mark.parametrize(
        ("lengths", "median", "mean"),
        [
            ([90, 10, 20], 20, 40),  # three: all count
            ([90, 10, 20, 60], 20, 30),  # four: the first is left out
        ],
    )
    def test_the_first_is_dropped_from_four_on(self, lengths, median, mean):
        r, start = work(200), 0
        for number, length in enumerate(lengths):
            r.step(number, start, start + length)
            start += length
        m = measured(r.analysis())
        assert m["steps"] == len(lengths)
        assert m["step_time_s"] == pytest.approx(median * 1e-6)
        assert m["step_time_mean_s"] == pytest.approx(mean * 1e-6)

    def test_a_time_between_steps_belongs_to_none(self):
        steps = work(100).step(3, 0, 20).step(4, 30, 50).analysis().t.steps
        assert [steps.number_at(time * US) for time in (0, 19, 25, 30, 50)] == [3, 3, None, 4, None]

    def test_a_number_that_no_counter_reaches_is_no_step(self):
        assert found(work(100).range(f"ProfilerStep#{10**30}", 0, 50))[0] is None


class TestOtherMarks:
    def test_a_range_of_the_users_own(self):
        """Four of 25 us: three steps from one to the next. The window stays that of the work, 0-91."""
        r = work(100)
        for start in (0, 25, 50, 75):
            r.range("iteration", start, start + 20)
        assert found(r) == ("range iteration", [0, 25, 50], [25, 50, 75])
        assert measured(r.analysis())["window_s"] == pytest.approx(91e-6)

    def test_of_ranges_that_repeat_evenly_the_rarest_is_the_step(self):
        r = work(120)
        for start in range(0, 120, 30):
            r.range("step", start, start + 30)
        for start in range(0, 120, 10):
            r.range("layer", start, start + 10)
        assert found(r)[0] == "range step"

    @pytest.mark.parametrize("starts", [[0, 5, 90], [0, 10, 20], [0, 50]])
    def test_ranges_that_are_uneven_few_or_in_one_corner_are_no_steps(self, starts):
        r = work(100)
        for start in starts:
            r.range("phase", start, start + 5)
        assert found(r)[0] is None

    @pytest.mark.parametrize("name", [LOADER, "nccl:all_reduce", "DistributedDataParallel.forward"])
    def test_a_librarys_range_is_not_the_users(self, name):
        """Two batches per optimizer step: gradient accumulation. The step is what the optimizer says."""
        r = work(120)
        for start in range(0, 120, 10):
            r.range(name, start, start + 5)
        for start in range(5, 120, 20):
            r.range("Optimizer.step#SGD.step", start + 10, start + 12)
        assert found(r)[0] == "Optimizer.step"
        assert len(found(r)[1]) == 5

    def test_optimizer_steps_go_from_end_to_end(self):
        r = work(100)
        for start in (10, 40, 70):
            r.range("Optimizer.step#Adam.step", start, start + 10)
        assert found(r) == ("Optimizer.step", [20, 50], [50, 80])

    def test_an_optimizer_inside_an_optimizer_is_one_step(self):
        r = work(100)
        for start in (10, 40, 70):
            r.range("Optimizer.step#EMAOptimizer.step", start, start + 10)
            r.range("Optimizer.step#Shampoo.step", start + 1, start + 8)
        assert found(r) == ("Optimizer.step", [20, 50], [50, 80])

    def test_loader_batches_come_last(self):
        r = work(100)
        for start in (0, 30, 60):
            r.range(LOADER, start, start + 5)
        assert found(r) == ("DataLoader", [0, 30], [30, 60])

    def test_no_marks_no_steps(self):
        m = measured(work(100).analysis())
        assert "steps" not in m
        assert "step_time_s" not in m

    def test_the_kernel_sequence(self):
        """Four iterations of 120 launches, 1 us apart, 50 us between them: three steps of 170 us, one without end."""
        r = Recording()
        for i in range(4):
            for k in range(120):
                at = 1000 + i * 170 + k
                r.kernel(at + 1, at + 1.5, launched=at, took=0.5, name=f"kernel_{k % 119}_{k // 119}")
        source, starts, ends = found(r)
        assert source == "period of the kernel sequence"
        assert starts == [1000, 1170, 1340]
        assert ends == [1170, 1340, 1510]

    def test_a_graph_starts_many_kernels_at_once_which_is_a_layers_period(self):
        r = Recording()
        for i in range(4):
            r.kernel(1000 * i, 1000 * i + 1, launched=1000 * i, call="cudaGraphLaunch", name="first")
            for k in range(1, 120):
                r.kernel(1000 * i + k, 1000 * i + k + 0.5, name=f"kernel_{k}")
                r.device[-1] = (*r.device[-1][:6], i * 120 + 1, *r.device[-1][7:])
        assert found(r)[0] is None


class TestPeriod:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(SHORTEST_PERIOD, 400), st.integers(3, 6), st.integers(0, 2**32))
    def test_is_exact(self, period, repeats, seed):
        """A step of many kinds of kernels, with no repetition inside, three times or more."""
        step = np.random.default_rng(seed).integers(0, 1000, period)
        assert find_period(np.tile(step, repeats).astype(np.int32)) == period

    @settings(max_examples=20, deadline=None)
    @given(st.integers(2, 1000), st.integers(300, 3000), st.integers(0, 2**32))
    def test_there_is_none_in_a_random_sequence(self, names, length, seed):
        assert find_period(np.random.default_rng(seed).integers(0, names, length).astype(np.int32)) is None

    def test_layers_inside_a_step_do_not_hide_it(self):
        """40 layers of 10 kernels, then a head of 15: the step is 415, not a multiple of 10."""
        step = [*range(10)] * 40 + [*range(100, 115)]
        assert find_period(np.array(step * 4, np.int32)) == 415

    def test_a_stray_kernel_does_not_hide_it(self):
        sequence = [*range(150)] * 5
        random.Random(0).shuffle(strays := list(range(len(sequence))))
        for place in strays[:3]:
            sequence[place] = 999
        assert find_period(np.array(sequence, np.int32)) == 150

    @pytest.mark.parametrize("layer", [[7], [*range(20)], [*range(99)]])
    def test_a_row_of_layers_is_no_row_of_steps(self, layer):
        """One step of a deep model, or a benchmark of one kernel: it repeats, but at no step's length."""
        assert find_period(np.array(layer * (1000 // len(layer)), np.int32)) is None

    @pytest.mark.parametrize("length", [0, 1, 299])
    def test_too_short_to_repeat_three_times(self, length):
        assert find_period(np.arange(length, dtype=np.int32) % 100) is None
