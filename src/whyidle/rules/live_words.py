"""The words in which findings say what a look at a running job saw."""

from __future__ import annotations

from whyidle.model.measurement import Measurements
from whyidle.rules.input import taken


def workers(m: Measurements) -> str:
    """Return what the workers do, in words."""
    count = m.number("live_workers")
    who = "1 worker" if count == 1 else f"{count:.0f} workers"
    s = "s" if count == 1 else ""
    parts = {"cpu": f"compute{s}", "run_delay": f"wait{s} for a CPU", "blocked": "is blocked" if s else "are blocked"}
    told = [
        f"{what} {m.number(name):.0%}"
        for part, what in parts.items()
        if (name := f"live_workers_{part}_share") in m and (m.number(name) >= 0.01 or part == "cpu")
    ]
    return f"{who} {', '.join(told)} of the time" if told else who


def and_workers(m: Measurements) -> str:
    """Return the same after a comma; empty where there are none."""
    return f", {workers(m)}" if m.number("live_workers") else ""


def others(m: Measurements) -> str:
    """Return what other programs take; empty where that is little."""
    return f"; {said}" if (said := taken.said(m)) else ""


def met(m: Measurements) -> str:
    """Return how often the stack was met in the wait; empty where stacks were not seen."""
    if "live_loader_wait_share" not in m:
        return ""
    return (
        f"; the stack of the main thread waits in the DataLoader in {m.number('live_loader_wait_share'):.0%} of samples"
    )


def storage(m: Measurements) -> str:
    """Return what is read, and from where."""
    said = ""
    if "storage_read_bytes_per_s" in m:
        said += f"; the job reads {m.number('storage_read_bytes_per_s') / 1e6:.3g} MB/s from storage"
    if "live_file" in m and "live_file_system" in m:
        said += f"; most of it from {m.one('live_file').value} on {m.one('live_file_system').value}"
    return said


def site(m: Measurements, name: str) -> str:
    """Return the line that a measurement names; empty where there is none."""
    return str(m.one(name).value) if name in m else ""
