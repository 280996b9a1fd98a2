"""The answer of `whyidle compare`: for a person, as a table to paste into a pull request, and for programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Final

from rich.text import Text

from whyidle._version import __version__
from whyidle.model.comparison import Change, Comparison, Interval, Learning, Promise
from whyidle.model.finding import GROUPS, Estimate, Summary
from whyidle.render.base import Look
from whyidle.render.headline import time_per_step
from whyidle.render.json import SCHEMA_VERSION, dumps
from whyidle.render.lines import hang
from whyidle.render.pasted import fitted, listed, table, told, written
from whyidle.render.phases import LABELS
from whyidle.render.terminal import write
from whyidle.render.words import clean, duration, kernel_name, percent, rate, shorten, times

SMALL: Final = 0.005  # of the time: a cause with less on both sides has no line
CAUSES: Final = 6  # lines of causes
OPERATORS: Final = 10
PROMISES: Final = 5
NAMED: Final = 3  # rules in a line
LABEL, CELL = 24, 14  # columns of a label, with its indentation, and of a value
GAP: Final = 3  # columns before a ratio
STYLE: Final = {"improved": "bold green"}
HEAD: Final = 13  # columns of what stands before a sentence


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    label: str
    before: str
    after: str
    ratio: str = ""


def comparison_text(found: Comparison, look: Look) -> str:
    """Return the answer for a person; `look.everything` lists operators and kernels that differ."""
    return write(_lines(found, min(max(look.width, 60), 120), look.everything), look)


def comparison_json(found: Comparison, look: Look) -> str:
    """Return the comparison written out; the keys are its fields."""
    written = [field.name for field in fields(found) if field.metadata.get("json", True)]
    values = {name: getattr(found, name) for name in written}
    head = {"schema_version": SCHEMA_VERSION, "whyidle": __version__}
    said = {"verdict": found.verdict, "concern": found.concern, "exit_code": found.exit_code}
    return dumps({**head, **said, **values}, ascii_only=not look.unicode)


def comparison_markdown(found: Comparison, look: Look) -> str:
    """Return a table that can be pasted where people review a change."""
    cells = [(row.label.strip(), row.before, row.after, row.ratio) for row in rows(found)]
    numbers = table(("", "before", "after", ""), cells, last_left=True) if cells else ""
    return written(fitted((f"**{told(found.message)}**", numbers, listed(remarks(found)))), look)


def comparison_html(found: Comparison, look: Look) -> str:
    """Return the comparison as a page."""
    from whyidle.render.html import comparison  # noqa: PLC0415 - Jinja takes a fifth of a second

    return comparison.comparison_page(found, look)


FORMATS: Final[dict[str, Callable[[Comparison, Look], str]]] = {
    "terminal": comparison_text,
    "json": comparison_json,
    "markdown": comparison_markdown,
    "html": comparison_html,
}


def answer(found: Comparison) -> tuple[str, str]:
    """Return the answer in a sentence, and what is to be said right behind it; "" for nothing."""
    first, *more = re.split(r"(?<=[.!?]) (?=[A-Z-])", clean(found.message), maxsplit=1)
    return first, more[0] if more else ""


def rows(found: Comparison) -> Iterator[Row]:
    """Yield the table: speed, cost, idle time by cause."""
    one, other = found.before, found.after
    per_work = found.throughput_ratio if found.per == "step" else None
    yield from _row("step, median", one.step_time_s, other.step_time_s, duration, found.speedup)
    yield from _row("step, mean", one.step_time_mean_s, other.step_time_mean_s, duration, per_work)
    for unit in ("samples", "tokens"):
        had, has = (getattr(arm, f"{unit}_per_s") for arm in (one, other))
        ratio = found.throughput_ratio if f"{found.per}s" == unit else None
        yield from _row(f"{unit} per second", had, has, rate, ratio)
    for unit in ("samples", "tokens"):
        had, has = (getattr(arm, f"usd_per_million_{unit}") for arm in (one, other))
        yield from _row(f"$ per million {unit}", had, has, lambda usd: f"${usd:,.4g}")
    yield from _idle(one.summary, other.summary)


def _row(
    label: str,
    before: float | None,
    after: float | None,
    said: Callable[[float], str],
    ratio: Interval | None = None,
) -> Iterator[Row]:
    if before is not None or after is not None:
        had, has = ("not known" if value is None else said(value) for value in (before, after))
        yield Row(label, had, has, "" if ratio is None else ratio_text(ratio))


def ratio_text(ratio: Interval | Estimate) -> str:
    """Return "1.33x (1.20x–1.40x)"."""
    return f"{times(ratio.likely, 2)} ({times(ratio.low, 2)}–{times(ratio.high, 2)})"


def _idle(one: Summary, other: Summary) -> Iterator[Row]:
    """Yield how much the GPU idles, by cause; where no trace tells that, what the host waits for, or a curve."""
    if one.gpu_idle_share is not None or other.gpu_idle_share is not None:
        yield _share("GPU idle", one, other, one.gpu_idle_share, other.gpu_idle_share)
        yield from _parts(one, other, *(groups_of(summary) for summary in (one, other)))
    elif one.host_shares or other.host_shares:
        yield Row("the host's time", "", "")
        yield from _parts(one, other, *(phases_of(summary) for summary in (one, other)))
    if not all(summary.gpu_idle_share == summary.curve_idle_share for summary in (one, other)):
        yield from _row("idle, by its curve", one.curve_idle_share, other.curve_idle_share, percent)


def phases_of(summary: Summary) -> dict[str, float] | None:
    """Return the shares of the host's time by what it does, in words; None where nobody watched it."""
    return {LABELS.get(name, name): share for name, share in summary.host_shares.items()} or None


def groups_of(summary: Summary) -> dict[str, float] | None:
    """Return the shares of the time in which the GPU idles, by group of causes; None where no trace tells."""
    if summary.gpu_idle_share is None:
        return None
    return {label: sum(summary.idle_by_cause.get(cause, 0.0) for cause in causes) for label, causes in GROUPS.items()}


def _parts(one: Summary, other: Summary, had: dict[str, float] | None, has: dict[str, float] | None) -> Iterator[Row]:
    """Yield the causes that take most of either side."""
    labels = dict.fromkeys([*(had or {}), *(has or {})])
    most = {label: max((had or {}).get(label, 0.0), (has or {}).get(label, 0.0)) for label in labels}
    for label in sorted(labels, key=lambda name: -most[name])[:CAUSES]:
        if most[label] >= SMALL:
            before, after = (None if side is None else side.get(label, 0.0) for side in (had, has))
            yield _share(f"  {label}", one, other, before, after)


def _share(label: str, one: Summary, other: Summary, before: float | None, after: float | None) -> Row:
    """Return a share of the time on both sides, and what it is of a step."""
    cells = []
    for summary, share in ((one, before), (other, after)):
        whole = time_per_step(summary)
        step = "" if share is None or whole is None else duration(share * whole)
        cells.append("not known" if share is None else f"{percent(share)} {step:>8}".rstrip())
    return Row(label, *cells)


def _lines(found: Comparison, width: int, operators: bool) -> Iterator[Text]:
    first, more = answer(found)
    style = "bold red" if found.exit_code else STYLE.get(found.verdict, "bold")
    yield from hang(Text("  "), Text(first, style=style), width)
    if more:
        yield from hang(Text("  "), Text(more), width)
    numbers = list(rows(found))
    if numbers:
        yield Text()
        yield Text(f"  {'':<{LABEL - 2}}{'before':>{CELL}}{'after':>{CELL}}", style="dim")
        yield from (_drawn(row, width) for row in numbers)
    said = list(remarks(found))
    if said:
        yield Text()
    for head, text in said:
        yield from hang(Text(f"  {head:<{HEAD - 2}}", style="bold"), Text(clean(text)), width)
    if operators:
        yield from _changes(found, width)


def _drawn(row: Row, width: int) -> Text:
    """Return a line of the table; where its ratio has no room it goes without its range, and closer."""
    text = f"  {clean(row.label):<{LABEL - 2}}{row.before:>{CELL}}{row.after:>{CELL}}"
    ratio = row.ratio if len(text) + GAP + len(row.ratio) <= width else row.ratio.partition(" ")[0]
    gap = max(min(GAP, width - len(text) - len(ratio)), 1)
    return Text(f"{text}{' ' * gap}{ratio}".rstrip())


def remarks(found: Comparison) -> Iterator[tuple[str, str]]:
    """Yield what is to be said below the table, each with a word before it."""
    noted = [each.message for each in found.confounders if each.weight == "noted"]
    if noted:
        yield "changed", "; ".join(shorten(message, 80) for message in noted)
    if found.learning is not None and (found.learning.verdict != "no losses" or found.learning.required):
        yield "learning", learning_text(found.learning)
    made = [each for each in found.predicted if each.made]
    for promise in [each for each in made if each.measured is not None] or made[:PROMISES]:
        yield "predicted", promise_text(promise)
    left = [each for each in found.predicted if not each.made and each.predicted is not None][:PROMISES]
    if left:
        yield "not made", ", ".join(f"{each.rule} ({_worth(each)})" for each in left) + "."
    yield from (("but", text) for text in doubts(found))
    if found.not_recorded:
        yield "not known", f"whether these are alike: {', '.join(found.not_recorded)}."
    for warning in found.warnings:
        yield "warning", warning


def doubts(found: Comparison) -> Iterator[str]:
    """Yield what casts doubt on the verdict; with --force also what would have refused it."""
    for each in found.confounders:
        if each.weight == "doubts" or (each.weight == "blocks" and found.verdict != "cannot judge"):
            yield each.message


def learning_text(learning: Learning) -> str:
    """Return what is known of how the model learns, and that it has to be shown where it has to."""
    asked = f" It has to be shown, as {learning.required} changed." if learning.lacks_proof else ""
    return f"{learning.message.rstrip('.')}.{asked}"


def _worth(promise: Promise) -> str:
    return "not predicted" if promise.predicted is None else f"predicted {ratio_text(promise.predicted)}"


def promise_text(promise: Promise) -> str:
    """Return what was predicted of a fix that was made, and what came of it."""
    rules = promise.rule.split(" + ")
    more = f" and {len(rules) - NAMED} more" if len(rules) > NAMED else ""
    return f"{' + '.join(rules[:NAMED])}{more}, {came_of(promise)}"


def came_of(promise: Promise) -> str:
    """Return the same without its name."""
    said = _worth(promise)
    if not promise.made:
        return f"{said}."
    if promise.measured is not None and promise.predicted is not None and promise.came_true is not None:
        brought_more = promise.measured.low > promise.predicted.high
        came = "came true" if promise.came_true else "brought more" if brought_more else "did not come true"
        others = f", with {', '.join(promise.beside[:NAMED])} changed as well" if promise.beside else ""
        return f"{said}: {came}, measured {ratio_text(promise.measured)}{others}."
    if promise.measured is not None:
        return f"{said}: made, measured {ratio_text(promise.measured)}{f' ({promise.why})' if promise.why else ''}."
    return f"{said}: made{f' ({promise.why})' if promise.why else ''}."


def _changes(found: Comparison, width: int) -> Iterator[Text]:
    """Yield the operators and kernels that differ most, by seconds."""
    yield Text()
    if not found.changes:
        why = "no two traces" if found.changes_per is None else "no operator or kernel differs by 1% of a step"
        yield from hang(Text("  operators  ", style="bold"), Text(f"{why}."), width)
        return
    name = width - 46
    yield Text(f"  {f'per {found.changes_per}':<{name}}{'calls':>18}{'time':>26}", style="dim")
    yield from (_change(change, name) for change in found.changes[:OPERATORS])
    left = len(found.changes) - OPERATORS
    if left > 0:
        yield Text(f"  and {left:,} more, in --format json", style="dim")


def _change(change: Change, width: int) -> Text:
    now = f", now {kernel_name(change.now)}" if change.now else ""
    name = shorten(f"{change.what}: {kernel_name(change.name)}{now}", width - 2)
    calls = f"{rate(change.count_before)} → {rate(change.count_after)}"
    took = f"{duration(change.seconds_before)} → {duration(change.seconds_after)}"
    return Text(f"  {name:<{width}}{calls:>18}{took:>26}")
