"""What is left of a product's time once its numbers are of another type: by the GPU's peaks, and by its memory.

Of the speed that the other units have beyond those in use, only a part is reached (assumed, since nothing in this job
shows it). No product takes less than reading and writing its numbers does: half as many bytes in 16 bits, as many as
now in TF32.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.flops import Limits, Worked, peaks_of
from whyidle.measure.rows import Index, Mask
from whyidle.model.peaks import Peaks

# Of the extra speed on paper: with 8 times the peak an A100 is taken to get 2.8 times as fast in TF32, a V100 4 times
# in fp16. So as rules/compute/fp32_no_tensorcore.py says of these GPUs, and no gain where there is no extra speed (RTX
# 4090: TF32 as fp32).
REACHED: Final = {"tf32": 0.254, "bf16": 0.43, "fp16": 0.43}
# Of the bandwidth on paper, what kernels that stream reach (A100 1.35 of 1.555 TB/s, H100 2.9 of 3.35 in BabelStream).
STREAMED: Final = 0.85


def left(a: Analysis, rows: Index, number: str, factor: float, memory: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what is left of the time of these products once they compute in `number`; never more than all of it.

    Args:
        a: the recording.
        rows: products among its device slices.
        number: "tf32", "bf16" or "fp16".
        factor: what is left of one that is in fp32 now, on a GPU whose peaks are not known.
        memory: for each device slice what `memory_share` says.
    """
    wide, narrow = in_fp32(a, rows), number != "tf32"
    peak = peaks_of(a)
    arithmetic = np.where(wide, factor if peak is None else left_of(peak, number), 1.0)
    least = memory[rows] * np.where(wide & narrow, 0.5, 1.0)
    return np.asarray(np.minimum(np.maximum(arithmetic, least), 1.0))


def left_of(peak: Peaks, number: str) -> float:
    """Return what is left of an fp32 product's time on the units for `number`; all of it where the GPU has none."""
    before, after = peak.flops("fp32"), peak.flops(number)
    if not before or not after:
        return 1.0
    return 1 / (1 + max(after / before - 1, 0.0) * REACHED[number])


def in_fp32(a: Analysis, rows: Index) -> Mask:
    """Return which products run in fp32: on ordinary units, and not of other operands as far as types tell."""
    tensor = a.t.strings_like(names.is_tensor_core)[a.t.device.name[rows]]
    launched = a.t.launch[rows] >= 0
    op = np.full(len(rows), -1, np.intp)
    op[launched] = a.launching_op(rows[launched])
    types = np.where(op >= 0, a.t.host.types[op], -1)
    others = (types >= 0) & a.t.strings_like(names.NOT_FP32_FIRST)[types]
    return np.asarray(~tensor & ~others)


def memory_share(a: Analysis) -> NDArray[np.float64]:
    """Return for each device slice the share of its time that memory needs anyway; 0 where that is not known."""
    share = np.zeros(len(a.t.device))
    peak = peaks_of(a)
    if peak is None or not (a.t.host.shapes >= 0).any():
        return share
    worked = Worked.of_trace(a)
    with np.errstate(invalid="ignore", divide="ignore"):
        of_call = np.nan_to_num(Limits.of(worked, peak).memory / STREAMED / worked.took, nan=0.0, posinf=0.0)
    share[worked.kernel] = np.minimum(of_call, 1.0)[worked.of]
    return share
