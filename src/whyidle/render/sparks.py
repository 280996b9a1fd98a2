"""Curves as a person sees them at a glance: a line of blocks for each GPU, and how busy each host was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean
from typing import Final

from rich.text import Text

from whyidle.model.detail import CurvePicture
from whyidle.model.finding import DeviceBusy
from whyidle.render.lines import columns, hang
from whyidle.render.words import clean, percent, plural, shorten

BLOCKS: Final = "▁▂▃▄▅▆▇█"
GAP: Final = " "  # nothing was measured
HEAD: Final = 18  # columns of a GPU's name
MOST: Final = 16  # hosts that have a cell each


def sparks(curves: Sequence[CurvePicture], width: int, most: int) -> Iterator[Text]:
    """Yield a line for each GPU that has a picture; of more than `most` the least busy, the median and the busiest."""
    shown = [curve for curve in curves if curve.points and curve.busy_share is not None]
    if not shown:
        return
    known = sum(curve.busy_share is not None for curve in curves)
    few = len(shown) == known <= most
    if not few:
        shown = sorted(shown, key=lambda curve: curve.busy_share or 0.0)
        shown = [shown[0], shown[len(shown) // 2], shown[-1]]
    names = [curve_gpu(curve, several=len({one.node for one in curves}) > 1) for curve in shown]
    if not few:
        names = [f"{word} {one}" for word, one in zip(("lowest", "median", "highest"), names, strict=True)]
    head = min(max([HEAD - 2, *map(len, names)]), width // 3)
    yield Text()
    for label, curve in zip(names, shown, strict=True):
        line = spark(curve.points, min(len(curve.points), width - head - 10))
        yield Text.assemble(
            f"  {shorten(label, head):<{head}}  ", (line, "cyan"), f"  {percent(curve.busy_share or 0.0)}"
        )
    if not few:
        yield Text(f"  of {plural(known, 'GPU')}; all of them: --all", style="dim")


def spark(points: Sequence[float | None], length: int) -> str:
    """Return shares as blocks, 0 the lowest and 1 the highest; a blank where nothing was measured."""
    return "".join(GAP if one is None else BLOCKS[round(min(max(one, 0.0), 1.0) * 7)] for one in _fit(points, length))


def _fit(points: Sequence[float | None], length: int) -> Iterator[float | None]:
    """Yield the points as means of `length` equal parts."""
    count = len(points)
    for part in range(min(length, count)):
        here = [
            p for p in points[part * count // length : max((part + 1) * count // length, part + 1)] if p is not None
        ]
        yield mean(here) if here else None


def curve_gpu(gpu: CurvePicture | DeviceBusy, *, several: bool) -> str:
    """Name a GPU of a curve: by its host where there are several, and by what tells it from its siblings."""
    host = f"{clean(gpu.node)} " if several and gpu.node else ""
    if gpu.gpus > 1:
        return f"{host}{gpu.gpus} GPUs"
    return f"{host}GPU {gpu.device}" + (f" MIG {clean(gpu.instance)}" if gpu.instance else "")


def hosts(devices: Sequence[DeviceBusy], width: int) -> Iterator[Text]:
    """Yield how busy the GPUs of each host were on average, where there are several; of many the extremes."""
    by_host: dict[str, list[float]] = {}
    for device in devices:
        by_host.setdefault(device.node, []).append(device.busy_share)
    if len(by_host) < 2:
        return
    busy = {clean(host) or "no name": mean(shares) for host, shares in by_host.items()}
    head = Text("  busy by host  ")
    yield Text()
    if len(busy) <= MOST:
        yield from columns(head, [f"{host} {percent(share)}" for host, share in busy.items()], width)
        return
    ranked = sorted(busy, key=lambda host: busy[host])
    parts = [
        f"lowest {percent(busy[ranked[0]])} ({ranked[0]})",
        f"median {percent(busy[ranked[len(ranked) // 2]])}",
        f"highest {percent(busy[ranked[-1]])} ({ranked[-1]})",
        plural(len(ranked), "host"),
    ]
    yield from hang(head, Text(" · ".join(parts)), width)
