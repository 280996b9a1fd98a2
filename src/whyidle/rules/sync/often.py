"""How often the program waits: a number per step, which only a recording with steps can tell."""

from __future__ import annotations

from whyidle.model.measurement import Measurements


def often(m: Measurements, name: str, what: str) -> str:
    """Return "3 reads per step" for what was counted, "reads" for what was not."""
    return f"{m.number(name):.3g} {what} per step" if name in m else what
