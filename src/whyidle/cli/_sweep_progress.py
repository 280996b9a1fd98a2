"""What a sweep says while it runs: lines on standard error; on a terminal what runs stands below them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import TaskID, TextColumn, TimeElapsedColumn

from whyidle.cli._destination import look_of
from whyidle.model.trial import Cell, Params
from whyidle.render.sweep import cell_line, named, plain
from whyidle.render.words import duration, plural
from whyidle.sweep.plan import Limits

EVERY_S: Final = 60.0  # a line on a cell that runs, where there is no terminal
LONG_S: Final = 60.0  # after which it is said how a cell ends sooner


class Progress:
    """Says what is told of cells that begin, run and end.

    Args:
        limits: when a cell ends.
        jobs: that are run at most.
        is_quiet: say nothing.
        now_s: what the time is.
    """

    def __init__(
        self, limits: Limits, jobs: int, *, is_quiet: bool, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits, self._jobs, self._is_quiet, self._now_s = limits, jobs, is_quiet, now_s
        self._is_live = sys.stderr.isatty() and not is_quiet
        self._look = look_of(sys.stderr, True, everything=False)
        columns = (TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._bars = Bars(*columns, console=Console(stderr=True), transient=True, disable=not self._is_live)
        self._tasks: dict[str, TaskID] = {}
        self._began_s: dict[str, float] = {}
        self._said_s: dict[str, float] = {}
        self._begun = 0

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begins(self, params: Params) -> None:
        """Say that a cell begins, and when it will end."""
        self._begun += 1
        name = named(params)
        self._began_s[name] = self._said_s[name] = self._now_s()
        text = f"running {name}, {self._begun} of {plural(max(self._jobs, self._begun), 'job')} at most"
        self._tasks[name] = self._bars.add_task(text, total=None)
        if not self._is_live:
            self._say(f"{text}: until its mean step is known to {self._bound}, {self._longest} at most")

    def seen(self, params: Params, steps: int, known_to: float | None) -> None:
        """Say how far a cell is."""
        name, now_s = named(params), self._now_s()
        precision = "" if known_to is None or known_to >= 1 else f", ±{100 * known_to:.2g}% of {self._bound}"
        text = f"running {name}: {plural(steps, 'step')}{precision}, {self._longest} at most"
        if now_s - self._began_s.get(name, now_s) > LONG_S and known_to is not None:
            wider = 2.5 * self._limits.settle_share
            text += f" (--settle {100 * wider:.3g}% ends sooner)" if self._limits.settle_share < known_to else ""
        if name in self._tasks:
            self._bars.update(self._tasks[name], description=plain(text, self._look))
        if not self._is_live and now_s - self._said_s.get(name, now_s) >= EVERY_S:
            self._said_s[name] = now_s
            self._say(text)

    def told(self, cell: Cell) -> None:
        """Say what a cell gave."""
        task = self._tasks.pop(named(cell.params), None)
        if task is not None:
            self._bars.remove_task(task)
        self._say(cell_line(cell, self._look))

    @property
    def _bound(self) -> str:
        return f"{100 * self._limits.settle_share:.3g}%"

    @property
    def _longest(self) -> str:
        return duration(self._limits.cell_time_s)

    def _say(self, text: str) -> None:
        if self._is_live:
            self._bars.console.print(plain(text, self._look), markup=False, highlight=False, soft_wrap=True)
        elif not self._is_quiet:
            sys.stderr.write(f"{plain(text, self._look)}\n")
            sys.stderr.flush()
