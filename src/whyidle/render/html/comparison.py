"""The page of `whyidle compare`: did it help, by how much, how sure is that, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from whyidle.model.comparison import Arm, Comparison, Confounder, Interval, Learning, Promise, Verdict
from whyidle.model.finding import Finding
from whyidle.model.picture import Picture, Timeline
from whyidle.render.base import Look
from whyidle.render.comparison import (
    answer,
    came_of,
    comparison_json,
    doubts,
    learning_text,
    rows,
)
from whyidle.render.html.figures import figure
from whyidle.render.html.names import ends
from whyidle.render.html.rows import Item, Jump, TableRow
from whyidle.render.html.scales import Scale
from whyidle.render.html.section import Section, capital, filled
from whyidle.render.html.sides import Sides, sides
from whyidle.render.html.verb_page import verb_page
from whyidle.render.html.whiskers import Whisker, around, whisker
from whyidle.render.notes import by_name
from whyidle.render.words import clean, duration, gpu_name, kernel_name, percent, plural, rate, times, unit_price

TONES: Final[dict[Verdict, str]] = {
    "improved": "good",
    "regressed": "bad",
    "no detectable change": "plain",
    "cannot judge": "unknown",
}
WEIGHTS: Final = {"blocks": "refuses a verdict", "doubts": "casts doubt", "noted": "noted"}
LONGEST: Final = 80  # characters of a headline
EDGE: Final = 3.0  # percent of an axis: a number that stands nearer to its end has no room
MOST_CHANGES: Final = 30  # operators and kernels


@dataclass(frozen=True, slots=True)
class _Effect:
    """The ratio, drawn against "as before" and what would not be detected."""

    whisker: Whisker
    one: float  # where 1.0x stands, percent
    blind: tuple[float, float] | None  # from where to where a change would not be seen
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """A prediction, and what came of it."""

    promise: Promise
    came: str
    text: str
    predicted: Whisker | None
    measured: Whisker | None


def comparison_page(found: Comparison, look: Look) -> str:
    """Return the page."""
    made = (
        _verdict(found),
        _time(found),
        _numbers(found),
        _charts(found),
        _timelines(found),
        _promises(found),
        _findings(found),
        _learning(found),
        _differs(found),
        _changes(found),
    )
    return verb_page(answer(found)[0], made, comparison_json(found, look), look, _picture(found))


def _picture(found: Comparison) -> Picture:
    return Picture(tuple(_both(found)), found.charts)


def _both(found: Comparison) -> Iterator[Timeline]:
    """Yield the first timeline of both sides, before and after; none where one has none."""
    pictures = [found.before.picture, found.after.picture]
    firsts = [one.timelines[0] for one in pictures if one is not None and one.timelines]
    if len(firsts) == len(pictures):
        yield from (replace(one, title=f"{side}: {one.title}") for side, one in zip(("before", "after"), firsts))  # noqa: B905


def _verdict(found: Comparison) -> Section:
    first, more = _headed(found)
    tone = "bad" if found.exit_code == 1 else TONES[found.verdict]
    judged = found.verdict != "cannot judge"
    return Section(
        "verdict",
        "",
        filled(
            "comparison_verdict",
            first=first,
            more=more,
            tone=tone,
            facts=list(_facts(found)) if judged else [],
            effect=_effect(found) if judged else None,
            smallest=found.smallest_detectable,
            between_runs=found.between_runs,
            doubts=list(doubts(found)),
            arms=list(_arms(found)),
        ),
    )


def _headed(found: Comparison) -> tuple[str, str]:
    """Return the headline and what stands below it: reasons for no verdict that make no headline stand there."""
    first, more = answer(found)
    head, colon, why = first.partition(": ")
    if found.verdict != "cannot judge" or len(first) <= LONGEST or not colon:
        return first, more
    return f"{head}.", f"{capital(why)} {more}".rstrip()


def _facts(found: Comparison) -> Iterator[Item]:
    """Yield the numbers that people ask for: how much faster, how long a step takes, what it costs, what idles."""
    ratio, one, other = found.throughput_ratio, found.before, found.after
    if ratio is not None and times(ratio.likely, 2) not in answer(found)[0]:
        yield Item(f"{found.per}s per second", times(ratio.likely, 2), f"95%: {_range(ratio)}")
    if one.step_time_mean_s is not None and other.step_time_mean_s is not None:
        yield Item("a step, mean", f"{duration(one.step_time_mean_s)} → {duration(other.step_time_mean_s)}")
    for unit in ("samples", "tokens"):
        had, has = (getattr(arm, f"usd_per_million_{unit}") for arm in (one, other))
        if had is not None and has is not None:
            yield Item(f"a million {unit}", f"{unit_price(had)} → {unit_price(has)}", _change(had, has))
    had, has = (arm.summary.gpu_idle_share for arm in (one, other))
    if had is not None and has is not None:
        yield Item("GPU idle", f"{percent(had)} → {percent(has)}")


def _change(before: float, after: float) -> str:
    """Return "-34%"; "" for what rounds to nothing."""
    share = after / before - 1 if before > 0 else 0.0
    return f"{share:+.0%}" if abs(share) >= 0.005 else ""


def _range(ratio: Interval) -> str:
    return f"{times(ratio.low, 2)} to {times(ratio.high, 2)}"


def _effect(found: Comparison) -> _Effect | None:
    """Return where the ratio stands beside no change at all."""
    ratio, smallest = found.throughput_ratio, found.smallest_detectable
    if ratio is None:
        return None
    blind = None if smallest is None else (1 - smallest, 1 + smallest)
    scale: Scale = around([1.0, ratio.low, ratio.likely, ratio.high, *(blind or ())])
    ticks = tuple((scale.at(value), f"{value:.4g}x") for value in scale.ticks() if EDGE < scale.at(value) < 100 - EDGE)
    places = None if blind is None else (scale.at(blind[0]), scale.at(blind[1]))
    return _Effect(whisker(ratio, scale), scale.at(1.0), places, ticks)


def _arms(found: Comparison) -> Iterator[tuple[str, str, str, str]]:
    """Yield of each side what it is called, its files as short as they tell the sides apart, their paths, and more."""
    whole = [[clean(path) for path in arm.paths] for arm in (found.before, found.after)]
    short = iter(ends([path for paths in whole for path in paths]))
    for name, arm, paths in zip(("before", "after"), (found.before, found.after), whole, strict=True):
        yield name, ", ".join(next(short) for _ in paths), ", ".join(paths), _about(arm)


def _about(arm: Arm) -> str:
    """Return what a side is besides its files, on a line: GPUs, steps."""
    gpus = [f"{gpu.count} x {gpu_name(gpu.name)}" for gpu in arm.run.gpus]
    ranks = [plural(arm.run.world_size, "rank")] if arm.run.world_size else []
    warm = f" after {arm.warm_up} of warm-up" if arm.warm_up else ""
    steps = [f"{plural(arm.steps, 'step')}{warm}"] if arm.steps else []
    return " · ".join([*gpus, *ranks, *steps])


def _time(found: Comparison) -> Section | None:
    """Return the two bars."""
    shown: Sides | None = sides(found)
    if shown is None:
        return None
    return Section("time", shown.title, filled("comparison_time", sides=shown), short="Time")


def _numbers(found: Comparison) -> Section | None:
    """Return speed and cost; where the time goes stands beside the bars already."""
    drawn = sides(found) is not None
    table = [
        TableRow((row.label.strip(), row.before, row.after, row.ratio))
        for row in rows(found)
        if not (drawn and (row.label.startswith(" ") or not row.before))
    ]
    return None if not table else Section("numbers", "Numbers", filled("comparison_numbers", rows=table))


def _charts(found: Comparison) -> Section | None:
    if not found.charts:
        return None
    drawn = [figure(chart, index, tall=True) for index, chart in enumerate(found.charts)]
    return Section("steps", "Step times", filled("charts", families=[("", drawn)], above=""))


def _timelines(found: Comparison) -> Section | None:
    shown = list(_both(found))
    if not shown:
        return None
    return Section("timeline", "Timelines", filled("comparison_timelines", timelines=shown))


def _promises(found: Comparison) -> Section | None:
    """Return what was predicted of the fixes, and what came of it."""
    told = [(each, _came(each)) for each in found.predicted if each.made or each.predicted is not None]
    if not told:
        return None
    every = [r for each, _ in told for r in (each.predicted, each.measured) if r is not None]
    scale = around([1.0, *(value for r in every for value in (r.low, r.high))])
    lines = [_Line(each, came, came_of(each), *_drawn(each, scale)) for each, came in told]
    return Section("promises", "Predictions", filled("comparison_promises", lines=lines, one=scale.at(1.0)))


def _drawn(promise: Promise, scale: Scale) -> tuple[Whisker | None, Whisker | None]:
    """Return where the prediction and the measurement stand."""
    told, measured = promise.predicted, promise.measured
    predicted = None if told is None else whisker(Interval(told.low, told.likely, told.high), scale)
    return predicted, None if measured is None else whisker(measured, scale)


def _came(promise: Promise) -> str:
    if not promise.made:
        return "not made"
    if promise.came_true is None:
        return "made"
    return "came true" if promise.came_true else "not as predicted"


def _findings(found: Comparison) -> Section | None:
    """Return which findings are gone, which are new, which are left, and which one side cannot tell of."""
    one, other = found.before, found.after
    had, has = _by_rule(one), _by_rule(other)
    if not had and not has:
        return None
    gone = [had[rule] for rule in had if rule not in has]
    new = [has[rule] for rule in has if rule not in had]
    groups = (
        ("gone", 0, [each for each in gone if each.rule not in other.not_asked]),
        ("new", 1, [each for each in new if each.rule not in one.not_asked]),
        ("left", 1, [has[rule] for rule in has if rule in had]),
        ("not judged after", 0, [each for each in gone if each.rule in other.not_asked]),
        ("not judged before", 1, [each for each in new if each.rule in one.not_asked]),
    )
    drawn = list(_both(found))
    lines = [
        TableRow(
            (clean(each.rule), _lost(each.rule, had, one), _lost(each.rule, has, other), each.message),
            mark=head,
            jump=_jump(each, drawn, side),
        )
        for head, side, findings in groups
        for each in findings
    ]
    return Section("findings", "Findings", filled("comparison_findings", rows=lines))


def _by_rule(arm: Arm) -> dict[str, Finding]:
    """Return the first finding of each rule, which costs the most."""
    found: dict[str, Finding] = {}
    for each in arm.findings:
        found.setdefault(each.rule, each)
    return found


def _jump(finding: Finding, drawn: list[Timeline], side: int) -> Jump | None:
    """Return where a finding shows in the timeline of its side; None where that is not drawn."""
    for place in finding.locations if drawn else ():
        if place.start_s is not None and place.end_s is not None and place.file == drawn[side].file:
            return Jump(side, round(place.start_s * 1e9), round(place.end_s * 1e9))
    return None


def _lost(rule: str, findings: Mapping[str, Finding], arm: Arm) -> str:
    finding = findings.get(rule)
    if finding is None:
        return "not known" if rule in arm.not_asked else "–"
    return finding.severity if finding.lost_share is None else percent(finding.lost_share)


def _learning(found: Comparison) -> Section | None:
    learned = found.learning
    if learned is None or (learned.verdict == "no losses" and not learned.required):
        return None
    return Section(
        "learning",
        "Learning",
        filled(
            "comparison_learning",
            text=learning_text(learned),
            tone=_learned(learned),
            items=list(_losses(learned)),
            effect=_margin(learned),
        ),
    )


def _learned(learned: Learning) -> str:
    if learned.verdict == "worse":
        return "bad"
    return "good" if learned.verdict in {"the same", "better"} else "plain"


def _losses(learned: Learning) -> Iterator[Item]:
    if learned.loss_before is not None and learned.loss_after is not None:
        yield Item("mean loss", f"{learned.loss_before:.4g} → {learned.loss_after:.4g}", plural(learned.steps, "step"))
    if learned.difference is not None:
        low, high = learned.difference.low, learned.difference.high
        yield Item("difference", f"{learned.difference.likely:+.2g}", f"90%: {low:+.2g} to {high:+.2g}")
    if learned.margin is not None:
        yield Item("counts as the same", f"±{learned.margin:.2g}")
    if learned.slope_before is not None and learned.slope_after is not None:
        yield Item("loss per step", f"{learned.slope_before:.2g} → {learned.slope_after:.2g}")
    if learned.grad_norm_before is not None and learned.grad_norm_after is not None:
        yield Item("gradient norm", f"{learned.grad_norm_before:.3g} → {learned.grad_norm_after:.3g}")
    if learned.nan_before or learned.nan_after:
        yield Item("losses that are no numbers", f"{learned.nan_before:,} → {learned.nan_after:,}")


def _margin(learned: Learning) -> _Effect | None:
    """Return the difference of the losses within what counts as the same."""
    if learned.difference is None or learned.margin is None:
        return None
    between = learned.difference
    scale = around([-learned.margin, learned.margin, between.low, between.high])
    inner = [value for value in scale.ticks() if EDGE < scale.at(value) < 100 - EDGE]
    ticks = tuple((scale.at(value), f"{value:+.2g}" if value else "0") for value in inner)
    places = scale.at(-learned.margin), scale.at(learned.margin)
    return _Effect(whisker(between, scale), scale.at(0.0), places, ticks)


def _differs(found: Comparison) -> Section | None:
    """Return what else is not alike, and what nobody recorded."""
    order = list(WEIGHTS)
    lines = [
        TableRow((each.name, each.before, each.after, each.message), mark=_weight(each, found))
        for each in sorted(found.confounders, key=lambda each: order.index(each.weight))
    ]
    warnings = [by_name(clean(text), found.before.run, found.after.run) for text in found.warnings]
    if not (lines or found.not_recorded or warnings):
        return None
    return Section(
        "differs",
        "What else differs",
        filled("comparison_differs", rows=lines, not_recorded=found.not_recorded, warnings=warnings),
    )


def _weight(each: Confounder, found: Comparison) -> str:
    forced = each.weight == "blocks" and found.verdict != "cannot judge"
    return "overruled by --force" if forced else WEIGHTS[each.weight]


def _changes(found: Comparison) -> Section | None:
    if found.changes_per is None:
        return None
    lines = [
        TableRow(
            (
                f"{kernel_name(each.name)}{f', now {kernel_name(each.now)}' if each.now else ''}",
                each.what,
                f"{rate(each.count_before)} → {rate(each.count_after)}",
                f"{duration(each.seconds_before)} → {duration(each.seconds_after)}",
            ),
            mark=each.kind,
        )
        for each in found.changes[:MOST_CHANGES]
    ]
    more = max(len(found.changes) - MOST_CHANGES, 0)
    html: Markup = filled("comparison_changes", rows=lines, more=more, per=found.changes_per)
    return Section("operators", "Operators", html)
