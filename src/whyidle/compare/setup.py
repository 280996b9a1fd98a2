"""In what the setup of a run differs from that of an earlier one: what makes them incomparable, and what may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whyidle.model.comparison import Confounder
from whyidle.model.gate import Baseline

# Samples per step that differ by less may be the same job: batches of about as many tokens hold some more or fewer of
# them. A batch that somebody changed, or gradients that are accumulated, are half as much again and more (judgement).
SAME_JOB: Final = 0.1
NAMED: Final = (
    ("batch_size", "batch size"),
    ("world_size", "number of ranks"),
    ("model", "model"),
    ("parameters", "number of parameters"),
    ("torch_version", "version of torch"),
    ("steps_from", "mark of a step"),
)


def differences(baseline: Baseline, run: Baseline) -> Iterator[Confounder]:
    """Yield in what two runs differ, what makes them incomparable first."""
    names = [_gpu(one) for one in (baseline, run)]
    if names[0] != names[1]:
        yield _differs("gpu", names, "GPU", blocks=True)
    if baseline.size and run.size and baseline.size != run.size:
        yield _differs("world_size", [baseline.size, run.size], "number of ranks", blocks=True)
    if baseline.batch_size and run.batch_size and baseline.batch_size != run.batch_size:
        yield _differs("batch_size", [baseline.batch_size, run.batch_size], "batch size", blocks=True)
    elif baseline.samples_per_step and run.samples_per_step:
        work = [baseline.samples_per_step, run.samples_per_step]
        if abs(work[1] / work[0] - 1) > SAME_JOB and baseline.size == run.size:
            yield _differs("samples_per_step", [f"{count:,.4g}" for count in work], "samples per step", blocks=True)
    for name, title in NAMED:
        values = [getattr(one, name) for one in (baseline, run)]
        if values[0] != values[1] and (None in values or name not in {"batch_size", "world_size"}):
            yield _differs(name, values, title)
    for name in sorted({*baseline.settings, *run.settings}):
        values = [one.settings.get(name) for one in (baseline, run)]
        if values[0] != values[1]:
            yield _differs(name, values, name)


def _gpu(one: Baseline) -> str:
    """Return the names of the GPUs; that there was none, where that is known."""
    names = " and ".join(sorted({gpu.name.removeprefix("NVIDIA ") for gpu in one.gpus}))
    return names or ("none" if one.on_gpu is False else "")


def _differs(name: str, values: Sequence[object], title: str, *, blocks: bool = False) -> Confounder:
    before, after = ("not known" if value in {None, ""} else str(value) for value in values)
    return Confounder(name, before, after, "blocks" if blocks else "doubts", f"{title} {before}, now {after}")
