"""A lint report for a person at a terminal: the answer first, then each line that can stall, with what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from whyidle.model.finding import Finding, Fix, Location, Report
from whyidle.render.advice import unread, warnings
from whyidle.render.cleared import cleared
from whyidle.render.excerpt import INDENT, excerpt
from whyidle.render.lines import hang
from whyidle.render.passages import STYLE, code
from whyidle.render.passages import place as in_recording
from whyidle.render.places import in_source, spot, spots
from whyidle.render.words import clean, percent, plural, shorten

_WARNINGS = 4
_UNREAD = 2  # files that could not be read, by name
# Confidence from which a finding needs no word about it, and from which it is likely.
SURE, LIKELY = 0.8, 0.6
_FULL = 9  # findings that could fit a screen with their excerpts
# What a line can do that no run has confirmed, by the family of its rule.
_CAN: Mapping[str, str] = {"measure": "can mislead", "compute": "can slow", "compile": "can slow", "host": "can slow"}
_MAY: Mapping[str, str] = {"measure": "may mislead"}  # the same where it is minor, in the words of the headline


@dataclass(frozen=True, slots=True)
class _Room:
    """How much is shown; None: all of it."""

    full: int | None = None  # findings with their excerpt, of those at medium or above
    each: int | None = None  # further findings of one rule, a line each
    rules: int | None = None  # rules of further findings


# The first of these that fits a screen is shown.
_ROOMS = (
    *(_Room(full, each) for full in range(_FULL, 0, -1) for each in (3, 1)),
    *(_Room(full, 0, rules) for full in (1, 0) for rules in (12, 8, 4, 1)),
)


def source_lines(report: Report, width: int, most: int | None) -> list[Text]:
    """Return the report as lines, at most so many where there is a limit."""
    rooms = (_Room(),) if most is None else _ROOMS
    lines: list[Text] = []
    for room in rooms:
        lines = list(_lines(report, width, room))
        if most is None or len(lines) <= most:
            break
    return lines


def _lines(report: Report, width: int, room: _Room) -> Iterator[Text]:
    everything = room.full is None
    yield from _headline(report, width)
    full = report.findings if everything else report.grave[: room.full]
    for finding in full:
        yield Text()
        yield from _in_full(finding, width, everything)
    shown = set(map(id, full))
    rest = [finding for finding in report.findings if id(finding) not in shown]
    if rest:
        yield Text()
        yield from _in_short(rest, width, room)
    said = list(_notes(report, width, everything))
    if said:
        yield Text()
        yield from said


def _headline(report: Report, width: int) -> Iterator[Text]:
    """Yield the answer, and what was read."""
    style = "bold" if report.findings else "bold green"
    answer = Text(clean(report.summary.verdict), style=style if report.judged else "bold red")
    facts = Text(facts_of(report), style="dim")
    room = width - 4 - cell_len(answer.plain) - cell_len(facts.plain)
    if room >= 2:
        yield Text.assemble("  ", answer, " " * room, facts)
    else:
        yield from hang(Text("  "), answer, width)
        yield from hang(Text("  "), facts, width)


def facts_of(report: Report) -> str:
    """Return how much source was read: "12 files · 3,204 lines"."""
    source = report.summary.source
    if source is None:
        return ""
    facts = [plural(source.files, "file"), plural(source.lines, "line")]
    return " · ".join(facts + ([plural(source.notebooks, "notebook")] if source.notebooks else []))


def _in_full(finding: Finding, width: int, everything: bool) -> Iterator[Text]:
    """Yield a finding with the line that it is about, what is wrong with it and what to write instead."""
    place = in_source(finding)
    where = Text.assemble("  ", (_spot(finding), "bold"))
    about = Text.assemble((clean(finding.rule), STYLE[finding.severity]), "  ", (tags(finding), "dim"))
    if cell_len(where.plain) + cell_len(about.plain) + 2 <= width:
        yield Text.assemble(where, "  ", about)
    else:
        yield from (where, Text.assemble(" " * INDENT, about))
    if place is not None:
        yield from excerpt(place, width)
    yield from hang(Text(" " * INDENT), Text(clean(finding.message)), width)
    for number, fix in enumerate(finding.fixes if everything else finding.fixes[:1]):
        yield from _change("or" if number else "change", fix, width, everything)
    yield from _seen(finding, place, width, everything=everything or finding.evidence == "confirmed")


def _change(label: str, fix: Fix, width: int, everything: bool) -> Iterator[Text]:
    """Yield what to type, or where that is not known what to do; and what else it changes or may cost."""
    head = f"{'':{INDENT}}{label:<6}  "
    lines = fix.change.splitlines() or [fix.title]
    for number, row in enumerate(row for line in lines for row in code(clean(line), width - len(head))):
        yield Text.assemble((" " * len(head) if number else head, "dim"), (row, "cyan"))
    note = (fix.patch.note if fix.patch is not None else "") or (fix.risk if everything else "")
    if note:
        yield from hang(Text(f"{'':{INDENT}}{'but':<6}  ", style="dim"), Text(clean(note)), width)


def _seen(finding: Finding, place: Location | None, width: int, *, everything: bool) -> Iterator[Text]:
    """Yield what a run shows of it, or why it shows nothing; and the other places that belong to it."""
    told = [clean(finding.seen)] if finding.seen else []
    if everything:
        others = [other for other in finding.locations if other is not place and other.line is not None]
        told += [f"with {spots(others)}"] if others else []
        told += [in_recording(other) for other in finding.locations if other.line is None]
    if told:
        yield from hang(Text(f"{'':{INDENT}}{'seen':<6}  ", style="dim"), Text("; ".join(told)), width)


def tags(finding: Finding) -> str:
    """Return what it can cost or does cost, how sure that is, and whether --fix changes it."""
    family = finding.rule.partition(".")[0]
    cost = _MAY.get(family, "may cost a little") if finding.severity == "low" else _CAN.get(family, "can stall")
    sure = "" if finding.confidence >= SURE else "likely" if finding.confidence >= LIKELY else "perhaps"
    tags = [f"costs {percent(finding.lost_share)}" if finding.lost_share else cost, *filter(None, [sure])]
    patch = next((fix.patch for fix in finding.fixes if fix.patch is not None), None)
    if patch is not None:
        tags.append("[fixable]" if patch.safe else "[fixable, unsafe]")
    return " · ".join(tags)


def _in_short(findings: Sequence[Finding], width: int, room: _Room) -> Iterator[Text]:
    """Yield findings a line each, by rule; where a rule has many, what is left of it as places only."""
    rules: dict[str, list[Finding]] = {}
    for finding in findings:
        rules.setdefault(finding.rule, []).append(finding)
    by_rule = list(rules.values())
    shown = by_rule if room.rules is None else by_rule[: room.rules]
    for group in shown:
        each = len(group) if room.each is None or len(group) <= room.each + 1 else room.each
        where = [_end(_spot(finding), width // 2) for finding in group[:each]]
        size = max(map(cell_len, where), default=0)
        for finding, at in zip(group[:each], where, strict=True):
            head = Text.assemble("  ", at, " " * (size - cell_len(at)), "  ")
            head.append(clean(finding.rule), STYLE[finding.severity])
            head.append("  ")
            yield Text.assemble(head, shorten(clean(finding.message), max(width - cell_len(head.plain), 1)))
        if len(group) > each:
            yield _more_of(group[each:], each > 0, width)
    left = sum(map(len, by_rule[len(shown) :]))
    if left:
        yield Text(f"  and {plural(left, 'more finding')} of {plural(len(by_rule) - len(shown), 'rule')}: --all")


def _more_of(findings: Sequence[Finding], more: bool, width: int) -> Text:
    places = [place for finding in findings if (place := in_source(finding)) is not None]
    head = f"  {len(findings):,}{' more' if more else ''} of {clean(findings[0].rule)}: "
    return Text(head + shorten(spots(places), max(width - len(head), 1)), style="dim")


def _spot(finding: Finding) -> str:
    place = in_source(finding)
    return "-" if place is None else spot(place)


def _end(text: str, width: int) -> str:
    """Return the end of a place, which tells most, where there is no room for all of it."""
    return text if len(text) <= width else f"…{text[1 - width :]}"


def _notes(report: Report, width: int, everything: bool) -> Iterator[Text]:
    """Yield what was not read, what a run clears, what --fix would change, and where to read on."""
    files = unread(report)
    shown = files if everything else files[:_UNREAD]
    for path, why in shown:
        yield from hang(Text("  not read: ", style="bold yellow"), Text(f"{clean(path)}: {clean(why)}"), width)
    if len(files) > len(shown):
        yield Text(f"  not read: {plural(len(files) - len(shown), 'more file')}: --all", style="dim")
    told = warnings(report)
    for warning in told if everything else told[:_WARNINGS]:
        yield from hang(Text("  warning: ", style="bold yellow"), Text(clean(warning)), width)
    if len(told) > _WARNINGS and not everything:
        yield Text(f"  warning: {len(told) - _WARNINGS:,} more: --all", style="dim")
    yield from cleared(report, width, everything=everything)
    yield from _fixable(report, width)
    if report.findings and not everything:
        text = "whyidle explain RULE: why, and when to ignore it; --all: everything"
        yield from hang(Text("  "), Text(text, style="dim"), width)


def _fixable(report: Report, width: int) -> Iterator[Text]:
    told = mended(report)
    if told:
        yield from hang(Text("  "), Text(told), width)


def mended(report: Report) -> str:
    """Return what `whyidle lint --fix` would change of what was found; nothing where that is nothing."""
    patches = [[fix.patch.safe for fix in finding.fixes if fix.patch is not None] for finding in report.findings]
    safe, unsafe = sum(map(any, patches)), sum(1 for found in patches if found and not any(found))
    told = []
    if safe:
        told.append(f"--fix mends {safe:,} of {plural(len(patches), 'finding')}; --diff shows how")
    if unsafe:
        of_all = f"--fix --unsafe-fixes mends {unsafe:,} of {plural(len(patches), 'finding')}"
        told.append(f"{unsafe:,} more with --unsafe-fixes" if safe else of_all)
    return "; ".join(told)
