"""Shows the GPUs: a live table on a terminal, elsewhere a line per GPU now and then, or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from textwrap import wrap
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from whyidle.render.base import Look
from whyidle.render.words import clean, gpu_name, money, percent, size
from whyidle.watch.asked import Asked
from whyidle.watch.board import Status
from whyidle.watch.moment import clock
from whyidle.watch.report import usd_per_hour
from whyidle.watch.verdict import FINE, Kind

TERMINAL_S = 2.0  # between two drawings of the table
LINES_S = 60.0  # between two lines of a GPU where nobody looks
STYLES: Mapping[Kind, str] = {
    "busy": "green",
    "waits": "yellow",
    "idle": "red",
    "held": "red",
    "free": "red",
    "throttled": "red",
    "lagging": "yellow",
    "unknown": "magenta",
}


def line(status: Status, now_ns: int) -> str:
    """Return a GPU on a line."""
    cells = [clock(now_ns), f"GPU {status.gpu.index}", *_numbers(status), status.verdict.text]
    return "  ".join(cells + ([clean(status.hint)] if status.hint else []))


def _numbers(status: Status) -> list[str]:
    last = status.last
    busy = None if last is None else last.utilization_percent
    memory = None if last is None else last.memory_used_bytes
    watts = None if last is None else last.power_w
    return [
        "  -%" if busy is None else f"{busy:3.0f}%",
        "-" if memory is None else size(memory),
        "-" if watts is None else f"{watts:.0f} W",
    ]


def total(statuses: Sequence[Status], watched_s: float, price_file: str = "") -> str:
    """Return what the idle time of all GPUs has cost so far; `price_file` is what says the price, if any does."""
    known = sum(one.spent.known_s for one in statuses)
    idle = sum(one.spent.idle_s for one in statuses)
    unknown = sum(one.spent.unknown_s for one in statuses)
    said = [f"watched for {_time(watched_s)}"]
    if known > 0:
        said.append(f"{percent(idle / known)} of the measured GPU time idle")
    costs = [one.spent.idle_usd for one in statuses if one.spent.idle_usd is not None]
    if costs:
        hourly = usd_per_hour(statuses)
        said.append(f"idle time cost {money(sum(costs))}" + (f", now {money(hourly)} an hour" if hourly else ""))
        if price_file:
            said[-1] += f" (price: {price_file})"
    elif statuses and all(one.spent.usd_per_hour is None for one in statuses):
        said.append("no list price: --price USD")
    if unknown > 0:
        said.append(f"unknown {_time(unknown)} of GPU time")
    return "; ".join(said)


def _time(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


HEAD = ("GPU", "", "now", "mean", "memory", "power", "idle cost")
LEFT = 2  # columns that begin at their left; the others are numbers
LEAST_WIDTH = 20  # of the verdict
BELOW = 3  # columns that it is indented by, where it stands below


def table(statuses: Sequence[Status], state: str, caption: str, width: int) -> Text:
    """Return all GPUs as a table, laid out here: rich's own takes ten times the CPU, again and again.

    Args:
        statuses: of each GPU.
        state: of the source.
        caption: that stands below.
        width: columns.
    """
    rows = [_cells(one) for one in statuses]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    indent = sum(widths) + 2 * len(widths)
    below = width - indent < LEAST_WIDTH  # a narrow terminal has the verdict on lines of its own
    indent = BELOW if below else indent
    start = f"\n{' ' * indent}" if below else ""
    drawn = Text(f"{_row(HEAD, widths)}{start}last minutes\n", no_wrap=True, overflow="crop")
    for one, cells in zip(statuses, rows, strict=True):
        drawn.append(_row(cells, widths) + start)
        said = ("ALARM  " if one.alarm else "") + one.verdict.text
        drawn.append(_wrapped(said, max(width - indent, LEAST_WIDTH), indent), STYLES[one.verdict.kind])
    if state != "ok":
        drawn.append(f"{clean(state)}\n", "magenta")
    for hint in dict.fromkeys(one.hint for one in statuses if one.hint):
        which = ", ".join(str(one.gpu.index) for one in statuses if one.hint == hint)
        drawn.append(_wrapped(f"GPU {which}: {clean(hint)}", width, 0))
    drawn.append("\n".join(wrap(caption, width)))
    return drawn


def _cells(status: Status) -> list[str]:
    busy, memory, watts = _numbers(status)
    mean = "-" if status.verdict.kind == "unknown" else percent(status.seen.busy_share or 0.0)
    cost = "-" if status.spent.idle_usd is None else money(status.spent.idle_usd)
    return [str(status.gpu.index), gpu_name(status.gpu.name), busy.strip(), mean, memory, watts, cost]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column < LEFT else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded) + "  "


def _wrapped(text: str, room: int, indent: int) -> str:
    return f"\n{' ' * indent}".join(wrap(text, room)) + "\n"


def code(statuses: Sequence[Status]) -> int:
    """Return the exit code of a single look: 1 something to see to, 2 something unknown, 0 all fine."""
    kinds = {one.verdict.kind for one in statuses}
    if kinds - {*FINE, "unknown"}:
        return 1
    return 2 if "unknown" in kinds or not kinds else 0


class Screen:
    """Where the watch is seen.

    Args:
        stream: where it goes.
        asked: the format, and how often.
        look: what the stream can show.
    """

    def __init__(self, stream: TextIO, asked: Asked, look: Look) -> None:
        self._stream = stream
        if isinstance(stream, TextIOWrapper):  # a name that its encoding lacks must not end a watch of days
            stream.reconfigure(errors="backslashreplace")
        self._json = asked.format == "json"
        self._console = Console(
            file=stream,
            width=look.width,
            color_system="standard" if look.color else None,
            no_color=not look.color,
            force_jupyter=False,
            highlight=False,
        )
        self.live = not self._json and stream.isatty() and not asked.once
        self.every_s = asked.every_s or max(asked.interval_s, TERMINAL_S if self.live else LINES_S)
        self._drawn: Live | None = None

    def __enter__(self) -> Screen:
        if self.live:
            self._drawn = Live(console=self._console, auto_refresh=False)
            self._drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def show(
        self, statuses: Sequence[Status], state: str, everything: Mapping[str, Any], caption: str, now_ns: int
    ) -> None:
        """Show all GPUs, again and again."""
        if self._json:
            self.write(json.dumps(everything))
        elif self._drawn is not None:
            self._drawn.update(table(statuses, state, caption, self._console.width), refresh=True)
        elif statuses:
            self.write("\n".join(line(one, now_ns) for one in statuses))
        else:
            self.write(f"{clock(now_ns)}  {clean(state)}")

    def whole(self, statuses: Sequence[Status], state: str, everything: Mapping[str, Any], caption: str) -> None:
        """Show all GPUs once."""
        if self._json:
            self.write(json.dumps(everything, indent=2))
        else:
            self._console.print(table(statuses, state, caption, self._console.width))

    def tell(self, text: str, event: Mapping[str, Any]) -> None:
        """Show an alarm."""
        if self._json:
            self.write(json.dumps(event))
        elif self._drawn is not None:
            self._console.print(Text(text))
        else:
            self.write(text)

    def write(self, text: str) -> None:
        """Write lines, at once."""
        self._stream.write(text + "\n")
        self._stream.flush()
