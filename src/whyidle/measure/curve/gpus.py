"""Which GPUs the curves of a run are of: the counters of one GPU together, from whichever files they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from whyidle.model.evidence import Clock, Curve, Series, Value

# Counters that are of a GPU also where a recording tells no device, since it has the mean of a host's GPUs.
OF_GPU: Final = frozenset({"utilization_percent", "memory_used_percent", "memory_utilization_percent"})
NAMED: Final = 3  # files that a warning names
UTILIZATION: Final = ("utilization_percent", "graphics_active_share")


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """A GPU, or an instance of one that is split, or all of a host together, with its counters by name."""

    node: str
    device: int | None
    instance: str
    path: str  # of the file that tells its utilization, else of the first
    clock: Clock
    counters: Mapping[str, Series]
    facts: Mapping[str, Value]

    @property
    def subject(self) -> str:
        """Return of what it is: "gpu 3", "node7 gpu 3", or a host."""
        one = next(iter(self.counters.values()))
        return one.subject or "all GPUs"

    @property
    def gpus(self) -> int:
        """Return of how many GPUs these counters are the mean."""
        return max(int(self.facts.get("gpus", 1)), 1) if self.facts.get("mean_of_gpus") else 1


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What a run's curves hold, sorted."""

    gpus: tuple[Gpu, ...]
    hosts: tuple[Series, ...]  # counters of machines
    steps: tuple[Series, ...]  # what trainers printed
    origin: int  # ns: first sample of all, where the curves share a clock
    warnings: tuple[str, ...]


_STEPS: Final = frozenset(
    {"step_time_s", "data_wait_s", "step", "tokens_per_s", "samples_per_s", "evaluation", "checkpoint"}
)
_Place = tuple[str, int | None, str]


def recorded(curves: Sequence[Curve]) -> Recorded:
    """Return the curves' counters by GPU, host and trainer. A series without a value is left out."""
    found: dict[_Place, dict[str, list[tuple[Series, Curve]]]] = {}
    hosts: list[Series] = []
    steps: list[Series] = []
    for curve in curves:
        for one in curve.series:
            if not len(one.time) or one.pid is not None:
                continue
            if one.name in _STEPS:
                steps.append(one)
            elif one.device is not None or one.name in OF_GPU:
                place = (one.node, one.device, one.instance)
                found.setdefault(place, {}).setdefault(one.name, []).append((one, curve))
            else:
                hosts.append(one)
    facts = _facts(curves)
    twice: dict[tuple[str, ...], set[tuple[str, str]]] = {}  # files that hold the same: which GPUs and counters
    gpus = [
        _gpu(place, found[place], facts, twice)
        for place in sorted(found, key=lambda p: (p[0], -1 if p[1] is None else p[1], p[2]))
    ]
    starts = [int(one.time[0]) for gpu in gpus for one in gpu.counters.values()]
    return Recorded(tuple(gpus), tuple(hosts), tuple(steps), min(starts, default=0), tuple(_twice(twice)))


def _facts(curves: Iterable[Curve]) -> dict[str, dict[str, Value]]:
    """Return the facts of GPUs by subject."""
    facts: dict[str, dict[str, Value]] = {}
    for curve in curves:
        for fact in curve.facts:
            facts.setdefault(fact.subject, {}).setdefault(fact.name, fact.value)
    return facts


def _gpu(
    place: _Place,
    counters: Mapping[str, list[tuple[Series, Curve]]],
    facts: Mapping[str, Mapping[str, Value]],
    twice: dict[tuple[str, ...], set[tuple[str, str]]],
) -> Gpu:
    joined = {name: _joined(several, twice) for name, several in counters.items()}
    chosen = next((counters[name][0][1] for name in UTILIZATION if name in counters), None)
    curve = chosen or next(iter(counters.values()))[0][1]
    subject = next(iter(joined.values())).subject
    return Gpu(*place, curve.path, curve.clock, joined, facts.get(subject, {}))


def _joined(several: Sequence[tuple[Series, Curve]], twice: dict[tuple[str, ...], set[tuple[str, str]]]) -> Series:
    """Return a counter that several files hold: one after the other where they follow, else the longer."""
    if len(several) == 1:
        return several[0][0]
    ordered = sorted((one for one, _ in several), key=lambda one: int(one.time[0]))
    follow = all(int(a.time[-1]) < int(b.time[0]) for a, b in pairwise(ordered))
    first = ordered[0]
    if follow and all(curve.clock == "wall" for _, curve in several):
        time = np.concatenate([one.time for one in ordered])
        value = np.concatenate([one.value for one in ordered])
        return Series(first.name, first.node, time, value, first.device, first.pid, first.role, first.instance)
    longest = max(several, key=lambda item: (int(item[0].time[-1] - item[0].time[0]), len(item[0].time)))
    files = dict.fromkeys((longest[1].path, *sorted(curve.path for _, curve in several)))
    twice.setdefault(tuple(files), set()).add((first.subject or "a host", first.name))
    return longest[0]


def _twice(twice: Mapping[tuple[str, ...], set[tuple[str, str]]]) -> Iterator[str]:
    """Yield which files hold counters of the same GPU at the same time: once for all that they share."""
    for files, held in twice.items():
        subjects = sorted({subject for subject, _ in held})
        what = f"{len(held):,} counters" if len(held) > 1 else next(iter(held))[1]
        whose = subjects[0].replace("gpu ", "GPU ") if len(subjects) == 1 else f"{len(subjects):,} GPUs"
        more = f" and {len(files) - 1 - NAMED:,} more" if len(files) > 1 + NAMED else ""
        yield (
            f"{files[0]} is used for {what} of {whose}, not {', '.join(files[1 : 1 + NAMED])}{more}, which tell of the "
            "same time. Give the curves of one job, each once, with the name of the host where there are several."
        )
