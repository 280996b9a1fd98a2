"""The page of `whyidle scaling`: what more GPUs bring, what each size loses to what, and the next doubling."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from whyidle.compare.scaling import RECORD, percent_of
from whyidle.model.scaling import Loss, Scaling
from whyidle.render.base import Look
from whyidle.render.html.rows import BarRow, Item, TableRow
from whyidle.render.html.section import Section, filled
from whyidle.render.html.verb_page import verb_page
from whyidle.render.html.whiskers import Piece, stacked, to_ends, whisker
from whyidle.render.palette import slug
from whyidle.render.scaling import PARTS, kind_text, losses, remarks, scaling_json, sizes
from whyidle.render.words import clean, percent, plural, rate, times, unit_price

COLORS: Final = {
    "communication": "communication",  # a colour of this page alone: web/src/verbs.css
    "imbalance": "waiting for peers",
    "input": "waiting for data",
    "unexplained": "other",
}


LITTLE: Final = 0.05  # of the GPUs' time: a smaller loss is not worth a change (judgement)
REMEDIES: Final = {
    "communication": (
        "Cut communication, or let it run while something computes: gradient accumulation, larger buckets, a faster "
        "network between nodes."
    ),
    "imbalance": "Give each rank the same work, so that none waits for the slowest.",
    "input": "End the wait for data: `whyidle loader` tries the DataLoader's settings.",
}


@dataclass(frozen=True, slots=True)
class _Lost:
    """What becomes of the GPUs' time at one size."""

    name: str
    pieces: tuple[Piece, ...]


def scaling_page(scaling: Scaling, look: Look) -> str:
    """Return the page."""
    made = (_verdict(scaling), _sizes(scaling), _losses(scaling), _table(scaling), _about(scaling))
    return verb_page(scaling.verdict, made, scaling_json(scaling, ascii_only=not look.unicode), look)


def _verdict(scaling: Scaling) -> Section:
    first, _, more = clean(scaling.verdict).partition(". ")
    return Section(
        "verdict",
        "",
        filled(
            "scaling_verdict",
            first=first.rstrip(".") + ".",
            more=more,
            kind=kind_text(scaling),
            facts=list(_facts(scaling)),
            todo=_todo(scaling),
            commands=_commands(scaling),
            told=[pair for pair in remarks(scaling) if pair[0] in {"next", "cost"}],
        ),
    )


def _todo(scaling: Scaling) -> str:
    """Return what to do: about the largest loss that is known, else to record what nobody knows."""
    last = scaling.sizes[-1]
    loss = last.loss
    if loss is None or loss.total < LITTLE:
        return "Nothing: more GPUs are used as well as fewer are."
    known = {part: getattr(loss, part) or 0.0 for part in REMEDIES}
    part = max(known, key=lambda one: known[one])
    if known[part] >= LITTLE and known[part] >= loss.unexplained / 2:
        return f"{REMEDIES[part]} It takes {percent(known[part])} of the GPUs' time on {last.gpus:,}."
    if scaling.not_recorded and scaling.how_to_record == RECORD:
        return f"Find out what is lost to what: {RECORD}."
    return "Compare the largest size with the smallest: smaller kernels, lower clocks or the host take what is lost."


def _commands(scaling: Scaling) -> list[tuple[str, str]]:
    """Return what to run next, each with what it tells; what was given in numbers alone has no recordings."""
    first, last = scaling.sizes[0], scaling.sizes[-1]
    told = []
    if last.paths:
        told.append((f"why {plural(last.gpus, 'GPU')} idle", shlex.join(["whyidle", "diagnose", *last.paths])))
    if len(first.paths) == len(last.paths) == 1:
        words = ["whyidle", "compare", first.paths[0], last.paths[0]]
        told.append((f"{first.gpus:,} beside {last.gpus:,}", shlex.join(words)))
    return told


def _facts(scaling: Scaling) -> Iterator[Item]:
    first, last, more = scaling.sizes[0], scaling.sizes[-1], scaling.doubling
    yield Item(f"{plural(last.gpus, 'GPU')}, of linear", percent_of(last.efficiency))
    yield Item(f"vs {plural(first.gpus, 'GPU')}", times(last.speedup.likely, 2))
    if first.usd_per_million is not None and last.usd_per_million is not None:
        yield Item(
            f"a million {scaling.unit}", f"{unit_price(first.usd_per_million)} → {unit_price(last.usd_per_million)}"
        )
    yield Item(f"{more.gpus:,} GPUs, vs {last.gpus:,}", times(more.gain.likely, 2), "extrapolated")


def _sizes(scaling: Scaling) -> Section:
    """Return throughput by GPUs: a bar each, with where linear scaling would be, and the next doubling."""
    first, more = scaling.sizes[0], scaling.doubling
    each = first.throughput.likely / first.gpus
    scale = to_ends([*(size.throughput for size in scaling.sizes), more.throughput], each * more.gpus)
    told = [
        BarRow(
            plural(size.gpus, "GPU"),
            whisker(size.throughput, scale),
            f"{rate(size.throughput.likely)} {scaling.unit}/s · {percent_of(size.efficiency)}",
            mark="cheapest" if size.gpus == scaling.cheapest and len(scaling.sizes) > 1 else "",
            limit=scale.at(each * size.gpus),
        )
        for size in scaling.sizes
    ]
    likely = f"about {rate(more.throughput.likely)} {scaling.unit}/s · {more.efficiency.likely:.0%}"
    told.append(
        BarRow(
            f"{more.gpus:,} GPUs",
            whisker(more.throughput, scale),
            likely,
            mark="extrapolated",
            limit=scale.at(each * more.gpus),
        )
    )
    return Section("sizes", "By GPUs", filled("scaling_sizes", rows=told, base=plural(first.gpus, "GPU")))


def _losses(scaling: Scaling) -> Section | None:
    """Return what the GPUs' time goes into at each size."""
    told = losses(scaling)
    if not told:
        return None
    bars = [
        _Lost(plural(size.gpus, "GPU"), _pieces(size.efficiency.likely, size.loss))
        for size in scaling.sizes
        if size.loss is not None
    ]
    rows = [TableRow(row) for row in told[1:]]
    named = {name: slug(COLORS[part]) for part, name in PARTS.items()}
    html = filled("scaling_losses", bars=bars, head=told[0], rows=rows, colors=named)
    return Section("losses", "What is lost to what", html)


def _pieces(efficiency: float, loss: Loss) -> tuple[Piece, ...]:
    parts = [("used as on the smallest", "c-busy", efficiency, f"used as on the smallest: {percent(efficiency)}")]
    for part, name in PARTS.items():
        share = getattr(loss, part)
        if share is not None and share > 0:
            parts.append((name, f"c-{slug(COLORS[part])}", share, f"{name}: {percent(share)}"))
    return stacked(parts, sum(part[2] for part in parts))


def _table(scaling: Scaling) -> Section:
    head, *rows = sizes(scaling)
    return Section("numbers", "Numbers", filled("scaling_table", head=head, rows=[TableRow(row) for row in rows]))


def _about(scaling: Scaling) -> Section | None:
    told = [pair for pair in remarks(scaling) if pair[0] not in {"next", "cost"}]
    warnings = [text for head, text in told if head == "note"]
    pairs = [(plural(size.gpus, "GPU"), ", ".join(size.paths)) for size in scaling.sizes if size.paths]
    pairs += [pair for pair in told if pair[0] != "note"]
    if not pairs and not warnings:
        return None
    return Section("about", "How it was measured", filled("sweep_about", notes=warnings, pairs=pairs))
