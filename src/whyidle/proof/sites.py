"""What `whyidle run` says of a line: PyTorch's own warnings of waits, and the stacks of DataLoader workers."""

from __future__ import annotations

from collections.abc import Mapping

from whyidle.model.evidence import Stack, SyncSite
from whyidle.model.finding import LOW, Finding, Location
from whyidle.proof.recording import Recording, cleared, settled, unseen
from whyidle.proof.waits import LIKELY, SURE, Suspect, times
from whyidle.rules.sync.sites import CALLS

# What rules/sync/sites.py calls the waits of a rule. PyTorch warns of all of these; of copies to the GPU and of
# torch.cuda.synchronize() not in every version.
WARNED: Mapping[str, str] = {
    "sync.scalar_read": "scalar",
    "sync.data_dependent": "data_dependent",
    "sync.grad_clip": "grad_clip",
}
OFTEN = 0.2  # of a worker's samples: a line that is met less is not what takes its time (judgement)


def weigh(suspect: Suspect, recording: Recording) -> Finding | None:
    """Return what was seen of a line while the job ran; None where nothing was looked for."""
    return by_warnings(suspect, recording) or by_workers(suspect, recording)


def by_warnings(suspect: Suspect, recording: Recording) -> Finding | None:
    """Return what PyTorch's warnings of waits say of a line."""
    logs = [log for log in recording.run.logs if log.sync_steps]
    finding, kind = suspect.finding, WARNED.get(suspect.finding.rule)
    if not logs or not suspect.kinds:
        return None
    steps = sum(log.sync_steps for log in logs)
    sites = [site for log in logs for site in log.sync_sites]
    here = [site for site in sites if suspect.spot.at(site.file, site.line)]
    if not here:
        if kind is None or finding.severity == "low":
            return None
        if suspect.spot.sometimes:
            return unseen(finding, f"in {steps} watched steps the job does not wait here, where it need not come by")
        return cleared(finding, recording, f"in {steps} watched steps the job does not wait at this line", 0.0)
    count = sum(site.count for site in here)
    often = f"waits here {times(count / steps)} per step in {steps} watched steps"
    total = recording.loss(finding.rule)
    if total is None:
        return unseen(
            finding, f"{often}; what the GPU loses by that takes a trace, which `whyidle run` records on a GPU"
        )
    if total * recording.ranks < LOW:
        lost = f"the GPU idles {recording.per_step(total)} behind all such waits"
        return cleared(finding, recording, f"{often}, and {lost}", total)
    alike = sum(site.count for site in sites if kind is None or alike_to(site, kind))
    part = count / max(alike, count)
    lost = f"the GPU idles {recording.per_step(total)} behind such waits"
    among = f", of which {part:.0%} are here" if part < 1 else ""
    if total * part < LOW:
        return unseen(finding, f"{often}; {lost}{among}")  # which need not cost alike
    return settled(finding, recording, total * part, SURE if part == 1 else LIKELY, f"{often}; {lost}{among}")


def alike_to(site: SyncSite, kind: str) -> bool:
    """Say whether a line may wait in this way, by what it calls; one of which that is not known may."""
    known = [name for name, calls in CALLS.items() if calls.fullmatch(site.operation)]
    return kind in known or not known


def by_workers(suspect: Suspect, recording: Recording) -> Finding | None:
    """Return what samples of workers' stacks say of a line in a data set."""
    found = recording.found(suspect.finding.rule) if suspect.finding.rule.startswith("input.") else None
    stacks = [stack for log in recording.run.logs for worker in log.workers for stack in worker.stacks]
    total = sum(stack.count for stack in stacks)
    here = sum(stack.count for stack in stacks if passes(stack, suspect))
    if found is None or not found.lost_share or not total or here < OFTEN * total:
        return None
    seen = f"{here / total:.0%} of the samples of DataLoader workers are at this line; {found.seen}"
    places: tuple[Location, ...] = found.locations[:1]
    if found.lost_share * here / total < LOW:
        return unseen(suspect.finding, seen)
    return settled(suspect.finding, recording, found.lost_share * here / total, LIKELY, seen, places)


def passes(stack: Stack, suspect: Suspect) -> bool:
    """Say whether a sampled stack holds the line of a finding."""
    return any(suspect.spot.at(file, line) for file, line, _ in stack.frames)
