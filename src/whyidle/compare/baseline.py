"""What is kept of a run, so that later ones can be held against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Final

from whyidle._version import __version__
from whyidle.compare.arms import Repeat, rate_of, repeat_of
from whyidle.compare.confounders import settings_of
from whyidle.compare.setup import differences
from whyidle.compare.starts import given_twice
from whyidle.curves import long_enough
from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Value
from whyidle.model.gate import Baseline
from whyidle.read import Progress
from whyidle.read.baseline import MOST_STARTS, MOST_STEPS
from whyidle.watched import end

# What changes how fast the same model computes.
KEPT: Final = (
    "param_dtype", "autocast_dtype", "default_dtype", "matmul_precision", "tf32_matmul", "tf32_cudnn",
    "cudnn_benchmark", "deterministic", "compile", "compiled", "compile_mode", "compile_backend",
    "gradient_checkpointing", "gradient_accumulation", "wrapper",
)  # fmt: skip


def baseline_from(
    starts: Sequence[Sequence[str]], made: str = "", progress: Progress | None = None
) -> tuple[Baseline, tuple[str, ...]]:
    """Return what is kept of a job, and what one has to know of its recordings.

    Args:
        starts: the paths and addresses of the evidence of each start of the job: one, or several repeats.
        made: now, ISO 8601.
        progress: told (path, bytes done, bytes in all) while files are read.

    Raises:
        WhyIdleError: there is nothing to read, a recording cannot be believed or is there twice, or the repeats are not
            of one setup.
    """
    _check_starts(starts)
    repeats = [repeat_of(list(paths), progress=progress) for paths in starts]
    kept = [baseline_of(one, made) for one in repeats]
    notes = [said for one in repeats for said in _notes(one)]
    return _joined(kept), tuple(dict.fromkeys([*notes, *_unlike(kept)]))


def baseline_of(one: Repeat, made: str = "") -> Baseline:
    """Return what is kept of one start of a job.

    Of its steps after the warm-up the first 2,000 are kept, the same of every run.

    Raises:
        WhyIdleError: the recording cannot be believed.
    """
    info, summary, m = one.report.run, one.report.summary, one.measured.measurements
    if one.doubt:
        raise WhyIdleError(f"{one.paths[0]} cannot be believed: {one.doubt}", "record the run again")
    settings = settings_of(one)
    few = info.only_curves and not long_enough(summary, one.measured.curves)
    steps = tuple(map(float, one.steady[:MOST_STEPS]))
    numbers = () if one.pace is None or one.pace.number is None else one.pace.number[one.pace.dropped :]
    return Baseline(
        made=made,
        whyidle=__version__,
        gpus=tuple(gpu for gpu in info.gpus if gpu.name and gpu.name != "unknown GPU"),
        on_gpu=True if summary.paid_idle_share is not None else summary.on_gpu,
        world_size=info.world_size,
        batch_size=_count(settings, "batch_size"),
        samples_per_step=one.samples_per_step,
        model=_text(settings, "model"),
        parameters=_count(settings, "parameters"),
        torch_version=_text(settings, "torch_version"),
        settings={name: settings[name] for name in KEPT if name in settings},
        steps_from="" if one.pace is None else one.pace.source,
        per="step" if one.pace is None else one.pace.per,
        warm_up=0 if one.pace is None else one.pace.dropped,
        step_seconds=(steps,) if steps else (),
        step_numbers=(tuple(map(int, numbers[:MOST_STEPS])),) if steps and len(numbers) else (),
        step_time_s=median(steps) if steps else None,
        step_time_mean_s=fmean(steps) if steps else None,
        samples_per_s=rate_of([one], "samples") or one.report.per_second("samples"),
        tokens_per_s=rate_of([one], "tokens") or one.report.per_second("tokens"),
        gpu_idle_share=None if few else summary.paid_idle_share,
        data_wait_share=summary.data_wait_share,
        peak_memory_bytes=int(m.number("peak_memory_bytes")) if "peak_memory_bytes" in m else None,
    )


def _check_starts(starts: Sequence[Sequence[str]]) -> None:
    """Refuse a recording that is there twice.

    Raises:
        WhyIdleError: for that, and for more repeats than a baseline holds.
    """
    twice = given_twice(path for start in starts for path in start)
    if twice is not None and len(starts) > 1:
        raise WhyIdleError(f"{twice} is given twice: a repeat is another start of the job", "--repeat ANOTHER_RUN")
    if len(starts) > MOST_STARTS:
        raise WhyIdleError(f"{len(starts)} repeats are more than the {MOST_STARTS} that a baseline holds", "give fewer")


def _joined(kept: Sequence[Baseline]) -> Baseline:
    """Return what is kept of several starts of one job: all their steps, the mean of what else was measured of each.

    Raises:
        WhyIdleError: they are not of one setup.
    """
    first, *others = kept
    for other in others:
        blocks = [each.message for each in differences(first, other) if each.weight == "blocks"]
        if blocks or first.per != other.per:
            said = "; ".join(blocks or [f"times of a {first.per}, now of a {other.per}"])
            raise WhyIdleError(f"the repeats are of different setups: {said}", "give repeats of one job")
    without = sum(not one.step_seconds for one in kept)
    if 0 < without < len(kept):
        raise WhyIdleError(f"nothing tells of steps in {without} of {len(kept)} repeats", "give repeats of one job")
    if not others:
        return first

    def mean(name: str) -> float | None:
        values = [getattr(one, name) for one in kept]
        return None if None in values else fmean(values)

    memory = [one.peak_memory_bytes or 0 for one in kept]
    return replace(
        first,
        samples_per_step=mean("samples_per_step"),
        warm_up=max(one.warm_up for one in kept),
        step_seconds=tuple(steps for one in kept for steps in one.step_seconds),
        step_numbers=tuple(of for one in kept for of in one.step_numbers)
        if all(one.step_numbers for one in kept)
        else (),
        step_time_s=mean("step_time_s"),
        step_time_mean_s=mean("step_time_mean_s"),
        samples_per_s=mean("samples_per_s"),
        tokens_per_s=mean("tokens_per_s"),
        gpu_idle_share=mean("gpu_idle_share"),
        data_wait_share=mean("data_wait_share"),
        peak_memory_bytes=max(memory) if all(memory) else None,
    )


def _notes(one: Repeat) -> Iterator[str]:
    """Yield what is wrong with a recording, though it can be judged."""
    yield from end(one.run)
    yield from one.report.warnings


def _unlike(kept: Sequence[Baseline]) -> Iterator[str]:
    for other in kept[1:]:
        doubts = [each.message for each in differences(kept[0], other)]
        if doubts:
            yield f"the repeats are not alike: {'; '.join(doubts)}"


def _count(settings: Mapping[str, Value], name: str) -> int | None:
    value = settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _text(settings: Mapping[str, Value], name: str) -> str | None:
    value = settings.get(name)
    return value if isinstance(value, str) else None
