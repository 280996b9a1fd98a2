"""How a job scales, for a screen and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from textwrap import wrap
from typing import Final

from whyidle._version import __version__
from whyidle.compare.scaling import NAMES, gains, percent_of
from whyidle.model.scaling import Scaling, Size
from whyidle.render.base import Look
from whyidle.render.json import SCHEMA_VERSION, dumps
from whyidle.render.pasted import fitted, listed, table, told, written
from whyidle.render.words import clean, figure, money, percents, plural, rate, times, unit_price

KINDS: Final = {"strong": "strong scaling", "weak": "weak scaling", "mixed": "batch sizes that differ"}
PARTS: Final[Mapping[str, str]] = {**NAMES, "unexplained": "all else"}
BAR: Final = 15  # characters


def scaling_json(scaling: Scaling, *, ascii_only: bool = False) -> str:
    """Return everything that is told, for a program."""
    head = {"schema_version": SCHEMA_VERSION, "whyidle": __version__}
    values = {field.name: getattr(scaling, field.name) for field in fields(scaling)}
    return dumps({**head, **values}, ascii_only=ascii_only)


def scaling_text(scaling: Scaling, look: Look) -> str:
    """Return the answer for a person: sizes, what is lost to what, the next doubling, what it costs."""
    lines = [
        *_said("", [clean(scaling.verdict), kind_text(scaling)], look),
        "",
        *_table(_drawn(scaling, look)),
        *_losses(scaling),
        "",
        *(line for head, text in remarks(scaling) for line in _said(head, [text], look)),
    ]
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return text if look.unicode else text.replace("\N{EN DASH}", "-")


def kind_text(scaling: Scaling) -> str:
    """Return whether it is strong or weak scaling, and how that is known."""
    kind = "" if scaling.kind is None else f"{KINDS[scaling.kind]}: "
    return f"{kind}{clean(scaling.why_kind)}"


def remarks(scaling: Scaling) -> Iterator[tuple[str, str]]:
    """Yield what is said below the table, each with a word before it."""
    yield "next", doubling(scaling)
    yield from (("cost", text) for text in cost(scaling))
    yield from (("not recorded", text) for text in not_recorded(scaling))
    yield from (("note", clean(text)) for text in scaling.warnings)


def scaling_markdown(scaling: Scaling, look: Look) -> str:
    """Return the answer to paste into a pull request."""
    head, *rows = sizes(scaling)
    blocks = [f"**{told(scaling.verdict)}**", told(kind_text(scaling)), table(head, rows, left=0)]
    lost = losses(scaling)
    blocks += [table(lost[0], lost[1:])] if lost else []
    return written(fitted([*blocks, listed(remarks(scaling))]), look)


def scaling_html(scaling: Scaling, look: Look) -> str:
    """Return the answer as a page."""
    from whyidle.render.html.scaling import scaling_page  # noqa: PLC0415 - Jinja takes a fifth of a second

    return scaling_page(scaling, look)


def sizes(scaling: Scaling) -> Iterator[tuple[str, ...]]:
    """Yield the names of the columns, then a row for each size."""
    priced = any(size.usd_per_million is not None for size in scaling.sizes)
    worked = any(size.gpu_hours_per_million is not None for size in scaling.sizes)
    unit = [f"$/1M {scaling.unit}"] if priced else [f"GPU-h/1M {scaling.unit}"] if worked else []
    yield ("GPUs", f"{scaling.unit}/s", "speedup", "of linear", *unit)
    for size in scaling.sizes:
        usd, hours = size.usd_per_million, size.gpu_hours_per_million
        told = [unit_price(usd) if usd is not None else figure(hours)] if unit and hours is not None else []
        speedup, efficiency = times(size.speedup.likely, 2), percent_of(size.efficiency)
        yield (f"{size.gpus:,}", rate(size.throughput.likely), speedup, efficiency, *told)


def _drawn(scaling: Scaling, look: Look) -> Iterator[Sequence[str]]:
    """Yield the same rows with a bar in each."""
    head, *rows = sizes(scaling)
    yield [*head[:4], "", *head[4:]]
    for row, size in zip(rows, scaling.sizes, strict=True):
        yield [*row[:4], _bar(size.efficiency.likely, look), *row[4:]]


def _said(head: str, sentences: Iterable[str], look: Look) -> Iterator[str]:
    """Yield sentences behind what they are about, in lines that fit."""
    for sentence in sentences:
        begin, behind = (f"  {head}  ", " " * 8) if head else ("  ", "  ")
        yield from wrap(
            sentence, max(look.width, 40), initial_indent=begin, subsequent_indent=behind, break_on_hyphens=False
        )


def _bar(share: float, look: Look) -> str:
    return ("█" if look.unicode else "#") * round(BAR * min(max(share, 0.0), 1.2))


def _table(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Yield aligned lines: bars to the left, all else to the right."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (
            f"{cell:<{width}}" if _is_bar(cell) else f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)
        )
        yield "  " + "  ".join(cells)


def _is_bar(cell: str) -> bool:
    return set(cell) in ({"█"}, {"#"})


def losses(scaling: Scaling) -> list[tuple[str, ...]]:
    """Return what is lost to what at each size, in percent of the GPUs' time; the names of columns first, if any.

    Whole numbers, which add up.
    """
    lost = [(size, size.loss) for size in scaling.sizes if size.loss is not None]
    if all(getattr(loss, part) is None for _, loss in lost for part in PARTS if part != "unexplained"):
        return []
    columns = [["lost to", *PARTS.values(), "together"]]
    for size, loss in lost:
        parts = [getattr(loss, part) for part in PARTS]
        whole = iter(parts_percent([part for part in parts if part is not None], loss.total))
        told = [f"{next(whole)}%" if part is not None else "not recorded" for part in parts]
        columns.append([plural(size.gpus, "GPU"), *told, f"{round(loss.total * 100)}%"])
    return list(zip(*columns, strict=True))


def _losses(scaling: Scaling) -> Iterator[str]:
    rows = losses(scaling)
    if not rows:
        return
    yield ""
    names, *others = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in others]
    for name, *shares in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(shares, widths, strict=True))
        yield f"  {name:<{max(map(len, names))}}  " + "  ".join(cells)


def parts_percent(parts: Sequence[float], total: float) -> list[int]:
    """Return parts of the loss in whole percents, which add up where none is below zero."""
    return percents(parts, total) if min(parts) >= 0 else [round(part * 100) for part in parts]


def doubling(scaling: Scaling) -> str:
    """Return what twice the GPUs would do."""
    more, last = scaling.doubling, scaling.sizes[-1]
    low, high = rate(more.throughput.low), rate(more.throughput.high)
    said = f"{more.gpus:,} GPUs would do about {rate(more.throughput.likely)} {scaling.unit}/s"
    said += "," if low == high else f" ({low}\N{EN DASH}{high}),"
    said += f" {times(more.gain.likely, 2)} of {last.gpus:,}: {more.efficiency.likely:.0%} of linear"
    if more.sizes == 2:
        return f"{said}. By Amdahl's law through two points only."
    laws = f"laws of scaling (Amdahl's, Gunther's, a tree's, a ring's) fitted to {more.sizes} sizes"
    return f"{said}. Extrapolated by {laws}; the range is of those that fit, a slower network for one is not in it."


def cost(scaling: Scaling) -> Iterator[str]:
    """Yield from where on more GPUs make a unit of work dearer."""
    one = scaling.unit.removesuffix("s")
    first, last = scaling.sizes[0], scaling.sizes[-1]
    cheapest = next(size for size in scaling.sizes if size.gpus == scaling.cheapest)
    if scaling.unit not in {"samples", "tokens"}:
        return
    if scaling.dearer_from is None and gains(cheapest.efficiency):
        ratio = 1 / cheapest.efficiency.likely
        yield (
            f"a {one} is cheapest on {plural(cheapest.gpus, 'GPU')}: {times(ratio, 2)} what it costs on"
            f" {first.gpus:,}{_dollars(cheapest, first)}."
        )
    elif scaling.dearer_from is None:
        beyond = "beyond what was measured to vary" if last.steps else "by 1% or more"
        yield f"no size makes a {one} dearer than another, {beyond}."
    else:
        ratio = cheapest.efficiency.likely / last.efficiency.likely
        yield (
            f"from {plural(scaling.dearer_from, 'GPU')} on each {one} costs more than on {cheapest.gpus:,}:"
            f" {times(ratio, 2)} on {last.gpus:,}{_dollars(cheapest, last)}."
        )
    if scaling.price_source and scaling.usd_per_gpu_hour is not None:
        yield f"{money(scaling.usd_per_gpu_hour)} per GPU-hour: {clean(scaling.price_source)}."


def _dollars(cheapest: Size, last: Size) -> str:
    if cheapest.usd_per_million is None or last.usd_per_million is None:
        return ""
    return f" ({unit_price(cheapest.usd_per_million)} and {unit_price(last.usd_per_million)} per million)"


def not_recorded(scaling: Scaling) -> Iterator[str]:
    """Yield which parts of the loss nobody recorded, and how to."""
    if scaling.not_recorded:
        named = ", ".join(PARTS[part] for part in scaling.not_recorded)
        yield f"{named}: {scaling.how_to_record}."


FORMATS: Final[Mapping[str, Callable[[Scaling, Look], str]]] = {
    "terminal": scaling_text,
    "json": lambda scaling, look: scaling_json(scaling, ascii_only=not look.unicode),
    "markdown": scaling_markdown,
    "html": scaling_html,
}
