from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class LengthImbalance(Rule):
    """In each step another rank has more to compute, and all others wait for it.

    ## Why it costs time
    Ranks get batches of as many samples, but not of as many tokens, frames or pixels. A step takes as long as the
    largest batch of all ranks needs; the GPUs of the others spin in the next collective meanwhile.

    ## How we know
    In steps in which a rank comes late to a collective that all ranks share, its GPU computes longer than the others',
    and it is not always the same rank. A rank that is slow in itself is late in nearly every step (`dist.straggler`);
    one whose host pauses computes no longer than the others.

    ## When to ignore it
    Padding to one length for all ranks would make the waiting disappear and save nothing.
    """

    needs = (("late_share", "late_compute_share"),)
    uses = ("collective_wait_share", "late_ranks", "late_different_ranks", "late_steps")
    explains = ("peer_wait",)

    most = Threshold(0.5, "of the lateness", source="judgement: what makes up the larger part is the reason")
    often = Threshold(3, "steps", source="judgement: in fewer a rank may come late by chance")
    turns = Threshold(2, "ranks", source="arithmetic: with one rank nobody takes turns")
    confidence = Threshold(
        0.8,
        "probability",
        source="right in 14 of 14 simulated jobs, bench/README.md; kept at it, since GPUs whose clocks vary look the same",
    )
    applies = Threshold(0.6, "probability", source="judgement: samples can be sorted, packed or dealt out by length")
    residual = Threshold(0.2, "of the wait", source="judgement: lengths never divide evenly")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return how much of the lateness this rule speaks for, as a share of the window; 0 where it is silent."""
        computes = m.get("late_compute_share", 0.0)
        always = "late_ranks" not in m or bool(m.one("late_ranks").value)
        few = m.get("late_different_ranks", 0.0) < cls.turns or m.get("late_steps", 0.0) < cls.often
        return 0.0 if always or few or computes < cls.most * m.get("late_share", 0.0) else computes

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        claimed = self.claimed(m)
        # to share the work equally takes the longest rank back to the mean: as much as all wait on average
        lost = min(claimed, m.get("collective_wait_share", claimed))
        ranks, steps = m.get("late_different_ranks", 0.0), m.get("late_steps", 0.0)
        yield from self.finding(
            f"In each step another rank has more to compute, and waiting for it costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"in {steps:.0f} steps a rank comes late, {ranks:.0f} different ones; computing longer than the others "
                f"makes up {claimed / max(m.number('late_share'), claimed, 1e-9):.0%} of the lateness"
            ),
            locations=m.one("late_compute_share").locations,
            fixes=(
                Fix(
                    "give every rank as many tokens, not as many samples",
                    "# deal out each global batch by length: sort it, hand it to the ranks in turn, back and forth\n"
                    "# or pack samples to a fixed number of tokens (flash attention: varlen), or bucket by length",
                    effort="code",
                    applies=self.applies,
                    risk="batches of like lengths are no longer a random sample: shuffle between buckets",
                    edits=(Edit("scale_device", {"class": "collective_wait", "to": "mean"}, {"factor": self.residual, "prior": 1.0}),),
                ),
            ),
            candidates=("dist.straggler", "hw.thermal"),
        )

    cases = (
        Fires(
            "sequences of unequal length",
            collective_wait_share=0.2,
            late_share=0.3,
            late_compute_share=0.28,
            late_ranks="",
            late_different_ranks=5,
            late_steps=9,
        ),
        Silent(
            "always the same rank: dist.straggler",
            collective_wait_share=0.2,
            late_share=0.3,
            late_compute_share=0.28,
            late_ranks="3",
            late_different_ranks=1,
            late_steps=9,
        ),
        Silent(
            "a host pauses, each time another: host.gc_pause",
            collective_wait_share=0.2,
            late_share=0.3,
            late_compute_share=0.01,
            late_ranks="",
            late_different_ranks=5,
            late_steps=9,
        ),
        Silent("no collectives", late_share=0.0, late_compute_share=0.0),
        Silent(
            "a single long batch",
            collective_wait_share=0.05,
            late_share=0.06,
            late_compute_share=0.06,
            late_ranks="",
            late_different_ranks=1,
            late_steps=1,
        ),
    )
