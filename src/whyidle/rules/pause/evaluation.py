from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import LOW, Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import loader_model, taken


class Evaluation(Rule):
    """Training stands still for an evaluation in which the GPU is often idle: metrics and data are made on one core.

    ## Why it costs time
    Evaluation often has what training got rid of: a loader without workers, `.item()` or `.cpu()` per
    batch, and a metric in Python over all predictions. Training waits for all of it.

    ## How we know
    The GPU is idle while the launching thread is in a range named for evaluation or validation. What counts as
    lost is that idle time, and half of the work that the GPU does for it, but no more than the idle time again: as
    much goes away if the evaluation keeps the GPU busy and comes half as often. An evaluation in which the GPU only
    computes is work that was asked for, and not counted.

    `whyidle run` knows an evaluation by its forward passes without gradients, in all of the run, and counts what the
    GPU waits for meanwhile: data, metrics.

    ## When to ignore it
    The share is that of the recording. If it happened to catch one evaluation per epoch, divide by how
    often it comes.
    """

    needs = (("idle_evaluation_share",), ("lost_evaluation_share",))
    uses = (
        "evaluation_share", "evaluation_busy_share", "window_s", "evaluations", "host_evaluation_share", "on_gpu",
        "evaluation_data_share", "evaluation_batch_seconds", "evaluation_workers", *taken.READ,
    )  # fmt: skip
    explains = ("evaluation",)
    busy = ("evaluation_busy_share",)

    confidence = Threshold(
        0.8, "probability", source="the range's name says what it is; its rate is that of the recording"
    )
    applies = Threshold(0.6, "probability", source="judgement: some metrics exist on the CPU only")
    rarer_applies = Threshold(0.6, "probability", source="judgement: someone chose the interval for a reason")
    mostly = Threshold(0.5, "of the pause", source="judgement: the larger part is what to change first")
    workers = Threshold(4, "workers", source="kineto resnet50 sample pair; never more than there are CPUs")
    room = Threshold(2, "CPUs", source="arithmetic: one for the training process, one for a worker")
    load_applies = Threshold(0.7, "probability", source="judgement: fails for data sets that cannot be pickled")
    residual = Threshold(0.3, "of the pause", source="judgement: the final metric remains")
    rarer = Threshold(0.5, "of the pauses", source="arithmetic: half as many evaluations")

    @classmethod
    def busy_share(cls, m: Measurements) -> float:
        """Return the GPU's part of what half as many evaluations save, at most as much as the idle time."""
        if "lost_evaluation_share" in m:
            return 0.0
        return min(cls.rarer * m.get("evaluation_busy_share", 0.0), m.get("idle_evaluation_share", 0.0))

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        yield from self._watched(m) if "lost_evaluation_share" in m else self._recorded(m)

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("lost_evaluation_share")
        count = ""
        if "evaluations" in m:
            count = ", 1 evaluation" if m.number("evaluations") == 1 else f", {m.number('evaluations'):.0f} evaluations"
        total = (
            f" of the {m.number('host_evaluation_share'):.0%} that they take" if "host_evaluation_share" in m else ""
        )
        work = "the GPU's" if waits.on_gpu(m) else "the model's"
        yield from self.finding(
            f"Evaluation holds up training with what is not {work} work, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"evaluations wait for data and metrics {lost:.0%} of the watched time{total}{count}{self._data(m)}",
            locations=m.one("lost_evaluation_share").locations,
            fixes=self._fixes(m),
        )

    def _data(self, m: Measurements) -> str:
        """Return what is known of their loading."""
        if "evaluation_data_share" not in m:
            return ""
        workers = (
            f", of a loader with {m.number('evaluation_workers'):.0f} workers" if "evaluation_workers" in m else ""
        )
        return f"; waiting for batches takes {m.number('evaluation_data_share'):.0%}{workers}"

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        idle, work = m.number("idle_evaluation_share"), self.busy_share(m)
        if idle < LOW:
            return
        total = f" of its {m.number('evaluation_share'):.0%}" if "evaluation_share" in m else ""
        over = f" of {m.number('window_s'):.3g} s" if "window_s" in m else ""
        lost = idle + work
        yield from self.finding(
            f"Evaluation holds up training, and the GPU idles in it, which costs {lost:.0%} of the recorded time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"in ranges named for evaluation the GPU is idle {idle:.0%}{total}{over}"
                + (f", and half of its work there takes {work:.0%} or more" if work else "")
                + "; over the whole job it depends on how often"
            ),
            locations=m.one("idle_evaluation_share").locations,
            fixes=self._fixes(m),
        )

    def _fixes(self, m: Measurements) -> tuple[Fix, ...]:
        """Return what to change, that first which most of the pause goes to."""
        data = self._load(m)
        metric = self._metric(waits.on_gpu(m))
        mostly = m.get("evaluation_data_share", 0.0) >= self.mostly * m.get("lost_evaluation_share", 1.0)
        return (*data, metric, self._half()) if mostly else (metric, *data, self._half())

    def _load(self, m: Measurements) -> tuple[Fix, ...]:
        """Return workers for the loader of evaluations, where it has none, a CPU is free, and batches are worth it."""
        small = m.get("evaluation_batch_seconds", 1.0) <= loader_model.SMALL * loader_model.HANDOVER
        cpus = taken.per_rank(m)
        workers = min(int(self.workers), max(int(cpus) - 1, 1) if cpus is not None else int(self.workers))
        if small or m.get("evaluation_workers", 0.0) >= 1 or (cpus is not None and cpus < self.room):
            return ()
        pinned = ", pin_memory=True" if waits.on_gpu(m) else ""
        return (
            Fix(
                "make the batches of the evaluation in workers that stay from one to the next",
                f"DataLoader(validation, ..., num_workers={workers}{pinned}, "
                "persistent_workers=True)\n# made once, before the training",
                effort="argument",
                applies=self.load_applies,
                risk="memory for workers that are idle between evaluations",
                edits=(Edit("scale_host", {"cause": "evaluation"}, {"factor": self.residual, "prior": 1.0}),),
            ),
        )

    def _metric(self, on_gpu: bool) -> Fix:
        on = "on the GPU" if on_gpu else "in tensors"
        return Fix(
            f"keep what your metric needs {on}, and read it once at the end",
            "with torch.inference_mode():\n"
            "    for x, y in validation_loader:\n"
            "        metric.update(model(x.to(device)), y.to(device))  # your metric; sums stay tensors\n"
            "value = metric.compute()  # the only read",
            effort="code",
            applies=self.applies,
            risk="memory for what is kept",
            edits=(Edit("scale_host", {"cause": "evaluation"}, {"factor": self.residual, "prior": 1.0}),),
        )

    def _half(self) -> Fix:
        return Fix(
            "evaluate half as often",
            "eval_every = 2 * eval_every  # steps, or epochs, between two evaluations",
            effort="setting",
            applies=self.rarer_applies,
            risk="curves have fewer points, and the best model may be missed by more steps",
            edits=(
                Edit("scale_host", {"cause": "evaluation"}, {"factor": self.rarer, "fewer": 1 / self.rarer}),
                Edit("scale_device", {"range": "evaluation"}, {"factor": self.rarer, "fewer": 1 / self.rarer}),
            ),
        )

    cases = (
        Fires("watched: metrics on one core", lost_evaluation_share=0.2, evaluations=10, host_evaluation_share=0.25),
        Silent(
            "watched: the GPU computes all along, though the recording caught the end of one",
            lost_evaluation_share=0.01,
            host_evaluation_share=0.3,
            idle_evaluation_share=0.5,
        ),
        Fires("a metric on one core", idle_evaluation_share=0.25, evaluation_share=0.3, window_s=30.0),
        Fires(
            "as much again is work of the GPU",
            idle_evaluation_share=0.11,
            evaluation_share=0.2,
            evaluation_busy_share=0.09,
        ),
        Silent(
            "the GPU computes all along", idle_evaluation_share=0.01, evaluation_share=0.3, evaluation_busy_share=0.3
        ),
        Silent("none in the recording", idle_evaluation_share=0.0, evaluation_share=0.0),
    )
