"""The page of `whyidle watch --report`: how busy each GPU was, what its idle time cost, and the alarms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from whyidle.model.evidence import Floats64
from whyidle.model.picture import Chart, Line, Mark, Picture
from whyidle.model.watch_history import Utilization, WatchedGpu, WatchHistory
from whyidle.picture.clock import Zero
from whyidle.picture.plot import Counter, Quantity, chart
from whyidle.render.base import Look
from whyidle.render.html.figures import figure, spans
from whyidle.render.html.rows import Item, TableRow
from whyidle.render.html.section import Section, filled
from whyidle.render.html.verb_page import verb_page
from whyidle.render.watched_gpus import headline, history_json
from whyidle.render.words import clean, duration, gpu_name, money, percent, plural

NS: Final = 1_000_000_000
HEIGHT: Final = 100  # of a curve's own units
# Series of the last minutes that are drawn: title, unit, what one is, and the largest there can be.
DRAWN: Final = {
    "utilization_percent": ("Utilization, last minutes", "%", 1.0, 100.0),
    "power_w": ("Power, last minutes", "W", 1.0, None),
    "sm_clock_mhz": ("SM clock, last minutes", "MHz", 1.0, None),
    "memory_used_bytes": ("Memory, last minutes", "GiB", 1 / 2**30, None),
}


def watch_page(history: WatchHistory, look: Look) -> str:
    """Return the page."""
    charts = tuple(_charts(history))
    made = (_verdict(history), _gpus(history), _events(history), _drawn(charts), _about(history))
    return verb_page(headline(history), made, history_json(history, look), look, Picture(charts=charts))


def _verdict(history: WatchHistory) -> Section:
    bad = [gpu for gpu in history.gpus if not gpu.fine and gpu.kind != "unknown"]
    return Section(
        "verdict",
        "",
        filled(
            "watch_verdict",
            first=headline(history),
            tone="bad" if bad else "plain",
            facts=list(_facts(history)),
            told=[(f"GPU {gpu.index}", gpu.said + (f". {gpu.hint}" if gpu.hint else "")) for gpu in history.gpus],
            state="" if history.state == "ok" else history.state,
        ),
    )


def _facts(history: WatchHistory) -> Iterator[Item]:
    known = [gpu for gpu in history.gpus if gpu.known_s]
    unknown = sum(gpu.unknown_s for gpu in history.gpus)
    if known:
        yield Item("idle GPU time", duration(sum(gpu.idle_s for gpu in known)))
    costs = [gpu.idle_usd for gpu in known if gpu.idle_usd is not None]
    if costs:
        notes = [f"price: {history.price_file}"] if history.price_file else []
        free = len(known) - len(costs)
        notes += [f"without {plural(free, 'GPU')} of no known price"] if free else []
        yield Item("it cost", money(sum(costs)), "; ".join(notes))
    if history.usd_per_hour is not None:
        yield Item("idle time costs now", f"{money(history.usd_per_hour)} an hour")
    if history.alarming:
        alarms = sum(event.kind == "alarm" for event in history.events) + history.forgotten
        yield Item("alarms", f"{alarms:,}" if not history.forgotten else f"{alarms:,} at most")
    if unknown:
        yield Item("unknown GPU time", duration(unknown))


def _gpus(history: WatchHistory) -> Section | None:
    """Return the curve of each GPU since the watch began, beside what it was."""
    if not history.gpus:
        return None
    lines = [
        {
            "gpu": gpu,
            "name": f"GPU {gpu.index}",
            "model": gpu_name(gpu.name),
            "stretches": stretches(gpu.utilization),
            "mean": "unknown" if not gpu.known_s else f"{percent(1 - gpu.idle_s / gpu.known_s)} busy",
            "cost": "" if gpu.idle_usd is None else f"{money(gpu.idle_usd)} idle",
            "jobs": "jobs cannot be seen" if gpu.jobs is None else ", ".join(gpu.jobs) or "no job",
        }
        for gpu in history.gpus
    ]
    part = max(gpu.utilization.part_s for gpu in history.gpus)
    begin, end = _when(history.start_ns, history), _when(history.end_ns, history)
    html = filled("watch_gpus", lines=lines, begin=begin, end=end, part=part)
    return Section("gpus", "GPUs", html)


def stretches(course: Utilization) -> tuple[tuple[int, int, str], ...]:
    """Return where something is known, from which part to which, and the outline of what is busy in it."""
    known = np.isfinite(course.mean)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]])))
    return tuple(
        (int(start), int(end), _outline(course.mean, start, end))
        for start, end in zip(edges[0::2], edges[1::2], strict=True)
    )


def _outline(mean: Floats64, start: int, end: int) -> str:
    points = [f"{start},{HEIGHT}"]
    for place in range(start, end):  # each part is a step as wide as itself
        y = f"{HEIGHT - mean[place] * HEIGHT:.3g}"
        points += [f"{place},{y}", f"{place + 1},{y}"]
    return " ".join([*points, f"{end},{HEIGHT}"])


def _events(history: WatchHistory) -> Section | None:
    if not history.events:
        return None
    rows = [TableRow((_when(event.wall_ns, history), event.kind, event.text)) for event in history.events]
    return Section("alarms", "Alarms", filled("watch_events", rows=rows, forgotten=history.forgotten))


def _charts(history: WatchHistory) -> Iterator[Chart]:
    """Yield utilization since the begin, then what is known of the last minutes."""
    parts = max((len(gpu.utilization.mean) for gpu in history.gpus), default=0)
    longest = max((gpu.utilization.part_s for gpu in history.gpus), default=0.0)
    alike = [gpu for gpu in history.gpus if gpu.utilization.part_s == longest]
    if parts > 1 and alike:
        x = (np.arange(parts, dtype=np.float64) + 0.5) * longest
        lines = tuple(_whole(gpu, parts) for gpu in alike)
        marks = tuple(_marks(history))
        note = f"Every point is the mean of {duration(longest)}."
        clock = f"{_day(history.start_ns)} {_clock(history.start_ns)}"
        yield Chart("Utilization, whole watch", "%", "s", x, lines, marks, clock=clock, note=note, upper=100.0)
    yield from _last(history)


def _whole(gpu: WatchedGpu, parts: int) -> Line:
    course = gpu.utilization
    mean, low, high = (_padded(values * 100, parts) for values in (course.mean, course.low, course.high))
    return Line(f"GPU {gpu.index}", mean, low, high)


def _padded(values: Floats64, parts: int) -> Floats64:
    return np.concatenate([values, np.full(parts - len(values), np.nan)])


def _marks(history: WatchHistory) -> Iterator[Mark]:
    for event in history.events:
        at = (event.wall_ns - history.start_ns) / NS
        yield Mark("event", f"{event.kind} GPU {event.gpu}", at, at)


def _last(history: WatchHistory) -> Iterator[Chart]:
    """Yield what is known of the last minutes, which --last may make a day of a sample each second."""
    zero = Zero(history.start_ns, f"{_day(history.start_ns)} {_clock(history.start_ns)}", "last")
    for name, (title, unit, factor, upper) in DRAWN.items():
        found = [(gpu, series) for gpu in history.gpus for series in gpu.series if series.name == name]
        counters = [
            Counter(name, f"GPU {gpu.index}", series.time - history.start_ns, series.value, zero)
            for gpu, series in found
        ]
        drawn = chart(Quantity(title, unit, factor, upper), counters)
        if drawn is not None:
            yield drawn


def _drawn(charts: Sequence[Chart]) -> Section | None:
    if not charts:
        return None
    shared = spans(charts)
    drawn = [figure(chart, index, span=shared.get(chart.group)) for index, chart in enumerate(charts)]
    return Section("curves", "Curves", filled("charts", families=[("", drawn)], above=""))


def _about(history: WatchHistory) -> Section:
    pairs = [
        ("host", history.host),
        ("who looked", history.source),
        ("from", f"{_day(history.start_ns)} {_clock(history.start_ns)}"),
        ("to", f"{_day(history.end_ns)} {_clock(history.end_ns)}"),
        ("in all", clean(history.summary)),
        ("idle", f"1 less the mean utilization of {plural(len(history.gpus), 'GPU')}, as the driver samples it"),
    ]
    return Section("about", "How it was measured", filled("sweep_about", notes=[], pairs=pairs))


def _when(wall_ns: int, history: WatchHistory) -> str:
    """Return a time of day; with its date where the watch was not over within one day."""
    one_day = _day(history.start_ns) == _day(history.end_ns)
    return _clock(wall_ns) if one_day else f"{_day(wall_ns)} {_clock(wall_ns)}"


def _clock(wall_ns: int) -> str:
    return f"{datetime.fromtimestamp(wall_ns / NS, UTC):%H:%M:%S} UTC"


def _day(wall_ns: int) -> str:
    return f"{datetime.fromtimestamp(wall_ns / NS, UTC):%Y-%m-%d}"
