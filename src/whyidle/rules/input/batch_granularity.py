from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_workers
from whyidle.rules.input.late_workers import GRANULARITY, WAIT


class BatchGranularity(Rule):
    """An epoch has hardly more batches than the loader has workers: each epoch is one wait and one burst.

    ## Why it costs time
    Workers make batches ahead within an epoch only. At the beginning of each one nothing is ready, and the first batch
    takes as long as one worker needs for all of it. With four batches per epoch that is paid every four steps; workers
    that start again in each epoch come on top.

    ## How we know
    The training loader has no more batches than workers, or no more than four, it was begun at least twice, and
    at least half of the wait for data is for the first batch of an epoch. All of that wait is counted: with epochs in
    a row batches are made ahead across their ends.

    ## When to ignore it
    The epochs are a test with little data. Smaller batches also give more of them, but change the learning recipe.
    """

    needs = (("lost_data_first_share", "batches_per_epoch", "num_workers", "epochs"),)
    uses = ("persistent_workers", *late_workers.READ)
    explains = ("data_wait",)

    handful = late_workers.HANDFUL
    again = late_workers.AGAIN
    mostly = late_workers.EXPLAINS
    confidence = Threshold(0.8, "probability", source="judgement, not calibrated yet: lengths and waits were seen")
    row_applies = Threshold(0.6, "probability", source="judgement: code that counts epochs has to change")
    keep_applies = Threshold(0.8, "probability", source="judgement: needs a loader that lives as long as the training")
    residual = Threshold(0.1, "of the wait", source="judgement: the first batch of all remains")
    kept = Threshold(0.5, "of the wait", source="judgement: half is the start of workers, half the making of a batch")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = late_workers.claimed(m, GRANULARITY)
        keeps = "persistent_workers" in m and bool(m.one("persistent_workers").value)
        yield from self.finding(
            f"Epochs are so short that no batch is ready when they begin, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{m.number('batches_per_epoch'):.0f} batches per epoch for {m.number('num_workers'):.0f} workers, "
                f"{m.number('epochs'):.0f} epochs; waiting for their first batch takes "
                f"{m.number('lost_data_first_share'):.0%} of the time, for the others {m.get(WAIT, 0.0):.0%}"
            ),
            locations=m.one("lost_data_first_share").locations,
            fixes=(self._row(),) if keeps else (self._keep(), self._row()),
            candidates=() if keeps else ("input.worker_startup",),
        )

    def _keep(self) -> Fix:
        return Fix(
            "keep the workers between epochs",
            "DataLoader(..., persistent_workers=True)",
            effort="argument",
            applies=self.keep_applies,
            risk="workers keep their memory between epochs",
            edits=(Edit("scale_host", {"cause": "data_wait", "step": "first"}, {"factor": self.kept, "prior": 1.0}),),
        )

    def _row(self) -> Fix:
        return Fix(
            "go over the data many times in one epoch, and do per so many steps what is done per epoch",
            "sampler = RandomSampler(dataset, num_samples=100 * len(dataset))  # 100 epochs in a row\n"
            "DataLoader(dataset, sampler=sampler, persistent_workers=True)\n"
            "# data that fits into memory: keep it on the GPU, and use no loader",
            effort="code",
            applies=self.row_applies,
            risk="schedules, evaluation and checkpoints that count epochs have to count steps",
            edits=(
                Edit("scale_host", {"cause": "data_wait", "step": "first"}, {"factor": self.residual, "prior": 1.0}),
            ),
        )

    cases = (
        Fires(
            "four batches per epoch, eight workers",
            lost_data_first_share=0.5,
            lost_data_workers_share=0.1,
            batches_per_epoch=4,
            num_workers=8,
            epochs=40,
        ),
        Fires(
            "workers stay, and still nothing is ready",
            lost_data_first_share=0.4,
            batches_per_epoch=4,
            num_workers=2,
            epochs=40,
            persistent_workers=True,
        ),
        Silent(
            "long epochs, whose workers start again: input.worker_startup",
            lost_data_first_share=0.4,
            batches_per_epoch=300,
            num_workers=8,
            epochs=5,
        ),
        Silent(
            "few batches, each of them late: input.workers_too_few",
            lost_data_first_share=0.1,
            lost_data_workers_share=0.5,
            batches_per_epoch=4,
            num_workers=2,
            epochs=5,
        ),
        Silent("one epoch", lost_data_first_share=0.1, batches_per_epoch=4, num_workers=8, epochs=1),
        Silent("no workers", lost_data_first_share=0.1, batches_per_epoch=4, num_workers=0, epochs=9),
    )
