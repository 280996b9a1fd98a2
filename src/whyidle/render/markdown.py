"""The report for where changes are reviewed: comments of pull requests, summaries of CI jobs, issues.

The answer first, then where the time goes, what to do in which order, and folded away what was not judged. What it says
is what the terminal says, as lines without end; what of it is text of files is escaped (`escapes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from rich.text import Text

from whyidle._version import __version__
from whyidle.model.finding import Finding, Fix, Report
from whyidle.render import caveats
from whyidle.render.advice import unread, warnings
from whyidle.render.bars import Bar, draw, whole
from whyidle.render.base import Look, Renderer
from whyidle.render.escapes import code, fence, folded, prose, table
from whyidle.render.headline import facts_of, sentences
from whyidle.render.lines import INDENT
from whyidle.render.notes import by_name, notes
from whyidle.render.passages import EFFORT, Room, compact, finding_lines
from whyidle.render.pasted import fitted, written
from whyidle.render.phases import HOST_TIMES, host_bars, in_a_line, meanwhile
from whyidle.render.places import in_source, spot
from whyidle.render.source import facts_of as source_facts
from whyidle.render.words import clean, percent, plural, shorten
from whyidle.render.worth import all_made, all_of, answered, limit, nothing, ordered, priced, worth

FULL, MOST, ROWS, WARNINGS = 3, 100, 25, 20
LONG: Final = 400  # characters of a text that says one thing
LINES: Final = 30  # of code to type
BAR: Final = 24  # characters
_ENDLESS: Final = 1_000_000  # columns: every passage is a line
# What of the notes is told among them; others have a place of their own.
_NOTES: Final = ("cost", "to find out which", "not predicted", "predicted", "cleared")


class Markdown(Renderer):
    """GitHub's Markdown, below 60,000 characters whatever was found."""

    format = "markdown"

    def render(self, report: Report, look: Look) -> str:
        return written(fitted(_blocks(report, look)), look)


def _blocks(report: Report, look: Look) -> Iterator[str]:
    answer, *more = sentences(report.summary.verdict)
    yield f"### {_told(answer)}"
    yield from (prose(shorten(text, 2 * LONG)) for text in more)
    if about := facts(report):
        yield prose(about)
    yield from _asked(report)
    if report.judged and not report.healthy:
        yield from _where_time_goes(report)
    yield from _ranked(report)
    yield from _order(report)
    for number, finding in enumerate(report.findings[: MOST if look.everything else FULL], start=1):
        yield "\n\n".join(_in_full(number, finding, report))
    yield from _notes(report)
    yield from _not_judged(report)
    yield f"<sub>whyidle {__version__} · `whyidle explain RULE`: why it costs time, and when to ignore it</sub>"


def facts(report: Report) -> str:
    """Return what was judged, in short: what the terminal says beside the answer."""
    return source_facts(report) if report.summary.source is not None else " · ".join(facts_of(report))


def _where_time_goes(report: Report) -> Iterator[str]:
    """Yield the bars as tables, each of which adds up to 100%."""
    summary, idle = report.summary, report.summary.gpu_idle_share
    host = host_bars(summary.host_shares) if summary.host_shares else []
    said = []
    if idle is not None and not report.run.only_curves:
        busy, *shown = whole(idle, summary.idle_by_cause)
        yield _bars("GPU time", [("**busy**", busy), *((prose(bar.label), bar) for bar in shown)])
    if host and idle is None:
        yield _bars("time of a step", [(prose(bar.label), bar) for bar in host])
    elif host:
        said.append(f"host: {in_a_line(host)}")
    if host and summary.on_gpu:
        said += [f"GPU idle meanwhile: {meanwhile(summary)}", HOST_TIMES]
    if said:
        yield "<br>".join(map(prose, said))
    if len(summary.devices) > 1:
        ranked = sorted(device.busy_share for device in summary.devices)
        low, middle, high = (percent(ranked[at]) for at in (0, len(ranked) // 2, -1))
        yield f"Busy by GPU: {low} to {high}, median {middle}, of {len(ranked):,}."


def _bars(of: str, shown: Sequence[tuple[str, Bar]]) -> str:
    rows = [(label, bar.said, code(draw(bar.share, BAR))) for label, bar in shown]
    return table((of, "share", ""), rows, right=(1,))


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
    if text := nothing(report):
        yield f"**{prose(text)}**"
    made, together = ordered(report), all_made(report)
    if len(made) < 2 or together is None:
        return
    listed = [f"{number}. {code(one.applied.rule)} {prose(one.said)}" for number, one in enumerate(made, start=1)]
    yield "\n".join(["**In this order:**", "", *listed])
    every = all_of(len(made))
    last = limit(made[-1].applied, report.summary)
    yield f"**{prose(f'{every[:1].upper()}{every[1:]}: {worth(together, report)}; then {last}')}**"


def _asked(report: Report) -> Iterator[str]:
    for asked in report.prediction.asked if report.prediction is not None else ():
        yield from (f"**{_told(f'{question} {answer}')}**" for question, answer in answered(asked, report))


def _notes(report: Report) -> Iterator[str]:
    """Yield what idle time costs, what predictions rest on, and warnings."""
    said, told = [], [f"{path}: {why}" for path, why in unread(report)]
    if report.summary.source is None:
        for line in notes(report, _ENDLESS, everything=False):
            label, _, text = line.plain.strip().partition(": ")
            if label in _NOTES and text:
                said.append(f"**{label}**: {_told(text)}")
        told += [by_name(clean(warning), report.run) for warning in caveats.warnings(report)]
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
    rows = [f"- {', '.join(map(code, rules))}. To judge: {_told(how)}." for how, rules in caveats.ways(report)[:ROWS]]
    if rows:
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
