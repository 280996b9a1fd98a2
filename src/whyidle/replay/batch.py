"""What a kernel takes once the batch is larger, and whether this recording can tell.

A kernel takes some time however little it has to do, and beyond that as long as its work: the more blocks it has, once
there is one for each multiprocessor. From one batch size that is an extrapolation. It rests on what the recording
shows of the fixed part (the kernels of a few blocks, that do next to nothing), and is refused where growth from the
start, without a fixed part, would give another answer: then the fixed part is most of what shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import compute, names
from whyidle.measure.analysis import Analysis
from whyidle.measure.flops import SHORT
from whyidle.measure.rows import Index, among, without
from whyidle.measure.work import tensors_of, weights_of
from whyidle.model.evidence import Kind

# Blocks per multiprocessor up to which a kernel is taken to do next to nothing: a tenth of the GPU works.
TINY: Final = 0.1
FEW: Final = 5  # kernels of that size, to take their lower quartile for the time that any kernel needs
SHORTEST: Final = 5.0  # percent of all kernels
# Blocks that a multiprocessor holds at once, at most: 32 on V100, A100 and H100 (CUDA C++ Programming Guide); of
# products, whose tiles fill its shared memory, 4.
HELD: Final = 32.0
HELD_OF_PRODUCTS: Final = 4.0
# Where growth without a fixed part gives so many times the time, nothing is told (judgement). In an A100's recordings
# of one model with batches of 2 to 512, what is within it is off by 17% at most, what is beyond by up to 375%.
APART: Final = 1.25


@dataclass(frozen=True, slots=True)
class LargerBatch:
    """What the GPU's work takes with a batch so many times as large; ns per batch as it is now, so per sample."""

    factor: float
    now: float
    likely: float
    low: float  # if nothing takes longer until multiprocessors hold as many blocks as they can
    high: float  # if nothing has a fixed part
    why_not: str = ""  # why it cannot be predicted; empty where it can

    @property
    def share(self) -> float:
        """Return the time per sample over that of now."""
        return self.likely / self.now if self.now else 1.0


def device_factor(a: Analysis, rows: Index, factor: float, floor: float | None = None) -> NDArray[np.float64]:
    """Return what the durations of these device slices are multiplied with if the batch grows by `factor`.

    `floor` is what any kernel takes, ns, where it is not to be what the recording shows.
    """
    growth = np.ones(len(rows))
    kernels = growing(a)
    if len(kernels):
        every = np.ones(len(a.t.device))
        time = (a.t.device.end - a.t.device.start)[kernels].astype(np.float64)
        every[kernels] = grown(a, kernels, factor, fixed(a) if floor is None else floor) / np.maximum(time, 1)
        growth = every[rows]
    copies = a.t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)
    growth[among(rows, copies)] = factor
    return growth


def growing(a: Analysis) -> Index:
    """Return the kernels that have more to do: not the optimizer's, no collectives, none that treat weights alone."""
    return without(compute.growing(a), on_weights(a))


def on_weights(a: Analysis) -> Index:
    """Return the kernels of operators that treat nothing but weights, by their sizes: casts of them, sums of gradients.

    Weights are what aten::addmm, convolutions and norms name as such. Where a batch is as large as a layer is wide,
    something of the batch may look like a weight.
    """
    h, strings = a.t.host, a.t.trace.strings
    shaped = a.t.of_kind(Kind.OP)
    shaped = shaped[h.shapes[shaped] >= 0]
    said = {(int(n), int(s)) for n, s in zip(h.name[shaped], h.shapes[shaped], strict=True)}
    weights = {size for name, sizes in said for size in weights_of(strings[name], strings[sizes])}
    if not weights:
        return np.empty(0, np.intp)
    kernels = compute.computing(a)
    kernels = kernels[a.t.launch[kernels] >= 0]
    op = a.launching_op(kernels)
    only = {
        (name, sizes)
        for name, sizes in said
        if not names.PRODUCES.search(strings[name])
        and (tensors := tensors_of(strings[sizes]))
        and all(size in weights for size in tensors)
    }
    pairs = zip(h.name[op].tolist(), h.shapes[op].tolist(), (op >= 0).tolist(), strict=True)
    return kernels[np.array([known and (name, sizes) in only for name, sizes, known in pairs], np.bool_)]


def fixed(a: Analysis) -> float:
    """Return what any kernel takes however little it does, ns: as the shortest do, and those that are a few blocks.

    A product of few blocks may have much to do, so the shortest kernels of all set a limit to it.
    """
    every = compute.computing(a)
    time = (a.t.device.end - a.t.device.start)[every]
    if not len(time):
        return 0.0
    tiny = time[a.t.device.blocks_per_sm[every] <= TINY]
    shortest = float(np.percentile(time, SHORTEST))
    return min(shortest, float(np.percentile(tiny, 25)) if len(tiny) >= FEW else shortest, SHORT)


def grown(a: Analysis, kernels: Index, factor: float, floor: float) -> NDArray[np.float64]:
    """Return how long kernels take, ns: beyond the fixed part by their blocks, once each multiprocessor has one."""
    d = a.t.device
    time = (d.end - d.start)[kernels].astype(np.float64)
    blocks = np.nan_to_num(d.blocks_per_sm[kernels].astype(np.float64), nan=1.0)
    least = np.minimum(floor, time)
    return np.asarray(least + (time - least) * np.maximum(1.0, factor * blocks) / np.maximum(1.0, blocks))


def larger_batch(a: Analysis, factor: float) -> LargerBatch:
    """Return what the GPU's work takes per sample with a batch `factor` times as large, and why that is not told."""
    d = a.t.device
    length = (d.end - d.start).astype(np.float64)
    kernels = growing(a)
    copies = a.t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)
    rest = float(length.sum() - length[kernels].sum() + (factor - 1) * length[copies].sum())
    time, floor = length[kernels], fixed(a)
    likely, low, high = (
        (float(part.sum()) + rest) / factor
        for part in (
            grown(a, kernels, factor, floor),
            until_full(a, kernels, factor, floor),
            grown(a, kernels, factor, 0.0),
        )
    )
    blocks = d.blocks_per_sm[kernels]
    known = bool((np.isfinite(blocks) & (blocks > 0)).all())
    why_not = refused(bool(time.sum()), known, high / likely if likely else 1.0)
    return LargerBatch(factor, float(length.sum()), likely, low, high, why_not)


def until_full(a: Analysis, kernels: Index, factor: float, floor: float) -> NDArray[np.float64]:
    """Return the same if multiprocessors work as fast on one block as on all that they hold, ns."""
    d = a.t.device
    time = (d.end - d.start)[kernels].astype(np.float64)
    held = np.where(a.t.strings_like(names.is_matmul)[d.name[kernels]], HELD_OF_PRODUCTS, HELD)
    blocks = np.nan_to_num(d.blocks_per_sm[kernels].astype(np.float64), nan=np.inf) / held
    least = np.minimum(floor, time)
    with np.errstate(invalid="ignore"):
        more = np.where(np.isfinite(blocks), np.maximum(1.0, factor * blocks) / np.maximum(1.0, blocks), factor)
    return np.asarray(least + (time - least) * more)


def refused(grows: bool, known: bool, apart: float) -> str:
    """Return why a prediction is not told; empty where it is."""
    if not grows:
        return "no kernels were recorded that grow with the batch"
    if not known:
        return "the recording does not say how many blocks a kernel has"
    if apart > APART:
        return "too much of the GPU's time is what any kernel takes: from this batch size it is too far to that one"
    return ""
