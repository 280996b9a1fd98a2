"""One process that was watched, made ready for all questions: steps, phases, waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.measure.step_log.evaluation import evaluation
from whyidle.measure.step_log.losses import Batches, Waits, batches, waits
from whyidle.measure.step_log.nesting import Rows, rows_of, training_thread
from whyidle.measure.step_log.period import Period, period
from whyidle.measure.step_log.phases import phase_of, phases
from whyidle.model.evidence import Ints, LoaderSettings, Node, Record, StepLog, Value
from whyidle.model.intervals import NOTHING, Intervals, overlap

DEVICE_BYTES: Final = (7, 8)  # counters of the device's memory
DEVICE: Final = "device"  # the setting that tells where the model is


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """A process: what it did, and what of that is judged."""

    log: StepLog
    node: Node | None
    thread: int
    rows: Rows
    steps: Period
    window: Intervals
    evaluates: NDArray[np.bool_]
    phase: Ints
    shares: Mapping[str, float]
    on_gpu: bool | None  # None: not known
    waits: Waits
    batches: Batches

    @property
    def total(self) -> int:
        """Return the length of the watched time, ns."""
        return self.window.total

    @property
    def low(self) -> int:
        return int(self.window.start[0])

    @property
    def high(self) -> int:
        return int(self.window.end[-1])

    @property
    def count(self) -> int:
        """Return how many steps are judged."""
        return int(np.count_nonzero(self.steps.kept))

    @property
    def training_loader(self) -> int | None:
        """Return the loader that the training waits for: longest, of equal ones that of most batches."""
        found = self.batches
        if not len(found.index):
            return None
        host = self.waits.host[found.index].astype(np.float64)
        loaders = np.unique(found.loader).tolist()
        return int(
            max(
                loaders,
                key=lambda loader: (host[found.loader == loader].sum(), np.count_nonzero(found.loader == loader)),
            )
        )

    @property
    def loader_settings(self) -> LoaderSettings | None:
        loader = self.training_loader
        return next((settings for settings in self.log.loaders if settings.loader == loader), None)

    def fact(self, *names: str) -> Value | None:
        """Return a setting of the process by the first of these names that it told."""
        told = {fact.name: fact.value for fact in self.log.facts if not fact.subject}
        return next((told[name] for name in names if name in told), None)

    def inside(self, start: Ints, end: Ints) -> Ints:
        """Return how much of each interval lies in the watched time, ns."""
        return overlap(start, end, self.window)


def watch(log: StepLog, node: Node | None, beside: Intervals = NOTHING) -> Watch | None:
    """Return a process ready for questions; None if it does not step. `beside`: when we held up other ranks."""
    thread = training_thread(log)
    if thread is None:
        return None
    rows = rows_of(log, thread)
    steps = period(log, rows, beside)
    if steps is None or not steps.window.total:
        return None
    window = steps.window
    evaluates = evaluation(rows, steps)
    phase = phase_of(rows, evaluates)
    gpu = uses_gpu(log, node)
    return Watch(
        log, node, thread, rows, steps, window, evaluates, phase, phases(rows, phase, window), gpu,
        waits(log, rows, window, on_gpu=gpu is not False), batches(rows, evaluates),
    )  # fmt: skip


def uses_gpu(log: StepLog, node: Node | None) -> bool | None:
    """Say whether a process computes on a GPU; None where nothing tells."""
    counts = log.flags[(log.kind == Record.COUNT) & (log.value > 0)]
    if (log.kind == Record.GPU).any() or np.isin(counts, DEVICE_BYTES).any():
        return True
    told = [str(fact.value) for fact in log.facts if fact.name == DEVICE]
    if told:
        return any(not device.startswith(("cpu", "meta")) for device in told)
    if node is None:
        return None
    has_gpu = any(fact.subject.startswith("gpu ") for fact in node.facts)
    return None if has_gpu or node.nvml == "ok" else False
