"""What whyidle says of curves whose truth is known: shape, busy share, cause, false alarms, confidence.

Knows the truth and the report, and no threshold of the analyser.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import whyidle
from scoring.rates import Rate
from whyidle.errors import WhyIdleError
from whyidle.model.finding import Finding, Report

LEAST = 0.02  # share of the time, below which a shape is nothing to speak of
SEVERE = 0.2  # share of the time: shapes are to be right from here on
SHAPES = "curve."
NOTHING = "nothing"
EDGES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.61)
CURVE_CONFIDENCE = 0.6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is true of one job, and what was said; `error` where there was no report."""

    truth: dict[str, Any]
    findings: tuple[Finding, ...]
    healthy: bool
    judged: bool
    busy_error: float | None  # |said - true| of the worst GPU; of the whole where GPUs are not told apart
    cpu_s: float
    error: str = ""

    @property
    def shape(self) -> str:
        """Return the shape class in which most time is lost, else what is said first; "nothing" without a finding."""
        shapes = [finding for finding in self.findings if finding.rule.startswith(SHAPES)]
        known = [finding.rule for finding in self.findings if finding.rule in self.truth["accepted"]]
        if not shapes:
            return known[0] if known else NOTHING
        return max(shapes, key=lambda finding: finding.lost_share or 0.0).rule

    @property
    def is_right(self) -> bool:
        return self.shape in self.truth["accepted"]

    @property
    def names_shape(self) -> bool:
        """Say whether the shape is among all that is said, the largest or not."""
        return any(finding.rule in self.truth["accepted"] for finding in self.findings)

    @property
    def names_cause(self) -> bool:
        """Say whether the cause is a finding, or a candidate of one."""
        return any(self.truth["cause"] in (finding.rule, *finding.candidates) for finding in self.findings)

    @property
    def names_family(self) -> bool:
        family = str(self.truth["cause"]).split(".", maxsplit=1)[0]
        said = {rule.split(".")[0] for finding in self.findings for rule in (finding.rule, *finding.candidates)}
        return family in said

    @property
    def severe(self) -> bool:
        """Whether so much is lost that the shape has to be right; measured shares are a little off what was asked."""
        return self.truth["primary"] is not None and self.truth["asked"] >= SEVERE - 1e-9

    @property
    def false(self) -> tuple[Finding, ...]:
        """Return findings at medium or above that nothing in the job accounts for."""
        there = {*self.there, self.truth["cause"]}
        grave = [finding for finding in self.findings if finding.severity != "low" and finding.rule not in there]
        return tuple(finding for finding in grave if self.truth["cause"] not in finding.candidates)

    @property
    def there(self) -> set[str]:
        """Return the shapes that are in the job, the largest or not."""
        return {*self.truth["accepted"], *(shape for shape, share in self.truth["shapes"].items() if share >= LEAST)}


def judge_job(folder: Path, truth: dict[str, Any]) -> Outcome:
    """Judge the files of a job as a user would."""
    began = time.process_time()
    try:
        report = whyidle.diagnose([folder / truth["name"]])
    except WhyIdleError as error:
        return Outcome(truth, (), False, False, None, time.process_time() - began, f"{error}")
    took = time.process_time() - began
    return Outcome(truth, report.findings, report.healthy, report.judged, _busy_error(truth, report), took)


def _busy_error(truth: dict[str, Any], report: Report) -> float | None:
    true = {device["device"]: device["busy_share"] for device in truth["devices"]}
    told = {device.device: device.busy_share for device in report.summary.devices}
    if truth["format"] != "cloudwatch" and told:
        return max((abs(told[gpu] - share) if gpu in told else 1.0) for gpu, share in true.items())
    whole = report.summary.gpu_busy_share
    return None if whole is None else abs(whole - float(np.mean(list(true.values()))))


@dataclass(frozen=True, slots=True)
class Bin:
    """Shapes said with a confidence in [low, high), and how many of these are there."""

    low: float
    high: float
    said: float | None
    right: Rate
    first: Rate  # of which the candidate that is named first is the cause


@dataclass(frozen=True, slots=True)
class Score:
    """The board. Shares of jobs; of those with a fault, the severe ones unless it says otherwise."""

    jobs: int
    refused: tuple[tuple[str, str], ...]  # job, why
    shape: Rate
    shape_by_kind: dict[str, Rate]
    shape_among: Rate
    by_severity: dict[float, Rate]
    cause: Rate
    family: Rate
    healthy: Rate
    false_on_healthy: tuple[str, ...]
    false_high: tuple[str, ...]  # on any job
    busy_mean: float | None
    busy_max: tuple[float, str] | None
    busy_unknown: int
    confidence_max: float
    calibration: tuple[Bin, ...]
    confusion: dict[str, Counter[str]]
    wrong: tuple[Outcome, ...]  # of the severe ones, by shape
    unnamed: tuple[Outcome, ...]  # of the severe ones, whose cause is neither finding nor candidate
    cpu_s: float


def score(outcomes: Sequence[Outcome]) -> Score:
    """Count."""
    severe = [one for one in outcomes if one.severe]
    ill = [one for one in outcomes if one.truth["primary"]]
    well = [one for one in outcomes if one.truth["primary"] is None]
    caused = [one for one in severe if one.truth["cause"]]
    errors = [(one.busy_error, one.truth["name"]) for one in outcomes if one.busy_error is not None]
    said = [f for one in outcomes for f in one.findings if f.rule.startswith(SHAPES)]
    return Score(
        jobs=len(outcomes),
        refused=tuple((one.truth["name"], one.error) for one in outcomes if one.error),
        shape=Rate.among([one.is_right for one in severe]),
        shape_by_kind=_by(severe, "kind"),
        shape_among=Rate.among([one.names_shape for one in severe]),
        by_severity=_by(ill, "asked"),
        cause=Rate.among([one.names_cause for one in caused]),
        family=Rate.among([one.names_family for one in caused]),
        healthy=Rate.among([one.healthy for one in well]),
        false_on_healthy=tuple(f"{one.truth['name']}: {f.rule}" for one in well for f in one.false),
        false_high=tuple(
            f"{one.truth['name']}: {f.rule}" for one in outcomes for f in one.false if f.severity == "high"
        ),
        busy_mean=float(np.mean([error for error, _ in errors])) if errors else None,
        busy_max=max(errors) if errors else None,
        busy_unknown=len(outcomes) - len(errors),
        confidence_max=max((finding.confidence for finding in said), default=0.0),
        calibration=tuple(_bins(outcomes)),
        confusion=_confusion(severe + well),
        wrong=tuple(one for one in severe if not one.is_right),
        unnamed=tuple(one for one in caused if not one.names_cause),
        cpu_s=sum(one.cpu_s for one in outcomes),
    )  # fmt: skip


def _by(outcomes: Iterable[Outcome], name: str) -> dict[Any, Rate]:
    groups: dict[Any, list[bool]] = {}
    for one in outcomes:
        groups.setdefault(one.truth[name], []).append(one.is_right)
    return {key: Rate.among(groups[key]) for key in sorted(groups)}


def _confusion(outcomes: Iterable[Outcome]) -> dict[str, Counter[str]]:
    table: dict[str, Counter[str]] = {}
    for one in outcomes:
        said = one.truth["primary"] if one.is_right else one.shape  # another shape that is right, too, counts as it
        table.setdefault(one.truth["primary"] or NOTHING, Counter())[said or NOTHING] += 1
    return table


def _bins(outcomes: Iterable[Outcome]) -> Iterable[Bin]:
    """Is what is said with a confidence of c there in so many of the cases? Of shapes at medium and above."""
    rows = [
        (f.confidence, f.rule in one.there, one.truth["cause"] in (f.candidates[:1] or (f.rule,)))
        for one in outcomes
        for f in one.findings
        if f.rule.startswith(SHAPES) and f.severity != "low"
    ]
    for low, high in pairwise(EDGES):
        inside = [row for row in rows if low <= row[0] < high]
        yield Bin(
            low,
            high,
            float(np.mean([row[0] for row in inside])) if inside else None,
            Rate.among([row[1] for row in inside]),
            Rate.among([row[2] for row in inside]),
        )
