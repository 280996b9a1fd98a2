"""The file that `whyidle baseline save` writes (docs/check.md). It may come from anywhere, so everything is bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from whyidle.errors import WhyIdleError
from whyidle.model.finding import GpuCount
from whyidle.model.gate import Baseline
from whyidle.read.blocks import content_of
from whyidle.read.typed import MOST_JSON, WRONG, Float, Int

SCHEMA_VERSION: Final = 1
MOST_STEPS: Final = 2000  # that a baseline holds of a run
MOST_STARTS: Final = 50  # runs
SAVE: Final = "whyidle baseline save RUN -o baseline.json"

_Text = Annotated[str, msgspec.Meta(max_length=500)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
_Seconds = Annotated[float, msgspec.Meta(ge=1e-12, le=1e7)]  # of a token it may be little

_Steps = Annotated[tuple[_Seconds, ...], msgspec.Meta(min_length=1, max_length=MOST_STEPS)]

_Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
_Numbers = Annotated[tuple[_Number, ...], msgspec.Meta(min_length=1, max_length=MOST_STEPS)]


class _Gpus(msgspec.Struct):
    name: _Text
    count: _Count


class _Kept(msgspec.Struct):
    made: _Text = ""
    whyidle: _Text = ""
    gpus: Annotated[tuple[_Gpus, ...], msgspec.Meta(max_length=100)] = ()
    on_gpu: bool | None = None
    world_size: _Count | None = None
    batch_size: _Count | None = None
    samples_per_step: _Positive | None = None
    model: _Text | None = None
    parameters: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)] | None = None
    torch_version: _Text | None = None
    settings: Annotated[dict[str, bool | Int | Float | _Text], msgspec.Meta(max_length=100)] = {}
    steps_from: _Text = ""
    per: Literal["step", "sample", "token"] = "step"
    warm_up: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    step_seconds: Annotated[tuple[_Steps, ...], msgspec.Meta(max_length=MOST_STARTS)] = ()
    step_numbers: Annotated[tuple[_Numbers, ...], msgspec.Meta(max_length=MOST_STARTS)] = ()
    step_time_s: _Seconds | None = None
    step_time_mean_s: _Seconds | None = None
    samples_per_s: _Positive | None = None
    tokens_per_s: _Positive | None = None
    gpu_idle_share: _Share | None = None
    data_wait_share: _Share | None = None
    peak_memory_bytes: _Count | None = None


class _File(msgspec.Struct):
    schema_version: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)]
    baseline: msgspec.Raw


def read_baseline(path: Path) -> Baseline:
    """Return a baseline that was saved.

    Raises:
        WhyIdleError: it cannot be read, is none, is damaged, or was written by a newer whyidle than can be read.
    """
    try:
        content, size = content_of(path, MOST_JSON)
    except FileNotFoundError:
        raise WhyIdleError(f"the baseline {path} cannot be read: there is no such file", SAVE) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise WhyIdleError(f"the baseline {path} cannot be read: {why}", SAVE) from None
    if size > MOST_JSON:
        raise WhyIdleError(f"{path} is larger than {MOST_JSON >> 20} MiB: it is no baseline", SAVE)
    try:
        file = msgspec.json.decode(content, type=_File)
    except WRONG:
        raise WhyIdleError(f"{path} is no baseline of whyidle", SAVE) from None
    if file.schema_version > SCHEMA_VERSION:
        raise WhyIdleError(f"{path} was written by a newer whyidle", "pip install -U whyidle")
    try:
        kept = msgspec.json.decode(file.baseline, type=_Kept)
    except WRONG as error:
        raise WhyIdleError(f"the baseline {path} is damaged: {error}", SAVE) from None
    if kept.step_numbers and list(map(len, kept.step_numbers)) != list(map(len, kept.step_seconds)):
        raise WhyIdleError(f"the baseline {path} is damaged: not every step has a number", SAVE)
    values = {name: getattr(kept, name) for name in kept.__struct_fields__}
    return Baseline(**values | {"gpus": tuple(GpuCount(gpu.name, gpu.count) for gpu in kept.gpus)})
