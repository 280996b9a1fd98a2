from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class Straggler(Rule):
    """One rank comes late to the collectives, and the others spin for it.

    ## Why it costs time
    A collective starts when the last rank has come. The others' GPUs spin in it meanwhile, which counts as busy. The
    step takes as long as on the slowest rank.

    ## How we know
    Of one collective the rank that enters last has the shortest kernel, since all leave together. What the others take
    longer they waited: no clocks are compared. The rank that waits least is the late one. With one rank's recording
    the value is a lower bound, and who is late is not known.

    ## When to ignore it
    The ranks take turns (data of unequal length): then no rank waits much less than the others. Pipeline stages wait
    by design.
    """

    needs = (("collective_wait_share",),)
    uses = ("collective_share",)
    explains = ("peer_wait",)

    confidence = Threshold(0.8, "probability", source="kernel lengths of all ranks; not calibrated yet")
    alone_confidence = Threshold(0.5, "probability", source="judgement: contention on one rank looks the same")
    half = Threshold(0.5, "of the longest wait", source="judgement: the late rank waits far less than the others")
    applies = Threshold(0.4, "probability", source="judgement: what makes the rank late has to be found first")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("collective_wait_share")
        ranks = sorted(m.each("collective_wait_share"), key=lambda part: float(part.value))
        late = ranks[0].subject.replace(" ", "_").upper() if ranks else "THE_LATE_RANK"
        yield from self.finding(
            f"GPUs spin in collectives, waiting for another rank, for {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if ranks else self.alone_confidence,
            seen=self._seen(lost, ranks),
            locations=m.one("collective_wait_share").locations,
            fixes=(
                Fix(
                    "make the late rank as quick as the others: look at what it does while they wait",
                    f"whyidle TRACE_OF_{late}  # its own idle time and kernels, against those of another rank",
                    effort="code",
                    applies=self.applies,
                    risk="none by looking",
                    edits=(Edit("scale_device", {"class": "collective_wait"}, {"factor": 0.0}),),
                ),
            ),
            candidates=("dist.input_straggler", "dist.length_imbalance", "host.gc_pause", "hw.thermal"),
        )

    def _seen(self, lost: float, ranks: list[Measurement]) -> str:
        if not ranks:
            return f"collectives take at least {lost:.0%} of the time longer than the fastest of the same kind and size"
        least, most = ranks[0], ranks[-1]
        if float(least.value) < self.half * float(most.value):
            return (
                f"{least.subject} waits least, {float(least.value):.0%} of the time: it is the late one; "
                f"{most.subject} waits {float(most.value):.0%}"
            )
        return (
            f"the ranks take turns: {least.subject} waits {float(least.value):.0%}, "
            f"{most.subject} {float(most.value):.0%}"
        )

    cases = (
        Fires("half of every step", collective_wait_share=0.25, collective_share=0.35),
        Silent("collectives of equal length", collective_wait_share=0.004, collective_share=0.35),
    )
