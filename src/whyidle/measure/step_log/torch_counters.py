"""PyTorch's own counters over the watched time: the allocator, torch.compile, garbage collection, synchronisations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from whyidle.measure.step_log.watch import Watch
from whyidle.model.evidence import Record
from whyidle.model.finding import Location
from whyidle.model.measurement import Measurement

RETRIES, ALLOCATIONS, GRAPHS, BREAKS, RECOMPILATIONS, COMPILING, PEAK_BYTES = 1, 2, 3, 4, 5, 6, 7
FULL: Final = 2  # the generation of a full collection
LONGEST_REASON: Final = 200  # characters
MOST_SITES: Final = 20


def measure(w: Watch) -> Iterator[Measurement]:
    """Yield what a rank's counters tell."""
    half = w.low + (w.high - w.low) // 2
    later = w.steps.kept & (w.steps.start >= half)
    retries = growth(w, RETRIES, w.low)
    if retries is not None:
        yield Measurement("alloc_retries", int(retries))
    allocations = growth(w, ALLOCATIONS, half)
    if allocations is not None and later.any():
        yield Measurement("device_allocations_per_step", allocations / np.count_nonzero(w.steps.start >= half))
    for name, counter in (("graphs", GRAPHS), ("graph_breaks", BREAKS)):
        last = latest(w, counter)
        if last is not None:
            yield Measurement(name, int(last))
    again = growth(w, RECOMPILATIONS, half)
    if again is not None:
        yield Measurement("recompilations_late", int(again))
    compiling = growth(w, COMPILING, half)
    if compiling is not None:
        yield Measurement("compile_late_share", min(compiling / w.total, 1.0))
    peak = w.log.value[(w.log.kind == Record.COUNT) & (w.log.flags == PEAK_BYTES)]
    if len(peak) and peak.max() > 0:
        yield Measurement("peak_memory_bytes", int(peak.max()))
    yield from most_frequent("graph_break_reason", w.log.graph_breaks)
    yield from most_frequent("recompile_reason", w.log.recompilations)
    collections = (w.log.kind == Record.COLLECT) & (w.log.value == FULL)
    end = w.log.start + w.log.duration
    yield Measurement("gc_collections", int(np.count_nonzero(w.inside(w.log.start, end)[collections])))
    yield from sync_sites(w)


def growth(w: Watch, counter: int, since: int) -> float | None:
    """Return by how much a counter grew from a moment to the end of the watched time; None where it was not read."""
    chosen = (w.log.kind == Record.COUNT) & (w.log.flags == counter)
    time, value = w.log.start[chosen], w.log.value[chosen]
    if len(time) < 2:
        return None
    # The reading before the moment is the state at it; a counter that was read only later began then.
    first = max(int(np.searchsorted(time, since, "right")) - 1, 0)
    last = int(np.searchsorted(time, w.high, "right")) - 1
    return float(max(int(value[max(last, first)]) - int(value[first]), 0))


def latest(w: Watch, counter: int) -> float | None:
    """Return a counter's last reading."""
    chosen = (w.log.kind == Record.COUNT) & (w.log.flags == counter)
    return float(w.log.value[chosen][-1]) if chosen.any() else None


def most_frequent(name: str, reasons: Mapping[str, int]) -> Iterator[Measurement]:
    if reasons:
        reason = max(reasons, key=lambda reason: reasons[reason])
        yield Measurement(name, reason[:LONGEST_REASON])


def sync_sites(w: Watch) -> Iterator[Measurement]:
    """Yield the lines at which the host waited for the device, most frequent first."""
    if not w.log.sync_steps:
        return
    ordered = sorted(w.log.sync_sites, key=lambda site: (-site.count, site.file, site.line))
    for site in ordered[:MOST_SITES]:
        place = Location(site.file, site.line, name=site.operation or site.function or None)
        yield Measurement("sync_site", site.count / w.log.sync_steps, f"{site.file}:{site.line}", (place,))
