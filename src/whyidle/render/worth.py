"""What fixes are worth, in words: one alone, one after the other, all together, and what a person asked for.

Savings of single fixes are never added: they share time. What several bring is told by the order in which to make them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from whyidle.model.finding import (
    HEALTHY_IDLE,
    MEDIUM,
    Applied,
    Asked,
    Estimate,
    Finding,
    Fix,
    Predicted,
    Prediction,
    Report,
    Summary,
)
from whyidle.render.lines import hang
from whyidle.render.words import change, clean, duration, money, percent, times

DIFFER = 0.02  # of a speedup: where that of the median step differs more from that of the mean, the mean is told
MONTH = 730  # hours of one that a job runs all through: 24 * 365 / 12
DOUBT = ", may not be faster"
GONE = "not found in this recording"
_DASH = "\N{EN DASH}"


def priced(finding: Finding, prediction: Prediction | None) -> Fix | None:
    """Return the fix of which to tell what it is worth: the one that stands in the order, else the first predicted."""
    predicted = [fix for fix in finding.fixes if fix.predicted is not None]
    chosen = {(applied.rule, applied.title) for applied in _sequence(prediction)}
    return next((fix for fix in predicted if (finding.rule, fix.title) in chosen), next(iter(predicted), None))


def worth(predicted: Predicted, report: Report, alone: str = "") -> str:
    """Return "176 → 117 ms/step, 1.5x (1.4-1.6x); $0.87 of each $2.60 GPU-hour"; `alone` stands behind the step."""
    before, speedup = now(report), predicted.speedup
    if round(speedup.likely, 2) < 1.0:
        return f"slower: {', '.join(filter(None, (steps(before, predicted), faster(predicted, doubt=False))))}"
    if round(speedup.likely, 2) == 1.0:
        stays = f": the step stays at {duration(before[0])}" if before[0] else ""
        return f"nothing{stays} ({_interval(speedup, 2)})"
    step = steps(before, predicted)
    fast = (f"{step}{alone}, " if step else "") + faster(predicted)
    return "; ".join(filter(None, (fast, dollars(predicted, report))))


@dataclass(frozen=True, slots=True)
class Gain:
    """What a change is worth in parts, to be set in a page; `said` is all of it in one line."""

    said: str
    step: str  # "176 → 117"; empty where the step is not known
    unit: str  # of that: "ms/step", "ms/step, mean"
    speedup: str  # "1.5x (1.4-1.6x)"; empty where there is none
    money: str  # "$0.87 of each $2.60 GPU-hour"; empty without a price
    month: str  # what that comes to in a month of running

    @property
    def has_interval(self) -> bool:
        """Say whether the speedup has one: both ends may read the same."""
        return _DASH in self.speedup

    @property
    def is_doubtful(self) -> bool:
        """Say whether it may come to nothing."""
        return self.speedup.endswith(DOUBT)


def gain(predicted: Predicted, report: Report) -> Gain:
    """Return what a change is worth in parts."""
    said = worth(predicted, report)
    if round(predicted.speedup.likely, 2) <= 1.0:
        return Gain(said, "", "", "", "", "")
    spent = dollars(predicted, report)
    usd = predicted.usd_per_hour_saved
    month = f"${usd * MONTH:,.0f}" if usd is not None and spent else ""
    return Gain(said, *_with_unit(steps(now(report), predicted)), faster(predicted), spent, month)


def _with_unit(step: str) -> tuple[str, str]:
    """Return "mean 176 → 117 ms/step" as its numbers and what they are, so that those can stand smaller."""
    numbers, _, unit = step.removeprefix("mean ").rpartition("\N{NO-BREAK SPACE}")
    return numbers, f"{unit}, mean" if step.startswith("mean ") else unit


def now(report: Report) -> tuple[float, float]:
    """Return the median and the mean step, in s, that predictions are held against; 0 where not known."""
    told, summary = report.prediction, report.summary
    median = (told and told.step_time_s) or summary.step_time_s or 0.0
    return median, (told and told.step_time_mean_s) or summary.step_time_mean_s or median


def steps(before: tuple[float, float], predicted: Predicted, *, of_mean: bool | None = None) -> str:
    """Return "176 → 117 ms/step": the median, or the mean where a change of pauses shows only there.

    Args:
        before: median and mean step before the change, in s.
        predicted: after it.
        of_mean: tell the mean in any case, or the median; by default that which the speedup fits.
    """
    median, mean = predicted.step_time_s.likely, predicted.step_time_mean_s.likely
    if not (before[0] and before[1] and median > 0 and mean > 0):
        return ""
    of_mean = differs(before, predicted) if of_mean is None else of_mean
    text = f"mean {change(before[1], mean)}" if of_mean else change(before[0], median)
    return f"{text} per batch of today" if predicted.per == "sample" else f"{text}/step"


def differs(before: tuple[float, float], predicted: Predicted) -> bool:
    """Say whether the median step does not tell the speedup, which is that of the mean.

    It changes by another factor, or reads the same before and after while the mean does not.
    """
    median, mean = predicted.step_time_s.likely, predicted.step_time_mean_s.likely
    if not (before[0] and before[1] and median > 0 and mean > 0):
        return False
    stays = duration(before[0]) == duration(median) and duration(before[1]) != duration(mean)
    return stays or abs((before[0] / median) / (before[1] / mean) - 1) > DIFFER


def faster(predicted: Predicted, *, doubt: bool = True) -> str:
    """Return "1.5x (1.4-1.6x)", per sample where the batch grows; with `doubt` also that it may come to nothing."""
    speedup = predicted.speedup
    decimals = 2 if speedup.low < 1.05 or speedup.likely < 1.15 else 1 if speedup.likely < 9.95 else 0
    text = times(speedup.likely, decimals)
    interval = _interval(speedup, decimals)
    text += f" ({interval})" if _DASH in interval else ""
    text += " per sample" if predicted.per == "sample" else ""
    return text + (DOUBT if doubt and round(speedup.low, 2) <= 1.0 else "")


def _interval(estimate: Estimate, decimals: int) -> str:
    """Return "1.4-1.6x"; one number where both ends read the same."""
    low, high = times(estimate.low, decimals), times(estimate.high, decimals)
    return high if low == high else f"{low.removesuffix('x')}{_DASH}{high}"


def dollars(predicted: Predicted, report: Report) -> str:
    """Return "$0.87 of each $2.60 GPU-hour", or what all GPUs save per hour where idle time has no price."""
    saved, cost = predicted.usd_per_hour_saved, report.summary.cost
    if saved is None or saved < 0.005:  # which no cent shows
        return ""
    if cost is None:
        return f"{money(saved)} per hour"
    each = saved / cost.gpus
    return f"{money(each)} of each {money(cost.usd_per_gpu_hour)} GPU-hour" if each >= 0.005 else ""


def limit(applied: Applied, summary: Summary) -> str:
    """Return what limits the job once this fix and those before it are made."""
    idle = applied.predicted.gpu_idle_share
    more = idle is not None and idle > (summary.gpu_idle_share or 0.0) + HEALTHY_IDLE
    left = "" if idle is None else f" ({percent(idle)} idle{', as the GPU has less to do' if more else ''})"
    if applied.then:
        return f"the next limit is {clean(applied.then)}{left}"
    if idle is not None and idle < HEALTHY_IDLE:
        return f"the GPU is the limit{left}" if _computes(summary) else f"the GPU is busy, collectives and all{left}"
    return f"no other fix found here saves more{left}"


def following(finding: Finding, report: Report, *, order_is: str = "below") -> str:
    """Return what comes after a finding's fix, or that others make it needless; empty where the order says it."""
    sequence = _sequence(report.prediction)
    if not sequence or priced(finding, report.prediction) is None:
        return ""
    if finding.rule == sequence[0].rule:
        return limit(sequence[0], report.summary)
    if finding.rule in {applied.rule for applied in sequence} or sequence[-1].then:
        return ""
    made = f"{clean(sequence[0].rule)} is fixed" if len(sequence) == 1 else f"those in the order {order_is} are fixed"
    return f"nothing more to gain once {made}"


def is_alone(finding: Finding, prediction: Prediction | None) -> bool:
    """Say whether what a fix is worth has to be told apart from what it adds to those before it."""
    sequence = _sequence(prediction)
    return bool(sequence) and finding.rule != sequence[0].rule


def later(finding: Finding, prediction: Prediction | None) -> str:
    """Return that a fix that brings hardly anything by itself pays after those before it; empty where it does not."""
    told = priced(finding, prediction)
    made = next((one for one in _sequence(prediction) if one.rule == finding.rule), None)
    if told is None or told.predicted is None or made is None or round(told.predicted.speedup.low, 2) > 1.0:
        return ""
    alone = 1 - 1 / told.predicted.speedup.likely
    if made.saved_share < max(MEDIUM, 2 * alone):
        return ""
    return f"after those before it in the order it saves {percent(made.saved_share)} of today's step"


@dataclass(frozen=True, slots=True)
class Made:
    """A fix of the order in which to make them, from where the one before it led to where it leads."""

    applied: Applied
    before: tuple[float, float]  # median and mean step, in s
    of_mean: bool  # that is told; all of an order alike, so that each begins where the one before it ended

    @property
    def said(self) -> str:
        """Return "176 → 117 ms/step"."""
        predicted = self.applied.predicted
        share = f"{percent(self.applied.saved_share)} of today's step"
        return steps(self.before, predicted, of_mean=self.of_mean) or share


def ordered(report: Report) -> tuple[Made, ...]:
    """Return the fixes in the order in which to make them."""
    made, before = [], now(report)
    sequence = _sequence(report.prediction)
    of_mean = any(differs(before, applied.predicted) for applied in sequence)
    for applied in sequence:
        made.append(Made(applied, before, of_mean))
        before = applied.predicted.step_time_s.likely, applied.predicted.step_time_mean_s.likely
    return tuple(made)


def all_made(report: Report) -> Predicted | None:
    """Return what the job does once all fixes of the order are made."""
    sequence = _sequence(report.prediction)
    return (report.prediction and report.prediction.joint) or sequence[-1].predicted if sequence else None


def order(report: Report, width: int, most: int | None) -> Iterator[Text]:
    """Yield the order in which to make fixes, each step from where the one before it led, and what all bring.

    Args:
        report: what was judged.
        width: columns.
        most: fixes to show; None for all of them.
    """
    made, together = ordered(report), all_made(report)
    if text := nothing(report):
        yield Text()
        yield from hang(Text("  "), Text(text, style="bold"), width)
    if len(made) < 2 or together is None:
        return
    yield Text()
    shown = made if most is None else made[:most]
    size = max(len(clean(one.applied.rule)) for one in made)
    for index, one in enumerate(shown):
        head = Text.assemble((f"  {'then' if index else 'first':<7}", "dim"), f"{clean(one.applied.rule):<{size}}  ")
        yield from hang(head, Text(one.said), width)
    if shown and len(made) > len(shown):
        yield Text(f"  and {len(made) - len(shown)} more: --all", style="dim")
    if not shown:
        yield from hang(Text("  "), Text(", then ".join(clean(one.applied.rule) for one in made)), width, most=1)
    head = Text(f"  {all_of(len(made))}: ", style="bold")
    last = limit(made[-1].applied, report.summary)
    yield from hang(head, Text(f"{worth(together, report)}; then {last}"), width)


def answers(report: Report, width: int) -> Iterator[Text]:
    """Yield what the combinations that somebody asked for bring."""
    for asked in report.prediction.asked if report.prediction is not None else ():
        yield Text()
        for question, answer in answered(asked, report):
            yield from _under(question, answer, width)


def answered(asked: Asked, report: Report) -> Iterator[tuple[str, str]]:
    """Yield what somebody asked for and what it brings; apart, what of it was not found."""
    found = {finding.rule for finding in report.findings}
    here = [rule for rule in asked.rules if rule in found]
    gone = [rule for rule in asked.rules if rule not in found]
    if here:
        yield f"with {_and(here)}:", _answer(asked, report)
    if gone:
        yield f"{_and(gone)}:", GONE


def _under(question: str, answer: str, width: int) -> Iterator[Text]:
    """Yield an answer beside its question, or under it where there is no room."""
    if len(question) + len(answer) + 5 <= width:
        yield Text.assemble("  ", (question, "bold"), f" {answer}")
    else:
        yield from hang(Text("  "), Text(question, style="bold"), width)
        yield from hang(Text("    "), Text(answer), width)


def _answer(asked: Asked, report: Report) -> str:
    clauses = clean(asked.why_not).rstrip(".").split("; ")
    why = "; ".join(clause for clause in clauses if not clause.startswith(GONE))  # which is told apart
    if asked.predicted is None:
        return "not predicted" + (f": {why}" if why else "")
    return worth(asked.predicted, report) + (f". {why}" if why else "")


def nothing(report: Report) -> str:
    """Return that there is nothing to do, where fixes were predicted and none saves anything; else nothing."""
    told = report.prediction
    if told is None or told.refused or told.sequence:
        return ""
    idle = report.summary.gpu_idle_share
    replayed = any(fix.predicted for finding in report.findings for fix in finding.fixes)
    every = all(any(fix.predicted for fix in finding.fixes) for finding in report.grave)
    if idle is not None and idle < HEALTHY_IDLE and _computes(report.summary) and every:
        return f"Do nothing: the GPU is the limit ({percent(idle)} idle)."
    return "No fix of these that could be predicted makes the step 1% shorter." if replayed else ""


def _computes(summary: Summary) -> bool:
    """Say whether a busy GPU computes: collectives that run alone, or wait for a peer, keep it busy as well."""
    return max(summary.collective_exposed_share or 0.0, summary.collective_wait_share or 0.0) < MEDIUM


def _sequence(prediction: Prediction | None) -> tuple[Applied, ...]:
    return () if prediction is None or prediction.refused else prediction.sequence


def all_of(count: int) -> str:
    return {2: "both", 3: "all three"}.get(count, f"all {count}")


def _and(names: Sequence[str]) -> str:
    *first, last = map(clean, names)
    return f"{', '.join(first)} and {last}" if first else last
