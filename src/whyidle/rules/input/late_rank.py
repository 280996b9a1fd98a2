"""Which part of a watched job's waits for data is one rank's alone: `dist.input_straggler` speaks for it.

Where ranks take their steps together, the job waits as long as the rank that waits longest. What it waits longer than
the others is a matter of that rank's data or host; what all wait is a matter of the loader, and `input.*` speak.
"""

from __future__ import annotations

from whyidle.model.finding import LOW
from whyidle.model.measurement import Measurements

WAITS = tuple(f"lost_data_{kind}_share" for kind in ("zero", "workers", "first", "other"))
READ = ("late_loader_share", *WAITS)


def total(m: Measurements) -> float:
    """Return the share of watched time that goes to all waits for data."""
    return sum(m.get(name, 0.0) for name in WAITS)


def claimed(m: Measurements) -> float:
    """Return the share of watched time that is one rank's alone; 0 where that is not worth telling."""
    late = min(m.get("late_loader_share", 0.0), total(m))
    return late if late >= LOW else 0.0


def own(m: Measurements, name: str) -> float:
    """Return what of one of these waits (0 where it was not measured) is not claimed."""
    wait = m.get(name, 0.0)
    part = claimed(m)
    return wait * max(1 - part / total(m), 0.0) if part else wait


def said(m: Measurements) -> str:
    """Return what to add where a part of the wait is another rule's; empty where none is."""
    part = claimed(m)
    return f" ({part:.0%} of it since one rank waits longer than the others)" if part else ""
