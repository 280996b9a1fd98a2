"""What stands below the findings: what idle time costs, what was not judged, what is doubtful."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from rich.text import Text

from whyidle.cost import YOURS
from whyidle.model.finding import WATCH, Cost, Prediction, Report, RunInfo
from whyidle.render.caveats import warnings, ways
from whyidle.render.cleared import cleared
from whyidle.render.lines import hang
from whyidle.render.words import basename, clean, duration, money, plural, unit_price

_MOST_WARNINGS = 4
_FILES = 2  # that a command names
APART = 0.05  # of the recorded step: a replayed one that differs by more is told


def notes(report: Report, width: int, *, everything: bool) -> Iterator[Text]:
    """Yield the notes, the most useful first."""
    yield from _cost(report, width, everything)
    yield from _warnings(report, width, everything)
    yield from _settled_by(report, width)
    yield from cleared(report, width, everything=everything)
    yield from _predicted(report, width, everything)
    yield from _other_files(report, width, everything)
    if everything:
        yield from _how_to_judge(report, width)
        return
    if not report.healthy:
        yield from _not_judged(report, width)
    if report.judged:
        yield from _more(report, width)


def _cost(report: Report, width: int, everything: bool) -> Iterator[Text]:
    cost = report.summary.cost
    if cost is None:
        if report.judged and not report.healthy and report.summary.gpu_idle_share is not None:
            yield from hang(Text("  cost: ", style="dim"), Text(unpriced(report), style="dim"), width)
        return
    asked = cost.hours is not None or cost.price_source == YOURS
    if everything or asked or not report.healthy:
        yield from hang(Text("  cost: ", style="bold"), Text(bill_of(report, cost, everything=everything)), width)


def bill_of(report: Report, cost: Cost, *, everything: bool) -> str:
    """Return what the idle time costs, at which price, and what a unit of work does."""
    hourly = money(cost.usd_per_gpu_hour * cost.gpus)
    idle = cost.idle_usd_per_hour
    text = f"{hourly} per hour" if idle is None else f"{money(idle)} of {hourly} per hour is idle"
    if cost.total_usd is not None and cost.hours is not None:
        part = "" if cost.idle_usd is None else f"{money(cost.idle_usd)} of "
        text += f", {part}{money(cost.total_usd)} in {cost.hours:g} h"
    source = clean(cost.price_source)
    if not everything and "list price" in source:
        source = "list price"
    text += f" ({plural(cost.gpus, 'GPU')} at {money(cost.usd_per_gpu_hour)}, {source})"
    if seen := fewer_recorded(report, cost):
        text += f", if all {cost.gpus:,} GPUs are like the {seen:,} recorded"
    return text + _per_million(cost)


def fewer_recorded(report: Report, cost: Cost) -> int:
    """Return how many GPUs were recorded, where they are fewer than are paid for; else 0."""
    seen = sum(gpu.count for gpu in report.run.gpus) or report.summary.gpu_count
    return seen if seen < cost.gpus else 0


def _per_million(cost: Cost) -> str:
    """Say what a million units of work cost; tokens say more than samples where both are known."""
    units = "samples" if cost.usd_per_million_tokens is None else "tokens"
    usd, busy = (getattr(cost, f"usd_per_million_{units}{name}") for name in ("", "_busy"))
    if usd is None:
        return ""
    return f"; {unit_price(usd)} per million {units}" + (
        f", {unit_price(busy)} without idle time" if busy is not None else ""
    )


def unpriced(report: Report) -> str:
    """Say why there is no cost. Where a number was asked for, that is a warning already."""
    told = next((warning for warning in report.warnings if warning.startswith("no cost: ")), "")
    if told:
        return clean(told).removeprefix("no cost: ")
    unknown = "no list price for this GPU is known" if report.run.gpus else "which GPU it is was not recorded"
    return f"{unknown}; --price USD per GPU-hour"


def _settled_by(report: Report, width: int) -> Iterator[Text]:
    """Yield how to get from a curve to its cause: the next measurement, as a command."""
    if report.run.only_curves and report.grave:
        text = f"`{WATCH}`; then `{joined(report)}` judges both, and a trace if you add one"
        yield from hang(Text("  to find out which: ", style="bold"), Text(text), width)


def joined(report: Report) -> str:
    """Return the command that judges a curve together with a watched run."""
    return f"whyidle DIR {' '.join(shlex.quote(basename(file.path)) for file in report.run.evidence[:_FILES])}"


def _predicted(report: Report, width: int, everything: bool) -> Iterator[Text]:
    """Yield what predictions rest on, and why there are none."""
    told = report.prediction
    if told is None or not (everything or (report.findings and not report.healthy)):
        return
    if report.run.only_curves and not everything:  # "when, not why" says it
        return
    style = "bold" if everything else "dim"
    if told.refused:
        if not told.asked:  # whose answer says it already
            said = Text(clean(told.refused), style="" if everything else style)
            yield from hang(Text("  not predicted: ", style=style), said, width)
        return
    text = "; ".join(rests_on(report, told, everything))
    if text:
        yield from hang(Text("  predicted: ", style=style), Text(text, style="" if everything else style), width)
    if everything:
        yield from _unpredicted(told, width)


def rests_on(report: Report, told: Prediction, everything: bool) -> Iterator[str]:
    """Yield where predictions come from: all of it, or what a reader would stumble over."""
    if everything and told.source:
        yield clean(told.source)
    recorded, replayed = report.summary.step_time_mean_s, told.step_time_mean_s
    if recorded and replayed and (everything or abs(replayed / recorded - 1) > APART):
        yield f"the mean step takes {duration(replayed)} replayed as it is, {duration(recorded)} recorded"
    if told.local and any(fix.predicted for finding in report.findings for fix in finding.fixes):
        yield "what ranks wait for each other is held as it is, since not all were recorded"
    if everything and told.identity_error is not None:
        yield f"replayed without a change a step is off by {told.identity_error:.1%} (median)"
    if everything and told.queue is not None:
        yield f"a stream takes {told.queue:,} launches before the host waits"


def unpredicted(told: Prediction) -> dict[str, list[str]]:
    """Return by the reason the rules whose fixes are not predicted."""
    by_why: dict[str, list[str]] = {}
    for rule, why in told.unpriced.items():
        by_why.setdefault(clean(why).rstrip("."), []).append(clean(rule))
    return by_why


def _unpredicted(told: Prediction, width: int) -> Iterator[Text]:
    """Yield the rules whose fixes are not predicted, by the reason."""
    for why, rules in unpredicted(told).items():
        yield from hang(Text("  not predicted: ", style="bold"), Text(f"{', '.join(rules)}: {why}."), width)


def _not_judged(report: Report, width: int) -> Iterator[Text]:
    """Yield which rules could not be asked, in one line."""
    if report.unknown and report.run.only_curves:
        said = f"{plural(len(report.unknown), 'rule')} that a curve cannot answer: --all"
        yield Text(f"  not judged: {said}", style="dim")
    elif report.unknown:
        names = _families(unknown.rule for unknown in report.unknown)
        yield from hang(Text("  not judged: ", style="dim"), Text(names, style="dim"), width, most=1)


def _how_to_judge(report: Report, width: int) -> Iterator[Text]:
    """Yield every rule that could not be asked, by how to get its evidence: most rules first."""
    for how, rules in ways(report):
        yield from hang(Text("  not judged: ", style="bold"), Text(f"{', '.join(rules)}. To judge: {how}."), width)


def _families(rules: Iterable[str]) -> str:
    """Return "compute (2 rules), memory.allocator_thrash": a family with its number, a single rule by its name."""
    families: dict[str, list[str]] = {}
    for rule in rules:
        families.setdefault(rule.partition(".")[0], []).append(rule)
    return ", ".join(
        members[0] if len(members) == 1 else f"{family} ({len(members)} rules)" for family, members in families.items()
    )


def _other_files(report: Report, width: int, everything: bool) -> Iterator[Text]:
    """Yield what else lay there, less what a warning names already."""
    ignored = [
        file for file in report.run.ignored if everything or not any(file.path in said for said in report.warnings)
    ]
    if ignored:
        most = len(ignored) if everything else 2
        names = "; ".join(f"{basename(file.path)} ({clean(file.why).rstrip('.')})" for file in ignored[:most])
        more = f"; and {len(ignored) - most:,} more" if len(ignored) > most else ""
        head = Text(f"  ignored {plural(len(ignored), 'file')}: ", style="bold")
        yield from hang(head, Text(names + more), width, indent=14, most=None if everything else 1)


def _warnings(report: Report, width: int, everything: bool) -> Iterator[Text]:
    """Yield the warnings that the verdict and the cost do not say already."""
    told = warnings(report)
    shown = told if everything else told[:_MOST_WARNINGS]
    rest = len(told) - len(shown)
    for warning in (*shown, *([f"{rest:,} more: --all"] if rest else [])):
        text = clean(warning)
        if not everything:
            text = by_name(text, report.run)
        yield from hang(Text("  warning: ", style="bold yellow"), Text(text), width)


def by_name(text: str, *runs: RunInfo) -> str:
    """Return a warning in which files are called by their names; where they lie was typed a moment ago."""
    files = [(*(file.path for file in run.evidence), *(file.path for file in run.ignored)) for run in runs]
    paths = {clean(path) for one in files for path in one}
    for path in sorted((path for path in paths if path in text), key=len, reverse=True):
        text = re.sub(rf"(?<!\S){re.escape(path)}(?=[:,;.\s]|$)", lambda _, path=path: basename(path), text)  # type: ignore[misc]
    return text


def _more(report: Report, width: int) -> Iterator[Text]:
    """Yield where to read on."""
    text = ""
    if report.healthy:
        parts = []
        small = sum(1 for finding in report.findings if finding.lost_share)
        if small:
            parts.append(plural(small, "small finding"))
        if report.unknown:
            parts.append(f"{plural(len(report.unknown), 'rule')} not judged")
        text = f"{', '.join(parts)}: --all" if parts else ""
    elif report.findings:
        text = "whyidle explain RULE: why, and when to ignore it; --all: everything"
    if text:
        yield from hang(Text("  "), Text(text, style="dim"), width)
