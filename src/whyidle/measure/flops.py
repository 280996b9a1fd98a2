"""How much arithmetic is done, and how near do operators come to what the GPU can: MFU and the roofline.

FLOP are those of products, convolutions and attention, by the sizes that were recorded (work.py). MFU is told where
nearly all kernels of that kind are accounted for only: what runs inside a CUDA graph or a fused kernel has no sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.compute import kernels_again
from whyidle.measure.rows import Index, Mask, among, distinct
from whyidle.measure.work import Operands, Work, operands_of, outputs_of, work
from whyidle.model.evidence import Codes, Kind
from whyidle.model.measurement import Measurement
from whyidle.model.peaks import TERA, Number, Peaks, peaks

Bound = Literal["compute", "memory", "latency"]
BOUNDS: tuple[Bound, ...] = ("compute", "memory", "latency")
# Of the time in products, convolutions and attention: MFU is not claimed where less of it has known sizes. What is left
# out would make it too small by as much (judgement).
ACCOUNTED = 0.9
# Of the nearer limit: kernels that reach less, and are short or small, wait for something else (judgement).
NEAR = 0.3
SHORT = 10_000  # ns; launch, first loads and the last block take a few us of any kernel
_NUMBERS: dict[str, Number] = {"c10::Half": "fp16", "c10::BFloat16": "bf16", "double": "fp64"}


@dataclass(frozen=True, slots=True, eq=False)
class Worked:
    """The calls of operators whose work is known and that ran on a GPU, and the kernels of each."""

    a: Analysis
    kernel: Index  # device slices
    of: Index  # for each kernel its place in the columns below
    call: Index  # host slices
    works: tuple[Work, ...]
    number: tuple[Number | None, ...]  # in what the arithmetic is done
    took: NDArray[np.float64]  # ns, of all its kernels

    @classmethod
    def of_trace(cls, a: Analysis) -> Worked:
        """Find them; empty where sizes were not recorded."""
        kernels = a.t.device_of_kind[Kind.KERNEL]
        kernels = kernels[a.t.launch[kernels] >= 0]
        kernels, call = _calls(a, kernels)
        known = _works(a, distinct(call))
        kept = np.array([row in known for row in call.tolist()], np.bool_)
        kernels, call = kernels[kept], call[kept]
        rows = distinct(call)
        of = np.searchsorted(rows, call)
        length = (a.t.device.end - a.t.device.start)[kernels]
        works = tuple(known[row] for row in rows.tolist())
        return cls(
            a,
            kernels,
            of,
            rows,
            works,
            tuple(_numbers(a, kernels, of, works)),
            np.bincount(of, weights=length, minlength=len(rows)).astype(np.float64),
        )

    @property
    def flop(self) -> NDArray[np.float64]:
        return np.array([w.flop for w in self.works], np.float64)

    def least(self, peak: Peaks) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how long each call takes at least, ns, by arithmetic and by memory; NaN where that is not known."""
        arithmetic, memory = np.full(len(self.works), np.nan), np.full(len(self.works), np.nan)
        for row, (w, number) in enumerate(zip(self.works, self.number, strict=True)):
            flops = peak.flops(number) if number else None
            if not w.flop:
                arithmetic[row] = 0.0
            elif flops:
                arithmetic[row] = w.executed / flops * 1e9
            if w.bytes is not None:
                memory[row] = w.bytes / peak.memory_bytes_per_s * 1e9
        return arithmetic, memory

    def small(self) -> Mask:
        """Return which calls' kernels are short, or have fewer blocks than there are multiprocessors."""
        d = self.a.t.device
        count = np.bincount(self.of, minlength=len(self.works))
        blocks = np.zeros(len(self.works))
        np.maximum.at(blocks, self.of, np.nan_to_num(d.blocks_per_sm[self.kernel], nan=np.inf))
        return np.asarray((self.took / np.maximum(count, 1) < SHORT) | (blocks < 1))


def _calls(a: Analysis, kernels: Index) -> tuple[Index, Index]:
    """Return the kernels that an operator launched of which work.py may know something, and the innermost one."""
    h = a.t.host
    candidates = a.t.host_like(names.COUNTED, Kind.OP)
    candidates = candidates[h.shapes[candidates] >= 0]
    launch = a.t.launch[kernels]
    call = a.t.enclosing(h.start[launch], h.thread[launch], candidates)
    return kernels[call >= 0], call[call >= 0]


def _works(a: Analysis, calls: Index) -> dict[int, Work]:
    """Return what these calls do, where it is known."""
    h, strings = a.t.host, (*a.t.trace.strings, "")  # code -1 is ""
    columns = (h.name, h.shapes, h.types, h.arguments)
    alike, first = _alike([column[calls] for column in columns], len(strings))
    said = [tuple(strings[column[row]] for column in columns) for row in calls[first].tolist()]
    made = dict(found for name, shapes, *_ in said if (found := outputs_of(name, shapes)) is not None)
    works = [
        work(name, shapes, types, arguments, _outputs(made, name, shapes) if not arguments else 0)
        for name, shapes, types, arguments in said
    ]
    of_calls = ((row, works[kind]) for row, kind in zip(calls.tolist(), alike.tolist(), strict=True))
    return {row: w for row, w in of_calls if w is not None}


def _outputs(made: Mapping[Operands, int], operator: str, shapes: str) -> int:
    """Return how many elements a convolution makes, as its gradient tells; 0 where none was recorded."""
    return made.get(operands_of(shapes), 0) if names.CONVOLUTION_CALL.search(operator) else 0


def _alike(columns: Sequence[Codes], codes: int) -> tuple[Index, Index]:
    """Return for each row a number that rows with the same codes share, and for each number its first row."""
    alike = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        alike = np.unique(alike * (codes + 1) + column + 1, return_inverse=True)[1]
    _, first, alike = np.unique(alike, return_index=True, return_inverse=True)
    return alike, first


def _numbers(a: Analysis, kernels: Index, of: Index, works: tuple[Work, ...]) -> Iterator[Number | None]:
    """Yield in what each call's arithmetic is done: by the type of its operands, for fp32 by its kernels' names."""
    name = a.t.device.name[kernels]
    tensor, half = np.zeros(len(works), np.bool_), np.zeros(len(works), np.bool_)
    tensor[of[a.t.strings_like(names.is_tensor_core)[name]]] = True
    half[of[a.t.strings_like(names.HALF_PRODUCT)[name]]] = True
    peak = peaks_of(a)
    tf32 = peak is None or peak.tf32 > 0
    for w, on_tensor, on_half in zip(works, tensor.tolist(), half.tolist(), strict=True):
        if w.number in _NUMBERS:
            yield _NUMBERS[w.number]
        elif "Float8" in w.number:
            yield "fp8"
        elif w.number not in {"float", ""}:
            yield None
        elif w.number == "" and on_tensor and on_half:
            yield "fp16"
        else:
            yield "tf32" if on_tensor and tf32 else "fp32"


def peaks_of(a: Analysis) -> Peaks | None:
    """Return the peaks of the GPUs that did work; None where they are not known, or differ."""
    devices = {device.device for device in a.devices}
    working = [gpu for gpu in a.t.trace.gpus if gpu.device in devices] or a.t.trace.gpus
    found = {peaks(gpu.name) for gpu in working}
    return found.pop() if len(found) == 1 else None


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield FLOP, MFU and the roofline's shares; nothing where sizes were not recorded."""
    if not (a.t.host.shapes >= 0).any():
        return
    worked = Worked.of_trace(a)
    yield from utilization(a, worked)
    yield from roofline(a, worked)


def utilization(a: Analysis, worked: Worked) -> Iterator[Measurement]:
    """Yield FLOP per step and MFU, of what the model needs: what is computed again for the backward pass is not."""
    products = a.t.device_like(names.is_matmul)
    time = int((a.t.device.end - a.t.device.start)[products].sum())
    if not time:
        return
    counted = worked.kernel[worked.flop[worked.of] > 0]
    known = products[among(products, counted)]
    share = float((a.t.device.end - a.t.device.start)[known].sum() / time)
    yield Measurement("flops_known_share", share)
    if share < ACCOUNTED:
        return
    again = np.zeros(len(worked.works), np.bool_)
    again[worked.of[among(worked.kernel, kernels_again(a))]] = True
    needed = np.where(a.in_steps(a.t.host.start[worked.call]) & ~again, worked.flop, 0.0)
    if a.steps:
        yield Measurement("flops_per_step", float(needed.sum()) / a.steps)
    by_number: dict[Number | None, float] = {}
    for number, flop in zip(worked.number, needed.tolist(), strict=True):
        by_number[number] = by_number.get(number, 0.0) + flop
    most = max(by_number, key=lambda number: by_number[number])
    peak = peaks_of(a)
    flops = peak.flops(most) if peak is not None and most is not None else None
    used = float(needed.sum()) / (a.device_window / 1e9 * flops) if flops else 0.0
    if peak is not None and flops and used <= 1:  # else they are in another type than names and sizes tell
        yield Measurement("mfu", used)
        yield Measurement("mfu_peak", f"{flops / TERA:g} TFLOP/s, {most} on {peak.gpu}")


def roofline(a: Analysis, worked: Worked) -> Iterator[Measurement]:
    """Yield what limits the operators whose least time is known, and how near to it they come."""
    peak = peaks_of(a)
    if peak is None:
        return
    limits = Limits.of(worked, peak)
    if not limits.known.any():
        return
    yield Measurement("roofline_share", limits.attained(limits.known))
    for bound in BOUNDS:
        rows = worked.kernel[limits.is_(bound)[worked.of]]
        yield Measurement(f"{bound}_bound_share", a.device_share(rows), locations=a.device_places(rows))


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Of each call the least time that it could take on this GPU, what sets it, and what it took. Times in ns."""

    took: NDArray[np.float64]
    arithmetic: NDArray[np.float64]
    memory: NDArray[np.float64]
    small: Mask

    @classmethod
    def of(cls, worked: Worked, peak: Peaks) -> Limits:
        arithmetic, memory = worked.least(peak)
        return cls(worked.took, arithmetic, memory, worked.small())

    @property
    def least(self) -> NDArray[np.float64]:
        return np.maximum(self.arithmetic, self.memory)

    @property
    def known(self) -> Mask:
        return np.asarray(np.isfinite(self.least) & (self.took > 0))

    def attained(self, which: Mask) -> float:
        """Return the least time of these calls over what they took. Above 1 sizes or clock are not what they seem."""
        return float(self.least[which].sum() / self.took[which].sum())

    def is_(self, bound: Bound) -> Mask:
        """Return which calls this limits: those that are small and far from both limits wait for latency."""
        with np.errstate(invalid="ignore", divide="ignore"):
            latency = self.known & self.small & (self.least / self.took < NEAR)
        if bound == "latency":
            return np.asarray(latency)
        by_memory = self.memory >= self.arithmetic
        return np.asarray(self.known & ~latency & (by_memory if bound == "memory" else ~by_memory))
