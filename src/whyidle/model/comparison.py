"""What is said of two runs: did the change help, by how much, how sure is that, and does the model learn the same.

The JSON of `whyidle compare` is these dataclasses written out; docs/compare.md describes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from whyidle.model.detail import DRAWN
from whyidle.model.finding import Estimate, Finding, RunInfo, Summary
from whyidle.model.shown import Shown

if TYPE_CHECKING:
    from whyidle.model.picture import Chart, Picture

Verdict: TypeAlias = Literal["improved", "regressed", "no detectable change", "cannot judge"]
Learned: TypeAlias = Literal["the same", "worse", "better", "not shown", "cannot be paired", "no losses"]
Concern: TypeAlias = Literal["learns worse", "not shown to learn the same"]
Weight: TypeAlias = Literal["blocks", "doubts", "noted"]
Per: TypeAlias = Literal["step", "sample", "token", "unit"]  # "unit": of work, as somebody counted it


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured value with the range in which the true one lies with a probability of 95%."""

    low: float
    likely: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """Return so many times as much, the factor being known."""
        return Interval(self.low * factor, self.likely * factor, self.high * factor)

    @property
    def half_share(self) -> float:
        """Return half its width as a share of the value, 0.02 is ±2%; infinite of a value that is not above 0."""
        return (self.high - self.low) / 2 / self.likely if self.likely > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: a run, or several repeats of it."""

    paths: tuple[str, ...]
    run: RunInfo
    summary: Summary
    steps: int  # that are compared, of all repeats
    warm_up: int  # steps that were dropped before them, of each repeat
    steps_from: str  # what they were recognised by
    step_time_s: float | None  # median of the steps that are compared; None where nothing tells of steps
    step_time_mean_s: float | None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    usd_per_million_samples: float | None = None
    usd_per_million_tokens: float | None = None
    picture: Picture | None = field(default=None, metadata=DRAWN, compare=False, repr=False)  # None: not asked for
    findings: tuple[Finding, ...] = field(default=(), metadata=DRAWN)  # of its report


@dataclass(frozen=True, slots=True)
class Confounder:
    """What else differs between two runs, so that the difference may come from it."""

    name: str  # of the setting or counter: "sm_clock_mhz", "gpu", "node"
    before: str
    after: str
    weight: Weight  # "blocks": no verdict unless forced; "doubts": said beside it; "noted": listed
    message: str


@dataclass(frozen=True, slots=True)
class Promise:
    """What BEFORE's report predicted of a fix, beside what came of it."""

    rule: str
    title: str
    made: (
        bool | None
    )  # the change is seen in AFTER: its settings differ as it asks, or the finding is gone; None unknown
    predicted: Estimate | None  # speedup of the mean step; None where nothing was predicted
    measured: Interval | None  # the same
    came_true: bool | None  # a gain was measured, and its interval meets the predicted one; None: cannot be said
    why: str = ""
    beside: tuple[str, ...] = ()  # settings that were changed as well, and may have their part in what was measured


@dataclass(frozen=True, slots=True)
class Learning:
    """Whether the model learns the same: losses of both runs, step by step."""

    verdict: Learned
    message: str
    short: str = ""  # what is bad about it, in a few words for the first line; "" nothing is known to be
    steps: int = 0  # pairs that were compared
    loss_before: float | None = None  # mean of them
    loss_after: float | None = None
    difference: Interval | None = None  # after - before; 90%, as two one-sided tests at 5% have it
    margin: float | None = None  # how much may differ and still count as the same
    slope_before: float | None = None  # loss per step, over the pairs
    slope_after: float | None = None
    nan_before: int = 0  # losses that were no numbers
    nan_after: int = 0
    grad_norm_before: float | None = None  # mean over the same steps, of those that a trainer printed it of
    grad_norm_after: float | None = None
    required: str = ""  # why it has to be shown: precision or batch size changed

    @property
    def lacks_proof(self) -> bool:
        """Say whether it has to be shown what the model learns, and is not."""
        return bool(self.required) and self.verdict not in {"the same", "better", "worse"}


@dataclass(frozen=True, slots=True)
class Change:
    """An operator or a kernel that two traces do not run alike."""

    kind: Literal["operator", "kernel"]
    name: str
    what: Literal["added", "removed", "slower", "faster", "more often", "less often"]
    count_before: float  # per step
    count_after: float
    seconds_before: float  # per step
    seconds_after: float
    on: Literal["device", "host"] = "device"  # whose time that is
    operator: str = ""  # of a kernel: the one that launches most of it; "" where that was not recorded
    now: str = ""  # of a kernel: the one that runs in its place, as often and under the same operator


@dataclass(frozen=True, slots=True)
class Comparison(Shown):
    """The whole answer of `whyidle compare`."""

    verdict: Verdict  # of speed alone; `concern` and `exit_code` say the rest
    message: str  # one sentence, the answer first
    before: Arm
    after: Arm
    speedup: Interval | None = None  # ratio of median step times, before over after; above 1 is faster
    throughput_ratio: Interval | None = None  # ratio of mean step times; per sample where the batch size differs
    per: Per = "step"  # what throughput_ratio counts
    smallest_detectable: float | None = None  # a change of the mean that would be called one with 80%: 0.02 is 2%
    between_runs: bool = False  # repeats were given on both sides; else only what varies within a run is known
    learning: Learning | None = None
    confounders: tuple[Confounder, ...] = ()
    not_recorded: tuple[str, ...] = ()  # what should be alike, and is not known of both
    predicted: tuple[Promise, ...] = ()
    changes: tuple[Change, ...] = ()
    changes_per: Literal["step", "recording"] | None = None  # None: the two have no traces that can be compared
    warnings: tuple[str, ...] = ()
    # step times of both sides, step by step and as distributions; empty where not asked for
    charts: tuple[Chart, ...] = field(default=(), metadata=DRAWN, compare=False, repr=False)

    @property
    def concern(self) -> Concern | None:
        """Return what speaks against AFTER however fast it is: `verdict` is of speed alone."""
        if self.learning is None:
            return None
        if self.learning.verdict == "worse":
            return "learns worse"
        return "not shown to learn the same" if self.learning.lacks_proof else None

    @property
    def exit_code(self) -> int:
        """Return 0 improved or no change, 1 regressed, learns worse or may do so, 2 could not judge."""
        if self.verdict == "cannot judge":
            return 2
        return int(self.verdict == "regressed" or self.concern is not None)
