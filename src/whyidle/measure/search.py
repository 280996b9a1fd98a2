"""Does the convolution library search for algorithms in steady state? By calls that run many products, and not always.

With torch.backends.cudnn.benchmark cuDNN (on AMD MIOpen) runs every algorithm that it has for a shape that it has not
seen, and takes the time of each. An ordinary call runs one product, a backward one two or three, in every step the
same; the conversions, transposes and reductions around them are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, Mask, marked, together
from whyidle.model.evidence import Kind
from whyidle.model.measurement import Measurement

# Different products of an ordinary call: up to 3 in 6,000 calls of public recordings of ResNets; 4 to 8 in a search.
ORDINARY = 3
FAR_FEWER = 2  # times: what an ordinary call of the same shape runs less than a search, at least (judgement)


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The calls of convolution operators inside the steps; all columns have the same length."""

    row: Index  # of the host slices
    step: Index
    key: list[tuple[int, ...]]  # the same operator on the same shapes; -1 where they are not known
    place: list[tuple[int, ...]]  # the same operator, as many calls after the begin of the step: the same layer
    products: NDArray[np.intp]  # different kernels of products and convolutions
    timed: Mask  # times what it runs
    took: NDArray[np.float64]  # ns of kernels
    last: NDArray[np.float64]  # ns of the kernel that it launched last


def convolution_search(a: Analysis) -> Iterator[Measurement]:
    """Yield the time of searches after the first step, less that of ordinary calls; needs two steps to compare."""
    if a.steps < 2:
        return
    rows, beyond = searches(convolutions(a))
    lost = float(sum(beyond))
    whole = max(a.device_window, kernel_time(a))  # what the host launched in the steps may run after the window
    yield Measurement("conv_search_share", lost / whole, locations=a.host_places(rows))


def needless(a: Analysis) -> Index:
    """Return what calls that search run beyond an ordinary call: all but what they run last, for as long as that takes.

    The algorithm that was chosen runs last.
    """
    if a.steps < 2:
        return np.empty(0, np.intp)
    t, h, d = a.t, a.t.host, a.t.device
    rows, beyond = searches(convolutions(a))
    kernels = a.launched_inside(rows)
    kernels = kernels[d.kind[kernels] == Kind.KERNEL]
    launch = t.launch[kernels]
    call = t.enclosing(h.start[launch], h.thread[launch], rows)
    gone = [kernels[:0]]
    for row, ns in zip(rows.tolist(), beyond, strict=True):
        mine = kernels[call == row]
        mine = mine[np.argsort(h.start[t.launch[mine]], kind="stable")]
        length = d.end[mine] - d.start[mine]
        middle = np.cumsum(length) - length / 2
        gone.append(mine[:-1][middle[:-1] <= ns])
    return together(*gone)


def kernel_time(a: Analysis) -> int:
    """Return the ns of the kernels that are launched in the steps."""
    d, kernels = a.t.device, a.t.device_of_kind[Kind.KERNEL]
    kernels = kernels[a.t.launch[kernels] >= 0]
    kernels = kernels[a.in_steps(a.t.host.start[a.t.launch[kernels]])]
    return int((d.end - d.start)[kernels].sum())


def convolutions(a: Analysis) -> Calls:
    """Return the calls of convolution operators, and what each ran."""
    t, h, d = a.t, a.t.host, a.t.device
    rows = t.host_like(names.CONVOLUTION, Kind.OP)
    rows = rows[a.in_steps(h.start[rows])]
    step = np.searchsorted(t.steps.start, h.start[rows], "right") - 1
    kernels = t.device_of_kind[Kind.KERNEL]
    kernels = kernels[t.launch[kernels] >= 0]
    place = np.full(len(h), -1, np.intp)
    place[rows] = np.arange(len(rows))
    launch = t.launch[kernels]
    caller = t.enclosing(h.start[launch], h.thread[launch], rows)
    kernels, caller = kernels[caller >= 0], place[caller[caller >= 0]]
    length = (d.end - d.start)[kernels].astype(np.float64)
    last = np.zeros(len(rows))
    last[caller] = length  # the latest wins: device slices are in order of start
    is_product = t.strings_like(lambda name: names.is_matmul(name) and not names.TRANSFORM.search(name))
    pairs = np.unique(np.stack((caller, d.name[kernels]))[:, is_product[d.name[kernels]]], axis=1)
    timers = t.host_like(names.TIMING, Kind.RUNTIME)
    timing = t.enclosing(h.start[timers], h.thread[timers], rows)
    return Calls(
        row=rows,
        step=step,
        key=list(zip(h.name[rows].tolist(), h.shapes[rows].tolist(), strict=True)),
        place=places(a, rows, step),
        products=np.bincount(pairs[0], minlength=len(rows)),
        timed=marked(place[timing[timing >= 0]], len(rows)),
        took=np.bincount(caller, weights=length, minlength=len(rows)).astype(np.float64),
        last=last,
    )


def places(a: Analysis, rows: Index, step: Index) -> list[tuple[int, ...]]:
    """Return for each call what it has in common with that of the same layer in other steps."""
    count: dict[tuple[int, int], int] = {}
    found: list[tuple[int, ...]] = []
    for name, number in zip(a.t.host.name[rows].tolist(), step.tolist(), strict=True):
        place = count[name, number] = count.get((name, number), -1) + 1
        found.append((name, place))
    return found


def searches(calls: Calls) -> tuple[Index, list[float]]:
    """Return the calls that search, and the ns that each takes longer than an ordinary one.

    An ordinary call is one on the same shapes, else, since shapes that never come again are why the search goes on, one
    of the same layer. Where none is known, it would have run what a search runs last: the algorithm that it chose.
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    layer: dict[tuple[int, ...], list[int]] = {}
    for i, (key, place) in enumerate(zip(calls.key, calls.place, strict=True)):
        if key[1] >= 0:
            alike.setdefault(key, []).append(i)
        layer.setdefault(place, []).append(i)
    rows: list[int] = []
    beyond: list[float] = []
    for i in np.flatnonzero((calls.step > 0) & ((calls.products > ORDINARY) | calls.timed)).tolist():
        others = ordinary(calls, i, alike.get(calls.key[i], [])) or ordinary(calls, i, layer[calls.place[i]])
        if not others and not calls.timed[i]:
            continue
        usual = float(np.median(calls.took[others])) if others else float(calls.last[i])
        beyond.append(max(float(calls.took[i]) - usual, 0.0))
        rows.append(int(calls.row[i]))
    return np.array(rows, np.intp), beyond


def ordinary(calls: Calls, i: int, among: list[int]) -> list[int]:
    """Return those of other steps that run far less than this call."""
    return [
        other
        for other in among
        if calls.step[other] != calls.step[i]
        and not calls.timed[other]
        and (calls.timed[i] or calls.products[other] * FAR_FEWER <= calls.products[i])
    ]
