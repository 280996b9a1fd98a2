"""A progress bar for loads that take long enough to wonder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from whyidle.read import Progress as Told
from whyidle.render.words import clean, shorten

QUIET_S = 1.0  # seconds without a bar; a bar that flashes by helps nobody


@contextmanager
def loading() -> Iterator[Told | None]:
    """Yield what a reader reports its progress to; None where nobody watches standard error."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    search = Progress(TextColumn("{task.description}", markup=False), console=bar.console, transient=True)
    searching = search.add_task("", total=None)
    tasks: dict[Path, TaskID] = {}
    began = time.monotonic()

    def told(path: Path, bytes_done: int, bytes_total: int) -> None:
        if time.monotonic() - began < QUIET_S:
            return
        if not bytes_total:
            search.start()
            search.update(searching, description=f"{shorten(clean(str(path)), 40)}: {bytes_done:,} files")
            return
        search.stop()
        bar.start()
        if path not in tasks:
            for task in tasks.values():
                bar.update(task, visible=False)
            tasks[path] = bar.add_task(shorten(clean(path.name), 40), total=bytes_total)
        bar.update(tasks[path], completed=bytes_done, total=bytes_total)

    try:
        yield told
    finally:
        search.stop()
        bar.stop()
