"""A run as a witness: everything that was measured and judged of it, ready to be asked about lines of source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from whyidle.measure import Measured, stacks
from whyidle.measure.stacks import Frame, Stacks
from whyidle.model.evidence import Run, Value
from whyidle.model.finding import LOW, Finding, Location, Report, severity_of
from whyidle.model.measurement import Measurements
from whyidle.rules import all_rules

Names: TypeAlias = tuple[str, ...]

FEW = 3  # steps: of fewer nothing is cleared, since what was queued before them may hide what costs (judgement)
UNSEEN = 0.001  # of the time: less than that has no digits (judgement)

# The measured losses that findings of a rule would be, where several rules share what is measured: alternatives, of
# which the first name has to be there, and what is lost is their sum.
LOSSES: Mapping[str, tuple[Names, ...]] = {
    "sync.scalar_read": (("sync_scalar_lost_share", "sync_readback_lost_share", "d2h_exposed_share"),),
    "sync.data_dependent": (("sync_data_dependent_lost_share",),),
    "sync.grad_clip": (("sync_grad_clip_lost_share",),),
    "sync.framework": (("sync_framework_lost_share",),),
    "sync.logging_metrics": (("idle_logging_share", "sync_scalar_lost_share", "sync_readback_lost_share"),),
    "transfer.pageable_h2d": (("h2d_exposed_share", "sync_upload_lost_share", "idle_h2d_prep_share"),),
    "transfer.h2d_in_step": (("h2d_small_lost_share", "h2d_small_exposed_share"),),
    "input.workers_zero": (("idle_loader_zero_share",), ("lost_data_zero_share",)),
    "input.worker_startup": (("lost_data_first_share",),),
}
# The same of everything else that a DataLoader can hold up: in a trace, or in the log of a whole run.
INPUT: tuple[Names, ...] = (
    ("idle_data_wait_share",),
    ("lost_data_zero_share", "lost_data_workers_share", "lost_data_first_share"),
)

# What lines of a rule cost besides the waits of the host: the GPU copies, or the host works.
BESIDE: Mapping[str, Names] = {
    "sync.scalar_read": ("d2h_exposed_share",),
    "sync.logging_metrics": ("idle_logging_share",),
    "transfer.pageable_h2d": ("h2d_exposed_share", "idle_h2d_prep_share"),
    "transfer.h2d_in_step": ("h2d_small_exposed_share", "h2d_small_lost_share"),
}


@dataclass(frozen=True)
class Recording:
    """The run, what was measured in it, and the verdict."""

    run: Run
    measured: Measured
    report: Report

    @cached_property
    def stacks(self) -> Stacks:
        """Return in which functions the job waits for the GPU."""
        return stacks.measure(self.measured.analyses)

    @cached_property
    def named(self) -> frozenset[Frame]:
        """Return the functions that ran at any time."""
        return stacks.named(self.measured.analyses)

    @property
    def ranks(self) -> int:
        """Return how many recordings of GPU work there are. What is measured is their mean: one may lose it all."""
        return max(len(self.measured.analyses), 1)

    @property
    def short(self) -> bool:
        """Say whether so few steps were recorded that what is not in them may be in others."""
        steps = self.report.summary.steps
        return "step log" not in self.report.run.levels and steps is not None and steps < FEW

    @property
    def m(self) -> Measurements:
        return self.measured.measurements

    @property
    def settings(self) -> Mapping[str, Value]:
        return self.report.run.settings

    @property
    def no_gpu(self) -> bool:
        return self.report.summary.on_gpu is False

    def found(self, rule: str) -> Finding | None:
        """Return what the judgement found of a rule."""
        return next((finding for finding in self.report.findings if finding.rule == rule), None)

    def alike(self, rule: str) -> str | None:
        """Return a rule that was found where the evidence cannot tell it from this one."""
        return next((finding.rule for finding in self.report.findings if rule in finding.candidates), None)

    def asked(self, rule: str) -> bool:
        """Say whether there is such a rule, and it had its evidence."""
        return any(one.id == rule and not one.missing(self.m) for one in all_rules())

    def loss(self, rule: str) -> float | None:
        """Return how much all waits of a rule's kind cost, found or not; None where that was not measured."""
        ways = LOSSES.get(rule, INPUT if rule.startswith("input.") else ())
        told = (names for names in ways if names[0] in self.m)
        return max((sum(self.m.get(name, 0.0) for name in names) for names in told), default=None)

    def beside(self, rule: str) -> float:
        """Return what lines of a rule cost besides waits, which no frame ties to a line."""
        return sum(self.m.get(name, 0.0) for name in BESIDE.get(rule, ()))

    def seconds(self, share: float) -> float | None:
        """Return what a share of the time is of each step."""
        step = self.report.summary.step_time_mean_s
        return None if step is None else share * step

    def per_step(self, share: float) -> str:
        """Return a loss in words: "3.2 ms per step, 4.1% of the time"."""
        if share < UNSEEN:
            return f"less than {UNSEEN:.1%} of the time"
        seconds = self.seconds(share)
        of_time = f"{share:.1%} of the time"
        return of_time if seconds is None else f"{seconds * 1e3:.2g} ms per step, {of_time}"


def confirmed(
    finding: Finding,
    recording: Recording,
    share: float,
    confidence: float,
    seen: str,
    places: tuple[Location, ...] = (),
) -> Finding:
    """Return a finding that the run bears out, with what its line costs."""
    return replace(
        finding,
        severity=severity_of(share) or "low",
        confidence=confidence,
        lost_share=share,
        lost_per_step_s=recording.seconds(share),
        seen=seen,
        locations=(*finding.locations, *places),
        evidence="confirmed",
    )


def cleared(finding: Finding, recording: Recording, seen: str, share: float | None = None) -> Finding:
    """Return a finding that the run does not bear out: nothing is lost by it, or its setting is another."""
    if recording.short:
        return unseen(finding, f"{seen}; but fewer than {FEW} steps were recorded, which settles nothing")
    return replace(
        finding,
        severity="low",
        lost_share=share,
        lost_per_step_s=None if share is None else recording.seconds(share),
        seen=seen,
        evidence="cleared",
    )


def settled(
    finding: Finding,
    recording: Recording,
    share: float,
    confidence: float,
    seen: str,
    places: tuple[Location, ...] = (),
    worst: float = 0.0,
) -> Finding:
    """Return the finding confirmed where its line costs what is worth telling (2% of the time), else cleared.

    `worst` is what it costs the rank that it costs most: `share` is of all of them.
    """
    if max(share, worst) >= LOW:
        return confirmed(finding, recording, share, confidence, seen, places)
    return cleared(finding, recording, seen, share)


def unseen(finding: Finding, seen: str) -> Finding:
    """Return a finding of which the run tells nothing, with what would."""
    return replace(finding, seen=seen, evidence="source")
