"""Fixes as a waterfall: from today's step, one after the other, to what is left. Without predictions: what is lost."""

from __future__ import annotations

from dataclasses import dataclass

from whyidle.model.finding import Estimate, Predicted, Report
from whyidle.render.html.section import Section, filled
from whyidle.render.notes import rests_on, unpredicted
from whyidle.render.passages import lost, problem
from whyidle.render.words import clean, duration, money, percent
from whyidle.render.worth import Made, all_made, all_of, answered, limit, nothing, now, ordered, worth

MOST = 12  # losses that are drawn; every finding has its card below


@dataclass(frozen=True, slots=True)
class Row:
    """A fix on top of those before it. Positions are shares of the width."""

    number: int  # of its finding; 0 where there is none
    rule: str
    title: str
    said: str
    saved: str  # what it adds
    before: float
    after: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Loss:
    """What a finding costs at most, where nobody could predict what its fix brings."""

    number: int
    rule: str
    title: str
    said: str
    share: float


def section(report: Report) -> Section | None:
    """Return the waterfall; None where there is nothing to fix, or only to measure."""
    told = report.prediction
    if not report.judged or report.healthy or report.run.only_curves or not report.findings:
        return None
    made, every = ordered(report), all_made(report)
    rows = _rows(report, made)
    losses = [] if rows else _losses(report)
    asked = [pair for one in (told.asked if told is not None else ()) for pair in answered(one, report)]
    if not (rows or losses or asked or nothing(report)):
        return None
    html = filled(
        "fixes",
        rows=rows,
        today=_today(report, made),
        losses=losses,
        asked=asked,
        nothing=nothing(report),
        all=all_of(len(made)) if len(made) > 1 else "",
        every=worth(every, report) if every is not None else "",
        then=limit(made[-1].applied, report.summary) if made else "",
        refused=clean(told.refused).rstrip(".") if told is not None else "",
        basis=list(rests_on(report, told, everything=True)) if told is not None and rows else [],
        assumed=_assumed(made),
        unpredicted=unpredicted(told) if told is not None and not told.refused else {},
    )
    return Section("fixes", "What the fixes bring" if rows else "What could be saved", html, "Fixes")


def _time(made: Made, predicted: Predicted) -> Estimate:
    return predicted.step_time_mean_s if made.of_mean else predicted.step_time_s


def _scale(made: tuple[Made, ...]) -> float:
    ends = [_time(one, one.applied.predicted).high for one in made]
    return max([*ends, made[0].before[made[0].of_mean]]) or 1.0


def _today(report: Report, made: tuple[Made, ...]) -> tuple[str, float] | None:
    """Return the step as it is, in words and as a share of the width."""
    if not made or not all(now(report)):
        return None
    before = made[0].before[made[0].of_mean]
    said = f"mean {duration(before)}" if made[0].of_mean else duration(before)
    return f"{said}/step", before / _scale(made)


def _rows(report: Report, made: tuple[Made, ...]) -> list[Row]:
    if not made or not all(now(report)):
        return []
    numbers = {finding.rule: index for index, finding in reversed(list(enumerate(report.findings, start=1)))}
    scale, rows, usd = _scale(made), [], 0.0
    for one in made:
        applied, time = one.applied, _time(one, one.applied.predicted)
        saved = percent(applied.saved_share)
        hourly = applied.predicted.usd_per_hour_saved
        if hourly is not None and hourly - usd >= 0.005:
            saved += f", {money(hourly - usd)} per hour"
        usd = hourly or usd
        before, after = one.before[one.of_mean] / scale, time.likely / scale
        ends = time.low / scale, time.high / scale
        number = numbers.get(applied.rule, 0)
        rows.append(Row(number, applied.rule, applied.title, one.said, saved, max(before, after), after, *ends))
    return rows


def _losses(report: Report) -> list[Loss]:
    return [
        Loss(
            number,
            finding.rule,
            finding.fixes[0].title if finding.fixes else problem(finding),
            lost(finding, report.summary),
            finding.lost_share,
        )
        for number, finding in enumerate(report.findings, start=1)
        if finding.lost_share
    ][:MOST]


def _assumed(made: tuple[Made, ...]) -> list[str]:
    """Return, each once, what predictions rest on that nobody measured in this job."""
    return list(dict.fromkeys(clean(text) for one in made for text in one.applied.predicted.rests_on))
