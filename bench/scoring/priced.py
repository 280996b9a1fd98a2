"""Simulated jobs, and what whyidle predicts for them: what `jobs` is for findings, this is for prices."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import whyidle
from scoring.jobs import DIAGNOSE_SECONDS, LeftOut, limited, made
from scoring.matrix import Job
from scoring.outcome import NoReport, judge_failure, judge_one, report_on
from scoring.predictions import Priced, Promise
from whyidle import replay
from whyidle.measure import measure
from whyidle.model.finding import Finding, Fix, Predicted, Report
from whyidle.rules import all_rules

# What loses its time in the host's waiting for a batch: the naive answer subtracts the time of the loader's ranges.
OF_DATA = "input."


def run(jobs: Sequence[Job], keep: Path | None, processes: int) -> Iterator[Priced | LeftOut]:
    """Yield what came of each job, in the order in which they end."""
    if processes == 1:
        yield from (one(job, keep) for job in jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(one, job, keep) for job in jobs]):
            yield future.result()


def one(job: Job, keep: Path | None) -> Priced | LeftOut:
    """Simulate a job, unless it is there from before, and ask what its fixes are worth."""
    if keep is not None:
        return _ask(job, keep)
    with tempfile.TemporaryDirectory() as folder:
        return _ask(job, Path(folder))


def _ask(job: Job, folder: Path) -> Priced | LeftOut:
    truth = made(job, folder)
    return truth if isinstance(truth, LeftOut) else price(truth, folder / job.name)


def price(truth: Mapping[str, Any], path: Path) -> Priced:
    """Ask for the report with predictions; of two faults also for both cures together."""
    with limited(3 * DIAGNOSE_SECONDS):
        began = time.process_time()
        report = report_on(path, lambda paths: whyidle.diagnose(paths, predict=True))
        took = time.process_time() - began
        if isinstance(report, NoReport):
            return Priced(judge_failure(truth, report.failure, report.why), truth["step_time_s"])
        priced = priced_of(truth, report, identity=identity(path), cpu_s=took)
        rules = [said.rule for fault in priced.outcome.truth.faults if (said := priced.finding_of(fault.id))]
        if len(priced.outcome.truth.faults) < 2 or len(set(rules)) < 2:
            return priced
        asked = report_on(path, lambda paths: whyidle.diagnose(paths, predict=True, what_if=tuple(rules)))
    return priced if isinstance(asked, NoReport) else replace(priced, together=_together(asked))


def priced_of(
    truth: Mapping[str, Any], report: Report, *, identity: Sequence[float] = (), cpu_s: float | None = None
) -> Priced:
    """Return what of a report with predictions is scored."""
    prediction, outcome = report.prediction, judge_one(truth, report)
    if prediction is None:
        raise ValueError("The report has no predictions: whyidle.diagnose(paths, predict=True).")
    return Priced(
        outcome=outcome,
        step_s=truth["step_time_s"],
        without_all_s=truth.get("step_time_without_all_s"),
        base_s=prediction.step_time_mean_s,
        recorded_s=report.summary.step_time_mean_s,
        refused=prediction.refused,
        identity=tuple(identity),
        promises=tuple(_promises(report)),
        naive={finding.rule: _naive(finding, report) for finding in report.findings},
        unpriced=dict(prediction.unpriced),
        sequence=tuple(applied.rule for applied in prediction.sequence),
        together=_together(report),
        cpu_s=cpu_s,
    )


def _together(report: Report) -> Promise | None:
    """Return what the combination that was asked for promises."""
    asked = report.prediction.asked if report.prediction else ()
    return next((_promise(" + ".join(one.rules), "", (), one.predicted) for one in asked if one.predicted), None)


def _promises(report: Report) -> Iterator[Promise]:
    for finding in report.findings:
        for place, fix in enumerate(finding.fixes):
            prior = any(edit.coefficients.get("prior") for edit in fix.edits)
            promise = _promise(finding.rule, fix.title, _kinds(fix), fix.predicted, place, prior=prior)
            if promise:
                yield promise


def _kinds(fix: Fix) -> tuple[str, ...]:
    return tuple(edit.kind for edit in fix.edits)


def _promise(
    rule: str, title: str, kinds: tuple[str, ...], predicted: Predicted | None, place: int = 0, *, prior: bool = False
) -> Promise | None:
    if predicted is None:
        return None
    mean = predicted.step_time_mean_s
    return Promise(rule, title, kinds, prior, mean.low, mean.likely, mean.high, place)


def _naive(finding: Finding, report: Report) -> float:
    """Return the share of the step that the causes of a finding take, as if that time were all to be saved."""
    summary = report.summary
    if finding.rule.startswith(OF_DATA) and summary.data_wait_share:
        return summary.data_wait_share
    rule = next((rule for rule in all_rules() if rule.id == finding.rule), None)
    causes = rule.explains if rule else ()
    idle = sum(summary.idle_by_cause.get(cause, 0.0) for cause in causes)
    return idle or finding.lost_share or 0.0


def identity(path: Path) -> tuple[float, ...]:
    """Return for each step of each rank replayed over recorded, less 1."""
    errors: list[float] = []
    for analysis in measure(whyidle.load([path])).analyses:
        recorded, again = replay.identity(analysis)
        errors += [float(error) for error in np.asarray(again) / np.asarray(recorded) - 1]
    return tuple(errors)
