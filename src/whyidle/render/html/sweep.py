"""The page of `whyidle sweep`: what to take and the line to paste, each cell as a bar, and all that was measured."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whyidle.model.trial import Cell, Sweep
from whyidle.render.base import Look
from whyidle.render.headline import sentences
from whyidle.render.html.rows import BarRow, Item, TableRow
from whyidle.render.html.section import Section, filled
from whyidle.render.html.verb_page import verb_page
from whyidle.render.html.whiskers import to_ends, whisker
from whyidle.render.sweep import (
    answer,
    columns,
    half_width,
    is_recommended,
    named,
    notes,
    outcome,
    reached,
    spent,
    sweep_json,
)
from whyidle.render.words import clean, percent, plural, rate, times, unit_price

TAKE = "take this"
LOOSE = 0.05  # of a rate, to both sides: what is known no better is not sure (judgement)
SHADES = 8  # of a grid: --good from faint to full


@dataclass(frozen=True, slots=True)
class _Square:
    """A cell of the grid."""

    text: str
    shade: int | None  # 0 the slowest; None: no number
    chosen: bool = False


def sweep_page(sweep: Sweep, look: Look) -> str:
    """Return the page."""
    made = (_verdict(sweep), _cells(sweep), _grid(sweep), _table(sweep), _about(sweep))
    return verb_page(answer(sweep), made, sweep_json(sweep, ascii_only=not look.unicode), look)


def _verdict(sweep: Sweep) -> Section:
    first, more = _split(sweep)
    doubts = list(_doubts(sweep))
    return Section(
        "verdict",
        "",
        filled(
            "sweep_verdict",
            first=first,
            more=more,
            tone="unknown" if sweep.recommended is None or doubts else "good",
            doubts=doubts,
            take=sweep.take,
            proof=sweep.proof,
            facts=list(_facts(sweep)),
        ),
    )


def _doubts(sweep: Sweep) -> Iterator[str]:
    """Yield why what is to be taken is not sure, to stand beside it."""
    best = next((cell for cell in sweep.cells if is_recommended(sweep, cell)), None)
    if best is None or best.throughput is None:
        return
    if not best.settled and best.throughput.half_share > LOOSE:
        alike = "no cell's" if not any(cell.settled for cell in sweep.cells) else "its"
        yield (
            f"{alike} step time was settled: the rate of this one is known to ±{half_width(best.throughput)}, by "
            f"{plural(best.steps, 'step')}. More steps, or a longer `--cell-time`, tell."
        )
    elif answer(sweep).startswith("Cannot tell"):
        yield "the steps vary too much to tell which cell is faster."


def _split(sweep: Sweep) -> tuple[str, str]:
    """Return what to take, and why."""
    said = answer(sweep)
    if sweep.recommended is None:
        first, *more = sentences(said)
        return first, " ".join(more)
    if said.startswith("Cannot tell"):
        return f"Take {named(sweep.recommended)}, though nothing tells it from others.", said
    return f"Take {named(sweep.recommended)}.", clean(sweep.why)


def _facts(sweep: Sweep) -> Iterator[Item]:
    """Yield what the recommended cell gives, beside the first."""
    first = next((cell for cell in sweep.cells if cell.throughput is not None), None)
    best = next((cell for cell in sweep.cells if is_recommended(sweep, cell)), None)
    if best is None or best.throughput is None:
        return
    if best.speedup is not None and best is not first:
        low, high = times(best.speedup.low, 2), times(best.speedup.high, 2)
        yield Item(f"vs {named(sweep.cells[0].params)}", times(best.speedup.likely, 2), f"95%: {low} to {high}")
    yield Item(f"{best.throughput_unit} per second", rate(best.throughput.likely), f"±{half_width(best.throughput)}")
    before = None if first is None or first is best else first
    if best.usd_per_million is not None:
        had = "" if before is None or before.usd_per_million is None else f"{unit_price(before.usd_per_million)} → "
        yield Item(f"a million {best.throughput_unit}", f"{had}{unit_price(best.usd_per_million)}")
    for label, name in (("waiting for data", "data_wait_share"), ("GPU idle", "gpu_idle_share")):
        share = getattr(best, name)
        if share is not None:
            old = None if before is None else getattr(before, name)
            yield Item(label, f"{'' if old is None else f'{percent(old)} → '}{percent(share)}")


def _cells(sweep: Sweep) -> Section | None:
    """Return a bar for each cell."""
    if not sweep.cells:
        return None
    scale = to_ends([cell.throughput for cell in sweep.cells if cell.throughput is not None])
    unit = next((cell.throughput_unit for cell in sweep.cells if cell.throughput is not None), "")
    rows = [
        BarRow(
            named(cell.params),
            None if cell.throughput is None else whisker(cell.throughput, scale),
            "" if cell.throughput is None else f"{rate(cell.throughput.likely)} ±{half_width(cell.throughput)}",
            is_recommended(sweep, cell),
            TAKE if is_recommended(sweep, cell) else "" if cell.status == "ok" else cell.status,
            cell.why if cell.throughput is None else "",
        )
        for cell in sweep.cells
    ]
    return Section("cells", "Cells", filled("sweep_cells", rows=rows, unit=unit))


def _grid(sweep: Sweep) -> Section | None:
    """Return throughput by two parameters, as a grid with shades."""
    names = list(dict.fromkeys(name for cell in sweep.cells for name in cell.params))
    if len(names) != 2:
        return None
    across, down = names[1], names[0]
    values = {name: list(dict.fromkeys(cell.params.get(name, "") for cell in sweep.cells)) for name in names}
    if min(map(len, values.values())) < 2:
        return None
    by_params = {(cell.params.get(down, ""), cell.params.get(across, "")): cell for cell in sweep.cells}
    known = [cell.throughput.likely for cell in sweep.cells if cell.throughput is not None]
    if not known:
        return None
    lines = [
        (value, [_square(sweep, by_params.get((value, other)), known) for other in values[across]])
        for value in values[down]
    ]
    unit = next((cell.throughput_unit for cell in sweep.cells if cell.throughput), "steps")
    html = filled("sweep_grid", across=across, down=down, head=values[across], lines=lines, unit=unit)
    return Section("grid", "Both settings", html)


def _square(sweep: Sweep, cell: Cell | None, known: Sequence[float]) -> _Square:
    if cell is None:
        return _Square("not tried", None)
    if cell.throughput is None:
        return _Square(cell.status, None)
    low, high = min(known), max(known)
    share = (cell.throughput.likely - low) / (high - low) if high > low else 1.0
    return _Square(rate(cell.throughput.likely), round(share * (SHADES - 1)), is_recommended(sweep, cell))


def _table(sweep: Sweep) -> Section | None:
    known = [cell for cell in sweep.cells if cell.throughput is not None]
    if not known:
        return None
    numbers = [(head, text) for head, text in columns(known) if any(text(cell) for cell in known)]
    rows = [
        TableRow(
            (named(cell.params), *(text(cell) for _, text in numbers), f"{cell.steps:,}", str(cell.runs)),
            is_recommended(sweep, cell),
        )
        if cell.throughput is not None
        else TableRow((named(cell.params), outcome(cell)), spans=len(numbers) + 2)
        for cell in sweep.cells
    ]
    head = ("cell", *(head for head, _ in numbers), "steps", "runs")
    return Section("numbers", "Numbers", filled("sweep_table", head=head, rows=rows))


def _about(sweep: Sweep) -> Section:
    """Return how it was run, and what is to be known besides."""
    pairs = [("command", shlex.join(sweep.command)), ("strategy", sweep.strategy)]
    pairs += [("values", reached(sweep))] if sweep.applied else []
    pairs += [("spent", spent(sweep))]
    return Section("about", "How it was run", filled("sweep_about", notes=notes(sweep), pairs=pairs))
