from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_rank, late_workers


class WorkerStartup(Rule):
    """Most of the wait for data is for the first batch: the DataLoader's workers are starting.

    ## Why it costs time
    Without `persistent_workers=True` every `for batch in loader:` starts all workers again, each of
    which receives the data set object (pickled, where workers are spawned) and imports the script's
    modules. Nothing can be trained on until one worker has made a whole batch by itself.

    ## How we know
    The loader has worker processes, at least three steps were recorded, and at least half of the GPU's
    wait in `DataLoader.__next__` falls into the first batch. Where waits of about the same length recur
    after every so many batches, each is the start of an epoch, and all of them count. A single one may be
    anything that is slow once, so it is no more than a suggestion. Starting the processes happens before
    `__next__`, in the iterator's constructor, so the true cost is higher than what we count.

    `whyidle run` sees the beginning of every epoch, the start of the processes included. What stays with
    `persistent_workers=True` is taken off: one batch per epoch, which one worker makes while nothing is
    queued. Epochs that have hardly more batches than workers are `input.batch_granularity`'s.

    ## When to ignore it
    Epochs are long: the start is paid once per epoch, while the share here is that of the recording.
    The first epoch pays it in any case, and reading cold files for the first time looks the same.
    """

    needs = (("idle_loader_workers_share", "loader_first_wait_share", "steps"), ("lost_data_first_share",))
    uses = (
        "loader_start_waits",
        "loader_start_wait_share",
        "persistent_workers",
        "host_start_share",
        "on_gpu",
        *late_workers.READ,
    )
    explains = ("data_wait",)

    concentrated = Threshold(0.5, "of idle_loader_workers", source="judgement: most of the wait")
    evenly = Threshold(2, "times an even share", source="judgement: an even wait puts one part in as many steps there")
    enough_steps = Threshold(3, "steps", source="with fewer, the first batch is an ordinary share of the recording")
    recurs = Threshold(2, "waits", source="of one alone nobody knows whether it comes again")
    confidence = Threshold(0.6, "probability", source="judgement, not calibrated yet: cold storage looks the same")
    once_confidence = Threshold(
        0.4, "probability", source="judgement, not calibrated yet: a CPU that is taken away once looks the same"
    )
    watched_confidence = Threshold(
        0.85, "probability", source="judgement, not calibrated yet: each beginning of an epoch was seen"
    )
    kept_applies = Threshold(0.4, "probability", source="judgement: code that counts epochs has to change")
    applies = Threshold(0.8, "probability", source="judgement: needs a loader that lives as long as the training")
    residual = Threshold(0.1, "of the wait", source="judgement: the first epoch still pays, one in ten assumed")

    @classmethod
    def startup_share(cls, m: Measurements) -> float:
        """Return the idle share of the window that is worker start-up; 0 where the wait is spread over the steps."""
        first = m.get("loader_first_wait_share", 0.0)
        steps = m.get("steps", 0.0)
        if steps < cls.enough_steps or first < max(cls.concentrated, cls.evenly / steps):
            return 0.0
        starts = m.get("loader_start_wait_share", 0.0) if cls._again(m) else 0.0
        return m.get("idle_loader_workers_share", 0.0) * max(first, starts)

    @classmethod
    def _again(cls, m: Measurements) -> bool:
        return m.get("loader_start_waits", 0.0) >= cls.recurs and "loader_start_wait_share" in m

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        yield from self._watched(m) if "lost_data_first_share" in m else self._recorded(m)

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        first = late_rank.own(m, "lost_data_first_share")
        kept = "persistent_workers" in m and bool(m.one("persistent_workers").value)
        if late_workers.few_batches(m) or m.get("num_workers", 1.0) < 1:
            return
        lost = first if kept else max(first - self._stays(m), 0.0)
        what = "At the beginning of each epoch no batch is ready" if kept else "The DataLoader's workers start again"
        yield from self.finding(
            f"{what} while {waits.who(m)} waits, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.watched_confidence,
            seen=self._seen(m, lost, kept),
            locations=m.one("lost_data_first_share").locations,
            fixes=(self._endless() if kept else self._keep(1 - lost / first if first > 0 else 0.0),),
        )

    def _seen(self, m: Measurements, lost: float, kept: bool) -> str:
        """Return what shows it: the whole wait, and what of it the message counts."""
        first = late_rank.own(m, "lost_data_first_share")
        epochs = f" of {m.number('epochs'):.0f} epochs" if "epochs" in m else " of each epoch"
        if kept:
            return f"waiting for the first batch{epochs} takes {first:.0%} of the watched time though workers stay"
        parts = [f"waiting for workers to start and for the first batch{epochs} takes {first:.0%} of the watched time"]
        if "host_start_share" in m:
            parts.append(f"to start the processes alone is {m.number('host_start_share'):.0%}")
        if first - lost > 0:
            parts.append(f"{first - lost:.0%} is one worker's time for a first batch, which stays in any case")
        return "; ".join(parts)

    def _stays(self, m: Measurements) -> float:
        """Return the part of watched time in which one worker makes the first batch of an epoch, in any case."""
        if "watched_s" not in m or m.number("watched_s") <= 0:
            return 0.0
        return m.get("epochs", 0.0) * m.get("batch_seconds", 0.0) / m.number("watched_s")

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        lost = self.startup_share(m)
        yield from self.finding(
            f"The DataLoader's workers start while {waits.who(m)} waits, {lost:.0%} of the recorded time.",
            lost_share=lost,
            confidence=self.confidence if self._again(m) else self.once_confidence,
            seen=(
                f"{m.number('loader_first_wait_share'):.0%} of the wait for data falls into the first of "
                f"{m.number('steps'):.0f} steps{self._others(m)}; over a whole epoch the share is smaller"
            ),
            locations=m.one("idle_loader_workers_share").locations,
            fixes=(self._keep(),),
        )

    def _keep(self, left: float | None = None) -> Fix:
        """Return the fix; `left` is what stays of the wait, where that was measured."""
        coefficients = {"factor": self.residual, "prior": 1.0} if left is None else {"factor": left}
        return Fix(
            "keep the workers between epochs",
            "DataLoader(..., persistent_workers=True)",
            effort="argument",
            applies=self.applies,
            risk="workers keep their memory between epochs, also those of a validation loader",
            edits=(Edit("scale_host", {"cause": "data_wait", "step": "first"}, coefficients),),
        )

    def _endless(self) -> Fix:
        return Fix(
            "let one pass over the loader go over all epochs, so that batches are made ahead across them",
            "sampler = RandomSampler(dataset, num_samples=epochs * len(dataset))  # epochs in a row\n"
            "DataLoader(dataset, sampler=sampler, persistent_workers=True)",
            effort="code",
            applies=self.kept_applies,
            risk="ends of epochs have to be counted in steps; with several ranks the sampler has to be their own",
            edits=(
                Edit("scale_host", {"cause": "data_wait", "step": "first"}, {"factor": self.residual, "prior": 1.0}),
            ),
        )

    def _others(self, m: Measurements) -> str:
        if not self._again(m):
            return ", once"
        others = max(m.number("loader_start_wait_share") - m.number("loader_first_wait_share"), 0.0)
        return f", and {others:.0%} into {m.number('loader_start_waits') - 1:.0f} more that recur as evenly as epochs"

    cases = (
        Fires(
            "three epochs of four batches, each with a long first one",
            idle_loader_workers_share=0.22,
            loader_first_wait_share=0.6,
            loader_start_waits=3,
            loader_start_wait_share=1.0,
            steps=10,
        ),
        Fires(
            "one long first batch",
            idle_loader_workers_share=0.3,
            loader_first_wait_share=0.95,
            steps=10,
        ),
        Fires(
            "watched: ten epochs, 3 s each to start",
            lost_data_first_share=0.3,
            epochs=10,
            watched_s=100.0,
            batch_seconds=0.2,
            num_workers=4,
            persistent_workers=False,
        ),
        Fires(
            "watched: workers stay, and a batch takes one of them 3 s",
            lost_data_first_share=0.3,
            epochs=10,
            watched_s=100.0,
            batch_seconds=3.0,
            num_workers=4,
            batches_per_epoch=50,
            persistent_workers=True,
        ),
        Silent(
            "watched: what is lost at the beginning is the making of one batch, which stays",
            lost_data_first_share=0.3,
            epochs=10,
            watched_s=100.0,
            batch_seconds=3.0,
            num_workers=4,
            persistent_workers=False,
        ),
        Silent(
            "watched: three batches per epoch: input.batch_granularity",
            lost_data_first_share=0.3,
            epochs=30,
            batches_per_epoch=3,
            num_workers=4,
        ),
        Silent(
            "watched: the first batch of many is like the others",
            lost_data_first_share=0.01,
            lost_data_workers_share=0.4,
            idle_loader_workers_share=0.3,
            loader_first_wait_share=0.95,
            steps=10,
        ),
        Silent(
            "every batch is late: input.workers_too_few",
            idle_loader_workers_share=0.3,
            loader_first_wait_share=0.12,
            steps=10,
        ),
        Silent(
            "three workers in lockstep: every third batch is late alike, the first no more than the others",
            idle_loader_workers_share=0.3,
            loader_first_wait_share=0.25,
            loader_start_waits=4,
            loader_start_wait_share=1.0,
            steps=12,
        ),
        Silent(
            "a single step: its batch is the first and the last",
            idle_loader_workers_share=0.3,
            loader_first_wait_share=1.0,
            steps=1,
        ),
    )
