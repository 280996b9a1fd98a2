from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_rank, loader_model, taken


class InputStraggler(Rule):
    """A rank comes late to the collectives because it waits for data, and all others wait for it.

    ## Why it costs time
    Every rank needs its batch before it can compute, and every collective needs every rank. The slowest loader of the
    job sets its pace: a host with slower storage, fewer cores or larger files holds up all GPUs, which spin meanwhile
    and count as busy.

    ## How we know
    From one collective that all ranks share to the next, each rank has the same time. The late rank is the one that
    waits least for its peers, and what it has more of than they is time in which its GPU idles in the DataLoader. If
    neighbouring ranks are late together, they share a host, or its storage.

    `whyidle run` sees every wait of every rank. Where all take as long for a step, and one waits longer for data, the
    others wait for it elsewhere; what it waits longer than any of them is lost. The rest is the loader's: `input.*`.

    ## When to ignore it
    The first steps of a job: workers start and caches are cold. Where all ranks wait for data alike nobody is late, and
    the `input.*` rules speak.
    """

    needs = (("late_share", "late_data_share"), ("late_loader_share",))
    uses = (
        "late_ranks", "late_steps", "late_different_ranks", "late_loader_ranks", "num_workers",
        *late_rank.READ, *loader_model.READ,
    )  # fmt: skip
    explains = ("data_wait", "peer_wait")

    most = Threshold(0.5, "of the lateness", source="judgement: what makes up the larger part is the reason")
    confidence = Threshold(0.85, "probability", source="lengths of all ranks, and no clock: right in 13 of 13 simulated jobs, bench/README.md")
    watched_confidence = Threshold(
        0.85, "probability", source="judgement, not calibrated yet: every wait was seen, and that ranks step together"
    )
    all_applies = Threshold(
        0.25, "probability", source="judgement: what makes the data of one rank slower stays, and all ranks get workers"
    )
    applies = Threshold(0.5, "probability", source="judgement: helps unless cores or storage of that host are the limit")
    host_applies = Threshold(0.6, "probability", source="judgement: once the difference is found, it can be mended")
    residual = Threshold(0.02, "of the wait", source="1.4 of 69 ms left with 4 workers: kineto resnet50 sample pair")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the window that this rule speaks for; 0 where it is silent."""
        data = m.get("late_data_share", 0.0)
        return data if data > 0 and data >= cls.most * m.get("late_share", 0.0) else 0.0

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        yield from self._watched(m) if "late_loader_share" in m else self._recorded(m)

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        lost = late_rank.claimed(m)
        ranks = str(m.one("late_loader_ranks").value) if "late_loader_ranks" in m else ""
        several = "," in ranks
        who = f"Rank{'s' if several else ''} {ranks} wait{'' if several else 's'}" if ranks else "One rank waits"
        yield from self.finding(
            f"{who} longer for data than the others, which costs all ranks {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.watched_confidence,
            seen=(
                f"all ranks take their steps together; the slowest waits {late_rank.total(m):.0%} of the watched time "
                f"for data, {lost:.0%} more than any of the others"
            ),
            locations=m.one("late_loader_share").locations,
            fixes=(self._compare(), *self._ahead(m, lost)),
            candidates=("input.storage",),
        )

    def _ahead(self, m: Measurements, lost: float) -> Iterator[Fix]:
        """Yield more workers where there is room for them, and batches are worth it."""
        plan = loader_model.plan(m, lost, handover=loader_model.HANDOVER)
        workers = taken.at_most(m, plan.workers) if plan is not None else 0  # of every rank
        if workers > m.get("num_workers", 0.0) and not loader_model.small(m):
            change = f"DataLoader(..., num_workers={workers}, prefetch_factor=4, persistent_workers=True)"
            yield self._further(change, self.all_applies)

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        lost = self.claimed(m)
        if not lost:
            return
        ranks = str(m.one("late_ranks").value) if "late_ranks" in m else ""
        several = not ranks.isdecimal()
        who = f"Rank{'s' if several else ''} {ranks} come{'' if several else 's'}" if ranks else "A rank comes"
        yield from self.finding(
            f"{who} late because {'they wait' if ranks and several else 'it waits'} for data, "
            f"which costs all ranks {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=self._seen(m, ranks),
            locations=m.one("late_data_share").locations,
            fixes=(
                self._further(
                    "DataLoader(..., num_workers=2 * num_workers, prefetch_factor=4, persistent_workers=True)",
                    self.applies,
                ),
                self._compare(),
            ),
            candidates=("input.storage", "input.workers_too_few"),
        )

    def _further(self, change: str, applies: float) -> Fix:
        return Fix(
            "let the loader of the late rank run further ahead",
            change,
            effort="argument",
            applies=applies,
            risk="no gain where the cores or the storage of that host are the limit; memory grows",
            edits=(Edit("scale_host", {"cause": "data_wait", "rank": "late"}, {"factor": self.residual, "prior": 1.0}),),
        )

    def _compare(self) -> Fix:
        return Fix(
            "compare the late rank's data and host with another's, and make them equal",
            "nproc; iostat -x 1; df -h DATA  # on both: cores, waiting for the disk, which storage\n"
            "# equal shards of the data: as many files and bytes for each rank",
            effort="setting",
            applies=self.host_applies,
            risk="none by looking",
            edits=(Edit("scale_host", {"cause": "data_wait", "rank": "late"}, {"factor": 0.0}),),
        )

    def _seen(self, m: Measurements, ranks: str) -> str:
        part = m.number("late_data_share") / max(m.number("late_share"), m.number("late_data_share"))
        seen = f"waiting for data longer than the others makes up {part:.0%} of the lateness"
        if "late_steps" in m:
            seen = f"in {m.number('late_steps'):.0f} steps a rank comes late: {seen}"
        if not ranks and "late_different_ranks" in m:
            seen += f"; {m.number('late_different_ranks'):.0f} different ranks come last"
        if "-" in ranks:
            seen += "; neighbouring ranks are late together: look at what their host shares"
        return seen

    cases = (
        Fires(
            "one host reads from slower storage",
            late_share=0.2,
            late_data_share=0.19,
            late_ranks="8-15",
            late_steps=9,
        ),
        Fires("one batch in ten is slow, on any rank", late_share=0.1, late_data_share=0.1, late_ranks=""),
        Fires(
            "watched: one of two ranks waits for data 20 times as long",
            late_loader_share=0.6,
            late_loader_ranks="1",
            lost_data_zero_share=0.63,
        ),
        Silent("watched: ranks wait alike: input.*", late_loader_share=0.01, lost_data_zero_share=0.5),
        Silent("it computes longer: dist.length_imbalance", late_share=0.2, late_data_share=0.0, late_ranks=""),
        Silent("its host is late for another reason: dist.straggler", late_share=0.2, late_data_share=0.06, late_ranks="3"),
        Silent("all wait for data alike: input.workers_too_few", late_share=0.0, late_data_share=0.0, late_ranks=""),
    )
