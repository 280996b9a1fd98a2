"""Which GPUs the curves of a run are of: the counters of one GPU together, from whichever files they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whyidle.model.evidence import Clock, Curve, Series, Value

# Counters that are of a GPU also where a recording tells no device, since it has the mean of a host's GPUs.
OF_GPU: Final = frozenset({"utilization_percent", "memory_used_percent", "memory_utilization_percent"})
NAMED: Final = 3  # GPUs that a warning names
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
        told = self.facts.get("gpus", 1)
        return max(int(told), 1) if isinstance(told, int | float) else 1


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What a run's curves hold, sorted."""

    gpus: tuple[Gpu, ...]
    hosts: tuple[Series, ...]  # counters of machines
    steps: tuple[Series, ...]  # what trainers printed
    origin: int  # ns: first sample of all, where the curves share a clock
    warnings: tuple[str, ...]


_STEPS: Final = frozenset(
    {
        *("step_time_s", "data_wait_s", "step", "evaluation", "checkpoint"),
        *("tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s", "loss", "loss_not_finite", "grad_norm"),
    }
)
_Place = tuple[str, int | None, str]
# GPUs, and one counter of each, by the file and the longer one that is used; ("", ""): moments
_Twice = dict[tuple[str, str], dict[str, str]]


def of_one_host(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    """Return the curves, those that name no host as of the only one that others name: DCGM does, nvidia-smi does not.

    Else each GPU of a machine that two tools recorded would count as two. Where a GPU is not among those of that
    host, or several hosts are named, nothing tells whose they are, and they stay apart.
    """
    devices: dict[str, set[int]] = {}
    for one in (one for curve in curves for one in curve.series):
        if one.device is not None:
            devices.setdefault(one.node, set()).add(one.device)
    nameless = devices.pop("", set())
    if len(devices) != 1 or not nameless <= next(iter(devices.values())):
        return tuple(curves)
    (host,) = devices
    return tuple(_named(curve, host) for curve in curves)


def _named(curve: Curve, host: str) -> Curve:
    """Return a curve with its nameless GPUs as those of a host."""
    given = {one.subject: replace(one, node=host) for one in curve.series if one.device is not None and not one.node}
    if not given:
        return curve
    series = (replace(one, node=host) if one.device is not None and not one.node else one for one in curve.series)
    facts = (replace(f, subject=given[f.subject].subject if f.subject in given else f.subject) for f in curve.facts)
    return replace(curve, series=tuple(series), facts=tuple(facts))


def recorded(curves: Sequence[Curve]) -> Recorded:
    """Return the curves' counters by GPU, host and trainer. A series without a value is left out."""
    found: dict[_Place, dict[str, list[tuple[Series, Curve]]]] = {}
    hosts: list[Series] = []
    steps: list[Series] = []
    twice: _Twice = {}
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
    gpus = [
        _gpu(place, found[place], facts, twice)
        for place in sorted(found, key=lambda p: (p[0], -1 if p[1] is None else p[1], p[2]))
    ]
    starts = [int(one.time[0]) for gpu in gpus for one in gpu.counters.values()]
    return Recorded(tuple(gpus), tuple(hosts), tuple(steps), min(starts, default=0), tuple(_told(twice)))


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
    twice: _Twice,
) -> Gpu:
    joined = {name: _joined(name, several, twice) for name, several in counters.items()}
    chosen = next((counters[name][0][1] for name in UTILIZATION if name in counters), None)
    curve = chosen or next(iter(counters.values()))[0][1]
    subject = next(iter(joined.values())).subject
    return Gpu(*place, curve.path, curve.clock, joined, facts.get(subject, {}))


def _joined(name: str, several: Sequence[tuple[Series, Curve]], twice: _Twice) -> Series:
    """Return a counter that several files hold; of files that cannot be joined note in `twice` which is left out.

    They are one where they follow each other on one clock, or say the same where they overlap; else the longer counts.
    """
    if len(several) == 1:
        return several[0][0]
    ordered = sorted((one for one, _ in several), key=lambda one: (int(one.time[0]), len(one.time)))
    clocks = {(curve.clock, "" if curve.clock == "wall" else curve.kind) for _, curve in several}
    if len(clocks) == 1 and clocks.isdisjoint({("assumed", several[0][1].kind)}):
        pieces = [ordered[0]]
        for one in ordered[1:]:
            common = int(np.searchsorted(one.time, pieces[-1].time[-1], side="right"))
            if common and not _same(one, common, pieces := [_one(pieces)]):
                break
            if common < len(one.time):
                pieces.append(replace(one, time=one.time[common:], value=one.value[common:]))
        else:
            return _one(pieces)
    longest = max(several, key=lambda item: (int(item[0].time[-1] - item[0].time[0]), len(item[0].time)))
    moments = all(len(one.time) == 1 and curve.clock != "wall" for one, curve in several)
    for path in sorted({curve.path for one, curve in several if one is not longest[0]}):
        key = ("", "") if moments else (path, longest[1].path)
        twice.setdefault(key, {}).setdefault(longest[0].subject or "all GPUs", name)
    return longest[0]


def _one(pieces: Sequence[Series]) -> Series:
    """Return the pieces of a counter as one."""
    if len(pieces) == 1:
        return pieces[0]
    columns = (np.concatenate([one.time for one in pieces]), np.concatenate([one.value for one in pieces]))
    return replace(pieces[0], time=columns[0], value=columns[1])


def _same(one: Series, common: int, pieces: Sequence[Series]) -> bool:
    """Say whether the first `common` samples of a counter are in what there is of it, too."""
    (whole,) = pieces
    at = np.searchsorted(whole.time, one.time[:common])
    return np.array_equal(whole.time[at], one.time[:common]) and np.array_equal(
        whole.value[at], one.value[:common], equal_nan=True
    )


def _told(twice: Mapping[tuple[str, str], Mapping[str, str]]) -> Iterator[str]:
    """Yield once for two files what GPUs they share, and which is used."""
    for (path, longer), shared in twice.items():
        subjects = [subject.replace("gpu ", "GPU ") for subject in shared]
        if not path:
            yield (
                f"{subjects[0]}: several files hold a moment each, and none tells its time: one is used. "
                "Write the time into each file's name, or into the samples."
            )
            continue
        more = f" and {len(subjects) - NAMED} more" if len(subjects) > NAMED else ""
        counter = next(iter(shared.values()))
        yield (
            f"{path} and {longer} both hold {counter} of {', '.join(subjects[:NAMED])}{more}; the longer "
            "one is used. Give the curves of one job once, with the name of the host where there are several."
        )
