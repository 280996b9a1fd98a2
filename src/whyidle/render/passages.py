"""A finding as a person reads it: what is wrong, what it costs, what to change, where it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from whyidle.model.finding import Estimate, Finding, Location, Severity, Summary
from whyidle.render.lines import INDENT, LABEL, hang
from whyidle.render.words import basename, clean, duration, kernel_name, money, percent, shorten

NAME = 60  # characters of a frame or kernel that tell it from others
STYLE: Mapping[Severity, str] = {"high": "bold red", "medium": "bold yellow", "low": "bold"}


def finding_lines(number: int, finding: Finding, summary: Summary, width: int) -> Iterator[Text]:
    """Yield a finding in full."""
    yield from hang(_head(number, finding), Text(clean(finding.message), style="bold"), width, indent=LABEL)
    yield from _worth(finding, summary, width)
    for index, fix in enumerate(finding.fixes):
        for line, part in enumerate(fix.change.splitlines() or [fix.title]):
            label = "" if line else "or" if index else "change"
            yield from hang(_label(label), Text(clean(part), style="cyan"), width)
    seen = clean(finding.seen)
    where = place(finding.locations[0]) if finding.locations else ""
    if seen and where and INDENT + len(seen) + 3 + len(where) <= width:
        yield from hang(_label("seen"), Text(f"{seen}   {where}"), width)
    else:
        for index, text in enumerate(filter(None, (seen, where))):
            yield from hang(_label("" if index else "seen"), Text(text), width)
    if finding.candidates:
        yield from hang(_label("or else"), Text(", ".join(map(clean, finding.candidates))), width)


def one_line(number: int, finding: Finding, width: int) -> Text:
    """Return a finding in one line: its message, cut, and its loss."""
    head = _head(number, finding)
    lost = f"  {percent(finding.lost_share)}" if finding.lost_share else ""
    return Text.assemble(head, shorten(clean(finding.message), width - len(head) - len(lost)), lost)


def place(location: Location) -> str:
    """Return where to look: "trace.json.gz rank 0, step 7, 0.123-0.190 s, in train.py(9): step", "train.py:12"."""
    name = basename(location.file)
    if location.line is not None:
        return f"{name}:{location.line}" + (f":{location.column}" if location.column is not None else "")
    parts = []
    if location.rank is not None:
        parts.append(f"rank {location.rank}")
    if location.device is not None and location.rank is None:
        parts.append(f"GPU {location.device}")
    if location.step is not None:
        parts.append(f"step {location.step}")
    if location.start_s is not None and location.end_s is not None:
        # as many decimals as it takes to tell the ends apart
        decimals = next((n for n in (3, 4, 5) if location.end_s - location.start_s >= 10 ** (1 - n)), 6)
        parts.append(f"{location.start_s:.{decimals}f}\N{EN DASH}{location.end_s:.{decimals}f} s")
    if location.name:
        parts.append(f"in {shorten(kernel_name(clean(location.name)), NAME)}")
    return f"{name} {', '.join(parts)}".rstrip()


def _head(number: int, finding: Finding) -> Text:
    return Text.assemble(
        (f"{number:>3}", "bold"), "  ", (f"{clean(finding.rule):<{LABEL - 7}}", STYLE[finding.severity]), "  "
    )


def _label(word: str) -> Text:
    return Text(f"     {word:<{INDENT - 5}}", style="dim")


def _worth(finding: Finding, summary: Summary, width: int) -> Iterator[Text]:
    """Yield what the best fix would bring where it was replayed, else what is lost."""
    fix = next((fix for fix in finding.fixes if fix.predicted and "step_time_s" in fix.predicted), None)
    if fix is not None and fix.predicted is not None and summary.step_time_s is not None:
        yield from hang(_label("worth"), Text(_predicted(fix.predicted, summary)), width)
    elif finding.lost_share:  # 0 where nothing is wrong: none.compute_bound
        yield from hang(_label("lost"), Text(_lost(finding.lost_share, summary)), width)


def _predicted(predicted: Mapping[str, Estimate], summary: Summary) -> str:
    step = predicted["step_time_s"]
    now = summary.step_time_s or 0.0
    text = f"{duration(now)} → {duration(step.likely)} per step"
    speedup = predicted.get("speedup")
    if speedup is not None:
        text += f", {speedup.likely:.2g}x ({speedup.low:.2g}\N{EN DASH}{speedup.high:.2g}x)"
    return text + _dollars(1 - step.likely / now if now else 0.0, summary)


def _lost(share: float, summary: Summary) -> str:
    if summary.step_time_s is None:
        return f"{percent(share)} of the time" + _dollars(share, summary)
    return f"{percent(share)} of the step, {duration(share * summary.step_time_s)}" + _dollars(share, summary)


def _dollars(share: float, summary: Summary) -> str:
    if summary.cost is None or share <= 0:
        return ""
    hourly = summary.cost.usd_per_gpu_hour
    return f"; {money(share * hourly)} of each {money(hourly)} GPU-hour"
