"""What has to be said beside a sweep's table, so that it is not believed for more than it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whyidle.model.trial import Cell
from whyidle.render.words import plural
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.recommend import is_workers
from whyidle.sweep.strategies.base import plain

MOST_UNSET: Final = 4  # that are said
BATCH: Final = "batch_size"


def doubts(cells: Sequence[Cell], unset: Sequence[str], parameters: Sequence[Parameter], slots: int) -> Iterator[str]:
    """Yield warnings on a sweep.

    Args:
        cells: that are done.
        unset: what was said of values that did not reach their job.
        parameters: that were varied.
        slots: cells that ran at a time.
    """
    names = {plain(parameter.name): parameter.name for parameter in parameters}
    yield from unset[:MOST_UNSET]
    if len(unset) > MOST_UNSET:
        yield f"{len(unset) - MOST_UNSET} more values did not reach their job; the cells' own reports tell."
    for parameter in parameters:
        if parameter.is_doubted and any(cell.status == "ok" for cell in cells):
            yield (
                f"{parameter.name} was given {parameter.said}: whether it had an effect is not known, "
                "and the cells may all be the same job."
            )
    if slots > 1 and any(is_workers(name) for name in names):
        yield (
            f"{slots} cells ran at a time and shared the CPUs: with workers to feed, each was slower than it is alone. "
            "One at a time is fair (without --gpus)."
        )
    ok = [cell for cell in cells if cell.status == "ok"]
    if BATCH in names and any(cell.throughput_unit == "steps" for cell in ok):
        yield (
            "the batches do not tell how many samples they hold, so throughput is in steps, "
            "which do more work the larger the batch is."
        )
    loose = [cell for cell in ok if not cell.settled]
    if loose:
        yield f"{len(loose)} of {plural(len(cells), 'cell')} ended before the step time was settled: see the intervals."
