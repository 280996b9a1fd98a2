"""Calls of outermost modules."""

from __future__ import annotations

from typing import Any


def install(module: Any) -> None:
    """Nothing yet."""
