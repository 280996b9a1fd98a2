"""Groups of rows as a Curve: time in order, GPUs numbered, and what was odd said once for the whole file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from whyidle.model.evidence import Curve, Fact, Floats64, Ints, Series
from whyidle.read.base import UnreadableError
from whyidle.read.blocks import Blocks
from whyidle.read.daylight import HOUR, MOST_JUMPS, hour_back, usual_step
from whyidle.read.table.gather import Collector, Group
from whyidle.read.table.names import facts_of
from whyidle.read.table.remarks import Odd, impossible, left_out, shares, times, units
from whyidle.read.table.rows import Cutter
from whyidle.read.table.times import DAY, SECOND
from whyidle.read.table.turns import TOGETHER, in_turn, told_apart

_Column = TypeVar("_Column", Ints, Floats64)

GPU_IN_NAME: Final = re.compile(r"(?<![a-z])(?:gpu|device|cuda)[-_ ]?(\d{1,3})(?!\d)", re.IGNORECASE)
ALWAYS: Final = frozenset({"utilization_percent", "process_utilization_percent"})  # kept where nothing was measured


def curve_of(
    pieces: Iterable[bytes],
    cutter: Cutter,
    collector: Collector,
    path: Path,
    kind: str,
    recorder: str = "",
    one_after_the_other: bool = False,
) -> Curve:
    """Read the rows of a table as a curve.

    Args:
        pieces: the content behind its header, in whole lines (rows.lines).
        cutter: cuts it into rows.
        collector: takes them.
        path: of the file, for messages.
        kind: Reader.kind.
        recorder: what wrote it, as facts name it.
        one_after_the_other: the rows of one sample are some ms apart.

    Raises:
        UnreadableError: there is no row to use.
    """
    for content in pieces:
        collector.add(cutter.cut(content))
    if not any(group.rows for group in collector.groups):
        raise UnreadableError(path, _nothing(cutter, collector), "Record it again, for some minutes.", damaged=True)
    turns = []
    if not told_apart(collector):
        collector.groups, gpus = in_turn(collector.groups, TOGETHER if one_after_the_other else 0)
        if gpus == 1 and (named := GPU_IN_NAME.search(path.name)):
            collector.groups = [replace(group, keys={**group.keys, "device": named[1]}) for group in collector.groups]
            turns = [f"No column tells the GPU: its name does, GPU {named[1]}."]
        if gpus > 1:
            turns = [f"No column tells the GPU: rows are taken in turn as those of {gpus} GPUs."]
    odd = Odd()
    series, facts = _series(collector, odd, recorder or kind)
    said = [
        *turns,
        *left_out(cutter, collector),
        *units(collector),
        *shares(series, collector),
        *impossible(series),
        *times(collector, odd),
    ]
    return Curve(
        path=str(path),
        kind=kind,
        series=tuple(series),
        clock=collector.clock,
        facts=tuple(facts),
        warnings=tuple(f"{path}: {warning}" for warning in said),
    )


def _nothing(cutter: Cutter, collector: Collector) -> str:
    if cutter.left_out:
        return f"none of {cutter.left_out:,} rows has the columns of the header."
    if collector.untimed:
        return f"none of {collector.untimed:,} rows has a time that can be read."
    return "a header and no rows: nothing was recorded."


def _series(collector: Collector, odd: Odd, recorder: str) -> tuple[list[Series], list[Fact]]:
    series: list[Series] = []
    facts: list[Fact] = []
    numbers = _devices(collector.groups)
    shared: Ints | None = None
    for group, device in zip(collector.groups, numbers, strict=True):
        if not group.rows:
            continue
        time, order = _in_order(_joined(group.times), collector, odd)
        time = shared = shared if shared is not None and np.array_equal(shared, time) else time
        pid = group.keys.get("pid", "")
        node, instance = group.keys.get("host", ""), _instance(group.keys.get("instance", ""))
        own: list[Series] = []
        for index, meaning in collector.layout.values.items():
            value = _joined(group.values.pop(index))
            value = value if order is None else value[order]
            which = meaning.device if meaning.device is not None else device
            if ("pid" in group.keys and not pid.isdigit()) or (
                meaning.name not in ALWAYS and not np.isfinite(value).any()
            ):
                continue
            own.append(
                Series(meaning.name, node, time, value, which, int(pid) if pid.isdigit() else None, instance=instance)
            )
        own = _added(own) if any(meaning.part for meaning in collector.layout.values.values()) else own
        series += own
        facts += _facts(own, group, recorder)
    return series, facts


def _added(own: list[Series]) -> list[Series]:
    """Return series of which those of one name are added up: a bit each."""
    sums: dict[tuple[str, int | None], Series] = {}
    for series in own:
        known = sums.get((series.name, series.device))
        sums[series.name, series.device] = replace(known, value=known.value + series.value) if known else series
    return list(sums.values())


def _joined(pieces: list[_Column]) -> _Column:
    """Return the pieces as one, and let go of them."""
    joined = np.concatenate(pieces)
    pieces.clear()
    return joined


def _facts(own: list[Series], group: Group, recorder: str) -> list[Fact]:
    """Return what is told of a GPU in every row, once."""
    if not own:
        return []
    subject = own[0].subject
    facts = [Fact("name", group.model, recorder, subject)] if group.model else []
    for series in own:
        known = series.value[np.isfinite(series.value)]
        if len(known) and (fact := facts_of(series.name, float(known[-1]), series.subject, recorder)):
            facts.append(fact)
    return facts


def _devices(groups: list[Group]) -> list[int | None]:
    """Return the number of each group's GPU: as it is written, else by order of its UUID on its host."""
    numbers: list[int | None] = []
    for group in groups:
        text = group.keys.get("device", "")
        match = re.fullmatch(r"\D{0,20}(\d{1,4})", text)
        numbers.append(int(match[1]) if match else None)
    names = [
        (group.keys.get("host", ""), group.keys.get("uuid", "") or group.keys.get("device", "")) for group in groups
    ]
    following = Counter[str]()
    for (host, _), number in zip(names, numbers, strict=True):
        following[host] = max(following[host], 0 if number is None else number + 1)
    order: dict[tuple[str, str], int] = {}
    for host, name in sorted({name for name, number in zip(names, numbers, strict=True) if number is None}):
        order[host, name] = following[host]
        following[host] += 1
    return [order[name] if number is None else number for name, number in zip(names, numbers, strict=True)]


def _instance(text: str) -> str:
    return "" if text in {"-", "N/A", "[N/A]"} else text


def _in_order(time: Ints, collector: Collector, odd: Odd) -> tuple[Ints, Ints | None]:
    """Return times that grow, and which rows they are of; None: all, in the order of the file."""
    step = np.diff(time)
    if not len(step) or (step > 0).all():
        if len(step) and collector.clock == "wall" and not collector.zone:
            usual = float(np.median(step))
            near = np.flatnonzero(np.abs(step - HOUR) < max(5 * usual, SECOND))
            odd.forward += time[near[:1] + 1].tolist() if usual < HOUR / 10 else []
        return time, None
    usual = usual_step(step)
    falls = np.flatnonzero(step < 0)
    shift = np.zeros(len(time), np.int64)
    for fall in falls[:100].tolist():
        if collector.layout.way == "clock" and collector.layout.day is None and step[fall] < -DAY // 2:
            shift[fall + 1 :] += DAY
        elif (
            len(falls) <= MOST_JUMPS
            and not collector.zone
            and collector.clock == "wall"
            and hour_back(step[fall], usual)
        ):
            shift[fall + 1 :] += HOUR
            odd.back.append(int(time[fall]))
    time = time + shift
    order = np.argsort(time, kind="stable")
    odd.unordered += int(np.count_nonzero(np.diff(time) < 0))
    time = time[order]
    kept = np.concatenate([[True], np.diff(time) > 0])
    odd.duplicates += int(np.count_nonzero(~kept))
    return time[kept], order[kept]


def still_there(curve: Curve | None, path: Path) -> Curve:
    """Return the curve of a file that was recognised; UnreadableError where it is another file by now."""
    if curve is None:
        raise UnreadableError(path, "it has changed since it was looked at.", "Try again.", damaged=True)
    return curve


def with_damage(curve: Curve, file: Blocks | None) -> Curve:
    """Return the curve with what was wrong with the packing of its file."""
    if file is None or not file.damage:
        return curve
    return replace(curve, warnings=(f"{curve.path}: {file.damage}: what could be unpacked is read.", *curve.warnings))
