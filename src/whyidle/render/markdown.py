"""The report for where changes are reviewed: comments of pull requests, summaries of CI jobs, issues.

The answer first, then where the time goes, what to do in which order, and folded away what was not judged. What it says
is what the terminal says, as lines without end; what of it is text of files is escaped (`escapes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from rich.text import Text

from whyidle._version import __version__
from whyidle.model.finding import Finding, Fix, Report, Summary
from whyidle.render.advice import unread, warnings
from whyidle.render.bars import bars, draw
from whyidle.render.base import Look, Renderer
from whyidle.render.escapes import code, fence, folded, prose, table
from whyidle.render.lines import INDENT
from whyidle.render.notes import notes
from whyidle.render.passages import EFFORT, Room, compact, finding_lines
from whyidle.render.pasted import fitted, written
from whyidle.render.phases import phases
from whyidle.render.places import in_source, spot
from whyidle.render.words import clean, duration, gpu_name, percent, plural, shorten
from whyidle.render.worth import answers, order, priced

FULL, MOST, ROWS, WARNINGS = 3, 100, 25, 20
LONG: Final = 400  # characters of a text that says one thing
LINES: Final = 30  # of code to type
BAR: Final = 24  # characters
_ENDLESS: Final = 1_000_000  # columns: every passage is a line
_DRAWN: Final = re.compile(r" {2}(?:step)? +(\S.*?) +[█▉▊▋▌▍▎▏]+ +(\d+)%")
# What of the notes is told among them; others have a place of their own.
_NOTES: Final = ("cost", "to find out which", "not predicted", "predicted", "cleared")


class Markdown(Renderer):
    """GitHub's Markdown, below 60,000 characters whatever was found."""

    format = "markdown"

    def render(self, report: Report, look: Look) -> str:
        return written(fitted(_blocks(report, look)), look)


def _blocks(report: Report, look: Look) -> Iterator[str]:
    answer, *more = re.split(r"(?<=[.!?]) (?=[A-Z])", clean(report.summary.verdict), maxsplit=1)
    yield f"### {_told(answer)}"
    yield from (prose(shorten(text, 2 * LONG)) for text in more)
    if about := facts(report):
        yield prose(" · ".join(about))
    yield from _asked(report)
    if report.judged and not report.healthy:
        yield from _where_time_goes(report.summary)
    yield from _ranked(report)
    yield from _order(report)
    for number, finding in enumerate(report.findings[: MOST if look.everything else FULL], start=1):
        yield "\n\n".join(_in_full(number, finding, report))
    yield from _notes(report)
    yield from _not_judged(report)
    yield f"<sub>whyidle {__version__} · `whyidle explain RULE`: why it costs time, and when to ignore it</sub>"


def facts(report: Report) -> list[str]:
    """Return what was judged, in short."""
    run, summary, source = report.run, report.summary, report.summary.source
    if source is not None:
        return [plural(source.files, "file"), plural(source.lines, "line")]
    found = [gpu_name(gpu.name) if gpu.count == 1 else f"{gpu.count} x {gpu_name(gpu.name)}" for gpu in run.gpus]
    ranks = 0 if run.only_curves else len({file.rank for file in run.evidence} - {None}) or min(len(run.evidence), 1)
    if ranks and run.world_size and run.world_size > ranks:
        found.append(f"{ranks:,} of {plural(run.world_size, 'rank')}")
    elif ranks:
        found.append(plural(ranks, "rank"))
    found += [plural(summary.steps, "step")] if summary.steps else []
    return found + ([f"{duration(summary.step_time_s)}/step"] if summary.step_time_s is not None else [])


def _where_time_goes(summary: Summary) -> Iterator[str]:
    """Yield the bars as a table; they add up to 100%."""
    idle = summary.gpu_idle_share
    if idle is not None:
        shown = bars(idle, summary.idle_by_cause)
        rows = [("**busy**", f"{100 - sum(bar.percent for bar in shown)}%", _bar(1 - idle))]
        rows += [(prose(bar.label), f"{bar.percent}%", _bar(bar.share)) for bar in shown]
        yield table(("GPU time", "share", ""), rows, right=(1,))
    rows, said = [], []
    for line in phases(summary, _ENDLESS):
        found = _DRAWN.fullmatch(line.plain)
        if found:
            rows.append((prose(found[1]), f"{found[2]}%", _bar(int(found[2]) / 100)))
        elif line.plain.strip():
            said.append(prose(" ".join(line.plain.split())))
    if rows:
        yield table(("time of a step", "share", ""), rows, right=(1,))
    if said:
        yield "<br>".join(said)
    if len(summary.devices) > 1:
        ranked = sorted(device.busy_share for device in summary.devices)
        low, middle, high = (percent(ranked[at]) for at in (0, len(ranked) // 2, -1))
        yield f"Busy by GPU: {low} to {high}, median {middle}, of {len(ranked):,}."


def _bar(share: float) -> str:
    return code(draw(share, BAR))


def _ranked(report: Report) -> Iterator[str]:
    """Yield the findings as a table, where there are several."""
    findings = report.findings
    if len(findings) < 2:
        return
    rows = [_row(number, finding, report) for number, finding in enumerate(findings[:ROWS], start=1)]
    yield table(("", "finding", "worth" if report.summary.source is None else "where", "change"), rows, right=(0,))
    if len(findings) > ROWS:
        yield f"and {plural(len(findings) - ROWS, 'more finding')}: `-o report.json` has all"


def _row(number: int, finding: Finding, report: Report) -> tuple[str, ...]:
    what, worth = in_short(number, finding, report)
    told = priced(finding, report.prediction) or next(iter(finding.fixes), None)
    if report.summary.source is not None:
        where = in_source(finding)
        said = "" if where is None else code(_end(spot(where)), cell=True)
    else:
        said = _told(worth)
    change = "" if told is None else f"{_told(told.title)} ({EFFORT[told.effort]})"
    return str(number), f"{code(finding.rule, cell=True)} {_told(what)}", said, change


def in_short(number: int, finding: Finding, report: Report) -> tuple[str, str]:
    """Return what is wrong, and what its fix is worth or what is lost; the latter may be empty."""
    first, *rest = compact(number, _brief(finding), report, _ENDLESS)
    what = first.plain.partition(clean(finding.rule))[2].strip()
    said = {label: text.partition("   change  ")[0] for label, text in _labelled(rest)}
    return what, said.get("worth") or (f"{said['lost']} lost" if "lost" in said else "")


def _in_full(number: int, finding: Finding, report: Report) -> Iterator[str]:
    """Yield a finding: what is wrong, what a fix brings, what shows it, and what to type."""
    yield f"#### {number}. {code(finding.rule)}: {_told(finding.message)}"
    lines = finding_lines(number, _brief(finding), report, _ENDLESS, Room(brief=False, others=False))
    next(lines)  # which is the heading
    said: list[str] = []
    for label, text in _labelled(line for line in lines if not _is_code(line)):
        part = _told(text)
        if label or not said:
            said.append(f"- **{label}**: {part}" if label else f"- {part}")
        else:
            said[-1] += f"<br>{part}"
    if (where := in_source(finding)) is not None and where.excerpt:
        said.append(f"- **line**: {code(shorten(where.excerpt, LONG))}")
    if said:
        yield "\n".join(said)
    for index, fix in enumerate(_fixes(finding, report)):
        yield _change(fix, "or" if index else "change")


def _brief(finding: Finding) -> Finding:
    """Return a finding without the code to type, which is set apart, and without texts that have no end."""
    return replace(
        finding,
        message=_short(finding.message),
        seen=_short(finding.seen),
        locations=tuple(replace(place, name=place.name and place.name[: 4 * LONG]) for place in finding.locations[:1]),
        fixes=tuple(replace(fix, title=_short(fix.title), change="") for fix in finding.fixes),
    )


def _fixes(finding: Finding, report: Report) -> list[Fix]:
    """Return the fixes, that of which is told what it is worth first."""
    told = priced(finding, report.prediction)
    return sorted(finding.fixes, key=lambda fix: fix is not told)[:2]


def _change(fix: Fix, word: str) -> str:
    """Return what to type."""
    lines = fix.change.splitlines()
    risky = fix.risk and not fix.risk.startswith("none")
    risk = f" But: {_told(fix.risk.rstrip('.'))}." if risky else ""
    head = f"**{word}** ({EFFORT[fix.effort]}): {_told(fix.title.rstrip('.'))}.{risk}"
    kept = [shorten(line, LONG) for line in lines[:LINES]] + (["# …"] if len(lines) > LINES else [])
    return f"{head}\n\n{fence(kept, 'python')}" if lines else head


def _order(report: Report) -> Iterator[str]:
    """Yield the order in which to make fixes, and what all bring."""
    rows = [line.plain.strip() for line in order(report, _ENDLESS, None) if line.plain.strip()]
    listed = [row.split(maxsplit=2)[1:] for row in rows if row.startswith(("first ", "then "))]
    if listed:
        made = [f"{number}. {code(rule)} {prose(said)}" for number, (rule, said) in enumerate(listed, start=1)]
        yield "\n".join(["**In this order:**", "", *made])
    yield from (f"**{prose(row[:1].upper() + row[1:])}**" for row in rows if not row.startswith(("first ", "then ")))


def _asked(report: Report) -> Iterator[str]:
    for line in answers(report, _ENDLESS):
        if line.plain.strip():
            yield f"**{_told(line.plain.strip())}**"


def _notes(report: Report) -> Iterator[str]:
    """Yield what idle time costs, what predictions rest on, and warnings."""
    said, told = [], [f"{path}: {why}" for path, why in unread(report)]
    if report.summary.source is None:
        for line in notes(report, _ENDLESS, everything=False):
            label, _, text = line.plain.strip().partition(": ")
            if label == "warning":
                told.append(text)
            elif label in _NOTES and text:
                said.append(f"**{label}**: {_told(text)}")
    else:
        told += warnings(report)
    if said:
        yield "<br>".join(said)
    if told:
        rows = [f"> - {_told(text)}" for text in told[:WARNINGS]]
        rows += [f"> - and {len(told) - WARNINGS:,} more"] if len(told) > WARNINGS else []
        yield "\n".join(["> [!WARNING]", *rows])


def _not_judged(report: Report) -> Iterator[str]:
    """Yield which rules could not be asked, by how to get their evidence: most rules first."""
    by_how: dict[str, list[str]] = {}
    for unknown in report.unknown:
        by_how.setdefault(clean(unknown.how), []).append(unknown.rule)
    if by_how:
        ranked = sorted(by_how.items(), key=lambda item: -len(item[1]))[:ROWS]
        rows = [f"- {', '.join(map(code, rules))}. To judge: {_told(how)}." for how, rules in ranked]
        yield folded(f"{plural(len(report.unknown), 'rule')} not judged, for lack of evidence", "\n".join(rows))


def _labelled(lines: Iterable[Text]) -> list[tuple[str, str]]:
    """Return lines of a finding as pairs of what stands in their margin and what they say."""
    return [(line.plain[:INDENT].strip(), line.plain[INDENT:].strip()) for line in lines if line.plain.strip()]


def _is_code(line: Text) -> bool:
    return any(span.style == "cyan" for span in line.spans)


def _told(text: str) -> str:
    """Return a text in Markdown, its end cut off where it has none."""
    return prose(_short(text))


def _short(text: str) -> str:
    return shorten(clean(text[: 4 * LONG]), LONG)


def _end(text: str) -> str:
    """Return the end of a place, which tells most."""
    return text if len(text) <= LONG else f"…{text[1 - LONG :]}"
