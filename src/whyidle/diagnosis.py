"""Files in, verdict out: the one call that the command line and a notebook share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from whyidle import cost
from whyidle.errors import WhyIdleError
from whyidle.fetch import brought
from whyidle.judge import judge, measured_of
from whyidle.measure import Measured
from whyidle.model.evidence import Run
from whyidle.model.finding import Asked, Prediction, Report
from whyidle.read import Progress, load
from whyidle.rules import all_rules

if TYPE_CHECKING:
    from whyidle.lint.files import File
    from whyidle.lint.source import Source

ENDINGS: Final = r"(?:\.(?:gz|json|trace|pt|csv|txt|log|jsonl|prom))+$"  # that say what kind of file it is


def diagnose(
    paths: str | Path | Sequence[str | Path],
    *,
    price: float | None = None,
    price_source: str = cost.YOURS,
    gpus: int | None = None,
    hours: float | None = None,
    predict: bool = True,
    what_if: str | Sequence[str] = (),
    source: str | Path | None = None,
    picture: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Say why the GPU was idle in a recorded run.

    Args:
        paths: files and folders with the evidence of one run: one path, or several. Addresses too, as text:
            "sagemaker://JOB", "prometheus+http://host:9090/"; they are fetched into a folder that is gone afterwards.
        price: US dollars per GPU-hour; without it the list price of the GPU, where we know one.
        price_source: who says so, for the report.
        gpus: GPUs that the job rents; without it the world size, else the devices seen.
        hours: how long the whole job runs, for its total cost.
        predict: whether to predict what fixes are worth.
        what_if: rules whose fixes are predicted together: ["input.workers_zero", "sync.scalar_read"], or one text
            with commas.
        source: file or folder of the code that ran: its lines are named where they are to blame, and what can stall
            there is confirmed or cleared.
        picture: whether the report holds what the HTML page draws: timelines and charts.
        progress: told (path, bytes done, bytes in all) while files are read.

    Raises:
        WhyIdleError: when there is nothing to read, the numbers cannot be, or no rule has a name that `what_if` gives.
    """
    cost.check(usd_per_gpu_hour=price, gpus=gpus, hours=hours)
    asked = rules_in(what_if)
    check(predict=predict, what_if=asked)
    with brought(paths, progress) as here:
        run = here.named(load(here.paths, progress))
    if strange := unheard_of(asked):
        found = [finding.rule for finding in judge(run, predict=False).findings]
        hint = f"found in this recording: {', '.join(dict.fromkeys(found)) or 'nothing'}"
        raise WhyIdleError(f"no rule is called {' or '.join(map(repr, strange))}", hint)
    measured = None if source is None and not picture else measured_of(run)
    report = judge(run, predict=predict, what_if=asked, measured=measured)
    report = cost.price(_answered(report, asked), price, gpus, hours, price_source)
    if measured is None:
        return report
    report = _drawn(report, run, measured, name_of(paths)) if picture else report
    return report if source is None else _beside_source(report, Path(source), run, measured)


def _drawn(report: Report, run: Run, measured: Measured, name: str) -> Report:
    """Return the verdict on a run with what the HTML page draws of it."""
    from whyidle.picture import picture_of  # noqa: PLC0415 - few ask for it

    return replace(report, picture=replace(picture_of(run, measured, report), name=name))


def name_of(paths: str | Path | Sequence[str | Path]) -> str:
    """Return what a recording is called, by the first of the paths that were given: its last part, without endings."""
    first = str(paths if isinstance(paths, str | Path) else next(iter(paths), ""))
    if "://" in first:
        return urlsplit(first).netloc.rpartition("@")[2]
    path = Path(first)
    if first and path.is_dir():
        return path.resolve().name
    return re.sub(ENDINGS, "", path.name)


def _beside_source(report: Report, source: Path, run: Run, measured: Measured) -> Report:
    """Return the verdict on a run with what can stall in its source."""
    from whyidle import proof  # noqa: PLC0415 - few ask for it
    from whyidle.lint.batch import outcomes  # noqa: PLC0415
    from whyidle.lint.files import files_in  # noqa: PLC0415
    from whyidle.lint.report import report_of  # noqa: PLC0415
    from whyidle.lint.settings import settings_for  # noqa: PLC0415

    settings = settings_for(source)
    files, locked = files_in([source], settings.exclude, settings.base)
    found = report_of(list(outcomes(files, settings)), locked)
    weighed = proof.weighed(found.findings, _sources(found, files), run, measured, report)
    return replace(proof.with_source(report, weighed), warnings=(*report.warnings, *found.warnings))


def lint_beside(
    found: Report, files: Sequence[File], paths: str | Path | Sequence[str | Path], *, progress: Progress | None = None
) -> Report:
    """Return what `lint` found with what a recording of the same code says of it.

    Args:
        found: the report on the source.
        files: those that were linted.
        paths: the evidence of one run, as for `diagnose`.
        progress: told (path, bytes done, bytes in all) while files are read.

    Raises:
        WhyIdleError: when there is nothing to read.
    """
    from whyidle import proof  # noqa: PLC0415 - a diagnosis without source does not need it

    with brought(paths, progress) as here:
        run = here.named(load(here.paths, progress))
    measured = measured_of(run)
    report = judge(run, predict=False, measured=measured)
    return proof.against(found, proof.weighed(found.findings, _sources(found, files), run, measured, report), report)


def _sources(found: Report, files: Sequence[File]) -> list[Source]:
    """Return the files in which there are findings, and others called like them, parsed."""
    from whyidle.lint.source import Unread  # noqa: PLC0415

    named = {PurePath(finding.locations[0].file).name for finding in found.findings}
    read = (file.read() for file in files if PurePath(file.name).name in named)
    return [source for source in read if not isinstance(source, Unread)]


def rules_in(what_if: str | Sequence[str]) -> tuple[str, ...]:
    """Return the rules that somebody asks about, each once; commas separate them."""
    given = [what_if] if isinstance(what_if, str) else what_if
    names = [name.strip() for text in given for name in text.split(",")]
    return tuple(dict.fromkeys(filter(None, names)))


def check(*, predict: bool, what_if: Sequence[str]) -> None:
    """Refuse to answer a question and to predict nothing, both at once.

    Raises:
        WhyIdleError: for that.
    """
    if what_if and not predict:
        raise WhyIdleError("--what-if asks for a prediction, and --no-predict for none", "give one of the two")


def unheard_of(rules: Sequence[str]) -> tuple[str, ...]:
    """Return those of these names that no rule has."""
    known = {rule.id for rule in all_rules()}
    return tuple(name for name in rules if name not in known)


def _answered(report: Report, asked: tuple[str, ...]) -> Report:
    """Return the report with an answer to what was asked, also where nothing could be predicted."""
    if not asked or (report.prediction is not None and report.prediction.asked):
        return report
    unknown = "this recording was not replayed" if report.judged else "the recording cannot be judged"
    prediction = report.prediction or Prediction(refused=unknown)
    answer = Asked(asked, None, prediction.refused or unknown)
    return replace(report, prediction=replace(prediction, asked=(answer,)))
