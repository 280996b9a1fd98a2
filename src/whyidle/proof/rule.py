"""What the rule of the same id says of the whole run, where nothing says more of the line."""

from __future__ import annotations

from whyidle.model.finding import LOW, Finding
from whyidle.proof.recording import Recording, cleared, confirmed, unseen
from whyidle.proof.settings import loaders_of
from whyidle.proof.waits import LIKELY, SURE, Suspect

# Rules whose loss has one cause, which the finding names. Of the others a line is one cause of several.
ONE_CAUSE = frozenset({
    "input.workers_zero", "input.workers_too_few", "input.batch_granularity", "input.worker_startup",
    "transfer.pageable_h2d", "compute.channels_last", "compute.cudnn_autotune", "compute.fp32_no_tensorcore",
    "compute.zero_grad_fill", "compute.recompute", "compile.not_used", "host.optimizer_loop", "host.debugger_overhead",
    "dist.accumulation_sync", "pause.checkpoint_sync",
})  # fmt: skip
# What comes now and then: a few traced steps may hold none of it.
NOW_AND_THEN = frozenset({"input.worker_startup", "pause.checkpoint_sync", "pause.evaluation", "pause.startup"})
SHOWS = "with_stack=True or `whyidle run` would show whether here"


def weigh(suspect: Suspect, recording: Recording, *, alone: bool) -> Finding:
    """Return the finding with what the run as a whole says of it. `alone`: no other line is suspected of the same.

    A wait for the GPU can be anywhere, in a library, too: that the run has such waits confirms no line. A setting, or
    how a loader is built, concerns all of the job.
    """
    finding, rule = suspect.finding, suspect.finding.rule
    found, loss = recording.found(rule), recording.loss(rule)
    known = bool(loaders_of(suspect, recording))
    if found is not None and found.lost_share and not suspect.kinds and rule in ONE_CAUSE and (alone or known):
        what = "this loader is the one" if known else "no other line does so"
        seen = f"the run loses {recording.per_step(found.lost_share)} to {rule}, and {what}"
        sure = min(found.confidence, SURE if known else LIKELY)
        return confirmed(finding, recording, found.lost_share, sure, seen, found.locations[:1])
    if recording.no_gpu:
        return unseen(finding, "the run that was recorded used no GPU")
    if not recording.report.judged:
        return unseen(finding, "the run could not be judged")
    if rule in NOW_AND_THEN and "step log" not in recording.report.run.levels:
        return unseen(finding, "a few traced steps need not hold what comes now and then; `whyidle run` would show it")
    if loss is not None:
        return by_loss(suspect, recording, loss)
    if found is None and (other := recording.alike(rule)) is not None:
        return unseen(finding, f"the run shows {other}, which its evidence cannot tell from {rule}")
    if found is None and finding.severity == "low" and not rule.startswith("input."):
        return unseen(finding, "the run shows no loss by it, but this line need not run in what was recorded")
    if found is None and recording.asked(rule):
        return cleared(finding, recording, f"{rule} was asked of the run and found no loss of {LOW:.0%} of the time")
    if found is not None:
        lost = "" if found.lost_share is None else f" and loses {recording.per_step(found.lost_share)} by it"
        return unseen(finding, f"the run shows {rule}{lost}, but not which line brings it about")
    how = next((unknown.how for unknown in recording.report.unknown if unknown.rule == rule), "")
    return unseen(finding, f"not seen in this run{how and f'; to see it: {how}'}")


def by_loss(suspect: Suspect, recording: Recording, loss: float) -> Finding:
    """Return the finding with what all waits of its kind cost: where that is little, no line costs more."""
    finding, lost = suspect.finding, recording.per_step(loss)
    if suspect.kinds and recording.stacks.ran and not suspect.ran(recording):
        return unseen(finding, f"{suspect.where} did not run in the recorded steps")
    if loss * recording.ranks >= LOW > loss:
        return unseen(finding, f"the ranks lose {lost} to such waits, but one of them may lose all of it")
    if loss >= LOW:
        return unseen(finding, f"the run loses {lost} to such waits; {where(suspect, recording)}")
    if suspect.kinds and not suspect.reached(recording):
        return unseen(finding, f"the recorded steps lose {lost} to such waits; it may run elsewhere")
    return cleared(finding, recording, f"the GPU idles {lost} in all such waits", loss)


def where(suspect: Suspect, recording: Recording) -> str:
    """Return why it is not known whether they are at this line, and what would show it."""
    if not suspect.kinds:
        return "which lines bring them about it does not show"
    if suspect.ran(recording):
        return f"none in {suspect.where} that a frame ties to this line"
    return SHOWS
