"""What a step of two runs does, in a unit that both tell: samples, tokens, or what somebody counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from whyidle.compare.arms import Repeat, middle
from whyidle.model.comparison import Per

SAME_WORK: Final = 0.02  # samples per step that differ by less are the same batch: the last of an epoch may be smaller
PER_GPU: Final = "tokens_per_s_per_gpu"
RECORD: Final = "record 20 steps or more, with prof.step() in each, or run both under `whyidle run`"
UNITS: Final = "--units N says how many samples, tokens or iterations each recording holds (N,M where they differ)"


def common_work(before: Sequence[Repeat], after: Sequence[Repeat]) -> tuple[Per, float] | str:
    """Return what throughput is counted in and AFTER's work per step over BEFORE's, or why they have no common unit."""
    one, other = middle(before), middle(after)
    if one.pace is None or other.pace is None:
        return RECORD
    if one.pace.per != other.pace.per:
        return f"no common unit: BEFORE is told per {one.pace.per}, AFTER per {other.pace.per}."
    if one.pace.per != "step":
        return one.pace.per, 1.0
    if one.units_per_step and other.units_per_step:
        return "unit", other.units_per_step / one.units_per_step
    counts: tuple[tuple[Per, float | None, float | None], ...] = (
        ("sample", one.samples_per_step, other.samples_per_step),
        ("token", one.tokens_per_step, other.tokens_per_step),
        ("token", one.printed_per_step(PER_GPU), other.printed_per_step(PER_GPU)),
    )
    for per, had, has in counts:
        if had and has:
            return ("step", 1.0) if abs(has / had - 1) <= SAME_WORK else (per, has / had)
    sizes = [side.report.run.settings.get("batch_size") for side in (one, other)]
    if None not in sizes and sizes[0] != sizes[1]:
        return (
            f"the batch size differs ({sizes[0]}, {sizes[1]}), and how many samples a step takes is not known. {UNITS}."
        )
    return "step", 1.0
