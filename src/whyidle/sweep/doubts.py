"""What has to be said beside a sweep's table, so that it is not believed for more than it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from whyidle.model.trial import BY_ITSELF, Cell
from whyidle.render.words import duration, plural
from whyidle.sweep.cell import Trial
from whyidle.sweep.parameters import Parameter
from whyidle.sweep.recommend import is_workers
from whyidle.sweep.strategies.base import plain

MOST_UNSET: Final = 4  # that are said
SHORT_EPOCH_S: Final = 300.0  # longer ones begin too rarely for that to count (judgement)
BATCH: Final = "batch_size"


def doubts(
    cells: Sequence[Cell], trials: Sequence[Trial], unset: Sequence[str], parameters: Sequence[Parameter], slots: int
) -> Iterator[str]:
    """Yield warnings on a sweep.

    Args:
        cells: that are done.
        trials: the jobs that they are made of.
        unset: what was said of values that did not reach their job.
        parameters: that were varied.
        slots: cells that ran at a time.
    """
    names = {plain(parameter.name) for parameter in parameters}
    yield from unset[:MOST_UNSET]
    if len(unset) > MOST_UNSET:
        yield f"{len(unset) - MOST_UNSET} more values did not reach their job; the cells' own reports tell."
    for parameter in parameters:
        if parameter.is_doubted:
            worked = any(cell.status == "ok" for cell in cells)
            effect = (
                "whether it had an effect is not known, and the cells may all be the same job"
                if worked
                else "that may be why no job worked"
            )
            yield f"-p {parameter.name} was given {parameter.said}: {effect}. {sentence(parameter.advice)}"
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
    yield from _unseen_epochs(trials)
    yield from _unsettled(cells)


def _unsettled(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield that cells ended before their step time was settled, why, and what would give them longer."""
    loose = [cell for cell in cells if cell.status == "ok" and not cell.settled]
    if not loose:
        return
    over = [cell for cell in loose if cell.why == BY_ITSELF]
    steps = sorted({cell.steps // max(cell.runs, 1) for cell in over})
    counts = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}" if steps else ""
    reasons = [f"the job was over after {counts} steps that count: give it more steps"] if over else []
    reasons += dict.fromkeys(cell.why for cell in loose if cell.why != BY_ITSELF and cell.why)
    why = f" ({'; '.join(reasons)})" if reasons else ""
    yield (
        f"{len(loose)} of {plural(len(cells), 'cell')} ended before the step time was settled{why}: see the intervals."
    )


def sentence(text: str) -> str:
    """Return a text as a sentence: with a large letter, and an end."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('?', '.')) else '.'}" if text else ""


def _unseen_epochs(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield that epochs are short, and that cells ended before the second began: its workers start anew, say."""
    ok = [one for one in trials if one.outcome.status == "ok" and one.epoch_steps and len(one.seconds)]
    missed = [one for one in ok if len(one.seconds) < (one.epoch_steps or 0) <= SHORT_EPOCH_S / one.seconds.mean()]
    if missed:
        steps = int(max(one.epoch_steps or 0 for one in missed))
        longest_s = max(float(one.seconds.mean()) * (one.epoch_steps or 0) for one in missed)
        yield (
            f"an epoch is {plural(steps, 'step')}, {duration(longest_s)} at most, and {plural(len(missed), 'cell')} "
            f"ended within the first: what it takes to begin another is not in the numbers (--min-steps {2 * steps})."
        )
