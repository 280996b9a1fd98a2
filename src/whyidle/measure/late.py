"""Which rank comes late to the collectives that all ranks share, and what does it do while the others wait?

All ranks leave such a collective at once. From one of these meetings to the next each rank has the same time: part of
it the GPU computes, part of it idles for a cause, and the rest it waits for its peers. The late ranks are those that
wait least; what they have more of than the others is why. Lengths are compared, never clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.collective import complete, occurrences
from whyidle.measure.timeline import pick
from whyidle.model.evidence import Ints
from whyidle.model.finding import CAUSES, Location
from whyidle.model.intervals import Intervals, clip, covered_before, union
from whyidle.model.measurement import Measurement

Table = NDArray[np.float64]  # ns, by rank and by time between meetings

# The causes of idle time that a late rank is asked for; all others but waiting for peers are its host's.
REASONS = {"data": ("data_wait",), "gc": ("gc",)}
HOST = tuple(cause for cause in CAUSES if cause not in {"peer_wait", "data_wait", "gc"})
# ns, and part of the time between meetings: ranks never come at the same time. Judgement: the launch of a kernel takes
# up to 41 us in three of four recordings, and steps of real jobs vary by 1% and more.
NOISE, NOISE_PART = 50_000, 0.01
HALF = 0.5  # of the longest wait: who waits less is late (judgement)
FEW = 3  # judgement: of fewer meetings "always the same" says nothing
ALWAYS = 0.9  # of the meetings (judgement)


def measure(analyses: Sequence[Analysis]) -> Iterator[Measurement]:
    """Yield how late ranks come and why; nothing where a rank is missing, or ranks meet less than twice.

    Without collectives nobody waits for a rank.
    """
    if analyses and not any(len(a.t.device_like(names.COLLECTIVE)) for a in analyses):
        yield from (Measurement(f"late_{part}", 0.0) for part in ("share", "data_share", "compute_share"))
    if len(analyses) < 2 or any(len(a.devices) != 1 for a in analyses) or not complete(analyses):
        return
    ends = meetings(analyses)
    if ends.shape[1] < 2:
        return
    time = np.diff(ends).astype(np.float64)
    by_rank = list(map(spends, analyses, ends))
    spent = {reason: np.stack([of[reason] for of in by_rank]) for reason in by_rank[0]}
    waits = time - sum(spent.values())
    waits -= waits.min(axis=0)
    late = waits <= HALF * waits.max(axis=0)
    lateness = mean_of(waits, ~late) - mean_of(waits, late)
    lateness[lateness < np.maximum(NOISE, NOISE_PART * time.mean(axis=0))] = 0.0
    total = float(time.mean(axis=0).sum())
    place = (latest(analyses, ends, waits, lateness),)
    yield Measurement("late_share", float(lateness.sum()) / total, locations=place)
    for reason, part in reasons(spent, late, lateness).items():
        yield Measurement(f"late_{reason}_share", part / total, locations=place)
    seen = np.flatnonzero(lateness > 0)
    first = np.argmin(waits[:, seen], axis=0)
    yield Measurement("late_steps", len(seen))
    yield Measurement("late_different_ranks", len(np.unique(first)))
    yield Measurement("late_ranks", named(always(waits[:, seen], first), analyses))


def meetings(analyses: Sequence[Analysis]) -> Ints:
    """Return by rank when it leaves the last collective of each step that all ranks leave at once, ns."""
    ranks = [occurrences(a) for a in analyses]
    shared = [key for key in set(ranks[0]).intersection(*ranks[1:]) if not names.ONE_SIDED.search(key[0])]
    shared = [key for key in shared if len({len(rank[key]) for rank in ranks}) == 1]
    if not shared or not analyses[0].steps:
        return np.empty((len(ranks), 0), np.int64)
    rows = [np.concatenate([rank[key] for key in shared]) for rank in ranks]
    t = analyses[0].t
    call = t.device.collective[rows[0]]
    leaving = ~(t.strings_like(names.ONE_SIDED_CALL)[call] & (call >= 0))
    rows = [mine[leaving] for mine in rows]
    ends = np.stack([a.t.device.end[mine] for a, mine in zip(analyses, rows, strict=True)])
    launched = pick(t.host.start, t.launch[rows[0]], t.device.start[rows[0]])
    step = np.searchsorted(t.steps.start, launched, "right") - 1
    order = np.lexsort((ends[0], step))
    ends, step = ends[:, order], step[order]
    last = ends[:, np.append(step[1:] != step[:-1], True) & (step >= 0)]
    windows = np.array([[a.devices[0].low, a.devices[0].high] for a in analyses])
    last = last[:, ((last > windows[:, :1]) & (last <= windows[:, 1:])).all(axis=0)]
    return last if (np.diff(last) > 0).all() else last[:, :0]


def spends(a: Analysis, ends: Ints) -> dict[str, Table]:
    """Return what a rank spends its time on between meetings, but for waiting and communicating, ns."""
    (device,) = a.devices
    d, collective = a.t.device, a.t.device_like(names.COLLECTIVE)
    others = np.setdiff1d(device.ops, collective, assume_unique=True)
    found = {"compute": clip(union(d.start[others], d.end[others]), device.low, device.high)}
    for reason, causes in {**REASONS, "host": HOST}.items():
        pieces = [device.pieces.of(cause) for cause in causes]
        found[reason] = union(np.concatenate([p.start for p in pieces]), np.concatenate([p.end for p in pieces]))
    return {reason: between(ends, spans) for reason, spans in found.items()}


def between(ends: Ints, spans: Intervals) -> Table:
    """Return how much of these spans lies between each two meetings, ns."""
    return np.diff(covered_before(ends, spans)).astype(np.float64)


def mean_of(values: Table, which: NDArray[np.bool_]) -> Table:
    """Return the mean over some of the ranks, for each time between meetings; 0 where these are none."""
    return np.asarray((values * which).sum(axis=0) / np.maximum(which.sum(axis=0), 1))


def reasons(spent: dict[str, Table], late: NDArray[np.bool_], lateness: Table) -> dict[str, float]:
    """Return how much of the lateness is due to each reason, ns: in proportion to what late ranks have more of it."""
    more = {reason: np.maximum(mean_of(table, late) - mean_of(table, ~late), 0.0) for reason, table in spent.items()}
    whole = np.maximum(sum(more.values()), 1.0)
    return {reason: float((lateness * table / whole).sum()) for reason, table in more.items()}


def always(waits: Table, first: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the ranks that are late nearly always, in places; none where others are, too, or most of them are."""
    if waits.shape[1] < FEW:
        return np.empty(0, np.intp)
    mean = waits.mean(axis=1)
    low = np.flatnonzero(mean < HALF * mean.max())
    few = len(low) <= len(waits) / 2
    return low if few and np.isin(first, low).mean() >= ALWAYS else low[:0]


def named(places: NDArray[np.intp], analyses: Sequence[Analysis]) -> str:
    """Return ranks as a person writes them: "3", "8-15"."""
    ranks = sorted(analyses[place].t.trace.rank or 0 for place in places)
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(ranks), lambda item: item[1] - item[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def members(text: str) -> frozenset[int]:
    """Return the ranks that `named` has written."""
    runs = [[int(rank) for rank in run.split("-")] for run in text.split(", ") if run]
    return frozenset(rank for run in runs for rank in range(run[0], run[-1] + 1))


def latest(analyses: Sequence[Analysis], ends: Ints, waits: Table, lateness: Table) -> Location:
    """Return where a rank comes latest: from the meeting before to the one that it comes late to."""
    when = int(np.argmax(lateness))
    who = int(np.argmin(waits[:, when]))
    t = analyses[who].t
    return t.location(
        int(ends[who, when]), int(ends[who, when + 1]), "late for the others", analyses[who].devices[0].device
    )
