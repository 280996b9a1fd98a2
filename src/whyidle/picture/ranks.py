"""Which ranks a page draws, where a job has more than anybody looks at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from whyidle.measure.analysis import Analysis
from whyidle.measure.step_log.watch import Watch
from whyidle.model.finding import Report

MOST: Final = 16


def drawn_of(analyses: Sequence[Analysis], report: Report) -> tuple[list[Analysis], str]:
    """Return the ranks that are drawn, and a sentence that says which; empty where all are.

    The one that idles most and the one that idles least, those that findings name, the middle one, and others at equal
    distances between them.
    """
    if len(analyses) <= MOST:
        return list(analyses), ""
    by_idle = sorted(analyses, key=lambda a: -_idle_share(a))
    named = [place.file for finding in report.findings for place in finding.locations]
    of_file = {a.t.trace.path: a for a in analyses}
    last = len(by_idle) - 1
    spread = [by_idle[last * index // (MOST - 1)] for index in range(MOST)]
    wanted = [by_idle[0], by_idle[-1], *(of_file[file] for file in named if file in of_file), by_idle[last // 2]]
    chosen = list({id(a): a for a in (*wanted, *spread)}.values())[:MOST]
    kept = [a for a in analyses if any(a is one for one in chosen)]
    return kept, (
        f"{MOST} of {len(analyses):,} ranks are drawn: those that findings name, and others from the most idle "
        f"({_said(by_idle[0])}) to the least ({_said(by_idle[-1])})."
    )


def _idle_share(a: Analysis) -> float:
    return sum(device.idle for device in a.devices) / a.device_window


def _said(a: Analysis) -> str:
    rank = a.t.trace.rank
    return a.t.trace.path if rank is None else f"rank {rank}"


def logs_of(watches: Sequence[Watch], traced: Collection[int | None]) -> tuple[list[Watch], str]:
    """Return the processes of which the log is drawn, and a sentence that says which; empty where all are.

    Those whose trace is drawn, the one that waits for data longest, the one that waits least, and others.
    """
    if len(watches) <= MOST:
        return list(watches), ""
    by_wait = sorted(watches, key=lambda w: -w.shares.get("data", 0.0))
    beside = [w for w in watches if w.log.process.rank in traced and w.log.process.rank is not None]
    last = len(by_wait) - 1
    spread = [by_wait[last * index // (MOST - 1)] for index in range(MOST)]
    chosen = list({id(w): w for w in (by_wait[0], by_wait[-1], *beside, *spread)}.values())[:MOST]
    kept = [w for w in watches if any(w is one for one in chosen)]
    return kept, (
        f"{MOST} of {len(watches):,} ranks are drawn, from the one that waits for data longest (rank "
        f"{by_wait[0].log.process.rank}) to the one that waits least (rank {by_wait[-1].log.process.rank})."
    )
