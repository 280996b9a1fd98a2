"""What a shorter kernel is worth: the step gets shorter only where it waits for the GPU.

Where the host is late anyway, the GPU waits for the next launch a little longer, and the step takes as long as before.
"""

from __future__ import annotations

from whyidle.model.measurement import Measurements

READ = ("gpu_limited_share",)  # what the functions below look at
_ALL = 0.995  # from here on "the run waits for 100% of it" says nothing


def limited(m: Measurements) -> float:
    """Return the part of GPU time that the run waits for, 0-1; all of it where that was not measured."""
    return min(max(m.get("gpu_limited_share", 1.0), 0.0), 1.0)


def saved(m: Measurements, gpu_time: float) -> float:
    """Return what it saves of the time to save this share of GPU time."""
    return gpu_time * limited(m)


def proviso(m: Measurements) -> str:
    """Return what `seen` has to add where the host limits the step; empty where the GPU does."""
    part = limited(m)
    return "" if part >= _ALL else f"; the run waits for {part:.0%} of the GPU's work, for the rest the host is late"
