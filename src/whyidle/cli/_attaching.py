"""What `whyidle watch --pid` shows of one running job."""

from __future__ import annotations

import sys

from whyidle.cli._destination import Destination
from whyidle.errors import WhyIdleError
from whyidle.render import renderer
from whyidle.render.base import Look
from whyidle.watch.asked import Asked
from whyidle.watch.pid.verdict import SECONDS, watch_pid


def attach(pid: int, seconds: float | None, asked: Asked, look: Look, *, stacks: bool) -> int:
    """Look at a running job, show the verdict and return the exit code: 0 judged, 1 it is held up, 2 not judged.

    Args:
        pid: a process of it.
        seconds: how long; None for as long as is usual.
        asked: what else was asked for.
        look: of the terminal.
        stacks: ask py-spy.

    Raises:
        WhyIdleError: there is no such job, or more was asked for than a verdict.
    """
    if asked.alarming or asked.listen is not None or asked.once:
        raise WhyIdleError("--pid looks at one job once: there is no alarm, and nothing to scrape", "leave those away")
    if sys.stderr.isatty():
        sys.stderr.write(f"looking at process {pid} for {seconds or SECONDS:g} s\n")
    report = watch_pid(pid, SECONDS if seconds is None else seconds, stacks=stacks)
    Destination(sys.stdout, "standard output", look).write(renderer(asked.format).render(report, look))
    return report.exit_code
