"""What follows from a loader that was measured alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sweep.loader.trials import GIB, failed, loader, point, steps, trial
from whyidle.model.loader_trial import LoaderAdvice, Pass, Point, Storage
from whyidle.sweep.loader.advice import advise
from whyidle.sweep.loader.limits import limit_of

WORKERS = (0, 1, 2, 4, 8, 16)


def told(advice: LoaderAdvice) -> dict[str, str]:
    return {one.name: one.then for one in advice.settings}


def test_the_fewest_workers_that_keep_up_are_advised() -> None:
    advice = advise(trial([point(workers, cv=0.2) for workers in WORKERS]), cpus=16)
    assert told(advice)["num_workers"] == "8"  # 100 ms a batch, 25 ms a step: with 4 each that is late makes it wait
    assert advice.step_then_s == pytest.approx(0.025, rel=0.02)
    assert advice.speedup_at_most == pytest.approx(5.0)
    assert advice.limit is None
    assert re.match(r"the training takes 25 ms a batch without loading; 8 workers give one every 12\.\d ms", advice.why)
    assert "5x as fast is expected" in advice.message


def test_more_workers_than_cpus_do_not_help() -> None:
    advice = advise(trial([point(workers, cpus=4) for workers in WORKERS], cached=0.01), cpus=4)
    assert advice.limit == "cpu"
    assert int(told(advice)["num_workers"]) <= 4
    assert "more do not help: there are 4 CPUs, and none is free" in advice.why
    assert "make a sample cheaper" in advice.other[0]


def test_unequal_batches_are_made_farther_ahead_before_there_are_more_workers() -> None:
    points = [point(workers, 0.1, cv=1.0) for workers in WORKERS]
    unequal = told(advise(trial(points, cached=0.016), cpus=64))
    assert unequal["prefetch_factor"] in {"4", "8"}
    equal = told(advise(trial([point(workers) for workers in WORKERS], cached=0.016), cpus=64))
    assert "prefetch_factor" not in equal


def test_settings_that_are_as_good_as_others_are_kept_though_a_step_takes_longer_than_expected() -> None:
    points = [point(workers, 0.02) for workers in WORKERS]
    advice = advise(trial(points, now=0.033, cached=0.025, loaders=(loader(2),), cuda=False), cpus=16)
    assert told(advice) == {}  # fewer workers are no gain
    assert (advice.step_then_s, advice.step_now_s) == (0.033, 0.033)
    assert any("should take" in text for text in advice.warnings)


def test_receiving_a_batch_is_work_of_the_training_unless_it_is_pinned() -> None:
    points = [point(workers, receive_s=0.004 if workers else None) for workers in WORKERS]
    steps = {one.workers: one.step_s for one in advise(trial(points, cuda=False), 16).expected}
    assert steps[8] == pytest.approx(0.025 + 0.004, rel=0.01)
    assert steps[0] == pytest.approx(0.025 + 0.1, rel=0.01)
    pinned = advise(trial(points, loaders=(loader(pin_memory=True),)), 16).expected
    assert {one.workers: one.step_s for one in pinned}[8] == pytest.approx(0.025, rel=0.01)


def test_workers_that_repeat_each_others_samples_are_not_advised() -> None:
    points = [point(workers, repeated=workers > 1) for workers in WORKERS]
    advice = advise(trial(points, loaders=(loader(iterable=True, length=None),)), cpus=16)
    assert told(advice)["num_workers"] == "1"
    assert "get_worker_info" in advice.other[0]
    of_four = advise(trial(points, now=0.03, loaders=(loader(4, iterable=True, length=None),)), cpus=16)
    assert any("each sample comes 4 times an epoch" in text for text in of_four.warnings)


def test_a_training_that_does_not_wait_is_left_alone() -> None:
    advice = advise(trial([point(workers) for workers in WORKERS], now=0.0252, loaders=(loader(8),)), cpus=16)
    assert "num_workers" not in told(advice)
    assert advice.message == "The loader holds up this training by 1% at most: look elsewhere."


def test_settings_as_good_as_any_are_left() -> None:
    points = [point(workers, cpus=2) for workers in (0, 1, 2)]
    advice = advise(trial(points, now=0.0505, loaders=(loader(2, pin_memory=True, persistent_workers=True),)), cpus=2)
    assert advice.settings == ()
    assert "still waits" in advice.message


def test_without_the_training_the_loaders_own_pace_decides() -> None:
    advice = advise(trial([point(workers, cpus=4) for workers in WORKERS], None, None), cpus=4)
    assert told(advice)["num_workers"] == "4"
    assert advice.speedup_at_most is None
    assert advice.message.endswith("the training was not measured, so nobody knows what that is worth.")


def test_workers_that_do_not_fit_are_not_advised() -> None:
    points = [point(workers) for workers in WORKERS]
    advice = advise(trial(points, cached=0.005, available_memory_bytes=3 * GIB), cpus=64)
    assert told(advice)["num_workers"] == "4"  # of 300 MiB each, in half of 3 GiB
    of_two = advise(trial(points, cached=0.005, available_memory_bytes=3 * GIB, local_ranks=2), cpus=64)
    assert told(of_two)["num_workers"] == "2"
    assert any("one of 2 ranks" in text for text in of_two.warnings)


def test_workers_that_fail_are_not_advised() -> None:
    advice = advise(trial([point(0), failed(1), failed(2)]), cpus=16)
    assert "num_workers" not in told(advice)
    assert advice.message.startswith("Its num_workers is as good as any that was tried")


def test_memory_is_pinned_where_batches_are_large_and_go_to_a_gpu() -> None:
    points = [point(workers) for workers in WORKERS]
    assert told(advise(trial(points), 16))["pin_memory"] == "True"
    assert "pin_memory" not in told(advise(trial(points, cuda=False), 16))
    assert "pin_memory" not in told(advise(trial([replace(one, batch_bytes=1000) for one in points]), 16))
    assert "pin_memory" not in told(advise(trial(points, loaders=(loader(pin_memory=True),)), 16))


def test_workers_are_kept_where_epochs_are_short() -> None:
    points = [point(workers) for workers in WORKERS]
    assert "persistent_workers" not in told(advise(trial(points), 16))
    assert told(advise(trial(points, loaders=(loader(length=100),)), 16))["persistent_workers"] == "True"
    assert told(advise(trial(points, loaders=(loader(length=None),)), 16))["persistent_workers"] == "True"


def test_small_files_on_a_slow_disk_are_packed() -> None:
    storage = Storage(
        Pass(20, 8.0, 128_000_000, 128_000_000), None, Pass(20, 2.0, 128_000_000, 0), 1280, 1280, 128_000_000
    )
    slow = advise(trial([point(workers) for workers in WORKERS], cached=0.01, storage=storage), 16)
    assert slow.other[0].startswith("pack the samples into larger files")
    assert "it opens about 1 a sample, of 97.7 KiB in the mean" in slow.other[0]
    large = replace(storage, files=2, opened=2)
    assert "faster disk" in advise(trial([point(8)], cached=0.001, storage=large), 16).other[0]
    fast = replace(storage, first=Pass(20, 2.1, 128_000_000, 128_000_000))
    assert not any("disk" in text or "pack" in text for text in advise(trial([point(8)], storage=fast), 16).other)


def test_what_was_measured_and_does_not_fit_is_said() -> None:
    far = advise(trial([point(0)], now=0.4), 16)
    assert any("beside the training the loader is not what it is alone" in text for text in far.warnings)
    assert any("--loader N" in text for text in advise(replace(trial([point(0)]), now=steps(0.125, 0)), 16).warnings)
    ended = trial([point(0)], None, None, state="ended", why="the script ended by itself after 3 steps as it is")
    assert advise(ended, 16).warnings[0].startswith("It is not complete: the script ended by itself")
    several = trial([point(workers) for workers in WORKERS], loaders=(loader(iterable=True, length=None),))
    assert any("each comes once per worker" in text for text in advise(several, 16).warnings)


def test_limits() -> None:
    def flat(*workers: int, cpu_share: float) -> list[Point]:
        return [point(one, cpu_share=cpu_share, seconds=200 * 0.1 / min(max(one, 1), 2)) for one in workers]

    assert limit_of(flat(0, 1, 2, 4, 8, cpu_share=0.1), 0.01, 16) == "storage"
    assert limit_of(flat(0, 1, 2, 4, 8, cpu_share=0.9), 0.01, 16) == "unknown"
    assert limit_of(flat(0, 1, 2, cpu_share=0.1), 0.01, 16) == "more"
    locked = [point(0), point(1), point(2, seconds=20.0), point(4, seconds=17.5)]  # one in the lock: 15% of noise
    assert limit_of([replace(one, cpu_s=2.0) for one in locked], 0.01, 16) == "storage"
    assert limit_of(flat(0, cpu_share=0.1), 0.01, 16) is None
    assert limit_of(flat(0, 1, cpu_share=0.1), 0.01, 16) == "more"  # no pair of which one has twice the workers
    assert "what two give was not tried" in " ".join(advise(trial(flat(0, 1, cpu_share=0.1)), 16).other)
    crowded = [replace(one, run_delay_s=0.04 * one.batches) for one in flat(0, 1, 2, 4, 8, cpu_share=0.3)]
    assert limit_of(crowded, 0.01, 16) == "cpu"  # of each 100 ms it waits 40 for a CPU
    assert "other programs used the CPUs meanwhile" in advise(trial(crowded), 16).message
    idle = [replace(one, run_delay_s=0.002 * one.batches) for one in flat(0, 1, 2, 4, 8, cpu_share=0.001)]
    assert limit_of(idle, 0.01, 16) == "storage"  # it hardly computes, so that hardly counts
    assert limit_of(flat(0, 1, 2, 4, 8, cpu_share=0.1), 0.06, 16) is None  # it keeps up


@settings(max_examples=25, deadline=None)
@given(
    batch_s=st.floats(0.01, 1.0),
    cv=st.sampled_from([0.0, 0.3, 1.0]),
    cpu_share=st.floats(0.1, 1.0),
    cpus=st.sampled_from([2, 8, 64]),
    ceiling=st.floats(0.005, 0.5),
)
def test_laws(batch_s: float, cv: float, cpu_share: float, cpus: int, ceiling: float) -> None:
    points = [point(workers, batch_s, cv=cv, cpu_share=cpu_share, cpus=cpus) for workers in WORKERS]
    advice = advise(trial(points, now=batch_s + ceiling, cached=ceiling), cpus)
    assert advice.step_then_s is not None
    assert advice.step_then_s <= min(one.step_s for one in advice.expected) * 1.03 or "num_workers" not in told(advice)
    # no loader is faster than the training without one, nor than its workers
    for one in advice.expected:
        assert one.step_s >= ceiling * 0.999
    assert int(told(advice).get("num_workers", 0)) in WORKERS
    twice = advise(trial(points, now=batch_s + 2 * ceiling, cached=2 * ceiling), cpus)
    assert int(told(twice).get("num_workers", 0)) <= int(told(advice).get("num_workers", 0)) or cv > 0
