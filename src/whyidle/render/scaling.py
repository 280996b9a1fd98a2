"""How a job scales, for a screen and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from textwrap import wrap
from typing import Final

from whyidle._version import __version__
from whyidle.compare.scaling import NAMES, gains, percent_of
from whyidle.model.scaling import Scaling, Size
from whyidle.render.base import Look
from whyidle.render.json import SCHEMA_VERSION, dumps
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
    kind = "" if scaling.kind is None else f"{KINDS[scaling.kind]}: "
    lines = [
        *_said("", [clean(scaling.verdict), f"{kind}{clean(scaling.why_kind)}"], look),
        "",
        *_table(_sizes(scaling, look)),
        *_losses(scaling),
        "",
        *_said("next", [_doubling(scaling)], look),
        *_said("cost", _cost(scaling), look),
        *_said("not recorded", _not_recorded(scaling), look),
        *_said("note", map(clean, scaling.warnings), look),
    ]
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return text if look.unicode else text.replace("\N{EN DASH}", "-")


def _sizes(scaling: Scaling, look: Look) -> Iterator[Sequence[str]]:
    """Yield a row for each size, below the names of the columns."""
    priced = any(size.usd_per_million is not None for size in scaling.sizes)
    worked = any(size.gpu_hours_per_million is not None for size in scaling.sizes)
    cost = [f"$/1M {scaling.unit}"] if priced else [f"GPU-h/1M {scaling.unit}"] if worked else []
    yield ["GPUs", f"{scaling.unit}/s", "speedup", "of linear", "", *cost]
    for size in scaling.sizes:
        usd, hours = size.usd_per_million, size.gpu_hours_per_million
        told = [unit_price(usd) if usd is not None else figure(hours)] if cost and hours is not None else []
        yield [
            f"{size.gpus:,}",
            rate(size.throughput.likely),
            times(size.speedup.likely, 2),
            percent_of(size.efficiency),
            _bar(size.efficiency.likely, look),
            *told,
        ]


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


def _losses(scaling: Scaling) -> Iterator[str]:
    """Yield what is lost to what at each size, in percent of the GPUs' time; whole numbers that add up."""
    lost = [(size, size.loss) for size in scaling.sizes if size.loss is not None]
    if all(getattr(loss, part) is None for _, loss in lost for part in PARTS if part != "unexplained"):
        return
    columns = [["lost to", *PARTS.values(), "together"]]
    for size, loss in lost:
        parts = [getattr(loss, part) for part in PARTS]
        whole = iter(_percents([part for part in parts if part is not None], loss.total))
        told = [f"{next(whole)}%" if part is not None else "not recorded" for part in parts]
        columns.append([plural(size.gpus, "GPU"), *told, f"{round(loss.total * 100)}%"])
    yield ""
    first, *others = columns
    widths = [max(map(len, column)) for column in others]
    for row, name in enumerate(first):
        cells = (f"{column[row]:>{width}}" for column, width in zip(others, widths, strict=True))
        yield f"  {name:<{max(map(len, first))}}  " + "  ".join(cells)


def _percents(parts: Sequence[float], total: float) -> list[int]:
    return percents(parts, total) if min(parts) >= 0 else [round(part * 100) for part in parts]


def _doubling(scaling: Scaling) -> str:
    more, last = scaling.doubling, scaling.sizes[-1]
    low, high = rate(more.throughput.low), rate(more.throughput.high)
    said = f"{more.gpus:,} GPUs would do about {rate(more.throughput.likely)} {scaling.unit}/s"
    said += "," if low == high else f" ({low}\N{EN DASH}{high}),"
    said += f" {times(more.gain.likely, 2)} of {last.gpus:,}: {more.efficiency.likely:.0%} of linear"
    return f"{said}. A law through {'two points only' if more.sizes == 2 else f'{more.sizes} points'}."


def _cost(scaling: Scaling) -> Iterator[str]:
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


def _not_recorded(scaling: Scaling) -> Iterator[str]:
    if scaling.not_recorded:
        named = ", ".join(PARTS[part] for part in scaling.not_recorded)
        yield f"{named}: {scaling.how_to_record}."
