"""Values gathered one by one from texts become the series of a curve: in order, once per moment, in their range."""

from __future__ import annotations

import calendar
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Final

import numpy as np

from whyidle.model.evidence import Clock, Curve, Fact, Floats64, Ints, Series
from whyidle.read.base import Progress, UnreadableError
from whyidle.read.blocks import Blocks
from whyidle.read.daylight import HOUR, MOST_JUMPS, hour_back, usual_step

MOST_BYTES: Final = 64 << 20  # of a text, unpacked
MOST_SERIES: Final = 1 << 16  # in a file; 8 GPUs x 20 counters are 160
SECOND: Final = 10**9  # ns
LARGEST: Final = 1e18  # a counter beyond that is damage
SLACK: Final = 1.05  # DCGM's ratios of two counters go a little over 1; then they are 1
SETTINGS: Final = {  # series that are one number all the time, and the fact that they are
    "memory_total_bytes": "memory_bytes",
    "power_limit_w": "power_limit_w",
    "sm_clock_max_mhz": "sm_clock_max_mhz",
}
ANOTHER: Final = 0.1  # of a counter's values beyond its range: it is another counter
DAMAGE: Final = 1e6  # beyond it a value is no other counter's, but damage, or a code for "not measured"
SIGNED: Final = frozenset({"loss"})  # may be negative
HIGHEST: Final = {"_percent": 100.0, "_share": 1.0}  # by what a series' name ends in

# DCGM and NVML write these where they have no value: dcgm_structs.h, DCGM_*_BLANK and the 15 codes above each.
BLANKS: Final = tuple((float(blank), float(blank + 15)) for blank in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 1 << 47))

EPOCH: Final = date(1970, 1, 1).toordinal()
MONTHS: Final = {name: number for number, name in enumerate(calendar.month_abbr) if name}
NUMBER: Final = re.compile(r"[+-]?(?:\d[\d,]{0,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,3})?")
CTIME: Final = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)(?: [A-Z]{3,5})? (\d{4})\b"
)
ISO: Final = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T _]?\s?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(Z\b|[+-]\d\d:?\d\d\b)?"
)
DATE_IN_NAME: Final = re.compile(
    r"(?<!\d)(20\d\d)[-_.]?(\d\d)[-_.]?(\d\d)[-_ T]?(\d\d)[-_:.]?(\d\d)[-_:.]?(\d\d)(?!\d)"
)
EPOCH_IN_NAME: Final = re.compile(r"(?<!\d)(1\d{9})(\d{3})?(?!\d)")


@dataclass(frozen=True, slots=True)
class Subject:
    """Of what a value is: as Series has it."""

    node: str = ""
    device: int | None = None
    instance: str = ""

    @property
    def name(self) -> str:
        """Return it as measurements and facts call it."""
        return Series("", self.node, np.empty(0, np.int64), np.empty(0), self.device, instance=self.instance).subject


@dataclass(slots=True)
class Samples:
    """Gathers values; `curve` makes series of them."""

    clock: Clock = "wall"
    facts: dict[tuple[str, str], Fact] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    _values: dict[tuple[str, Subject], tuple[array[int], array[float]]] = field(default_factory=dict)

    def add(self, subject: Subject, name: str, time: int, value: float) -> None:
        """Note the value of a counter at a time, in ns; NaN where it was not measured."""
        column = self._values.get((name, subject))
        if column is None:
            if len(self._values) >= MOST_SERIES:
                return
            column = self._values.setdefault((name, subject), (array("q"), array("d")))
        column[0].append(time)
        column[1].append(value)

    def moments(self, times: Sequence[int | None], apart_s: int, what: str, path: Path) -> list[int]:
        """Return when looks at all counters were taken, in ns, and set the clock by what they tell of it.

        Args:
            times: of each look, ns since 1970; None where it tells none: then all are taken as `apart_s` apart.
            apart_s: what is usual, in s.
            what: a look is called.
            path: of the file.
        """
        told = [time for time in times if time is not None]
        if len(told) == len(times):
            return steady(told, path, self.warnings)
        self.clock = "assumed" if len(times) > 1 else "relative"
        if len(times) > 1:
            self.warnings.append(f"{path}: not every {what} tells its time: taken as {apart_s} s apart.")
        return [place * apart_s * SECOND for place in range(len(times))]

    def shift(self, by: int) -> None:
        """Move every sample by a time, in ns."""
        for times, _ in self._values.values():
            times[:] = array("q", (time + by for time in times))

    def tell(self, subject: Subject, name: str, value: bool | int | float | str, where: str) -> None:
        """Note a setting of a subject; the first that is told stays."""
        self.facts.setdefault((name, subject.name), Fact(name, value, where, subject.name))

    def has(self, subject: Subject, name: str) -> bool:
        """Say whether there is any value of a counter of a subject."""
        return (name, subject) in self._values

    def values(self, subject: Subject, name: str) -> dict[int, float]:
        """Return what is known of a counter of a subject, by time; nothing where there is nothing."""
        return dict(zip(*self._values.get((name, subject), ((), ())), strict=True))

    def take(self, subject: Subject, name: str) -> dict[int, float]:
        """Return the same, and forget it."""
        values = self.values(subject, name)
        self._values.pop((name, subject), None)
        return values

    def subjects(self) -> list[Subject]:
        """Return of what there are values, in the order in which they came."""
        return list(dict.fromkeys(subject for _, subject in self._values))

    def curve(self, path: Path, kind: str, *, step_log: bool = False) -> Curve:
        """Return what was gathered. UnreadableError where no value of it was measured."""
        wrong: Counter[str] = Counter()
        series = tuple(self._series(wrong))
        if not any(np.isfinite(one.value).any() for one in series):
            raise UnreadableError(path, f"{kind}, and no counter in it was measured.", damaged=True)
        for name, count in sorted(wrong.items()):
            self.warnings.append(f"{path}: {count:,} values of {name} are not possible (taken as unknown).")
        for one in series:
            self._settled(one, kind)
        facts = tuple(self.facts.values())
        return Curve(str(path), kind, series, self.clock, facts, step_log, tuple(self.warnings))

    def _settled(self, series: Series, where: str) -> None:
        """Note as a setting what does not change: how much memory a GPU has, its limits."""
        known = series.value[np.isfinite(series.value)]
        if series.name in SETTINGS and len(known):
            name, last = SETTINGS[series.name], float(known[-1])
            subject = Subject(series.node, series.device, series.instance)
            self.tell(subject, name, int(last) if name.endswith("_bytes") else last, where)

    def _series(self, wrong: Counter[str]) -> Iterator[Series]:
        for (name, subject), (times, values) in self._values.items():
            time, value = in_order(np.asarray(times, np.int64), np.asarray(values, np.float64))
            value, impossible = possible(name, value)
            if impossible:
                wrong[name] += impossible
            yield Series(name, subject.node, time, value, subject.device, instance=subject.instance)


def warn_of_split(devices: Iterable[int | None], samples: Samples, path: Path) -> None:
    """Say of GPUs that are split that their utilization is unknown: nvidia-smi shows none for them."""
    for device in devices:
        samples.warnings.append(f"{path}: GPU {device} is split (MIG): nvidia-smi shows no utilization: unknown.")


def in_order(time: Ints, value: Floats64) -> tuple[Ints, Floats64]:
    """Return both in order of time; of values of the same moment the last that was written."""
    if np.all(np.diff(time) > 0):
        return time, value
    order = np.argsort(time, kind="stable")
    time, value = time[order], value[order]
    last = np.append(np.diff(time) > 0, True)
    return time[last], value[last]


def possible(name: str, value: Floats64) -> tuple[Floats64, int]:
    """Return the values with NaN for what is outside of its range, and how many that were.

    Where a part of them says that this is another quantity, watts or a sum over GPUs, none is believed.
    """
    highest = next((most for ending, most in HIGHEST.items() if name.endswith(ending)), LARGEST)
    if (
        name in SIGNED or not len(value) or (np.fmin.reduce(value) >= 0 and np.fmax.reduce(value) <= highest)
    ):  # most are
        return value, 0
    with np.errstate(invalid="ignore"):
        above = value > highest * (SLACK if highest < LARGEST else 1)
        outside = (value < 0) | above
        other = np.count_nonzero(above & (value < DAMAGE)) > ANOTHER * np.count_nonzero(np.isfinite(value))
    outside |= other & np.isfinite(value)
    return np.where(outside, np.nan, np.minimum(value, highest)), int(np.count_nonzero(outside))


def number(text: str) -> float:
    """Return the number that a text starts with, its unit left off; NaN for anything else, and for blanks of DCGM."""
    try:
        value = float(text)
    except ValueError:
        value = _with_unit(text.strip())
    if not abs(value) <= 2.0**64 or any(low <= value <= high for low, high in BLANKS):
        return math.nan
    return value


def _with_unit(text: str) -> float:
    if text[:2].lower() == "0x":
        return _hexadecimal(text)
    told = NUMBER.match(text)
    return math.nan if told is None else float(told.group().replace(",", ""))


def _hexadecimal(text: str) -> float:
    try:
        return float(int(text.split(maxsplit=1)[0][:18], 16))
    except ValueError:
        return math.nan


def moment(text: str) -> int | None:
    """Return the first date with a time in a text as ns since 1970; None if it has none. No zone is taken as UTC."""
    if told := ISO.search(text):
        year, month, day, hour, minute, second = (int(part) for part in told.groups()[:6])
        fraction, zone = told.group(7) or "", told.group(8) or "Z"
    elif told := CTIME.search(text):
        month = MONTHS.get(told.group(1), 0)
        day, hour, minute, second, year = (int(part) for part in told.groups()[1:])
        fraction, zone = "", "Z"
    else:
        return None
    try:
        days = date(year, month, day).toordinal() - EPOCH
    except ValueError:  # 30 February
        return None
    if hour > 24 or minute > 59 or second > 60:
        return None
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    if zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        seconds -= sign * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
    nanoseconds = seconds * SECOND + int(fraction.ljust(9, "0") or 0)
    return nanoseconds if 0 <= nanoseconds < 1 << 62 else None


def moment_in_name(path: Path) -> int | None:
    """Return the time that a file's name tells, as ns since 1970: 1767607200, 20260105T100000, 2026-01-05_10-00-00."""
    if told := DATE_IN_NAME.search(path.name):
        return moment("{}-{}-{} {}:{}:{}".format(*told.groups()))
    if told := EPOCH_IN_NAME.search(path.name):
        return int(told.group(1)) * SECOND + int(told.group(2) or 0) * 1_000_000
    return None


def text_of(path: Path, warnings: list[str], progress: Progress | None = None) -> str:
    """Return the text of a file, its first 64 MiB, unpacked if it is a gzip; what was wrong with it is a warning."""
    blocks, parts, size = Blocks(path, progress), [], 0
    for block in blocks:
        parts.append(block[: MOST_BYTES - size])
        size += len(block)
        if size >= MOST_BYTES:
            warnings.append(f"{path}: its first {MOST_BYTES >> 20} MiB are read.")
            break
    if blocks.damage:
        warnings.append(f"{path}: {blocks.damage}; what comes before is read.")
    return b"".join(parts).decode("utf-8-sig", "replace").replace("\0", "")


def steady(times: Sequence[int], path: Path, warnings: list[str]) -> list[int]:
    """Return local times such that they never go back, said in a warning.

    An hour back is the end of daylight saving; another step is a clock that was set, and what comes after follows on.
    Where it goes back again and again nobody set a clock: lines of several processes are a little out of order.
    """
    time = np.asarray(times, np.int64)
    step = np.diff(time)
    falls = np.flatnonzero(step < 0)
    if not len(falls):
        return list(times)
    if len(falls) <= MOST_JUMPS:
        usual = usual_step(step)
        for fall in falls.tolist():
            time[fall + 1 :] += HOUR if hour_back(step[fall], usual) else round(usual) - step[fall]
    often = "once" if len(falls) == 1 else f"{len(falls):,} times"
    warnings.append(f"{path}: its clock goes back {often} (daylight saving, or it was set).")
    told: list[int] = np.maximum.accumulate(time).tolist()
    return told
