"""Reading small tables in tests."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Curve, Series
from whyidle.read import load


def curve_in(folder: Path, text: str | bytes, name: str = "gpus.csv") -> Curve:
    """Return the curve in a file of this content, as `load` finds it."""
    path = folder / name
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (curve,) = load([path]).curves
    return curve


def of(curve: Curve, name: str, device: int | None = 0, node: str = "", pid: int | None = None) -> Series:
    """Return a series by what it is of."""
    (series,) = [
        one
        for one in curve.series
        if (one.name, one.device, one.node, one.pid) == (name, device, node, pid) and not one.instance
    ]
    return series


def values(curve: Curve, name: str, device: int | None = 0, node: str = "") -> list[float | None]:
    """Return the values of a series; None where not measured."""
    return [None if np.isnan(value) else value for value in of(curve, name, device, node).value.tolist()]


def seconds(series: Series) -> list[float]:
    """Return the times of a series since its first."""
    return ((series.time - series.time[0]) / 1e9).tolist()


def well_formed(curve: Curve) -> None:
    """Check what docs/curves.md promises of every series."""
    for series in curve.series:
        assert len(series.time) == len(series.value) > 0
        assert series.time.dtype == np.int64
        assert series.value.dtype == np.float64
        assert (np.diff(series.time) > 0).all()
    subjects = [(series.name, series.node, series.device, series.pid, series.instance) for series in curve.series]
    assert len(set(subjects)) == len(subjects)


def damaged(folder: Path, content: bytes, name: str) -> None:
    """Read a file cut short at every byte, and one with every byte turned: a message or a curve, nothing else."""
    variants = [content[:size] for size in range(1, len(content))]
    variants += [content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :] for at in range(len(content))]
    variants += [content[:at] + b"\xff\0" + content[at + 2 :] for at in range(0, len(content), 7)]
    path = folder / name
    for variant in variants:
        path.write_bytes(variant)
        try:
            run = load([path])
        except WhyIdleError:  # anything else is a traceback
            continue
        for curve in run.curves:
            well_formed(curve)
