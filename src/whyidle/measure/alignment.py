"""Do 16-bit matrix products break the alignment of tensor cores, and is it a size that someone chose?

What has to be a multiple of 8 is the dimension that is contiguous in memory: of x [rows, inner] @ w [inner, columns],
as a linear layer computes it, inner and columns. Rows are tokens or items and follow the data. Recordings have no
strides, so a size counts only where it cannot be one that follows the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.products import ALIGNMENT, Product, Ran, sized
from whyidle.measure.rows import Index, Mask, distinct
from whyidle.model.evidence import Kind
from whyidle.model.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a model: those of its layers' weights, and those that follow the data."""

    inputs: frozenset[int]
    outputs: frozenset[int]
    rows: frozenset[int]

    @classmethod
    def of(cls, forward: Iterable[Product]) -> Sizes:
        """Collect the sizes of the products of the forward pass."""
        layers = [p for p in forward if not p.batch]
        return cls(*(frozenset(getattr(p, name) for p in layers) for name in ("inner", "columns", "rows")))

    def odd(self, p: Product, *, backward: bool) -> str:
        """Return which size breaks the alignment of a product: "outputs", "hidden" or "heads"; "" if none surely does.

        The backward pass multiplies by weights and by tokens in every order: there only sizes of weights count.
        """
        if p.batch:
            fitting = {size for size in (p.rows, p.inner, p.columns) if self.is_head(size, p.batch)}
            return "heads" if len(fitting) == 1 and is_odd(*fitting) else ""
        contiguous = (p.columns, p.inner, p.rows) if backward else (p.columns, p.inner)
        chosen = [size for size in contiguous if is_odd(size) and size in (self.inputs | self.outputs) - self.rows]
        if not chosen:
            return ""
        return "hidden" if chosen[0] in self.inputs else "outputs"

    def is_head(self, size: int, batch: int) -> bool:
        """Say whether this can be the size of an attention head: some layer's size is heads times it."""
        heads = [layer // size for layer in self.inputs | self.outputs if size and layer % size == 0]
        return size not in self.rows and any(batch % count == 0 for count in heads)


def is_odd(size: int) -> bool:
    """Say whether a size breaks the alignment; of 1 the product is one with a vector, which no tensor core does."""
    return size > 1 and size % ALIGNMENT != 0


def measure_alignment(a: Analysis) -> Iterator[Measurement]:
    """Yield the time of misaligned products, and which size is off in the one that takes most; needs shapes.

    Of those that are large also how much longer they take than at the rate of aligned ones.
    """
    calls = a.t.host_like(names.MATMUL_OP, Kind.OP)
    if not (a.t.host.shapes[calls] >= 0).any():
        return
    seen = sized(a)
    odd = odd_sizes(a, seen)
    bad = np.array(sorted(odd), np.intp)
    inside = kernels_of(a, bad)
    yield Measurement("misaligned_share", a.device_share(inside), locations=a.device_places(inside))
    worst = most_time(a, inside, bad, seen)
    yield Measurement("misaligned_size", odd[worst] if worst >= 0 else "")
    yield Measurement("misaligned_product", str(seen[worst]) if worst >= 0 else "")
    ran = Ran.of(a, seen)
    compared = ran.beyond(np.isin(ran.call, bad), ran.tensor)
    if compared is not None:
        yield Measurement("misaligned_compared_share", compared[0])
        yield Measurement("misaligned_slow_share", compared[1])


def odd_sizes(a: Analysis, products: Mapping[int, Product]) -> dict[int, str]:
    """Return which size breaks the alignment, by the call of each product of which one surely does."""
    backward = of_backward(a)
    sizes = Sizes.of({p for i, p in products.items() if not backward[i]})
    return {i: which for i, p in products.items() if (which := sizes.odd(p, backward=bool(backward[i])))}


def misaligned(a: Analysis) -> Index:
    """Return the kernels of misaligned products; none where shapes were not recorded."""
    return kernels_of(a, np.array(sorted(odd_sizes(a, sized(a))), np.intp))


def kernels_of(a: Analysis, calls: Index) -> Index:
    """Return the kernels that these calls launch."""
    inside = a.launched_inside(calls)
    kernels: Index = inside[a.t.device.kind[inside] == Kind.KERNEL]
    return kernels


def of_backward(a: Analysis) -> Mask:
    """Return which host slices the backward pass runs: inside its operators, or on a thread that it has to itself."""
    h, inside = a.t.host, a.host.in_backward
    threads = distinct(h.thread[inside])
    driving = [device.crew[0] for device in a.devices if device.crew]
    return np.asarray(inside | np.isin(h.thread, np.setdiff1d(threads, driving)))


def most_time(a: Analysis, kernels: Index, calls: Index, products: Mapping[int, Product]) -> int:
    """Return a call of the product whose kernels take most time; -1 if there are no kernels."""
    d, h, launch = a.t.device, a.t.host, a.t.launch[kernels]
    callers: list[int] = a.t.enclosing(h.start[launch], h.thread[launch], calls).tolist()
    total: dict[Product, int] = {}
    for caller, took in zip(callers, (d.end - d.start)[kernels].tolist(), strict=True):
        if caller >= 0:
            total[products[caller]] = total.get(products[caller], 0) + took
    if not total:
        return -1
    worst = max(total, key=lambda p: total[p])
    return next(caller for caller in callers if caller >= 0 and products[caller] == worst)
