"""Shows the GPUs: a live table on a terminal, elsewhere a line per GPU now and then, or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
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


def total(statuses: Sequence[Status], watched_s: float) -> str:
    """Return what the idle time of all GPUs has cost so far."""
    known = sum(one.spent.known_s for one in statuses)
    idle = sum(one.spent.idle_s for one in statuses)
    unknown = sum(one.spent.unknown_s for one in statuses)
    said = [f"watched for {_time(watched_s)}"]
    if known > 0:
        said.append(f"{percent(idle / known)} of {len(statuses)} GPUs idle")
    costs = [one.spent.idle_usd for one in statuses if one.spent.idle_usd is not None]
    if costs:
        hourly = usd_per_hour(statuses)
        said.append(f"idle time cost {money(sum(costs))}" + (f", now {money(hourly)} an hour" if hourly else ""))
    elif statuses:
        said.append("no list price: --price USD")
    if unknown > 0:
        said.append(f"unknown {_time(unknown)} of GPU time")
    return "; ".join(said)


def _time(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def table(statuses: Sequence[Status], state: str, caption: str) -> Table:
    """Return all GPUs as a table."""
    drawn = Table(box=None, pad_edge=False, caption=caption, caption_justify="left", caption_style="")
    for title in ("GPU", "", "now", "mean", "memory", "power", "idle cost", "last minutes"):
        right = title in {"now", "mean", "memory", "power", "idle cost"}
        drawn.add_column(title, justify="right" if right else "left", no_wrap=title != "last minutes")
    for one in statuses:
        busy, memory, watts = _numbers(one)
        mean = "-" if one.verdict.kind == "unknown" else percent(one.seen.busy_share or 0.0)
        cost = "-" if one.spent.idle_usd is None else money(one.spent.idle_usd)
        said = Text(("ALARM  " if one.alarm else "") + one.verdict.text, style=STYLES[one.verdict.kind])
        if one.hint:
            said.append(f"\n{clean(one.hint)}", style="")
        drawn.add_row(str(one.gpu.index), Text(gpu_name(one.gpu.name)), busy.strip(), mean, memory, watts, cost, said)
    if state != "ok":
        drawn.add_row("", "", "", "", "", "", "", Text(clean(state), style="magenta"))
    return drawn


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
            self._drawn.update(table(statuses, state, caption), refresh=True)
        elif statuses:
            self.write("\n".join(line(one, now_ns) for one in statuses))
        else:
            self.write(f"{clock(now_ns)}  {clean(state)}")

    def whole(self, statuses: Sequence[Status], state: str, everything: Mapping[str, Any], caption: str) -> None:
        """Show all GPUs once."""
        if self._json:
            self.write(json.dumps(everything, indent=2))
        else:
            self._console.print(table(statuses, state, caption))

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
