"""Rows of a table, sorted by what they are of: each GPU, host or process gets its own series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Clock, Floats64, Ints
from whyidle.read.number import NO_TIME
from whyidle.read.table import times
from whyidle.read.table.cells import Cells, Words, mixed
from whyidle.read.table.names import Meaning
from whyidle.read.table.rows import Rows

MOST_GROUPS: Final = 1 << 16  # GPUs and processes of one file
LONGEST_KEY: Final = 200  # bytes of a host's name or a UUID that are kept
ASSUMED: Final = times.SECOND  # between samples that have no time: nvidia-smi's usual interval
NO_UNIT: Final = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of a table are read, and as what."""

    values: Mapping[int, Meaning]
    time: int | None = None
    day: int | None = None  # where the date stands in a column of its own
    way: str = ""  # how times are written: times.way_of
    time_unit: float = 0.0  # ns, of times that are numbers; 0: not told
    keys: Mapping[str, int] = field(default_factory=dict)  # host, device, uuid, instance, pid -> column
    model: int | None = None  # name of the GPU


@dataclass(slots=True)
class Group:
    """Rows of one subject, in the order of the file."""

    keys: dict[str, str]
    model: str = ""
    times: list[Ints] = field(default_factory=list)
    values: dict[int, list[Floats64]] = field(default_factory=dict)
    rows: int = 0


@dataclass(slots=True)
class Collector:
    """Takes rows block by block and keeps their numbers only."""

    layout: Layout
    clock: Clock = "wall"
    zone: bool = False
    groups: list[Group] = field(default_factory=list)
    units: dict[int, Counter[bytes]] = field(default_factory=dict)  # by column: rows in each unit
    wrong: Counter[int] = field(default_factory=Counter)  # by column: cells that are no numbers
    untimed: int = 0  # rows whose time cannot be read
    crowded: int = 0  # rows beyond MOST_GROUPS subjects
    _known: Words = field(default_factory=lambda: np.zeros(0, np.uint64))  # keys in order
    _codes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # their groups
    _samples: int = 0
    _seen: set[int] = field(default_factory=set)

    def add(self, rows: Rows) -> None:
        """Take the rows of a block."""
        if not len(rows):
            return
        codes = self._group(rows)
        when = self._when(rows, codes)
        usable = (when != NO_TIME) & (codes >= 0)
        self.untimed += int(np.count_nonzero((when == NO_TIME) & (codes >= 0)))
        columns = {index: self._values(index, rows.column(index)) for index in self.layout.values}
        order = np.argsort(codes.astype(np.int32 if len(self.groups) > 1 << 15 else np.int16), kind="stable")
        order = order if usable.all() else order[usable[order]]
        bounds = np.cumsum(np.bincount(codes[order], minlength=len(self.groups)))
        alike = len(self.groups) == 1 and len(order) == len(rows)
        when = when if alike else when[order]
        columns = columns if alike else {index: value[order] for index, value in columns.items()}
        before = None
        for number, (start, end) in enumerate(zip([0, *bounds[:-1].tolist()], bounds.tolist(), strict=True)):
            if start == end:
                continue
            group = self.groups[number]
            piece = when[start:end]
            # GPUs that are sampled together share their times
            before = before if before is not None and np.array_equal(before, piece) else piece.copy()
            group.times.append(before)
            group.rows += end - start
            for index, value in columns.items():
                group.values.setdefault(index, []).append(value[start:end].copy())

    def _group(self, rows: Rows) -> Ints:
        """Return the number of each row's group; -1 where there are too many."""
        if not self.layout.keys:
            if not self.groups:
                self.groups += self._named(rows.some(np.zeros(1, np.int64)))
            return np.zeros(len(rows), np.int64)
        key: Words | None = None
        for index in self.layout.keys.values():
            column = rows.column(index).keys()
            key = column if key is None else mixed(key, column)
        assert key is not None
        place, known = self._look_up(key)
        if not known.all():
            fresh = np.flatnonzero(~known)
            _, first = np.unique(key[fresh], return_index=True)
            first = np.sort(fresh[first])[: MOST_GROUPS - len(self.groups)]
            self._known = np.append(self._known, key[first])
            self._codes = np.append(self._codes, len(self.groups) + np.arange(len(first)))
            self.groups += self._named(rows.some(first))
            order = np.argsort(self._known, kind="stable")
            self._known, self._codes = self._known[order], self._codes[order]
            place, known = self._look_up(key)
            self.crowded += int(np.count_nonzero(~known))
        return np.where(known, self._codes[place], -1)

    def _look_up(self, key: Words) -> tuple[Ints, NDArray[np.bool_]]:
        if not len(self._known):
            return np.zeros(len(key), np.int64), np.zeros(len(key), np.bool_)
        place = np.minimum(np.searchsorted(self._known, key), len(self._known) - 1)
        return place, self._known[place] == key

    def _named(self, rows: Rows) -> list[Group]:
        """Return a new group for each of these rows."""
        columns = {name: rows.column(index) for name, index in self.layout.keys.items()}
        models = None if self.layout.model is None else rows.column(self.layout.model)
        return [
            Group(
                {name: _text(cells, row) for name, cells in columns.items()},
                "" if models is None else _text(models, row),
            )
            for row in range(len(rows))
        ]

    def _when(self, rows: Rows, codes: Ints) -> Ints:
        """Return the time of each row."""
        layout = self.layout
        if layout.time is None:
            self.clock = "assumed"
            return self._counted(codes) * ASSUMED
        cells = rows.column(layout.time)
        if layout.way == "clock":
            read = times.times_of_day(cells)
            if layout.day is not None:
                days = times.dates(rows.column(layout.day))
                usable = read.usable & days.usable
                read = times.Times(np.where(usable, days.ns + np.where(usable, read.ns, 0), NO_TIME), "wall")
        elif layout.way == "number":
            read = times.numbers_of_time(cells, layout.time_unit)
        else:
            read = times.dates_and_times(cells)
        if read.usable.any():
            self.clock = read.clock
        self.zone = self.zone or read.zone
        return read.ns

    def _counted(self, codes: Ints) -> Ints:
        """Number the samples of rows without time: a sample ends where a subject comes again."""
        if "pid" not in self.layout.keys:
            order = np.argsort(codes, kind="stable")
            counts = np.bincount(codes[order] + 1, minlength=len(self.groups) + 1)
            within = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
            number = np.array([0, *(group.rows for group in self.groups)], np.int64)[codes + 1]
            number[order] += within
            return number
        numbers = np.empty(len(codes), np.int64)
        for row, code in enumerate(codes.tolist()):  # processes come and go, so that rows have to be followed
            if code in self._seen:
                self._samples += 1
                self._seen.clear()
            self._seen.add(code)
            numbers[row] = self._samples
        return numbers

    def _values(self, index: int, cells: Cells) -> Floats64:
        """Return the values of a column in the unit of its series."""
        meaning = self.layout.values[index]
        numbers = cells.numbers()
        value = numbers.value
        self.wrong[index] += numbers.wrong
        counts = self.units.setdefault(index, Counter())
        known = np.isfinite(value)
        if not known.any():
            return value
        if (numbers.unit == numbers.unit[0]).all():
            units, which, many = numbers.unit[:1], None, np.array([np.count_nonzero(known)])
        else:
            units, which = np.unique(numbers.unit, return_inverse=True)
            many = np.bincount(which[known], minlength=len(units))
        texts = [int(unit).to_bytes(8, "little").rstrip(b"\0") for unit in units.tolist()]
        factors = [meaning.scale(text) for text in texts]
        for text, factor, count in zip(texts, factors, many.tolist(), strict=True):
            if factor is None:
                self.wrong[index] += count
            elif count:
                counts[text] += count
        scale = np.array([np.nan if factor is None else factor for factor in factors])
        if which is None and scale[0] == 1:
            return value
        mixed_units = which is not None and len(counts) > 1
        if mixed_units and meaning.name.endswith("_percent"):  # beside 45 % a bare 0.45 may be a share: not known
            value[(numbers.unit == NO_UNIT) & (value <= 1) & known] = np.nan
        with np.errstate(over="ignore"):  # 1e308 MiB: no counter can be that (samples.possible)
            scaled: Floats64 = value * (scale[0] if which is None else scale[which])
        return scaled


def _text(cells: Cells, row: int) -> str:
    return cells.text_at(row)[:LONGEST_KEY].decode("utf-8", "replace")
