"""Recordings of real jobs: busy shares against figures that were computed apart, and causes that are known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from scoring.alike import answers
from scoring.outcome import NoReport, report_on, said
from scoring.rates import Rate, Spread
from whyidle.model.finding import Report


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a recording, or of a folder that is one run.

    `first`: its makers say that this is what is wrong. `claimed`: it is there, but nobody says how much it matters.
    `absent`: it is not there.
    """

    path: str
    place: Literal["first", "claimed", "absent"]
    cause: str
    why: str


NO_WORKERS = "input.workers_zero"
KNOWN = (
    Known("kineto/resnet50_num_workers_0/*", "first", NO_WORKERS, "the tutorial of this recording: num_workers=0"),
    Known("kineto/resnet50_autograd_api_num_workers_0/*", "claimed", NO_WORKERS, "the same script, its start recorded"),
    Known("kineto/resnet50_num_workers_4/*", "absent", "input.*", "its tutorial: workers relieve the loader"),
    Known("kineto/dlrm_8_ranks", "claimed", "dist.straggler", "its ranks come to the collectives 7 ms apart"),
    Known("kineto/batch_size_sweep/batch_size_2.json.gz", "first", "host.launch_bound", "the small end of a sweep"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said of a recording of which the cause is known."""

    path: str
    expected: str
    first: str
    right: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """A recording without a verdict or without a busy share."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class DeviceError:
    """A device and how far off its busy share is."""

    path: str
    device: str
    points: float


@dataclass(frozen=True, slots=True)
class Corpus:
    """The score on the corpus."""

    recordings: int
    busy_points: Spread
    worst: tuple[DeviceError, ...]
    known: tuple[Verdict, ...]
    known_right: Rate
    failed: tuple[Failure, ...]


NAMED = 3


def score_corpus(folder: Path) -> Corpus:
    facts: Mapping[str, Any] = json.loads((folder / "FACTS.json").read_text("utf-8"))
    reports: dict[str, Report] = {}
    failed: list[Failure] = []
    for name in sorted(facts):
        report = _report(folder / name)
        if isinstance(report, Report):
            reports[name] = report
        else:
            failed.append(Failure(name, report))
    errors = [error for name, report in reports.items() for error in busy_errors(name, facts[name], report)]
    failed += [
        Failure(name, report.summary.verdict)
        for name, report in reports.items()
        if facts[name]["devices"] and report.summary.gpu_busy_share is None
    ]
    known = tuple(_known(folder, reports))
    return Corpus(
        recordings=len(facts),
        busy_points=Spread.of([error.points for error in errors]),
        worst=tuple(sorted(errors, key=lambda error: -abs(error.points))[:NAMED]),
        known=known,
        known_right=Rate.among([verdict.right for verdict in known]),
        failed=tuple(failed),
    )


def _report(path: Path) -> Report | str:
    report = report_on(path)
    return f"{report.failure}: {report.why}" if isinstance(report, NoReport) else report


def busy_errors(name: str, facts: Mapping[str, Any], report: Report) -> Iterator[DeviceError]:
    """Yield report - fact for each device of which a fact and a busy share are known, in points."""
    seen = {str(device.device): device.busy_share for device in report.summary.devices}
    for device, values in facts["devices"].items():
        if device in seen:
            fact = values.get("busy_share_of_step_window", values["busy_share_of_gpu_span"])
            yield DeviceError(name, device, 100 * (seen[device] - fact))


def _known(folder: Path, reports: Mapping[str, Report]) -> Iterator[Verdict]:
    for known in KNOWN:
        paths = [name for name in reports if fnmatch(name, known.path)]
        for path in paths or [known.path]:
            report = reports[path] if path in reports else _report(folder / path)
            yield verdict(known, path, report)


def verdict(known: Known, path: str, report: Report | str) -> Verdict:
    """Say whether a report says what is known; `absent` forbids findings at medium or above only."""
    expected = f"{known.cause} {known.place}"
    if isinstance(report, str):
        return Verdict(path, expected, report, right=False)
    findings = said(report)
    accepted = answers(known.cause)
    right = {
        "first": [finding.rule in accepted for finding in findings[:1]],
        "claimed": [finding.rule in accepted and finding.claim for finding in findings],
        "absent": [not any(finding.grave and fnmatch(finding.rule, known.cause) for finding in findings)],
    }
    return Verdict(path, expected, findings[0].rule if findings else "nothing", any(right[known.place]))
