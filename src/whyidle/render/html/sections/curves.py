"""Curves over time: what devices, the host, the network and the disks did, one quantity beside the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from whyidle.model.finding import Report
from whyidle.model.picture import Chart, Mark
from whyidle.render.html.figures import above, figure, said_once, spans
from whyidle.render.html.section import Section, filled

# The order in which an engineer asks: does it work, what feeds it. The first that a title fits is its family; within
# one the picture's order stays.
FAMILIES: Final = (
    ("GPU", re.compile(r"\bGPU|\bSM\b|multiprocessor|tensor|NVLink|PCIe|^power|^temperature|clock", re.I)),
    ("Host", re.compile(r"\bCPU|\bhost|worker|process|task", re.I)),
    ("Disk and network", re.compile(r"disk|network|storage|\bread|\bwri", re.I)),
    ("Job", re.compile(r"")),
)
ENOUGH: Final = 8  # charts that need no headings


def section(report: Report) -> Section | None:
    """Return the charts over time; None where there are none."""
    if report.picture is None:
        return None
    charts = [(index, chart) for index, chart in enumerate(report.picture.charts) if chart.axis == "s" and chart.lines]
    if not charts:
        return None
    once = said_once([chart for _, chart in charts])
    families = list(_families(charts, once))
    if len(charts) <= ENOUGH:
        families = [("", [figure for _, figures in families for figure in figures])]
    return Section("curves", "Curves", filled("charts", families=families, above=above(once)))


def _families(charts: list[tuple[int, Chart]], once: tuple[str, ...]) -> Iterator[tuple[str, list[Markup]]]:
    shared = spans(chart for _, chart in charts)
    tall = len(charts) == 1
    of = [next(name for name, said in FAMILIES if said.search(chart.title)) for _, chart in charts]
    told: set[tuple[Mark, ...]] = set()
    for family, _ in FAMILIES:
        figures = []
        for index, chart in (pair for pair, found in zip(charts, of, strict=True) if found == family):
            span, listed = shared.get(chart.group), chart.marks not in told
            figures.append(figure(chart, index, span=span, tall=tall, above=once, listed=listed))
            told.add(chart.marks)
        if figures:
            yield family, figures
