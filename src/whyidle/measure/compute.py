"""What does the GPU compute, and on which units? By the names of kernels and of the operators that launched them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.attribution import Attribution
from whyidle.measure.rows import Index, Mask, largest, together, without
from whyidle.model.evidence import Gpu, Kind
from whyidle.model.measurement import Measurement

# A convolution that launches more kernels than this in one call tries algorithms (cudnn.benchmark).
SEARCH_KERNELS = 8
ALIGNMENT = 8  # elements: 16-bit tensor-core tiles (PyTorch's MatMulDimInFP16 pattern)
HALF_TYPES = ("c10::Half", "c10::BFloat16")


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of each class of kernel, and how well kernels fill the GPU."""
    t = a.t
    kernels = t.device_of_kind[Kind.KERNEL]
    if not len(kernels):
        return
    yield Measurement("compiled", compiled(a))
    yield from share(a, "elementwise_share", t.device_like(is_elementwise))
    yield from share(a, "layout_share", t.device_like(names.LAYOUT))
    matmul = t.device_like(names.is_matmul)
    yield from share(a, "matmul_share", matmul)
    if len(matmul):
        length = t.device.end - t.device.start
        tensor = t.strings_like(names.is_tensor_core)[t.device.name[matmul]]
        total = length[matmul].sum()
        yield Measurement("tensor_core_share", float(length[matmul][tensor].sum() / max(total, 1)))
    units = tensor_units(t.trace.gpus)
    if units:
        yield Measurement("tensor_cores", units)
    yield from underfilled(a, kernels)
    if len(t.of_kind(Kind.OP)):
        yield from by_operator(a)


def is_elementwise(name: str) -> bool:
    """Say whether a kernel only moves or combines elements, and is no matrix product."""
    return bool(names.ELEMENTWISE.search(name)) and not names.is_matmul(name)


def share(a: Analysis, name: str, index: Index) -> Iterator[Measurement]:
    """Yield the share of the window in which these kernels run."""
    yield Measurement(name, a.device_share(index), locations=a.device_places(index))


def compiled(a: Analysis) -> bool:
    """Say whether torch.compile made any of this."""
    seen = a.t.strings_like(names.COMPILED)
    return bool(seen[a.t.device.name].any() or seen[a.t.host.name].any())


def tensor_units(gpus: tuple[Gpu, ...]) -> str:
    """Return what the GPU offers work in fp32: "none", "fp16" or "tf32"; "" where the recording does not say."""
    capabilities = [gpu.compute_capability for gpu in gpus if gpu.compute_capability]
    if capabilities:
        lowest = min(capabilities)
        return "tf32" if lowest >= (8, 0) else "fp16" if lowest >= (7, 0) else "none"
    models = [gpu.name for gpu in gpus if gpu.name]
    if models and all("MI3" in model for model in models):
        return "tf32"
    return ""


def underfilled(a: Analysis, kernels: Index) -> Iterator[Measurement]:
    """Yield the part of kernel time in which multiprocessors have no block to run; collectives are small on purpose."""
    d = a.t.device
    collective = a.t.strings_like(names.COLLECTIVE)[d.name[kernels]]
    kernels = kernels[~collective]
    blocks = d.blocks_per_sm[kernels]
    known = np.isfinite(blocks) & (blocks > 0)
    if not len(kernels) or not known.all():
        return
    worst = kernels[largest((d.end - d.start)[kernels] * (1 - np.minimum(blocks, 1.0)), 3)]
    empty = sum(unfilled(device, kernels[d.device[kernels] == device.device]) for device in a.devices)
    yield Measurement("underfilled_share", a.share(empty), locations=a.device_places(worst))


def unfilled(a: Attribution, kernels: Index) -> float:
    """Return the time in which these kernels run times the part of the multiprocessors without a block, ns.

    Kernels that run beside each other fill the GPU together.
    """
    d = a.t.device
    blocks = np.minimum(d.blocks_per_sm[kernels], 1.0).astype(np.float64)
    edges = np.clip(np.concatenate((d.start[kernels], d.end[kernels])), a.low, a.high)
    order = np.argsort(edges, kind="stable")
    running = np.cumsum(np.repeat((1, -1), len(kernels))[order]) > 0
    filled = np.cumsum(np.concatenate((blocks, -blocks))[order])
    empty = np.where(running, 1 - np.clip(filled, 0, 1), 0)
    return float((empty[:-1] * np.diff(edges[order])).sum())


def by_operator(a: Analysis) -> Iterator[Measurement]:
    """Yield the shares that need to know which operator launched a kernel."""
    t, d = a.t, a.t.device
    casts = a.launched_inside(t.host_like(names.CAST, Kind.OP))
    casts = casts[(d.kind[casts] == Kind.KERNEL)]
    yield from share(a, "cast_share", casts)
    if a.steps:
        yield Measurement("casts_per_step", a.per_step(d.start[casts]))
    yield from recomputed(a)
    yield from convolution_search(a)
    yield from misaligned(a)


def recomputed(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of kernels that run the forward pass again inside the backward pass.

    Seen by the frames and operators of torch.utils.checkpoint, and by operators that only a forward pass calls.
    """
    t, h = a.t, a.t.host
    regions = t.host_like(names.RECOMPUTE, Kind.OP, Kind.PYTHON, Kind.RANGE)
    forward = t.host_like(names.FORWARD_ONLY, Kind.OP)
    forward = forward[a.host.in_backward[forward]]
    backward = t.host_like(names.BACKWARD, Kind.OP)
    backward = without(backward, regions)
    nested = backward[t.enclosing(h.start[backward], h.thread[backward], regions) >= 0]
    again = without(kernels_inside(a, regions), kernels_inside(a, nested))
    again = together(again, kernels_inside(a, forward))
    yield Measurement("recompute_share", a.device_share(again), locations=a.host_places(together(regions, forward)))


def kernels_inside(a: Analysis, index: Index) -> Index:
    """Return the kernels launched inside these host slices."""
    inside = a.launched_inside(index)
    kernels: Mask = a.t.device.kind[inside] == Kind.KERNEL
    return inside[kernels]


def convolution_search(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of convolutions that try many kernels in one call, after the first step."""
    t, d = a.t, a.t.device
    launched = kernels_inside(a, t.host_like(names.CONVOLUTION, Kind.OP))
    if a.steps > 1:
        launched = launched[d.start[launched] >= t.steps.end[0]]
    op = a.launching_op(launched)
    launched, op = launched[op >= 0], op[op >= 0]  # slices that cross have no clear innermost one
    count = np.bincount(op, minlength=1)
    yield from share(a, "conv_search_share", launched[count[op] > SEARCH_KERNELS])


def misaligned(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of 16-bit matrix products with a dimension that is no multiple of 8; needs recorded shapes."""
    t, h = a.t, a.t.host
    products = t.host_like(names.MATMUL_OP, Kind.OP)
    products = products[h.shapes[products] >= 0]
    if not len(products):
        return
    bad = np.array([is_misaligned(t.trace.strings[h.shapes[i]], t.trace.strings[h.types[i]]) for i in products])
    yield from share(a, "misaligned_share", kernels_inside(a, products[bad]))


def is_misaligned(shapes: str, types: str) -> bool:
    """Say whether the last two dimensions of a 16-bit operand break the alignment that tensor cores want."""
    if not any(half in types for half in HALF_TYPES):
        return False
    return any(
        int(size) % ALIGNMENT for operand in names.DIMENSIONS.findall(shapes) for size in operand.split(",")[-2:]
    )
