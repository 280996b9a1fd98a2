"""Options that several verbs take: numbers as people type them ("$2.60", "24h"), and whether to predict."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from whyidle.cost import YOURS
from whyidle.errors import WhyIdleError
from whyidle.project import FILE, project_of


def usd(text: str) -> float:
    """Return "2.60" or "$2.60" as a price in US dollars."""
    return _number(text, text.strip().removeprefix("$"), "a price in US dollars", "--price 2.60")


def hours(text: str) -> float:
    """Return "24" or "24h" as hours."""
    return _number(text, text.strip().removesuffix("h"), "a number of hours", "--hours 24")


def seconds(text: str | float) -> float:
    """Return "90", "90s", "15m" or "2h" as seconds; a number, which a default is, as it is."""
    if not isinstance(text, str):
        return float(text)
    written = text.strip().lower()
    unit = written[-1:] if written[-1:] in _SECONDS else ""
    return _SECONDS[unit] * _number(text, written.removesuffix(unit), "a time", "15m, 90s or 2h")


_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def share(text: str | float) -> float:
    """Return "0.40" or "40%" as a share, 0-1; a number, which a default is, as it is."""
    if not isinstance(text, str):
        return float(text)
    written = text.strip()
    scale = 0.01 if written.endswith("%") else 1.0
    return scale * _number(text, written.removesuffix("%"), "a share", "0.40, or 40%")


def rate(text: str) -> float:
    """Return "46104" or "46,104" as what a job gets through per second."""
    return _number(text, text.strip(), "a number per second", "--tokens-per-s 46104")


def count(text: str | int) -> int:
    """Return "8" as a number of GPUs; a number, which a default is, as it is."""
    if not isinstance(text, str):
        return text
    found = _number(text, text.strip(), "a number of GPUs", "--gpus 8")
    if not (math.isfinite(found) and found == int(found)):
        raise WhyIdleError(f"{text!r} is not a number of GPUs", "--gpus 8")
    return int(found)


def _number(text: str, digits: str, what: str, example: str) -> float:
    """Return what is written: 46104, or 46,104. "2,60", as half of Europe writes 2.60, is none."""
    try:
        found = float(digits.replace(",", "") if THOUSANDS.fullmatch(digits) else digits)
    except ValueError:
        raise WhyIdleError(f"{text!r} is not {what}", example) from None
    if math.isfinite(found) and found and not SMALLEST <= abs(found) <= LARGEST:
        raise WhyIdleError(f"{text!r} is beyond what {what} can be", example)
    return found


THOUSANDS: Final = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
SMALLEST, LARGEST = 1e-12, 1e12


def priced(given: float | None) -> tuple[float | None, str]:
    """Return US dollars per GPU-hour, and who says so.

    That is --price, else the pyproject.toml of where the user stands; without both it is None: then a dated table has
    the list prices of GPUs, which who knows the GPU looks up.

    Raises:
        WhyIdleError: for a pyproject.toml that cannot be read, or a price in it that cannot be.
    """
    if given is not None:
        return given, YOURS
    project = project_of(Path())
    usd = None if project is None else project.usd_per_gpu_hour
    return usd, YOURS if usd is None else FILE


Price = Annotated[
    float | None,
    typer.Option(
        "--price",
        parser=usd,
        metavar="USD",
        help="What one GPU costs per hour; else what pyproject.toml says, or its list price, if known.",
    ),
]
Gpus = Annotated[
    int | None,
    typer.Option("--gpus", parser=count, metavar="N", help="GPUs that the job rents; else the ranks or GPUs seen."),
]
Hours = Annotated[
    float | None,
    typer.Option("--hours", parser=hours, metavar="H", help="How long the whole job runs, for its total cost."),
]
NoPredict = Annotated[bool, typer.Option("--no-predict", help="Do not predict what fixes are worth.")]
