"""Moments as a person and as a program read them."""

from __future__ import annotations

from datetime import UTC, datetime

NS_PER_S = 1_000_000_000


def clock(wall_ns: int) -> str:
    """Return the local time of day, "12:03:11"."""
    return datetime.fromtimestamp(wall_ns / NS_PER_S, UTC).astimezone().strftime("%H:%M:%S")


def iso(wall_ns: int) -> str:
    """Return it with its day and offset, to the second: "2026-01-31T12:03:11+00:00"."""
    return datetime.fromtimestamp(wall_ns // NS_PER_S, UTC).isoformat()
