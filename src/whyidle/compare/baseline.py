"""What is kept of a run, so that later ones can be held against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Final

from whyidle._version import __version__
from whyidle.compare.pace import pace_of
from whyidle.fetch import brought
from whyidle.judge import judge, measured_of
from whyidle.measure import Measured
from whyidle.model.evidence import Run, Value
from whyidle.model.gate import Baseline
from whyidle.read import Progress, load
from whyidle.read.baseline import MOST_STEPS

REFUSED: Final = "Cannot judge: "  # how a verdict begins that is none
# What changes how fast the same model computes.
KEPT: Final = (
    "param_dtype", "autocast_dtype", "default_dtype", "matmul_precision", "tf32_matmul", "tf32_cudnn",
    "cudnn_benchmark", "deterministic", "compile", "compiled", "compile_mode", "compile_backend",
    "gradient_checkpointing", "gradient_accumulation", "wrapper",
)  # fmt: skip


def baseline_from(
    paths: Sequence[str], made: str = "", progress: Progress | None = None
) -> tuple[Baseline, tuple[str, ...]]:
    """Return what is kept of the run whose evidence these paths and addresses are, and why it is less than usual.

    Raises:
        WhyIdleError: when there is nothing to read.
    """
    with brought(paths, progress) as here:
        return baseline_of(here.named(load(here.paths, progress)), made)


def baseline_of(run: Run, made: str = "") -> tuple[Baseline, tuple[str, ...]]:
    """Return what is kept of a run, and why it cannot be judged if that is so.

    Of its steps after the warm-up the first 2,000 are kept, the same of every run.

    Args:
        run: the evidence.
        made: now, ISO 8601.
    """
    measured = measured_of(run)
    report = judge(run, predict=False, measured=measured)
    info, summary = report.run, report.summary
    settings = {**_of_subjects(measured), **info.settings}
    pace = pace_of(run, measured)
    steps = () if pace is None else tuple(map(float, pace.steady[:MOST_STEPS]))
    m = measured.measurements
    kept = Baseline(
        made=made,
        whyidle=__version__,
        gpus=tuple(gpu for gpu in info.gpus if gpu.name),
        world_size=info.world_size,
        batch_size=_count(settings, "batch_size"),
        model=_text(settings, "model"),
        parameters=_count(settings, "parameters"),
        torch_version=_text(settings, "torch_version"),
        settings={name: settings[name] for name in KEPT if name in settings},
        steps_from="" if pace is None else pace.source,
        per="step" if pace is None else pace.per,
        warm_up=0 if pace is None else pace.dropped,
        step_seconds=steps,
        step_time_s=median(steps) if steps else None,
        step_time_mean_s=fmean(steps) if steps else None,
        samples_per_s=summary.samples_per_s,
        tokens_per_s=summary.tokens_per_s,
        gpu_idle_share=summary.paid_idle_share,
        data_wait_share=summary.data_wait_share,
        peak_memory_bytes=int(m.number("peak_memory_bytes")) if "peak_memory_bytes" in m else None,
    )
    return kept, (summary.verdict,) if summary.verdict.startswith(REFUSED) else ()


def _of_subjects(measured: Measured) -> dict[str, Value]:
    """Return settings that are told for each kind of device, as that of autocast is: the first of each."""
    facts = (fact for log in measured.watched.logs for fact in log.facts if fact.name in KEPT)
    return {fact.name: fact.value for fact in reversed(list(facts))}


def _count(settings: Mapping[str, Value], name: str) -> int | None:
    value = settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _text(settings: Mapping[str, Value], name: str) -> str | None:
    value = settings.get(name)
    return value if isinstance(value, str) else None
