# ruff: noqa: ARG001 - all kinds of edits are called alike
"""What a fix does to a graph. Each kind of edit is one function: it changes the columns of a copy.

Edits of host time are gathered into one clock for the host: so much of the recorded time is left, wherever several
edits meet their factors multiply. All others change the columns of the nodes or operations that they select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, Mask, among
from whyidle.model.evidence import Floats64, Ints
from whyidle.model.finding import Edit
from whyidle.model.intervals import Intervals, containing, intersect
from whyidle.replay import roofline
from whyidle.replay.batch import device_factor
from whyidle.replay.graph import Graph, Node
from whyidle.replay.operations import SPACING
from whyidle.replay.select import Selected, Selection, text_of

# ns: what launching a CUDA graph takes on the host, and each of its nodes (assumed: PyGraph and CUDA's own figures)
GRAPH_LAUNCH: Final = 10_000
GRAPH_NODE: Final = 25
BUCKET: Final = 25 << 20  # bytes: DistributedDataParallel's bucket_cap_mb
BUCKETS: Final = 4  # of a collective whose size was not recorded (judgement)
# causes that a launch which goes away takes with it
OF_LAUNCHES: Final = ("dispatch", "autograd_host", "optimizer_host", "h2d_prep")


def apply(g: Graph, selection: Selection, edits: Sequence[Edit]) -> Graph:
    """Return the graph once these edits are made, in whatever order they are given; `g` stays as it is."""
    changed = replace(
        g, gap=g.gap.copy(), own=g.own.copy(), target=g.target.copy(), stream=g.stream.copy(), tails=g.tails.copy(),
        latency=g.latency.copy(), spacing=g.spacing.copy(), dependency=g.dependency.copy(), lag=g.lag.copy(),
        duration=g.duration.copy(), back=g.back.copy(),
    )  # fmt: skip
    host: list[tuple[Intervals, float]] = []
    merges: list[Selected] = []
    for edit in sorted(edits, key=lambda edit: ORDER.get(edit.kind, 0)):
        chosen = selection.select(edit)
        match edit.kind:
            case "scale_host":
                host.append((chosen.host, edit.coefficients.get("factor", 0.0)))
            case "merge_launches":
                merges.append(chosen)
            case _:
                host += CHANGES[edit.kind](changed, selection, chosen, edit.coefficients)
    if host:
        scale_host(changed, host)
    for chosen in merges:
        merge_launches(changed, chosen)
    return changed


def once(edits: Sequence[Edit]) -> list[Edit]:
    """Return edits without those that say what another says: fixes of several findings may be the same change.

    Nobody doubles a batch twice because two findings ask for it, and of two fixes that each leave a part of the same
    wait the one counts that leaves less. What makes it longer is apart. Of kernels several parts are left, one of the
    other, unless they are the very same.
    """
    found: dict[tuple[object, ...], Edit] = {}
    for edit in edits:
        factor = edit.coefficients.get("factor", 0.0)
        key: tuple[object, ...] = (edit.kind, text_of(edit.selector), factor > 1)
        if edit.kind not in {"scale_host", "larger_batch"}:
            key += tuple(sorted(edit.coefficients.items()))
        known = found.setdefault(key, edit)
        if abs(1 - factor) > abs(1 - known.coefficients.get("factor", 0.0)):
            found[key] = edit
    return list(found.values())


# What makes operations longer, or beside which others run, comes after what makes them shorter.
ORDER: Final[Mapping[str, int]] = {"overlap_copies": 1, "overlap_collectives": 2}


# more of the host's time that changes, and by what factor
HostTime: TypeAlias = Iterable[tuple[Intervals, float]]
Change: TypeAlias = Callable[[Graph, Selection, Selected, Mapping[str, float]], HostTime]


def scale_host(g: Graph, parts: Sequence[tuple[Intervals, float]]) -> None:
    """Let the host take `factor` times as long wherever one of these sets of time covers it."""
    left = clock(parts)
    main = g.thread == 0
    before = g.start - np.minimum(g.gap_start, g.start)
    gap = left(g.start) - left(np.minimum(g.gap_start, g.start))
    g.gap[main] *= np.where(before > 0, gap / np.maximum(before, 1), 1.0)[main]
    lasted = g.stop - g.start
    share = np.where(lasted > 0, (left(g.stop) - left(g.start)) / np.maximum(lasted, 1), 1.0)
    calls = main & (g.kind == Node.CALL)
    g.own[calls] *= share[calls]
    takes = np.flatnonzero(main & (g.kind == Node.TAKE))
    if len(takes):
        if g.loader is None:
            g.own[takes] *= share[takes]
        else:
            g.loader = g.loader.quicker(share[takes].tolist())


def clock(parts: Sequence[tuple[Intervals, float]]) -> Callable[[Ints], Floats64]:
    """Return what tells how much host time is left of that up to a time, ns."""
    edges = np.unique(np.concatenate([edge for span, _ in parts for edge in (span.start, span.end)]))
    if not len(edges):
        return lambda times: times.astype(np.float64)
    rate = np.ones(len(edges) + 1)
    for span, factor in parts:
        inside = containing(edges, span) >= 0
        rate[1:][inside] *= factor
    passed = np.concatenate(([0.0], np.cumsum(np.diff(edges) * rate[1:-1])))

    def left(times: Ints) -> Floats64:
        place = np.searchsorted(edges, times, "right") - 1
        known = np.maximum(place, 0)
        since = times - edges[known]
        return np.asarray(passed[known] + since * np.where(place < 0, 1.0, rate[np.maximum(place, -1) + 1]))

    return left


def remove_sync(g: Graph, s: Selection, chosen: Selected, _: Mapping[str, float]) -> HostTime:
    """Let these calls not wait; what else they do stays."""
    g.target[among(g.call, chosen.waits)] = -1
    return ()


def scale_device(g: Graph, s: Selection, chosen: Selected, how: Mapping[str, float]) -> HostTime:
    """Let these operations take `factor` times as long, or what GPU and sizes say of another type of number.

    Of what an edit before has left, where several meet.
    """
    d, factor, rows = s.a.t.device, how.get("factor", 1.0), chosen.device
    left = roofline.left(s.a, rows, chosen.number, factor, s.memory_share) if chosen.number else factor
    saved = np.zeros(len(d))
    saved[rows] = (1 - left) * chosen.time / np.maximum((d.end - d.start)[rows], 1)
    g.duration *= 1 - saved[g.row]
    return ()


def remove_device(g: Graph, s: Selection, chosen: Selected, how: Mapping[str, float]) -> HostTime:
    """Let these operations not be, nor the calls that launch nothing else, nor the host's work for these."""
    gone = among(g.row, chosen.device)
    vanish(g, gone)
    return launches_gone(g, s, gone)


def vanish(g: Graph, gone: Mask) -> None:
    """Let operations pass in no time; what waited for them goes on from what came before them."""
    g.duration[gone], g.spacing[gone], g.latency[gone], g.dependency[gone] = 0.0, 0.0, -np.inf, -1


def launches_gone(g: Graph, s: Selection, gone: Mask) -> HostTime:
    """Take away the calls of which all operations are gone; return the host work for them, to be taken away as well."""
    left = np.concatenate(([0], np.cumsum(~gone)))
    nodes = np.flatnonzero((np.diff(g.first) > 0) & (left[g.first[1:]] == left[g.first[:-1]]))
    g.own[nodes], g.target[nodes], g.back[nodes] = 0.0, -1, -1
    parts = s.host_parts
    before = Intervals(np.minimum(g.gap_start, g.start)[nodes], g.start[nodes])
    return [(within(before, parts[cause]), 0.0) for cause in OF_LAUNCHES if cause in parts]


def within(some: Intervals, spans: Intervals) -> Intervals:
    """Return the part of sorted, disjoint intervals that lies in others."""
    keep = some.end > some.start
    return intersect(Intervals(some.start[keep], some.end[keep]), spans)[0]


def merge_launches(g: Graph, chosen: Selected) -> None:
    """Let one call launch what these do, up to the next wait, batch or step: a CUDA graph, or one fused kernel."""
    there = np.concatenate(([0], np.cumsum(g.latency > -np.inf)))  # not what an edit before took away
    launches = there[g.first[1:]] > there[g.first[:-1]]
    member = among(g.call, chosen.launches) & launches & (g.thread == 0) & (g.target == -1)
    nodes = np.flatnonzero(member)
    if not len(nodes):
        return
    breaks = np.flatnonzero((g.thread == 0) & ((g.kind != Node.CALL) | (g.target != -1)))
    segment = np.searchsorted(breaks, nodes)
    head = np.concatenate(([True], segment[1:] != segment[:-1]))
    size = np.diff(np.append(np.flatnonzero(head), len(nodes)))
    before = np.add.reduceat(g.own[nodes], np.flatnonzero(head))
    g.own[nodes[~head]] = 0.0
    g.own[nodes[head]] = np.minimum(GRAPH_LAUNCH + GRAPH_NODE * size, before)  # nobody captures a few launches for more
    g.back[nodes] = -1
    count = np.diff(g.first)
    ops = np.flatnonzero(np.repeat(member, count))
    # the first on each stream waits for the launch, what follows there for that
    _, heads = np.unique(np.stack((np.repeat(segment, count[nodes]), g.stream[ops])), axis=1, return_index=True)
    g.latency[np.delete(ops, heads)] = -np.inf
    g.spacing[ops] = np.minimum(g.spacing[ops], SPACING)


def overlap_copies(g: Graph, s: Selection, chosen: Selected, how: Mapping[str, float]) -> HostTime:
    """Let these copies run on a stream of their own, a batch ahead, so that nothing waits for them."""
    moved = among(g.row, chosen.device)
    if not moved.any():
        return ()
    onto_own_stream(g, moved)
    g.duration[moved] *= how.get("factor", 1.0)
    g.dependency[(g.dependency >= 0) & moved[np.maximum(g.dependency, 0)]] = -1
    waits = (g.target >= 0) & moved[np.maximum(g.target, 0)]
    g.target[waits] = -1
    return ()


def onto_own_stream(g: Graph, moved: Mask) -> None:
    """Give these operations streams of their own, one for each device."""
    devices = np.array([device for device, _ in g.streams] or [0])
    known = {int(device): len(g.streams) + place for place, device in enumerate(np.unique(devices))}
    g.stream[moved] = [known[int(device)] for device in devices[g.stream[moved]]]
    g.tails = np.concatenate((g.tails, np.zeros(len(known))))
    g.streams = (*g.streams, *((device, -1) for device in known))
    g.spacing[moved], g.dependency[moved] = SPACING, -1


def overlap_collectives(g: Graph, s: Selection, chosen: Selected, how: Mapping[str, float]) -> HostTime:
    """Let collectives run beside the backward pass: each begins when its part of the gradients is there.

    They are taken to be cut into buckets, one after the other, so that only the last has to wait for the end of the
    backward pass. What waited for them still does. What runs beside them takes longer by `slowdown`.
    """
    moved = np.flatnonzero(among(g.row, chosen.device))
    if not len(moved):
        return ()
    after_them = np.setdiff1d(moved + 1, moved)
    after_them = after_them[after_them < len(g.row)]
    same = after_them[g.stream[after_them] == g.stream[after_them - 1]]
    free = same[g.dependency[same] < 0]
    mask = np.zeros(len(g.row), np.bool_)
    mask[moved] = True
    onto_own_stream(g, mask)
    g.dependency[free], g.lag[free] = free - 1, SPACING
    computes = np.flatnonzero(~mask & ~s.a.t.strings_like(names.COLLECTIVE)[s.a.t.device.name[g.row]])
    marks = g.first[np.flatnonzero(g.kind == Node.MARK)]
    for low, high in pairwise(marks.tolist()):
        mine = moved[(moved >= low) & (moved < high)]
        beside = backward_of(g, s.a, computes[(computes >= low) & (computes < high)], mine)
        if not len(mine) or not len(beside):
            continue
        covered = min(float(g.duration[mine].sum() / max(g.duration[beside].sum(), 1.0)), 1.0)
        g.duration[beside] *= 1 + covered * (how.get("slowdown", 1.0) - 1)
        begin = beginnings(g, s.a, mine, beside)
        g.dependency[mine], g.lag[mine] = np.minimum(begin, mine - 1), SPACING
        g.latency[mine] = -np.inf
    return ()


def beginnings(g: Graph, a: Analysis, collectives: Index, beside: Index) -> Index:
    """Return for each collective the operation of the backward pass at whose end it begins.

    As early as its gradients are there, and as late as lets its last bucket end behind the backward pass: gradients
    come evenly over the pass.
    """
    work = np.cumsum(g.duration[beside])
    time = g.duration[collectives]
    sent = np.concatenate(([0.0], np.cumsum(time)[:-1]))
    payload = a.t.device.payload[g.row[collectives]]
    several = np.where(payload > 0, np.maximum(-(-payload // BUCKET), 1), BUCKETS)
    bucket = time / several
    total = max(float(time.sum()), 1.0)
    there = work[-1] * (sent + bucket) / total  # of the pass, when its first bucket is there
    late = work[-1] - (float(time.sum()) - sent) + bucket  # so that it is busy until the pass has ended, and a bucket
    place = np.searchsorted(work, np.maximum(there, late))
    return np.asarray(beside[np.minimum(place, len(beside) - 1)])


def backward_of(g: Graph, a: Analysis, computes: Index, collectives: Index) -> Index:
    """Return the operations of a step whose gradients its collectives carry: the backward pass before the last one."""
    if not len(collectives):
        return computes[:0]
    launch = a.t.launch[g.row[computes]]
    backward = computes[(launch >= 0) & in_backward(a, launch)]
    beside = backward if len(backward) else computes
    early: Index = beside[beside < collectives[-1]]
    return early


def in_backward(a: Analysis, launch: Index) -> Mask:
    """Return which launches the backward pass made."""
    h = a.t.host
    backward = np.flatnonzero(a.host.in_backward)
    inside: Mask = a.t.enclosing(h.start[launch], h.thread[launch], backward) >= 0
    return inside


def larger_batch(g: Graph, s: Selection, chosen: Selected, how: Mapping[str, float]) -> HostTime:
    """Let kernels, copies and the making of batches have more to do; how much longer kernels take is batch.py's."""
    factor = how["factor"]
    g.duration *= device_factor(s.a, g.row, factor, how.get("fixed"))
    return [(s.host_parts["data_wait"], factor)]


CHANGES: Final[Mapping[str, Change]] = {
    "remove_sync": remove_sync,
    "scale_device": scale_device,
    "remove_device": remove_device,
    "overlap_copies": overlap_copies,
    "overlap_collectives": overlap_collectives,
    "larger_batch": larger_batch,
}
