"""Curves as real jobs draw them: each is called what it is, healthy ones stay so, and nothing is invented."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sampled import curve, gpu, trainer
from whyidle.curves import MOST_CONFIDENCE
from whyidle.judge import judge
from whyidle.model.evidence import Run

HOUR = 3600
DAY = 1440  # minutes


def noisy(level, samples, deviation=1.0, seed=0):
    return np.clip(level + np.random.default_rng(seed).normal(0, deviation, samples), 0, 100)


def dipping(base, every, lasts, low=0.0):
    return np.where(np.arange(len(base)) % every >= every - lasts, low, base)


def at(base, low, high, value=0.0):
    base[low:high] = value
    return base


def eight(make, *, every=1.0, **more):
    return [gpu(make(device), device=device, every=every, **more) for device in range(8)]


def scattered(share, samples=HOUR, seed=1):
    return np.where(np.random.default_rng(seed).random(samples) < share, 0.0, noisy(97, samples))


def bursts():
    rng = np.random.default_rng(2)
    return np.where(rng.random(HOUR) < 0.2, rng.uniform(20, 100, HOUR), 0)


def steps(step_s, busy, window_s, samples=600):
    """Return steps that are shorter than the time between two samples, as a counter with that window sees them."""
    rng = np.random.default_rng(3)
    starts = np.concatenate(([0.0], np.cumsum(step_s * (1 + 0.02 * rng.normal(size=int(samples / step_s * 1.2) + 9)))))
    moments = (np.arange(samples)[:, None] + np.linspace(0, window_s, 40, endpoint=False)).ravel()
    before = np.searchsorted(starts, moments, "right") - 1
    return 100 * (moments - starts[before] < busy * step_s).reshape(samples, 40).mean(axis=1)


HEALTHY = {
    "training at 99%": eight(lambda device: noisy(99, HOUR, 0.5, device)),
    "a save every 30 min": eight(lambda device: dipping(noisy(99, 2160, 0.5, device), 180, 3), every=10),
    "one sample at zero": [gpu(at(noisy(98, 1800), 900, 901))],
    "ten samples": [gpu([99.0] * 10)],
    "above 100": [gpu([101.0] * 300)],
    "power that goes up and down": [
        gpu(noisy(99, 1800, 0.5)),
        gpu(350 + noisy(50, 1800, 20), name="power_w"),
    ],
    "large products at the power limit": [
        gpu(noisy(99, 1800, 0.5)),
        gpu([4.0] * 1800, name="throttle_reasons"),
        gpu([700.0] * 1800, name="power_limit_w"),
        gpu([1700.0] * 1800, name="sm_clock_mhz"),
        gpu([1980.0] * 1800, name="sm_clock_max_mhz"),
    ],
    "the last seconds are not of the job": [gpu(at(noisy(99, 1800), 1770, 1800))],
}


@pytest.mark.parametrize("series", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_job_is_healthy(series):
    report = judge(Run(curves=(curve(*series),)))
    assert report.exit_code == 0
    assert report.healthy
    assert all(finding.severity == "low" for finding in report.findings)


@pytest.mark.parametrize(
    "column",
    [at(noisy(98, 1800), 300, 900, np.nan), np.where(scattered(0.4) == 0, np.nan, 98.0)],
    ids=["ten minutes without a value", "four of ten samples missing"],
)
def test_a_job_that_is_busy_where_it_was_seen_is_not_ill_and_not_healthy(column):
    report = judge(Run(curves=(curve(gpu(column)),)))
    assert report.exit_code == 0
    assert not report.healthy
    assert not report.findings
    assert "Nothing is known of" in report.summary.verdict


ILL = {
    # name: (series, rules of which one has to be first, all that may be told at medium and above)
    "a server with bursts": ([gpu(bursts())], {"curve.fluctuating"}),
    "a server at a third": ([gpu(noisy(35, HOUR, 20))], {"curve.flat_low"}),
    "rollouts and learning": (
        [gpu(np.tile(np.r_[noisy(4, 25, 2), noisy(85, 15, 3)], 60))],
        {"curve.sawtooth", "curve.flat_low"},
    ),
    "a search that starts anew every 10 min": (
        [gpu(np.tile(np.r_[np.zeros(45), noisy(97, 555)], 6))],
        {"curve.sawtooth"},
    ),
    "a notebook": (
        [gpu(at(at(at(np.zeros(7200), 300, 420, 90), 1500, 2100, 92), 5000, 5060, 91))],
        {"curve.fluctuating", "curve.idle_held"},
    ),
    "an evaluation every 10 min": (
        eight(lambda device: dipping(noisy(97, HOUR, 1, device), 600, 60)),
        {"curve.sawtooth"},
    ),
    "minutes that average cycles": ([gpu(noisy(60, 600), every=60)], {"curve.flat_low"}),
    "half of the GPUs at half": (
        eight(lambda device: noisy(98 if device < 4 else 45, 1800, 2, device)),
        {"curve.flat_low", "curve.lagging_gpu"},
    ),
    "half of the GPUs wait": (
        eight(
            lambda device: noisy(98, 1800, 1, device) if device < 4 else dipping(noisy(95, 1800, 1, device), 60, 24)
        ),
        {"curve.sawtooth"},
    ),
    "one GPU of eight is not used": (
        eight(lambda device: noisy(97, 1800, 1, device) if device != 5 else np.zeros(1800)),
        {"curve.idle_held", "curve.lagging_gpu"},
    ),
    "one host of four is slow": (
        [
            gpu(noisy(60 if host == 3 else 97, 900, 1, 4 * host + device), device=device, node=f"n{host}")
            for host in range(4)
            for device in range(4)
        ],
        {"curve.lagging_gpu"},
    ),
    "exactly half": ([gpu([50.0] * 1800)], {"curve.flat_low"}),
    "exactly 94%": ([gpu([94.0] * 1800)], {"curve.flat_low"}),
    "a blip in a day of nothing": ([gpu(at(np.zeros(1800), 900, 901, 100))], {"curve.idle_held"}),
    "a weekend at the end": ([gpu(np.r_[noisy(96, 5 * DAY), np.zeros(2 * DAY)], every=60)], {"curve.idle_held"}),
    "a weekend in between": (
        [gpu(at(noisy(96, 7 * DAY), 2 * DAY, 4 * DAY), every=60)],
        {"curve.fluctuating"},
    ),
    "a shift in 25 samples": ([gpu(np.r_[noisy(97, 12), noisy(55, 13)])], {"curve.step_change"}),
    "a shift under samples of a part of steps": (
        [gpu(np.r_[steps(0.31, 0.98, 1 / 6, 60), steps(0.44, 0.6, 1 / 6, 60)])],
        {"curve.step_change", "curve.fluctuating"},
    ),
    "half as fast from the second hour": ([gpu(at(noisy(97, HOUR), 1800, HOUR, 60))], {"curve.step_change"}),
    "slower all the while": ([gpu(np.linspace(97, 57, HOUR))], {"curve.step_change"}),
    "phases of five minutes": (
        [gpu(np.where(np.arange(1800) // 300 % 2 == 0, 97.0, 40.0))],
        {"curve.fluctuating"},
    ),
    "stages of a pipeline": (
        [gpu(noisy([70, 85, 85, 72][device], 1800, 2, device), device=device) for device in range(4)],
        {"curve.flat_low", "curve.lagging_gpu"},
    ),
    "the clock falls by a sixth": (
        [gpu(noisy(99, 1800, 0.5)), gpu(np.r_[np.full(300, 1410), np.full(1500, 1200)], name="sm_clock_mhz")],
        {"curve.step_change"},
    ),
    "busy and hollow, with short dips": (
        [gpu(dipping(noisy(99, 900), 60, 2)), gpu([0.15] * 900, name="sm_active_share")],
        {"curve.hollow"},
    ),
    "pauses of 4% of the samples": ([gpu(scattered(0.04))], {"curve.fluctuating"}),
} | {
    f"steps of {step} s, seen for {window:.2f} s": (
        [gpu(steps(step, 0.6, window))],
        {"curve.flat_low", "curve.fluctuating"},
    )
    for step in (0.37, 0.8, 1.3, 2.6)
    for window in (1.0, 1 / 6)
}  # fmt: skip


@pytest.mark.parametrize(("series", "right"), ILL.values(), ids=ILL)
def test_a_job_that_idles_is_called_what_it_is(series, right):
    report = judge(Run(curves=(curve(*series),)))
    assert report.exit_code == 1
    assert report.findings[0].rule in right
    assert {finding.rule for finding in report.findings if finding.severity != "low"} <= right
    assert max(finding.confidence for finding in report.findings) <= MOST_CONFIDENCE


def test_levels_are_those_of_the_gpus_that_idle():
    report = judge(Run(curves=(curve(*ILL["half of the GPUs at half"][0]),)))
    assert report.findings[0].message.startswith("Utilization of 4 of 8 GPUs stays at about 45%")


def test_a_slow_host_is_all_of_its_gpus():
    report = judge(Run(curves=(curve(*ILL["one host of four is slow"][0]),)))
    assert report.findings[0].message.startswith("n3 GPU ")
    assert "and 3 more have a lower utilization than their peers" in report.findings[0].message
    assert report.findings[0].lost_share == pytest.approx(0.25 * 0.37, abs=0.01)


def test_a_drift_is_no_rhythm():
    report = judge(Run(curves=(curve(*ILL["slower all the while"][0]),)))
    assert report.findings[0].message.startswith("Utilization drifts from 92% to 62%")


def test_a_few_zeros_are_no_verdict():
    for values in ([0.0] * 10, [0.0] * 30):
        report = judge(Run(curves=(curve(gpu(values)),)))
        assert report.exit_code == 2
        assert not report.findings
        assert report.summary.gpu_idle_share == 1


def test_a_nightly_evaluation_speaks_for_most_of_what_is_idle():
    report = judge(Run(curves=(curve(gpu(dipping(noisy(97, 7 * DAY), DAY, 60), every=60)),)))
    assert report.exit_code == 0
    assert not report.healthy
    assert "utilization falls to zero about every 24 h" in report.summary.verdict


def test_a_short_start_is_no_shift():
    report = judge(Run(curves=(curve(gpu(at(noisy(98, 1000), 0, 30))),)))
    assert report.exit_code == 0
    assert not report.findings


@pytest.mark.parametrize(
    ("step_s", "deviation", "judged"), [(1.0, 1e-5, False), (1.0, 0.05, True), (0.93, 0.0, True), (1.0, 0.0, True)]
)
def test_samples_that_come_with_every_step_see_the_same_part_of_it(step_s, deviation, judged):
    """A log that only ever writes "1.0" does not say it exactly enough."""
    log = trainer(step_s * (1 + deviation * np.random.default_rng(0).normal(size=600)))
    report = judge(Run(curves=(curve(gpu([100.0] * 600)), log)))
    assert report.judged is judged
    if not judged:
        assert not report.healthy
        assert "all see the same part of it" in report.summary.verdict


def test_a_rhythm_that_does_not_reach_zero_is_told():
    report = judge(Run(curves=(curve(gpu(np.tile(np.r_[noisy(96, 50), noisy(55, 20)], 26))),)))
    assert report.findings[0].message.startswith("Utilization goes up and down about every 70 s, which costs 16%")


def test_one_pause_of_all_gpus_is_one_finding():
    report = judge(Run(curves=(curve(*(gpu(at(noisy(97, 1800, 1, i), 1200, 1500), device=i) for i in range(4))),)))
    assert [finding.rule for finding in report.findings] == ["curve.correlated_dips"]


def test_gpus_that_are_left_are_counted():
    left = [gpu(at(noisy(98, 1800, 1, device), 1500, 1800), device=device) for device in range(8)]
    report = judge(Run(curves=(curve(*left),)))
    assert report.findings[0].message.startswith("All 8 GPUs are left doing nothing for the last 5 min")
    one = [gpu(noisy(98, 1800, 1, device), device=device) for device in range(1, 4)]
    report = judge(Run(curves=(curve(left[0], *one),)))
    assert report.findings[0].message.startswith("GPU 0 is left doing nothing for the last 5 min")
