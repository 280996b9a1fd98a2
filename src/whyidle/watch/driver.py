"""GPUs through NVML, for days on end: a driver may hang, be unloaded and come back, a GPU may fall off its bus.

What does not answer is unknown from then on, never idle, and is looked for again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whyidle.collect.asking import Asking
from whyidle.collect.nvml import COLUMNS, WHY, Code, Gpus
from whyidle.errors import WhyIdleError
from whyidle.watch.reading import HELD_BYTES, Gpu, Reading, Sample, Source
from whyidle.watch.smi import Smi

ANSWER_S = 2.0  # that a tick waits for the driver, as the collector of `whyidle run` does
RETRY_S = 10.0  # between two looks for a driver that is gone
RETRY_GPU_S = 60.0  # for a GPU that is gone while others answer: the others' counters pause for it
HANGS = "the NVIDIA driver does not answer"


class Driver:
    """The machine's GPUs as NVML sees them.

    Args:
        root: where the machine's files lie.
    """

    name = "NVML"

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._gpus: Gpus | None = None
        self._known: dict[str, Gpu] = {}
        self._here: dict[int, Gpu] = {}  # as NVML numbers them now
        self._state = "not asked yet"
        self._again_s = 0.0
        self._asking: Asking | None = None

    def sample(self, now_s: float) -> Sample:
        """Ask the driver, beside, and wait for it; what comes later than that counts for nothing."""
        if self._asking is not None and self._asking.is_alive():
            return Sample(HANGS, tuple(self._known.values()))
        found: list[dict[str, Reading]] = []
        self._asking = Asking(lambda: found.append(self._look(now_s)))
        self._asking.start()
        self._asking.wait(ANSWER_S)
        if not found:
            return Sample(HANGS, tuple(self._known.values()))
        return Sample(self._state, tuple(self._known.values()), found[0])

    def _look(self, now_s: float) -> dict[str, Reading]:
        if self._gpus is None or now_s >= self._again_s:
            self._open(now_s)
        gpus = self._gpus
        if gpus is None:
            return {}
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in gpus.sample(())]
        occupants = gpus.occupants()
        readings = {self._here[int(row["gpu"] or 0)].key: _reading(gpus, row, occupants) for row in rows}
        if not readings:
            self._state = "no GPU answers any more"
            self._again_s = min(self._again_s, now_s + RETRY_S)
        elif len(readings) < len(self._known):
            self._again_s = min(self._again_s, now_s + RETRY_GPU_S)
        return readings

    def _open(self, now_s: float) -> None:
        """Look for GPUs afresh."""
        if self._gpus is not None:
            self._gpus.close()
        gpus = Gpus(lambda _: None, self._root, {})
        gpus.open(now_s)
        self._state = gpus.state
        self._here = {facts["index"]: _gpu(facts) for facts in gpus.facts()}
        self._known |= {gpu.key: gpu for gpu in self._here.values()}
        ok = gpus.state == "ok"
        self._gpus = gpus if ok else None
        self._again_s = float("inf") if ok else now_s + RETRY_S

    def close(self) -> None:
        """Let go of NVML, unless it hangs."""
        if self._gpus is not None and not (self._asking is not None and self._asking.is_alive()):
            self._gpus.close()
            self._gpus = None


def _reading(gpus: Gpus, row: dict[str, Any], occupants: dict[int, Any]) -> Reading:
    on_it = occupants.get(row["gpu"])
    memory = row["memory_used_bytes"]
    unowned = on_it == () and memory is not None and memory >= HELD_BYTES
    return Reading(
        row["utilization_percent"],
        row["memory_utilization_percent"],
        memory,
        row["power_w"],
        row["sm_clock_mhz"],
        row["temperature_c"],
        row["throttle_reasons"],
        on_it,
        gpus.drawing(row["gpu"]) if unowned else None,
    )


def _gpu(facts: dict[str, Any]) -> Gpu:
    return Gpu(
        facts["index"],
        facts["uuid"] or "",
        facts["name"] or "",
        facts["memory_bytes"],
        facts["sm_clock_max_mhz"],
        facts["power_limit_w"],
        facts["mig"],
    )


def find(now_s: float) -> Source:
    """Return NVML; nvidia-smi where its library cannot be used.

    Raises:
        WhyIdleError: where neither shows a GPU. A driver that only does not answer now is waited for.
    """
    driver = Driver()
    sample = driver.sample(now_s)
    if sample.gpus or sample.state == HANGS:
        return driver
    driver.close()
    smi = Smi.found()
    if smi is not None and smi.sample(now_s).gpus:
        return smi
    hint = "run it where the GPUs are; in a container: docker run --gpus all"
    if sample.state == WHY[Code.LIBRARY_NOT_FOUND]:
        raise WhyIdleError(f"no GPU can be watched here: {sample.state}, and no nvidia-smi that works", hint)
    raise WhyIdleError(f"no GPU can be watched here: {sample.state}", hint)
