"""The tables behind the numbers, for who wants to look further (`--all`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from whyidle.model.detail import Bucket, Copies, CurvePicture, Roofline, TopItem
from whyidle.model.finding import Report, Summary
from whyidle.render.lines import hang
from whyidle.render.sparks import curve_gpu
from whyidle.render.words import clean, decimal, duration, kernel_name, percent, shorten, size

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


def details(report: Report, width: int) -> Iterator[Text]:
    """Yield the tables that there is something for."""
    detail = report.detail
    yield from _facts(report, width)
    yield from _curves(detail.curves, width)
    yield from _top("kernels by GPU time", "of GPU time", detail.kernels, width, kernels=True)
    yield from _top("operators by their own time", "of operators", detail.operators, width, kernels=False)
    if detail.rooflines:
        rows = [_roofline(item) for item in detail.rooflines]
        head = ("operators of known sizes", "calls", "GPU time", "FLOP", "bytes", "of limit", "limit")
        yield from _table(head, rows, width)
    if detail.copies:
        rows = [_copies(copies) for copies in detail.copies]
        yield from _table(("copies", "count", "bytes", "time", "rate", "of window"), rows, width)
    if detail.kernel_sizes:
        rows = [(_bucket(bucket), f"{bucket.count:,}", duration(bucket.total_s)) for bucket in detail.kernel_sizes]
        yield from _table(("kernels that take", "count", "time"), rows, width)


def _facts(report: Report, width: int) -> Iterator[Text]:
    summary, by_curve = report.summary, report.run.only_curves
    facts = {
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
        "settings": ", ".join(f"{clean(name)}={clean(str(value))}" for name, value in report.run.settings.items()),
        "evidence": "; ".join(f"{clean(file.path)} ({clean(file.kind)})" for file in report.run.evidence),
    }
    yield Text()
    for name, fact in facts.items():
        if fact:
            yield from hang(Text(f"  {name:<15}", style="dim"), Text(fact), width)


def _sampled(summary: Summary) -> str:
    """Return how long a curve is and how often it was sampled."""
    every = f", a sample each {duration(summary.curve_interval_s)}" if summary.curve_interval_s else ""
    return f"{duration(summary.curve_s or 0.0)}{every}"


def _curves(curves: Sequence[CurvePicture], width: int) -> Iterator[Text]:
    """Yield a row for each GPU of curves, with the mean of each counter that any of them has."""
    shown = {name: column for name, column in MEANS.items() if any(name in curve.means for curve in curves)}
    several = len({curve.node for curve in curves}) > 1
    rows = [
        (
            curve_gpu(curve, several=several),
            f"{curve.samples:,}",
            "unknown" if curve.busy_share is None else percent(curve.busy_share),
            *(said(curve.means[key]) if key in curve.means else "" for key, (_, said) in shown.items()),
        )
        for curve in curves
    ]
    if rows:
        yield from _table(
            ("GPUs of the curve, means", "samples", "busy", *(title for title, _ in shown.values())), rows, width
        )


def _path(report: Report) -> str:
    """Return what the length of a step hangs on, the most of it first."""
    on = report.prediction.critical_path if report.prediction is not None else {}
    ranked = sorted(on.items(), key=lambda item: -item[1])
    return ", ".join(f"{clean(what).replace('_', ' ')} {percent(share)}" for what, share in ranked if share >= 0.005)


def _share(share: float | None, of: str) -> str:
    return "" if share is None else f"{percent(share)} {of}"


def _top(title: str, of: str, items: Sequence[TopItem], width: int, *, kernels: bool) -> Iterator[Text]:
    if items:
        short = kernel_name if kernels else clean
        rows = [(short(item.name), f"{item.calls:,}", duration(item.total_s), percent(item.share)) for item in items]
        yield from _table((title, "calls", "time", of), rows, width)


def _copies(copies: Copies) -> tuple[str, ...]:
    memory = "" if copies.pinned is None else " pinned" if copies.pinned else " pageable"
    amount = "" if copies.bytes is None else size(copies.bytes)
    speed = "" if copies.bytes_per_s is None else f"{decimal(copies.bytes_per_s)}B/s"
    kind = clean(copies.kind) + memory
    return kind, f"{copies.count:,}", amount, duration(copies.total_s), speed, percent(copies.share)


def _roofline(item: Roofline) -> tuple[str, ...]:
    return (
        clean(item.operator) + (f" {item.number}" if item.number else ""),
        f"{item.calls:,}",
        duration(item.total_s),
        decimal(item.flop) if item.flop else "",
        size(item.bytes),
        percent(item.attained_share),
        item.bound,
    )


def _bucket(bucket: Bucket) -> str:
    if bucket.below_s is None:
        return f"{duration(bucket.above_s)} or more"
    return (
        f"{duration(bucket.above_s)} to {duration(bucket.below_s)}"
        if bucket.above_s
        else f"below {duration(bucket.below_s)}"
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], width: int) -> Iterator[Text]:
    """Yield a table whose first column takes what room the others leave."""
    sizes = [max(len(row[column]) for row in (head, *rows)) for column in range(1, len(head))]
    first = min(max(len(row[0]) for row in (head, *rows)), width - 4 - sum(sizes) - 2 * len(sizes))
    yield Text()
    for index, row in enumerate((head, *rows)):
        cells = "".join(f"  {cell:>{size}}" for cell, size in zip(row[1:], sizes, strict=True))
        yield Text(f"  {shorten(row[0], first):<{first}}{cells}", style="bold" if index == 0 else "")
