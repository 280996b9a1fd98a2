"""Captures as nvidia_gpu_exporter collects them: what nvidia-smi said of a GPU at rest, and then under load.

Two states are no curve: only what was seen under load is read, and the rest is told. Where `nvidia-smi dmon` took some
samples in it, those are the curve, else there is a point.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.dmon import Dmon
from whyidle.read.samples import Samples, text_of, warn_of_split
from whyidle.read.smi_log import add_logs, logs
from whyidle.read.smi_screen import add_screens, screens, split_in

# https://github.com/utkuozdemir/nvidia_gpu_exporter, testdata/captures/README.md
HEAD: Final = re.compile(rb"^# nvidia_gpu_exporter GPU capture", re.MULTILINE)
SECTION: Final = re.compile(r"^#{20,}\n# (\w[\w ]*?) :: (.*)\n(?:# \$ (.*)\n)?#{20,}\n", re.MULTILINE)
NOT_A_STATE: Final = "capabilities"
UNDER_LOAD: Final = "load"
DMON: Final = re.compile(r"\bdmon\b")
LEAST: Final = 5  # samples of each GPU: fewer are moments, no curve


@dataclass(frozen=True, slots=True)
class Section:
    """What one command printed."""

    state: str
    command: str
    text: str


def sections(text: str) -> list[Section]:
    """Return the sections of a capture in their order."""
    starts = list(SECTION.finditer(text))
    ends = [*(start.start() for start in starts), len(text)][1:]
    return [
        Section(start.group(1), (start.group(3) or "").strip(), text[start.end() : end])
        for start, end in zip(starts, ends, strict=False)
    ]


class Capture(Reader):
    """A file of what nvidia-smi printed in two states of a machine."""

    kind = "nvidia-smi capture"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return HEAD.search(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. Of several states the one under load is read, else the last."""
        warnings: list[str] = []
        found = sections(text_of(path, warnings, progress))
        states = {
            state: samples
            for state in dict.fromkeys(section.state for section in found if section.state != NOT_A_STATE)
            if (samples := _state(path, [section for section in found if section.state == state])).subjects()
        }
        if not states:
            raise UnreadableError(path, "a capture of nvidia-smi without a state of a GPU, or cut short.", damaged=True)
        state = UNDER_LOAD if UNDER_LOAD in states else list(states)[-1]
        samples = states[state]
        samples.warnings[:0] = warnings
        for other in states:
            if other != state:
                samples.warnings.append(_left_out(path, other, state, found))
        point = samples.curve(path, self.kind)
        monitored = _monitored(path, [section for section in found if section.state == state])
        if monitored is None:
            return point
        warnings = [*point.warnings, *monitored.warnings]
        return replace(point, series=monitored.series, clock=monitored.clock, warnings=tuple(warnings))


def _state(path: Path, found: list[Section]) -> Samples:
    """Return what the tables and outlines of one state say."""
    samples = Samples()
    tables = [screen for section in found for screen in screens(section.text) if screen.values]
    outlines = [log for section in found for log in logs(section.text) if any(log.values.values())]
    if tables:
        add_screens(tables, samples, path)
    if outlines:
        add_logs(outlines, samples, path)
    if not outlines:
        warn_of_split(split_in(samples), samples, path)
    return samples


def _monitored(path: Path, found: list[Section]) -> Curve | None:
    """Return the curve that dmon printed in a state; None where that is too short for one."""
    for section in found:
        if DMON.search(section.command):
            try:
                curve = Dmon.printed([section.text.encode()], path)
            except UnreadableError:
                continue
            busy = [one.value for one in curve.series if one.name == "utilization_percent"] if curve else []
            if busy and min(np.count_nonzero(np.isfinite(value)) for value in busy) >= LEAST:
                return curve
    return None


def _left_out(path: Path, state: str, judged: str, found: list[Section]) -> str:
    """Say what a state shows that is not read."""
    said = []
    for screen in (screen for section in found if section.state == state for screen in screens(section.text)):
        for subject, values in screen.values.items():
            busy = values.get("utilization_percent", math.nan)
            if not subject.instance:
                said.append(f"{subject.name} {'unknown' if math.isnan(busy) else f'{busy:.0f}%'}")
    told = f" (utilization: {', '.join(said)})" if said else ""
    return f"{path}: its part {state!r} is left out{told}; its part {judged!r} is read."
