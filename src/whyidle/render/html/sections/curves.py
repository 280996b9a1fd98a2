"""Curves over time: what devices, the host, the network and the disks did, one quantity beside the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from whyidle.model.finding import Report
from whyidle.model.picture import Chart
from whyidle.render.html.figures import above, figure, said_once, spans
from whyidle.render.html.section import Section, filled

# The order in which an engineer asks: does it work, how fast is it allowed to, what feeds it. First match wins.
FAMILIES: Final = (
    (
        "Input and output",
        re.compile(r"disk|network|\bi/?o\b|\bread|writ|receiv|\bsent|pcie|nvlink|storage|bytes", re.I),
    ),
    ("Host", re.compile(r"host|\bcpu|worker|process|\bram\b|\brss\b|swap|thread|pressure|queue", re.I)),
    ("GPU", re.compile(r"")),
)
ORDER: Final = ("GPU", "Host", "Input and output")
TOPICS: Final = tuple(
    re.compile(topic, re.I)
    for topic in (r"utili[sz]|busy|active|occup", r"clock|MHz", r"power|\bW\b", r"memory|GiB", r"temp|°C", r"")
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
    for family in ORDER:
        mine = sorted(_of(family, charts), key=lambda pair: _topic(pair[1]))
        figures = [figure(chart, index, span=shared.get(chart.group), tall=tall, above=once) for index, chart in mine]
        if figures:
            yield family, figures


def _of(family: str, charts: list[tuple[int, Chart]]) -> Iterator[tuple[int, Chart]]:
    for index, chart in charts:
        if next(name for name, said in FAMILIES if said.search(chart.title)) == family:
            yield index, chart


def _topic(chart: Chart) -> int:
    said = f"{chart.title} {chart.unit}"
    return next(place for place, topic in enumerate(TOPICS) if topic.search(said))
