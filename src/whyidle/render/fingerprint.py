"""Names for findings that stay the same from run to run, so that a tracker knows which are new and which are gone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from whyidle.model.finding import Finding, Location

_DIGITS = 32  # hexadecimal: 128 bits, for which no two findings of a project are alike


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """Return a name for each finding: of its rule, its file and what stands there, and of how many there were before.

    Line numbers are no part of it, so that it outlives changes above; nor is the message, which may hold numbers.
    """
    met: Counter[tuple[str, ...]] = Counter()
    names = []
    for finding in findings:
        place = finding.locations[0] if finding.locations else Location("")
        what = (finding.rule, place.file.replace("\\", "/"), " ".join((place.excerpt or "").split()), _which(place))
        text = "\0".join((*what, str(met[what])))
        met[what] += 1
        names.append(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS])
    return names


def _which(place: Location) -> str:
    """Return which of several ranks and GPUs of a recording is meant; nothing of a place in source."""
    return "" if place.line is not None else f"{place.rank} {place.device}"
