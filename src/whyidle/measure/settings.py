"""Settings of the job that its recording shows, for the report and for later comparison."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.measure.analysis import Analysis
from whyidle.measure.names import LOADER_IN_PROCESS, LOADER_WORKERS
from whyidle.model.evidence import Value
from whyidle.model.finding import GpuCount
from whyidle.model.measurement import Measurements

SHOWN = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules", "simulated")


def settings(analyses: Sequence[Analysis], m: Measurements) -> dict[str, Value]:
    """Return what is known of the job's settings, by name."""
    found: dict[str, Value] = {}
    loaders = [(len(a.t.host_like(LOADER_IN_PROCESS)), len(a.t.host_like(LOADER_WORKERS))) for a in analyses]
    if any(zero for zero, _ in loaders) and not any(workers for _, workers in loaders):
        found["num_workers"] = 0
    if "compiled" in m:
        found["compiled"] = m.one("compiled").value
    for a in analyses:
        for name in SHOWN:
            if name in a.t.trace.metadata:
                value = a.t.trace.metadata[name]
                found[name] = bool(value) if isinstance(value, int | float) else value
    return found


def gpu_counts(analyses: Sequence[Analysis]) -> tuple[GpuCount, ...]:
    """Return the GPUs that did work, by model; unnamed ones are "unknown GPU"."""
    count: dict[str, int] = {}
    for a in analyses:
        names = {gpu.device: gpu.name for gpu in a.t.trace.gpus}
        for device in a.t.device_ids:
            name = names.get(device) or next(iter(set(names.values())), "") or "unknown GPU"
            count[name] = count.get(name, 0) + 1
    return tuple(GpuCount(name, number) for name, number in sorted(count.items()))
