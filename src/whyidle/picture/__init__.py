"""What a page draws of a run: timelines of its traces and logs, charts of its curves and steps."""

from __future__ import annotations

from whyidle.measure import Measured
from whyidle.model.evidence import Run
from whyidle.model.finding import Report
from whyidle.model.picture import Picture
from whyidle.picture.traces import timeline_of


def picture_of(run: Run, measured: Measured, report: Report) -> Picture:
    """Return what can be drawn of a run.

    Args:
        run: the evidence.
        measured: what was measured of it.
        report: the verdict: its findings say where to look.
    """
    del run, report
    return Picture(tuple(timeline_of(analysis) for analysis in measured.analyses))
