"""How sure a prediction is: the range in which the step after a fix lies with a probability of 80%.

Three things make it uncertain, taken as independent: steps differ (a bootstrap over the replayed ones), the replay's
model of a fix is off by a part of what it saves (found on jobs of which the truth is known, bench/replay.py), and a
coefficient that nobody measured in this job may be another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from whyidle.model.evidence import Floats64
from whyidle.model.finding import Edit, Estimate
from whyidle.replay.outcome import Outcome

WIDTH: Final = 1.2816  # standard deviations of a normal distribution, on each side, for 80%
DRAWS: Final = 200
STEP: Final = 0.002  # of the step: what no step repeats better (judgement; an unchanged replay is off by less)
FLOOR: Final = 0.1  # of the likely step: no range is told to reach below that
# Standard deviation of the saving, as a part of it, by the kind of an edit; the largest of those made counts. Found on
# simulated jobs (bench/README.md).
MODEL: Final[Mapping[str, float]] = {
    "scale_host": 0.02,
    "remove_sync": 0.03,
    "overlap_copies": 0.10,
    "scale_device": 0.12,
    "remove_device": 0.14,
    "merge_launches": 0.10,
    "overlap_collectives": 0.18,
    "larger_batch": 0.20,
}
# Where a coefficient was not measured in this job: sd of what is left, as a part of it, and of the saving at least and
# at most (judgement; bench/replay.py shows what intervals hold). What hardly leaves anything is sure, whatever it is.
PRIOR: Final = 0.6
PRIOR_LEAST: Final = 0.03
PRIOR_MOST: Final = 0.25


def model_error(edits: Iterable[Edit]) -> float:
    """Return the standard deviation of what these edits save, as a part of it."""
    of = [math.hypot(MODEL[edit.kind], prior_error(edit)) for edit in edits]
    return max(of, default=0.0)


def prior_error(edit: Edit) -> float:
    """Return the part of that which is due to a coefficient that was not measured in this job."""
    if not edit.coefficients.get("prior"):
        return 0.0
    left = edit.coefficients.get("factor", 0.0)
    if not 0 <= left < 1:
        return PRIOR_LEAST
    return min(max(PRIOR * left / (1 - left), PRIOR_LEAST), PRIOR_MOST)


def spread(before: Outcome, after: Outcome) -> float:
    """Return the standard deviation of the ratio of mean steps, after over before, by a bootstrap over steps."""
    if len(after.steps) != len(before.steps) or len(after.steps) < 2:
        return 0.0
    draw = np.random.default_rng(0).integers(0, len(after.steps), (DRAWS, len(after.steps)))
    ratio: Floats64 = after.steps[draw].mean(axis=1) / np.maximum(before.steps[draw].mean(axis=1), 1.0)
    return float(ratio.std()) / after.scale


def around(likely: float, before: float, spread_: float, model: float) -> Estimate:
    """Return the range of a step time, s: `before` without the fix, `spread_` a part of that, `model` of the saving."""
    deviation = math.sqrt(
        (spread_ * before) ** 2 + (model * abs(before - likely)) ** 2 + (STEP * min(likely, before)) ** 2
    )
    return ranged(likely, WIDTH * deviation)


def ranged(likely: float, half: float) -> Estimate:
    """Return the range of that half-width around a step time."""
    return Estimate(max(likely - half, FLOOR * likely), likely, likely + half)
