"""The report as one HTML file: no network, no cookies, opens anywhere.

Python writes everything that is read, so that the page says the same without scripts, on paper and to a screen reader;
the bundle (built from web/) adds the timeline, the charts and the jumps between them.
"""

from __future__ import annotations

from whyidle.model.finding import Report
from whyidle.render.base import Look, Renderer
from whyidle.render.headline import sentences
from whyidle.render.html.page import page
from whyidle.render.html.sections import LINTED, SECTIONS
from whyidle.render.json import Json
from whyidle.render.words import clean


class Html(Renderer):
    """The verdict, where the time goes, what to change, and the evidence behind it, on one page."""

    format = "html"
    draws = True

    def render(self, report: Report, look: Look) -> str:
        parts = SECTIONS if report.summary.source is None else LINTED
        sections = [made for section in parts if (made := section(report)) is not None]
        return page(_title(report), sections, Json().render(report, look), report.picture)


def _title(report: Report) -> str:
    """Return the verdict; where what was recorded has a name, the answer and that, so that tabs can be told apart."""
    name = clean(report.picture.name) if report.picture is not None else ""
    return f"{sentences(report.summary.verdict)[0].rstrip('.')} · {name}" if name else report.summary.verdict
