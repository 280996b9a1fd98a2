"""System metrics of the SageMaker profiler: a JSON object a line, a value of one CPU core, GPU or disk at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.samples import LARGEST, SECOND, Samples, Subject, text_of

HEAD: Final = re.compile(rb'^\s*\{"Type":\s*"[^"]{0,99}",\s*"Name":.{0,999}"Dimension"')
GPU: Final = re.compile(r"gpu(\d{1,4})")
OF_GPUS: Final[Mapping[str, str]] = {
    "GPUUtilization": "utilization_percent",
    "GPUMemoryUtilization": "memory_used_percent",
}
CORES: Final = "CPUUtilization"
WAITING: Final = re.compile(r"I/?O ?Wait(?:Percentage)?", re.IGNORECASE)
LONGEST_NAME: Final = 256  # characters
NO_GPU: Final = "The instance has none, or look at the other files of that folder: a file holds one minute."


class SageMakerMetrics(Reader):
    """A file of `profiler-output/system/incremental`."""

    kind = "SageMaker system metrics"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return HEAD.match(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. Cores are averaged: they are sampled together."""
        samples = Samples()
        cores: dict[tuple[str, str, int], list[float]] = {}
        broken = 0
        for row in _rows(text_of(path, samples.warnings, progress)):
            told = _row(row)
            if told is None:
                broken += 1
                continue
            node, name, dimension, time, value = told
            if dimension in OF_GPUS and (gpu := GPU.fullmatch(name)):
                samples.add(Subject(node, int(gpu.group(1))), OF_GPUS[dimension], time, value)
            elif dimension == CORES:
                cores.setdefault((node, "cpu_busy_percent", time), []).append(value)
            elif WAITING.fullmatch(dimension):
                cores.setdefault((node, "io_wait_percent", time), []).append(value)
        if not samples.subjects():
            raise UnreadableError(path, "SageMaker system metrics without a GPU.", NO_GPU)
        for (node, series, time), values in cores.items():
            samples.add(Subject(node), series, time, float(np.mean(values)))
        if broken:
            samples.warnings.append(f"{path}: {broken:,} lines are damaged and left out.")
        return samples.curve(path, self.kind)


def _rows(text: str) -> Iterator[object]:
    for line in text.splitlines():
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield None


def _row(row: object) -> tuple[str, str, str, int, float] | None:
    """Return node, name, dimension, time and value; None where a row has not all of them."""
    if not isinstance(row, dict):
        return None
    name, dimension, node = row.get("Name"), row.get("Dimension"), row.get("NodeId", "")
    time, value = row.get("Timestamp"), row.get("Value")
    if not (isinstance(name, str) and isinstance(dimension, str) and isinstance(node, str)):
        return None
    if not (isinstance(time, int | float) and isinstance(value, int | float)):
        return None
    if not (0 <= time < 1 << 32 and abs(value) <= LARGEST):
        return None
    return node[:LONGEST_NAME], name, dimension, round(time * SECOND), float(value)
