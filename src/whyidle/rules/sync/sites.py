"""Which lines of the job wait for the GPU: what `whyidle run` saw PyTorch warn of, sorted to the rules of this family.

A line says where the CPU waited and how often, not whether the GPU ran dry behind it. That only a recording tells, so
lines are shown with findings that rest on one, and make none.
"""

from __future__ import annotations

import re

from whyidle.model.finding import Location
from whyidle.model.measurement import Measurement, Measurements

SITES = "sync_site"
SHOWN = 3  # lines that a finding names
# What the source calls at the line, as the recording spells it; a line of none of these may be any of them.
CALLS = {
    "scalar": re.compile(r"item|float|int|tolist|numpy|cpu|print|format|str|repr"),
    "data_dependent": re.compile(
        r"index|bool|any|all|equal|allclose|\w*nonzero|where|masked_\w+|unique\w*|repeat_interleave|bincount|histc"
    ),
    "grad_clip": re.compile(r"clip_grad\w*|unscale_|step|get_total_norm|isfinite"),
    "framework": re.compile(r"synchronize|barrier|mem_get_info|empty_cache"),
}


def lines(m: Measurements, kind: str) -> tuple[Measurement, ...]:
    """Return the lines at which the job waits in this way, the most frequent first; those of no known way if none."""
    sites = sorted(m.each(SITES), key=lambda site: -float(site.value))
    known = tuple(site for site in sites if CALLS[kind].fullmatch(_call(site)))
    return known or tuple(site for site in sites if not any(call.fullmatch(_call(site)) for call in CALLS.values()))


def places(m: Measurements, kind: str, recorded: tuple[Location, ...]) -> tuple[Location, ...]:
    """Return where to look: the lines of the job, then the places in the recording."""
    return tuple(place for site in lines(m, kind)[:SHOWN] for place in site.locations) + recorded


def named(m: Measurements, kind: str) -> str:
    """Return "; train.py:12 (item) 1 per step" for each of these lines; empty where none was seen."""
    return "".join(
        f"; {site.subject}{f' ({call})' if (call := _call(site)) else ''} {float(site.value):.3g} per step"
        for site in lines(m, kind)[:SHOWN]
    )


def _call(site: Measurement) -> str:
    return next((place.name for place in site.locations if place.name), "")
