"""Which cell of a sweep to take: the cheapest one that is as fast as the fastest, as far as the steps can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from whyidle.model.comparison import Interval
from whyidle.model.trial import Cell, Params
from whyidle.render.sweep import named
from whyidle.render.words import percent, plural, times
from whyidle.sweep.parameters import Parameter

SAME: Final = 0.02  # of throughput: less is not worth another worker (docs/method.md: a gain below 2% ends a search)
DOUBTFUL: Final = 0.05  # more is not given away, even where the steps vary so much that it cannot be seen
WIDE: Final = 0.25  # of a ratio: an interval that reaches so far says nothing of which is faster
MOST_GIVEN: Final = 0.25  # a difference beyond this is not given away, however little is known (judgement)
FULL: Final = 0.90  # of a device's memory: beyond it an odd batch, or a fragmented allocator, fails
LOADER: Final = 0.20  # of the step: a wait that decides how fast it is (judgement)
LONGER: Final = 4.0  # times what a cell was given that saw no steps (judgement)
NORMAL_95: Final = 1.96  # standard errors from the middle of a 95% interval to its ends

_Key: TypeAlias = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """The throughput of one cell over that of another, 0.95 is 5% slower, with its 95% interval."""

    low: float
    likely: float
    high: float

    @property
    def is_as_good(self) -> bool:
        """Say whether what is lost is too little to matter, or is not seen and not much."""
        return self.likely >= 1 - SAME or (self.high >= 1 and self.likely >= 1 - DOUBTFUL) or self.is_untold

    @property
    def is_untold(self) -> bool:
        """Say whether the interval is so wide that it does not tell which is faster, and by how much."""
        return self.likely >= 1 - MOST_GIVEN and self.high >= 1 + WIDE and self.low <= 1 - WIDE


def recommend(
    cells: Sequence[Cell], parameters: Sequence[Parameter], unreached: Sequence[Params] = (), *, is_over: bool = True
) -> tuple[Params | None, str]:
    """Return the values to take, and why these and not the next; None and why not where no cell can be.

    Args:
        cells: that are done.
        parameters: that were varied, with their values in the order given.
        unreached: cells whose job did not get its values: what they show is of others.
        is_over: False where more cells were to be run.
    """
    measured = [
        cell for cell in cells if cell.status == "ok" and cell.throughput is not None and cell.throughput.likely > 0
    ]
    ok = [cell for cell in measured if cell.params not in unreached]
    fits = [cell for cell in ok if not is_full(cell)]
    if len(cells) == 1 and ok and not is_over:
        return None, f"Nothing to compare {named(ok[0].params)} with: no other cell was run."
    if len(ok) == 1 and len(measured) > 1:
        return (
            None,
            f"Nothing to recommend: only {named(ok[0].params)} ran with its values, the others did not get theirs.",
        )
    if not fits:
        why = "no job got the values that it was to be tried with." if measured else _nothing(cells)
        why = f"every cell fills its GPU's memory to more than {percent(FULL)}." if ok else why
        return None, f"Nothing to recommend: {why}"
    order = {id(cell): cost(cell, parameters) for cell in fits}
    best = max(fits, key=_throughput)
    chosen = min((cell for cell in fits if beside(cell, best).is_as_good), key=lambda cell: order[id(cell)])
    said = [_untold(chosen, best, fits) or _why(chosen, best, fits, order, len(cells))]
    fuller = [cell for cell in ok if is_full(cell) and _throughput(cell) > _throughput(chosen)]
    if fuller:
        one = max(fuller, key=_throughput)
        said.append(f"{named(one.params)} is faster, but fills {percent(filled(one))} of the GPU's memory.")
    said += _further(chosen, best, cells, parameters, is_over=is_over)
    return chosen.params, " ".join(said)


def _nothing(cells: Sequence[Cell]) -> str:
    """Return that no cell gave a throughput, and what to do where they were given too little time."""
    late = [cell for cell in cells if cell.status == "timed out" and "--cell-time" in cell.why]
    if not late:
        return "no cell gave a throughput."
    longer_min = max(round(LONGER * max(cell.seconds for cell in late) / 60), 1)
    of = "each cell" if len(late) == len(cells) else f"{len(late)} of {plural(len(cells), 'cell')}"
    return (
        f"no cell gave a throughput. {of[:1].upper()}{of[1:]} ended with {late[0].why}, and may still have been "
        f"importing, downloading or compiling: give them longer, --cell-time {longer_min}m for instance."
    )


def beside(cell: Cell, other: Cell) -> Beside:
    """Return one throughput over another; the intervals of both, as independent, give that of their ratio."""
    if cell is other or cell.throughput is None or other.throughput is None:
        return Beside(1.0, 1.0, 1.0)
    ratio = cell.throughput.likely / other.throughput.likely
    error = math.hypot(_error(cell.throughput), _error(other.throughput))
    apart = math.exp(min(NORMAL_95 * error, 100.0))
    return Beside(ratio / apart, ratio, ratio * apart)


def cost(cell: Cell, parameters: Sequence[Parameter]) -> _Key:
    """Return what orders cells from the cheapest on: fewer workers, less memory, then the values as they were given.

    Of other numbers the smaller one is the cheaper: it holds less memory and changes a job less.
    """
    workers = [parameter for parameter in parameters if is_workers(parameter.name)]
    others = [parameter for parameter in parameters if not is_workers(parameter.name)]
    memory = math.inf if cell.peak_memory_bytes is None else float(cell.peak_memory_bytes >> 26)  # to 64 MiB
    return (*(_place(one, cell) for one in workers), memory, *(_place(one, cell) for one in others))


def is_workers(name: str) -> bool:
    """Say whether a parameter is a number of workers."""
    return "workers" in name.lower()


def is_batch(name: str) -> bool:
    """Say whether a parameter is a batch size."""
    return "batch" in name.lower()


def is_full(cell: Cell) -> bool:
    """Say whether a cell leaves too little of its device's memory; False where that is not known."""
    return filled(cell) > FULL


def filled(cell: Cell) -> float:
    """Return the used share of a device's memory; 0 where it is not known."""
    return cell.peak_memory_bytes / cell.memory_bytes if cell.peak_memory_bytes and cell.memory_bytes else 0.0


def _untold(chosen: Cell, best: Cell, fits: Sequence[Cell]) -> str:
    """Return that the chosen cell is only the cheapest of those that cannot be told apart; else nothing."""
    others = [cell for cell in fits if cell is not chosen]
    other = best if chosen is not best else max(others, key=_throughput, default=best)
    ratio = beside(chosen, other) if chosen is not best else beside(other, chosen)
    if not ratio.is_untold:
        return ""
    slower, faster = (chosen, other) if chosen is not best else (other, chosen)
    far = max(ratio.high - ratio.likely, ratio.likely - ratio.low)
    runs = max((cell.runs for cell in fits), default=1)
    more = f"--repeats {runs + 2}" if runs > 1 else "longer cells, or --repeats 3,"
    return (
        f"Cannot tell which is faster, {named(chosen.params)} or {named(other.params)}: "
        f"{named(slower.params)} is {max(1 - ratio.likely, 0.0):.0%} slower than {named(faster.params)}, "
        f"{f'±{far:.0%}' if far < 10 else 'or not'}. Take {named(chosen.params)}, the cheaper one; {more} may tell."
    )


def _why(chosen: Cell, best: Cell, fits: Sequence[Cell], order: dict[int, _Key], tried: int) -> str:
    """Return one sentence: what the chosen cell is beside the fastest, and why not the fastest of the cheaper ones."""
    text = named(chosen.params)
    if len(fits) == 1:
        return f"{text} is the only one that {'gave a throughput' if tried > 1 else 'was run'}."
    ratio = beside(chosen, best)
    if chosen is best:
        text += " is the fastest"
    elif ratio.likely >= 1 - SAME:
        text += f" is as fast as {named(best.params)} to within {max(1 - ratio.likely, 0.0):.1%}, for less"
    else:
        text += (
            f" is {1 - ratio.likely:.0%} slower than {named(best.params)}, which may be chance "
            f"(±{(ratio.high - ratio.low) / 2:.0%}; --repeats 3 tells)"
        )
    cheaper = [cell for cell in fits if order[id(cell)] < order[id(chosen)]]
    if cheaper:
        next_best = max(cheaper, key=_throughput)
        text += f"; {named(next_best.params)} is {1 - beside(next_best, chosen).likely:.0%} slower"
    elif chosen is best:
        next_best = max((cell for cell in fits if cell is not chosen), key=_throughput)
        text += f", by {times(1 / beside(next_best, chosen).likely, 2)} over {named(next_best.params)}"
    else:
        return f"{text}."
    if beside(next_best, chosen).high >= 1:
        text += ", which may be chance"
    return f"{text}."


def _further(
    chosen: Cell, best: Cell, cells: Sequence[Cell], parameters: Sequence[Parameter], *, is_over: bool
) -> list[str]:
    """Return what is to be done beyond the table: other values to try, and what a batch size changes."""
    said = []
    wait = chosen.data_wait_share or 0.0
    if any(is_batch(parameter.name) for parameter in parameters):
        if wait >= LOADER and not any(is_workers(parameter.name) for parameter in parameters):
            said.append(
                f"The training waits for data {wait:.0%} of its time: the loader is the limit, and with more workers "
                "another batch size may be the best: whyidle sweep -p num_workers."
            )
        said.append("Another batch size learns differently: check the losses of both with `whyidle compare`.")
    for parameter in parameters:
        values = [_number(value) for value in parameter.values]
        known = [value for value in values if value is not None]
        taken = _number(chosen.params.get(parameter.name, ""))
        tried = [_number(cell.params.get(parameter.name, "")) for cell in cells]
        largest = max([*known, *(value for value in tried if value is not None)], default=None)
        is_open = len(values) > 1 or (not is_over and len(set(tried)) > 1)  # a search that ended says so itself
        if chosen is best and len(known) == len(values) and is_open and taken == largest and taken in tried:
            said.append(f"It is the largest {parameter.name} that was tried: a larger one may be faster still.")
    return said


def _place(parameter: Parameter, cell: Cell) -> float:
    """Return where a value stands: a number where all of its parameter are, else its place in the order given."""
    value = cell.params.get(parameter.name, "")
    numbers = [_number(one) for one in (*parameter.values, value)]
    if all(number is not None for number in numbers):
        return float(numbers[-1] or 0.0)
    return float(parameter.values.index(value)) if value in parameter.values else float(len(parameter.values))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _throughput(cell: Cell) -> float:
    return cell.throughput.likely if cell.throughput is not None else 0.0


def _error(interval: Interval) -> float:
    """Return the standard error of the logarithm of what an interval is of."""
    if interval.low <= 0 or not math.isfinite(interval.high):
        return math.inf
    return (math.log(interval.high) - math.log(interval.low)) / (2 * NORMAL_95)
