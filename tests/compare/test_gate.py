"""Which runs keep their limits, which break them, and of which nobody can tell."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.compare.gate import APART, WITHIN, gate, verdict
from whyidle.compare.setup import differences
from whyidle.errors import WhyIdleError
from whyidle.model.comparison import Interval
from whyidle.model.finding import GpuCount
from whyidle.model.gate import Baseline, Check, Limits

H100, A100 = (GpuCount("NVIDIA H100 80GB HBM3", 8),), (GpuCount("NVIDIA A100-SXM4-80GB", 8),)


def kept(mean_s: float = 0.1, steps: int = 300, cv: float = 0.05, seed: int = 1, **told: Any) -> Baseline:
    """Return what is kept of a run with independent step times."""
    times = tuple(np.random.default_rng(seed).normal(mean_s, cv * mean_s, steps).clip(mean_s / 10).tolist())
    known = {"gpus": H100, "world_size": 8, "batch_size": 32, "step_seconds": (times,) if times else (), **told}
    return Baseline(step_time_s=float(np.median(times)) if times else None, **known)


def only(limits: Limits, run: Baseline, baseline: Baseline | None = None) -> Check:
    (found,) = gate(run, limits, baseline).checks
    return found


STEP = Limits(step_time_regression=0.05)


@pytest.mark.parametrize(
    ("worse", "allowed", "outcome"),
    [
        (Interval(0.04, 0.07, 0.10), 0.05, "fail"),
        (Interval(0.001, 0.07, 0.14), 0.05, "fail"),
        (Interval(-0.01, 0.07, 0.15), 0.05, "cannot tell"),  # it may be nothing
        (Interval(-0.01, 0.01, 0.03), 0.05, "pass"),
        (Interval(0.03, 0.045, 0.06), 0.05, "pass"),  # measured within it, and sure enough
        (Interval(-0.08, 0.01, 0.10), 0.05, "cannot tell"),
        (Interval(-0.30, -0.20, -0.10), 0.05, "pass"),  # however wide, all of it is allowed
        (Interval(-1.0, 0.0, math.inf), 0.05, "cannot tell"),
        (Interval(-0.01, 0.0, 0.01), 0.0, "cannot tell"),
        (Interval(-0.03, -0.02, -0.01), 0.0, "pass"),
    ],
)
def test_verdicts(worse: Interval, allowed: float, outcome: str) -> None:
    assert verdict(worse, allowed) == outcome


changes = st.tuples(*[st.floats(-0.9, 2)] * 3).map(lambda three: Interval(*sorted(three)))
limits = st.floats(0, 1)


@given(changes, limits)
def test_who_fails_is_worse_and_who_passes_is_not(worse: Interval, allowed: float) -> None:
    found = verdict(worse, allowed)
    assert found != "fail" or (worse.likely > allowed and worse.low > 0)
    assert found != "pass" or worse.likely <= allowed


@given(changes, limits)
def test_what_is_narrower_than_its_limit_is_judged(worse: Interval, allowed: float) -> None:
    if worse.likely - worse.low < allowed and worse.high - worse.likely < allowed:
        assert verdict(worse, allowed) != "cannot tell"


@given(changes, limits, limits)
def test_who_passes_passes_a_wider_limit(worse: Interval, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert verdict(worse, low) != "pass" or verdict(worse, high) == "pass"


@pytest.mark.parametrize("seed", range(2, 12))
def test_the_same_job_again_passes(seed: int) -> None:
    assert only(STEP, kept(seed=seed), kept()).outcome == "pass"
    assert only(Limits(throughput_loss=0.05), kept(seed=seed), kept()).outcome == "pass"


def test_a_regression_fails_by_how_much_is_said() -> None:
    found = only(STEP, kept(0.107, seed=2), kept())
    assert found.outcome == "fail"
    assert found.measured is not None
    assert 0.04 < found.measured.low < found.measured.likely < found.measured.high < 0.10
    assert found.message.endswith(" than the baseline")
    assert " slower (" in found.message
    assert only(Limits(throughput_loss=0.05), kept(0.107, seed=2), kept()).outcome == "fail"


def test_who_is_faster_passes() -> None:
    found = only(STEP, kept(0.05), kept())
    assert found.outcome == "pass"
    assert "50% faster (" in found.message


def test_noise_is_no_verdict_and_so_many_steps_would_be_one() -> None:
    run, baseline = kept(steps=30, cv=0.5, seed=3), kept(steps=60, cv=0.5)
    found = only(STEP, run, baseline)
    assert found.outcome == "cannot tell"
    assert found.hint.startswith("it takes about ")
    assert found.hint.endswith("steps in each: here are 60 in the baseline and 30 in the run")
    needed = int(found.hint.split()[3].replace(",", ""))
    longer = [kept(steps=2 * needed, cv=0.5, seed=seed) for seed in (4, 5)]
    assert only(STEP, *longer).outcome != "cannot tell"


@pytest.mark.parametrize("steps", [1, 2])
def test_a_few_steps_tell_nothing(steps: int) -> None:
    found = only(STEP, kept(steps=steps), kept())
    assert (found.outcome, found.message.split(" (")[1]) == ("cannot tell", "not known how sure) than the baseline")
    assert found.hint.startswith("too few steps")


def test_what_was_not_measured_is_no_pass() -> None:
    every = Limits(0.05, 0.05, 0.2, 0.1, 0.05)
    answer = gate(Baseline(gpus=H100), every, kept(peak_memory_bytes=1 << 30))
    assert [check.outcome for check in answer.checks] == ["cannot tell"] * 5
    assert {check.message for check in answer.checks} == {"not measured"}
    assert all(check.hint and check.measured is None for check in answer.checks)
    assert answer.exit_code == 2
    assert only(STEP, kept(), kept(steps=0)).message == "not measured in the baseline"


def test_shares_are_held_to_their_limits() -> None:
    run = kept(gpu_idle_share=0.2, data_wait_share=0.11)
    answer = gate(run, Limits(idle=0.2, data_wait=0.1))
    assert [(check.limit, check.outcome) for check in answer.checks] == [("idle", "pass"), ("data_wait", "fail")]
    assert answer.exit_code == 1
    assert gate(run, Limits(idle=0.2)).exit_code == 0


def test_memory() -> None:
    limits = Limits(peak_memory_growth=0.05)
    one, more, less = (kept(peak_memory_bytes=count << 20) for count in (1000, 1060, 900))
    assert only(limits, more, one).outcome == "fail"
    assert only(limits, more, one).message == "6.0% more than the baseline"
    assert only(limits, less, one).message == "10% less than the baseline"


def test_a_broken_limit_comes_before_one_that_nobody_can_judge() -> None:
    run = kept(0.2, data_wait_share=None, gpu_idle_share=0.5)
    answer = gate(run, Limits(step_time_regression=0.05, data_wait=0.1), kept())
    assert (answer.outcome, answer.exit_code) == ("fail", 1)


def test_pauses_that_the_median_does_not_show_are_told() -> None:
    (series,) = kept().step_seconds
    times = np.array(series)
    times[::7] *= 3
    answer = gate(replace(kept(), step_seconds=(tuple(times),)), STEP, kept())
    assert answer.outcome == "pass"
    (said,) = answer.warnings
    assert "--max-throughput-loss" in said
    both = gate(replace(kept(), step_seconds=(tuple(times),)), Limits(0.05, 0.05), kept())
    assert (both.outcome, both.warnings) == ("fail", (WITHIN,))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"gpus": A100}, "GPU H100 80GB HBM3, now A100-SXM4-80GB"),
        ({"gpus": ()}, "GPU H100 80GB HBM3, now not known"),
        ({"gpus": (), "on_gpu": False}, "GPU H100 80GB HBM3, now none"),
        ({"samples_per_step": 256.0}, "samples per step 512, now 256"),
        ({"world_size": 4}, "number of ranks 8, now 4"),
        ({"batch_size": 64}, "batch size 32, now 64"),
    ],
)
def test_another_setup_is_refused_unless_forced(told: dict[str, Any], message: str) -> None:
    baseline = kept(samples_per_step=512.0)
    with pytest.raises(WhyIdleError) as caught:
        gate(kept(**told), STEP, baseline)
    assert caught.value.message == f"the baseline is of another setup: {message}"
    assert "--force" in caught.value.hint
    answer = gate(kept(**told), STEP, baseline, force=True)
    assert [each.message for each in answer.differences if each.weight == "blocks"] == [message]


def test_without_a_world_size_gpus_count() -> None:
    one = (GpuCount("NVIDIA H100 80GB HBM3", 1),)
    with pytest.raises(WhyIdleError, match="number of ranks 8, now 1"):
        gate(kept(world_size=None, gpus=one), STEP, kept(world_size=None))
    # ranks of a job of which not all were recorded
    assert gate(kept(gpus=one), STEP, kept()).differences == ()


def test_times_of_a_token_are_not_those_of_a_step() -> None:
    for limits in (STEP, Limits(throughput_loss=0.05)):
        found = only(limits, kept(per="token"), kept())
        assert (found.outcome, found.message) == (
            "cannot tell",
            "the baseline has times of a step, the run of a token",
        )


def test_a_limit_of_nothing() -> None:
    found = only(Limits(throughput_loss=0.0), kept(seed=2), kept())
    assert found.outcome == "cannot tell"
    assert found.hint.startswith("a limit of 0% is kept only by what is surely no worse")


def test_what_else_differs_is_a_doubt() -> None:
    had = kept(model="Net", parameters=10, torch_version="2.4", settings={"tf32_matmul": False, "compile": True})
    has = kept(model="Net", parameters=12, torch_version="2.5", settings={"tf32_matmul": True}, batch_size=None)
    found = {each.name: (each.before, each.after, each.weight) for each in differences(had, has)}
    assert found == {
        "batch_size": ("32", "not known", "doubts"),
        "parameters": ("10", "12", "doubts"),
        "torch_version": ("2.4", "2.5", "doubts"),
        "compile": ("True", "not known", "doubts"),
        "tf32_matmul": ("False", "True", "doubts"),
    }


def test_questions_without_an_answer() -> None:
    with pytest.raises(WhyIdleError, match="no limit to check"):
        gate(kept(), Limits())
    for limit in (STEP, Limits(throughput_loss=0.1), Limits(peak_memory_growth=0.1)):
        with pytest.raises(WhyIdleError, match="needs a baseline") as caught:
            gate(kept(), limit)
        assert "whyidle baseline save" in caught.value.hint


def started(count: int, seed: int, mean_s: float = 0.1, spread: float = 0.01) -> Baseline:
    """Return a job that was started so often: its starts differ by this share, its steps little."""
    means = np.random.default_rng(seed).normal(mean_s, spread * mean_s, count)
    starts = [kept(float(mean), cv=0.01, seed=10 * seed + place) for place, mean in enumerate(means)]
    return replace(starts[0], step_seconds=tuple(one.step_seconds[0] for one in starts))


@pytest.mark.parametrize("of_run", [1, 3])
def test_starts_that_differ_are_no_regression(of_run: int) -> None:
    """Limits of 1% on a job whose starts differ by 1%: with one start of each nothing tells that they do."""
    limits = Limits(throughput_loss=0.01)
    found = [gate(started(of_run, 1000 + seed), limits, started(5, seed)).outcome for seed in range(60)]
    assert found.count("fail") <= 4  # 2.5%, and chance
    once = [gate(started(1, 1000 + seed), limits, started(1, seed)).outcome for seed in range(60)]
    assert once.count("fail") > 8


def test_a_regression_beyond_what_starts_differ_fails() -> None:
    baseline = started(5, 1)
    answer = gate(started(1, 2, 0.115), STEP, baseline)
    assert (answer.outcome, answer.warnings) == ("fail", ())
    assert gate(started(1, 3), STEP, baseline).outcome == "pass"


def test_more_starts_are_asked_for() -> None:
    found = only(Limits(throughput_loss=0.01), started(1, 2), started(3, 1))
    assert found.outcome == "cannot tell"
    assert found.hint.startswith("so few starts of the job (3 and 1) do not tell it: --repeat RUN")


def numbered(one: Baseline, first: int = 11) -> Baseline:
    numbers = tuple(tuple(range(first, first + len(steps))) for steps in one.step_seconds)
    return replace(one, step_numbers=numbers, steps_from="Optimizer.step")


def test_the_same_steps_are_compared() -> None:
    """A schedule: from step 311 on a step takes twice as long, which the shorter run does not come to."""
    early, late = kept(0.1, 300), kept(0.2, 300, seed=3)
    baseline = numbered(replace(early, step_seconds=(early.step_seconds[0] + late.step_seconds[0],)))
    slower = numbered(kept(0.11, 300, seed=2))
    for limits in (STEP, Limits(throughput_loss=0.05)):
        assert only(limits, slower, baseline).outcome == "fail"
        assert only(limits, numbered(kept(0.1, 300, seed=2)), baseline).outcome == "pass"
        # steps that the baseline does not have: then all are compared, and that is said
        answer = gate(numbered(slower, 5000), limits, baseline)
        assert answer.checks[0].outcome != "fail"
        assert APART in answer.warnings


def test_what_both_runs_share_does_not_widen_the_interval() -> None:
    """Sequences of many lengths, the same in both runs: 2% more is seen in pairs."""
    shared = np.random.default_rng(1).lognormal(0, 0.5, 300) * 0.1
    one, other = (numbered(replace(kept(), step_seconds=(tuple(shared * by),))) for by in (1.0, 1.02))
    noisy = replace(
        other, step_seconds=(tuple(np.array(other.step_seconds[0]) * kept(1.0, 300, 0.01).step_seconds[0]),)
    )
    limits = Limits(throughput_loss=0.01)
    assert only(limits, noisy, one).outcome == "fail"
    assert only(limits, replace(noisy, step_numbers=()), one).outcome == "cannot tell"


def test_means_of_ten_steps_have_another_median() -> None:
    skewed = np.random.default_rng(3).lognormal(0, 1, 3000) * 0.1
    each = numbered(replace(kept(), step_seconds=(tuple(skewed[:2000]),)))
    tens = replace(kept(), step_seconds=(tuple(skewed.reshape(-1, 10).mean(axis=1)),), steps_from="")
    tens = replace(tens, step_numbers=(tuple(range(10, 3001, 10)),))
    found = only(STEP, tens, each)
    assert (found.outcome, found.message.split(":")[0]) == ("cannot tell", "times of 1 and of 10 steps each")
    assert only(Limits(throughput_loss=0.2), tens, each).outcome == "pass"
