"""What a watch of GPUs saw from its begin to its end, in bounded memory: what `whyidle watch --report` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whyidle.model.evidence import Floats64, Series


@dataclass(frozen=True, slots=True, eq=False)
class Utilization:
    """How busy a GPU was in equal parts of the whole watch; NaN where nobody knows."""

    part_s: float  # how long each is
    mean: Floats64  # 0-1
    low: Floats64  # the least sample of a part
    high: Floats64


@dataclass(frozen=True, slots=True, eq=False)
class WatchedGpu:
    """One GPU."""

    index: int
    name: str
    kind: str  # of its verdict: "busy", "waits", "idle", "held", "free", "throttled", "lagging", "unknown"
    fine: bool  # there is nothing to see to
    said: str  # the verdict on its last minutes
    hint: str  # what its curve looks like; "" nothing
    jobs: tuple[str, ...] | None  # None: they cannot be seen
    known_s: float
    idle_s: float
    unknown_s: float
    idle_usd: float | None  # None without a price, and where nothing is known
    utilization: Utilization
    series: tuple[Series, ...]  # of its last minutes, as curves have them


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An alarm, or its end."""

    wall_ns: int
    gpu: int
    kind: str  # "alarm" or "resolved"
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class WatchHistory:
    """All GPUs of a machine."""

    host: str
    source: str  # who looked: NVML, nvidia-smi
    state: str  # "ok", or why nothing is known at the end
    start_ns: int  # since 1970
    end_ns: int
    watched_s: float
    summary: str  # one line, as a terminal shows at the end
    usd_per_hour: float | None  # what idle time costs now, all GPUs
    price_file: str
    alarming: bool  # alarms were asked for
    gpus: tuple[WatchedGpu, ...]
    events: tuple[WatchEvent, ...]  # the last ones
    forgotten: int  # events before these
    told: Mapping[str, object]  # the same for programs, as --json
