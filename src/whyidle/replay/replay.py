"""The replay of a run, to be asked what it does once edits are made. `replay_of` chooses what is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from whyidle.measure import Measured
from whyidle.measure.analysis import Analysis
from whyidle.model.evidence import Floats64
from whyidle.model.finding import Edit
from whyidle.model.intervals import clip
from whyidle.replay.choose import Chosen, choose
from whyidle.replay.edits import apply
from whyidle.replay.engine import Played, alone
from whyidle.replay.gates import refusal
from whyidle.replay.graph import Graph, Node, build, from_rest
from whyidle.replay.outcome import Outcome, no_longer, outcome
from whyidle.replay.ranks import Meetings, Release, as_they_come, changed, meetings, play_together, to_mean, to_others
from whyidle.replay.select import Selected, Selection, concerns

ALIKE: Final = 0.5  # of its part of all time: what is changed has that part of the replayed steps (judgement)


class Replay:
    """The replay of a run: of all its ranks, as far as they were recorded."""

    def __init__(self, chosen: Chosen, late_ranks: str = "", workers: int | None = None, prefetch: int = 2) -> None:
        self.chosen, self.late_ranks = chosen, late_ranks
        self.recorded = [
            build(a, low, high, workers, prefetch)
            for a, low, high in zip(chosen.analyses, chosen.low, chosen.high, strict=True)
        ]
        self.graphs = [from_rest(g) for g in self.recorded]
        self.selections = [Selection(a) for a in chosen.analyses]

    @cached_property
    def meetings(self) -> Meetings:
        """Return the collectives in which these ranks meet; none of one rank alone."""
        if len(self.graphs) < 2:
            return Meetings([{} for _ in self.graphs], [], [], [0.0] * len(self.graphs))
        return meetings(self.chosen.analyses, self.graphs)

    @property
    def source(self) -> str:
        """Return what is replayed, in words."""
        numbers = self.graphs[0].numbers
        ranks = [g.rank for g in self.graphs]
        whose = f" of rank {ranks[0]}" if len(ranks) == 1 and ranks[0] is not None else ""
        whose = f" of {len(ranks)} ranks" if len(ranks) > 1 else whose
        return f"replay of steps {numbers[0]}-{numbers[-1]}{whose}"

    def holds(self, edits: Sequence[Edit]) -> bool:
        """Say whether what these edits change shows in the steps that are replayed as it does in the recording.

        What lies mostly outside of them, as a startup does, would seem to cost little.
        """
        inside = sum(
            amount(selection.select(edit), g, selection.a) / (g.end - g.origin)
            for g, selection in zip(self.graphs, self.selections, strict=True)
            for edit in edits
        )
        everywhere = sum(
            amount(selection.select(edit), None, selection.a) / max(high - low, 1)
            for selection in self.selections
            for low, high in [selection.a.t.whole_window]
            for edit in edits
        )
        return inside >= ALIKE * everywhere

    @property
    def local(self) -> bool:
        """Say whether ranks of the job are missing: what is waited for them then stays as it is."""
        sizes = [a.t.trace.world_size or 1 for a in self.chosen.analyses]
        return max(sizes, default=1) > len(self.graphs)

    @property
    def loader_unseen(self) -> bool:
        """Say whether batches come from a loader of which nobody knows how fast it is."""
        return any(g.loader is not None and g.loader.unseen for g in self.graphs)

    @cached_property
    def refused(self) -> str:
        """Return why nothing can be predicted; empty if it can."""
        return self.chosen.why_not or refusal(self)

    @cached_property
    def identity_error(self) -> float:
        """Return by how much the replayed steps differ from the recorded ones, median over steps, of the worst rank."""
        errors = [0.0]
        for g, p in zip(self.recorded, self.run(self.recorded), strict=True):
            recorded = np.diff((g.start[g.kind == Node.MARK] - g.origin).astype(np.float64))
            known = recorded > 0
            errors.append(float(np.median(np.abs(np.diff(p.marks)[known] / recorded[known] - 1))))
        return max(errors)

    @cached_property
    def base(self) -> Outcome:
        """Return the replay with nothing changed."""
        return outcome(self.graphs, self.base_played)

    @cached_property
    def base_played(self) -> list[Played]:
        return self.run(self.graphs)

    def play(self, edits: Sequence[Edit]) -> Outcome:
        """Return the replay once these edits are made."""
        graphs = []
        for g, selection in zip(self.graphs, self.selections, strict=True):
            mine = [edit for edit in edits if concerns(selection.a, edit, self.late_ranks)]
            together = [edit for edit in mine if not (waits_for_peers(edit) and len(self.meetings))]
            graphs.append(apply(g, selection, together))
        release = next((evening(edit) for edit in edits if waits_for_peers(edit)), as_they_come)
        scale = float(np.prod([edit.coefficients.get("factor", 1.0) for edit in edits if edit.kind == "larger_batch"]))
        return no_longer(outcome(graphs, self.run(graphs, release), scale), self.base)

    def run(self, graphs: Sequence[Graph], release: Release = as_they_come) -> list[Played]:
        for g in graphs:
            if g.loader is not None:
                g.loader.reset()
        if len(self.meetings):
            return play_together(graphs, changed(self.meetings, graphs), release)
        return [alone(g) for g in graphs]


def amount(chosen: Selected, g: Graph | None, a: Analysis) -> float:
    """Return how much of this selection lies in a graph, ns; without one, all of it."""
    h, device, waits = a.t.host, np.full(len(chosen.device), True), chosen.waits
    if g is not None:
        device, waits = np.isin(chosen.device, g.row), waits[np.isin(waits, g.call)]
    host = chosen.host if g is None else clip(chosen.host, g.origin, g.end)
    return float(host.total + chosen.time[device].sum() + (h.end - h.start)[waits].sum())


def waits_for_peers(edit: Edit) -> bool:
    """Say whether an edit is about waiting for other ranks: they are let come sooner, where all are replayed."""
    return edit.kind == "scale_device" and edit.selector.get("class") == "collective_wait"


def evening(edit: Edit) -> Release:
    """Return when collectives begin once late ranks come sooner."""
    factor = edit.coefficients.get("factor", 0.0)
    return to_mean(factor) if edit.selector.get("to") == "mean" else to_others(factor)


def replay_of(measured: Measured) -> Replay:
    """Return the replay of a run; `refused` says whether it can be used."""
    m = measured.measurements
    return Replay(
        choose(measured.analyses),
        str(m.one("late_ranks").value) if "late_ranks" in m else "",
        int(m.get("num_workers", 0)) or None,  # batches that no worker makes are no part of the loader's loop
        int(m.get("prefetch_factor", 2)),
    )


def identity(a: Analysis) -> tuple[Floats64, Floats64]:
    """Return how long the host's steps of one rank took, as recorded and as replayed with nothing changed, ns."""
    chosen = choose([a])
    g = build(a, chosen.low[0], chosen.high[0])
    steps = a.t.steps
    marks = np.append(steps.start[chosen.low[0] : chosen.high[0]], steps.end[chosen.high[0] - 1])
    return np.diff(marks).astype(np.float64), np.diff(alone(g).marks)


def launch_queue(a: Analysis) -> int:
    """Return how many launches a stream takes before the host has to wait."""
    return build(a, 0, len(a.t.steps)).queue.length
