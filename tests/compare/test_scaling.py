"""How a job uses more GPUs: of simulated jobs the truth is known, of watched ones the arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare.scaled_jobs import BASE, simulated, sizes
from whyidle.compare.lost import Shares, split
from whyidle.compare.scaling import BEYOND, ON_CPU, OVERLAP, RECORD, efficiency, percent_of, scaling, scaling_of
from whyidle.compare.sized import Point
from whyidle.errors import WhyIdleError
from whyidle.model.comparison import Interval
from whyidle.model.evidence import Run
from whyidle.model.scaling import Loss, Scaling
from whyidle.read import load

PART = st.one_of(st.none(), st.floats(0, 0.3))
SHARES = st.builds(Shares, PART, PART, PART)
NOISE = 0.02  # of the GPUs' time: simulated steps vary


def parts(found: Scaling) -> Loss:
    loss = found.sizes[-1].loss
    assert loss is not None
    return loss


@given(st.floats(0.05, 1.2), SHARES, SHARES)
def test_the_parts_of_a_loss_sum_to_it(efficiency: float, base: Shares, now: Shares) -> None:
    loss = split(efficiency, base, now)
    known = [part for part in (loss.communication, loss.imbalance, loss.input) if part is not None]
    assert sum(known) + loss.unexplained == pytest.approx(loss.total)
    assert loss.total == pytest.approx(1 - efficiency)
    for name in ("communication", "imbalance", "input"):
        unknown = getattr(base, name) is None or getattr(now, name) is None
        assert (getattr(loss, name) is None) == unknown


@given(SHARES)
def test_a_run_loses_nothing_against_itself(shares: Shares) -> None:
    loss = split(1.0, shares, shares)
    assert all(part in (None, 0.0) for part in (loss.communication, loss.imbalance, loss.input))
    assert loss.total == loss.unexplained == 0


@given(st.dictionaries(st.integers(1, 512), st.floats(0.1, 1e6), min_size=2, max_size=5))
def test_speedup_and_efficiency_are_the_same_statement(throughput: dict[int, float]) -> None:
    found = scaling_of(throughput)
    base = found.sizes[0]
    assert (base.speedup.likely, base.efficiency.likely, base.loss) == (1, 1, None)
    for size in found.sizes:
        assert size.speedup.likely == pytest.approx(size.throughput.likely / base.throughput.likely)
        assert size.efficiency.likely == pytest.approx(size.speedup.likely * base.gpus / size.gpus)
        assert size.gpu_hours_per_million == pytest.approx(1e6 * size.gpus / size.throughput.likely / 3600)
        if size.loss is not None:
            assert size.loss.unexplained == pytest.approx(1 - size.efficiency.likely)


def test_by_numbers() -> None:
    found = scaling_of({4: 2400, 1: 1000}, usd_per_gpu_hour=2.60)
    assert found.verdict == "4 GPUs do 2.40x the work of 1: 60% of linear."
    assert [size.gpus for size in found.sizes] == [1, 4]
    assert [size.usd_per_million for size in found.sizes] == pytest.approx([0.7222, 1.2037], abs=1e-4)
    assert (found.cheapest, found.dearer_from, found.doubling.sizes) == (1, 4, 2)
    assert found.not_recorded == ("communication", "imbalance", "input")
    assert all(math.isinf(size.efficiency.high) for size in found.sizes)  # nothing tells how much they vary


@pytest.mark.parametrize(("rate", "told"), [(2400, ()), (4000, ()), (4100, ()), (6000, (BEYOND,))])
def test_only_what_was_recorded_can_be_more_than_all(rate: float, told: tuple[str, ...]) -> None:
    assert scaling_of({1: 1000, 4: rate}).warnings == told


def test_ranks_on_cpus_are_not_advised_to_be_traced(tmp_path: Path) -> None:
    for on_gpu, how in ((True, RECORD), (False, ON_CPU)):
        found = scaling(sizes(tmp_path / how[:6], {"ranks": 1, "on_gpu": on_gpu}, {"ranks": 2, "on_gpu": on_gpu}))
        assert (found.not_recorded[0], found.how_to_record) == ("communication", how)


def test_how_sure_an_efficiency_is_stands_beside_it() -> None:
    assert percent_of(Interval(0.65, 0.95, 1.63), " of linear") == "95% of linear (65%\N{EN DASH}163%)"
    assert percent_of(Interval(-math.inf, 0.95, math.inf), " of linear") == "95% of linear"
    assert percent_of(Interval(0.949, 0.95, 0.951)) == "95%"


def test_repeats_of_one_size_tell_how_much_starts_of_the_other_differ() -> None:
    random = np.random.default_rng(1)
    rate = Interval(1, 1, 1)
    starts = tuple(random.normal(seconds, 0.001, 60) for seconds in (0.09, 0.1, 0.11))
    once = Point(4, rate, (random.normal(0.1, 0.001, 60),))
    assert efficiency(Point(1, rate, starts[1:2]), once).high < 0.26
    assert efficiency(Point(1, rate, starts), once).high > 0.375  # three that lie 10% apart say little of a fourth


def test_more_gpus_can_be_cheaper() -> None:
    """Two GPUs whose caches hold what one's does not."""
    found = scaling_of({1: 1000, 2: 2100, 4: 4000, 8: 7000})
    assert (found.cheapest, found.dearer_from) == (2, 4)


# simulated jobs: each part of the loss is what the simulator was told to lose


def test_a_job_without_faults_scales(tmp_path: Path) -> None:
    found = scaling(simulated(tmp_path), kind="weak")
    assert found.sizes[-1].efficiency.likely == pytest.approx(1, abs=NOISE)
    assert found.sizes[-1].efficiency.low <= 1 <= found.sizes[-1].efficiency.high
    assert found.dearer_from is None
    assert found.not_recorded == ()


def test_slow_links_are_communication(tmp_path: Path) -> None:
    loss = parts(scaling(simulated(tmp_path, gradient_scale=10.0, link_slowdown=10.0), kind="weak"))
    assert loss.total > 0.2
    assert loss.communication == pytest.approx(loss.total, abs=NOISE)


def test_a_slow_gpu_is_imbalance(tmp_path: Path) -> None:
    loss = parts(scaling(simulated(tmp_path, slow_rank=1, slow_gpu=1.3), kind="weak"))
    assert loss.total == pytest.approx(1 - 1 / 1.3, abs=NOISE)
    assert loss.imbalance == pytest.approx(loss.total, abs=NOISE)


def test_a_rank_alone_does_not_tell_waiting_from_communication(tmp_path: Path) -> None:
    """Rank 0 waits in collectives for a GPU that is slow: by its trace alone that looks like communication."""
    (one, four) = simulated(tmp_path, slow_rank=1, slow_gpu=1.3)
    first, *others = sorted((tmp_path / "gpus-4").iterdir())
    for path in others:
        path.unlink()
    found = scaling([one, (four[0], load([first]))], kind="weak")
    loss = parts(found)
    assert loss.communication is loss.imbalance is None
    assert (loss.unexplained, found.not_recorded) == (
        pytest.approx(loss.total, abs=NOISE),
        ("communication", "imbalance"),
    )
    assert "Most of the loss" not in found.verdict


def test_ranks_that_were_not_recorded_count(tmp_path: Path) -> None:
    runs = sizes(tmp_path, {"ranks": 1}, {"ranks": 4})
    for path in (tmp_path / "1-gpus-4").rglob("400[123]-*"):
        path.unlink()
    found = scaling([runs[0], (runs[1][0], load([tmp_path / "1-gpus-4"]))])
    assert (found.kind, found.sizes[-1].batch) == ("weak", pytest.approx(128))
    assert found.sizes[-1].efficiency.likely == pytest.approx(1, abs=0.002)


def test_both_at_once_are_told_apart(tmp_path: Path) -> None:
    fault = {"gradient_scale": 10.0, "link_slowdown": 10.0, "slow_rank": 1, "slow_gpu": 1.3}
    loss = parts(scaling(simulated(tmp_path, **fault), kind="weak"))
    assert loss.imbalance is not None
    assert loss.communication is not None
    assert loss.imbalance > 0.15
    assert loss.communication > 0.05
    assert loss.unexplained == pytest.approx(0, abs=NOISE)


def test_workers_that_are_too_few_are_input(tmp_path: Path) -> None:
    slow = replace(BASE.data, workers=2, batch_us=60_000.0)
    loss = parts(scaling(simulated(tmp_path, data=slow), kind="weak"))
    assert loss.input is not None
    assert loss.input > 0.2
    assert loss.communication == pytest.approx(0, abs=NOISE)
    assert abs(loss.imbalance or 0) <= NOISE


# jobs that were watched


def test_weak_scaling_by_recorded_batch_sizes(tmp_path: Path) -> None:
    jobs = ({"ranks": 1}, {"ranks": 2, "data": 3, "compute": 33}, {"ranks": 4, "data": 14, "compute": 38})
    found = scaling(sizes(tmp_path, *jobs))
    assert (found.kind, found.unit) == ("weak", "samples")
    assert found.why_kind == "the same batch per GPU: 32"
    assert [size.batch for size in found.sizes] == pytest.approx([32, 64, 128])
    assert [size.efficiency.likely for size in found.sizes] == pytest.approx([1, 61 / 66, 61 / 82], abs=0.002)
    last = found.sizes[-1]
    assert last.efficiency.low < 61 / 82 < last.efficiency.high
    assert last.efficiency.high - last.efficiency.low < 0.02
    loss = parts(found)
    assert loss.input == pytest.approx(14 / 82 - 1 / 61 * 61 / 82, abs=0.01)
    assert loss.communication is loss.imbalance is None
    assert found.not_recorded == ("communication", "imbalance")
    assert [size.cpus_per_rank for size in found.sizes] == [8, 4, 2]
    assert any("CPUs per rank differ: 8 on 1, 4 on 2, 2 on 4" in warning for warning in found.warnings)
    assert found.verdict.endswith("Most of the loss is waiting for data: 16% of the GPUs' time.")


def test_strong_scaling_by_recorded_batch_sizes(tmp_path: Path) -> None:
    found = scaling(sizes(tmp_path, {"ranks": 1, "compute": 120, "samples": 128}, {"ranks": 4, "samples": 32}))
    assert (found.kind, found.why_kind) == ("strong", "the same batch in all: 128")
    assert found.sizes[-1].efficiency.likely == pytest.approx(151 / (4 * 61), abs=0.002)


def test_other_batches_at_each_size_are_told_by_samples(tmp_path: Path) -> None:
    found = scaling(sizes(tmp_path, {"ranks": 1, "samples": 32}, {"ranks": 4, "samples": 16, "compute": 20}))
    assert found.kind == "mixed"
    assert found.sizes[-1].efficiency.likely == pytest.approx(16 / 51 / (32 / 61), abs=0.002)


def test_repeats_are_one_size(tmp_path: Path) -> None:
    jobs = ({"ranks": 1}, {"ranks": 1, "compute": 32}, {"ranks": 2}, {"ranks": 2, "compute": 32})
    found = scaling(sizes(tmp_path, *jobs))
    assert [size.gpus for size in found.sizes] == [1, 2]
    assert [len(size.paths) for size in found.sizes] == [2, 2]
    share = found.sizes[-1].efficiency
    assert share.likely == pytest.approx(1, abs=0.001)
    assert share.high - share.low > 0.02  # what differs from run to run counts


def test_what_trainers_printed(tmp_path: Path) -> None:
    """Tokens per second and step times; the log does not say on how many GPUs."""
    runs = []
    for gpus, per_s in ((8, 40_000), (16, 76_000)):
        path = tmp_path / f"log{gpus}.txt"
        lines = (f"step: {n} step_time: {1.0 + n % 3 / 100:.4f} tokens_per_second: {per_s}" for n in range(1, 80))
        path.write_text("\n".join(lines), "utf-8")
        runs.append((path.name, load([path])))
    assert "on how many GPUs" in refused(runs).message
    found = scaling(runs, gpus=(8, 16))
    assert (found.unit, found.kind) == ("tokens", "mixed")
    assert found.sizes[-1].efficiency.likely == pytest.approx(0.95, abs=0.001)
    assert any("taken as that of all GPUs together" in warning for warning in found.warnings)


def titan(folder: Path, gpus: int, per_gpu: int) -> tuple[str, Run]:
    """Return the log of torchtitan on so many GPUs: each takes 16,384 tokens in a step."""
    lines = []
    for n in range(1, 80):
        at = f"{n * 16384 / per_gpu * 1000 % 1000:03.0f}", n * 16384 // per_gpu
        stamp = f"2026-01-02 03:{at[1] // 60:02d}:{at[1] % 60:02d},{at[0]}"
        lines.append(f"[titan] {stamp} - root - INFO - step: {n}  loss: 8.1  tps: {per_gpu:,}  mfu: 40.1%")
    path = folder / f"titan{gpus}.txt"
    path.write_text("\n".join(lines), "utf-8")
    return path.name, load([path])


def test_torchtitan_prints_tokens_of_a_gpu(tmp_path: Path) -> None:
    """Its docs/performance.md: 5,762 on 8 H100, 5,605 on 128: 97.3% of linear."""
    found = scaling([titan(tmp_path, 8, 5762), titan(tmp_path, 128, 5605)], gpus=(8, 128))
    assert (found.kind, found.why_kind) == ("weak", "the same batch per GPU: 16,381 tokens")  # by clocks of 1 ms
    assert found.sizes[-1].efficiency.likely == pytest.approx(0.973, abs=0.002)
    assert found.sizes[0].throughput.likely == pytest.approx(8 * 5762, rel=0.002)
    assert not any("taken as that of all GPUs" in warning for warning in found.warnings)


def test_what_a_trainer_of_ones_own_printed_may_be_of_each_gpu(tmp_path: Path) -> None:
    runs = []
    for gpus, named in ((8, "tokens_per_second"), (16, "tokens/s")):
        path = tmp_path / f"log{gpus}.txt"
        path.write_text("\n".join(f"step: {n} step_time: 1.0 {named}: 5000" for n in range(1, 80)), "utf-8")
        runs.append((path.name, load([path])))
    assert scaling(runs, gpus=(8, 16)).kind == "strong"
    each = scaling(runs, gpus=(8, 16), printed_each=True)
    assert (each.kind, each.sizes[-1].throughput.likely) == ("weak", pytest.approx(80_000))
    assert not any("taken as that of all GPUs" in warning for warning in each.warnings)


def test_what_is_said_and_not_used_is_told(tmp_path: Path) -> None:
    runs = sizes(tmp_path, {"ranks": 1}, {"ranks": 2})
    found = scaling(runs, kind="strong", gpus=(1, 4))
    assert any(
        "1-gpus-2: its recorded number of ranks is 2; 4 GPUs are counted" in warning for warning in found.warnings
    )
    found = scaling(runs, kind="strong")
    assert found.kind == "weak"
    assert any("--kind strong is not used" in warning for warning in found.warnings)


def test_few_steps_are_said(tmp_path: Path) -> None:
    found = scaling(sizes(tmp_path, {"ranks": 1, "steps": 4}, {"ranks": 2, "steps": 4}))
    assert any("nothing tells how much they vary" in warning for warning in found.warnings)
    assert math.isinf(found.sizes[-1].efficiency.high)
    assert math.isinf(found.sizes[-1].throughput.high)


# what cannot be judged


def refused(*arguments, **options) -> WhyIdleError:
    with pytest.raises(WhyIdleError) as error:
        scaling(*arguments, **options)
    assert error.value.hint
    return error.value


def test_one_size_is_none(tmp_path: Path) -> None:
    assert "one run" in refused(sizes(tmp_path, {"ranks": 2})).message
    assert "every run here is on 2 GPUs" in refused(sizes(tmp_path / "more", {"ranks": 2}, {"ranks": 2})).message


def test_a_recording_counts_once(tmp_path: Path) -> None:
    (one,) = sizes(tmp_path, {"ranks": 1})
    assert "0-gpus-1 is given twice" in refused([one, one], gpus=(1, 2)).message


def test_other_models_are_other_jobs(tmp_path: Path) -> None:
    runs = sizes(tmp_path, {"ranks": 1}, {"ranks": 2, "model": "Other"})
    assert any("0-gpus-1, 1-gpus-2: the models may differ: Net" in warning for warning in scaling(runs).warnings)
    ddp = {"parameters": 2000, "wrapper": "DistributedDataParallel"}
    runs = sizes(tmp_path / "size", {"ranks": 1}, {"ranks": 2, **ddp})
    error = refused(runs)
    said = "0-gpus-1, 1-gpus-2: the models differ: Net with 1,000 parameters, and Net with 2,000 parameters"
    assert (error.message, error.hint) == (f"these are no runs of one job: {said}", "--force answers all the same")
    assert f"compared all the same, as --force asks: {said}." in scaling(runs, force=True).warnings


def test_a_rank_that_holds_a_part_of_the_parameters_trains_the_same_model(tmp_path: Path) -> None:
    sharded = {"parameters": 500, "wrapper": "FullyShardedDataParallel"}
    assert scaling(sizes(tmp_path, {"ranks": 1}, {"ranks": 2, **sharded})).kind == "weak"


def test_traces_do_not_tell_samples(tmp_path: Path) -> None:
    runs = simulated(tmp_path, (1, 2))
    assert "how many samples" in refused(runs).message
    weak = scaling(runs, kind="weak")
    assert weak.unit == "batches of one GPU"
    assert weak.price_source.startswith("A100")  # the list price of the GPU that was seen
    assert scaling(runs, kind="weak", usd_per_gpu_hour=2.6).price_source == "your price"
    strong = scaling(runs, kind="strong")
    assert strong.unit == "steps"
    assert strong.sizes[-1].efficiency.likely == pytest.approx(0.5, abs=NOISE)
    assert strong.sizes[-1].usd_per_million is None


def test_how_many_gpus_can_be_told(tmp_path: Path) -> None:
    runs = sizes(tmp_path, {"ranks": 1}, {"ranks": 1, "samples": 64})
    found = scaling(runs, gpus=(1, 2))
    assert [size.gpus for size in found.sizes] == [1, 2]
    assert "3 numbers of GPUs for 2 runs" in refused(runs, gpus=(1, 2, 4)).message


def test_parts_that_are_more_than_the_whole_are_said() -> None:
    assert split(0.9, Shares(0, 0, 0), Shares(0.2, 0, 0)).unexplained == pytest.approx(-0.1)
    assert "overlap" in OVERLAP


@pytest.mark.parametrize("throughput", [{0: 10, 1: 20}, {1: 0, 2: 3}, {1: math.nan, 2: 3}, {1: 5, 2: -3}, {1: 5}, {}])
def test_numbers_that_cannot_be(throughput: dict[int, float]) -> None:
    with pytest.raises(WhyIdleError) as error:
        scaling_of(throughput)
    assert error.value.hint
