"""Moments and durations as people and Prometheus write them: 2025-06-01T12:00:00Z, 1748779200, -3h, 15s."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from whyidle.errors import WhyIdleError

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART: Final = r"(\d+(?:\.\d+)?)(ms|[smhdw])"
_DURATION: Final = re.compile(f"(?:{_PART})+")


def seconds(text: str, name: str) -> float:
    """Return "90", "90s" or "1h30m" in seconds.

    Raises:
        WhyIdleError: it is not a duration above 0; `name` says of what.
    """
    written = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", written):
        found = float(written)
    elif _DURATION.fullmatch(written):
        found = sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_PART, written))
    else:
        found = 0.0
    if not 0 < found < float("inf"):
        raise WhyIdleError(f"{name} is a time like 15s, 5m or 1h30m, not {text!r}", f"{name}=15m")
    return found


def moment(text: str, now: float, name: str) -> float:
    """Return a moment in seconds since 1970: as such, as ISO 8601 (UTC without a zone), "now", or "-3h" before `now`.

    Raises:
        WhyIdleError: it is none of these.
    """
    written = text.strip()
    if written in {"", "now"}:
        return now
    if written.startswith("-"):
        return now - seconds(written[1:], name)
    try:
        if re.fullmatch(r"\d{9,10}(\.\d+)?", written):
            return float(written)
        when = datetime.fromisoformat(written)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        example = "2025-06-01T12:00:00Z, seconds since 1970, or -3h"
        raise WhyIdleError(f"{name} is a moment, not {text!r}", f"{name}={example}") from None


def duration(length_s: float) -> str:
    """Return seconds as Prometheus writes them: "15m", "90s", "200ms"."""
    if length_s != int(length_s):
        return f"{max(round(length_s * 1000), 1)}ms"
    unit, size = next((unit, size) for unit, size in (("h", 3600), ("m", 60), ("s", 1)) if not int(length_s) % size)
    return f"{int(length_s) // size}{unit}"
