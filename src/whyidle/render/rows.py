"""The tables behind the numbers as rows of plain text, which a terminal and a page draw each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from whyidle.model.detail import Bucket, Copies, CurvePicture, Detail, Roofline, TopItem
from whyidle.model.finding import Report, Summary
from whyidle.render.sparks import curve_gpu
from whyidle.render.words import clean, decimal, duration, kernel_name, percent, size

# Columns of the table of curves, of the series' names in docs/curves.md: as many as a line of 80 has room for.
MEANS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "sm_active_share": ("SM", percent),
    "tensor_active_share": ("tensor", percent),
    "memory_utilization_percent": ("mem", lambda value: percent(value / 100)),
    "memory_used_bytes": ("held", size),
    "power_w": ("W", lambda value: f"{value:.0f}"),
    "sm_clock_mhz": ("MHz", lambda value: f"{value:.0f}"),
    "temperature_c": ("°C", lambda value: f"{value:.0f}"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table."""

    cells: tuple[str, ...]
    share: float | None = None  # 0-1: how long a bar beside it is; None: it has none
    full: str = ""  # the whole of the first cell, where that is a name made short


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under one head; the first column is what they are about."""

    title: str  # "kernels by GPU time"
    columns: tuple[str, ...]  # titles of all but the first
    rows: tuple[Row, ...]
    of: str  # what a row is about, where the title stands elsewhere: "kernel"
    bar: int = -1  # the cell that a row's share is of
    of_whole: bool = False  # whether a full bar is 100%; else it is the largest share
    heading: str = ""  # the title, where rows do not end its sentence: "kernels by length"

    def length(self, row: Row) -> float:
        """Return how long the bar of a row is, 0-1."""
        whole = 1.0 if self.of_whole else max((other.share or 0.0 for other in self.rows), default=0.0)
        return min(max((row.share or 0.0) / whole, 0.0), 1.0) if whole > 0 else 0.0


def tables(detail: Detail) -> Iterator[Table]:
    """Yield the tables that there is something for, the ones that say most first."""
    made = (
        _curves(detail.curves),
        _top("kernels by GPU time", "of GPU time", "kernel", detail.kernels, kernel_name),
        _top("operators by their own time", "of operators", "operator", detail.operators, clean),
        Table(
            "operators of known sizes",
            ("calls", "GPU time", "FLOP", "bytes", "of limit", "limit"),
            tuple(map(_roofline, detail.rooflines)),
            "operator",
            bar=5,
            of_whole=True,
        ),
        Table(
            "copies",
            ("count", "bytes", "time", "rate", "of window"),
            tuple(map(_copies, detail.copies)),
            "kind",
            of_whole=True,
        ),
        Table(
            "kernels that take",
            ("count", "time"),
            tuple(_buckets(detail.kernel_sizes)),
            "length",
            heading="kernels by length",
        ),
    )
    yield from (table for table in made if table.rows)


def facts(report: Report) -> dict[str, str]:
    """Return numbers of the summary that no line of the verdict has, by what they are called."""
    summary, by_curve = report.summary, report.run.only_curves
    told = {
        "steps from": summary.steps_from and clean(summary.steps_from),
        "window": summary.window_s and duration(summary.window_s),
        "watched": summary.watched_s and f"{duration(summary.watched_s)} by whyidle run",
        "start": summary.startup_s and f"{duration(summary.startup_s)} from the command to the end of the first step",
        "curve": summary.curve_s and _sampled(summary),
        "NVML": _share(
            None if by_curve else summary.utilization_mean_share, "of the time some kernel ran, by its samples"
        ),
        "mean step": summary.step_time_mean_s and duration(summary.step_time_mean_s),
        "in the loader": _share(
            summary.data_wait_share, f"of the {'step' if by_curve else 'window'}, the GPU busy or not"
        ),
        "times": "count from the start of the recording" + ("" if by_curve else ", as a trace viewer shows them"),
        "peers": _share(summary.collective_wait_share, "of the window collectives wait for a peer"),
        "tensor cores": _share(summary.tensor_core_share, "of the time in matrix products and convolutions"),
        "MFU": _share(summary.mfu, f"of {clean(summary.mfu_peak)}, by the sizes of operators"),
        "launches": summary.launches_per_step and f"{summary.launches_per_step:,.0f} per step",
        "critical path": _path(report),
    }
    return {name: fact for name, fact in told.items() if fact}


def settings(report: Report) -> dict[str, str]:
    """Return what the job was set to, by name."""
    return {clean(name): clean(str(value)) for name, value in report.run.settings.items()}


def _sampled(summary: Summary) -> str:
    """Return how long a curve is and how often it was sampled."""
    every = f", a sample each {duration(summary.curve_interval_s)}" if summary.curve_interval_s else ""
    return f"{duration(summary.curve_s or 0.0)}{every}"


def _path(report: Report) -> str:
    """Return what the length of a step hangs on, the most of it first."""
    on = report.prediction.critical_path if report.prediction is not None else {}
    ranked = sorted(on.items(), key=lambda item: -item[1])
    return ", ".join(f"{clean(what).replace('_', ' ')} {percent(share)}" for what, share in ranked if share >= 0.005)


def _share(share: float | None, of: str) -> str:
    return "" if share is None else f"{percent(share)} {of}"


def _curves(curves: Sequence[CurvePicture]) -> Table:
    """Return a row for each GPU of curves, with the mean of each counter that any of them has."""
    shown = {name: column for name, column in MEANS.items() if any(name in curve.means for curve in curves)}
    several = len({curve.node for curve in curves}) > 1
    rows = (
        (
            curve_gpu(curve, several=several),
            f"{curve.samples:,}",
            "unknown" if curve.busy_share is None else percent(curve.busy_share),
            *(said(curve.means[key]) if key in curve.means else "" for key, (_, said) in shown.items()),
        )
        for curve in curves
    )
    columns = ("samples", "busy", *(title for title, _ in shown.values()))
    made = (Row(cells, curve.busy_share) for cells, curve in zip(rows, curves, strict=True))
    return Table("GPUs of the curve, means", columns, tuple(made), "GPU", bar=2, of_whole=True)


def _top(title: str, share: str, of: str, items: Sequence[TopItem], short: Callable[[str], str]) -> Table:
    rows = (
        Row(
            (short(item.name), f"{item.calls:,}", duration(item.total_s), percent(item.share)),
            item.share,
            clean(item.name),
        )
        for item in items
    )
    return Table(title, ("calls", "time", share), tuple(rows), of)


def _copies(copies: Copies) -> Row:
    memory = "" if copies.pinned is None else " pinned" if copies.pinned else " pageable"
    amount = "" if copies.bytes is None else size(copies.bytes)
    speed = "" if copies.bytes_per_s is None else f"{decimal(copies.bytes_per_s)}B/s"
    kind = clean(copies.kind) + memory
    cells = (kind, f"{copies.count:,}", amount, duration(copies.total_s), speed, percent(copies.share))
    return Row(cells, copies.share)


def _roofline(item: Roofline) -> Row:
    cells = (
        clean(item.operator) + (f" {item.number}" if item.number else ""),
        f"{item.calls:,}",
        duration(item.total_s),
        decimal(item.flop) if item.flop else "",
        size(item.bytes),
        percent(item.attained_share),
        item.bound,
    )
    return Row(cells, item.attained_share)


def _buckets(buckets: Sequence[Bucket]) -> Iterator[Row]:
    """Yield the bars of the histogram: how much of the time of all kernels is in those of a size."""
    whole = sum(bucket.total_s for bucket in buckets)
    for bucket in buckets:
        cells = (_bucket(bucket), f"{bucket.count:,}", duration(bucket.total_s))
        yield Row(cells, bucket.total_s / whole if whole else None)


def _bucket(bucket: Bucket) -> str:
    if bucket.below_s is None:
        return f"{duration(bucket.above_s)} or more"
    return (
        f"{duration(bucket.above_s)} to {duration(bucket.below_s)}"
        if bucket.above_s
        else f"below {duration(bucket.below_s)}"
    )
