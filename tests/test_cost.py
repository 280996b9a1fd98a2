"""The fixed-busy-time model, to the cent, and the list prices that stand in where the user gives none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.cost import bill, price
from whyidle.errors import WhyIdleError
from whyidle.model.arithmetic import amdahl
from whyidle.model.finding import (
    Applied,
    Asked,
    DeviceBusy,
    Estimate,
    EvidenceFile,
    Finding,
    Fix,
    GpuCount,
    Predicted,
    Prediction,
    Report,
    RunInfo,
    Summary,
)
from whyidle.model.hardware import PRICED_GPUS, list_price

gpus = st.integers(1, 100_000)
prices = st.floats(0.01, 1000)
hours = st.floats(0.01, 100_000)
shares = st.floats(0.001, 1.0)


def test_the_textbook_bill() -> None:
    found = bill(8, 2.60, 24, 0.40)
    assert round(found.total_usd, 2) == 499.20
    assert round(found.idle_usd, 2) == 299.52
    assert [(row.busy, round(row.hours, 2), round(row.usd, 2)) for row in found.table] == [
        (0.6, 16.0, 332.80),
        (0.8, 12.0, 249.60),
        (0.95, 10.11, 210.19),
    ]


@given(gpus, prices, hours, shares)
def test_idle_and_busy_are_all(count: int, usd: float, time: float, busy: float) -> None:
    found = bill(count, usd, time, busy)
    assert found.idle_usd + found.total_usd * busy == pytest.approx(found.total_usd)
    assert 0 <= found.idle_usd <= found.total_usd


@given(gpus, prices, hours, shares, st.lists(shares, max_size=5))
def test_busier_is_cheaper(count: int, usd: float, time: float, busy: float, targets: list[float]) -> None:
    rows = bill(count, usd, time, busy, targets).table
    assert [row.busy for row in rows] == sorted(target for target in targets if target > busy)
    costs = [count * usd * time, *(row.usd for row in rows)]
    assert costs == sorted(costs, reverse=True)
    for row in rows:  # the work stays the same
        assert row.hours * row.busy == pytest.approx(time * busy)


@given(gpus, prices, hours, shares)
def test_the_most_that_idle_time_can_bring_is_amdahls(count: int, usd: float, time: float, busy: float) -> None:
    for row in bill(count, usd, time, busy, (1.0,)).table:
        assert row.idle_usd == 0
        assert time / row.hours == pytest.approx(amdahl(1 - busy, math.inf)) == pytest.approx(1 / busy)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"gpus": 0}, "the number of GPUs is 1 or more, not 0"),
        ({"usd_per_gpu_hour": -1.0}, "0 or more, not -1"),
        ({"usd_per_gpu_hour": float("nan")}, "0 or more, not nan"),
        ({"hours": float("inf")}, "more than 0, not inf"),
        ({"busy": 0.0}, "above 0 and at most 1, not 0"),
        ({"busy": 40.0}, "above 0 and at most 1, not 40"),
        ({"busy": float("nan")}, "above 0 and at most 1, not nan"),
        ({"targets": (1.5,)}, "above 0 and at most 1, not 1.5"),
    ],
)
def test_numbers_that_cannot_be(numbers: dict[str, Any], message: str) -> None:
    given_numbers = {"gpus": 1, "usd_per_gpu_hour": 1.0, "hours": 1.0, "busy": 0.5, **numbers}
    with pytest.raises(WhyIdleError, match=message) as caught:
        bill(**given_numbers)
    assert caught.value.hint.startswith("--")


def seen(name: str = "NVIDIA H100 80GB HBM3", *, world_size: int | None = None, idle: float | None = 0.5) -> Report:
    devices = tuple(DeviceBusy(rank, 0, 0.5, 1.0) for rank in range(4))
    summary = Summary("x", gpu_idle_share=idle, devices=devices)
    return Report(RunInfo(gpus=(GpuCount(name, 4),), world_size=world_size), summary)


def test_the_price_given_counts() -> None:
    cost = price(seen(world_size=16), 2.60, hours=10).summary.cost
    assert cost is not None
    assert (cost.usd_per_gpu_hour, cost.price_source, cost.gpus) == (2.60, "your price", 16)
    assert cost.idle_usd_per_hour == pytest.approx(16 * 2.60 / 2)
    assert cost.total_usd == pytest.approx(416)
    assert cost.idle_usd == pytest.approx(208)


def test_gpus_given_then_world_size_then_seen() -> None:
    counts = [
        price(report, 1.0, gpus=asked).summary.cost
        for report, asked in ((seen(world_size=16), 2), (seen(world_size=16), None), (seen(), None))
    ]
    assert [cost and cost.gpus for cost in counts] == [2, 16, 4]


def test_the_list_price_says_where_it_comes_from() -> None:
    cost = price(seen()).summary.cost
    assert cost is not None
    assert cost.usd_per_gpu_hour == pytest.approx(55.04 / 8)
    assert cost.price_source == "H100 SXM: AWS p5.48xlarge, us-east-1, list price, June 2025"
    assert cost.total_usd is None


@given(gpus, prices, hours, shares, st.floats(0.001, 1e9))
def test_a_unit_of_work_costs_what_the_job_costs(
    count: int, usd: float, time: float, busy: float, speed: float
) -> None:
    """Whatever the utilization: the units of the job times their price are its price."""
    found = bill(count, usd, time, busy, samples_per_s=speed, tokens_per_s=speed)
    millions = speed * 3600 * time / 1e6
    for row in (found.today, *found.table):
        assert row.usd_per_million_samples == row.usd_per_million_tokens
        assert row.usd_per_million_tokens * millions == pytest.approx(row.usd)
        assert row.idle_usd == pytest.approx(row.usd * (1 - row.busy))


def working(ranks: int = 4, *, world_size: int | None = 4, idle: float | None = 0.5, **speeds: float) -> Report:
    """Return a report on a job of which so many ranks were watched."""
    report = seen(world_size=world_size, idle=idle)
    evidence = tuple(EvidenceFile(f"{rank}", "whyidle run", rank) for rank in range(ranks))
    return replace(report, run=replace(report.run, evidence=evidence), summary=replace(report.summary, **speeds))


def test_a_million_samples_and_tokens() -> None:
    """4 GPUs at $2.50 are $10 an hour, in which 3.6 million samples are done."""
    cost = price(working(samples_per_s=1000.0, tokens_per_s=1e6), 2.50).summary.cost
    assert cost is not None
    assert cost.usd_per_million_samples == pytest.approx(10 / 3.6)
    assert cost.usd_per_million_samples_busy == pytest.approx(5 / 3.6)
    assert cost.usd_per_million_tokens == pytest.approx(0.01 / 3.6)
    assert cost.usd_per_million_tokens_busy == pytest.approx(0.005 / 3.6)


def test_ranks_that_were_not_watched_are_taken_to_be_like_the_others() -> None:
    whole = price(working(4, samples_per_s=1000.0), 2.50).summary.cost
    half = price(working(2, samples_per_s=500.0), 2.50).summary.cost
    assert whole is not None
    assert half is not None
    assert half.usd_per_million_samples == pytest.approx(whole.usd_per_million_samples)
    alone = price(working(1, world_size=None, samples_per_s=1000.0), 2.50, gpus=8).summary.cost
    assert alone is not None
    assert alone.usd_per_million_samples == pytest.approx(20 / 3.6)  # 8 rented, one process drives them


def test_units_have_a_price_where_idle_time_was_not_measured() -> None:
    report = price(working(idle=None, samples_per_s=1000.0), 2.50, hours=2)
    cost = report.summary.cost
    assert cost is not None
    assert report.warnings == ()
    assert (cost.idle_usd_per_hour, cost.idle_usd, cost.usd_per_million_samples_busy) == (None, None, None)
    assert cost.total_usd == pytest.approx(20)
    assert cost.usd_per_million_samples == pytest.approx(10 / 3.6)


def test_a_job_without_a_gpu_has_no_price() -> None:
    report = working(idle=None, samples_per_s=1000.0)
    report = replace(report, run=replace(report.run, gpus=()))
    assert price(report, 2.50).summary.cost is None


def test_a_price_that_nobody_asked_about_warns_of_nothing() -> None:
    assert price(seen(idle=None), 2.60, source="pyproject.toml") == seen(idle=None)
    cost = price(seen(), 2.60, source="pyproject.toml").summary.cost
    assert cost is not None
    assert cost.price_source == "pyproject.toml"


def worth(mean: float) -> Predicted:
    """Return a prediction for a step of 0.2 s."""
    step = Estimate(mean, mean, mean)
    return Predicted(step, step, Estimate(0.2 / mean, 0.2 / mean, 0.2 / mean))


def predicted(report: Report, step_time_mean_s: float | None = 0.2) -> Report:
    """Return the report with predictions in every place that has one."""
    fixes = (Fix("a", "b", "code", predicted=worth(0.15)), Fix("c", "d", "code"))
    prediction = Prediction(
        step_time_mean_s=step_time_mean_s,
        sequence=(Applied("a.b", "a", worth(0.15), 0.25, ""),),
        joint=worth(0.1),
        asked=(Asked(("a.b",), worth(0.25)), Asked(("a.c",), None, "why")),
    )
    return replace(report, findings=(Finding("a.b", "high", 0.9, "m", 0.3, fixes=fixes),), prediction=prediction)


def saved(report: Report) -> list[float | None]:
    """Return what is saved: by the fix, by the sequence, by all, and by what was asked."""
    assert report.prediction is not None
    told = report.prediction
    found = (report.findings[0].fixes[0].predicted, told.sequence[0].predicted, told.joint, told.asked[0].predicted)
    assert report.findings[0].fixes[1].predicted is told.asked[1].predicted is None
    return [one and one.usd_per_hour_saved for one in found]


@pytest.mark.parametrize("step_time_mean_s", [0.2, None])
def test_what_fixes_save(step_time_mean_s: float | None) -> None:
    """16 GPUs at $2.50 are $40 an hour: a quarter of the time, the same, half of it, and never less than nothing."""
    report = price(predicted(seen(world_size=16), step_time_mean_s), 2.50)
    assert saved(report) == pytest.approx([10.0, 10.0, 20.0, 0.0])


def test_what_fixes_save_at_the_list_price_and_without_one() -> None:
    assert saved(price(predicted(seen()))) == pytest.approx([4 * 55.04 / 8 * share for share in (0.25, 0.25, 0.5, 0)])
    assert saved(price(predicted(seen("NVIDIA GeForce RTX 4090")), gpus=2)) == [None] * 4
    alone = replace(predicted(seen()), prediction=None)
    fix = price(alone, 1.0).findings[0].fixes[0]
    assert fix.predicted is not None
    assert fix.predicted.usd_per_hour_saved == pytest.approx(1.0)


def test_what_fixes_save_where_idle_time_was_not_measured() -> None:
    report = price(predicted(seen(idle=None)), 1.0)
    assert report.summary.cost is None
    assert saved(report) == pytest.approx([1.0, 1.0, 2.0, 0.0])
    no_gpu = replace(predicted(seen(idle=None)), run=RunInfo())
    assert saved(price(no_gpu, 1.0)) == [None] * 4


def test_no_price_is_no_cost() -> None:
    assert price(seen("NVIDIA GeForce RTX 4090")) == seen("NVIDIA GeForce RTX 4090")
    asked = price(seen("NVIDIA GeForce RTX 4090"), hours=3)
    assert asked.summary.cost is None
    assert asked.warnings == ("no cost: no list price for NVIDIA GeForce RTX 4090; give --price",)
    mixed = Report(RunInfo(gpus=(GpuCount("Tesla T4", 1), GpuCount("NVIDIA L4", 1))), Summary("x", gpu_idle_share=0.5))
    assert price(mixed).summary.cost is None


def test_what_was_not_measured_costs_nothing_that_we_know() -> None:
    assert price(seen(idle=None)) == seen(idle=None)
    assert price(seen(idle=None), 2.60).warnings == ("no cost: the GPU's idle time was not measured",)


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("Tesla V100-SXM2-16GB", "V100 16GB"),
        ("Tesla V100-DGXS-32GB", "V100 32GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("nvidia l40s", "L40S"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("AMD Instinct MI300X", "MI300X"),
        # near, and not the same
        ("NVIDIA GB200", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA L40", None),
        ("NVIDIA A100-SXM-64GB", None),
        ("NVIDIA A100X", None),
        ("NVIDIA H20", None),
        ("NVIDIA T400", None),
        ("NVIDIA T4G", None),
        ("Quadro GV100", None),
        ("AMD Instinct MI300A", None),
        # a part of one
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA A10-24Q", None),
        # no help
        ("A100", None),
        ("unknown GPU", None),
        ("", None),
    ],
)
def test_list_price(name: str, gpu: str | None) -> None:
    found = list_price(name)
    assert (found and found.gpu) == gpu


def test_every_price_is_found_by_its_own_name_and_dated() -> None:
    for name in PRICED_GPUS:
        found = list_price(name)
        assert found is not None
        assert found.gpu == name
        assert found.usd_per_gpu_hour > 0
        assert found.instance
        assert found.month[-4:].isdigit()
