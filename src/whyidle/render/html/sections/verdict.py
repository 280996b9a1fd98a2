"""The first screen: what is wrong, what to do, what it is worth. It never says more than the evidence does."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whyidle.model.finding import WATCH, Finding, Fix, Report
from whyidle.render.headline import facts_of, no_finding, sentences
from whyidle.render.html.bar import parts_of
from whyidle.render.html.section import Section, filled
from whyidle.render.html.sections.warnings import told
from whyidle.render.notes import bill_of, fewer_recorded, joined, unpriced
from whyidle.render.passages import EFFORT, certainty, lost, measured_next, problem
from whyidle.render.words import basename, clean, middle, percent
from whyidle.render.worth import Gain, all_made, all_of, gain, is_alone, ordered, priced

LONG = 44  # characters: a longer answer stands in smaller type
REFUSED = "Cannot judge: "  # what a refusal begins with
NAME = 60  # characters of the name of a recording
OTHERS = 3  # findings after the first that are named on the first screen


@dataclass(frozen=True, slots=True)
class First:
    """What to do first, and what that brings."""

    finding: Finding
    fix: Fix | None
    gain: Gain | None  # None: not predicted
    lost: str
    alone: bool  # the gain is that of this fix without those that should come before it


def section(report: Report) -> Section:
    """Return the first screen of the page."""
    verdict, path = (report.summary.verdict, "") if report.judged else without_folder(report.summary.verdict)
    answer, aside, more = said_in(verdict)
    state = "refused" if not report.judged else "healthy" if report.healthy else "found"
    cost = report.summary.cost
    others, of = _others(report)
    return Section(
        "verdict",
        "",
        filled(
            "verdict",
            report=report,
            state=state,
            answer=answer,
            aside=aside,
            more=more,
            path=path,
            is_long=len(answer) > LONG,
            facts=_facts(report),
            parts=parts_of(report),
            first=first_of(report),
            watch=WATCH,
            joined=joined(report),
            together=_together(report),
            others=others,
            of=of,
            why_first=_why_first(report),
            warned=len(told(report)) if report.judged else 0,
            refused=clean(report.prediction.refused).rstrip(".") if report.prediction is not None else "",
            bill=bill_of(report, cost, everything=False) if cost is not None else "",
            like=fewer_recorded(report, cost) if cost is not None else 0,
            price=clean(cost.price_source) if cost is not None else "",
            unpriced=unpriced(report) if report.summary.gpu_idle_share is not None and cost is None else "",
            no_finding=no_finding(report),
            effort=EFFORT,
            certainty=certainty,
        ),
    )


def _facts(report: Report) -> list[str]:
    """Return what the answer is about, and first what that is called."""
    name = middle(clean(report.picture.name), NAME) if report.picture is not None else ""
    return [*([name] if name else []), *facts_of(report)]


def said_in(verdict: str) -> tuple[str, str, str]:
    """Return the verdict in three parts: its answer, what stands in brackets at the end of that, all other sentences.

    Joined by spaces they are the verdict; a page sets them in different type.
    """
    first, *rest = sentences(verdict)
    brackets = re.fullmatch(r"(.+?) (\([^()]*\)\.?)", first)
    answer, aside = (brackets[1], brackets[2]) if brackets else (first, "")
    return answer, aside, " ".join(rest)


def without_folder(verdict: str) -> tuple[str, str]:
    """Return a refusal in which a file stands without its folder, and its whole path; "" where it names none."""
    found = re.match(rf"({re.escape(REFUSED)})((?:[A-Za-z]:)?[^\s:]*[/\\][^:]*?)(?=: )", verdict)
    if found is None or not (name := basename(found[2])):
        return verdict, ""
    return f"{REFUSED}{name}{verdict[found.end() :]}", found[2]


def first_of(report: Report) -> First | None:
    """Return what to do first; None where nothing is to be done, or only to be measured."""
    if not report.judged or report.healthy or not report.findings:
        return None
    finding = report.findings[0]
    fix = priced(finding, report.prediction) or next(iter(finding.fixes), None)
    brings = gain(fix.predicted, report) if fix is not None and fix.predicted is not None else None
    said = lost(finding, report.summary) if finding.lost_share else ""
    if measured_next(finding, report):
        fix = None
    return First(finding, fix, brings, said, is_alone(finding, report.prediction))


def _others(report: Report) -> tuple[list[tuple[int, str, str]], str]:
    """Return further findings where no order of fixes names them: number, what is wrong, what is lost.

    And of what that is a share, where it is the same for all of them: "of the step".
    """
    if len(ordered(report)) > 1:
        return [], ""
    told = [
        (number, problem(finding), lost(finding, report.summary).partition(", ")[0])
        for number, finding in enumerate(report.findings, start=1)
        if number > 1 and finding.lost_share
    ][:OTHERS]
    whole = {share.partition(" ")[2] for _, _, share in told}
    if len(whole) != 1:
        return told, ""
    return [(number, shown, share.partition(" ")[0]) for number, shown, share in told], whole.pop()


def _why_first(report: Report) -> str:
    """Return why another finding, which costs more, does not come first; empty where none does."""
    first, *rest = report.findings or (None,)
    larger = [finding.saved_share for finding in rest if first is not None and finding.saved_share > first.saved_share]
    if not larger:
        return ""
    return f"by saving × certainty ÷ effort; another could save more ({percent(max(larger))})"


def _together(report: Report) -> tuple[str, Gain] | None:
    """Return "all 5" and what they bring, where the order has several fixes."""
    made, every = ordered(report), all_made(report)
    return (all_of(len(made)), gain(every, report)) if len(made) > 1 and every is not None else None
