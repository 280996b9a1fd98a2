"""What does the host do to keep the GPU fed: launches, kernel sizes, the interpreter's pauses?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whyidle.measure import names
from whyidle.measure.analysis import PLACES, Analysis
from whyidle.measure.attribution import CODE, Attribution
from whyidle.measure.rows import largest
from whyidle.model.evidence import Kind
from whyidle.model.intervals import Intervals, clip, overlap
from whyidle.model.measurement import Measurement

SHORT_KERNEL = 10_000  # ns: below about two launches (5 us each) a kernel cannot hide the next launch


# ns: a host that only launches needs 5-500 us from one launch to the next; what takes longer is some other work
LONG_GAP = 1_000_000
HOST_WORK = ("dispatch", "autograd_host")
# ns: from a kernel to the next that is queued; the median is below 2,250 in 24 of 28 recordings that we have
USUAL_GAP = 2_500


def measure(a: Analysis) -> Iterator[Measurement]:
    """Yield launches per step, kernel sizes, and the idle time of a host that launches too slowly."""
    t, d = a.t, a.t.device
    yield from starved(a)
    kernels = t.device_of_kind[Kind.KERNEL]
    if len(kernels):
        length = d.end[kernels] - d.start[kernels]
        yield Measurement("kernel_median_s", float(np.median(length)) / 1e9)
        yield Measurement("kernel_mean_s", float(np.mean(length)) / 1e9)
        yield Measurement("kernel_short_share", float(np.mean(length < SHORT_KERNEL)))
    if a.steps and len(t.launching):
        yield Measurement("launches_per_step", a.per_step(t.host.start[t.launching]))
    yield from zero_grad(a)
    latencies = [device.latency for device in a.devices if device.latency is not None]
    if latencies:
        yield Measurement("launch_latency_s", float(np.median(latencies)) / 1e9)
    pauses = t.host_like(names.GARBAGE, Kind.PYTHON, Kind.RANGE)
    if len(pauses) or len(t.of_kind(Kind.PYTHON)):  # a range around the call is the same pause
        yield Measurement("gc_pauses", len(t.spans(pauses)), locations=a.host_places(pauses))


def zero_grad(a: Analysis) -> Iterator[Measurement]:
    """Yield what setting gradients to zero costs; all zero where there is a backward pass, and nothing is launched."""
    zeroing = a.host.zeroing
    if not a.host.in_backward.any():
        return
    fills = a.launched_inside(zeroing)
    yield Measurement(
        "idle_zero_grad_share", a.idle_inside("optimizer_host", zeroing), locations=a.host_places(zeroing)
    )
    yield Measurement("zero_grad_share", a.device_share(fills), locations=a.device_places(fills))
    if a.steps:
        yield Measurement("zero_grad_fills_per_step", a.per_step(a.t.host.start[a.t.launch[fills]]))


def starved(a: Analysis) -> Iterator[Measurement]:
    """Yield the idle time that slow launching causes, and that of long stretches of other host work."""
    total = {"launch_bound_share": 0, "host_stall_share": 0}
    places: dict[str, list[tuple[int, int, int]]] = {name: [] for name in total}
    for device in a.devices:
        p, gap = device.pieces, device.gaps.span.lengths
        length, is_short = p.end - p.start, gap[p.gap] < LONG_GAP
        work = np.isin(p.cause, [CODE[cause] for cause in HOST_WORK])
        if not a.host.operators_recorded:  # whatever the host did, it launched too late
            short_unknown = is_short & device.late[p.gap] & (p.cause == CODE["unknown"])
            work = work | short_unknown
        for name, mine in (
            ("launch_bound_share", is_short & (work | (p.cause == CODE["launch_latency"]))),
            ("host_stall_share", work & ~is_short),
        ):
            rows = np.flatnonzero(mine)
            total[name] += int(length[rows].sum())
            longest = rows[largest(length[rows], PLACES)]
            places[name] += [(int(p.start[row]), int(p.end[row]), device.device) for row in longest]
    for name, where in places.items():
        where.sort(key=lambda place: place[0] - place[1])
        found = tuple(a.t.location(start, end, a.doing(start, end), device) for start, end, device in where[:PLACES])
        yield Measurement(name, a.share(total[name]), locations=found)
    yield Measurement("usual_kernel_gap_share", a.share(sum(usual_pauses(device) for device in a.devices)))
    yield Measurement("backward_stall_share", a.share(sum(stalled_backward(device) for device in a.devices)))


def long_gaps(a: Analysis) -> Intervals:
    """Return when the threads that drive the devices launch nothing for 1 ms and more."""
    h, calls = a.t.host, a.t.launching
    calls = calls[np.isin(h.thread[calls], [thread for device in a.devices for thread in device.crew])]
    calls = calls[np.argsort(h.start[calls], kind="stable")]
    low, high = a.t.whole_window
    start = np.maximum.accumulate(np.append(low, h.end[calls]))
    end = np.append(h.start[calls], high)
    long = end - start >= LONG_GAP
    return clip(Intervals(start[long], end[long]), low, high)


def usual_pauses(device: Attribution) -> int:
    """Return the pauses between queued kernels as far as any GPU makes them, ns."""
    p = device.pieces
    rows = p.cause == CODE["kernel_gap"]
    return int(np.minimum(p.end - p.start, USUAL_GAP)[rows].sum())


def stalled_backward(device: Attribution) -> int:
    """Return the idle time in long gaps in which the backward pass is between two nodes, ns."""
    p = device.pieces
    rows = (p.cause == CODE["autograd_host"]) & (device.gaps.span.lengths[p.gap] >= LONG_GAP)
    return int(overlap(p.start[rows], p.end[rows], device.between_nodes).sum())
