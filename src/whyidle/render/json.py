"""The report for programs: JSON, schema_version 1. A removal or a new meaning raises that number."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TypeAlias

import numpy as np

from whyidle._version import __version__
from whyidle.model.finding import Location, Report
from whyidle.render.base import Look, Renderer

SCHEMA_VERSION = 1

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


class Json(Renderer):
    """The report's dataclasses written out; the keys are their fields."""

    format = "json"

    def render(self, report: Report, look: Look) -> str:
        return dumps(
            {
                "schema_version": SCHEMA_VERSION,
                "whyidle": __version__,
                "judged": report.judged,
                "run": report.run,
                "summary": report.summary,
                "findings": report.findings,
                "cleared": report.cleared,
                "unknown": report.unknown,
                "warnings": report.warnings,
                "prediction": report.prediction,
                "detail": report.detail,
            },
            ascii_only=not look.unicode,
        )


def dumps(value: object, *, ascii_only: bool = False) -> str:
    """Return dataclasses, mappings and numbers as strict JSON, ending with a line break."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=ascii_only, allow_nan=False) + "\n"


def _plain(value: object, key: str = "") -> Plain:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(value, key)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_text(str(name)): _plain(item, str(name)) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        written = [field.name for field in fields(value) if field.metadata.get("json", True)]
        items = {name: _plain(getattr(value, name), name) for name in written}
        if isinstance(value, Location):
            return {name: item for name, item in items.items() if item is not None}
        return items
    if isinstance(value, list | tuple):
        return [_plain(item, key) for item in value]
    raise TypeError(f"no JSON for {type(value).__name__}")


def _text(text: str) -> str:
    """Return text that can be written: a path may hold bytes that are none, a name half a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _number(value: float, key: str) -> float | None:
    """Round to what the number can carry: sums to the cent, rates to 1/100 of it, places to the µs, else 6 digits."""
    if not math.isfinite(value):
        return None
    if key == "usd" or key.endswith("_usd"):
        return round(value, 2)
    if "usd" in key and "per_million" not in key:  # which may be far below a cent
        return round(value, 4)
    if key in {"start_s", "end_s"}:
        return round(value, 6)
    return float(f"{value:.6g}")
