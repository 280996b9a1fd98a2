"""Truths, outcomes and reports that tests of scoreboards write in a few words."""

from __future__ import annotations

from scoring import Outcome
from scoring.records import Fault, Said, Truth
from whyidle.model.finding import Finding, Report, RunInfo, Summary


def job(faults=(), name="job", family="gpt", **more):
    """A truth: faults as (id, severity), reached as asked."""
    faults = tuple(Fault(cause, severity, severity) for cause, severity in faults)
    return Truth(name, family, seed=0, ranks=1, faults=faults, **more)


def outcome(faults=(), *findings, truth=None, **more):
    """An outcome: findings as (rule, severity, confidence, lost_share), what is left out as given here."""
    said = tuple(Said(rule, *rest, *("high", 0.9, 0.3)[len(rest) :]) for rule, *rest in findings)
    return Outcome(truth or job(faults), said, **more)


def report(*findings, judged=True, **summary):
    made = tuple(Finding(rule, severity, confidence, "", lost) for rule, severity, confidence, lost in findings)
    return Report(RunInfo(), Summary("verdict", gpu_idle_share=0.5, gpu_busy_share=0.5, **summary), made, judged=judged)
