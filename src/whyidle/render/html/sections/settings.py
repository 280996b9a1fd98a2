"""What was judged: the files, the machine, how the job was set and how it ended, and what was left aside."""

from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Ended, Report
from whyidle.render.html.section import Section, filled
from whyidle.render.rows import facts, settings
from whyidle.render.words import gpu_name, plural

SHOWN = 15  # files and settings; the rest is folded


def section(report: Report) -> Section | None:
    """Return what the verdict rests on; None where nothing was read."""
    run = report.run
    about = dict(_about(report))
    set_to = settings(report)
    if not (about or set_to or run.evidence or run.ignored):
        return None
    made = filled("settings", about=about, settings=list(set_to.items()), run=run, shown=SHOWN)
    return Section("evidence", "What was judged", made, "Evidence")


def _about(report: Report) -> Iterator[tuple[str, str]]:
    """Yield what is known of the job and its recording, by what it is called."""
    run, source = report.run, report.summary.source
    if run.gpus:
        yield "GPUs", ", ".join(f"{gpu.count} x {gpu_name(gpu.name)}" for gpu in run.gpus)
    if run.world_size:
        yield "ranks", f"{run.world_size:,}"
    if run.levels:
        yield "evidence", ", ".join(run.levels)
    if run.ended is not None:
        yield "the job", _ended(run.ended)
    if source is not None:
        yield "source", f"{plural(source.files, 'file')}, {plural(source.lines, 'line')}"
    elif run.evidence:
        yield from facts(report).items()


def _ended(ended: Ended) -> str:
    if ended.signal is not None:
        return f"was ended by signal {ended.signal}"
    if ended.exit_code is not None:
        return f"ended with exit code {ended.exit_code}"
    return "had not ended, or nobody saw how"
