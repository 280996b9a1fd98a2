"""The GPUs that a running job is on, sampled beside everything else: the driver may be slow, or hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from whyidle.collect import nvml, procfs
from whyidle.collect.nvml import Gpus
from whyidle.model.evidence import Series, Value

INTERVAL_S = 0.5
PATIENCE_S = 2.0  # for the driver, when the time is over


@dataclass(frozen=True, slots=True)
class Seen:
    """What NVML told of the job's GPUs."""

    ours: frozenset[int]  # the job's processes on them, as far as it names them
    series: tuple[Series, ...] = ()
    names: dict[int, str] = field(default_factory=dict)
    facts: dict[int, dict[str, Value]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class JobGpus:
    """Samples the GPUs of a job in a thread of its own.

    Args:
        job: ids of its processes.
        pid: the first of them: CUDA_VISIBLE_DEVICES is read from its environment.
        root: where the machine's files lie.
    """

    def __init__(self, job: Collection[int], pid: int, root: Path = Path("/")) -> None:
        self._warnings: list[str] = []
        self._job = job
        self._gpus = Gpus(self._warnings.append, root, procfs.environment(root, pid) or {})
        self._rows: list[tuple[int, tuple[nvml.Number, ...]]] = []
        self._ours: set[int] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="whyidle GPUs", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._gpus.open(0.0)
        while self._gpus.state == "ok" and not self._over.is_set():
            now = time.monotonic_ns()
            self._rows += [(now, row) for row in self._gpus.sample(self._job)]
            named = [occupants or () for occupants in self._gpus.occupants().values()]
            self._ours |= {one.pid for occupants in named for one in occupants} & set(self._job)
            self._over.wait(INTERVAL_S)

    def close(self) -> Seen:
        """Stop, and return what was seen of the GPUs that the job is on; of all visible ones where NVML cannot tell."""
        self._over.set()
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            return Seen(frozenset(), warnings=("the GPU driver did not answer: what the GPUs do is not known",))
        rows = list(self._rows)
        facts = {fact["index"]: fact for fact in self._gpus.facts()}
        state = self._gpus.state
        self._gpus.close()
        if state != "ok":
            return Seen(frozenset(), warnings=(f"what its GPU does was not seen: {state}",))
        counted = nvml.COLUMNS.index("processes_of_job")
        on = {int(row[0] or 0) for _, row in rows if row[counted]}
        shown = on or {index for index, fact in facts.items() if fact["visible"] is not False}
        series = tuple(one for index in sorted(shown) for one in _series(index, rows))
        names = {index: str(facts[index]["name"] or "unknown GPU") for index in shown if index in facts}
        told = {
            index: {name: value for name, value in facts[index].items() if isinstance(value, str | int | float)}
            for index in shown & facts.keys()
        }
        return Seen(frozenset(self._ours), series, names, told, tuple(self._warnings))


def _series(index: int, rows: list[tuple[int, tuple[nvml.Number, ...]]]) -> list[Series]:
    own = [(now, row) for now, row in rows if row[0] == index]
    times = np.array([now for now, _ in own], np.int64)
    columns = nvml.COLUMNS[1:]
    return [
        Series(
            name,
            "",
            times,
            np.array([np.nan if row[column] is None else float(row[column] or 0) for _, row in own]),
            device=index,
        )
        for column, name in enumerate(columns, start=1)
    ]
