"""What two traces do not run alike: operators and kernels that came, went, or take another time.

An operator is the outermost one on its thread, and its time is that of the kernels and copies that it launched; time of
the host counts only where it launches nothing, waits for one value, or is a DataLoader. Both traces are told per step;
where neither has steps, per recording. HTA's TraceDiff counts alike (added, deleted, increased, decreased); here a row
has to be worth telling, too, and what takes longer is told apart from what comes more often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whyidle.measure import Measured, names
from whyidle.measure.analysis import Analysis
from whyidle.measure.rows import Index, distinct
from whyidle.measure.steps import DROP_FIRST_FROM
from whyidle.measure.timeline import pick
from whyidle.model.comparison import Change
from whyidle.model.evidence import Codes, Floats64, Ints, Kind

FLOOR: Final = 0.01  # of the step: what changes less is not told (judgement)
ALIKE: Final = 0.05  # counts of a kernel and of the one in its place differ by less (judgement)
PREFIX: Final = "autograd::engine::evaluate_function: "

# What differs between two builds of the same kernel: its number in the source, spaces, spelling of unsigned constants,
# and the number that torch.compile gives it. The parameters repeat what the template says.
_NOISE: Final = (
    (re.compile(r"^void\s+|\(anonymous namespace\)::|<unnamed>::"), ""),
    (re.compile(r"\{lambda\([^{}]*\)#\d+\}|'lambda\d*'\([^()]*\)"), "lambda"),
    (re.compile(r"(?<=\d)[ul]+(?=\s*[,>])"), ""),
    (re.compile(r"\s+(?=[>,])|(?<=,)\s+"), ""),
    (re.compile(r"^(triton_[a-z]\w*?)(?:_?\d[\dde]*)+$"), r"\1"),
)
_PARAMETERS: Final = re.compile(r"(?<=[\w>])\([^()]*(?:\([^()]*\)[^()]*)*\)(?:\s*\[clone [^\]]*\])?$")

Kinds: TypeAlias = Literal["operator", "kernel"]
Place: TypeAlias = Literal["device", "host"]


class Row(NamedTuple):
    """What is compared: a kernel or operator of this name, by time of the device or of the host."""

    kind: Kinds
    on: Place
    name: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What a row takes in a step."""

    count: float = 0.0
    seconds: float = 0.0
    spread: float = 0.0  # s, standard deviation from step to step
    operator: str = ""  # of a kernel: that which launches most of it


NOTHING: Final = Spent()


@dataclass(frozen=True, slots=True)
class Took:
    """Slices of one trace as rows: by slice its name, its step and its time."""

    name: NDArray[np.intp]
    step: NDArray[np.intp]
    seconds: Floats64


def per(before: Measured, after: Measured) -> Literal["step", "recording"] | None:
    """Return what the changes are told per; None where one trace has steps and the other has not."""
    steps = {a.steps > 0 for measured in (before, after) for a in measured.analyses}
    if not before.analyses or not after.analyses or len(steps) > 1:
        return None
    return "step" if steps.pop() else "recording"


def changes(before: Measured, after: Measured) -> tuple[Change, ...]:
    """Return what changed by more than it varies and by 1% of a step, the largest first; nothing without two traces.

    Of several ranks it is their mean. A kernel that runs in the place of another, under the same operator and as often,
    is one change of both; if it takes as long, it is none.
    """
    if per(before, after) is None:
        return ()
    was, now = spent(before.analyses), spent(after.analyses)
    floor = FLOOR * mean(map(length, before.analyses))
    rows = [row for row in dict.fromkeys((*was, *now)) if row.on == "device" or on_host(row, was, now)]
    pairs = dict(replaced(rows, was, now))
    taken = {other.name for other in pairs.values()}
    found = []
    for row in rows:
        if row.kind == "kernel" and row.name in taken:
            continue
        other = pairs.get(row, row)
        first, second = was.get(row, NOTHING), now.get(other, NOTHING)
        if abs(second.seconds - first.seconds) > max(floor, first.spread, second.spread):
            found.append(change(row, other, first, second))
    return tuple(sorted(found, key=lambda one: (-abs(one.seconds_after - one.seconds_before), one.kind, one.name)))


def change(row: Row, other: Row, was: Spent, now: Spent) -> Change:
    """Return the change of a row, with the kernel that runs in its place now, if another does."""
    return Change(
        kind=row.kind,
        name=row.name,
        what=what(was, now),
        count_before=was.count,
        count_after=now.count,
        seconds_before=was.seconds,
        seconds_after=now.seconds,
        on=row.on,
        operator=was.operator or now.operator,
        now="" if other == row else other.name,
    )


def what(was: Spent, now: Spent) -> Literal["added", "removed", "slower", "faster", "more often", "less often"]:
    """Say how a row changed: by how often it comes, or by how long it takes each time, whichever counts for more."""
    if not was.count or not now.count:
        return "removed" if was.count else "added"
    each_was, each_now = was.seconds / was.count, now.seconds / now.count
    by_count = (now.count - was.count) * (each_was + each_now) / 2
    by_length = (each_now - each_was) * (now.count + was.count) / 2  # the two are the whole change
    more = now.seconds > was.seconds
    if abs(by_count) > abs(by_length):
        return "more often" if more else "less often"
    return "slower" if more else "faster"


def on_host(row: Row, was: Mapping[Row, Spent], now: Mapping[Row, Spent]) -> bool:
    """Say whether an operator's time on the host counts: a GPU's full queue holds the host up in any that launches."""
    if names.SCALAR_READ.search(row.name) or names.LOADER.search(row.name):
        return True
    twin = row._replace(on="device")
    return twin not in was and twin not in now


def replaced(rows: Sequence[Row], was: Mapping[Row, Spent], now: Mapping[Row, Spent]) -> Iterator[tuple[Row, Row]]:
    """Yield kernels that are gone with those that run in their place: under the same operator, as often."""
    kernels = [row for row in rows if row.kind == "kernel"]
    added = sorted((row for row in kernels if row not in was), key=lambda row: -now[row].seconds)
    for row in sorted((row for row in kernels if row not in now), key=lambda row: -was[row].seconds):
        for other in added:
            gone, came = was[row], now[other]
            if gone.operator and gone.operator == came.operator and abs(gone.count - came.count) <= ALIKE * gone.count:
                added.remove(other)
                yield row, other
                break


def spent(analyses: Sequence[Analysis]) -> dict[Row, Spent]:
    """Return what every row takes, the mean of these ranks."""
    ranks = [of_rank(a) for a in analyses]
    found = {}
    for row in dict.fromkeys(row for rank in ranks for row in rank):
        there = [rank.get(row, NOTHING) for rank in ranks]
        found[row] = Spent(
            count=mean(one.count for one in there),
            seconds=mean(one.seconds for one in there),
            spread=mean(one.spread for one in there),
            operator=max(there, key=lambda one: one.seconds).operator,
        )
    return found


def of_rank(a: Analysis) -> dict[Row, Spent]:
    """Return what every row takes in this trace."""
    h, tops = a.t.host, outermost(a)
    code, operators = spelled(a, h.name[tops], lambda name: name.removeprefix(PREFIX))
    kernels, inside = launched(a, tops)
    found = dict(of_kernels(a, kernels, pick(code, inside, -1), operators))
    calls = distinct(inside)
    device = np.bincount(inside[inside >= 0], lengths(a, kernels)[inside >= 0], len(tops)).astype(np.float64)
    host = (h.end[tops] - h.start[tops]) / 1e9
    parts: tuple[tuple[Place, Index, Floats64], ...] = (
        ("device", calls, device[calls]),
        ("host", np.arange(len(tops)), host),
    )
    for on, index, seconds in parts:
        took = Took(code[index], steps_of(a, h.start[tops[index]]), seconds)
        for place, one in summed(a, took).items():
            found[Row("operator", on, operators[place])] = one
    return found


def of_kernels(a: Analysis, kernels: Index, under: Index, operators: Sequence[str]) -> Iterator[tuple[Row, Spent]]:
    """Yield what each kernel, copy and fill takes, and the operator that launches most of it."""
    d = a.t.device
    name, called = spelled(a, d.name[kernels], identity)
    seconds = lengths(a, kernels)
    launched_at = pick(a.t.host.start, a.t.launch[kernels], d.start[kernels])
    main = most(name, under, seconds, len(called))
    for place, one in summed(a, Took(name, steps_of(a, launched_at), seconds)).items():
        operator = operators[main[place]] if main[place] >= 0 else ""
        yield Row("kernel", "device", called[place]), Spent(one.count, one.seconds, one.spread, operator)


def spelled(a: Analysis, column: Codes, spell: Callable[[str], str]) -> tuple[Index, list[str]]:
    """Return for each slice the place of its name among those that are returned, which are spelled so."""
    codes, place = np.unique(column, return_inverse=True)
    known = [spell(a.t.trace.strings[code]) for code in codes]
    places = {name: number for number, name in enumerate(dict.fromkeys(known))}
    return np.array([places[name] for name in known], np.intp)[place], list(places)


def most(name: Index, under: Index, seconds: Floats64, count: int) -> list[int]:
    """Return for each kernel the operator under which it takes most time, -1 for none."""
    wide = int(under.max(initial=-1)) + 2
    table = np.bincount(name * wide + under + 1, weights=seconds, minlength=count * wide).reshape(count, wide)
    return [int(place) - 1 for place in table.argmax(axis=1)]


def outermost(a: Analysis) -> Index:
    """Return the outermost operators of the threads that launch work.

    A DataLoader's range counts as one, and so does the launch of a graph outside of any: what it holds has no operator.
    """
    h = a.t.host
    counts = h.kind == Kind.OP
    counts[a.t.host_like(names.LOADER, Kind.RANGE)] = True
    counts[a.t.host_like(names.GRAPH_LAUNCH, Kind.RUNTIME)] = True
    found = [np.empty(0, np.intp)]
    for thread in a.t.launched_threads:
        own = np.flatnonzero(counts & (h.thread == thread))
        latest = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, h.end[own]))[:-1]
        found.append(own[h.start[own] >= latest])
    return np.sort(np.concatenate(found))


def launched(a: Analysis, tops: Index) -> tuple[Index, Index]:
    """Return the device slices of this rank's own devices, and for each its place in `tops`, -1 for none."""
    t = a.t
    mine = np.flatnonzero(np.isin(t.device.device, [device.device for device in a.devices]))
    call = t.launch[mine]
    known = np.flatnonzero(call >= 0)
    inside = np.full(len(mine), -1, np.intp)
    around = t.enclosing(t.host.start[call[known]], t.host.thread[call[known]], tops)
    inside[known] = np.where(around >= 0, np.searchsorted(tops, around), -1)
    return mine, inside


def lengths(a: Analysis, kernels: Index) -> Floats64:
    return np.asarray((a.t.device.end[kernels] - a.t.device.start[kernels]) / 1e9)


def steps_of(a: Analysis, times: Ints) -> Index:
    """Return for each time its step, counted from the first that counts; -1 outside. Without steps all is one."""
    steps = a.t.steps
    if not len(steps):
        return np.zeros(len(times), np.intp)
    place = np.searchsorted(steps.start, times, "right") - 1
    inside = (place >= 0) & (times < steps.end[np.maximum(place, 0)])
    return np.where(inside, place - dropped(a), -1)


def dropped(a: Analysis) -> int:
    """Return how many first steps do not count, as for the step time."""
    return int(a.steps >= DROP_FIRST_FROM)


def length(a: Analysis) -> float:
    """Return the mean step, s; without steps the window."""
    return float(a.t.steps.times.mean() if a.steps else a.device_window / max(len(a.devices), 1)) / 1e9


def summed(a: Analysis, took: Took) -> dict[int, Spent]:
    """Return by name what it takes in a step, those outside of steps left out."""
    steps = max(a.steps - dropped(a), 1)
    here = took.step >= 0
    if not here.any():
        return {}
    size = int(took.name.max()) + 1
    place = took.name[here] * steps + took.step[here]
    count = np.bincount(place, minlength=size * steps).reshape(size, steps)
    seconds = np.bincount(place, weights=took.seconds[here], minlength=size * steps).reshape(size, steps)
    there = np.flatnonzero(count.sum(axis=1))
    return {
        int(row): Spent(float(count[row].mean()), float(seconds[row].mean()), float(seconds[row].std()))
        for row in there
    }


def identity(name: str) -> str:
    """Return a kernel's name without what differs from build to build: two of the same identity do the same work."""
    for pattern, instead in _NOISE:
        name = pattern.sub(instead, name)
    return _PARAMETERS.sub("", name) if "<" in name or "::" in name or name.startswith("nccl") else name
