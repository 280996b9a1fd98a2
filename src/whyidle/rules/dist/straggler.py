from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.dist.input_straggler import InputStraggler
from whyidle.rules.dist.length_imbalance import LengthImbalance


class Straggler(Rule):
    """One rank comes late to the collectives, and the others spin for it.

    ## Why it costs time
    A collective starts when the last rank has come. The others' GPUs spin in it meanwhile, which counts as busy. The
    step takes as long as on the slowest rank.

    ## How we know
    Of one collective the rank that enters last has the shortest kernel, since all leave together. What the others take
    longer they waited: no clocks are compared. The rank that waits least is the late one. With one rank's recording
    the value is a lower bound, and who is late is not known.

    If ranks meet too seldom in the recording to say what the late one does meanwhile, we are less sure.

    Waiting for a rank that itself waits for data, works on longer samples or collects garbage is not counted:
    `dist.input_straggler`, `dist.length_imbalance` and `host.gc_pause` speak of that.

    ## When to ignore it
    Pipeline stages wait by design: less with more micro-batches, never not at all.
    """

    needs = (("collective_wait_share",),)
    uses = (
        "collective_share", "late_share", "late_data_share", "late_compute_share", "late_gc_share", "late_host_share",
        "late_ranks", "late_different_ranks", "late_steps", "gpu_slowdown", "slow_gpus",
    )  # fmt: skip
    explains = ("peer_wait",)

    confidence = Threshold(0.8, "probability", source="kernel lengths of all ranks: right in 13 of 13 simulated jobs, bench/README.md")
    alone_confidence = Threshold(0.5, "probability", source="judgement: contention on one rank looks the same")
    reason_confidence = Threshold(
        0.5, "probability", source="judgement: who is late shows, not whether he waits for data, computes more or pauses"
    )
    turns_confidence = Threshold(0.4, "probability", source="judgement: neither who is late nor why was to be measured")
    few = Threshold(3, "steps", source="judgement: of fewer late steps the reason may be chance")
    half = Threshold(0.5, "of the longest wait", source="judgement: the late rank waits far less than the others")
    told = Threshold(0.1, "of the lateness", source="judgement: less is not worth a look")
    applies = Threshold(0.4, "probability", source="judgement: what makes the rank late has to be found first")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        waits = m.number("collective_wait_share")
        always = "late_ranks" in m and bool(m.one("late_ranks").value)
        # once a rank that is always late is like the others, the step gets shorter by what they wait; not by the mean,
        # in which the late rank waits for nobody
        lost = max(waits, m.get("late_share", 0.0) if always else 0.0) * self._unclaimed(m)
        ranks = sorted(m.each("collective_wait_share"), key=lambda part: float(part.value))
        late = ranks[0].subject.replace(" ", "_").upper() if ranks else "THE_LATE_RANK"
        yield from self.finding(
            f"GPUs spin in collectives, waiting for another rank, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self._sure(m, ranks),
            seen=self._seen(waits, ranks) + self._why(m) + self._clock(m),
            locations=m.one("collective_wait_share").locations,
            fixes=(
                *self._cooler(m),
                Fix(
                    "make the late rank as quick as the others: look at what it does while they wait",
                    f"whyidle TRACE_OF_{late}  # its own idle time and kernels, against those of another rank",
                    effort="code",
                    applies=self.applies,
                    risk="none by looking",
                    edits=(Edit("scale_device", {"class": "collective_wait"}, {"factor": 0.0}),),
                ),
            ),
            candidates=("dist.input_straggler", "dist.length_imbalance", "host.gc_pause", "hw.thermal", "hw.power_cap"),
        )

    def _sure(self, m: Measurements, ranks: list[Measurement]) -> float:
        if not ranks:
            return self.alone_confidence
        if "late_share" in m and m.get("late_steps", self.few) >= self.few:
            return self.confidence
        return self.reason_confidence if self._one_late(ranks) else self.turns_confidence

    def _one_late(self, ranks: list[Measurement]) -> bool:
        return float(ranks[0].value) < self.half * float(ranks[-1].value)

    def _unclaimed(self, m: Measurements) -> float:
        """Return the part of the waiting that rules about its reason do not speak for."""
        late = m.get("late_share", 0.0)
        claimed = InputStraggler.claimed(m) + LengthImbalance.claimed(m) + m.get("late_gc_share", 0.0)
        return max(1 - claimed / late, 0.0) if late > 0 else 1.0

    def _why(self, m: Measurements) -> str:
        """Return what the late rank does while the others wait, where that was measured."""
        late = m.get("late_share", 0.0)
        parts = {
            "waits for data": m.get("late_data_share", 0.0),
            "computes": m.get("late_compute_share", 0.0),
            "collects garbage": m.get("late_gc_share", 0.0),
            "idles while its host is busy": m.get("late_host_share", 0.0),
        }
        said = [f"{what} ({part / late:.0%})" for what, part in parts.items() if late > 0 and part >= self.told * late]
        return f"; meanwhile the late one {', '.join(said)}" if said else ""

    def _clock(self, m: Measurements) -> str:
        """Return which GPUs are slow in themselves, where that was measured."""
        ranks = str(m.one("slow_gpus").value) if "slow_gpus" in m else ""
        if not ranks:
            return ""
        return (
            f"; the same kernels take {m.get('gpu_slowdown', 1.0):.2f} times as long on the GPU of rank {ranks} as on the "
            "others: a lower clock, or a neighbour"
        )

    def _cooler(self, m: Measurements) -> Iterator[Fix]:
        if self._clock(m):
            yield Fix(
                "see why the clock of the slow GPU is lower, or leave its host out",
                "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK  # on its host, while the job runs",
                effort="setting",
                applies=self.applies,
                risk="none by looking",
                edits=(Edit("scale_device", {"class": "collective_wait"}, {"factor": 0.0}),),
            )

    def _seen(self, lost: float, ranks: list[Measurement]) -> str:
        if not ranks:
            return f"collectives take at least {lost:.0%} of the time longer than the fastest of the same kind and size"
        least, most = ranks[0], ranks[-1]
        if self._one_late(ranks):
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
        Fires("one of two: the other waits", collective_wait_share=0.015, late_share=0.03, late_ranks="1"),
        Silent(
            "the late rank waits for data: dist.input_straggler",
            collective_wait_share=0.25,
            late_share=0.3,
            late_data_share=0.3,
            late_ranks="3",
        ),
        Fires(
            "a GPU that is too hot",
            collective_wait_share=0.1,
            late_share=0.12,
            late_compute_share=0.12,
            late_ranks="3",
            gpu_slowdown=1.15,
            slow_gpus="3",
        ),
        Silent("collectives of equal length", collective_wait_share=0.004, collective_share=0.35),
    )
