"""What is true of a job whose curves were written, and which shapes its samples can show of it."""

from __future__ import annotations

import numpy as np

from world.curves.kinds import Kind, Made
from world.curves.training import Training

RESOLVED = 5  # samples per period, from which on a period is one; method of spectral estimates, not of the analyser
CYCLES = 4


def shapes(kind: Kind, made: Made, severity: float) -> dict[str, float]:
    """Return the shapes that are really there, each with the share of the recording that is lost in it."""
    training, gpus = made.training, range(made.training.gpus)
    start = float(np.mean([training.part("startup", gpu) for gpu in gpus]))
    if not kind.shape:
        return {"curve.startup": start}
    if kind.shape == "curve.startup":
        return {kind.shape: start}
    return {kind.shape: _lost(kind, training, severity), "curve.startup": start}


def _lost(kind: Kind, training: Training, severity: float) -> float:
    gpus = range(training.gpus)
    if kind.shape == "curve.lagging_gpu":  # what its peers spin
        return float(max(training.part("spin", gpu) for gpu in gpus))
    if kind.part == "compute":  # gaps between kernels
        whole = [1 - training.busy(gpu).mean - training.part("startup", gpu) for gpu in gpus]
        return float(np.mean(whole))
    return float(np.mean([training.part(kind.part, gpu) for gpu in gpus])) if kind.part else severity


def accepted(kind: Kind, made: Made, interval_s: float, window_s: float) -> list[str]:
    """Return the shapes that samples of this interval and window can show of it; any of them is right."""
    if not kind.shape:
        return []
    several = ["curve.correlated_dips"] if made.training.gpus > 1 else []
    also = list(kind.also)
    if kind.shape == "curve.fluctuating":
        return ["curve.fluctuating", *also]
    if kind.shape == "curve.flat_low" and made.period_s is not None and window_s < 2 * made.period_s:
        return ["curve.flat_low", "curve.fluctuating", *also]  # a window shorter than the step sees it busy, or not
    if (
        kind.part == "data"
        and kind.shape == "curve.step_change"
        and window_s < 2 * float(np.median(made.training.step_s))
    ):
        return ["curve.step_change", "curve.fluctuating", *also]  # from then on such a window sees it busy, or not
    if kind.shape != "curve.sawtooth" or made.period_s is None:
        return [kind.shape, *also]
    resolved = made.period_s >= RESOLVED * interval_s and made.training.seconds >= CYCLES * made.period_s
    if resolved and made.dip_s >= 2 * interval_s:
        return ["curve.sawtooth", *several]
    return ["curve.sawtooth", "curve.fluctuating", *several]
