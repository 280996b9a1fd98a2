"""What does the GPU compute, and on which units? By the names of kernels and of the operators that launched them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache

import numpy as np

from whyidle.measure import names
from whyidle.measure.alignment import measure_alignment
from whyidle.measure.analysis import Analysis
from whyidle.measure.attribution import Attribution
from whyidle.measure.chains import mergeable
from whyidle.measure.products import ANY_TYPES, Ran, sized
from whyidle.measure.rows import Index, Mask, largest, together, without
from whyidle.measure.search import convolution_search
from whyidle.measure.timeline import pick
from whyidle.model.evidence import Gpu, Kind
from whyidle.model.intervals import overlap, union
from whyidle.model.measurement import Measurement

# Of the time of a kernel, at most. A batch twice as large has twice the blocks: a kernel that fills half of the GPU or
# less takes as long for it as before, so half of the time per item, and one that fills more takes 1 / its part longer.
TWICE = 0.5


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of each class of kernel, and how well kernels fill the GPU."""
    t = a.t
    kernels = t.device_of_kind[Kind.KERNEL]
    if not len(kernels):
        return
    yield Measurement("compiled", compiled(a))
    plain = elementwise(a)
    yield from share(a, "elementwise_share", plain)
    yield from share(a, "mergeable_share", mergeable(a, plain, kernels_that_cast(a)))
    yield from share(a, "layout_share", t.device_like(names.LAYOUT))
    matmul = t.device_like(names.is_matmul)
    yield from share(a, "matmul_share", matmul)
    if len(matmul):
        length = t.device.end - t.device.start
        tensor = t.strings_like(names.is_tensor_core)[t.device.name[matmul]]
        total = length[matmul].sum()
        half = tensor & t.strings_like(names.HALF_PRODUCT)[t.device.name[matmul]]
        yield Measurement("tensor_core_share", float(length[matmul][tensor].sum() / max(total, 1)))
        yield Measurement("half_share", float(length[matmul][half].sum() / max(total, 1)))
    yield from share(a, "fp32_share", t.device_like(is_fp32_product))
    units = tensor_units(t.trace.gpus, [device.device for device in a.devices])
    if units:
        yield Measurement("tensor_cores", units)
    yield from underfilled(a)
    if len(t.of_kind(Kind.OP)):
        yield from by_operator(a)


def is_elementwise(name: str) -> bool:
    """Say whether a kernel combines or copies elements in a way that torch.compile merges with its neighbours."""
    return bool(names.ELEMENTWISE.search(name)) and not names.NOT_MERGED.search(name) and not names.is_matmul(name)


def elementwise(a: Analysis) -> Index:
    """Return the kernels that treat elements, but for those of the optimizer."""
    return without(a.t.device_like(is_elementwise), of_optimizer(a))


def merged_away(a: Analysis) -> Index:
    """Return the kernels that would go if torch.compile merged each chain of elementwise ones."""
    return mergeable(a, elementwise(a), kernels_that_cast(a))


def of_optimizer(a: Analysis) -> Index:
    """Return the device slices that the optimizer launches; they do not grow with the batch."""
    return a.launched_inside(a.host.slices["optimizer_host"])


def computing(a: Analysis) -> Index:
    """Return the kernels that compute: all but collectives, which are small on purpose."""
    kernels = a.t.device_of_kind[Kind.KERNEL]
    return kernels[~a.t.strings_like(names.COLLECTIVE)[a.t.device.name[kernels]]]


def growing(a: Analysis) -> Index:
    """Return the kernels that have more to do if the batch is larger."""
    return without(computing(a), of_optimizer(a))


def off_tensor_cores(a: Analysis) -> Index:
    """Return the matrix products and convolutions that run beside the tensor cores."""
    matmul = a.t.device_like(names.is_matmul)
    return matmul[~a.t.strings_like(names.is_tensor_core)[a.t.device.name[matmul]]]


def is_fp32_product(name: str) -> bool:
    """Say whether a kernel multiplies fp32 matrices, or convolves, on ordinary units."""
    return bool(names.FP32_PRODUCT.search(name)) and not names.is_tensor_core(name)


def share(a: Analysis, name: str, index: Index) -> Iterator[Measurement]:
    """Yield the share of the window in which these kernels run."""
    yield Measurement(name, a.device_share(index), locations=a.device_places(index))


def compiled(a: Analysis) -> bool:
    """Say whether torch.compile made any of this."""
    seen = a.t.strings_like(names.COMPILED)
    return bool(seen[a.t.device.name].any() or seen[a.t.host.name].any())


def tensor_units(gpus: Collection[Gpu], devices: Collection[int]) -> str:
    """Return what the GPUs that did work offer work in fp32; "" where the recording does not say.

    "none", "fp16" (Volta, Turing), "tf32" (Ampere on) or "xf32" (AMD's CDNA 3; CDNA 4 has left it out again).
    """
    working = [gpu for gpu in gpus if gpu.device in devices] or gpus
    capabilities = [gpu.compute_capability for gpu in working if gpu.compute_capability]
    if capabilities:
        lowest = min(capabilities)
        return "tf32" if lowest >= (8, 0) else "fp16" if lowest >= (7, 0) else "none"
    models = [gpu.name for gpu in working if gpu.name]
    return "xf32" if models and all(names.CDNA3.search(model) for model in models) else ""


def underfilled(a: Analysis) -> Iterator[Measurement]:
    """Yield the part of kernel time in which multiprocessors have no block to run, and what twice the batch fills."""
    d = a.t.device
    kernels = computing(a)
    blocks = d.blocks_per_sm[kernels]
    known = np.isfinite(blocks) & (blocks > 0)
    if not len(kernels) or not known.all():
        return
    worst = kernels[largest((d.end - d.start)[kernels] * (1 - np.minimum(blocks, 1.0)), 3)]
    empty = sum(unfilled(device, kernels[d.device[kernels] == device.device]) for device in a.devices)
    yield Measurement("underfilled_share", a.share(empty), locations=a.device_places(worst))
    grow = growing(a)
    saved = sum(unfilled(device, grow[d.device[grow] == device.device], TWICE) for device in a.devices)
    yield Measurement("underfilled_twice_share", a.share(saved))


def unfilled(a: Attribution, kernels: Index, most: float = 1.0) -> float:
    """Return the time in which these kernels run times the part of the multiprocessors without a block, ns.

    Kernels that run beside each other fill the GPU together. No more than `most` of the multiprocessors count.
    """
    d = a.t.device
    small = d.blocks_per_sm[kernels] < 1
    full, kernels = kernels[~small], kernels[small]
    blocks = d.blocks_per_sm[kernels].astype(np.float64)
    edges = np.clip(np.concatenate((d.start[kernels], d.end[kernels])), a.low, a.high)
    order = np.argsort(edges, kind="stable")
    running = np.cumsum(np.repeat((1, -1), len(kernels))[order]) > 0
    filled = np.cumsum(np.concatenate((blocks, -blocks))[order])
    empty = np.where(running, np.minimum(1 - np.clip(filled, 0, 1), most), 0)[:-1]
    start, end = edges[order][:-1], edges[order][1:]
    beside = overlap(start, end, union(d.start[full], d.end[full]))  # a kernel that fills the GPU leaves nothing empty
    return float((empty * (end - start - beside)).sum())


def by_operator(a: Analysis) -> Iterator[Measurement]:
    """Yield the shares that need to know which operator launched a kernel."""
    casts = kernels_that_cast(a)
    yield from share(a, "cast_share", casts)
    if a.steps:
        launched = a.t.launch[casts]  # in which step: the GPU may run it steps later
        yield Measurement("casts_per_step", a.per_step(a.t.host.start[launched[launched >= 0]]))
    yield from fp32_products(a)
    yield from recomputed(a)
    yield from convolution_search(a)
    yield from measure_alignment(a)


def fp32_products(a: Analysis) -> Iterator[Measurement]:
    """Yield what fp32 products take longer than at the rate of 16-bit ones on tensor cores, where both are large."""
    ran = Ran.of(a, sized(a, ANY_TYPES))
    fp32 = a.t.strings_like(is_fp32_product)[a.t.device.name[ran.kernel]]
    half = ran.tensor & a.t.strings_like(names.HALF_PRODUCT)[a.t.device.name[ran.kernel]]
    compared = ran.beyond(fp32, half)
    if compared is not None and compared[1] > 0:  # none beside tensor cores is as fast: then its sizes are not what ran
        yield Measurement("fp32_compared_share", compared[0])
        yield Measurement("fp32_slow_share", compared[1])


def kernels_that_cast(a: Analysis) -> Index:
    """Return the kernels that only change a floating-point type: not those that change a layout or an integer."""
    h, strings = a.t.host, a.t.trace.strings
    inside = kernels_inside(a, a.t.host_like(names.CAST, Kind.OP))
    op = a.launching_op(inside)
    copies = np.where(a.t.strings_like(names.COPY)[h.name], h.types, np.int32(-1))  # they alone name both types
    types = pick(copies, op, -1)
    cast = [
        is_cast(strings[kernel], strings[type_] if type_ >= 0 else "")
        for kernel, type_ in zip(a.t.device.name[inside].tolist(), types.tolist(), strict=True)
    ]
    return inside[np.array(cast, np.bool_)]


@cache
def is_cast(kernel: str, types: str) -> bool:
    """Say whether a copy changes the type: by those of target and source, else by the kernel's name."""
    both = names.TYPES.findall(types)[:2]
    if len(both) == 2 and all(both):
        return both[0] != both[1] and all(names.FLOATING.search(type_) for type_ in both)
    return bool(names.CONVERSION.search(kernel))


def recomputed(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of kernels that run the forward pass again inside the backward pass."""
    places = a.host_places(together(*recomputing(a)))
    yield Measurement("recompute_share", a.device_share(kernels_again(a)), locations=places)


def recomputing(a: Analysis) -> tuple[Index, Index]:
    """Return what runs a forward pass inside the backward pass.

    Those are the frames and operators of torch.utils.checkpoint, and operators that only a forward pass calls.
    """
    regions = a.t.host_like(names.RECOMPUTE, Kind.OP, Kind.PYTHON, Kind.RANGE)
    forward = a.t.host_like(names.FORWARD_ONLY, Kind.OP)
    return regions, forward[a.host.in_backward[forward]]


def kernels_again(a: Analysis) -> Index:
    """Return the kernels that run the forward pass again."""
    t, h = a.t, a.t.host
    regions, forward = recomputing(a)
    backward = without(t.host_like(names.BACKWARD, Kind.OP), regions)
    nested = backward[t.enclosing(h.start[backward], h.thread[backward], regions) >= 0]
    return together(without(kernels_inside(a, regions), kernels_inside(a, nested)), kernels_inside(a, forward))


def kernels_inside(a: Analysis, index: Index) -> Index:
    """Return the kernels launched inside these host slices."""
    inside = a.launched_inside(index)
    kernels: Mask = a.t.device.kind[inside] == Kind.KERNEL
    return inside[kernels]
