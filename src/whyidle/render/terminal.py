"""The report for a person at a terminal: one screen, the answer first."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from whyidle.model.finding import Report, Summary
from whyidle.render.bars import bar_line, whole
from whyidle.render.base import Look, Renderer
from whyidle.render.detail import details
from whyidle.render.headline import about_the_list, device_name, facts_of, no_finding, sentences
from whyidle.render.lines import LABEL, columns, hang
from whyidle.render.notes import notes
from whyidle.render.palette import style, styles
from whyidle.render.passages import Room, compact, finding_lines
from whyidle.render.phases import phases
from whyidle.render.source import source_lines
from whyidle.render.sparks import hosts, sparks
from whyidle.render.words import ascii_only, percent, plural
from whyidle.render.worth import answers, order

# The first of these that fits a screen is shown.
ROOMS = (
    *(
        Room(full, 6, seen, brief=True, others=others, order=6)
        for full in (3, 2, 1)
        for seen, others in ((2, True), (1, True), (0, True), (0, False))
    ),
    *(Room(1, most, 0, brief=True, others=False, order=6) for most in (5, 4, 3, 2)),
    *(Room(1, 1, 0, brief=True, others=False, order=order) for order in (6, 4, 0)),
)

DRAWN, DRAWN_BESIDE = 8, 3  # GPUs whose curves are shown: alone, and beside the picture of a trace or a log


class Terminal(Renderer):
    """Text with or without color, as wide as asked."""

    format = "terminal"

    def render(self, report: Report, look: Look) -> str:
        width = min(max(look.width, 60), 120)
        if report.summary.source is not None:
            return write(source_lines(report, width, None if look.everything else look.lines), look)
        if look.everything:
            return write(_lines(report, width, None), look)
        tries = (list(_lines(report, width, room)) for room in ROOMS)
        lines = next((lines for lines in tries if len(lines) <= look.lines), None)
        return write(_lines(report, width, ROOMS[-1]) if lines is None else lines, look)


def write(lines: Iterable[Text], look: Look) -> str:
    """Return lines as one text, with color if the look has it. What comes in is never read as markup."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=look.width,
        color_system=look.colors if look.color else None,
        theme=Theme(styles(look.colors)),
        force_terminal=look.color,
        force_jupyter=False,  # else a notebook shows the report itself, besides what we return
        no_color=not look.color,
        highlight=False,
        legacy_windows=False,
    )
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)
    text = stream.getvalue()
    text = f"\n{text}\n" if look.spaced else text
    return text if look.unicode else ascii_only(text)


def _lines(report: Report, width: int, room: Room | None) -> Iterator[Text]:
    """Yield the report from top to bottom; all of it where there is no limit to the room."""
    everything = room is None
    in_full = everything or not report.healthy
    yield from _headline(report, width)
    yield from answers(report, width)
    if report.judged and in_full and not report.run.only_curves:
        yield from _picture(report.summary, width)
    if in_full:
        yield from phases(report.summary, width)
        yield from sparks(report.detail.curves, width, DRAWN if report.run.only_curves else DRAWN_BESIDE)
    if report.run.only_curves:
        yield from hosts(report.summary.devices, width) if in_full else ()
    else:
        yield from _ranks(report.summary, width)
    if in_full:
        yield from _findings(report, width, room or Room())
        yield from order(report, width, None if room is None else room.order)
    said = list(notes(report, width, everything=everything))
    if said:
        yield Text()
        yield from said
    if everything:
        yield from details(report, width)


def _headline(report: Report, width: int) -> Iterator[Text]:
    """Yield the answer, to its right what it is about, and below what else is to be said."""
    first, *more = sentences(report.summary.verdict)
    style = "bold green" if report.healthy else "bold" if report.judged else "bold red"
    answer, facts = Text(first, style=style), Text(" · ".join(facts_of(report)), style="dim")
    if len(answer) + len(facts) + 6 <= width:
        room = " " * (width - 4 - len(answer) - len(facts))
        yield Text.assemble("  ", answer, room, facts)
        facts = Text()
    else:
        yield from hang(Text("  "), answer, width)
    for text in (*map(Text, more), facts):
        if text:
            yield from hang(Text("  "), text, width)


def _picture(summary: Summary, width: int) -> Iterator[Text]:
    """Yield the bars; what they show adds up to 100%."""
    idle = summary.gpu_idle_share
    if idle is None:
        return
    length = min(width - LABEL - 8, 50)
    busy, *shown = whole(idle, summary.idle_by_cause)
    yield Text()
    yield bar_line("busy", replace(busy, label=""), length, "busy")
    for index, bar in enumerate(shown):
        yield bar_line("" if index else "idle", bar, length, style(bar.label))


def _ranks(summary: Summary, width: int) -> Iterator[Text]:
    """Yield how busy each device was, where there are several; the extremes where they are many."""
    devices = summary.devices
    if len(devices) < 2:
        return
    yield Text()
    if len(devices) <= 16:
        cells = [f"{device_name(device, devices)} {percent(device.busy_share)}" for device in devices]
        yield from columns(Text("  busy by GPU   "), cells, width)
        return
    ranked = sorted(devices, key=lambda device: device.busy_share)
    parts = [
        f"lowest {percent(ranked[0].busy_share)} ({device_name(ranked[0], devices)})",
        f"median {percent(ranked[len(ranked) // 2].busy_share)}",
        f"highest {percent(ranked[-1].busy_share)} ({device_name(ranked[-1], devices)})",
        plural(len(devices), "GPU"),
    ]
    yield from hang(Text("  busy by GPU   "), Text(" · ".join(parts)), width)


def _findings(report: Report, width: int, room: Room) -> Iterator[Text]:
    findings = report.findings
    shown = findings[: room.most]
    full = 0
    apart = True
    for number, finding in enumerate(shown, start=1):
        in_full = room.full is None or (finding.severity != "low" and full < room.full)
        if apart or in_full:
            yield Text()
        apart = in_full
        full += in_full
        if in_full:
            yield from finding_lines(number, finding, report, width, room)
        else:
            yield from compact(number, finding, report, width)
    if len(findings) > len(shown):
        yield Text(f"     and {plural(len(findings) - len(shown), 'more finding')}: --all", style="dim")
    if len(shown) > 1 and (says := about_the_list(report)):
        yield from hang(Text("  "), Text(says, style="dim"), width)
    if said := no_finding(report):
        more = " --all shows where the time goes." if report.detail.kernels else ""
        yield Text()
        yield from hang(Text("  "), Text(said + more), width)
