"""Which matrix products of known sizes run, and how fast: what one kind would take at the rate of another.

Rates are compared inside a recording, so that neither the GPU's peak nor its clock has to be known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, Mask
from whyidle.model.evidence import Kind

ALIGNMENT = 8  # elements: 16-bit tensor-core tiles (PyTorch's MatMulDimInFP16 pattern)
HALF_TYPES = frozenset(("c10::Half", "c10::BFloat16"))
ANY_TYPES = HALF_TYPES | {"float"}
# Of the smallest size. Of 16-bit operands a product of size n in all dimensions does n / 3 FLOP per byte, one with two
# large dimensions n: below it memory may be the limit, and not the rate of arithmetic (A100: 312 TFLOP/s over 2 TB/s,
# 156 FLOP per byte; H100: 989 over 3.35, 295).
LARGE = 256
# Of the time of what is compared: so much has to run at the rate that it is compared with (judgement).
ENOUGH = 0.1


@dataclass(frozen=True, slots=True)
class Product:
    """The sizes of a matrix product, `batch` times [rows, inner] @ [inner, columns]; batch 0: no batch dimension."""

    batch: int
    rows: int
    inner: int
    columns: int

    def __str__(self) -> str:
        batch = f"{self.batch}, " if self.batch else ""
        return f"[{batch}{self.rows}, {self.inner}] @ [{batch}{self.inner}, {self.columns}]"

    @property
    def flop(self) -> int:
        return 2 * max(self.batch, 1) * self.rows * self.inner * self.columns

    @property
    def large(self) -> bool:
        """Say whether arithmetic limits it, and not memory."""
        return min(self.rows, self.inner, self.columns) >= LARGE

    @property
    def aligned(self) -> bool:
        return all(size % ALIGNMENT == 0 for size in (self.rows, self.inner, self.columns))


@cache
def product(operator: str, shapes: str, types: str, wanted: frozenset[str] = HALF_TYPES) -> Product | None:
    """Return the product that an operator computes, of operands of these types; None if it is none, or not known."""
    first = 1 if "add" in operator else 0  # addmm and baddbmm: what is added comes first
    kinds = names.TYPES.findall(types)[first : first + 2]
    sizes = [[int(n) for n in text.split(",") if n] for text in names.SHAPES.findall(shapes)[first : first + 2]]
    if len(kinds) != 2 or not wanted.issuperset(kinds) or len(sizes) != 2:
        return None
    left, right = sizes
    if len(left) != len(right) or len(left) not in (2, 3) or left[-1] != right[-2]:
        return None
    return Product(left[0] if len(left) == 3 else 0, left[-2], left[-1], right[-1])


def sized(a: Analysis, wanted: frozenset[str] = HALF_TYPES) -> dict[int, Product]:
    """Return the products of operands of these types, by the host slice that computes them; needs shapes."""
    h, strings = a.t.host, a.t.trace.strings
    calls = a.t.host_like(names.MATMUL_OP, Kind.OP)
    found: dict[int, Product] = {}
    for call in calls[(h.shapes[calls] >= 0) & (h.types[calls] >= 0)].tolist():
        p = product(a.t.host_name(call), strings[h.shapes[call]], strings[h.types[call]], wanted)
        if p is not None:
            found[call] = p
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """The kernels of matrix products of known sizes, and the call that launched each."""

    a: Analysis
    kernel: Index
    call: Index
    products: Mapping[int, Product]

    @classmethod
    def of(cls, a: Analysis, products: Mapping[int, Product]) -> Ran:
        """Find the kernels of these products."""
        calls = np.array(sorted(products), np.intp)
        kernels = a.launched_inside(calls)
        kernels = kernels[a.t.strings_like(names.is_matmul)[a.t.device.name[kernels]]]
        launch = a.t.launch[kernels]
        return cls(a, kernels, a.t.enclosing(a.t.host.start[launch], a.t.host.thread[launch], calls), products)

    @property
    def tensor(self) -> Mask:
        """Return which of the kernels use tensor cores."""
        return np.asarray(self.a.t.strings_like(names.is_tensor_core)[self.a.t.device.name[self.kernel]])

    def large(self, *, aligned: bool = False) -> Mask:
        """Return which kernels compute a large product; of aligned ones only, if asked."""
        fit = {call for call, p in self.products.items() if p.large and (p.aligned or not aligned)}
        return np.array([call in fit for call in self.call.tolist()], np.bool_)

    def work(self, which: Mask) -> tuple[int, int]:
        """Return the FLOP of the products that these kernels compute, and the ns that they take."""
        d = self.a.t.device
        calls: Collection[int] = set(self.call[which].tolist())
        return sum(self.products[call].flop for call in calls), int((d.end - d.start)[self.kernel[which]].sum())

    def beyond(self, slow: Mask, fast: Mask) -> tuple[float, float] | None:
        """Return the shares of the window that slow kernels take, and take beyond what they would at the fast rate.

        Only large products count, and only where enough of the fast ones run; None where too few do.
        """
        judged = slow & self.large()
        flop, took = self.work(judged)
        fast_flop, fast_took = self.work(fast & ~slow & self.large(aligned=True))
        if not took or not fast_flop or fast_took < ENOUGH * took:
            return None
        share = self.a.device_share(self.kernel[judged])
        return share, share * max(1 - flop * fast_took / fast_flop / took, 0.0)
