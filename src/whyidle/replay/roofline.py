"""What a kernel takes once its numbers are of another type: by the GPU's peaks, and no less than its memory allows.

Of the speed that the other units have beyond those in use, only a part is reached (a prior of the rule, since nothing
in this job shows it). What memory limits reads and writes half as much in 16 bits, and is not changed by TF32.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.flops import Limits, Worked, peaks_of
from whyidle.measure.rows import Index, Mask
from whyidle.model.peaks import Peaks

To = Literal["tf32", "bf16", "fp16", "fp8"]
# What is left of a product's time where neither GPU nor sizes are known: as rules/compute/fp32_no_tensorcore.py says
# (A100: 19.5 / 156 TFLOP/s at 35%; 19.5 / 312 at half; V100: 15.7 / 125 at half).
PRIOR: Final[dict[To, float]] = {"tf32": 0.36, "bf16": 0.125, "fp16": 0.25, "fp8": 0.7}
# Of the extra speed on paper: with 8 times the peak an A100 is taken to get 2.8 times as fast in TF32, a V100 4 times
# in fp16. So the same as those priors on these GPUs, and 1 where there is no extra speed (RTX 4090: TF32 as fp32).
REACHED: Final[dict[To, float]] = {"tf32": 0.254, "bf16": 0.43, "fp16": 0.43, "fp8": 0.43}
# Of the bandwidth on paper, what kernels that stream reach (A100 1.35 of 1.555 TB/s, H100 2.9 of 3.35 in BabelStream).
STREAMED: Final = 0.85
# Of the time of a kernel that memory limits, with values of half the size: halves what it moves, and some of what it
# moves stays as it is (masks, statistics, indices): 0.5-0.6, assumed.
HALVED: Final = 0.55


def device_factor(a: Analysis, rows: Index, to: To) -> NDArray[np.float64]:
    """Return what the durations of these kernels are multiplied with once they compute in `to`; never above 1."""
    name = a.t.device.name[rows]
    product = a.t.strings_like(names.is_matmul)[name]
    factor = np.ones(len(rows))
    factor[product] = arithmetic(a, rows[product], to)
    if to != "tf32":
        full = in_fp32(a, rows) & ~product
        factor[full] = HALVED
    return np.minimum(np.maximum(factor, floor(a, rows, to)), 1.0)


def arithmetic(a: Analysis, rows: Index, to: To) -> NDArray[np.float64]:
    """Return what arithmetic leaves of the time of products, by what they compute in now: 1 where it is no gain."""
    name = a.t.device.name[rows]
    tensor = a.t.strings_like(names.is_tensor_core)[name]
    known, wide = operands(a, rows)
    half = (tensor & a.t.strings_like(names.HALF_PRODUCT)[name]) | (known & ~wide)
    peak = peaks_of(a)
    left = np.ones(len(rows))
    for now, those in (("fp32", ~tensor & ~half), ("tf32", tensor & ~half), ("bf16", half)):
        left[those] = left_of(peak, now, to)
    return left


def left_of(peak: Peaks | None, now: str, to: To) -> float:
    """Return what is left of a product's time on units for `to` instead of those for `now`."""
    if peak is None:
        return PRIOR[to] if now == "fp32" else PRIOR["fp8"] if now == "bf16" and to == "fp8" else 1.0
    before, after = peak.flops("fp16" if now == "bf16" else now), peak.flops(to)
    if not before or not after:
        return 1.0
    return 1 / (1 + max(after / before - 1, 0.0) * REACHED[to])


def floor(a: Analysis, rows: Index, to: To) -> NDArray[np.float64]:
    """Return the share of their time that memory needs of these kernels anyway; 0 where sizes or GPU are not known.

    Operands of 2 bytes are half of what is moved now; those that TF32 rounds stay as large as they are.
    """
    left = np.zeros(len(rows))
    peak = peaks_of(a)
    if peak is None or not len(rows) or not (a.t.host.shapes >= 0).any():
        return left
    worked = Worked.of_trace(a)
    limits = Limits.of(worked, peak)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(limits.memory / STREAMED / worked.took, nan=0.0, posinf=0.0)
    wide = np.array([w.number in {"float", ""} for w in worked.works], np.bool_)
    narrow = {"tf32": 1.0, "bf16": 0.5, "fp16": 0.5, "fp8": 0.25}[to]
    share *= np.where(wide, narrow, 1.0 if to != "fp8" else 0.5)
    of = np.full(len(a.t.device), -1, np.intp)
    of[worked.kernel] = worked.of
    place = of[rows]
    left[place >= 0] = share[place[place >= 0]]
    return np.minimum(left, 1.0)


def in_fp32(a: Analysis, rows: Index) -> Mask:
    """Return which kernels that memory limits work on fp32 values: by their operator's types, else by their name."""
    name = a.t.device.name[rows]
    known, wide = operands(a, rows)
    by_name = a.t.strings_like(names.FP32_VALUES)[name] & ~a.t.strings_like(names.HALF_VALUES)[name]
    return np.asarray(np.where(known, wide, by_name), np.bool_)


def operands(a: Analysis, rows: Index) -> tuple[Mask, Mask]:
    """Return of which kernels the operator's types were recorded, and whether its first operand is fp32."""
    launched = a.t.launch[rows] >= 0
    op = np.full(len(rows), -1, np.intp)
    op[launched] = a.launching_op(rows[launched])
    types = np.where(op >= 0, a.t.host.types[op], -1)
    known = (types >= 0) & a.t.strings_like(names.FIRST_IS_FLOATING)[types]
    return known, known & a.t.strings_like(names.FIRST_IS_FLOAT)[types]
