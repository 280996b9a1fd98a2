"""Writes what Prometheus answered as its text format: a sample a line, with its labels and its time in ms."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, TextIO

import msgspec

from whyidle.errors import WhyIdleError
from whyidle.fetch.moments import duration

LARGEST_FILE: Final = 60 << 20  # bytes; of a text, the reader takes 64 MiB
FURTHEST: Final = 1e11  # s since 1970
STEPS: Final = (15, 30, 60, 300, 900, 3600, 21600)  # s, that people choose
# What tells one GPU from another, and its name. All that an exporter adds would make the file four times as large.
KEPT: Final = frozenset(
    {"gpu", "UUID", "uuid", "index", "modelName", "name", "GPU_I_ID", "GPU_I_PROFILE", "Hostname", "hostname", "node"}
)
_NUMBER: Final = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|Inf)|NaN")


class Samples(msgspec.Struct):
    """A series in an answer: labels, and (seconds since 1970, value)."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []  # msgspec gives every struct its own


@dataclass(slots=True)
class Output:
    """The file that is written: Prometheus' text format, each sample with its time in ms."""

    file: TextIO
    span: float  # s that are asked for
    metrics: int  # that will come
    size: int = 0
    lines: int = 0
    _last: dict[tuple[str, ...], int] = field(default_factory=dict)  # ms, of every series: windows share their borders

    def write(self, name: str, found: list[Samples]) -> None:
        """Add what came of a metric.

        Raises:
            WhyIdleError: it is more than a file may hold.
        """
        keys = [(name, *(f"{label}={value}" for label, value in sorted(series.metric.items()))) for series in found]
        self._last |= {key: -1 for key in keys if key not in self._last}
        for key, series in zip(keys, found, strict=True):
            head, last = f"{name}{{{_labels(series.metric)}}}", self._last[key]
            lines = []
            for when, value in series.values:
                at = round(when * 1000) if abs(when) < FURTHEST else -1
                if at > last and _NUMBER.fullmatch(value):
                    lines.append(f"{head} {value} {at}\n")
                    last = at
            self._last[key] = last
            text = "".join(lines)
            self.size += len(text)
            self.lines += len(lines)
            if self.size > LARGEST_FILE:
                raise self._too_much()
            self.file.write(text)

    def _too_much(self) -> WhyIdleError:
        """Say what step would fit."""
        affordable = LARGEST_FILE / (self.size / self.lines)
        series = len(self._last) / len({name for name, *_ in self._last}) * self.metrics
        exact = self.span * series / affordable
        step = next((step for step in STEPS if step > exact), STEPS[-1])
        what = f"more than {LARGEST_FILE >> 20} MiB of samples, of about {series:,.0f} series"
        return WhyIdleError(what, f"step={duration(step)} takes means; match= or a later start narrow it")


def _labels(metric: dict[str, str]) -> str:
    """Return the labels that are kept. The host is whom Prometheus scraped only where the exporter names none."""
    kept = {label: value for label, value in sorted(metric.items()) if label in KEPT}
    if not kept.keys() & {"Hostname", "hostname", "node"} and "instance" in metric:
        kept["instance"] = metric["instance"]
    return ",".join(f'{label}="{_escaped(value)}"' for label, value in kept.items())


def _escaped(value: str) -> str:
    """Return a label's value as it is quoted; whatever may end a line (there are ten such characters) is a blank."""
    return " ".join(value.splitlines()).replace("\\", "\\\\").replace('"', '\\"')
