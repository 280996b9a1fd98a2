"""What an edit speaks of: from the words of its selector to host time and rows of a trace.

A rule measures something and says in its edits what a fix does to it. So that the replay changes what was measured,
the rows are those that the functions of measure/ find, the same that the measurement rests on. Host time is told by
the causes of idle time: what a host does is one of them, whether the GPU is idle meanwhile or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import (
    accumulation,
    alignment,
    collective,
    compute,
    late,
    launch,
    names,
    network,
    optimizer,
    search,
    sync,
    transfer,
)
from whyidle.measure import input as loading
from whyidle.measure.analysis import Analysis
from whyidle.measure.attribution import CODE, doing, merged, split
from whyidle.measure.rows import Index, distinct, marked, together, without
from whyidle.model.evidence import Ints, Kind
from whyidle.model.finding import CAUSES, Edit
from whyidle.model.intervals import NOTHING, Intervals, clip, intersect
from whyidle.replay import roofline

NONE = np.empty(0, np.intp)


def nothing() -> Index:
    return NONE


# What a job whose workers take more of the CPUs does more slowly: its own work, and nothing that is a wait or a pause.
WORK = ("allocator", "h2d_prep", "optimizer_host", "autograd_host", "dispatch", "python")
GROUPS: Mapping[str, tuple[str, ...]] = {"host": WORK}
# Host time of which a trace has no timeline: before it, on a CPU that does the GPU's work, and in environments of
# reinforcement learning, which are Python like any other.
NOT_RECORDED = frozenset(("startup", "compute", "environment"))
# what a host does that gets a copy ready, as far as it has no other name (transfer.prepared)
MAKING = ("python", "dispatch", "h2d_prep")


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """What an edit speaks of; nothing where the job has none of it."""

    host: Intervals = NOTHING  # time of the logical host thread
    device: Index = field(default_factory=nothing)  # rows of t.device
    time: Ints = field(
        default_factory=nothing
    )  # of each of these rows, ns: all of it, but of a wait for a peer only what it waits
    waits: Index = field(
        default_factory=nothing
    )  # rows of t.host: RUNTIME calls in which the host may stand for the GPU
    launches: Index = field(
        default_factory=nothing
    )  # rows of t.host: launch calls, of which nothing stays where `device` is removed or merged
    number: str = ""  # in what type these products compute then


def select(a: Analysis, edit: Edit) -> Selected:
    """Return what an edit speaks of; of many edits of one trace ask one `Selection`.

    Raises:
        KeyError: nobody knows what the edit means, which is a mistake of its rule.
    """
    return Selection(a).select(edit)


def host_parts(a: Analysis) -> dict[str, Intervals]:
    """Return what the host does in the window, by cause; the parts are exclusive and together the window."""
    return Selection(a).host_parts


def replayable(edit: Edit) -> bool:
    """Say whether a trace has a timeline of what an edit changes."""
    return edit.kind != "scale_host" or not NOT_RECORDED & set(causes_of(edit))


def concerns(a: Analysis, edit: Edit, late_ranks: str = "") -> bool:
    """Say whether an edit changes this rank: what is said of late ranks does not change the others.

    `late_ranks` is the measurement of that name; where it names none, they take turns, and the edit changes each.
    """
    which = late.members(late_ranks)
    return edit.selector.get("rank") != "late" or not which or (a.t.trace.rank or 0) in which


def causes_of(edit: Edit) -> tuple[str, ...]:
    """Return the causes that an edit names, groups and all."""
    return tuple(str(edit.selector.get("cause", "")).split(","))


class Selection:
    """The selections of one trace; what several edits ask for is found once."""

    def __init__(self, a: Analysis) -> None:
        self.a = a
        self._found: dict[str, Selected] = {}

    def select(self, edit: Edit) -> Selected:
        """Return what an edit speaks of.

        Raises:
            KeyError: nobody knows what the edit means.
        """
        # which ranks is `concerns`, what late ranks come to is for a replay of all of them
        words = {name: value for name, value in edit.selector.items() if name not in {"rank", "to"}}
        key = f"{edit.kind}: {text_of(words)}"
        if key not in self._found:
            self._found[key] = self._select(edit.kind, words)
        return self._found[key]

    def _select(self, kind: str, words: Mapping[str, object]) -> Selected:
        match kind:
            case "scale_host":
                return Selected(host=self._host(words))
            case "remove_sync":
                kinds = str(words["kind"]).split(",")
                return Selected(waits=together(NONE, *(self._waits(one) for one in kinds)))
            case "larger_batch":
                return self._device(BATCH[text_of(words)](self.a))
            case "merge_launches":
                return self._device(MERGED[text_of(words)](self.a))
            case "scale_device" if words == {"class": "collective_wait"}:
                rows, waited = waiting(self.a)
                return Selected(device=rows, time=waited)
            case "scale_device" if "number" in words:
                others = {name: value for name, value in words.items() if name != "number"}
                return replace(self._device(DEVICE[text_of(others)](self.a)), number=str(words["number"]))
            case "scale_device" | "remove_device" | "overlap_copies" | "overlap_collectives":
                return self._device(DEVICE[text_of(words)](self.a))
            case _:
                raise KeyError(kind)

    def _device(self, rows: Index) -> Selected:
        """Return these device slices with the calls that launch them and nothing else."""
        d, launch = self.a.t.device, self.a.t.launch
        mine = marked(rows, len(d))
        alone = without(distinct(launch[rows]), distinct(launch[~mine]))
        return Selected(device=rows, time=(d.end - d.start)[rows], launches=alone)

    def _host(self, words: Mapping[str, object]) -> Intervals:
        """Return host time: of causes, all of it or in some places; in a range; or that makes copies."""
        if "cause" not in words:
            return HOST[text_of(words)](self)
        more = text_of({name: value for name, value in words.items() if name != "cause"})
        time = merged([self.of_cause(cause) for cause in str(words["cause"]).split(",")])
        return intersect(time, PLACES[more](self.a))[0] if more else time

    @cached_property
    def memory_share(self) -> NDArray[np.float64]:
        """Return for each device slice the share of its time that memory needs anyway."""
        return roofline.memory_share(self.a)

    @cached_property
    def waits(self) -> sync.Waits:
        return sync.find(self.a)

    def _waits(self, kind: str) -> Index:
        """Return the calls in which the host may stand, by the kind of wait; it waits for a batch as a whole."""
        if kind == "allocator":
            return allocating(self.a)
        if kind == "upload":
            return sync.calls_of(self.waits, sync.of_batches(self.a, self.waits))
        if kind not in (*sync.MEASURED, sync.SMALL):
            raise KeyError(kind)
        return sync.calls_of(self.waits, self.waits.kind == kind)

    def of_cause(self, cause: str) -> Intervals:
        """Return the host time of a cause, or of a group of them; none of what no trace has a timeline of.

        Where operators were not recorded, what is between runtime calls may as well be their work (launch.starved).
        """
        if cause in NOT_RECORDED:
            return NOTHING
        if cause in GROUPS:
            return merged([self.of_cause(one) for one in GROUPS[cause]])
        if cause == "dispatch" and not self.a.host.operators_recorded:
            return merged([self.host_parts["dispatch"], self.host_parts["unknown"]])
        return self.host_parts[cause]

    @cached_property
    def host_parts(self) -> dict[str, Intervals]:
        """Return what the logical host thread does in the window, by cause.

        It is the first thread of the crew; where that does nothing that was recorded, the others of the crew. No part
        of the host's is what a GPU takes by itself. Where no launch is known, nobody knows what drives the GPU.
        """
        a = self.a
        low, high = a.t.whole_window
        crew = list(dict.fromkeys(thread for device in a.devices for thread in device.crew))
        left, rows = Intervals(np.array([low]), np.array([high])), np.zeros(1, np.intp)
        left, rows, pieces = split(left, rows, "unknown", merged([device.unrecorded for device in a.devices]))
        if crew:
            pieces += doing(a.host, left, rows, crew[0], crew)
        else:
            pieces += split(left, rows, "unknown", left)[2]
        start, end, cause = (
            np.concatenate([getattr(p, column) for p in pieces]) for column in ("start", "end", "cause")
        )
        order = np.argsort(start, kind="stable")
        start, end, cause = start[order], end[order], cause[order]
        return {one: Intervals(start[cause == CODE[one]], end[cause == CODE[one]]) for one in CAUSES}

    def zeroing(self) -> Intervals:
        """Return when the host sets gradients to zero."""
        return clip(self.a.t.spans(self.a.host.zeroing), *self.a.t.whole_window)

    def making_small(self) -> Intervals:
        """Return when the host makes small tensors and copies them to the device."""
        spans = transfer.making(self.a, small_copies(self.a))
        return intersect(merged([self.host_parts[cause] for cause in MAKING]), spans)[0]


def text_of(words: Mapping[str, object]) -> str:
    """Return a selector as the tables below spell it."""
    return ", ".join(f"{name}={words[name]}" for name in sorted(words))


def copies_up(a: Analysis) -> Index:
    """Return the copies from host to device."""
    return a.t.device_like(names.HOST_TO_DEVICE, Kind.MEMCPY)


def small_copies(a: Analysis) -> Index:
    """Return the small ones of these; none where the recording does not say how much each copies."""
    found = transfer.small(a)
    return NONE if found is None else found


def allocating(a: Analysis) -> Index:
    """Return the calls by which the threads that drive the devices take and give back memory: some stand in them."""
    calls, crew = a.host.slices["allocator"], [thread for device in a.devices for thread in device.crew]
    return calls[np.isin(a.t.host.thread[calls], crew)]


def waiting(a: Analysis) -> tuple[Index, Ints]:
    """Return the collectives that take longer than the fastest of their kind, and by how much, ns.

    Of one rank alone, which is a lower bound: where all ranks are replayed together, what they wait comes by itself.
    """
    if a.steps < 2:
        return NONE, NONE
    rows, waited = collective.beyond_fastest(a, collective.comparable(a))
    return rows[waited > 0], waited[waited > 0]


def model_work(a: Analysis) -> Index:
    """Return what a compiled model would launch as a graph: in the steps, by the threads that drive the devices.

    Not the optimizer's, which is not part of the model; nor copies to and from the host, nor collectives.
    """
    t = a.t
    rows = without(np.flatnonzero(t.launch >= 0), together(compute.of_optimizer(a), transfer.host_device(a)))
    rows = without(rows, t.device_like(names.COLLECTIVE))
    calls = t.launch[rows]
    crew = [thread for device in a.devices for thread in device.crew]
    return rows[np.isin(t.host.thread[calls], crew) & a.in_steps(t.host.start[calls])]


def batch_work(a: Analysis) -> Index:
    """Return what grows with the batch: kernels but those of the optimizer and collectives, and copies of batches."""
    return together(compute.growing(a), without(copies_up(a), small_copies(a)))


Rows = Callable[[Analysis], Index]

# Device slices by selector.
DEVICE: Mapping[str, Rows] = {
    "class=all": lambda a: np.arange(len(a.t.device)),
    "class=cast": compute.kernels_that_cast,
    "class=collective": lambda a: a.t.device_like(names.COLLECTIVE),
    "class=collective, pass=all but the last of an update": accumulation.again,
    "class=collective, size=large": network.large_collectives,
    "class=compute": compute.computing,
    "class=conv_search": search.needless,
    "class=copy": transfer.host_device,
    "class=fp32": lambda a: a.t.device_like(compute.is_fp32_product),
    "class=gradients": collective.gradients,
    "class=layout": lambda a: a.t.device_like(names.LAYOUT),
    "class=matmul, tensor_cores=False": compute.off_tensor_cores,
    "class=mergeable": compute.merged_away,
    "class=misaligned": alignment.misaligned,
    "class=recompute": compute.kernels_again,
    "class=shards": collective.shards,
    "class=tensorwise, range=Optimizer.step": optimizer.tensorwise,
    "copy=HtoD": copies_up,
    "copy=HtoD, pinned=False": transfer.not_pinned,
    "copy=HtoD, size=small": small_copies,
    "range=checkpoint": lambda a: a.launched_inside(a.host.slices["checkpoint"]),
    "range=evaluation": lambda a: a.launched_inside(a.host.slices["evaluation"]),
    "range=zero_grad": lambda a: a.launched_inside(a.host.zeroing),
}
# What is launched by calls that become few.
MERGED: Mapping[str, Rows] = {
    "range=Optimizer.step": lambda a: a.launched_inside(optimizer.updates(a)),
    "range=step": model_work,
}
BATCH: Mapping[str, Rows] = {"": batch_work}
# Where host time of a cause counts, if not everywhere.
PLACES: Mapping[str, Callable[[Analysis], Intervals]] = {
    "gap=long": launch.long_gaps,
    "step=first": lambda a: a.t.spans(loading.first_batches(a)),
}
HOST: Mapping[str, Callable[[Selection], Intervals]] = {
    "copy=HtoD, size=small": Selection.making_small,
    "range=zero_grad": Selection.zeroing,
}
