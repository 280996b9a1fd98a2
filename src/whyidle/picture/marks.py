"""What is marked on charts over time: few steps, checkpoints, evaluations, the shapes that findings name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from whyidle.measure import Measured
from whyidle.measure.step_log import phases
from whyidle.measure.step_log.period import held_up
from whyidle.model.evidence import Ints, Node, Run, Series
from whyidle.model.finding import Finding, Location, Report
from whyidle.model.intervals import Intervals, union
from whyidle.model.picture import Mark, MarkKind
from whyidle.picture import clock, logs
from whyidle.picture.clock import Zero

FEW_STEPS: Final = 40  # of more a chart would be nothing but marks
MOST: Final = 100  # marks of a kind; of more the longest
UTILIZATION: Final = ("utilization_percent", "graphics_active_share")
SHAPES: Final = "curve."  # the family of rules that find shapes
DIPS: Final = "curve.sawtooth"  # the rule that names the longest of many
PRINTED: Final[tuple[tuple[str, MarkKind], ...]] = (("checkpoint", "checkpoint"), ("evaluation", "evaluation"))


class Marks:
    """Everything that can be marked, by the clock on which it was seen."""

    def __init__(self, run: Run, measured: Measured, report: Report) -> None:
        curves = measured.curves.curves
        self.run, self.curves, self.watches = run, curves, measured.watched.watches
        self.dips = measured.curves.dips
        self.shapes = [finding for finding in report.findings if finding.rule.startswith(SHAPES)]
        self.zero = clock.of_run(run.nodes, curves)
        self._found: dict[str, tuple[Mark, ...]] = {}

    def on(self, zero: Zero) -> tuple[Mark, ...]:
        """Return what is marked on charts with this zero."""
        if zero.group not in self._found:
            self._found[zero.group] = (*self._watched(zero), *self._printed(zero), *self._shapes(zero))
        return self._found[zero.group]

    def _watched(self, zero: Zero) -> Iterator[Mark]:
        """Yield what the log of one rank tells: they save and evaluate together."""
        for w in self.watches[:1]:
            own = _zero_of(w.node, self.zero)
            if own is None or own.group != zero.group:
                continue
            if len(w.steps.start) <= FEW_STEPS:
                for number, (start, end) in enumerate(zip(w.steps.start, w.steps.end, strict=True), logs.FIRST_STEP):
                    yield Mark("step", f"step {number}", (start - own.at) / 1e9, (end - own.at) / 1e9)
            yield from spans(logs.stretches(w, phases.SAVE), own.at, "checkpoint", "checkpoint")
            yield from spans(logs.stretches(w, phases.EVALUATION), own.at, "evaluation", "evaluation")
            parts = np.array(held_up(w.log), np.int64).reshape(-1, 2)
            yield from spans(union(parts[:, 0], parts[:, 1]), own.at, "event", "profiled")

    def _printed(self, zero: Zero) -> Iterator[Mark]:
        for curve in self.curves:
            own = clock.of_curve(curve, self.zero)
            for one in curve.series if curve.step_log and own.group == zero.group else ():
                for name, kind in PRINTED:
                    if one.name == name:
                        at = one.time[one.value > 0]
                        yield from spans(Intervals(at, at), own.at, kind, name)

    def _shapes(self, zero: Zero) -> Iterator[Mark]:
        seen: set[tuple[str, float | None, float | None]] = set()
        for finding in self.shapes:
            for place in finding.locations:
                key = finding.rule, place.start_s, place.end_s
                if place.start_s is not None and key not in seen and (begin := self._begin(place, zero)) is not None:
                    seen.add(key)
                    end = place.start_s if place.end_s is None else place.end_s
                    dips = self.dips.get((place.file, place.device)) if finding.rule == DIPS else None
                    if dips is not None:
                        yield from spans(dips, -round(begin * 1e9), "shape", "dip")
                    else:
                        yield Mark("shape", said(finding), begin + place.start_s, begin + end)

    def _begin(self, place: Location, zero: Zero) -> float | None:
        """Return where the curve of a place begins on a clock, in s: its times count from its first sample."""
        here = list(self._series(zero))
        for counter in UTILIZATION:  # the first that there is tells how busy a GPU is
            if begins := [begin for one in here for begin in _first(*one, place, counter)]:
                return min(begins)
        return None

    def _series(self, zero: Zero) -> Iterator[tuple[str, Series, int]]:
        for curve in self.curves:
            own = clock.of_curve(curve, self.zero)
            if own.group == zero.group:
                yield from ((curve.path, one, own.at) for one in curve.series)
        for node in self.run.nodes:
            own = clock.of_node(node, self.zero)
            if own.group == zero.group:
                yield from ((node.path, one, own.at) for one in self.run.series if one.node == node.name)


def said(finding: Finding) -> str:
    """Return what a shape is called on a chart."""
    return finding.rule.removeprefix(SHAPES).replace("_", " ")


def spans(where: Intervals, zero: int, kind: MarkKind, label: str) -> Iterator[Mark]:
    """Yield stretches as marks, of too many the longest."""
    index: Ints | np.ndarray = np.arange(len(where))
    if len(where) > MOST:
        index = np.sort(np.argsort(-where.lengths, kind="stable")[:MOST])
    for start, end in zip(where.start[index].tolist(), where.end[index].tolist(), strict=True):
        yield Mark(kind, label, (start - zero) / 1e9, (end - zero) / 1e9)


def _first(path: str, one: Series, zero: int, place: Location, counter: str) -> Iterator[float]:
    if path == place.file and one.device == place.device and one.name == counter:
        known = one.time[np.isfinite(one.value)]
        yield from ((int(time) - zero) / 1e9 for time in known[:1])


def _zero_of(node: Node | None, zero: tuple[int | None, str]) -> Zero | None:
    return None if node is None else clock.of_node(node, zero)
