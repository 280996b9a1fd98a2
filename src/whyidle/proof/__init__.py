"""Source and a run of it: each stall that the source lets one suspect is confirmed, cleared, or left open.

What can stall costs nothing where the GPU has enough to do. So a finding of source alone never weighs more than what a
recording of the same job shows at its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from whyidle.lint.source import Source
from whyidle.measure import Measured
from whyidle.model.evidence import Run
from whyidle.model.finding import Finding, Report, Severity
from whyidle.proof import calls, rule, settings, sites, waits
from whyidle.proof.origin import Origin
from whyidle.proof.recording import Recording, unseen
from whyidle.proof.spots import Spots
from whyidle.proof.waits import Suspect

ORDER: tuple[Severity, ...] = ("high", "medium", "low")


def weighed(
    findings: Sequence[Finding], sources: Iterable[Source], run: Run, measured: Measured, report: Report
) -> tuple[Finding, ...]:
    """Return findings of source, in their order, each with what a run says of it (Finding.evidence, Finding.seen).

    Args:
        findings: of source; the first location of each is its line.
        sources: the files that they are in.
        run: what was recorded.
        measured: what was measured in it.
        report: the verdict on it.
    """
    recording = Recording(run, measured, report)
    spots = Spots(sources)
    origin = Origin(spots.files, run, recording.named)
    suspects = [Suspect(finding, spots.of(finding.locations[0])) for finding in findings]
    settings_of = Counter(suspect.finding.rule for suspect in suspects if not suspect.kinds)
    by_frames = waits.weigh(suspects, recording)
    by_calls = calls.weigh(suspects, recording)
    told = [
        unseen(suspect.finding, doubt)
        if (doubt := origin.doubt(suspect.spot.file))
        else settings.weigh(suspect, recording)
        or called
        or framed
        or sites.weigh(suspect, recording)
        or rule.weigh(suspect, recording, alone=settings_of[suspect.finding.rule] == 1)
        for suspect, called, framed in zip(suspects, by_calls, by_frames, strict=True)
    ]
    return tuple(once(finding, suspect, told) for finding, suspect in zip(told, suspects, strict=True))


def once(finding: Finding, suspect: Suspect, found: Sequence[Finding]) -> Finding:
    """Return a confirmed finding on a setting without its loss, where lines that wait by it tell that already.

    That batches are not pinned, and that they are copied, is one cause in two places.
    """
    if finding.evidence != "confirmed" or suspect.kinds:
        return finding
    others = (one for one in found if one.rule == finding.rule and one is not finding and one.evidence == "confirmed")
    told = max(others, key=lambda one: one.lost_share or 0.0, default=None)
    if told is None:
        return finding
    place = told.locations[0]
    seen = f"the loss is that of {place.file}:{place.line}, where it is counted"
    return replace(finding, lost_share=None, lost_per_step_s=None, seen=seen)


def with_source(report: Report, found: Sequence[Finding]) -> Report:
    """Return a verdict with what `weighed` says of the source: it adds places and suspicions, and changes no verdict.

    A measured finding gets the lines that are confirmed to bring it about. What is confirmed and no finding yet, and
    then what is only suspected, at low severity, follow behind all that was measured; what is cleared stands apart.
    """
    measured = {finding.rule for finding in report.findings}
    joined = tuple(
        at_lines(finding, [one for one in found if one.evidence == "confirmed" and one.rule == finding.rule])
        for finding in report.findings
    )
    sure = tuple(one for one in found if one.evidence == "confirmed" and one.rule not in measured)
    behind = (*sure, *(replace(one, severity="low") for one in found if one.evidence == "source"))
    clear = tuple(one for one in found if one.evidence == "cleared")
    return replace(report, findings=(*joined, *behind), cleared=(*report.cleared, *clear))


def against(found: Report, weighed_: Sequence[Finding], run: Report) -> Report:
    """Return a report on source with what a run says of it: what it confirms first, what it clears apart."""
    kept = [one for one in weighed_ if one.evidence != "cleared"]
    clear = tuple(one for one in weighed_ if one.evidence == "cleared")
    kept.sort(key=lambda one: (one.evidence != "confirmed", ORDER.index(one.severity), -(one.lost_share or 0.0)))
    sure = sum(one.evidence == "confirmed" for one in kept)
    of_them = "1 finding" if len(weighed_) == 1 else f"{len(weighed_):,} findings"
    said = f"Of {of_them} the run confirms {sure:,} and clears {len(clear):,}." if weighed_ else ""
    warnings = found.warnings if run.judged else (*found.warnings, f"the run says little: {run.summary.verdict}")
    summary = replace(found.summary, verdict=" ".join(filter(None, (found.summary.verdict, said))))
    return replace(found, summary=summary, findings=tuple(kept), cleared=clear, warnings=warnings)


def at_lines(finding: Finding, lines: Sequence[Finding]) -> Finding:
    """Return a measured finding with the lines of source that bring it about, those that cost most first."""
    if not lines:
        return finding
    ordered = sorted(lines, key=lambda one: -(one.lost_share or 0.0))
    places = [one.locations[0] for one in ordered]
    named = {(place.file, place.line) for place in places}
    kept = [place for place in finding.locations if place.line is None or (place.file, place.line) not in named]
    said = "; ".join(f"{one.locations[0].file}:{one.locations[0].line}: {one.seen}" for one in ordered)
    return replace(
        finding, locations=(*places, *kept), seen="; ".join(filter(None, (finding.seen, said))), evidence="confirmed"
    )
