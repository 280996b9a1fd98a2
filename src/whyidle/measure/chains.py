"""What would merging elementwise kernels save? Of those that follow each other, all but the longest.

Each of them reads and writes whole tensors, which is what it takes its time for. Merged into one kernel they read and
write once: the longest of them is taken to stay, and as many as reduce (sums, norms, softmax), since a reduction ends
before what follows can use it.
"""

from __future__ import annotations

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, among, marked, without
from whyidle.model.evidence import Kind


def mergeable(a: Analysis, elementwise: Index, casts: Index) -> Index:
    """Return the kernels that torch.compile has not made, and could merge into their neighbours.

    What adds up and exchanges gradients stands outside of what is compiled.
    """
    gradients = a.launched_inside(a.t.host_like(names.ACCUMULATE, Kind.OP))
    rows = merged(a, without(elementwise, gradients), casts)
    return rows[~a.t.strings_like(names.COMPILED)[a.t.device.name[rows]]]


def merged(a: Analysis, elementwise: Index, casts: Index) -> Index:
    """Return the elementwise kernels that would go if each chain of them became one kernel, or one per reduction.

    Casts are links of a chain, and neither stay nor go: others speak of them.
    """
    t, d = a.t, a.t.device
    order = t.by_stream[(d.kind == Kind.KERNEL)[t.by_stream]]
    mine = marked(elementwise, len(d))[order]
    stream, device = d.stream[order], d.device[order]
    linked = mine[:-1] & mine[1:] & (stream[:-1] == stream[1:]) & (device[:-1] == device[1:])
    mine &= np.append(linked, False) | np.append(False, linked)  # a chain of one merges with nothing
    rows, chain = order[mine], np.cumsum(~np.append(False, linked))[mine]
    if len(casts):
        others = ~among(rows, casts)
        rows, chain = rows[others], chain[others]
    if not len(rows):
        return np.empty(0, np.intp)
    begin = np.flatnonzero(np.append(True, chain[1:] != chain[:-1]))
    several = np.add.reduceat(t.strings_like(names.REDUCES)[d.name[rows]], begin, dtype=np.intp)
    size = np.diff(np.append(begin, len(rows)))
    length = (d.end - d.start)[rows]
    longest = np.repeat(np.maximum.reduceat(length, begin), size)
    stays = length == longest
    place = np.cumsum(stays) - np.repeat(np.cumsum(stays)[begin] - stays[begin], size)
    stays &= place == 1  # of equals the first
    again = np.flatnonzero(np.repeat(several > 1, size))  # chains that keep more than one
    ordered = again[np.lexsort((-length[again], chain[again]))]
    place = np.arange(len(ordered)) - np.searchsorted(chain[ordered], chain[ordered])
    stays[ordered] = place < np.repeat(several, size)[ordered]
    return np.sort(rows[~stays])
