"""What a page draws of a run: timelines and charts, thinned to what a screen can show.

`picture` makes these of evidence and measurements, on request; the HTML report draws them. They are no part of the JSON
report, which has the numbers that they show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whyidle.model.evidence import Codes, Floats, Floats64, Ints

# idle: names are causes (model.finding.CAUSES). phase: what a watched thread does, names are PHASES.
LaneKind: TypeAlias = Literal["step", "idle", "stream", "thread", "phase"]
# shape: a period, a plateau or a dip that a curve was seen to have.
MarkKind: TypeAlias = Literal["step", "checkpoint", "evaluation", "shape", "event"]
Axis: TypeAlias = Literal["s", "step", "step_time_s"]


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """A row of a timeline: slices in order of start, of those that start together the longest first.

    `start`, `end`, `name` and `depth` have the same length. Where a recording has more slices than a page can hold the
    shortest are left out: then `count` is more than that length, and `covered` tells what all of them cover.
    """

    title: str  # "stream 7", "thread 1234 (python)", "idle by cause", "steps"
    kind: LaneKind
    start: Ints  # ns, on the recording's own clock as its viewer counts: as Location.start_s
    end: Ints  # ns
    name: Codes  # index into Timeline.names
    depth: NDArray[np.uint8]  # 0 the outermost of slices that nest
    count: int  # slices that the recording has
    covered: Floats  # share of each of equal parts of the timeline that all slices cover, 0-1; empty: nothing left out

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """One recording: a trace, or the log of one process; all times on its own clock."""

    title: str  # "rank 0"; of a run without ranks the name of its file
    file: str  # as Location.file
    rank: int | None
    start: int  # ns: its left end
    end: int  # ns
    names: tuple[str, ...]
    lanes: tuple[Lane, ...]
    note: str = ""  # what was left out, a sentence; empty where nothing was
    window: tuple[int, int] | None = None  # ns: what was judged, of which shares are; None: all of it


@dataclass(frozen=True, slots=True)
class Whole:
    """What a line is of, all of it: its points may each stand for several."""

    count: int
    least: float  # of Chart.unit; of a distribution, which counts steps by their time, s
    mean: float
    most: float


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line of a chart."""

    label: str
    y: Floats64  # of Chart.unit; NaN where not measured
    low: Floats64 | None = None  # least of what a point stands for; None where it is one sample
    high: Floats64 | None = None
    whole: Whole | None = None  # None: its points are all that there is


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of a chart's x axis, or (start == end) a moment."""

    kind: MarkKind
    label: str
    start: float  # of Chart.axis
    end: float


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Lines over one x axis."""

    title: str  # "GPU utilization"
    unit: str  # of y: "%", "W", "MHz", "°C", "GiB", "MB/s", "ms", "steps"
    axis: Axis  # of x: seconds, the number of a step, or a step time (a distribution)
    x: Floats64  # grows
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    group: str = ""  # charts of one group share their x axis; "" none
    clock: str = ""  # what 0 s is: "start of the run", "2026-11-30 12:00:00 UTC"
    note: str = ""  # what a reader has to know: "every point is the mean of 60 samples"
    upper: float | None = None  # of y where it is known: 100 of "%"
    timeline: str = ""  # file of the timeline whose steps x counts; "" none


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Everything that is drawn of a run."""

    timelines: tuple[Timeline, ...] = ()  # by rank
    charts: tuple[Chart, ...] = ()
    name: str = ""  # of what was recorded, as it was given: of its folder or its file
