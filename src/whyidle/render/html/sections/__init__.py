"""The parts of the page on one run, in the order in which they are read. One file per part; None: nothing to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from whyidle.model.finding import Report
from whyidle.render.html.section import Section
from whyidle.render.html.sections import curves, steps, timeline, verdict

SECTIONS: Final[tuple[Callable[[Report], Section | None], ...]] = (
    verdict.section,
    timeline.section,
    curves.section,
    steps.section,
)
