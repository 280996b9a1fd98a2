"""Times as people write them, as int64 nanoseconds: ISO 8601, nvidia-smi's, seconds since 1970 or since a start.

The commonest way of writing in a block is found at its first cell and read as columns of digits; what is written
otherwise is read one by one. A time without zone is taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Clock, Ints
from whyidle.read.number import NO_TIME
from whyidle.read.table.cells import Cells, is_missing

SECOND: Final = 1_000_000_000  # ns
MICROSECOND: Final = 1000
DAY: Final = 86_400 * SECOND
YEARS: Final = range(1980, 2200)  # int64 nanoseconds end in 2262
ZERO: Final = ord("0")
LONGEST: Final = 48  # bytes of a time
LAYOUTS: Final = 12  # ways of writing in one block: fractions of 0 to 9 digits, and two more

DATE_TIME: Final = re.compile(
    rb"(?P<Y>\d{4})[-/.](?P<M>\d\d)[-/.](?P<D>\d\d)[T ]{1,2}"
    rb"(?P<h>\d\d):(?P<m>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?)?"
    rb"\s?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?"
)
DATE: Final = re.compile(rb"(?P<Y>\d{4})[-/.]?(?P<M>\d\d)[-/.]?(?P<D>\d\d)")
TIME_OF_DAY: Final = re.compile(rb"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?")
OTHERS: Final = (  # with strptime: slow, for what spreadsheets and date(1) write
    "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y %I:%M:%S %p", "%d-%b-%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S",
    "%a %b %d %H:%M:%S %Y", "%Y-%m-%d %I:%M:%S %p", "%b %d, %Y @ %H:%M:%S.%f",
)  # fmt: skip

# A number this large is not seconds since a start but a date, in a unit that its size tells: 1990 is 631152000.
EPOCH: Final = ((6e17, 1.0), (6e14, 1e3), (6e11, 1e6), (6e8, 1e9))  # from, ns


@dataclass(frozen=True, slots=True)
class Times:
    """A column of times."""

    ns: Ints  # NO_TIME where the cell holds none
    clock: Clock
    zone: bool = False  # the zone is told

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Return which rows have a time."""
        return np.not_equal(self.ns, NO_TIME)


def dates_and_times(cells: Cells) -> Times:
    """Return times that are written with a date."""
    return _by_layout(cells, DATE_TIME, _slow)


def dates(cells: Cells) -> Times:
    """Return the start of days, as nvidia-smi dmon writes them: 20260102."""
    return _by_layout(cells, DATE, lambda _: NO_TIME)


def times_of_day(cells: Cells) -> Times:
    """Return the time since midnight, of cells that do not tell the day."""
    read = _by_layout(cells, TIME_OF_DAY, lambda _: NO_TIME)
    return Times(read.ns, "relative")


def numbers_of_time(cells: Cells, unit: float = 0.0) -> Times:
    """Return times that are written as numbers: of seconds since 1970 or since a start, or of `unit` ns if given."""
    value = cells.numbers().value
    known = np.abs(value[np.isfinite(value)])
    typical = float(np.median(known)) if len(known) else 0.0
    # where the header tells the unit the number is a date if it is one in that unit: a week of ms is no date in s
    units = [(least, size) for least, size in EPOCH if not unit or size == unit]
    epoch = next((size for least, size in units if typical >= least), 0.0)
    size = epoch or unit or float(SECOND)
    exact = np.isfinite(value) & (np.abs(value) < 2.0**62 / size)
    value = np.where(exact, value, 0.0)
    whole = np.floor(value)
    ns = whole.astype(np.int64) * int(size) + np.rint((value - whole) * size).astype(np.int64)
    if epoch:  # a float64 of a date holds a quarter of a microsecond
        ns = (ns + MICROSECOND // 2) // MICROSECOND * MICROSECOND
    return Times(np.where(exact, ns, NO_TIME), "wall" if epoch else "relative")


def way_of(text: bytes) -> str:
    """Return how a time is written: "date", "day", "clock", "number", or "" if it is no time."""
    if DATE_TIME.fullmatch(text) or _slow(text) != NO_TIME:
        return "date"
    if TIME_OF_DAY.fullmatch(text):
        return "clock"
    return "number" if re.fullmatch(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:\s?m?s)?", text) else ""


def _by_layout(cells: Cells, pattern: re.Pattern[bytes], otherwise: Callable[[bytes], int]) -> Times:
    """Read cells that are all written as the first; the others one by one."""
    new = ~cells.same_as_before()
    heads = np.flatnonzero(new)  # of several GPUs' rows at one time only the first is read
    distinct = cells.at(heads)
    found = np.full(len(heads), NO_TIME, np.int64)
    todo = np.arange(len(heads))
    zone = False
    for _ in range(LAYOUTS):  # some leave out a fraction of zero, or zeros at its end
        first = next((row for row in todo[:64].tolist() if pattern.fullmatch(distinct.text_at(row))), None)
        if first is None:
            break
        match = pattern.fullmatch(distinct.text_at(first))
        assert match is not None
        zone = zone or bool(match.groupdict().get("zone"))
        found[todo] = _fast(distinct.at(todo), match)
        todo = todo[found[todo] == NO_TIME]
    for row in todo.tolist():
        found[row] = otherwise(distinct.text_at(row)[: LONGEST + 1])
    return Times(found[np.cumsum(new) - 1] if len(heads) < len(cells) else found, "wall", zone)


def _fast(cells: Cells, match: re.Match[bytes]) -> Ints:
    """Return the times of cells that are written as the matched one is; NO_TIME where another."""
    template = np.frombuffer(match[0], np.uint8)
    width = len(template)
    chars = np.zeros((width, len(cells)), np.uint8)
    fits = cells.end - cells.start == width
    for place in range(width):
        chars[place] = cells.text.data[cells.start + place]
    zone = match.span("zone") if "zone" in match.re.groupindex else (-1, -1)
    for place in range(width):
        if chr(template[place]).isdigit() and not zone[0] <= place < zone[1]:
            chars[place] -= ZERO
            fits &= chars[place] < 10
        else:
            fits &= chars[place] == template[place]

    def part(name: str) -> Ints:
        start, end = match.span(name) if name in match.re.groupindex else (-1, -1)
        value = np.zeros(len(cells), np.int64)
        for place in range(max(start, 0), end):
            value = value * 10 + chars[place]
        return value

    hour, minute, second = part("h"), part("m"), part("s")
    fits &= (hour < 24) & (minute < 60) & (second <= 60)  # a leap second
    start, end = match.span("f") if "f" in match.re.groupindex else (-1, -1)
    ns = ((hour * 60 + minute) * 60 + second) * SECOND + part("f") * 10 ** (9 - (end - start if start >= 0 else 9))
    if "Y" in match.re.groupindex:
        year, month, day = part("Y"), part("M"), part("D")
        fits &= (year >= YEARS.start) & (year < YEARS.stop) & (month >= 1) & (month <= 12) & (day >= 1)
        months = (np.where(fits, year - 1970, 0) * 12 + np.where(fits, month - 1, 0)).astype("M8[M]")
        days = months.astype("M8[D]").astype(np.int64) + day - 1
        fits &= days < (months + 1).astype("M8[D]").astype(np.int64)
        ns = ns + days * DAY - _offset(match)
    return np.where(fits, ns, NO_TIME)


def _offset(match: re.Match[bytes]) -> int:
    """Return how far the zone of a time is east of Greenwich, in ns."""
    zone = (match["zone"] or b"") if "zone" in match.re.groupindex else b""
    if not zone or zone[:1] not in b"+-":
        return 0
    digits = zone[1:].replace(b":", b"")
    return (int(digits[:2]) * 60 + int(digits[2:])) * 60 * SECOND * (-1 if zone[:1] == b"-" else 1)


def _slow(text: bytes) -> int:
    """Return a time that is written in none of the common ways; NO_TIME if it is none."""
    if is_missing(text) or len(text) > LONGEST or not re.search(rb"\d:\d", text):
        return NO_TIME
    for layout in OTHERS:
        try:
            when = datetime.strptime(text.decode("ascii", "replace"), layout).replace(tzinfo=UTC)
        except ValueError:
            continue
        if when.year in YEARS:
            return int(when.timestamp()) * SECOND + when.microsecond * 1000
    return NO_TIME
