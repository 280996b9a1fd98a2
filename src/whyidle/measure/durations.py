"""Durations that cannot be true, cut back before anything is measured.

A stream runs one operation at a time. One that seems to run on past the start of several successors has a corrupt
duration; left alone, a handful of them hide all idle time (Hyperloom#1116: 7 of 55,423 made 62% of the GPU time).
Such an operation ends, at the latest, where the next of its stream begins. Small overlaps of neighbours are left
as they are: rounding, or kernels that a runtime lets overlap.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whyidle.measure.rows import Index
from whyidle.model.evidence import DeviceSlices

# Judgement: rounding, and kernels that a runtime lets overlap, pass the next by at most 13 us in the recordings that we
# have; what hides idle time passes many, and by far.
PASSED = 3  # successors whose start an operation must pass
OVERLAP = 1_000_000  # ns by which it must pass them


def by_stream(d: DeviceSlices) -> Index:
    """Return the device slices stream by stream, each in order of start."""
    if not len(d):
        return np.empty(0, np.intp)
    stream = d.stream - d.stream.min()
    device = d.device - int(d.device.min())
    models = int(device.max()) + 1
    if int(stream.max()) >= np.iinfo(np.int16).max // models:
        return np.lexsort((d.start, d.stream, d.device))
    # a stable sort of 16-bit keys is a radix sort; slices are in order of start already
    return np.argsort((stream * models + device).astype(np.int16), kind="stable")


def corrupt(d: DeviceSlices, order: Index) -> Index:
    """Return the device slices whose duration cannot be true; `order` is `by_stream(d)`."""
    if len(order) <= PASSED:
        return np.empty(0, np.intp)
    this, later = order[:-PASSED], order[PASSED:]
    same = (d.stream[this] == d.stream[later]) & (d.device[this] == d.device[later])
    return np.sort(this[same & (d.end[this] - d.start[later] > OVERLAP)])


def cut_back(d: DeviceSlices, order: Index, rows: Index) -> DeviceSlices:
    """Return the slices with these ending where the next of their stream begins; `order` is `by_stream(d)`."""
    if not len(rows):
        return d
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    end = d.end.copy()
    end[rows] = d.start[order[place[rows] + 1]]
    return replace(d, end=end)
