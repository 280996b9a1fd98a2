"""The tables behind the numbers: the same rows as `--all` at a terminal, with bars for shares."""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.html.section import Section, filled
from whyidle.render.rows import tables

SHOWN = 15  # rows of a table; the rest is folded
NAME = 90  # characters of a name that stand in a cell
FULL = 2000  # of a name that is unfolded; the JSON has all of it


def section(report: Report) -> Section | None:
    """Return kernels, operators, copies and curves by what they take; None where none was recorded."""
    found = tuple(tables(report.detail))
    if not found:
        return None
    made = filled("tables", tables=found, shown=SHOWN, name=NAME, full=FULL)
    if not report.detail.kernels:
        return Section("tables", "Tables", made)
    return Section("tables", "Kernels and operators", made, "Kernels")
