from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class Evaluation(Rule):
    """The GPU is idle during evaluation: metrics and data are made on one core.

    ## Why it costs time
    Evaluation often has what training got rid of: a loader without workers, `.item()` or `.cpu()` per
    batch, and a metric in Python over all predictions. Training waits for all of it.

    ## How we know
    The GPU is idle while the launching thread is in a range named for evaluation or validation. Time in
    which the GPU computes there is work, and not counted.

    ## When to ignore it
    The share is that of the recording. If it happened to catch one evaluation per epoch, divide by how
    often it comes.
    """

    needs = (("idle_evaluation_share",),)
    uses = ("evaluation_share", "window_s")
    explains = ("evaluation",)

    confidence = Threshold(
        0.7, "probability", source="the range's name says what it is; its rate is that of the recording"
    )
    applies = Threshold(0.6, "probability", source="judgement: some metrics exist on the CPU only")
    residual = Threshold(0.3, "of the pause", source="judgement: the final metric remains")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("idle_evaluation_share")
        total = f" of its {m.number('evaluation_share'):.0%}" if "evaluation_share" in m else ""
        over = f" of {m.number('window_s'):.3g} s" if "window_s" in m else ""
        yield from self.finding(
            f"The GPU is idle during evaluation, {lost:.0%} of the recorded time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"in ranges named for evaluation the GPU is idle {lost:.0%}{total}{over}; "
                "over the whole job it depends on how often"
            ),
            locations=m.one("idle_evaluation_share").locations,
            fixes=(
                Fix(
                    "keep predictions on the GPU, compute the metric once, load with workers",
                    "with torch.inference_mode():\n"
                    "    for x, y in DataLoader(validation, batch_size=256, num_workers=4, pin_memory=True):\n"
                    "        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()\n"
                    "accuracy = correct.item() / len(validation)  # the only read",
                    effort="code",
                    applies=self.applies,
                    risk="GPU memory for what is kept",
                    edits=(Edit("scale_host", {"cause": "evaluation"}, {"factor": self.residual}),),
                ),
            ),
        )

    cases = (
        Fires("a metric on one core", idle_evaluation_share=0.25, evaluation_share=0.3, window_s=30.0),
        Silent("the GPU computes all along", idle_evaluation_share=0.01, evaluation_share=0.3),
        Silent("none in the recording", idle_evaluation_share=0.0, evaluation_share=0.0),
    )
