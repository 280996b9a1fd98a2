"""Where one iteration ends and the next begins, and by what we know.

In order: ProfilerStep; a user range that repeats; Optimizer.step; the period of the kernel sequence in
launch order; DataLoader batches. Only ProfilerStep sets the window; other marks split it and never move it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.names import LIBRARY_RANGE, LOADER, OPTIMIZER_STEP, PROFILER_STEP
from whyidle.model.evidence import Ints, Kind
from whyidle.model.intervals import EMPTY, Intervals

if TYPE_CHECKING:
    from whyidle.measure.timeline import Timeline

# Mismatch of a true period was at most 0.002 on eight real traces, of a false one at least 0.19, by chance 0.85. Where
# ProfilerStep was recorded, its spacing varies by 0.01-0.16 (sd over mean), by 0.25 and 0.33 in one recording each.
REPEATS = 3  # judgement: the fewest that can be even
SPACING_CV = 0.3
COVER = 0.8  # of the window (judgement)
MISMATCH = 0.10
SLACK = 0.02  # judgement: so little worse than the best, a shorter period is the same one
SHORTEST_PERIOD = 100  # launches; a training step has hundreds, a layer tens
LONGEST_SEQUENCE = 12_000  # judgement: the search takes time with its square
DROP_FIRST_FROM = 4  # judgement: three are left for a median
MICRO_STEPS = 1.5  # judgement: a range that recurs so much more often than Optimizer.step is part of a step


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Iterations as [start, end) ns, in order, and what they were recognised by (None: no steps found)."""

    start: Ints
    end: Ints
    number: Ints
    source: str | None

    def __len__(self) -> int:
        return len(self.start)

    @property
    def times(self) -> Ints:
        """Return the steps that count for the step time, ns: the first dropped when there are at least four."""
        times = self.end - self.start
        return times[1:] if len(times) >= DROP_FIRST_FROM else times

    @property
    def span(self) -> tuple[int, int]:
        """Return the start of the first and the end of the last step, ns."""
        return int(self.start.min()), int(self.end.max())

    @property
    def unrecorded(self) -> Intervals:
        """Return the time between steps whose numbers do not follow each other: the profiler was off."""
        jumps = np.flatnonzero((self.number[1:] != self.number[:-1] + 1) & (self.start[1:] > self.end[:-1]))
        return Intervals(self.end[jumps], self.start[jumps + 1])

    def number_at(self, time: int) -> int | None:
        """Return the number of the step that holds this time."""
        index = int(np.searchsorted(self.start, time, "right")) - 1
        if index < 0 or time >= self.end[index]:
            return None
        return int(self.number[index])


NO_STEPS = Steps(EMPTY, EMPTY, EMPTY, None)


def marks(t: Timeline) -> Iterator[Steps]:
    """Yield steps by each kind of mark but ProfilerStep, the most trustworthy first."""
    if not len(t.device):
        return
    ranges, updates = user_range(t), optimizer_steps(t)
    if ranges is not None and updates is not None and len(ranges) > MICRO_STEPS * len(updates):
        ranges = None  # a micro-step of several whose gradients one update takes: a step is one update
    for found in (ranges, updates, kernel_period(t), loader_batches(t)):
        if found is not None:
            yield found


def profiler_steps(t: Timeline) -> Steps | None:
    """Return the ProfilerStep#N ranges; steps that several threads mark count once."""
    index = t.host_like(PROFILER_STEP, Kind.RANGE)
    if not len(index):
        return None
    number = np.array([int(t.host_name(i).split("#")[1]) for i in index], np.int64)
    _, first = np.unique(number, return_index=True)
    index, number = index[np.sort(first)], number[np.sort(first)]
    return Steps(t.host.start[index], t.host.end[index], number, "ProfilerStep")


def between(starts: Ints, source: str) -> Steps:
    """Return the steps from each mark to the next."""
    return Steps(starts[:-1], starts[1:], np.arange(len(starts) - 1), source)


def user_range(t: Timeline) -> Steps | None:
    """Return the range of the user's own that repeats evenly over most of the window."""
    index = t.of_kind(Kind.RANGE)
    low, high = t.whole_window
    best: tuple[float, Steps] | None = None
    names, count = np.unique(t.host.name[index], return_counts=True)
    for name in names[count >= REPEATS]:
        starts = t.host.start[index[t.host.name[index] == name]]
        starts = starts[(starts >= low - (high - low) // 10) & (starts <= high)]
        spacing = np.diff(starts)
        if len(spacing) < REPEATS - 1 or spacing.min() <= 0 or spacing.std() > SPACING_CV * spacing.mean():
            continue
        cover = (starts[-1] - starts[0] + spacing.mean()) / (high - low)
        text = t.trace.strings[name]
        if cover >= COVER and not LIBRARY_RANGE.search(text) and (best is None or len(spacing) < len(best[1])):
            best = cover, between(starts, f"range {text}")
    return best[1] if best else None


def optimizer_steps(t: Timeline) -> Steps | None:
    """Return the steps from the end of one Optimizer.step to the end of the next; optimizers wrap optimizers."""
    ends = t.spans(t.host_like(OPTIMIZER_STEP, Kind.RANGE)).end
    return between(ends, "Optimizer.step") if len(ends) >= REPEATS else None


def kernel_period(t: Timeline) -> Steps | None:
    """Return the steps by the period of the kernel names in launch order; each starts at the widest host pause."""
    launched = np.flatnonzero(t.launch >= 0)
    order = launched[np.argsort(t.host.start[t.launch[launched]], kind="stable")]
    period = find_period(t.device.name[order[:LONGEST_SEQUENCE]])
    if period is None:
        return None
    starts = t.host.start[t.launch[order]]
    if len(np.unique(starts)) < len(starts) // 2:
        return None  # a graph launch starts many kernels at once: its period is a layer, not a step
    pause = np.diff(starts, prepend=starts[0])
    rows = len(order) // period
    phase = int(np.argmax(np.median(pause[: rows * period].reshape(rows, period), axis=0)))
    return between(starts[phase::period], "period of the kernel sequence")


def find_period(sequence: NDArray[np.int32]) -> int | None:
    """Return the smallest period of a sequence of names, None where it does not repeat at least three times.

    A sequence that repeats as well at a distance shorter than any step is a row of layers, or of one kernel.
    """
    longest = len(sequence) // REPEATS
    if longest < SHORTEST_PERIOD:
        return None
    periods = np.arange(1, longest + 1)
    mismatch = np.array([np.count_nonzero(sequence[p:] != sequence[:-p]) / (len(sequence) - p) for p in periods])
    layer, step = mismatch[: SHORTEST_PERIOD - 1], mismatch[SHORTEST_PERIOD - 1 :]
    best = step.min()
    if best > MISMATCH or layer.min() <= best:
        return None
    return SHORTEST_PERIOD + int(np.argmax(step <= best + SLACK))


def loader_batches(t: Timeline) -> Steps | None:
    """Return the steps from one DataLoader batch to the next."""
    starts = np.sort(t.host.start[t.host_like(LOADER, Kind.RANGE)])
    return between(starts, "DataLoader") if len(starts) >= REPEATS else None
