"""The report for a person at a terminal: one screen, the answer first."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from whyidle.model.finding import DeviceBusy, Report, Summary
from whyidle.render.bars import Bar, bar_line, bars
from whyidle.render.base import Look, Renderer
from whyidle.render.detail import details
from whyidle.render.lines import LABEL, columns, hang
from whyidle.render.notes import notes
from whyidle.render.palette import style, styles
from whyidle.render.passages import Room, compact, finding_lines
from whyidle.render.phases import phases
from whyidle.render.source import source_lines
from whyidle.render.sparks import curve_gpu, hosts, sparks
from whyidle.render.words import ascii_only, clean, duration, gpu_name, percent, plural, rate
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
_OVERLAP = 0.02  # of the window: what losses may exceed idle time by through rounding

DRAWN, DRAWN_BESIDE = 8, 3  # GPUs whose curves are shown: alone, and beside the picture of a trace or a log
_SEVERAL = 1.5  # batches per step
_FAR = 0.1  # of the median step: a mean that differs by more is shown beside it


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
    first, *more = re.split(r"(?<=[.!?]) (?=[A-Z])", clean(report.summary.verdict), maxsplit=1)
    style = "bold green" if report.healthy else "bold" if report.judged else "bold red"
    answer, facts = Text(first, style=style), Text(" · ".join(_facts(report)), style="dim")
    if len(answer) + len(facts) + 6 <= width:
        room = " " * (width - 4 - len(answer) - len(facts))
        yield Text.assemble("  ", answer, room, facts)
        facts = Text()
    else:
        yield from hang(Text("  "), answer, width)
    for text in (*map(Text, more), facts):
        if text:
            yield from hang(Text("  "), text, width)


def _facts(report: Report) -> list[str]:
    run, summary = report.run, report.summary
    facts = [gpu_name(gpu.name) if gpu.count == 1 else f"{gpu.count} x {gpu_name(gpu.name)}" for gpu in run.gpus]
    ranks = len({file.rank for file in run.evidence} - {None}) or min(len(run.evidence), 1)
    ranks = 0 if run.only_curves else ranks
    if ranks and run.world_size and run.world_size > ranks:
        facts.append(f"{ranks:,} of {plural(run.world_size, 'rank')}")
    elif ranks:
        facts.append(plural(ranks, "rank"))
    if summary.steps:
        facts.append(_steps(summary.steps, summary))
    if summary.step_time_s is not None:
        median, mean = summary.step_time_s, summary.step_time_mean_s
        differ = mean is not None and abs(mean - median) > _FAR * median
        facts.append(f"{duration(median)}/step" + (f", mean {duration(mean)}" if differ and mean is not None else ""))
    elif summary.window_s is not None and not run.only_curves:  # of which the verdict says it
        facts.append(f"{duration(summary.window_s)} recorded")
    facts += [f"{rate(number)} {what}/s" for number, what in _rates(summary)]
    return facts


def _steps(count: int, summary: Summary) -> str:
    """Return how many steps were judged, and of how many batches where a step takes several."""
    each = summary.batches_per_step or 0.0
    if each < _SEVERAL or summary.steps_from != "Optimizer.step":
        return plural(count, "step")
    return f"{plural(count, 'optimizer step')} of {round(count * each):,} batches"


def _rates(summary: Summary) -> Iterator[tuple[float, str]]:
    """Yield how fast the job gets through its data; tokens say more than samples where both are known."""
    if summary.tokens_per_s is not None:
        yield summary.tokens_per_s, "tokens"
    elif summary.samples_per_s is not None:
        yield summary.samples_per_s, "samples"


def _picture(summary: Summary, width: int) -> Iterator[Text]:
    """Yield the bars; what they show adds up to 100%."""
    idle = summary.gpu_idle_share
    if idle is None:
        return
    length = min(width - LABEL - 8, 50)
    shown = bars(idle, summary.idle_by_cause)
    yield Text()
    yield bar_line("busy", Bar("", 1 - idle, 100 - sum(bar.percent for bar in shown)), length, "busy")
    for index, bar in enumerate(shown):
        yield bar_line("" if index else "idle", bar, length, style(bar.label))


def _ranks(summary: Summary, width: int) -> Iterator[Text]:
    """Yield how busy each device was, where there are several; the extremes where they are many."""
    devices = summary.devices
    if len(devices) < 2:
        return
    yield Text()
    if len(devices) <= 16:
        cells = [f"{_device(device, devices)} {percent(device.busy_share)}" for device in devices]
        yield from columns(Text("  busy by GPU   "), cells, width)
        return
    ranked = sorted(devices, key=lambda device: device.busy_share)
    parts = [
        f"lowest {percent(ranked[0].busy_share)} ({_device(ranked[0], devices)})",
        f"median {percent(ranked[len(ranked) // 2].busy_share)}",
        f"highest {percent(ranked[-1].busy_share)} ({_device(ranked[-1], devices)})",
        plural(len(devices), "GPU"),
    ]
    yield from hang(Text("  busy by GPU   "), Text(" · ".join(parts)), width)


def _device(device: DeviceBusy, devices: tuple[DeviceBusy, ...]) -> str:
    """Name a device by its rank, and by its number too where a rank has several."""
    if device.rank is None:
        return curve_gpu(device, several=True)
    several = sum(other.rank == device.rank for other in devices) > 1
    return f"rank {device.rank}" + (f" GPU {device.device}" if several else "")


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
    if len(shown) > 1:
        yield from _about_the_list(report, width)
    if report.judged and not findings and not report.healthy:
        yield Text()
        yield from hang(Text("  "), Text(_no_finding(report)), width)


def _about_the_list(report: Report, width: int) -> Iterator[Text]:
    """Yield what a reader would stumble over: an order that is not that of the savings, losses that do not add up."""
    says = []
    findings, summary = report.findings, report.summary
    lost = [finding.lost_share or 0.0 for finding in findings]
    if any(one.saved_share < following.saved_share for one, following in pairwise(findings)):
        says.append("order: saving \N{MULTIPLICATION SIGN} certainty ÷ effort")
    busy = [finding.rule.startswith(("compute.", "compile.")) and bool(finding.lost_share) for finding in findings]
    of_idle = sum(share for share, in_busy in zip(lost, busy, strict=True) if not in_busy)
    ordered = report.prediction is not None and report.prediction.sequence  # which says what each adds
    if not ordered and (of_idle > (summary.gpu_idle_share or 0.0) + _OVERLAP or (any(busy) and of_idle > 0)):
        says.append("shares overlap: fixing one shrinks others")
    if says:
        yield from hang(Text("  "), Text("; ".join(says), style="dim"), width)


def _no_finding(report: Report) -> str:
    of = "step" if report.summary.steps else "time"
    judged = f"No rule that could be asked found a cause worth 2% of the {of}."
    return judged + (" --all shows where the time goes." if report.detail.kernels else "")
