"""What would merging elementwise kernels save? Of those that follow each other, all but the longest.

Each of them reads and writes whole tensors, which is what it takes its time for. Merged into one kernel they read and
write once: the longest of them is taken to stay, and as many as reduce (sums, norms, softmax), since a reduction ends
before what follows can use it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, among, marked, without
from whyidle.model.evidence import Kind
from whyidle.model.measurement import Measurement


def mergeable(a: Analysis, elementwise: Index, casts: Index) -> Iterator[Measurement]:
    """Yield the time of kernels that torch.compile has not made, and could merge into their neighbours.

    What adds up and exchanges gradients stands outside of what is compiled.
    """
    gradients = a.launched_inside(a.t.host_like(names.ACCUMULATE, Kind.OP))
    rows = merged(a, without(elementwise, gradients), casts)
    rows = rows[~a.t.strings_like(names.COMPILED)[a.t.device.name[rows]]]
    yield Measurement("mergeable_share", a.device_share(rows), locations=a.device_places(rows))


def merged(a: Analysis, elementwise: Index, casts: Index) -> Index:
    """Return the elementwise kernels that would go if each chain of them became one kernel, or one per reduction.

    Casts are links of a chain, and neither stay nor go: others speak of them.
    """
    t, d = a.t, a.t.device
    kernel = d.kind == Kind.KERNEL
    order = t.by_stream[kernel[t.by_stream]]
    mine = marked(elementwise, len(d))[order]
    same = (np.diff(d.stream[order]) == 0) & (np.diff(d.device[order]) == 0)
    begins = np.append(True, ~(same & mine[:-1] & mine[1:]))[: len(order)]
    chain = np.cumsum(begins)[mine]
    rows = order[mine]
    rows, chain = rows[~among(rows, casts)], chain[~among(rows, casts)]
    length = (d.end - d.start)[rows]
    reduces = t.strings_like(names.REDUCES)[d.name[rows]]
    longest = np.lexsort((-length, chain))
    rows, chain, reduces = rows[longest], chain[longest], reduces[longest]
    first = np.searchsorted(chain, chain)
    place = np.arange(len(chain)) - first
    count = np.bincount(chain, weights=reduces, minlength=int(chain.max(initial=0)) + 1)[chain]
    return np.sort(rows[place >= np.maximum(count, 1)])
