"""What has to be said beside a sweep's table, so that it is not believed for more than it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whyidle.model.trial import Cell
from whyidle.render.words import plural
from whyidle.sweep.cell import Trial
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.recommend import is_workers

SEEN: Final = ("num_workers", "batch_size", "prefetch_factor")  # settings that a run tells by these names
BATCH: Final = "batch_size"


def doubts(
    cells: Sequence[Cell], trials: Sequence[Trial], parameters: Sequence[Parameter], slots: int
) -> Iterator[str]:
    """Yield warnings on a sweep.

    Args:
        cells: that are done.
        trials: the jobs that they are made of.
        parameters: that were varied.
        slots: cells that ran at a time.
    """
    names = {plain(parameter.name): parameter.name for parameter in parameters}
    for setting in SEEN:
        if setting in names:
            yield from _not_applied(setting, names[setting], trials)
    for parameter in parameters:
        unset = (said for one in trials for said in one.warnings if said.startswith(f"{parameter.target}="))
        yield from dict.fromkeys(unset)  # what `whyidle run --set` could not do
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


def plain(name: str) -> str:
    """Return a parameter's name as settings are called: "loader:num-workers" is num_workers."""
    return name.rpartition(":")[2].lstrip("-").replace("-", "_")


def _not_applied(setting: str, name: str, trials: Sequence[Trial]) -> Iterator[str]:
    """Yield which values did not reach the job, as far as its own DataLoader tells."""
    for one in trials:
        asked, seen = one.outcome.params.get(name, ""), one.settings.get(setting)
        if isinstance(seen, int) and asked.isdecimal() and int(asked) != seen:
            yield f"{name}={asked} did not reach the job: its DataLoader has {setting}={seen}."
