"""Rows that do not name their GPU: nvidia-smi without `index` prints all GPUs one after the other, sample by sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from whyidle.model.evidence import Ints
from whyidle.read.table.gather import Collector, Group
from whyidle.read.table.times import SECOND

TOGETHER: Final = SECOND // 20  # nvidia-smi asks one GPU after the other, in some ms each
APART: Final = 4.0  # times: between samples there is that much more time than within one
MOST: Final = 32  # GPUs of one machine
USUAL: Final = 0.97  # quantile of steps that is one between samples, of up to MOST GPUs
REGULAR: Final = 0.9  # share of samples that have as many rows


def told_apart(collector: Collector) -> bool:
    """Say whether a column tells the GPU, or each has a column of its own."""
    named = {"device", "uuid", "pid", "instance"} & collector.layout.keys.keys()
    return bool(named) or any(meaning.device is not None for meaning in collector.layout.values.values())


def in_turn(groups: Iterable[Group], within: int) -> tuple[list[Group], int]:
    """Return the groups, those that hold several GPUs in turn split, and how many GPUs that were at most.

    Args:
        groups: rows by host.
        within: ns, between rows of one sample.
    """
    split: list[Group] = []
    most = 1
    for group in groups:
        time = np.concatenate(group.times) if group.times else np.zeros(0, np.int64)
        first, gpus = _samples(time, within)
        if gpus == 1:
            split.append(group)
            continue
        most = max(most, gpus)
        values = {index: np.concatenate(pieces) for index, pieces in group.values.items()}
        for gpu in range(gpus):
            rows = first + gpu
            own = {index: [value[rows]] for index, value in values.items()}
            keys = {**group.keys, "device": str(gpu)}
            split.append(Group(keys, group.model, [time[first]], own, len(rows)))
    return split, most


def _samples(time: Ints, within: int) -> tuple[Ints, int]:
    """Return where samples of several GPUs begin, and of how many; 1 where they are not regular."""
    step = np.diff(time)
    if len(step) < 3:
        return np.arange(len(time)), 1
    apart = np.concatenate([[True], (step < 0) | (step > min(within, float(np.quantile(step, USUAL)) / APART))])
    first = np.flatnonzero(apart)
    sizes = np.diff(np.append(first, len(time)))
    gpus = int(np.median(sizes))
    regular = sizes == gpus
    if not 1 < gpus <= MOST or np.mean(regular) < REGULAR:
        return np.arange(len(time)), 1
    return first[regular], gpus
