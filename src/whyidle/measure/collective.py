"""How long do collectives run, how much of that is exposed, and how much is spent spinning for a peer?

One rank sees a collective's kernel, not its peers. What it shows is a lower bound: of the same collective with the
same message the fastest waited least, so what others take longer is waiting or contention. Ranks that were recorded
together show all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.attribution import merged
from whyidle.measure.rows import Index, Mask, distinct
from whyidle.measure.timeline import pick
from whyidle.model.evidence import Codes, Ints, Kind
from whyidle.model.intervals import Intervals, clip, subtract, union
from whyidle.model.measurement import Measurement

# Of a rank's collectives, those with partners, or the ranks do not belong together. Judgement: ranks start and stop
# recording at different moments, which leaves a few at the edges alone.
MATCHED = 0.9
NEVER = np.iinfo(np.int64).max


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield the share of collectives; all zero where a recording of kernels holds none."""
    t = a.t
    kernels = t.device_of_kind[Kind.KERNEL]
    if not len(kernels):
        return
    collective = t.device_like(names.COLLECTIVE)
    yield Measurement("collective_share", a.device_share(collective), locations=a.device_places(collective))
    yield Measurement("collective_exposed_share", a.exposed_share(collective), locations=a.device_places(collective))
    sharded = shards(a)
    yield Measurement("shards_exposed_share", a.exposed_share(sharded), locations=a.device_places(sharded))
    if len(collective):
        yield Measurement("collective_kind", most_exposed(a, collective))
    if not len(collective):
        yield Measurement("collective_wait_share", 0.0)
    elif a.steps > 1:
        rows = comparable(a)
        if len(rows):
            yield Measurement("collective_wait_share", a.share(longer_than_fastest(a, rows)))


def called(a: Analysis, rows: Index) -> Codes:
    """Return what says what collectives do: what PyTorch calls them where it is recorded, else the kernel's name."""
    d = a.t.device
    return np.where(d.collective[rows] >= 0, d.collective[rows], d.name[rows])


def shards(a: Analysis) -> Index:
    """Return the collectives that gather and scatter shards."""
    collective = a.t.device_like(names.COLLECTIVE)
    return collective[a.t.strings_like(names.SHARDED)[called(a, collective)]]


def by_hooks(a: Analysis) -> Index:
    """Return the reductions that hooks of the backward pass launch when a gradient is complete.

    That is inside the accumulation of a gradient, or between operators. What an operator of the backward pass launches
    itself belongs to the model: tensor parallel layers, SyncBatchNorm.
    """
    t, h = a.t, a.t.host
    rows = t.device_like(names.COLLECTIVE)
    rows = rows[(t.launch[rows] >= 0) & t.strings_like(names.REDUCTION)[called(a, rows)]]
    launch = t.launch[rows]
    around = t.enclosing(h.start[launch], h.thread[launch], t.host_like(names.EVALUATED, Kind.OP))
    between = (around < 0) & np.isin(h.thread[launch], distinct(h.thread[a.host.in_backward]))
    return rows[between | ((around >= 0) & t.strings_like(names.ACCUMULATE)[h.name[around]])]


def most_exposed(a: Analysis, collective: Index) -> str:
    """Return which kind of collectives runs longest with no other kernel beside it."""
    like, call = a.t.strings_like, called(a, collective)
    passing, sharded = like(names.PASSING)[call], like(names.SHARDED)[call]
    kinds = {
        "gradients": np.isin(collective, gradients(a)),
        "shards": sharded,
        "all_to_all": passing & ~sharded,
    }
    kinds["all_reduce"] = ~np.logical_or.reduce(list(kinds.values()))
    return max(kinds, key=lambda kind: a.exposed_share(collective[kinds[kind]]))


def gradients(a: Analysis) -> Index:
    """Return the collectives that add up whole gradients: launched by hooks, or between backward pass and update."""
    rows = a.t.device_like(names.COLLECTIVE)
    like, call = a.t.strings_like, called(a, rows)
    adds_up = ~like(names.PASSING)[call] & ~like(names.SHARDED)[call]
    return rows[(np.isin(rows, by_hooks(a)) | before_update(a, rows)) & adds_up]


def before_update(a: Analysis, rows: Index) -> Mask:
    """Return which of these were launched between a backward pass and the update that follows it."""
    t, h = a.t, a.t.host
    time = pick(h.start, t.launch[rows], -1)
    backward = np.flatnonzero(a.host.in_backward)
    updates = np.append(t.spans(t.host_like(names.OPTIMIZER_STEP, Kind.RANGE)).start, NEVER)
    begins = np.append(np.sort(h.start[backward]), NEVER)
    done = np.searchsorted(np.sort(h.end[backward]), time) > 0
    update = updates[np.searchsorted(updates[:-1], time)]
    before: Mask = done & (time >= 0) & (update < begins[np.searchsorted(begins[:-1], time)])
    return before


def comparable(a: Analysis) -> Index:
    """Return the collectives of which two of a kind can be told: of known size, and not from one rank to another."""
    t = a.t
    rows = t.device_like(names.COLLECTIVE)
    point = t.strings_like(names.POINT_TO_POINT)[t.device.name[rows]]
    return rows[(t.device.message[rows] >= 0) & ~point]


Key = tuple[str, int, str]  # name, message, process group


def across(analyses: Sequence[Analysis]) -> list[float] | None:
    """Return for each rank the share of its window in which its collectives wait for a peer; None if they do not match.

    A collective ends on all ranks of its group at once, so no clocks need to agree: of one collective the rank that
    entered last has the shortest kernel, and what the others take longer they waited.
    """
    ranks = [occurrences(a) for a in analyses]
    waited: list[list[Intervals]] = [[] for _ in ranks]
    matched = [0] * len(ranks)
    for key in set().union(*ranks):
        members = [place for place, rank in enumerate(ranks) if key in rank]
        few = len(members) < (2 if key[2] else len(ranks))  # of an unknown group all have to be members
        if few or len({len(ranks[place][key]) for place in members}) > 1:
            continue
        slices = [(analyses[place].t.device, ranks[place][key]) for place in members]
        shortest = np.min([d.end[rows] - d.start[rows] for d, rows in slices], axis=0)
        for place, (d, rows) in zip(members, slices, strict=True):
            matched[place] += len(rows)
            waited[place].append(union(d.start[rows], d.end[rows] - shortest))
    if any(
        done < MATCHED * sum(map(len, rank.values())) or not done for done, rank in zip(matched, ranks, strict=True)
    ):
        return None
    wholes = [merged(sets) for sets in waited]
    return [
        a.share(sum(alone(a, {one.device: clip(whole, one.low, one.high) for one in a.devices})))
        for a, whole in zip(analyses, wholes, strict=True)
    ]


def complete(analyses: Sequence[Analysis]) -> bool:
    """Return whether no rank is missing, of the job or of the process groups that the recordings name."""
    known = {a.t.trace.rank for a in analyses}
    named = {
        int(rank)
        for a in analyses
        for code in distinct(a.t.device.group[a.t.device.group >= 0])
        for members in names.GROUP_RANKS.findall(a.t.trace.strings[code])
        for rank in members.split(",")
    }
    return len(known) >= max(a.t.trace.world_size or 0 for a in analyses) and named <= known


def occurrences(a: Analysis) -> dict[Key, Index]:
    """Return the collectives of a rank by name, message and group, each in order of start."""
    d, strings = a.t.device, a.t.trace.strings
    found: dict[Key, list[int]] = {}
    point = a.t.strings_like(names.POINT_TO_POINT)
    for row in a.t.device_like(names.COLLECTIVE).tolist():
        if not point[d.name[row]]:
            group = strings[d.group[row]] if d.group[row] >= 0 else ""
            found.setdefault((strings[d.name[row]], int(d.message[row]), group), []).append(row)
    return {key: np.array(rows, np.intp) for key, rows in found.items()}


def longer_than_fastest(a: Analysis, index: Index) -> int:
    """Return the time that collectives take beyond the fastest of the same kind, ns.

    Collectives that wait beside each other, on streams of their own, wait at the same time.
    """
    d = a.t.device
    index, waited = beyond_fastest(a, index)
    start, end, device = d.start[index], d.start[index] + waited, d.device[index]
    spans = {
        one.device: clip(union(start[mine], end[mine]), one.low, one.high)
        for one in a.devices
        for mine in [device == one.device]
    }
    return sum(alone(a, spans))


def beyond_fastest(a: Analysis, index: Index) -> tuple[Index, Ints]:
    """Return the collectives of the steps, and what each takes beyond the fastest of its kind, ns.

    Of a kind are those of the same name, message and place in the step.
    """
    t, d = a.t, a.t.device
    step = np.searchsorted(t.steps.start, d.start[index], "right") - 1
    inside = (step >= 0) & (d.start[index] < t.steps.end[np.maximum(step, 0)])
    index, step = index[inside], step[inside]
    place = np.arange(len(index)) - np.searchsorted(step, step)
    length = d.end[index] - d.start[index]
    keys = np.stack((d.name[index].astype(np.int64), d.message[index], place), axis=1)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    fastest = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(fastest, group, length)
    return index, length - fastest[group]


def alone(a: Analysis, waits: dict[int, Intervals]) -> Iterator[int]:
    """Yield for each device how much of its waits lies beside no other kernel, ns: the rest costs no time."""
    kernels = a.t.device_of_kind[Kind.KERNEL]
    beside = a.device_time(np.setdiff1d(kernels, a.t.device_like(names.COLLECTIVE), assume_unique=True))
    for device, spans in waits.items():
        yield subtract(spans, beside[device])[0].total
