"""The report for a person at a terminal: one screen, the answer first."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from whyidle.model.finding import DeviceBusy, Finding, Report, Summary
from whyidle.render.bars import Bar, bars, draw
from whyidle.render.base import Look, Renderer
from whyidle.render.detail import details
from whyidle.render.lines import LABEL, columns, hang
from whyidle.render.passages import finding_lines, one_line
from whyidle.render.words import basename, clean, duration, gpu_name, money, percent, plural

# What fits on a screen of 40 lines; --all shows the rest.
_FULL_FINDINGS = 5
_MOST_HOWS = 3
_MOST_WARNINGS = 5

# One column each, so that nothing moves.
_ASCII = str.maketrans(
    {"█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": " ", "▎": " ", "▏": " "}
    | {"·": "-", "\N{EN DASH}": "-", "→": ">", "…": "~", "µ": "u", "≥": ">", "≤": "<"}
)  # fmt: skip


class Terminal(Renderer):
    """Text with or without color, as wide as asked."""

    format = "terminal"

    def render(self, report: Report, look: Look) -> str:
        width = min(max(look.width, 60), 120)
        return write(_lines(report, width, look.everything), look)


def write(lines: Iterable[Text], look: Look) -> str:
    """Return lines as one text, with color if the look has it. What comes in is never read as markup."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=look.width,
        color_system="standard" if look.color else None,
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
    return text if look.unicode else text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def _lines(report: Report, width: int, everything: bool) -> Iterator[Text]:
    """Yield the report from top to bottom."""
    healthy = report.healthy
    yield Text()
    yield from _headline(report, width)
    if report.judged and (everything or not healthy):
        yield from _picture(report.summary, width)
    yield from _ranks(report.summary, width)
    if everything or not healthy:
        yield from _findings(report.findings, report, width, everything)
    else:  # nothing but small things, and what says once more that all is well
        small = tuple(finding for finding in report.findings if finding.lost_share)
        yield from _findings(small, report, width, everything)
    notes = [
        *_cost(report.summary, width, everything or not healthy),
        *_not_judged(report, width, everything),
        *_other_files(report, width),
        *_warnings(report, width, everything),
    ]
    if notes:
        yield Text()
        yield from notes
    if everything:
        yield from details(report, width)
    yield Text()


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
    ranks = len({file.rank for file in run.evidence})
    if ranks and run.world_size and run.world_size > ranks:
        facts.append(f"{ranks:,} of {plural(run.world_size, 'rank')}")
    elif ranks:
        facts.append(plural(ranks, "rank"))
    if summary.steps:
        facts.append(plural(summary.steps, "step"))
    if summary.step_time_s is not None:
        facts.append(f"{duration(summary.step_time_s)}/step")
    elif summary.window_s is not None:
        facts.append(f"{duration(summary.window_s)} recorded")
    return facts


def _picture(summary: Summary, width: int) -> Iterator[Text]:
    """Yield the bars; what they show adds up to 100%."""
    idle = summary.gpu_idle_share
    if idle is None:
        return
    length = min(width - LABEL - 8, 50)
    shown = bars(idle, summary.idle_by_cause)
    yield Text()
    yield _bar("busy", Bar("", 1 - idle, 100 - sum(bar.percent for bar in shown)), length)
    for index, bar in enumerate(shown):
        yield _bar("" if index else "idle", bar, length)


def _bar(kind: str, bar: Bar, length: int) -> Text:
    drawn = f"{draw(bar.share, length):<{length}}"
    head = f"  {kind:<6}{clean(bar.label):<{LABEL - 8}}"
    return Text.assemble(head, (drawn, "green" if kind == "busy" else "red"), f" {bar.percent:>4}%")


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
        return f"GPU {device.device}"
    several = sum(other.rank == device.rank for other in devices) > 1
    return f"rank {device.rank}" + (f" GPU {device.device}" if several else "")


def _findings(findings: Sequence[Finding], report: Report, width: int, everything: bool) -> Iterator[Text]:
    summary = report.summary
    full = 0
    after_full = True
    for number, finding in enumerate(findings, start=1):
        in_full = everything or (finding.severity != "low" and full < _FULL_FINDINGS)
        if in_full or after_full:
            yield Text()
        after_full = in_full
        if in_full:
            full += 1
            yield from finding_lines(number, finding, summary, width)
        else:
            yield one_line(number, finding, width)
    if report.judged and not report.findings and not report.healthy:
        yield Text()
        yield from hang(Text("  "), Text(_no_finding(report)), width)


def _no_finding(report: Report) -> str:
    judged = "No rule that could be asked found a cause worth 2% of the step."
    return judged + (" --all shows where the time goes." if report.detail.kernels else "")


def _cost(summary: Summary, width: int, always: bool) -> Iterator[Text]:
    cost = summary.cost
    if cost is None or not (always or cost.hours is not None or cost.price_source == "--price"):
        return
    hourly = cost.usd_per_gpu_hour * cost.gpus
    text = f"{money(cost.idle_usd_per_hour)} of {money(hourly)} per hour is idle time"
    if cost.total_usd is not None and cost.idle_usd is not None and cost.hours is not None:
        text += f", {money(cost.idle_usd)} of {money(cost.total_usd)} in {cost.hours:g} h"
    text += f" ({plural(cost.gpus, 'GPU')} at {money(cost.usd_per_gpu_hour)} per GPU-hour; {clean(cost.price_source)})"
    yield from hang(Text("  cost: ", style="bold"), Text(text), width)


def _not_judged(report: Report, width: int, everything: bool) -> Iterator[Text]:
    """Yield what could not be asked, by how to get the evidence: most rules first."""
    by_how: dict[str, list[str]] = {}
    for unknown in report.unknown:
        by_how.setdefault(clean(unknown.how), []).append(unknown.rule)
    ranked = sorted(by_how.items(), key=lambda item: -len(item[1]))
    shown = ranked if everything else [] if report.healthy else ranked[:_MOST_HOWS]
    for how, rules in shown:
        names = ", ".join(rules) if everything else _families(rules)
        yield from hang(Text("  not judged: ", style="bold"), Text(f"{names}. To judge: {how}."), width)
    rest = sum(len(rules) for _, rules in ranked[len(shown) :])
    if rest:
        yield from hang(
            Text("  not judged: ", style="bold"),
            Text(f"{plural(rest, 'more rule' if shown else 'rule')}: see --all."),
            width,
        )


def _families(rules: list[str]) -> str:
    """Return "compute (2), memory.allocator": a family with its number of rules, a single rule by its name."""
    families: dict[str, list[str]] = {}
    for rule in rules:
        families.setdefault(rule.partition(".")[0], []).append(rule)
    return ", ".join(
        members[0] if len(members) == 1 else f"{family} ({len(members)} rules)" for family, members in families.items()
    )


def _other_files(report: Report, width: int) -> Iterator[Text]:
    ignored = report.run.ignored
    if ignored:
        names = "; ".join(f"{basename(file.path)} ({clean(file.why).rstrip('.')})" for file in ignored[:3])
        more = f"; and {len(ignored) - 3:,} more" if len(ignored) > 3 else ""
        head = Text(f"  ignored {plural(len(ignored), 'file')}: ", style="bold")
        yield from hang(head, Text(names + more), width, indent=14)


def _warnings(report: Report, width: int, everything: bool) -> Iterator[Text]:
    shown = report.warnings if everything else report.warnings[:_MOST_WARNINGS]
    rest = len(report.warnings) - len(shown)
    for warning in (*shown, *([f"{rest:,} more: see --all"] if rest else [])):
        yield from hang(Text("  warning: ", style="bold yellow"), Text(clean(warning)), width)
