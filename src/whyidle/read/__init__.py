from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whyidle.model.evidence import Run
from whyidle.read.base import Progress, Reader
from whyidle.read.kineto import Kineto

__all__ = ["Progress", "Reader", "load"]


def load(paths: Sequence[str | Path], progress: Progress | None = None) -> Run:
    return Run(traces=tuple(Kineto().read(Path(p), progress) for p in paths))
