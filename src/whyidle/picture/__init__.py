"""What a page draws of a run: timelines of its traces and logs, charts of its curves and steps."""

from __future__ import annotations

from whyidle.measure import Measured
from whyidle.model.evidence import Run
from whyidle.model.picture import Picture
from whyidle.picture.traces import timeline_of


def picture_of(run: Run, measured: Measured) -> Picture:
    """Return what can be drawn of a run.

    Args:
        run: the evidence.
        measured: what was measured of it.
    """
    del run
    return Picture(tuple(timeline_of(analysis) for analysis in measured.analyses))
