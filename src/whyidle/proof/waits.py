"""What Python frames in a trace say of a line: whether the host waits there, and what the GPU loses behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from whyidle.measure.stacks import Frame, StackedWait
from whyidle.model.finding import LOW, Finding
from whyidle.proof.recording import Recording, cleared, settled, unseen
from whyidle.proof.spots import MODULE, Spot

# Kinds of wait (measure/sync.py) that lines of a family of rules bring about.
KINDS: Mapping[str, frozenset[str]] = {
    "sync": frozenset({"scalar", "readback", "data_dependent", "grad_clip", "framework"}),
    "transfer": frozenset({"upload", "small_upload"}),
}
# The same by rule, for a wait right in the function, with no frame below that says which line it is.
NAMELESS: Mapping[str, frozenset[str]] = {
    "sync.scalar_read": frozenset({"scalar", "readback"}),
    "sync.data_dependent": frozenset({"data_dependent", "scalar"}),
    "sync.grad_clip": frozenset({"grad_clip", "scalar"}),
    "sync.framework": frozenset(),  # which has a frame, and so has all that logs
    "sync.logging_metrics": frozenset(),
}
# Waits for copies, which take the GPU's time, too.
ALSO_COPY: Mapping[str, frozenset[str]] = {
    "sync.scalar_read": frozenset({"scalar", "readback"}),
    "transfer.pageable_h2d": frozenset({"upload"}),
    "transfer.h2d_in_step": frozenset({"small_upload"}),
}
# Calls that have a frame of their own: a wait without one is none of these.
FRAMED = frozenset({
    "item", "tolist", "cpu", "numpy", "to", "cuda", "nonzero", "unique", "masked_select", "print", "synchronize",
    "clip_grad_norm_", "__format__",
})  # fmt: skip
# Calls that copy to the GPU; without one a line of such a rule is about how batches are made, and waits for nothing.
COPIES = frozenset({"to", "cuda", "copy_", "tensor", "as_tensor", "from_numpy", "full", "ones", "zeros", "arange"})
WRAPPERS = ("wrap", "decorate")  # in the names of frames that stand between a caller and what it calls
HERE = "the line itself"
EACH = 0.99  # times per step: lines of which each runs in every step wait that often
SURE, LIKELY = 0.9, 0.7  # probability, judgement: the frame names the line; one of several lines


@dataclass(frozen=True, slots=True)
class Suspect:
    """A finding of source, and where it stands."""

    finding: Finding
    spot: Spot

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of wait that the line can bring about; none where it is about a setting."""
        family = self.finding.rule.partition(".")[0]
        waits = family != "transfer" or bool(self.spot.names & COPIES)
        return KINDS.get(family, frozenset()) if waits else frozenset()

    def ran(self, recording: Recording) -> bool:
        """Say whether its function ran in the recorded steps, by their frames."""
        return any(self.spot.inside(frame) for frame in recording.stacks.ran)

    def reached(self, recording: Recording) -> bool:
        """Say whether its line ran in the recorded steps, as far as that is known; without frames, by the source."""
        often = not self.spot.sometimes and self.finding.severity != "low"
        mine = [frame for frame in recording.stacks.ran if self.spot.inside(frame)]
        if not recording.stacks.ran:
            return often
        if any(frame.exact for frame in mine):
            return any(frame.exact and self.spot.at(frame.file, frame.line) for frame in mine)
        if framed := self.spot.names & FRAMED:
            pairs = recording.stacks.called
            return any(name in framed and self.spot.inside(by) for by, name in pairs)
        return bool(mine) and often

    @property
    def where(self) -> str:
        """Return the function in words."""
        return "the module's own code" if self.spot.function == MODULE else f"`{self.spot.function}`"


@dataclass(frozen=True, slots=True)
class Part:
    """Waits that may be those of a line, and with how many lines and findings it shares them."""

    wait: StackedWait
    lines: int
    findings: int


def weigh(suspects: Sequence[Suspect], recording: Recording) -> Iterator[Finding | None]:
    """Yield for each finding what frames say of it; None where they say nothing."""
    mine: list[list[Part]] = [[] for _ in suspects]
    doubtful: set[int] = set()  # in whose functions the host waits, at a line that nobody knows
    for wait in recording.stacks.waits:
        here = {index: call for index, one in enumerate(suspects) if (call := called(wait, one)) is not None}
        chosen = [index for index, call in here.items() if call is HERE or call in suspects[index].spot.names]
        chosen = chosen or [index for index, call in here.items() if not call and nameless(wait, suspects[index])]
        chosen = fitting(wait, chosen, suspects)
        lines = {(suspects[index].spot.file, suspects[index].spot.line) for index in chosen}
        for index in chosen:
            mine[index].append(Part(wait, len(lines), len(chosen)))
        doubtful.update(here if not chosen else ())
    for index, suspect in enumerate(suspects):
        if mine[index]:
            yield of_waits(suspect, mine[index], recording)
        else:
            yield None if index in doubtful else of_none(suspect, recording)


def fitting(wait: StackedWait, chosen: Sequence[int], suspects: Sequence[Suspect]) -> list[int]:
    """Return the findings whose rule speaks of such waits, of those at one line; all where none does."""
    fits = [index for index in chosen if wait.kind in NAMELESS.get(suspects[index].finding.rule, ())]
    lines = {(suspects[index].spot.file, suspects[index].spot.line) for index in fits}
    spoken = {index for index in chosen if (suspects[index].spot.file, suspects[index].spot.line) in lines}
    return [index for index in chosen if index in fits or index not in spoken]


def called(wait: StackedWait, suspect: Suspect) -> str | None:
    """Return what the function of a finding calls when it waits; "" for nothing that has a frame; None: not in it.

    HERE: the very line is known.
    """
    if wait.kind not in suspect.kinds:
        return None
    below: Frame | None = None
    for frame in wait.frames:
        if frame.exact and suspect.spot.inside(frame):
            return HERE if suspect.spot.at(frame.file, frame.line) else None
        if suspect.spot.inside(frame):
            return "" if below is None else below.function
        if below is None or not any(word in frame.function for word in WRAPPERS):
            below = frame
    return None


def nameless(wait: StackedWait, suspect: Suspect) -> bool:
    """Say whether a wait without a frame of its own can be that of this line."""
    kinds = NAMELESS.get(suspect.finding.rule, suspect.kinds)
    return wait.kind in kinds and not suspect.spot.names & FRAMED


def of_waits(suspect: Suspect, parts: Sequence[Part], recording: Recording) -> Finding | None:
    """Return the finding with what the waits at its line cost, its part of those that several lines share."""
    share = sum(part.wait.lost_share / part.findings for part in parts)
    found = recording.found(suspect.finding.rule)
    if found is not None and found.lost_share and all_here(suspect, parts, recording):
        share = max(share, found.lost_share)  # which counts more than what is behind waits: the copies themselves
    whole, worst = (sum(part.wait.lost_share for part in parts), max(part.wait.worst_share for part in parts))
    if share < LOW <= recording.beside(suspect.finding.rule):
        return None
    most = max(part.lines for part in parts)
    first = max((part.wait for part in parts), key=lambda wait: wait.lost_share)
    steps = [part.wait.per_step / part.lines for part in parts if part.wait.per_step is not None]
    often = f"{times(sum(steps))} per step" if steps else times(sum(part.wait.count for part in parts))
    among = f"; {most} such lines in {suspect.where} share what was measured" if most > 1 else ""
    lost = f"the GPU loses {recording.per_step(share)} by that"
    if share < LOW <= worst and most == 1:
        lost += f", {worst:.1%} on the rank that loses most"
    seen = f"{suspect.where} waits here {often} in the recorded steps, and {lost}{among}"
    if most > 1 and max(whole, worst) >= LOW and (share < LOW or sum(steps) < EACH):
        open_ = (
            f"{suspect.where} waits at some of {most} such lines, and the GPU loses {recording.per_step(whole)} by that"
        )
        return unseen(suspect.finding, open_)
    confidence = SURE if most == 1 else LIKELY
    return settled(suspect.finding, recording, share, confidence, seen, (first.location,), worst)


def all_here(suspect: Suspect, parts: Sequence[Part], recording: Recording) -> bool:
    """Say whether all waits of a kind that also costs otherwise are at this line."""
    kinds = ALSO_COPY.get(suspect.finding.rule, frozenset())
    every = sum(wait.count for wait in recording.stacks.waits if wait.kind in kinds)
    return sum(part.wait.count / part.findings for part in parts if part.wait.kind in kinds) == every > 0


def times(number: float) -> str:
    """Return how often in words."""
    return "once" if f"{number:.3g}" == "1" else f"{number:.3g} times"


def of_none(suspect: Suspect, recording: Recording) -> Finding | None:
    """Return a finding cleared whose function ran and did not wait; of a line that runs rarely that says nothing."""
    if not recording.stacks.ran or not suspect.kinds or not suspect.reached(recording):
        return None
    if recording.beside(suspect.finding.rule) >= LOW:
        return None
    return cleared(
        suspect.finding, recording, f"{suspect.where} runs in the recorded steps and does not wait here", 0.0
    )
