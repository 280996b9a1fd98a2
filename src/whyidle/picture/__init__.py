"""What a page draws of a run: timelines of its traces and logs, charts of its curves and steps."""

from __future__ import annotations

from dataclasses import replace

from whyidle.measure import Measured
from whyidle.model.evidence import Run
from whyidle.model.finding import Report
from whyidle.model.picture import Picture
from whyidle.picture import clock, counters, logs, steps, thinning, traces
from whyidle.picture.marks import Marks
from whyidle.picture.ranks import drawn_of, logs_of
from whyidle.picture.sketch import Sketch


def picture_of(run: Run, measured: Measured, report: Report, budget: int = thinning.BUDGET) -> Picture:
    """Return what can be drawn of a run: timelines of traces come before those of logs, each by rank.

    Args:
        run: the evidence.
        measured: what was measured of it.
        report: the verdict: its findings say where to look.
        budget: how many slices all timelines may hold together.
    """
    curves = measured.curves.curves
    marks = Marks(run, measured, report)
    return Picture(
        thinning.drawn(_sketches(run, measured, report), budget),
        (*steps.charts(measured), *counters.charts(run, curves, marks.on)),
    )


def _sketches(run: Run, measured: Measured, report: Report) -> list[Sketch]:
    analyses, note = drawn_of(measured.analyses, report)
    found = [traces.sketch_of(analysis, with_idle=measured.tells_idle) for analysis in analyses]
    if not found:
        found = [sketch for trace in run.traces if (sketch := traces.sketch_of_host(trace)) is not None]
    watches, more = logs_of(measured.watched.watches, {a.t.trace.rank for a in analyses})
    zero = clock.of_run(run.nodes, measured.curves.curves)
    watched = [logs.sketch_of(w, clock.of_log(w.log, w.node, zero)) for w in watches]
    return [*_noted(found, note), *_noted(watched, more)]


def _noted(sketches: list[Sketch], note: str) -> list[Sketch]:
    """Return timelines of which the first says what is left out of them."""
    if not note or not sketches:
        return sketches
    return [replace(sketches[0], notes=(note, *sketches[0].notes)), *sketches[1:]]
