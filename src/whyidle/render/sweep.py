"""The table of `whyidle sweep`: what to take, each cell beside the first, and what the sweep cost."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Final, TypeAlias

from whyidle._version import __version__
from whyidle.model.comparison import Interval
from whyidle.model.trial import Cell, Params, Sweep
from whyidle.render.base import Look
from whyidle.render.escapes import code
from whyidle.render.json import SCHEMA_VERSION, dumps
from whyidle.render.pasted import fitted, listed, table, told, written
from whyidle.render.words import clean, duration, middle, money, percent, plural, rate, shorten, size, times, unit_price

BAR: Final = 20  # columns of the bar of the fastest cell
OVER: Final = 2  # that an interval may reach beyond it
LONGEST_WHY: Final = 120
SHORT_WHY: Final = 40  # fits in every table
LEAST_WIDTH: Final = 60
MOST_ROWS: Final = 24  # of a table on a screen

_ASCII: Final = str.maketrans({"±": "+-", "…": "...", "µ": "u"})

_Column: TypeAlias = tuple[str, Callable[[Cell], str]]


def sweep_json(sweep: Sweep, *, ascii_only: bool = False) -> str:
    """Return the sweep for programs."""
    values = {field.name: getattr(sweep, field.name) for field in fields(sweep)}
    return dumps({"schema_version": SCHEMA_VERSION, "whyidle": __version__, **values}, ascii_only=ascii_only)


def sweep_text(sweep: Sweep, look: Look) -> str:
    """Return the sweep for a person, what to take first."""
    width = max(look.width, LEAST_WIDTH)
    lines = [*_wrapped(answer(sweep), width), *_to_paste(sweep), "", *_table(sweep, look), *_reasons(sweep, width)]
    for note in notes(sweep):
        lines += ["", *_wrapped(note, width)]
    lines += ["", *_wrapped(reached(sweep), width), *_wrapped(spent(sweep), width)]
    text = "\n".join(lines) + "\n"
    text = plain(text, look)
    return f"\n{text}\n" if look.spaced else text


def sweep_markdown(sweep: Sweep, look: Look) -> str:
    """Return the sweep to paste into a pull request: what to take, a table of the cells, notes."""
    known = [cell for cell in sweep.cells if cell.throughput is not None]
    numbers = [(head, text) for head, text in columns(known) if any(text(cell) for cell in known)] or [("", step_time)]
    names = list(sweep.cells[0].params) if sweep.cells else []
    rows = []
    for cell in sweep.cells:
        values = [cell.params.get(name, "") for name in names]
        measured = [text(cell) for _, text in numbers] if cell.throughput is not None else [outcome(cell)]
        mark = "take this" if is_recommended(sweep, cell) else ""
        rows.append([*values, *measured, *[""] * (len(numbers) - len(measured)), mark])
    everything = f"{code(middle(f'{sweep.folder}/report.json', LONGEST_WHY))} has all"
    blocks = [f"**{told(answer(sweep))}**"]
    head = [*names, *(head for head, _ in numbers), ""]
    blocks += [table(head, rows, left=len(names), last_left=True, everything=everything)] if rows else []
    blocks += [f"Set: {code(sweep.take)}"] if sweep.take else []
    blocks += [f"Prove it: {code(sweep.proof)}"] if sweep.proof else []
    blocks += [listed(("", note) for note in [*notes(sweep), reached(sweep), spent(sweep)] if note)]
    return written(fitted(blocks, everything=everything), look)


def sweep_html(sweep: Sweep, look: Look) -> str:
    """Return the sweep as a page."""
    from whyidle.render.html.sweep import sweep_page  # noqa: PLC0415 - Jinja takes a fifth of a second

    return sweep_page(sweep, look)


def outcome(cell: Cell) -> str:
    """Return why a cell has no numbers."""
    return f"{cell.status}: {cell.why}" if cell.why else cell.status


def cell_line(cell: Cell, look: Look) -> str:
    """Return a line that says what one cell gave."""
    parts = [named(cell.params), cell.status]
    if cell.throughput is not None and cell.step_time_mean_s is not None:
        parts += [f"{step_time(cell)} a step", f"{rate(cell.throughput.likely)} {cell.throughput_unit}/s"]
        parts += [f"{percent(cell.data_wait_share)} wait"] if cell.data_wait_share is not None else []
    runs = f"{cell.runs} runs: " if cell.runs > 1 else ""
    parts += [f"{runs}{plural(cell.steps, 'step')} in {duration(cell.seconds)}"]
    if cell.why and cell.status != "ok":
        parts.append(shorten(clean(cell.why), LONGEST_WHY))
    return plain("  ".join(parts), look)


def plain(text: str, look: Look) -> str:
    """Return text with what a screen without Unicode can show."""
    return text if look.unicode else text.translate(_ASCII).encode("ascii", "replace").decode()


def named(params: Params) -> str:
    """Return values as they are typed: "num_workers=4 batch_size=64"."""
    return clean(" ".join(f"{name}={value}" for name, value in params.items()))


def notes(sweep: Sweep) -> list[str]:
    """Return what a person has to know besides: why not every cell was run, and warnings."""
    told = [sweep.stopped and f"Not every cell was run: {sweep.stopped}.", *sweep.warnings]
    return [note[:1].upper() + note[1:] for note in told if note]


def reached(sweep: Sweep) -> str:
    """Return how the values reach the job."""
    return " ".join(f"{name}: {said}." for name, said in sweep.applied.items())


def _to_paste(sweep: Sweep) -> list[str]:
    """Return the lines to paste, which are not wrapped."""
    lines = [f"  set:      {clean(sweep.take)}"] if sweep.take else []
    lines += [f"  prove it: {clean(sweep.proof)}"] if sweep.proof else []
    return ["", *lines] if lines else []


def _reasons(sweep: Sweep, width: int) -> list[str]:
    """Return why cells failed, in full and once, where the table has no room for it."""
    failed = [cell for cell in sweep.cells if cell.throughput is None and cell.status == "failed" and cell.why]
    long = dict.fromkeys(clean(cell.why) for cell in failed if len(cell.why) > SHORT_WHY)
    return [line for why in long for line in ("", *_wrapped(why, width))]


def answer(sweep: Sweep) -> str:
    """Return what to take, and why, in a sentence."""
    if sweep.recommended is None:
        return sweep.why or "No cell was run."
    what, why = named(sweep.recommended), clean(sweep.why)
    if why.startswith("Cannot tell"):  # which names what to take
        return why
    return f"Take {what}: it{why.removeprefix(what)}" if why.startswith(what) else f"Take {what}. {why}"


def is_recommended(sweep: Sweep, cell: Cell) -> bool:
    """Say whether a cell is the one to take."""
    return sweep.recommended is not None and dict(cell.params) == dict(sweep.recommended)


def _table(sweep: Sweep, look: Look) -> list[str]:
    """Return a row per cell: its values, then its numbers, or why it has none; its bar beside them, or below."""
    cells = sweep.cells if look.everything else sweep.cells[:MOST_ROWS]
    if not cells:
        return []
    names = list(cells[0].params)
    values = _aligned([names, *([cell.params.get(name, "") for name in names] for cell in cells)], str.ljust)
    known = [cell for cell in cells if cell.throughput is not None]
    room = max(look.width, LEAST_WIDTH) - len(values[0]) - (6 if look.unicode else 9)  # "..." is longer than "…"
    numbers = _numbers(known, room)
    bars = dict(zip(map(id, known), _bars(known, look), strict=True))
    beside = room - len(numbers[0]) >= BAR + OVER + 2
    rows = dict(zip(map(id, known), numbers[1:], strict=True))
    lines = [f"    {values[0]}  {numbers[0]}".rstrip()]
    for cell, value in zip(cells, values[1:], strict=True):
        mark = " " if not is_recommended(sweep, cell) else "▶" if look.unicode else ">"
        if cell.throughput is None:
            text = shorten(clean(outcome(cell)), room)
        else:
            text = rows[id(cell)]
            text += f"  {bars[id(cell)]}" if beside else ""
        lines.append(f"  {mark} {value}  {text}".rstrip())
    if known and not beside:
        shown = zip(cells, values[1:], strict=True)
        lines += ["", f"    {values[0]}  {known[0].throughput_unit}/s"]
        lines += [f"    {value}  {bars[id(cell)]}" for cell, value in shown if cell.throughput is not None]
    more = len(sweep.cells) - len(cells)
    return lines + ([f"    and {plural(more, 'cell')} more: {clean(sweep.folder)}/report.json"] if more else [])


def _numbers(cells: Sequence[Cell], room: int) -> list[str]:
    """Return a head, and numbers per cell; columns that no cell knows are left out, the last where they do not fit."""
    known = [(head, text) for head, text in columns(cells) if any(text(cell) for cell in cells)]
    while known:
        heads = [head for head, _ in known]
        lines = _aligned([heads, *([text(cell) for _, text in known] for cell in cells)], str.rjust)
        if len(lines[0]) <= room:
            return lines
        known.pop()
    return ["", *("" for _ in cells)]


def columns(cells: Sequence[Cell]) -> Sequence[_Column]:
    """Return the columns of numbers, the most important first."""
    unit = cells[0].throughput_unit if cells else "steps"
    on_gpu = any(cell.peak_memory_bytes is not None for cell in cells)
    return (
        ("step", step_time),
        (f"{unit}/s", lambda cell: "" if cell.throughput is None else rate(cell.throughput.likely)),
        ("vs first", lambda cell: "" if cell.speedup is None else times(cell.speedup.likely, 2)),
        ("wait", lambda cell: _share(cell.data_wait_share)),
        ("GPU idle", lambda cell: _share(cell.gpu_idle_share)),
        (f"$/M {unit}", lambda cell: "" if cell.usd_per_million is None else unit_price(cell.usd_per_million)),
        ("memory", lambda cell: _size(cell.peak_memory_bytes if on_gpu else cell.peak_host_memory_bytes)),
    )


def _aligned(rows: Sequence[Sequence[str]], align: Callable[[str, int], str]) -> list[str]:
    """Return rows of a table as lines, their columns as wide as the widest text in them."""
    texts = [[clean(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(align(text, width) for text, width in zip(row, widths, strict=True)) for row in texts]


def step_time(cell: Cell) -> str:
    """Return the mean step with half the width of its interval."""
    mean = cell.step_time_mean_s
    return "" if mean is None else f"{duration(mean.likely)} ±{half_width(mean)}"


def half_width(interval: Interval) -> str:
    """Return half the width of an interval: "1.3%"."""
    half = interval.half_share
    return "?" if half >= 10 else f"{half:.0%}" if half >= 0.1 else f"{half:.1%}"


def _size(count: int | None) -> str:
    return "" if count is None else size(count)


def _share(share: float | None) -> str:
    return "" if share is None else percent(share)


def _bars(cells: Sequence[Cell], look: Look) -> list[str]:
    """Return a bar per cell, as long as its throughput; its last part is the interval in which the true end lies."""
    most = max((cell.throughput.likely for cell in cells if cell.throughput is not None), default=0.0)
    full, maybe = ("█", "▒") if look.unicode else ("#", "-")

    def place(end: float) -> int:
        return min(max(round(end / most * BAR), 0), BAR + OVER) if most > 0 and end < float("inf") else BAR + OVER

    known = [cell.throughput for cell in cells if cell.throughput is not None]
    return [full * place(one.low) + maybe * (place(one.high) - place(one.low)) for one in known]


def spent(sweep: Sweep) -> str:
    """Return what it cost, and where the evidence is."""
    seconds = sum(cell.seconds for cell in sweep.cells)
    ran = sum(cell.status != "not run" for cell in sweep.cells)
    jobs = sum(max(cell.runs, 1) for cell in sweep.cells if cell.status != "not run")
    of = "" if jobs == ran else f"{plural(jobs, 'job')} of "
    said = f"{of}{plural(ran, 'cell')} in {duration(seconds)}"
    if sweep.usd is not None and sweep.usd_per_gpu_hour is not None:
        said += f", {money(sweep.usd)} at {money(sweep.usd_per_gpu_hour)} per GPU-hour ({clean(sweep.price_source)})"
    once = any(cell.runs == 1 for cell in sweep.cells)
    within = " ± is within one run of a job, --repeats 3 adds what differs between runs." if once else ""
    return f"{said}.{within} Evidence: {clean(sweep.folder)}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        clean(text),
        width - 4,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


FORMATS: Final[dict[str, Callable[[Sweep, Look], str]]] = {
    "terminal": sweep_text,
    "json": lambda sweep, look: sweep_json(sweep, ascii_only=not look.unicode),
    "markdown": sweep_markdown,
    "html": sweep_html,
}
