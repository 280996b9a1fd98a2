"""What the source lets one suspect and a recording does not bear out: a line each, with what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from whyidle.model.finding import Report
from whyidle.render.lines import hang
from whyidle.render.places import spots
from whyidle.render.words import clean

_MOST = 3


def cleared(report: Report, width: int, *, everything: bool) -> Iterator[Text]:
    """Yield each line that is cleared, why; all of them where there is room for everything."""
    shown = report.cleared if everything else report.cleared[:_MOST]
    for finding in shown:
        text = f"{spots(finding.locations[:1])} {clean(finding.rule)}: {clean(finding.seen)}"
        yield from hang(Text("  cleared: ", style="bold green"), Text(text), width, most=None if everything else 1)
    if len(report.cleared) > len(shown):
        yield Text(f"  and {len(report.cleared) - len(shown):,} more cleared: --all", style="dim")
