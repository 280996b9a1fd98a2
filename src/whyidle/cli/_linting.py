"""A progress bar for lints that take long enough to wonder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whyidle.lint.batch import Progress as Told

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 1.0  # seconds without a bar; a bar that flashes by helps nobody


@contextmanager
def linting() -> Iterator[Told | None]:
    """Yield what is told how many files are done; None where nobody watches standard error."""
    if not sys.stderr.isatty():
        yield None
        return
    began = time.monotonic()
    bars: list[Progress] = []

    def told(done: int, files: int) -> None:
        if time.monotonic() - began < QUIET_S:
            return
        if not bars:
            bars.append(_started(files))
        bars[0].update(bars[0].task_ids[0], completed=done)

    try:
        yield told
    finally:
        for bar in bars:
            bar.stop()


def _started(files: int) -> Progress:
    from rich.console import Console  # noqa: PLC0415 - most lints end before a bar is due
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("files", total=files)
    bar.start()
    return bar
