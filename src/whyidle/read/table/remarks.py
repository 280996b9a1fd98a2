"""What was odd in a table, said once for the whole file; and the units that only the values can tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from whyidle.model.evidence import Series
from whyidle.read.samples import possible
from whyidle.read.table.gather import Collector
from whyidle.read.table.rows import Cutter
from whyidle.read.table.times import SECOND

SHOWN: Final = 40  # characters of a line that does not fit
NAMED: Final = 3
MOST_MIB: Final = 4e6  # memory of a GPU in MiB; as bytes it would be less than the driver itself takes


@dataclass(slots=True)
class Odd:
    """What was found in times, over all groups."""

    duplicates: int = 0
    unordered: int = 0
    back: list[int] = field(default_factory=list)  # ns since 1970, where a clock jumps back by an hour
    forward: list[int] = field(default_factory=list)


def left_out(cutter: Cutter, collector: Collector) -> list[str]:
    """Say which lines, rows and cells were left out."""
    said = []
    if cutter.left_out:
        example = cutter.samples[0][:SHOWN].decode("utf-8", "replace")
        said.append(f"{cutter.left_out:,} lines do not have the columns of the header; left out: {example!r}.")
    if collector.untimed:
        said.append(f"{collector.untimed:,} rows have no time that can be read; left out.")
    if collector.crowded:
        said.append(f"{collector.crowded:,} rows are of more than {len(collector.groups):,} GPUs; left out.")
    wrong = {index: count for index, count in collector.wrong.items() if count}
    for index, count in list(wrong.items())[:NAMED]:
        name = collector.layout.values[index].name
        said.append(f"{count:,} cells of {name} are no numbers, or of another unit; taken as not measured.")
    return said


def units(collector: Collector) -> list[str]:
    """Say which columns mix units."""
    said = []
    for index, counts in collector.units.items():
        if len(counts) > 1:
            listed = ", ".join(
                f"{count:,} in {unit.decode('utf-8', 'replace') or 'no unit'}" for unit, count in counts.most_common(4)
            )
            said.append(f"{collector.layout.values[index].name} is written in several units: {listed}.")
    return said


@np.errstate(over="ignore")  # of -1e308 MiB; `impossible` comes next
def shares(series: list[Series], collector: Collector) -> list[str]:
    """Bring shares that were written 0-1 to percent, and memory without a unit to bytes; say which."""
    said = []
    for index, meaning in collector.layout.values.items():
        own = [one for one in series if one.name == meaning.name and (meaning.device in (None, one.device))]
        bare = collector.units.get(index, Counter()).keys() <= {b""}
        if not own or not bare:
            continue
        largest = max((float(np.nanmax(one.value)) for one in own if np.isfinite(one.value).any()), default=np.nan)
        if meaning.name.endswith("_percent") and meaning.share is not False and largest <= 1:
            fractions = any(((one.value > 0) & (one.value < 1)).any() for one in own)
            if meaning.share or fractions:
                for one in own:
                    one.value[:] *= 100
            if not meaning.share and (fractions or largest > 0):
                taken = "as a share of 1" if fractions else "as percent"
                said.append(f"{meaning.name} is never above 1: taken {taken}.")
        elif (
            meaning.name.startswith("memory_")
            and meaning.name.endswith("_bytes")
            and meaning.factor == 1
            and 0 < largest < MOST_MIB
        ):
            for one in own:
                one.value[:] *= 2.0**20
            said.append(f"{meaning.name} has no unit and is at most {largest:,.0f}: taken as MiB.")
    return list(dict.fromkeys(said))


def impossible(series: list[Series]) -> list[str]:
    """Take values that a counter cannot have as not measured; say of which."""
    wrong: Counter[str] = Counter()
    for number, one in enumerate(series):
        value, count = possible(one.name, one.value)
        if value is not one.value:
            series[number] = replace(one, value=value)
            wrong[one.name] += count
    return [
        f"{count:,} values of {name} are not possible; taken as not measured." for name, count in wrong.items() if count
    ]


def times(collector: Collector, odd: Odd) -> list[str]:
    """Say what was odd in times, and what was done about it."""
    said = []
    if collector.clock == "assumed":
        said.append("The rows have no time that can be read: one sample per second is assumed, as nvidia-smi takes.")
    if odd.back:
        said.append(
            f"The clock jumps back 1 h after {_moment(odd.back[0])}, as at the end of daylight saving time: "
            "later rows are taken as an hour later than written."
        )
    if odd.forward:
        said.append(f"The clock jumps forward 1 h at {_moment(odd.forward[0])}: a gap, or daylight saving time.")
    if odd.unordered:
        said.append(f"{odd.unordered:,} rows are older than the row before; put in order of time.")
    if odd.duplicates:
        said.append(f"{odd.duplicates:,} rows repeat the time of another of their GPU; left out.")
    return said


def _moment(ns: int) -> str:
    return str(np.datetime64(ns // SECOND, "s")).replace("T", " ")
