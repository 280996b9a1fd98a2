"""A time as a person says it, in a sentence: three digits and the unit that fits."""

from __future__ import annotations

from typing import Final

LONG: Final = (("days", 86_400.0, 72.0 * 3600), ("h", 3600.0, 7200.0), ("min", 60.0, 120.0))


def span(seconds: float) -> str:
    """Return "0.3 s", "22.6 min", "8 h", "30 days"; "12 ms" below a tenth of a second."""
    for unit, size, least in LONG:
        if seconds >= least:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds >= 0.1 or seconds <= 0 else f"{seconds * 1e3:.3g} ms"
