"""Sets of rows of a table. Rows are small numbers: a set is marked in an array, not sorted, so millions are cheap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]
Mask = NDArray[np.bool_]


def marked(rows: NDArray[np.signedinteger], size: int) -> Mask:
    """Return a mask of `size` rows in which these are set; negative rows stand for none."""
    mask = np.zeros(size, np.bool_)
    mask[rows[rows >= 0]] = True
    return mask


def distinct(rows: NDArray[np.signedinteger]) -> Index:
    """Return the rows that occur, in order, each once, without the negative ones."""
    return np.flatnonzero(marked(rows, int(rows.max(initial=-1)) + 1))


def together(*sets: Index) -> Index:
    """Return the rows of any of these sets, in order, each once."""
    return distinct(np.concatenate(sets))


def without(rows: Index, others: Index) -> Index:
    """Return the rows that are not among `others`."""
    return rows[~among(rows, others)]


def among(rows: Index, others: Index) -> Mask:
    """Return for each row, in any order and -1 for none, whether it is one of `others`."""
    size = max(int(rows.max(initial=-1)), int(others.max(initial=-1))) + 1
    if not size:
        return np.zeros(len(rows), np.bool_)
    mask: Mask = marked(others, size)[rows] & (rows >= 0)
    return mask


def largest(values: NDArray[np.signedinteger] | NDArray[np.floating], count: int) -> Index:
    """Return the places of the largest values, the largest first; of equal ones the earliest."""
    if len(values) > count:
        limit = np.partition(values, len(values) - count)[len(values) - count]
        places = np.flatnonzero(values >= limit)
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")][:count]
