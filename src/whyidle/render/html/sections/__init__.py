"""The parts of the page on one run, in the order in which they are read. One file per part; None: nothing to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from whyidle.model.finding import Report
from whyidle.render.html.section import Section
from whyidle.render.html.sections import (
    curves,
    findings,
    fixes,
    linted,
    method,
    seconds,
    settings,
    source,
    steps,
    tables,
    timeline,
    unknown,
    verdict,
    warnings,
)

SECTIONS: Final[tuple[Callable[[Report], Section | None], ...]] = (
    verdict.section,
    warnings.first,
    seconds.section,
    fixes.section,
    findings.section,
    warnings.section,
    timeline.section,
    curves.section,
    steps.section,
    source.section,
    tables.section,
    settings.section,
    unknown.section,
    method.section,
)

# Of `whyidle lint`, which knows no times.
LINTED: Final[tuple[Callable[[Report], Section | None], ...]] = (
    linted.section,
    warnings.first,
    warnings.section,
    source.section,
    settings.section,
    method.section,
)
