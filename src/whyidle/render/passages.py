"""A finding as a person reads it: what is wrong, what it costs, what to change, where it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose

from rich.cells import cell_len
from rich.text import Text

from whyidle.model.finding import EFFORT_COST, WATCH, Effort, Finding, Fix, Location, Report, Severity, Summary
from whyidle.model.times import span
from whyidle.render.lines import INDENT, LABEL, cut, hang, wrap
from whyidle.render.words import basename, clean, duration, kernel_name, money, percent, shorten
from whyidle.render.worth import faster, following, is_alone, priced, worth

SAME_STEP = 0.02  # a share of the window and one of the median step are the same within this
LONG = 60  # s: such a time is told in whole seconds
MAY_BE = 2  # lines of what a shape could be
NAME = 60  # characters of a frame or kernel that tell it from others
STYLE: Mapping[Severity, str] = {"high": "bold red", "medium": "bold yellow", "low": "bold"}
EFFORT: Mapping[Effort, str] = {"argument": "one argument", "setting": "a setting", "code": "code change"}

# What a message ends with where the loss stands beside it.
_COST = re.compile(r",?(?: which costs(?: up to)?| for) <?\d+% of the [^,;]*$")


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a finding there is room for; None: all of it."""

    full: int | None = None  # findings in full, the others in two lines
    most: int | None = None  # findings, in full or not
    seen: int | None = None  # lines on what shows it; where it shows has one of its own
    brief: bool = False  # whether other fixes than the first have one line each
    others: bool = True  # whether the other fixes are shown
    order: int | None = None  # rows of the order in which to make fixes; what all bring has one of its own


def finding_lines(number: int, finding: Finding, report: Report, width: int, room: Room) -> Iterator[Text]:
    """Yield a finding in full."""
    message = Text(clean(finding.message), style="bold")
    yield from hang(_head(number, finding), message, width, indent=LABEL)
    yield from _worth(finding, report, width, room)
    told = priced(finding, report.prediction)
    shown = finding.fixes if room.others else finding.fixes[:1] if told is None else (told,)
    for index, fix in enumerate(() if measured_next(finding, report) else shown):
        yield from _change("or" if index else "change", fix, width, room if index and room.brief else Room())
        if not room.brief and fix.predicted is not None and fix is not priced(finding, report.prediction):
            yield from hang(_label("worth"), Text(worth(fix.predicted, report)), width)
            yield from _assumed(fix, width)
    one = None if room.seen is None else 1
    label = "seen"
    if finding.seen and (room.seen != 0 or not finding.locations):
        yield from hang(_label(label), Text(clean(finding.seen)), width, most=room.seen or one)
        label = ""
    if finding.locations:
        several = len(report.summary.devices) > 1
        first = finding.locations[0]
        first = first if len({device.node for device in report.summary.devices}) > 1 else _without_host(first)
        where = place(first) if one is None or first.line is not None else moment(first, several)
        yield from hang(_label(label), Text(where), width, most=one)
    if finding.candidates:
        yield from _candidates(finding, width, one)
    if room.order != 0 and (then := following(finding, report)):
        yield from hang(_label("then"), Text(then), width)


def _candidates(finding: Finding, width: int, most: int | None) -> Iterator[Text]:
    """Yield what else it could be, the likeliest first: whole names, as many as there is room for."""
    names = [clean(name) for name in finding.candidates]
    shape = finding.rule.startswith("curve.")  # which is no cause by itself
    head, before = (_label("may be"), "") if shape else (_label(""), "could also be ")
    lines = len(names) if most is None else MAY_BE if shape else 1
    room = width - INDENT
    fits = (n for n in range(len(names), 1, -1) if len(wrap(before + _several(names, n), room, room)) <= lines)
    kept = next(fits, 1)
    yield from hang(head, Text(before + _several(names, kept)), width)


def _several(names: Sequence[str], kept: int) -> str:
    more = len(names) - kept
    return ", ".join(names[:kept]) + (f" and {more} more" if more else "")


def measured_next(finding: Finding, report: Report) -> bool:
    """Say whether what to do is the next measurement, which the notes name once for all findings."""
    return report.run.only_curves and all(fix.change.startswith(WATCH) for fix in finding.fixes)


def _without_host(location: Location) -> Location:
    """Return a place on the curve of a GPU without the name of its host, as where there is one only."""
    name = location.name or ""
    return replace(location, name=name[name.find("gpu ") :]) if re.search(r" gpu \d", name) else location


def compact(number: int, finding: Finding, report: Report, width: int) -> Iterator[Text]:
    """Yield a finding in short: what is wrong in a line, and what is lost and what to change."""
    head = _head(number, finding)
    yield Text.assemble(head, shorten(problem(finding), width - len(head)))
    fix = priced(finding, report.prediction)
    lost = percent(finding.lost_share) if finding.lost_share else ""
    if fix is not None and fix.predicted is not None:
        alone = " alone" if is_alone(finding, report.prediction) else ""
        label, lost = "worth", faster(fix.predicted, doubt=False) + alone
    else:
        label = "lost" if lost else "change"
    told = None if measured_next(finding, report) else fix or next(iter(finding.fixes), None)
    change = (told.change.splitlines() or [told.title])[0] if told else ""
    text = "   change  ".join(filter(None, (lost, clean(change))))
    if finding.evidence == "source":  # nobody saw what it costs
        label, text = "source", f"{place(finding.locations[0])} can stall: {clean(finding.seen)}"
    if text:
        yield from hang(_label(label), Text(text, style="dim"), width)


def problem(finding: Finding) -> str:
    """Return what is wrong, without what it costs, where the loss stands beside it."""
    return _COST.sub("", clean(finding.message).rstrip("."))


def tag(finding: Finding, told: Fix | None = None) -> str:
    """Return what the order rests on besides the loss: the effort of the fix that is told of, and how sure we are."""
    sure = certainty(finding)
    if finding.rule.startswith("curve."):  # to measure is no change of the job
        return sure
    best = told or max(finding.fixes, key=lambda fix: fix.applies / EFFORT_COST[fix.effort], default=None)
    return sure if best is None else f"{EFFORT[best.effort]} · {sure}"


def certainty(finding: Finding) -> str:
    """Return how sure we are that this is the cause, in a word."""
    return "sure" if finding.confidence >= 0.8 else "likely" if finding.confidence >= 0.5 else "unsure"


def place(location: Location) -> str:
    """Return where to look: "trace.json.gz rank 0, step 7, at 0.123-0.190 s of the recording, in step", "train.py:12".

    Times count from the start of the recording, as a trace viewer shows them.
    """
    name = basename(location.file)
    if location.line is not None:
        return f"{name}:{location.line}" + (f":{location.column}" if location.column is not None else "")
    return f"{name} {moment(location, which=True)}".rstrip()


def moment(location: Location, which: bool) -> str:
    """Return when and in what, and on which device if there are several; or else the file."""
    parts = []
    if location.rank is not None and which:
        parts.append(f"rank {location.rank}")
    of_gpu = f"gpu {location.device}"
    of_curve = location.name is not None and location.name.partition(" MIG")[0].endswith(of_gpu)
    if location.device is not None and location.rank is None and which:
        parts.append(
            re.sub(r"\bgpu (?=\d)", "GPU ", clean(location.name or "")) if of_curve else f"GPU {location.device}"
        )
    if location.step is not None:
        parts.append(f"step {location.step}")
    if location.start_s is not None and location.end_s is not None:
        # as many decimals as it takes to tell the ends apart
        long = location.end_s - location.start_s
        ends = (location.start_s, location.end_s)
        whole = (of_curve and long >= 10) or (long > 0 and all(float(end).is_integer() for end in ends))
        decimals = 0 if long >= LONG or whole else next((n for n in (3, 4, 5) if long >= 10 ** (1 - n)), 6)
        both = f"{location.start_s:.{decimals}f}\N{EN DASH}{location.end_s:.{decimals}f} s"
        parts.append(f"at {both} of the recording")
    elif location.start_s is not None:
        parts.append(f"from {location.start_s:.0f} s of the recording on")
    if location.name and not of_curve:
        parts.append(f"in {shorten(kernel_name(clean(location.name)), NAME)}")
    return ", ".join(parts)


def _head(number: int, finding: Finding) -> Text:
    return Text.assemble(
        (f"{number:>3}", "bold"), "  ", (f"{clean(finding.rule):<{LABEL - 7}}", STYLE[finding.severity]), "  "
    )


def _label(word: str) -> Text:
    return Text(f"     {word:<{INDENT - 5}}", style="dim")


def _change(label: str, fix: Fix, width: int, room: Room) -> Iterator[Text]:
    """Yield what to type, all of it; where one line has to do for several, the name of the fix."""
    lines = fix.change.splitlines() or [fix.title]
    if room.brief and len(lines) > 1:
        lines = [fix.title]
    rows = [row for line in lines for row in code(clean(line), width - INDENT)]
    for index, row in enumerate(cut(rows, 1, width - INDENT) if room.brief else rows):
        yield Text.assemble(_label("" if index else label), (row, "cyan"))


def code(line: str, width: int) -> list[str]:
    """Return a line of code as rows; a comment too long to stand beside it stands under it, so that both paste."""
    before, mark, comment = line.partition("  # ")
    if mark and before.strip() and cell_len(line) > width:
        margin = " " * (len(before) - len(before.lstrip()))
        return [*wrap(before.rstrip(), width, width), *wrap(f"{margin}# {comment}", width, width)]
    return wrap(line, width, width)


def _worth(finding: Finding, report: Report, width: int, room: Room) -> Iterator[Text]:
    """Yield what a fix would bring where that was predicted, else what is lost."""
    summary, fix = report.summary, priced(finding, report.prediction)
    if fix is not None and fix.predicted is not None:
        label = "worth"
        text = worth(fix.predicted, report, " alone" if is_alone(finding, report.prediction) else "")
        text = text if fix is finding.fixes[0] else f"{clean(fix.title)}: {text}"
    elif finding.lost_share:
        label, text = "lost", lost(finding, summary)
    else:  # nothing is wrong: none.compute_bound
        return
    yield from hang(_label(label), Text(text), width, tail=Text(f"· {tag(finding, fix)}", style="dim"))
    if fix is not None and not room.brief:
        yield from _assumed(fix, width)


def _assumed(fix: Fix, width: int) -> Iterator[Text]:
    """Yield what a prediction rests on that nobody measured in this job."""
    if fix.predicted is not None and fix.predicted.rests_on:
        yield from hang(_label(""), Text(f"assumes {'; '.join(map(clean, fix.predicted.rests_on))}"), width)


def _started(share: float, summary: Summary) -> str:
    """Return what was lost before the first step ended, no part of the watched time; empty if the share is another."""
    start, watched = summary.startup_s, summary.watched_s
    if not start or watched is None or not isclose(share, start / (start + watched), rel_tol=1e-9):
        return ""
    text = f"{percent(share)} of the run, {duration(start)} of {duration(start + watched)}"
    return text + _dollars(share, summary)


def lost(finding: Finding, summary: Summary) -> str:
    """Return the loss as a share and as time: of a step, where the steps fill the window, else of all of it."""
    share = finding.lost_share or 0.0
    if started := _started(share, summary):
        return started
    if finding.rule.startswith("curve.") and finding.rule != "curve.data_wait":  # which is of the steps of a log
        return f"{percent(share)} of the curve" + _dollars(share, summary)
    if not summary.steps:
        return f"{percent(share)} of the time" + _dollars(share, summary)
    step, window = summary.step_time_s, summary.watched_s or summary.window_s
    if window and (not step or abs(window / summary.steps / step - 1) > SAME_STEP):
        said = span if window >= LONG else duration
        text = f"{percent(share)} of the time, {said(share * window)} of {said(window)}"
    else:
        text = f"{percent(share)} of the step" + (f", {duration(share * step)}" if step else "")
    return text + _dollars(share, summary)


def _dollars(share: float, summary: Summary) -> str:
    if summary.cost is None or share <= 0:
        return ""
    hourly = summary.cost.usd_per_gpu_hour
    return f", {money(share * hourly)} per GPU-hour"
